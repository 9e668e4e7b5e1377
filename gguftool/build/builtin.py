"""The built-in quantiser: reads, converts and writes slabs of rows on all cores, in bounded memory.

Every slab knows its place in the result beforehand, so threads read (pread), convert (C, without the GIL) and write
(pwrite) on their own. The result gets its name only when it is whole and on disk.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from gguftool.build.kernels import HOW_TO_GET, Kernels
from gguftool.build.plan import QuantizePlan, Step
from gguftool.errors import FormatError, Refused, ToolFailed
from gguftool.files.disk import write_at
from gguftool.files.draft import whole_file
from gguftool.format.types import TENSOR_TYPE_BY_NAME

SLAB = 1 << 20
"""Elements converted at a time by one thread: 4 MiB as f32."""
Progress = Callable[[int, int], None]
"""(bytes of source data done, of all)."""


@dataclass(frozen=True, slots=True)
class _Slab:
    """Rows ``row .. row + rows`` of one tensor; ``expert`` picks the slice of the importance matrix."""

    step: Step
    row: int
    rows: int
    width: int
    expert: int


def quantize(
    plan: QuantizePlan,
    output: str,
    kernels: Kernels,
    *,
    threads: int = 0,
    imatrix: Mapping[str, bytes] | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
    check: Callable[[str], object] | None = None,
) -> None:
    """Write the file that ``plan`` describes.

    Args:
        plan: from `gguftool.build.plan.plan_quantize`; its refusals are final.
        output: path of the result; must not exist unless ``overwrite``.
        kernels: from `gguftool.build.kernels.find`.
        threads: 0 for one per core.
        imatrix: f32 importances by tensor name, as bytes.
        progress: called now and then.
        overwrite: replace an existing file.
        check: looks at the finished file before it gets its name.

    Raises:
        Refused: the plan has refusals, or ``output`` exists.
        ToolFailed: the kernels cannot make a type of the plan.
        FormatError: the source data holds NaN or infinity.
        NoRoom: the disk is too full.
    """
    if plan.refusals:
        raise Refused(plan.refusals[0])
    check_kernels(plan, kernels)
    if any(part.header.big_endian for part in {s.tensor.part for s in plan.steps}):
        raise Refused("the source is big-endian; the built-in quantiser reads little-endian only")
    count = (threads or os.cpu_count() or 1) if kernels.parallel else 1
    with whole_file(output, plan.file_size, overwrite=overwrite, readers=plan.readers) as draft:
        write_at(draft.fd, 0, plan.header)
        _run(plan, kernels, draft.fd, count, imatrix or {}, progress)
        if check:
            check(draft.reading)


def check_kernels(plan: QuantizePlan, kernels: Kernels) -> None:
    """Make sure the kernels can make every type of the plan.

    Raises:
        ToolFailed: they cannot; the hint says what to install.
    """
    lacking = sorted({s.choice.type for s in plan.steps if s.changes} - kernels.writes)
    if lacking:
        raise ToolFailed(f"{kernels.name} cannot make {', '.join(lacking)}", HOW_TO_GET)


def _run(
    plan: QuantizePlan, kernels: Kernels, fd: int, threads: int, imatrix: Mapping[str, bytes], progress: Progress | None
) -> None:
    stop = threading.Event()
    total, done = plan.source_size, 0

    def work(slab: _Slab) -> int:
        if stop.is_set():
            return 0
        return _convert(slab, plan.data_offset, kernels, fd, imatrix.get(slab.step.name))

    pool = ThreadPoolExecutor(threads, "quantize")
    pending: set[Future[int]] = set()
    try:
        for slab in _slabs(plan):
            pending.add(pool.submit(work, slab))
            if len(pending) >= 4 * threads:
                finished, pending = wait(pending, return_when=FIRST_COMPLETED)
                done += sum(f.result() for f in finished)
                if progress:
                    progress(done, total)
        for future in pending:
            done += future.result()
        if progress:
            progress(done, total)
    finally:
        stop.set()
        pool.shutdown(cancel_futures=True)


def _slabs(plan: QuantizePlan) -> Iterator[_Slab]:
    for step in plan.steps:
        dims = step.tensor.shape or (1,)
        width, rows = dims[0], step.tensor.info.elements // max(1, dims[0])
        per_expert = dims[1] if len(dims) > 2 else rows
        size = max(1, SLAB // max(1, width))
        for expert in range(rows // per_expert if per_expert else 0):
            for first in range(0, per_expert, size):
                yield _Slab(step, expert * per_expert + first, min(size, per_expert - first), width, expert)


def _convert(slab: _Slab, base: int, kernels: Kernels, fd: int, imatrix: bytes | None) -> int:
    step, tensor = slab.step, slab.step.tensor
    old = TENSOR_TYPE_BY_NAME[step.source_type]
    row_bytes = slab.width // old.block_size * old.block_bytes
    size = slab.rows * row_bytes
    data = tensor.part.source.read_at(tensor.offset + slab.row * row_bytes, size)
    if len(data) != size:
        raise FormatError(f"{tensor.part.name}: the data of {step.name} ends early", key=step.name, kind="truncated")
    at = base + step.offset
    if not step.changes:
        write_at(fd, at + slab.row * row_bytes, data)
        return size
    weights = imatrix[slab.expert * slab.width * 4 : (slab.expert + 1) * slab.width * 4] if imatrix else None
    try:
        new = kernels.convert(data, step.source_type, step.choice.type, slab.rows, slab.width, weights)
    except FormatError as e:
        last = slab.row + slab.rows - 1
        raise FormatError(f"{step.name}, rows {slab.row} to {last}: {e}", key=step.name, kind=e.kind) from None
    kind = TENSOR_TYPE_BY_NAME[step.choice.type]
    write_at(fd, at + slab.row * (slab.width // kind.block_size * kind.block_bytes), new)
    return size
