"""Quantise a model: plan, choose the engine, run it, check what came out."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from gguftool.brief import short_repr
from gguftool.build import engine as engines
from gguftool.build import imatrix as imatrices
from gguftool.build import judged, provenance
from gguftool.build.ftypes import Target, target
from gguftool.build.judged import Check
from gguftool.build.mixture import Overrides
from gguftool.build.plan import QuantizePlan, Size, plan_quantize, sizes
from gguftool.errors import FormatError, Refused, ToolFailed, UsageError
from gguftool.facts import BUILD
from gguftool.files.draft import clear_way
from gguftool.format.types import DEFAULT_ALIGNMENT, TENSOR_TYPE_BY_NAME
from gguftool.hub import file_of
from gguftool.model import Model, open_model
from gguftool.model.missing import refuse_unnamed
from gguftool.model.role import role, way_on, what_it_is
from gguftool.model.shards import NAME
from gguftool.near import near_names
from gguftool.source import LocalFile
from gguftool.verify.shards import refuse_mixed


@dataclass(frozen=True, slots=True)
class Options:
    """How to quantise.

    Attributes:
        engine: ``auto``, ``llama-quantize``, ``library`` or ``builtin``.
        llama_cpp: folder of llama.cpp to look in first.
        overrides: types that differ from the mixture.
        imatrix: path of an importance matrix.
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
    imatrix: str | None = None
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

    ``checks``: what was looked at before it got its name.
    """

    path: str
    size: int
    engine: str
    seconds: float
    plan: QuantizePlan
    notes: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()

    __repr__ = short_repr


def overrides(
    tensor_types: tuple[str, ...] = (),
    output_type: str | None = None,
    embedding_type: str | None = None,
    *,
    pure: bool = False,
    leave_output: bool = False,
) -> Overrides:
    """Overrides out of text such as ``ffn_down=q6_k``; patterns are regular expressions, in lower case.

    Raises:
        UsageError: no ``=``, a broken pattern, or no such tensor type.
    """
    import re

    pairs = []
    for text in tensor_types:
        pattern, sign, name = text.rpartition("=")
        if not sign or not pattern:
            raise UsageError(f"--tensor-type {text}: expected NAME=TYPE", "for example --tensor-type ffn_down=q6_k")
        try:
            re.compile(pattern)
        except re.error as e:
            raise UsageError(f"--tensor-type {text}: {e}") from None
        pairs.append((pattern.lower(), _type(name)))
    return Overrides(
        tuple(pairs),
        _type(output_type) if output_type else None,
        _type(embedding_type) if embedding_type else None,
        pure,
        leave_output,
    )


def _type(name: str) -> str:
    found = TENSOR_TYPE_BY_NAME.get(name.strip().upper())
    if found is None or found.name in ("Q8_1", "Q8_K", "I8", "I16", "I32", "I64", "F64"):
        near = near_names(name.upper(), TENSOR_TYPE_BY_NAME, 3, 0.4)
        raise UsageError(
            f"there is no tensor type {name!r} to quantise to", f"near: {', '.join(near)}" if near else None
        )
    return found.name


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
    matrix = imatrices.read(options.imatrix) if options.imatrix else None
    rows = _rows(model, wanted, engine, matrix, options)
    plan = plan_quantize(
        model,
        wanted,
        options.overrides,
        imatrix=matrix.sizes if matrix else None,
        allow_requantize=options.allow_requantize,
        extra_fields=provenance.fields(rows),
    )
    job = engines.Job(
        source=model.name,
        output="",
        plan=plan,
        overrides=options.overrides,
        imatrix=matrix,
        rows=rows,
        allow_requantize=options.allow_requantize,
        threads=options.threads,
        overwrite=options.overwrite,
        log=options.log,
    )
    return plan, engine, job


def table(model: Model, options: Options) -> list[Size]:
    """What every target gives with these options: sizes to the byte, keys of provenance included.

    Raises:
        UsageError: as `only_weights`.
    """
    only_weights(model)
    engine = _engine(model, options)
    matrix = imatrices.read(options.imatrix) if options.imatrix else None
    return sizes(
        model,
        options.overrides,
        imatrix=matrix.sizes if matrix else None,
        extra_fields=lambda wanted: provenance.fields(_rows(model, wanted, engine, matrix, options)),
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
    from dataclasses import replace

    chosen = options or Options()
    source, output = file_of(source), os.fspath(output)
    with open_model(source) as model:
        if any(os.path.exists(output) and os.path.samefile(output, part.name) for part in model.parts):
            raise UsageError(f"{output}: is the source itself", "name another output")
        refuse_unnamed(source, model.by_content, model.shard_names)
        clear_way([output], overwrite=chosen.overwrite, can_overwrite=True)
        plan, engine, job = prepare(model, type_name, chosen)
        refuse(plan, chosen)
        started = time.monotonic()

        checks: list[Check] = []

        def looked(draft: str) -> tuple[str, ...]:
            for part in model.parts:
                if isinstance(part.source, LocalFile):
                    part.source.check_unchanged()
            notes = check(draft, plan, output)
            checks.extend(judged.quantised(model, [draft], [output]))
            return notes

        notes = engines.quantize(engine, replace(job, output=output), looked, progress)
        seconds = time.monotonic() - started
    return Quantized(output, os.path.getsize(output), engine.label, seconds, plan, notes, checks=tuple(checks))


_WAYS = (
    ("quantised already", "take an F16, BF16 or F32 model, or say --allow-requantize"),
    (
        "has no entry",
        "make it anew with the model as it is now (gguftool imatrix), or name other types with --tensor-type",
    ),
    ("matrix has", "make it anew with the model as it is now (gguftool imatrix)"),
    (
        "importance matrix",
        "give one with --imatrix FILE (gguftool imatrix makes it), or name other types with --tensor-type",
    ),
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


def check(path: str, plan: QuantizePlan, output: str | None = None) -> tuple[str, ...]:
    """Read back the header of the result and compare it with the plan.

    Args:
        path: the file, or its draft.
        plan: what should have come out.
        output: what messages call it; ``path`` when None.

    Returns:
        What differs from the plan without being wrong: another llama.cpp may choose other types.

    Raises:
        ToolFailed: the file is not what an engine that ended well should have written.
    """
    name = output or path
    try:
        with open_model(path, whole_set=False) as model:
            end = model.header.data_end()
            if end is None or end > model.file_size:
                raise ToolFailed(f"{name}: ends at {model.file_size:,}, its tensors need {end:,} bytes")
            got = {t.name: t.type_name for t in model.all_tensors()}
    except (FormatError, Refused) as e:
        why = str(e).replace(path, name)
        raise ToolFailed(f"{name}: the engine said success, but the file is broken: {why}") from None
    wanted = {s.name: s.choice.type for s in plan.steps}
    if set(got) != set(wanted):
        raise ToolFailed(f"{name}: has {len(got)} tensors, {len(wanted)} were expected")
    other = [name for name, kind in got.items() if wanted[name] != kind]
    notes = []
    if other:
        notes.append(
            f"this llama.cpp chose other types than {BUILD} for {len(other)} tensors, for example {other[0]}: "
            f"{got[other[0]]} instead of {wanted[other[0]]}"
        )
    return tuple(notes)
