"""``gguftool undo``: take the last edit back."""

from __future__ import annotations

from typing import Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.report.text import safe


@command(
    examples="""
    gguftool undo model.gguf
    gguftool undo model.gguf --all
    gguftool undo model.gguf --list
    """
)
@model_argument
@option("--all", "everything", is_flag=True, help="Take back all recorded edits.")
@option("--list", "listing", aliases=("-n", "--dry-run"), is_flag=True, help="List the recorded edits; take none back.")
@option(
    "--in-use", type=click.Choice(["refuse", "rewrite"]), default="refuse", help="When another program has it open."
)
@option(
    "--hard-links", type=click.Choice(["refuse", "follow", "break"]), default="refuse", help="When it has other names."
)
@option("--preserve-mtime", is_flag=True, help="Leave the time of last change as it is.")
@format_option("text", "json")
@pass_session
def undo(
    session: Session,
    model: str,
    everything: bool,
    listing: bool,
    in_use: str,
    hard_links: str,
    preserve_mtime: bool,
) -> int:
    """Take the last edit back: the file has the same bytes as before, so a published sha256 matches again."""
    from gguftool.edit.records import history
    from gguftool.edit.undo import undo as undo_edit
    from gguftool.edit.which import settled
    from gguftool.hub import on_this_machine
    from gguftool.report.text import table
    from gguftool.report.undone import history_body, history_rows, recovered_text, undone_body, undone_text

    path, outcomes = settled(on_this_machine(model), write=not listing)
    for outcome in outcomes:
        session.note(recovered_text(outcome, session.style))
    if listing:
        records = list(history(path))
        rows = history_rows(path, records)
        if session.format == "json":
            session.write_json(ok=True, body={"undone": [], "left": len(records), "records": history_body(records)})
        else:
            session.out(table(rows, ("number", "when", "what")) if rows else f"{safe(path)}: no recorded edits")
        return 0
    how: dict[str, Any] = {"in_use": in_use, "hard_links": hard_links, "preserve_mtime": preserve_mtime}
    done = [undo_edit(path, **how)]
    while everything and done[-1].left:
        done.append(undo_edit(path, **how))
    session.did(f"{len(done)} edit{'' if len(done) == 1 else 's'} of {path} taken back")
    if session.format == "json":
        session.write_json(ok=True, body=undone_body(done))
    else:
        for one in done:
            session.out(undone_text(one, session.style))
    return 0
