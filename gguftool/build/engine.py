"""The three ways to quantise: llama-quantize, the real library in a child process, and the built-in engine."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from gguftool import programs
from gguftool.build import builtin, kernels, tools
from gguftool.build.changes import Changes
from gguftool.build.failed import failure
from gguftool.build.imatrix import Imatrix
from gguftool.build.layout import paths_of
from gguftool.build.mixture import Overrides
from gguftool.build.plan import QuantizePlan
from gguftool.build.process import Ended, child_environment, run
from gguftool.errors import Refused, ToolFailed, UsageError
from gguftool.files.disk import check_room
from gguftool.files.draft import Draft, draft_folder, publish_all
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.processors import processors
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.verify.pages import Run

NAMES = ("auto", "llama-quantize", "library", "builtin")
Progress = Callable[[int, int], None]
_COUNTER = regex(r"^\[\s*(\d+)/\s*(\d+)\]")


@dataclass(frozen=True, slots=True)
class Engine:
    """What does the work: one of `NAMES`; ``label`` names it with its version."""

    name: str
    label: str
    tool: tools.Tool | None = None
    kernels: kernels.Kernels | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """One file to quantise, for any engine.

    Attributes:
        source: path of the first file of the model.
        outputs: paths of the files of the result.
        plan: what is expected to come out.
        overrides: types the user wants different.
        changes: keys, layers and files that are to be others.
        imatrix: importance matrix, or None.
        include, exclude: what of the matrix's file it holds.
        rows: metadata to add, text or u32.
        allow_requantize: whether quantised tensors may be quantised again.
        threads: 0 for one per core.
        overwrite: whether an existing output may be replaced.
        log: file for what the engine says, or None.
    """

    source: str
    outputs: tuple[str, ...]
    plan: QuantizePlan
    overrides: Overrides
    changes: Changes
    imatrix: Imatrix | None
    rows: Mapping[str, str | int]
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_requantize: bool = False
    threads: int = 0
    overwrite: bool = False
    log: str | None = None


def find(wanted: str = "auto", llama_cpp: str | None = None) -> Engine:
    """The engine called ``wanted``, or the first one that is there.

    Raises:
        UsageError: no such engine name.
        ToolFailed: it is not installed; the hint says how to get it.
    """
    if wanted not in NAMES:
        raise UsageError(f"there is no engine {wanted!r}", f"one of {', '.join(NAMES)}")
    if wanted in ("auto", "llama-quantize"):
        tool = tools.llama_quantize(llama_cpp)
        if tool is not None:
            tool = tools.probe(tool)
            return Engine("llama-quantize", tool.label, tool)
        if wanted != "auto":
            raise ToolFailed("llama-quantize was not found", programs.HOW_TO_GET)
    if wanted in ("auto", "library"):
        tool = tools.libllama(llama_cpp)
        if tool is not None:
            return Engine("library", tool.label, tool)
        if wanted != "auto":
            raise ToolFailed(
                "no llama library with llama_model_quantize was found",
                programs.HOW_TO_GET + "; the npm package @node-llama-cpp/linux-x64 holds one ready-made",
            )
    found = kernels.find()
    return Engine("builtin", f"gguftool built-in, {found.name}", kernels=found)


Seen = Sequence[Sequence[Run]]
"""What was seen in the data of each file of a result that was judged as it was written, and needs no second look."""
Check = Callable[[Sequence[str], "Seen | None"], tuple[str, ...]]
"""Looks at finished files before they get their names; raises when one is broken, else returns notes for the user."""


def quantize(engine: Engine, job: Job, check: Check, progress: Progress | None = None) -> tuple[str, ...]:
    """Do the job; the output has its name only when it is whole and checked.

    Returns:
        What ``check`` noted.

    Raises:
        Refused: the plan has refusals, or the output exists.
        NoRoom: the disk is too full.
        FormatError: the data of the source is not finite, or does not fit into a type.
        ToolFailed: the engine failed; the message carries its own last word.
    """
    if job.plan.refusals:
        raise Refused(job.plan.refusals[0])
    notes: tuple[str, ...] = ()

    def looked(drafts: Sequence[str], seen: Seen | None = None) -> None:
        nonlocal notes
        notes = check(drafts, seen)

    if engine.kernels is not None:
        builtin.quantize(
            job.plan,
            job.outputs,
            engine.kernels,
            threads=job.threads,
            imatrix=job.imatrix.entries if job.imatrix else None,
            progress=progress,
            overwrite=job.overwrite,
            check=looked,
            log=job.log,
        )
        return notes
    counter = _Counter(job.plan, progress)
    check_room(os.path.dirname(job.outputs[0]), job.plan.file_size)
    if job.changes.keep_split:
        with draft_folder(job.outputs[0]) as place, contextlib.ExitStack() as stack:
            _let(engine, job, os.path.join(place, "model"), counter)
            made = paths_of(os.path.join(place, "model"), len(job.outputs), keep_split=True)
            drafts = [
                stack.enter_context(Draft.of(one, path, overwrite=job.overwrite, readers=job.plan.readers))
                for one, path in zip(made, job.outputs, strict=True)
            ]
            looked(made)
            publish_all(drafts)
        return notes
    output = job.outputs[0]
    with Draft(output, overwrite=job.overwrite, can_overwrite=True, readers=job.plan.readers, named=True) as draft:
        _let(engine, job, draft.reading, counter)
        looked([draft.reading])
        draft.publish()
    return notes


def _let(engine: Engine, job: Job, draft: str, counter: _Counter) -> None:
    """Have the engine write ``draft``, or the files that it makes of that name.

    Raises:
        GgufToolError: it failed.
    """
    if engine.name == "llama-quantize":
        # It takes the ending away again, and would cut the name of our folder otherwise.
        named = f"{draft}.gguf" if job.changes.keep_split else draft
        ended = run(_arguments(engine, job, named), log=job.log, on_line=counter)
    else:
        ended = _run_library(engine, job, draft, counter)
    if ended.code:
        raise failure(engine.label, job.source, ended)


class _Counter:
    """Turns llama.cpp's ``[  12/ 236]`` into bytes of source data."""

    def __init__(self, plan: QuantizePlan, progress: Progress | None) -> None:
        self.progress = progress
        self.before = [0, *accumulate(s.old_bytes for s in plan.steps)]

    def __call__(self, line: str) -> None:
        match = _COUNTER.match(line)
        if match and self.progress:
            at = min(int(match[1]) - 1, len(self.before) - 1)
            self.progress(self.before[at], self.before[-1])


def _arguments(engine: Engine, job: Job, draft: str) -> list[str]:
    tool = engine.tool
    argv = [tool.path if tool else engine.name]
    flags = tool.flags if tool else frozenset()

    def need(flag: str) -> None:
        if flags and flag not in flags:
            raise ToolFailed(
                f"{engine.label} at {argv[0]} has no option --{flag}", "take a newer llama.cpp, or --engine builtin"
            )

    if job.allow_requantize:
        argv.append("--allow-requantize")
    if job.overrides.pure:
        argv.append("--pure")
    if job.overrides.leave_output:
        argv.append("--leave-output-tensor")
    if job.imatrix:
        argv += ["--imatrix", job.imatrix.path]
        for flag, parts in (("include-weights", job.include), ("exclude-weights", job.exclude)):
            for part in parts:
                argv += [f"--{flag}", part]
    if job.changes.prune:
        need("prune-layers")
        argv += ["--prune-layers", ",".join(map(str, job.changes.prune))]
    if job.changes.keep_split:
        need("keep-split")
        argv.append("--keep-split")
    for flag, value in (
        ("output-tensor-type", job.overrides.output_type),
        ("token-embedding-type", job.overrides.embedding_type),
    ):
        if value:
            argv += [f"--{flag}", value]
    for pattern, type_name in job.overrides.tensor_types:
        need("tensor-type")
        argv += ["--tensor-type", f"{pattern}={type_name}"]
    for other in job.changes.keys:
        need("override-kv")
        argv += ["--override-kv", other.text]
    for key, text in job.rows.items():
        # llama-quantize writes its own keys about the importance matrix.
        if isinstance(text, str) and not key.startswith("quantize.imatrix."):
            need("override-kv")
            argv += ["--override-kv", f"{key}=str:{text}"]
    argv += [job.source, draft, job.plan.target.name]
    return [*argv, str(job.threads)] if job.threads else argv


def _run_library(engine: Engine, job: Job, draft: str, on_line: Callable[[str], None]) -> Ended:
    wish = job.overrides
    order = {
        "library": engine.tool.path if engine.tool else "",
        "input": job.source,
        "output": draft,
        "ftype": job.plan.target.ftype,
        "threads": job.threads or processors(),
        "allow_requantize": job.allow_requantize,
        "pure": wish.pure,
        "leave_output": wish.leave_output,
        "output_tensor_type": _id(wish.output_type),
        "token_embedding_type": _id(wish.embedding_type),
        "tensor_types": [(pattern, _id(name)) for pattern, name in wish.tensor_types],
        "fields": [(o.key, o.kind, o.value) for o in job.changes.keys]
        + [(key, "str" if isinstance(value, str) else "int", value) for key, value in job.rows.items()],
        "imatrix": job.imatrix.path if job.imatrix else None,
        "asked": bool(job.changes.keys),
        "include": job.include,
        "exclude": job.exclude,
        "only_copy": job.plan.target.copies,
        "keep_split": job.changes.keep_split,
        "prune": job.changes.prune,
    }
    return run(
        [sys.executable, "-m", "gguftool.build.libworker"],
        log=job.log,
        on_line=on_line,
        env=child_environment(),
        stdin=json.dumps(order).encode(),
    )


def _id(type_name: str | None) -> int | None:
    return TENSOR_TYPE_BY_NAME[type_name].id if type_name else None
