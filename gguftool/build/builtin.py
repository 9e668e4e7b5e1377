"""The built-in quantiser: a child reads, converts and writes slabs of rows on all cores, in bounded memory.

Every slab knows its place in the result beforehand, so the threads of the child read (pread), convert (C, without the
GIL) and write (pwrite) on their own. It is a process of its own because ggml's functions may end it. The result gets
its name only when it is whole and on disk.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import IO

from gguftool.build.failed import again, died, stopped
from gguftool.build.kernels import HOW_TO_GET, Kernels
from gguftool.build.plan import QuantizePlan
from gguftool.build.process import child_environment, end
from gguftool.build.rowworker import SLOT
from gguftool.build.slabs import Task
from gguftool.endings import start
from gguftool.errors import Refused, ToolFailed
from gguftool.files.disk import check_room, write_at
from gguftool.files.draft import Draft, publish_all
from gguftool.files.faults import writing
from gguftool.files.small import begin_log, scratch_file
from gguftool.model import Part
from gguftool.processors import processors
from gguftool.reading import from_json
from gguftool.source import LocalFile
from gguftool.verify.pages import Run

Progress = Callable[[int, int], None]
"""(bytes of source data done, of all)."""
_PIECE = 1 << 20
LABEL = "the built-in quantiser"


def quantize(
    plan: QuantizePlan,
    output: str | Sequence[str],
    kernels: Kernels,
    *,
    threads: int = 0,
    imatrix: Mapping[str, bytes] | None = None,
    progress: Progress | None = None,
    overwrite: bool = False,
    check: Callable[[Sequence[str], Sequence[Sequence[Run]]], object] | None = None,
    log: str | None = None,
) -> None:
    """Write the file that ``plan`` describes.

    Args:
        plan: from `gguftool.build.plan.plan_quantize`; its refusals are final.
        output: path of the result, or those of all its files; none may exist unless ``overwrite``.
        kernels: from `gguftool.build.kernels.find`.
        threads: 0 for one per core.
        imatrix: f32 importances by tensor name, as bytes.
        progress: called now and then.
        overwrite: replace an existing file.
        check: looks at the finished files before they get their names; it gets their paths, and what was seen in their
            data when it was read back (`gguftool.verify.pages`): every number of it is finite.
        log: file for what the kernels say.

    Raises:
        Refused: the plan has refusals, or ``output`` exists.
        ToolFailed: the kernels cannot make a type of the plan, or stopped; the message names the tensor.
        FormatError: the source data holds NaN or infinity.
        NoRoom: the disk is too full.
    """
    if plan.refusals:
        raise Refused(plan.refusals[0])
    check_kernels(plan, kernels)
    if any(part.header.big_endian for part in _parts(plan)):
        raise Refused("the source is big-endian; the built-in quantiser reads little-endian only")
    count = (threads or processors()) if kernels.parallel else 1
    paths = [output] if isinstance(output, str) else list(output)
    with contextlib.ExitStack() as stack:
        drafts = [
            stack.enter_context(Draft(path, overwrite=overwrite, can_overwrite=True, readers=plan.readers))
            for path in paths
        ]
        check_room(os.path.dirname(paths[0]), plan.file_size)
        with writing(paths[0]):
            for draft, made in zip(drafts, plan.outputs, strict=True):
                os.ftruncate(draft.fd, made.size)
                write_at(draft.fd, 0, made.header)
            seen = _run(
                plan, kernels, [(draft.fd, draft.path) for draft in drafts], count, imatrix or {}, progress, log
            )
        if check:
            check([draft.reading for draft in drafts], seen)
        publish_all(drafts)


def check_kernels(plan: QuantizePlan, kernels: Kernels) -> None:
    """Make sure the kernels can make every type of the plan.

    Raises:
        ToolFailed: they cannot; the hint says what to install.
    """
    lacking = sorted({s.choice.type for s in plan.steps if s.changes} - kernels.writes)
    if lacking:
        raise ToolFailed(f"{kernels.name} cannot make {', '.join(lacking)}", HOW_TO_GET)


def _run(
    plan: QuantizePlan,
    kernels: Kernels,
    outputs: Sequence[tuple[int, str]],
    threads: int,
    imatrix: Mapping[str, bytes],
    progress: Progress | None,
    log: str | None,
) -> list[list[Run]]:
    """Have a child do it; what it saw in each output."""
    parts = _parts(plan)
    tasks, values = _tasks(plan, parts, imatrix)
    with contextlib.ExitStack() as stack:
        said: IO[bytes] = stack.enter_context(begin_log(log, ["gguftool", "quantize"]) if log else scratch_file())
        table = stack.enter_context(scratch_file())
        table.truncate(SLOT.size * threads)
        sources = [_descriptor(part, stack) for part in parts]
        order = {
            "library": kernels.library,
            "threads": threads,
            "table": table.fileno(),
            "sources": [[fd, part.name] for fd, part in zip(sources, parts, strict=True)],
            "outputs": list(outputs),
            "tasks": [task.row() for task in tasks],
        }
        with start(
            [sys.executable, "-m", "gguftool.build.rowworker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=child_environment(),
            pass_fds=[*sources, *(fd for fd, _ in outputs), table.fileno()],
        ) as child:
            try:
                _tell(child.stdin, order, values)
                seen = _listen(child.stdout or (), plan, tasks, progress)
                if seen is not None:
                    return seen
                child.wait()
            except BaseException:
                end(child)
                raise
        raise died(LABEL, child.returncode, said, _in_flight(table, tasks), "--threads 1")


def _parts(plan: QuantizePlan) -> list[Part]:
    """The files that are read. They are told by what they are: their hash is that of a whole header."""
    return list({id(s.tensor.part): s.tensor.part for s in plan.steps}.values())


def _tasks(plan: QuantizePlan, parts: Sequence[Part], imatrix: Mapping[str, bytes]) -> tuple[list[Task], list[bytes]]:
    """What the child has to do, and the importances it needs for that, one behind the other."""
    numbers = {id(part): i for i, part in enumerate(parts)}
    tasks: list[Task] = []
    values: list[bytes] = []
    at = 0
    for step in plan.steps:
        t, found = step.tensor, imatrix.get(step.tensor.name) if step.changes else None
        weights = (at, len(found)) if found is not None else None
        if found is not None:
            values.append(found)
            at += len(found)
        no, to = step.output, len(plan.outputs[step.output].header) + step.offset
        source, dims = numbers[id(t.part)], t.shape or (1,)
        tasks.append(Task(t.name, source, t.offset, dims, step.source_type, step.choice.type, no, to, weights))
    return tasks, values


def _descriptor(part: Part, stack: contextlib.ExitStack) -> int:
    """A descriptor of a part's bytes, for the child."""
    source = part.source
    if isinstance(source, LocalFile):
        return source.descriptor
    copy = stack.enter_context(scratch_file())
    at = 0
    while piece := source.read_at(at, _PIECE):
        at += copy.write(piece)
    copy.flush()
    return copy.fileno()


def _tell(stdin: IO[bytes] | None, order: Mapping[str, object], values: Sequence[bytes]) -> None:
    if stdin is None:
        return
    # One that has died already has no ears; why is found out below.
    with contextlib.suppress(BrokenPipeError), stdin:
        stdin.write(json.dumps(order).encode() + b"\n")
        for piece in values:
            stdin.write(piece)


def _listen(
    lines: Iterable[bytes], plan: QuantizePlan, tasks: Sequence[Task], progress: Progress | None
) -> list[list[Run]] | None:
    """What the child says, until it says no more.

    Returns:
        What it saw in each output; None when it did not come to its end.

    Raises:
        GgufToolError, OSError: what stopped it.
    """
    for line in lines:
        words = from_json(line)
        if "done" in words and progress:
            progress(words["done"], plan.source_size)
        elif "failed" in words:
            raise again(words["failed"], LABEL, plan.source)
        elif "stopped" in words:
            task = tasks[words["task"]] if words["task"] >= 0 else None
            raise stopped(words["place"], words["stopped"], task.new if task else None)
        elif "end" in words:
            return [[(start, end, bytes.fromhex(front)) for start, end, front in runs] for runs in words["pages"]]
    return None


def _in_flight(table: IO[bytes], tasks: Sequence[Task]) -> list[str]:
    """The tensors that the threads of the child were at."""
    with mmap.mmap(table.fileno(), 0, access=mmap.ACCESS_READ) as view:
        numbers: Iterator[tuple[int]] = SLOT.iter_unpack(view)
        return list(dict.fromkeys(tasks[n - 1].name for (n,) in numbers if n))
