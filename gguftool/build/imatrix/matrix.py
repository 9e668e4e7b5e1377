"""An importance matrix as it was measured: sums over tokens, not yet divided, and how many tokens there were.

Two forms: GGUF (tensors ``NAME.in_sum2``, ``NAME.counts``, ``NAME.in_sum``) and the older ``.dat``. Both are read as
`imatrix-loader.cpp:common_imatrix_load` and `imatrix.cpp:load_imatrix` (b11434) read them.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import FormatError, NotGguf, Refused
from gguftool.model import Model, open_model
from gguftool.model.imatrix import CHUNK, CHUNKS, COUNTS, DATASETS, NEXTN, SQUARES, SUMS
from gguftool.model.imatrix import entries as stored
from gguftool.predict.pairs import wrong_role
from gguftool.records import dataclass, field
from gguftool.source import LocalFile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gguftool.model.part import Tensor

CHUNK_SIZE = 512
"""Tokens of a chunk where the file does not tell: llama-imatrix's own default."""
MOST = 8 << 30
"""Bytes of data that are read. That of a model with 60 layers of 384 experts has 3 GiB."""
_LONGEST_NAME = 4096
_LARGEST_COUNT = float(1 << 52)


@dataclass(frozen=True, slots=True)
class Entry:
    """What was measured for one weight.

    Attributes:
        squares: sums of squares of what its columns were multiplied with; a row for each expert, in f32.
        counts: tokens that each expert saw; one number for all experts where the file has one, as ``.dat`` does.
        sums: plain sums, shaped as ``squares``; None in older files.
    """

    squares: NDArray[np.float32]
    counts: NDArray[np.int64]
    sums: NDArray[np.float32] | None = None

    __repr__ = short_repr

    @property
    def elements(self) -> int:
        """Numbers of all experts."""
        return int(self.squares.size)

    @property
    def rows(self) -> NDArray[np.float32]:
        """The squares, a row for each count."""
        return self.squares.reshape(len(self.counts), -1)

    def means(self) -> NDArray[np.float32]:
        """Mean squares, a row for each count, as llama-quantize takes them: 1 where no token was seen."""
        import numpy as np

        rows = self.rows
        out = np.ones_like(rows)
        # What is not finite is judged by whoever asks, not warned of.
        with np.errstate(all="ignore"):
            counts = self.counts.astype(np.float32)[:, None]
            np.divide(rows, counts, out=out, where=counts > 0)
        return out


@dataclass(frozen=True, slots=True)
class Matrix:
    """All of a file.

    Attributes:
        entries: by the name of the weight, in the order of the file.
        datasets: the texts it was measured on.
        chunks: pieces of text, 0 when unknown.
        chunk_size: tokens of a piece, 0 when unknown.
        nextn: how many of the last layers predict further tokens.
        legacy: it was read from a ``.dat``: its counts are chunks, not tokens.
        path: file it was read from.
        lacks: keys that llama-quantize wants and the file does not have.
    """

    entries: Mapping[str, Entry]
    datasets: tuple[str, ...] = ()
    chunks: int = 0
    chunk_size: int = 0
    nextn: int = 0
    legacy: bool = False
    path: str = ""
    lacks: tuple[str, ...] = field(default=())

    __repr__ = short_repr

    @property
    def sizes(self) -> dict[str, int]:
        """Number of values by tensor name."""
        return {name: entry.elements for name, entry in self.entries.items()}

    @property
    def form(self) -> str:
        """``dat`` or ``gguf``."""
        return "dat" if self.legacy else "gguf"


def load(path: str) -> Matrix:
    """Read an importance matrix of either form.

    Raises:
        MissingFile, Unreadable: no such file, no permission.
        FormatError: it is neither form, or its parts do not fit together.
        Refused: it is larger than any.
    """
    try:
        with open_model(path, whole_set=False) as model:
            return _from_gguf(model, path)
    except NotGguf:
        return _from_dat(path)


def _from_gguf(model: Model, path: str) -> Matrix:
    import numpy as np

    found: dict[str, Entry] = {}
    # llama.cpp knows a tensor by its name up to a NUL.
    held = {id(t.info): t for t in model.all_tensors()}
    wanted = stored(model)
    _bounded(path, sum(t.nbytes or 0 for t in held.values()))
    for one in wanted:
        base, squares, counts = one.name, one.squares, one.counts
        if len(base) > _LONGEST_NAME:
            raise FormatError(f"{path}: is no importance matrix: the name of an entry has {len(base):,} letters")
        if squares is None or counts is None:
            raise FormatError(f"{path}: {base} has sums without counts, or counts without sums", key=base)
        if not one.paired:
            raise FormatError(f"{path}: {base} has as many {SUMS} as it has columns, or none", key=base)
        for end, info in ((SQUARES, squares), (COUNTS, counts)):
            if info.type_name != "F32":
                raise FormatError(f"{path}: {base}{end} is {info.type_name}, not F32", key=base + end)
        values, seen = _floats(held[id(squares)]), _floats(held[id(counts)])
        if not len(seen) or len(values) % len(seen):
            raise FormatError(f"{path}: {base} has {len(values)} sums and {len(seen)} counts", key=base)
        with np.errstate(all="ignore"):
            # Halves go away from zero, as `std::lround` has it (`common/imatrix-loader.cpp`, b11434).
            whole = np.trunc(seen + np.copysign(np.float32(0.5), seen))
            whole = np.nan_to_num(whole, nan=0.0, posinf=0.0, neginf=0.0)
            numbers = np.clip(whole, -_LARGEST_COUNT, _LARGEST_COUNT).astype(np.int64)
        plain = one.sums if one.sums is not None and one.sums.type_name == "F32" else None
        sums = None if plain is None else _floats(held[id(plain)]).reshape(len(seen), -1)
        found[base] = Entry(values.reshape(len(seen), -1), numbers, sums)
    if not found:
        wrong = wrong_role(model, "imatrix")
        if wrong is not None:
            raise FormatError(f"{path}: {wrong.message}", f"llama-imatrix makes one; {wrong.hint}")
        raise FormatError(f"{path}: has no tensors named *{SQUARES}", "llama-imatrix makes one")
    datasets = model.get(DATASETS)
    return Matrix(
        found,
        tuple(map(str, datasets)) if isinstance(datasets, list) else (),
        _count(model, CHUNKS),
        _count(model, CHUNK),
        _count(model, NEXTN),
        path=path,
        lacks=tuple(key for key in (DATASETS, CHUNKS, CHUNK) if key not in model.fields),
    )


def _floats(tensor: Tensor) -> NDArray[np.float32]:
    import numpy as np

    return np.frombuffer(tensor.read(), tensor.part.header.layout.order + "f4").astype("<f4", copy=False)


def _count(model: Model, key: str) -> int:
    value = model.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 31 else 0


def _bounded(path: str, size: int) -> None:
    if size > MOST:
        raise Refused(f"{path}: {size:,} bytes are more than an importance matrix of any model has")


def _from_dat(path: str) -> Matrix:
    file = LocalFile(path)
    try:
        _bounded(path, file.size)
        data = file.read_at(0, file.size)
    finally:
        file.close()
    return parse_dat(data, path)


def parse_dat(data: bytes, path: str) -> Matrix:
    """Read the bytes of the older form.

    Raises:
        FormatError: they are something else, or cut off.
    """
    import numpy as np

    pos = 0

    def number(what: str) -> int:
        nonlocal pos
        if pos + 4 > len(data):
            raise FormatError(f"{path}: {what} is cut off", offset=pos, kind="truncated")
        pos += 4
        return int(struct.unpack_from("<i", data, pos - 4)[0])

    def take(n: int, what: str) -> bytes:
        nonlocal pos
        if n < 0 or pos + n > len(data):
            raise FormatError(f"{path}: {what} is cut off", offset=pos, kind="truncated")
        pos += n
        return data[pos - n : pos]

    count = number("the number of entries")
    if not 0 < count <= len(data) // 12:
        raise FormatError(f"{path}: is no importance matrix", "llama-imatrix makes one")
    found: dict[str, Entry] = {}
    for _ in range(count):
        length = number("the length of a name")
        if length > _LONGEST_NAME:
            raise FormatError(f"{path}: is no importance matrix", "llama-imatrix makes one", offset=pos)
        name = take(length, "a name").decode("utf-8", "surrogateescape")
        calls, values = number("the number of calls"), number("the number of values")
        if values < 1:
            raise FormatError(f"{path}: {name} has no values", key=name, offset=pos)
        raw = take(4 * values, f"the values of {name}")
        found[name] = Entry(np.frombuffer(raw, "<f4").reshape(1, -1), np.array([calls], np.int64))
    chunks = number("the number of chunks") if pos + 4 <= len(data) else 0
    dataset = ""
    if pos + 4 <= len(data):
        length = number("the length of the data set's name")
        if 0 < length <= len(data) - pos:
            dataset = take(length, "the data set's name").rstrip(b"\0").decode("utf-8", "surrogateescape")
    return Matrix(found, (dataset,) if dataset else (), max(0, chunks), legacy=True, path=path)
