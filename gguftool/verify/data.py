"""Tensor data: NaN, infinities and broken scales in every type, tensors of zeros, rows that are constant.

Data is read in pieces of 1 MiB by several threads, so memory stays the same at any file size; numpy works on a
piece without holding up the other threads. What makes a tensor bad is what ``llama-server --check-tensors`` refuses.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.format.header import Header, TensorInfo
from gguftool.processors import processors
from gguftool.records import dataclass, field
from gguftool.source import LocalFile, Source
from gguftool.verify.blocks import FLOATS, NOT_FOR_FILES, NUMBERS, any_special, special
from gguftool.verify.pages import FRONT, PAGE, Run, equal_pages
from gguftool.verify.result import Fault
from gguftool.verify.stream import Progress, fill, ignored
from gguftool.verify.stretches import Place, judged, stretches

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE = 1 << 20
"""Bytes read at a time by each thread."""
MOST_THREADS = 8
SHOWN = 6
"""Experts named in a message."""


@dataclass(slots=True)
class TensorCheck:
    """What is in the data of one tensor; counts grow while its pieces are looked at.

    Attributes:
        info: the tensor.
        start: where its data starts in the file.
        checked: False when nothing can be said of its type.
        blocks: number of blocks (of elements for F32, F16, BF16, F64).
        nan, inf: numbers that are NaN, infinite.
        bad: blocks with such a number.
        first: index of the first of them, or -1.
        experts: bad blocks by index along the third dimension, for tensors that have one.
        zero: every byte is zero.
        rows, constant: number of rows, and of those whose elements are all equal.
        pages: runs of equal pages of the file, see `gguftool.verify.pages`.
    """

    info: TensorInfo
    start: int
    checked: bool = True
    blocks: int = 0
    nan: int = 0
    inf: int = 0
    bad: int = 0
    first: int = -1
    experts: Counter[int] = field(default_factory=Counter)
    zero: bool = True
    rows: int = 0
    constant: int = 0
    pages: list[Run] = field(default_factory=list, compare=False)


def check_data(
    source: Source, header: Header, progress: Progress | None = None, jobs: int | None = None
) -> list[TensorCheck]:
    """Look at all tensor data of one file.

    Args:
        source: the file.
        header: its header; tensors that pass the end of the file are looked at as far as they go.
        progress: called with the bytes done since the last call, from several threads.
        jobs: threads; the number of processors, at most `MOST_THREADS`, when None.

    Returns:
        One entry for every tensor, in file order.

    Raises:
        Unreadable, ChangedMeanwhile: as `Source.read_at`.
    """
    import numpy  # noqa: F401  # before the threads: an import in several of them at once is slow

    found = [TensorCheck(t, header.where(t)[0]) for t in header.tensors]
    lock = threading.Lock()
    todo = _pieces(source, found, progress or ignored)
    failed: list[BaseException] = []

    def work() -> None:
        # One buffer for all pieces: new memory for each would keep the kernel busier than the processor.
        buffer = memoryview(bytearray(PIECE))
        while not failed:
            with lock:
                piece = next(todo, None)
            if piece is None:
                return
            try:
                check, start, n, block = piece
                got = fill(source, buffer[:n], start)
                _look(check, buffer[:got], block, header.big_endian, lock, start)
            except BaseException as error:
                # Raised again in the caller's thread.
                failed.append(error)
                return
            if progress:
                progress(n)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(jobs or min(MOST_THREADS, processors()))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        # Ctrl-C: the threads stop at their next piece.
        failed.append(error)
        raise
    if failed:
        raise failed[0]
    return found


def _pieces(
    source: Source, checks: Iterable[TensorCheck], progress: Progress
) -> Iterator[tuple[TensorCheck, int, int, int]]:
    """(tensor, offset in the file, bytes, index of the first block), in file order; whole rows where they fit.

    What was never written is zeros, whatever its length, and is judged here: no type calls a block of zeros invalid.
    """
    hole = behind = 0
    for check in checks:
        t = check.info.type
        nbytes = check.info.nbytes
        if t is None or nbytes is None or check.info.type_name not in NUMBERS:
            check.checked = False
            check.zero = False
            continue
        row = (check.info.shape[0] if check.info.shape else 1) // t.block_size * t.block_bytes
        check.blocks = nbytes // t.block_bytes
        check.rows = nbytes // row if row else 0
        end = min(check.start + nbytes, source.size) - check.start
        end -= end % t.block_bytes
        unit = row if 0 < row <= PIECE else t.block_bytes
        step = PIECE // unit * unit
        at = 0
        while at < end:
            here = check.start + at
            if here >= behind:
                hole, behind = source.hole(here) if isinstance(source, LocalFile) else (source.size, source.size)
            empty = min(behind, check.start + end) - here if hole <= here else 0
            if empty < end - at:
                empty -= empty % step
            if empty:
                check.pages.append((here - here % -PAGE, here + empty - (here + empty) % PAGE, bytes(FRONT)))
                check.constant += empty // row if _in_rows(check.info) and row <= PIECE else 0
                progress(empty)
                at += empty
                continue
            yield check, here, min(step, end - at), at // t.block_bytes
            at += step


def _look(check: TensorCheck, data: memoryview, first: int, big_endian: bool, lock: threading.Lock, start: int) -> None:
    """One piece of a tensor, beginning with block number ``first``, at ``start`` of the file."""
    import numpy as np

    t = check.info.type
    if t is None or not len(data):
        return
    name = check.info.type_name
    raw = np.frombuffer(data, np.uint8)
    blocks = raw.reshape(-1, t.block_bytes)
    zero = not _anything(raw)
    constant = _constant_rows(check.info, raw, zero)
    nan = inf = 0
    bad: NDArray | None = None  # type: ignore[type-arg]
    for number in NUMBERS[name]:
        if any_special(blocks, name, number, big_endian):
            is_nan, is_inf = special(blocks, name, number, big_endian)
            nan += int(is_nan.sum())
            inf += int(is_inf.sum())
            bad = is_nan | is_inf if bad is None else bad | is_nan | is_inf
    equal = equal_pages(data, start)
    with lock:
        check.pages += equal
        check.zero = check.zero and zero
        check.constant += constant
        if bad is None:
            return
        where = np.flatnonzero(bad)
        check.nan += nan
        check.inf += inf
        check.bad += len(where)
        index = first + int(where[0])
        check.first = index if check.first < 0 else min(check.first, index)
        if len(check.info.shape) > 2:
            per_expert = min(check.info.shape[0] // t.block_size * check.info.shape[1], sys.maxsize) or 1
            numbers, counts = np.unique((where + first) // per_expert, return_counts=True)
            check.experts.update(dict(zip(numbers.tolist(), counts.tolist(), strict=True)))


def _anything(raw: NDArray) -> bool:  # type: ignore[type-arg]
    """Whether any byte is not zero; looks at the front first, where that is nearly always decided."""
    words = len(raw) // 8 * 8
    return bool(raw[:4096].any()) or bool(raw[:words].view("u8").any()) or bool(raw[words:].any())


def _in_rows(info: TensorInfo) -> bool:
    """Whether it is a matrix whose rows have more than one block."""
    return info.type is not None and len(info.shape) > 1 and info.shape[0] // info.type.block_size > 1


def _constant_rows(info: TensorInfo, raw: NDArray, zero: bool) -> int:  # type: ignore[type-arg]
    """Rows of a matrix whose elements are all equal, among whole rows in this piece."""
    import numpy as np

    t = info.type
    if t is None or not _in_rows(info):
        return 0
    per_row = info.shape[0] // t.block_size
    row = per_row * t.block_bytes
    if len(raw) % row:
        return 0
    rows = raw.reshape(-1, per_row, t.block_bytes)
    if zero:
        return len(rows)
    # First and last block first: that leaves next to nothing for the comparison of all.
    likely = np.flatnonzero((rows[:, 0] == rows[:, 1]).all(axis=1) & (rows[:, 0] == rows[:, -1]).all(axis=1))
    if not len(likely):
        return 0
    same = [int(i) for i in likely if bool((rows[i] == rows[i, :1]).all())]
    if info.type_name in FLOATS or (info.type_name.startswith("I") and t.block_size == 1):
        return len(same)
    kinds = Counter(rows[i, 0].tobytes() for i in same)
    return sum(count for block, count in kinds.items() if _constant_block(block, info.type_name))


def _constant_block(block: bytes, type_name: str) -> bool:
    """Whether all elements of a quantised block are equal."""
    if not any(block):
        return True
    import numpy as np
    from gguf import GGMLQuantizationType
    from gguf.quants import dequantize

    kind = getattr(GGMLQuantizationType, type_name, None)
    try:
        with np.errstate(all="ignore"):
            values = dequantize(np.frombuffer(block, np.uint8).reshape(1, -1), kind) if kind is not None else None
    except (NotImplementedError, ValueError):
        return False
    return values is not None and bool((values == values.flat[0]).all())


def judge(checks: Sequence[TensorCheck], source: Source) -> tuple[list[Fault], list[Fault]]:
    """Faults (what llama.cpp calls invalid data, and stretches that no model has of itself) and notes of one file."""
    notes: list[Fault] = []
    found = judged(stretches(source, (run for c in checks for run in c.pages), _first(checks)), _places(checks))
    faults = [fault for fault, _, _ in found]
    checks = [c for c in checks if not any(a <= c.start < b or c.start < a < _end(c) for _, a, b in found) or c.bad]
    unknown = [c for c in checks if not c.checked and c.info.type_name not in NOT_FOR_FILES]
    for c in checks:
        name = c.info.name
        where = f"tensor:{name}"
        if c.info.type_name in NOT_FOR_FILES:
            message = f"{name} is of type {c.info.type_name}, which llama.cpp keeps no weights in and calls invalid"
            faults.append(Fault("not-a-file-type", message, where))
        elif c.bad:
            faults.append(_bad(c))
        elif c.zero and c.blocks:
            notes.append(Fault("zero-tensor", f"all {c.info.elements:,} elements of {name} are zero", where))
        elif c.constant:
            message = f"{c.constant:,} of {c.rows:,} rows of {name} are constant"
            notes.append(Fault("constant-rows", message, where))
    if unknown:
        kinds = ", ".join(sorted({c.info.type_name for c in unknown}))
        message = f"{len(unknown)} tensors of unknown type ({kinds}) were not looked at"
        notes.append(Fault("not-checked", message, f"tensor:{unknown[0].info.name}"))
    return faults, notes


def told_stretches(source: Source, header: Header, pages: Iterable[Run]) -> list[Fault]:
    """The stretches among the faults of `judge`, where who wrote the file has looked at all of it already.

    Args:
        source: the file.
        header: its header; its types are known.
        pages: what `equal_pages` found.
    """
    checks = [TensorCheck(t, header.where(t)[0]) for t in header.tensors]
    for check in checks:
        t, width = check.info.type, check.info.shape[0] if check.info.shape else 1
        row = width // t.block_size * t.block_bytes if t is not None else 0
        check.rows = (check.info.nbytes or 0) // row if row else 0
    return [fault for fault, _, _ in judged(stretches(source, pages, _first(checks)), _places(checks))]


def _end(c: TensorCheck) -> int:
    return c.start + (c.info.nbytes or 0)


def _first(checks: Sequence[TensorCheck]) -> int:
    return min((c.start for c in checks), default=0)


def _places(checks: Sequence[TensorCheck]) -> list[Place]:
    return [Place(c.info, c.start, _end(c), (c.info.nbytes or 0) // c.rows if c.rows else 0) for c in checks]


def _bad(c: TensorCheck) -> Fault:
    t = c.info.type
    block_bytes = t.block_bytes if t else 1
    found = " and ".join(f"{n:,} {what}" for n, what in ((c.nan, "NaN"), (c.inf, "infinite")) if n)
    plain = c.info.type_name in FLOATS
    unit = "elements" if plain else "blocks"
    kind = "not-finite" if plain else "bad-scale"
    what = f"{found} of {c.blocks:,} elements" if plain else f"{found} scales in {c.bad:,} of {c.blocks:,} blocks"
    experts = ""
    if c.experts:
        listed = ", ".join(str(e) for e in sorted(c.experts)[:SHOWN]) + (" …" if len(c.experts) > SHOWN else "")
        experts = f"; experts {listed} of {c.info.shape[2]}"
    at = c.start + c.first * block_bytes
    message = f"{c.info.name} ({c.info.type_name}): {what}; first at {unit[:-1]} {c.first:,} (byte {at:,}){experts}"
    hint = "llama-server --check-tensors refuses it; fetch or quantise it again"
    return Fault(kind, message, f"tensor:{c.info.name}", hint, (at, at + block_bytes))
