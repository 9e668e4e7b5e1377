"""The steps of `gguftool prepare` that make and change files; the command adds the ones that judge them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.build import beside
from gguftool.build import convert as converting
from gguftool.build import imatrix as imatrices
from gguftool.build import quantize as quantising
from gguftool.build.builtin import check_kernels
from gguftool.build.folder.look import is_model_folder
from gguftool.build.judged import Check
from gguftool.build.left import rows
from gguftool.build.pipeline import STATE, Outcome, Step, work_folder
from gguftool.edit.deploy import Wanted, deploy
from gguftool.edit.ops import Operation, Strip
from gguftool.edit.plan import plan_edit
from gguftool.edit.recover import recover
from gguftool.edit.steps import pending
from gguftool.errors import Refused, UsageError
from gguftool.files.attributes import readers_of
from gguftool.files.copies import copy_ranges
from gguftool.files.disk import check_room
from gguftool.files.draft import clear_way, publish_beside, whole_file
from gguftool.format.filler import is_filler
from gguftool.model import Model, open_model
from gguftool.model.missing import refuse_unnamed
from gguftool.predict.pairs import misfits
from gguftool.records import dataclass, replace
from gguftool.shell import gguftool, path_word

Progress = Callable[[str, int, int], None]
"""(what is going on, done, total)."""
Operations = Callable[[Model], Sequence[Operation]]
_CONVERTED = ("converted", "mmproj-converted")
"""How names of files between converting and quantising begin."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to prepare.

    Attributes:
        source: Hugging Face folder, or a GGUF model.
        output: final file.
        quantize: target such as Q4_K_M; None keeps the types.
        wanted: deploy fields to write.
        convert: how to convert.
        quantising: how to quantise.
        overwrite: replace an existing output.
        keep: keep the converted file.
        yes: go on where a question about the deploy fields would be asked.
        beside: files that are to be used with the result; they must fit it.
    """

    source: str
    output: str
    quantize: str | None
    wanted: Wanted
    convert: converting.Options
    quantising: quantising.Options
    overwrite: bool = False
    keep: bool = False
    yes: bool = False
    beside: tuple[str, ...] = ()

    __repr__ = short_repr

    @property
    def folder(self) -> str:
        """The work folder beside the output."""
        return work_folder(self.output)

    @property
    def converts(self) -> bool:
        """Whether the source has to be converted first."""
        return os.path.isdir(self.source) and is_model_folder(self.source)

    @property
    def converted(self) -> str:
        """The file between converting and quantising."""
        return os.path.join(self.folder, "converted.gguf")

    @property
    def draft(self) -> str:
        """The file that becomes the output."""
        return os.path.join(self.folder, "model.gguf")


def inputs(request: Request) -> list[str]:
    """Every file the result depends on."""
    if request.converts:
        names = sorted(os.listdir(request.source))
        found = [os.path.join(request.source, n) for n in names if not n.startswith(".")]
        files = [p for p in found if os.path.isfile(p)]
    else:
        with open_model(request.source) as model:
            files = [part.name for part in model.parts]
    if request.quantising.imatrix:
        files.append(request.quantising.imatrix)
    return [*files, *request.beside]


def preflight(request: Request, published: bool = False) -> tuple[str, ...]:
    """Find out before an hour is spent what would fail later.

    Args:
        request: what to prepare.
        published: the output was made by an earlier run of the same request.

    Returns:
        What the user should know.

    Raises:
        UsageError, Refused, ToolFailed, NoRoom: why it cannot be done, and what helps.
    """
    place = os.path.dirname(request.output)
    if request.quantising.imatrix and request.converts:
        # Else an hour passes before anybody looks at it.
        imatrices.read(request.quantising.imatrix)
    if not published:
        clear_way([request.output], overwrite=request.overwrite, can_overwrite=True)
    if request.converts:
        tool, folder = converting.preflight(request.source, request.convert)
        if not published and (eyes := converting.projector(folder, tool, request.output, request.convert)):
            clear_way([eyes], overwrite=request.overwrite, can_overwrite=True)
        first = folder.output_size(request.convert.outtype)
        second = folder.output_size("q8_0") if request.quantize else 0
        if not published:
            check_room(place, first + second, what="the converted and the quantised model")
        return tuple(p.message for p in folder.problems)
    with open_model(request.source) as model:
        refuse_unfit(model, request.beside)
        refuse_unnamed(request.source, model.by_content, model.shard_names)
        advice = deploy(model, request.wanted, yes=request.yes)
        if request.quantize is None:
            if not published:
                check_room(place, model.file_size)
            return advice.notes
        plan, engine, _ = quantising.prepare(model, request.quantize, request.quantising)
        quantising.refuse(plan, request.quantising)
        if engine.kernels is not None:
            check_kernels(plan, engine.kernels)
        if not published:
            check_room(place, plan.file_size)
        return (*plan.warnings, *advice.notes)


def refuse_unfit(model: Model, beside: Sequence[str]) -> None:
    """For files that are to be used with a model.

    Raises:
        Refused: one of them does not go with it.
    """
    for path in beside:
        with open_model(path, strict=False) as side:
            for misfit in misfits(model, side):
                if misfit.stops:
                    raise Refused(f"--with {path}: {misfit.message}", misfit.hint or None)


Judged = Callable[[converting.Drafted], Sequence[Check]]
"""Judges what the converter has made (`gguftool.api.judged`)."""


def convert_step(request: Request, progress: Progress | None = None, judge: Judged | None = None) -> Step:
    """Convert the folder to the file in between, which stays when a fault that ``judge`` finds in it stops the rest."""
    options = request.convert

    def act(log: str, before: Mapping[str, Mapping[str, object]]) -> Outcome:
        for name in os.listdir(request.folder):
            if name.startswith(_CONVERTED):
                _clear(os.path.join(request.folder, name))
        told = (lambda percent: progress("converting", percent, 100)) if progress else None
        checks: list[Check] = []

        def look(drafted: converting.Drafted) -> bool:
            checks.extend(judge(drafted) if judge is not None else ())
            return True

        chosen = replace(options, log=log, overwrite=True, becomes=request.output)
        made = converting.convert(request.source, request.converted, chosen, told, look)
        data = {"path": made.path, "size": made.size, "converter": made.converter, "notes": list(made.notes)}
        data |= {"projector": made.projector, "left": rows(made.left), "checks": [c.as_data() for c in checks]}
        faults = [fault for check in checks for fault in check.faults]
        lines = [*made.notes, *(f"left out: {one.line}" for one in made.left)]
        lines += [f"{c.name}: {c.verdict}: {c.said}" for c in checks]
        summary = faults[0].message if faults else f"{made.size:,} bytes by {made.converter}"
        return Outcome(summary, made.paths, data, tuple(lines), not faults)

    settings = {"outtype": options.outtype, "pre": options.pre, "more": list(options.more)}
    return Step("convert", settings | {"projector": options.projector, "name": options.name}, act)


def projector(before: Mapping[str, Mapping[str, object]]) -> str | None:
    """The projector that was made together with the model, while it has no name of its own yet."""
    found = before.get("convert", {}).get("projector")
    return found if isinstance(found, str) else None


def quantize_step(request: Request, progress: Progress | None = None) -> Step:
    """Quantise, or copy when no type is asked for."""
    options = request.quantising

    def act(log: str, before: Mapping[str, Mapping[str, object]]) -> Outcome:
        source = str(before.get("convert", {}).get("path", request.source))
        _clear_all(request.draft)
        what = f"quantising to {request.quantize}"
        told = (lambda done, total: progress(what, done, total)) if progress else None
        if request.quantize is None:
            return _copy(source, request.draft)
        made = quantising.quantize(source, request.draft, request.quantize, replace(options, log=log), told)
        data = {
            "path": made.path,
            "size": made.size,
            "engine": made.engine,
            "type": made.plan.target.name,
            "bits_per_weight": made.plan.bits_per_weight,
            "fallbacks": len(made.plan.fallbacks),
            "warnings": [*made.plan.warnings, *made.notes],
        }
        summary = (
            f"{made.plan.target.name}, {made.size:,} bytes, {made.plan.bits_per_weight:.2f} bits per weight, "
            f"by {made.engine}"
        )
        return Outcome(summary, (made.path,), data, (*made.plan.warnings, *made.notes))

    o = options.overrides
    settings: dict[str, object] = {
        "type": request.quantize,
        "engine": options.engine,
        "tensor_types": [list(pair) for pair in o.tensor_types],
        "output": o.output_type,
        "embedding": o.embedding_type,
        "flags": [o.pure, o.leave_output, options.allow_requantize, options.provenance],
        "importances": [list(options.include), list(options.exclude)],
        "keys": [key.text for key in options.changes.keys],
        "prune": list(options.changes.prune),
    }
    return Step("quantize", settings, act)


def _copy(source: str, draft: str) -> Outcome:
    """The model as it is, in one file."""
    with open_model(source) as model:
        if len(model.parts) > 1:
            whole = gguftool("merge", path_word(source), "-o", "whole.gguf")
            raise UsageError(f"{source}: is a set of shards", f"say --quantize, or first: {whole}")
        size = model.file_size
        readers = readers_of(model.paths)
        with whole_file(draft, size, overwrite=True, readers=readers) as out, open(model.name, "rb") as f:
            copy_ranges(f.fileno(), out.fd, [(0, 0, size)])
    return Outcome(f"copied as it is, {size:,} bytes", (draft,), {"path": draft, "size": size})


def fix_step(request: Request, more: Operations, settings: Mapping[str, object]) -> Step:
    """Write the deploy fields, and what else is to be mended.

    Args:
        request: what to prepare.
        more: further operations for the model as it is, for example lint's safe fixes.
        settings: what ``more`` depends on.
    """

    def act(log: str, before: Mapping[str, Mapping[str, object]]) -> Outcome:
        if pending(request.draft):
            # A run was killed here, with the file itself still as the step before left it.
            recover(request.draft)
        with open_model(request.draft, strict=False) as model:
            advice = deploy(model, request.wanted, yes=request.yes)
        lines = [*advice.notes, *_edit(request.draft, advice.operations)]
        with open_model(request.draft, strict=False) as model:
            operations = tuple(more(model))
            room = bool(operations) or any(is_filler(key) for key in model.fields)
        # What is published carries no room for edits.
        lines += _edit(request.draft, (*operations, Strip()) if room else ())
        changes = [op.describe() for op in (*advice.operations, *operations)]
        data = {"changes": changes, "notes": list(advice.notes)}
        count = len(changes)
        return Outcome(f"{count} change{'s' if count != 1 else ''}", (request.draft,), data, tuple(lines))

    w = request.wanted
    return Step(
        "fix",
        {
            "context_length": w.context_length,
            "rope": [w.rope_freq_base, w.rope_freq_scale, w.rope_scaling, w.rope_scale_factor],
            "kv_cache_type": list(w.kv_cache_type) if w.kv_cache_type else None,
            **settings,
        },
        act,
    )


def _edit(path: str, operations: Sequence[Operation]) -> list[str]:
    if not operations:
        return []
    plan = plan_edit(path, operations, keep_undo=False)
    plan.commit()
    return [f"{op.describe()} ({plan.strategy})" for op in operations]


def publish_step(request: Request) -> Step:
    """Give the draft its final name; the file in between goes unless it is to be kept."""

    def act(log: str, before: Mapping[str, Mapping[str, object]]) -> Outcome:
        named = [(request.draft, request.output)]
        if eyes := projector(before):
            named.insert(0, (eyes, beside.name(request.output, eyes)))
        for made, path in named:
            if not _same(made, path):
                # A second name, so that a crash before this step is recorded loses nothing; `tidy` takes the first.
                publish_beside(made, path, overwrite=request.overwrite)
        paths = tuple(path for _, path in reversed(named))
        data = {"path": request.output, "projector": paths[1] if eyes else None}
        return Outcome(" and ".join(paths), paths, data)

    return Step("publish", {}, act)


def is_published(request: Request) -> bool:
    """Whether the output is the draft itself under its final name."""
    return _same(request.draft, request.output)


def _same(made: str, path: str) -> bool:
    try:
        return os.path.samefile(made, path)
    except OSError:
        return False


def forget(request: Request) -> None:
    """Forget what an earlier run has done: its state and its files in between."""
    if os.path.isdir(request.folder):
        for path in (os.path.join(request.folder, STATE), request.converted, request.draft):
            _clear_all(path)


def tidy(request: Request) -> None:
    """Remove intermediate files once all is done; state and logs stay, and with ``keep`` the converted file."""
    if os.path.isdir(request.folder):
        for name in os.listdir(request.folder):
            if name.startswith("model") or (name.startswith(_CONVERTED) and not request.keep):
                _clear(os.path.join(request.folder, name))


def _clear_all(path: str) -> None:
    """A file and what an interrupted edit left beside it."""
    folder, name = os.path.split(path)
    for other in os.listdir(folder):
        if other.startswith(name):
            _clear(os.path.join(folder, other))


def _clear(path: str) -> None:
    if os.path.isfile(path):
        os.unlink(path)
    elif os.path.isdir(path):
        shutil.rmtree(path)
