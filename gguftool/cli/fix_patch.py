"""``gguftool fix --patch-out``: the edit as a small file, made of a header that may lie on a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gguftool.errors import Bug, GgufToolError, UsageError
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.cli.options import Session

_WRITES = {
    "output": "--output", "strategy": "--strategy", "edit": "--edit", "no_undo": "--no-undo",
    "preserve_mtime": "--preserve-mtime", "patch_file": "--patch",
}  # fmt: skip
"""What says how a file is written: nothing to a patch."""


def write_patch(session: Session, model: str, given: dict[str, Any]) -> int:
    """Make the patch and write its file; with ``--dry-run`` look at it only.

    Raises:
        GgufToolError: it cannot or must not be done.
    """
    from gguftool.api.edits import make_patch
    from gguftool.cli.fix_many import operations_of
    from gguftool.edit.patch import WHAT, is_patch, pack
    from gguftool.files.small import check_mine
    from gguftool.hub import open_any
    from gguftool.hub.place import on_the_hub
    from gguftool.report.edit import patch_body, patch_text
    from gguftool.report.envelope import error_row

    for name, option in _WRITES.items():
        if given[name]:
            raise UsageError(f"{option} says how a file is written, and --patch-out leaves the model as it is")
    place = "" if given["dry_run"] else str(given["patch_out"])
    if place:
        check_mine(place, is_patch, WHAT)
    bugs = list[GgufToolError]()
    with open_any(model, strict=False) as opened:
        operations, notes = operations_of(opened, given, bugs)
        if not operations:
            raise UsageError("a patch of no change: say what to change", "for example --set general.license=mit")
        harm = "allow" if given["yes"] else "refuse"
        plan = make_patch(opened, operations, place or None, force=given["force"], harm=harm)
        there = on_the_hub(model, plan.path)
        length = len(pack(plan.patch))
        if place:
            session.did(f"{place} is written")
        code = session.done_code = Bug.exit_code if bugs else 0
        if session.format == "json":
            session.write_json(ok=not bugs, body=patch_body(plan, place, notes), errors=map(error_row, bugs))
            return code
        session.out(patch_text(plan, place, length, there, session.style))
    for note in (*notes, *plan.notes):
        session.note(f"note: {safe(note)}")
    for bug in bugs:
        session.warn(str(bug))
    if not place:
        session.note("nothing was written (--dry-run)")
    return code
