"""Quantise a model: plan, choose the engine, run it, check what came out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

from gguftool.brief import short_repr
from gguftool.build import engine as engines
from gguftool.build import imatrix as imatrices
from gguftool.build import judged, provenance
from gguftool.build.changes import Changes
from gguftool.build.ftypes import Target, target
from gguftool.build.judged import Check
from gguftool.build.layout import paths_of
from gguftool.build.mixture import Overrides
from gguftool.build.plan import QuantizePlan, overridden, plan_quantize
from gguftool.build.sizes import Size, sizes
from gguftool.build.told import broken, effects, selection, unused
from gguftool.errors import FormatError, Refused, ToolFailed, UsageError
from gguftool.facts import BUILD
from gguftool.files.draft import clear_way
from gguftool.format.types import DEFAULT_ALIGNMENT, TENSOR_TYPE_BY_NAME
from gguftool.hub import file_of
from gguftool.model import Model, open_model
from gguftool.model.headers import Headers
from gguftool.model.missing import refuse_unnamed
from gguftool.model.role import role, way_on, what_it_is
from gguftool.model.shards import NAME
from gguftool.records import dataclass, field, replace
from gguftool.source import LocalFile
from gguftool.verify.shards import refuse_mixed


@dataclass(frozen=True, slots=True)
class Options:
    """How to quantise.

    Attributes:
        engine: ``auto``, ``llama-quantize``, ``library`` or ``builtin``.
        llama_cpp: folder of llama.cpp to look in first.
        overrides: types that differ from the mixture.
        changes: keys, layers and files that are to be others.
        imatrix: path of an importance matrix.
        include, exclude: parts of names: which of its entries are used; one of the two.
        allow_requantize: quantise what is quantised already.
        threads: 0 for one per core.
        overwrite: replace an existing output.
        provenance: write the `gguftool.*` keys.
        strict: refuse when a tensor has to fall back to another type.
        log: file for what the engine says.
    """

    engine: str = "auto"
    llama_cpp: str | None = None
    overrides: Overrides = field(default_factory=Overrides)
    changes: Changes = field(default_factory=Changes)
    imatrix: str | None = None
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_requantize: bool = False
    threads: int = 0
    overwrite: bool = False
    provenance: bool = True
    strict: bool = False
    log: str | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Quantized:
    """What was made: path, bytes, the engine's name and version, seconds, and the plan it was checked against.

    ``checks``: what was looked at before it got its name. ``paths`` are all its files, more than one of a set that
    stayed one; ``path`` is the first.
    """

    path: str
    size: int
    engine: str
    seconds: float
    plan: QuantizePlan
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    paths: tuple[str, ...] = ()

    __repr__ = short_repr


NOT_WEIGHTS = ("adapter", "control-vector", "imatrix")
"""Roles of files that stand beside a model, and are used as they are."""


def only_weights(model: Model) -> None:
    """For what is to be quantised.

    Raises:
        UsageError: the file is one that nothing can quantise; the hint says what it is for.
    """
    if role(model) in NOT_WEIGHTS:
        raise UsageError(f"{model.name} is {what_it_is(model)}, not a model to be quantised", way_on(model))


def prepare(model: Model, type_name: str, options: Options) -> tuple[QuantizePlan, engines.Engine, engines.Job]:
    """Everything but the work: the plan, the engine, the job (its output still empty).

    Raises:
        UsageError, ToolFailed, FormatError, Refused: see `quantize`.
    """
    wanted = target(type_name)
    only_weights(model)
    refuse_mixed(model)
    engine = _engine(model, options)
    whole, matrix = _matrix(options)
    rows = _rows(model, wanted, engine, matrix, options)
    plan = plan_quantize(
        model,
        wanted,
        options.overrides,
        imatrix=matrix.sizes if matrix else None,
        allow_requantize=options.allow_requantize,
        extra_fields=provenance.fields(rows),
        changes=options.changes,
        negative=matrix.negative if matrix else (),
    )
    said = [*selection(whole, options.include, options.exclude)]
    said += unused(plan, options.overrides, overridden(model, options.changes.keys).architecture)
    if matrix:
        said += (f"of the importance matrix, {flaw}" for flaw in matrix.flaws)
    against: list[str] = []
    if options.changes:
        said += effects(model, options.changes)
        against += broken(model, plan, options.changes)
    plan = replace(plan, warnings=(*plan.warnings, *said), refusals=(*plan.refusals, *against))
    job = engines.Job(
        source=model.name,
        outputs=(),
        plan=plan,
        overrides=options.overrides,
        changes=options.changes,
        imatrix=matrix,
        rows=rows,
        include=options.include,
        exclude=options.exclude,
        allow_requantize=options.allow_requantize,
        threads=options.threads,
        overwrite=options.overwrite,
        log=options.log,
    )
    return plan, engine, job


def _matrix(options: Options) -> tuple[imatrices.Imatrix | None, imatrices.Imatrix | None]:
    """The importance matrix, and what is left of it.

    Raises:
        UsageError: it cannot be both chosen and left out of.
    """
    if options.include and options.exclude:
        raise UsageError("--include-weights and --exclude-weights cannot be used together", "name one of them")
    whole = imatrices.read(options.imatrix) if options.imatrix else None
    return whole, whole.selected(options.include, options.exclude) if whole else None


def table(model: Model, options: Options) -> list[Size]:
    """What every target gives with these options: sizes to the byte, keys of provenance included.

    Raises:
        UsageError: as `only_weights`.
    """
    only_weights(model)
    engine = _engine(model, options)
    _, matrix = _matrix(options)
    return sizes(
        model,
        options.overrides,
        imatrix=matrix.sizes if matrix else None,
        extra_fields=lambda wanted: provenance.fields(_rows(model, wanted, engine, matrix, options)),
        changes=options.changes,
    )


def _engine(model: Model, options: Options) -> engines.Engine:
    """The engine asked for; the built-in one where the others cannot."""
    engine = engines.find(options.engine, options.llama_cpp)
    if engine.kernels is None and (why := _only_builtin(model)):
        if options.engine != "auto":
            raise Refused(f"{model.name}: {why}", "--engine builtin")
        engine = engines.find("builtin")
    return engine


def _rows(
    model: Model, wanted: Target, engine: engines.Engine, matrix: imatrices.Imatrix | None, options: Options
) -> dict[str, str | int]:
    """Keys that the result gets."""
    rows = provenance.quantized(model, engine.label, wanted.name) if options.provenance else {}
    return rows | provenance.with_imatrix(matrix)


def _only_builtin(model: Model) -> str | None:
    """Why llama.cpp itself cannot quantise this file, or not right."""
    if model.header.alignment != DEFAULT_ALIGNMENT:
        return f"llama.cpp lays out by {DEFAULT_ALIGNMENT} bytes, this file by {model.header.alignment}"
    if len(model.parts) > 1:
        names = [NAME.match(os.path.basename(part.name)) for part in model.parts]
        if not all(m and int(m["no"]) == no for no, m in enumerate(names, 1)):
            return "llama.cpp finds shards by their usual names only"
    return None


def quantize(
    source: Model | str | os.PathLike[str],
    output: str | os.PathLike[str],
    type_name: str,
    options: Options | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Quantized:
    """Quantise ``source`` into ``output``.

    Args:
        source: a ``.gguf`` file, any shard of a set, a folder with one model, an address, or an open model.
        output: file to write.
        type_name: for example ``Q4_K_M``.
        options: see `Options`.
        progress: called with (done, total).

    Raises:
        UsageError: unknown type, or input and output are the same file.
        Refused: quantised already, no importance matrix where one is needed, or the output exists.
        FormatError: the source is broken or holds NaN.
        NoRoom: the disk is too full.
        ToolFailed: the engine is missing or failed.
    """
    chosen = options or Options()
    source, output = file_of(source), os.fspath(output)
    with open_model(source) as model:
        files = paths_of(output, _files(model, chosen), keep_split=chosen.changes.keep_split)
        for path in files:
            if os.path.exists(path) and any(os.path.samefile(path, part.name) for part in model.parts):
                raise UsageError(f"{path}: is the source itself", "name another output")
        refuse_unnamed(source, model.by_content, model.shard_names)
        clear_way(files, overwrite=chosen.overwrite, can_overwrite=True)
        plan, engine, job = prepare(model, type_name, chosen)
        # Where the last layers go, the last file may.
        files = paths_of(output, len(plan.outputs), keep_split=chosen.changes.keep_split)
        clear_way(files, overwrite=chosen.overwrite, can_overwrite=True)
        refuse(plan, chosen)
        started = time.monotonic()

        checks: list[Check] = []

        def looked(drafts: Sequence[str], seen: engines.Seen | None) -> tuple[str, ...]:
            for part in model.parts:
                if isinstance(part.source, LocalFile):
                    part.source.check_unchanged()
            made = Headers()
            notes = check(drafts, plan, files, made)
            fewer = bool(chosen.changes.prune)
            checks.extend(judged.quantised(model, drafts, files, seen, fewer=fewer, known=made))
            return notes

        notes = engines.quantize(engine, replace(job, outputs=tuple(files)), looked, progress)
        seconds = time.monotonic() - started
    size = sum(os.path.getsize(path) for path in files)
    return Quantized(files[0], size, engine.label, seconds, plan, notes, tuple(checks), tuple(files))


def _files(model: Model, options: Options) -> int:
    return len(model.parts) if options.changes.keep_split else 1


_WAYS = (
    ("quantised already", "take an F16, BF16 or F32 model, or say --allow-requantize"),
    (
        "has no entry",
        "make it anew with the model as it is now (gguftool imatrix), or name other types with --tensor-type",
    ),
    (
        "values below zero",
        "measure it anew (gguftool imatrix), or name types without a grid: --tensor-type NAME=q2_k",
    ),
    ("matrix has", "make it anew with the model as it is now (gguftool imatrix)"),
    (
        "importance matrix",
        "give one with --imatrix FILE (gguftool imatrix makes it), or name other types with --tensor-type",
    ),
    ("after this change", "leave out the key that it follows from, or other layers; or convert the model again"),
    ("do not divide", "name a type with smaller blocks for them: --tensor-type NAME=q8_0, or f16"),
    ("cannot be converted", "take an F16, BF16 or F32 model"),
)


def remedy(refusal: str) -> str:
    """What helps where a plan was refused."""
    return next(way for mark, way in _WAYS if mark in refusal)


def refuse(plan: QuantizePlan, options: Options) -> None:
    """Raise for what stands against the plan.

    Raises:
        Refused: with the option that helps.
    """
    if plan.refusals:
        text = plan.refusals[0]
        raise Refused(text, remedy(text))
    if options.strict and plan.fallbacks:
        first = plan.fallbacks[0]
        raise Refused(
            f"{len(plan.fallbacks)} tensors cannot have the type asked for: {first.name} has rows of "
            f"{first.tensor.shape[0]}, {first.choice.wanted} has blocks of "
            f"{TENSOR_TYPE_BY_NAME[first.choice.wanted].block_size}",
            "leave out --strict, or choose a type with blocks of 32 (Q8_0, Q4_0, IQ4_NL)",
        )


def check(
    paths: Sequence[str], plan: QuantizePlan, outputs: Sequence[str] = (), known: Headers | None = None
) -> tuple[str, ...]:
    """Read back the headers of the result and compare them with the plan.

    Args:
        paths: its files, or their drafts.
        plan: what should have come out.
        outputs: what messages call them; ``paths`` when empty.
        known: the headers are added here.

    Returns:
        What differs from the plan without being wrong: another llama.cpp may choose other types.

    Raises:
        ToolFailed: a file is not what an engine that ended well should have written.
    """
    other: list[str] = []
    for no, (path, name) in enumerate(zip(paths, outputs or paths, strict=True)):
        wanted = {s.name: s.choice.type for s in plan.steps if s.output == no}
        got = _written(path, name, known)
        if set(got) != set(wanted):
            raise ToolFailed(f"{name}: has {len(got)} tensors, {len(wanted)} were expected")
        other += [f"{t}: {kind} instead of {wanted[t]}" for t, kind in got.items() if wanted[t] != kind]
    if not other:
        return ()
    return (f"this llama.cpp chose other types than {BUILD} for {len(other)} tensors, for example {other[0]}",)


def _written(path: str, name: str, known: Headers | None) -> dict[str, str]:
    """The type of every tensor in a file that an engine wrote."""
    try:
        with open_model(path, whole_set=False, known=known) as model:
            end = model.header.data_end()
            if end is None or end > model.file_size:
                raise ToolFailed(f"{name}: ends at {model.file_size:,}, its tensors need {end:,} bytes")
            return {t.name: t.type_name for t in model.all_tensors()}
    except (FormatError, Refused) as e:
        why = str(e).replace(path, name)
        raise ToolFailed(f"{name}: the engine said success, but the file is broken: {why}") from None
