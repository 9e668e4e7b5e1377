"""``gguftool fix`` model by model: options to operations, a plan, the commit, and what is told of it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from gguftool.endings import DONE
from gguftool.errors import Bug, GgufToolError, Refused, UsageError, of_one
from gguftool.records import dataclass
from gguftool.report.text import safe
from gguftool.shell import gguftool, path_word, shell

if TYPE_CHECKING:
    from collections.abc import Callable

    from gguftool.cli.editor import Draft
    from gguftool.cli.options import Session
    from gguftool.edit.ops import Operation
    from gguftool.edit.patch import Patch
    from gguftool.edit.plan import EditPlan, Result
    from gguftool.model import Model
    from gguftool.model.headers import Headers


@dataclass(frozen=True, slots=True)
class Edited:
    """One model as far as it got.

    Attributes:
        plan: what there is to change.
        result: what was done; None for a mere look.
        notes: what the reader should know, beside the notes of the plan.
        preview: nobody asked for a change, so it is what --auto would do.
        bugs: rules of lint that failed themselves.
    """

    plan: EditPlan
    result: Result | None
    notes: tuple[str, ...]
    preview: bool = False
    bugs: tuple[GgufToolError, ...] = ()

    def json(self) -> dict[str, object]:
        """As ``--format json`` has it."""
        from gguftool.report.edit import plan_body

        return plan_body(self.plan, self.result, self.notes)

    def told(self, session: Session) -> int:
        """Report it by itself."""
        code = Bug.exit_code if self.bugs else 0
        session.done_code = code
        if session.format == "json":
            from gguftool.report.envelope import error_row

            session.write_json(ok=not self.bugs, body=self.json(), errors=map(error_row, self.bugs))
        else:
            self.text(session)
        return code

    def text(self, session: Session) -> None:
        """For people: the changes on stdout, the rest on stderr."""
        from gguftool.report.edit import changes_text, done_text, plan_text

        plan, result, style = self.plan, self.result, session.style
        some = bool(plan.operations)
        if result is None:
            session.out(_preview_text(self.preview, some) + plan_text(plan, style))
        elif result.strategy != "none":
            session.out(changes_text(plan, style))
        for note in (*self.notes, *plan.notes):
            session.note(f"note: {safe(note)}")
        for bug in self.bugs:
            session.warn(str(bug))
        if result is None:
            session.note(_next(self.preview, some, plan.path, plan.output))
        else:
            session.out(done_text(plan, result, style))


def fix_all(session: Session, models: tuple[str, ...], given: dict[str, Any]) -> int:
    """Edit each of the models; the shards of a set are one."""
    from gguftool.edit.which import metadata_file
    from gguftool.hub import on_this_machine

    done: list[Edited] = []
    failed: list[GgufToolError] = []
    seen: set[str] = set()
    for model in models:
        try:
            real = os.path.realpath(metadata_file(on_this_machine(model)))
            if real in seen:
                continue
            seen.add(real)
            one = fix_one(session, model, given)
        except Exception as e:
            # Whatever one file causes must not keep the others from being edited.
            error = of_one(e, model)
            failed.append(error)
            session.warn(f"{model}: not edited: {error}" + (f"\nhint: {error.hint}" if error.hint else ""))
            continue
        done.append(one)
        failed.extend(one.bugs)
        if session.format == "text":
            one.text(session)
    code = max((error.exit_code for error in failed), default=0)
    session.done_code = code
    if session.format == "json":
        from gguftool.report.envelope import error_row

        body = {"files": [one.json() for one in done]}
        session.write_json(ok=not failed, body=body, errors=map(error_row, failed))
    return code


def fix_one(session: Session, model: str, given: dict[str, Any]) -> Edited:
    """Edit one model, or look at what would be edited.

    Raises:
        GgufToolError: it cannot or must not be done; the file is as it was.
    """
    from gguftool.edit.which import settled
    from gguftool.hub import on_this_machine
    from gguftool.model.headers import Headers
    from gguftool.model.opening import open_model

    draft, known = None, Headers()
    write = not given["dry_run"] and given["output"] is None
    path, outcomes = settled(on_this_machine(model), write=write, known=known)
    for outcome in outcomes:
        from gguftool.report.undone import recovered_text

        session.note(recovered_text(outcome, session.style))
    if given["edit"]:
        from gguftool.cli.editor import edit

        draft = edit(session, open_model(path, strict=False, known=known), given["toml"])
    try:
        one = _fix(session, path, given, draft, known)
    except BaseException as stop:
        # A signal that came when the file was written already says so.
        if draft is not None and str(stop) == DONE:
            os.unlink(draft.path)
        elif draft is not None:
            session.warn(draft.kept(path))
        raise
    if draft is not None and given["dry_run"]:
        session.note(draft.kept(path))
    elif draft is not None:
        os.unlink(draft.path)
    return one


def _fix(session: Session, path: str, given: dict[str, Any], draft: Draft | None, known: Headers) -> Edited:
    from gguftool.edit.plan import plan_edit
    from gguftool.model.opening import open_model

    preview, bugs = False, list[GgufToolError]()
    with open_model(path, strict=False, known=known) as opened:
        path = opened.name
        operations, notes = operations_of(opened, given, bugs)
        if draft is not None:
            operations += draft.operations(opened)
        if not operations and not _asked(given):
            preview = True
            operations = _auto(opened, notes, bugs)
    choices = {
        "strategy": given["strategy"],
        "output": given["output"],
        "in_use": given["in_use"],
        "hard_links": given["hard_links"],
        "force": given["force"],
        "harm": "allow" if given["yes"] else "refuse",
        "keep_undo": not given["no_undo"],
        "preserve_mtime": given["preserve_mtime"],
        "argv": sys.argv[1:],
        "patch": _patch(given["patch_file"]) if given["patch_file"] is not None else None,
        "known": known,
    }
    try:
        plan = plan_edit(path, operations, **choices)
    except Refused as refusal:
        if not preview:
            raise
        # Nobody asked to write: say what would be changed, and where that has to go.
        notes.append(f"{refusal}; {refusal.hint}")
        plan = plan_edit(path, operations, **{**choices, "output": "NEW.gguf"})
    if preview or given["dry_run"]:
        return Edited(plan, None, tuple(notes), preview, tuple(bugs))
    result = plan.commit(_progress(session))
    session.did(f"{path} is edited" if result.strategy != "none" else f"{path} is like that already")
    if given["publish"]:
        notes += _published(session, plan.output or path)
    return Edited(plan, result, tuple(notes), bugs=tuple(bugs))


def _patch(path: str) -> Patch:
    from gguftool.edit.patch import read_patch

    return read_patch(path)


def _published(session: Session, path: str) -> list[str]:
    """Write what lies beside a published file; what there is to know of it."""
    from gguftool.api.publishing import objections, record
    from gguftool.model import open_model

    with open_model(path) as model:
        paths = model.paths
    status = session.status()
    done = record(paths, f"{path}.manifest", lambda what, n, total: status(f"{what} {100 * n // max(1, total)} %"))
    written = [done.manifest, *([done.sums] if done.sums else [])]
    session.did(f"wrote {' and '.join(written)}")
    look = gguftool("push-check", path_word(path))
    return [f"wrote {' and '.join(written)}", *objections(path), f"names, licence, card, commands: {look}"]


# In the order of `gguftool.edit.deploy.Wanted`.
_DEPLOY = "context_length rope_freq_base rope_freq_scale rope_scaling rope_scale_factor kv_cache_type".split()
_CHANGES = (
    *_DEPLOY,
    *"chat_template sampling special sets set_file source copy edit toml delete rename auto dedupe".split(),
    *"repack realign reserve strip_padding publish patch_file".split(),
)


def _asked(given: dict[str, Any]) -> bool:
    return any(given[name] is not None and given[name] is not False and given[name] != () for name in _CHANGES)


def operations_of(model: Model, given: dict[str, Any], bugs: list[GgufToolError]) -> tuple[list[Operation], list[str]]:
    """What the options ask for, in the order in which it makes sense to do it; ``bugs`` gets those of lint."""
    from gguftool.edit import ops, request

    out: list[Operation] = []
    notes: list[str] = []
    if given["dedupe"]:
        out.append(ops.Dedupe())
    if given["auto"]:
        out.extend(_auto(model, notes, bugs))
    out.extend(request.delete_operation(model, key) for key in given["delete"])
    for text in given["rename"]:
        out.extend(request.rename_operations(model, text))
    if given["source"] is not None or given["copy"]:
        out.extend(_copied(model, given["source"], given["copy"]))
    if given["toml"] is not None and not given["edit"]:
        from gguftool.cli.editor import imported

        out.extend(imported(model, given["toml"]))
    if any(given[name] is not None for name in _DEPLOY):
        from gguftool.edit import deploy

        advice = deploy.deploy(model, deploy.Wanted(*(given[name] for name in _DEPLOY)), yes=given["yes"])
        out.extend(advice.operations)
        notes.extend(advice.notes)
    if given["chat_template"] is not None:
        from gguftool.edit.template import template_operations

        operations, said = template_operations(model, given["chat_template"])
        out.extend(operations)
        notes.extend(said)
    if given["sampling"] is not None:
        from gguftool.edit.sampling import sampling_operations

        out.extend(sampling_operations(given["sampling"]))
    for text in given["special"]:
        from gguftool.edit.special import special_operation

        operation, note = special_operation(model, text)
        out.append(operation)
        notes.extend(filter(None, [note]))
    for text in given["sets"]:
        out.append(request.set_operation(model, text))
        key, _, value = text.partition("=")
        if value.startswith("@") and os.path.isfile(value[1:]):  # as curl and gh have it
            way = shell(("--set-file", f"{key}={value[1:]}"))
            notes.append(f"{value} is written as it stands; the content of that file: {way}")
    for text in given["set_file"]:
        from gguftool.edit.fromfile import set_file_operation

        out.append(set_file_operation(model, text))
    if given["repack"]:
        out.append(ops.Repack())
    if given["realign"] is not None:
        out.append(ops.Realign(given["realign"]))
    if given["strip_padding"]:
        out.append(ops.Strip())
    if given["publish"]:
        from gguftool.edit.publish import clean

        out.extend(clean(model, own=True))
    if given["reserve"] is not None:
        out.append(ops.Reserve(given["reserve"]))
    return out, notes


def _copied(model: Model, source: str | None, wanted: tuple[str, ...]) -> list[Operation]:
    """Keys of another model."""
    from gguftool.edit.copied import GROUPS, copied
    from gguftool.hub import open_any

    names = [name.strip() for text in wanted for name in text.split(",") if name.strip()]
    if source is None:
        raise UsageError("--copy needs --from: the model to copy from")
    if not names:
        raise UsageError("--from needs --copy: what to copy", f"groups: {', '.join(GROUPS)}; or a key, or KEYS.*")
    with open_any(source, strict=False) as other:
        return copied(model, other, names)


def _auto(model: Model, notes: list[str], bugs: list[GgufToolError]) -> list[Operation]:
    """All safe fixes of lint; what cannot be applied is a note."""
    from gguftool.lint.fixes import collect

    fixes = collect(model)
    notes.extend(f"{finding.rule}: cannot be fixed here: {why}" for finding, why in fixes.refused)
    bugs.extend(fixes.bugs)
    return list(fixes.operations)


def _preview_text(preview: bool, any_fix: bool) -> str:
    if not preview:
        return ""
    return "No change was asked for. This is what --auto would do:\n" if any_fix else "No change was asked for.\n"


def _next(preview: bool, any_fix: bool, path: str, output: str | None) -> str:
    if not preview:
        return "nothing was written (--dry-run)"
    if any_fix:
        elsewhere = ("--output", output) if output is not None else ()
        return f"nothing was written; to do it: {gguftool('fix', path_word(path), '--auto', *elsewhere)}"
    look = gguftool("lint", path_word(path))
    return f"lint knows no safe fix for this file (--help lists the options); what lint says: {look}"


def _progress(session: Session) -> Callable[[int, int], None]:
    """Percent on stderr, when somebody looks at it."""
    status = session.status()
    return lambda done, total: status(f"copying {100 * done // max(1, total)} %" if done < total else "")
