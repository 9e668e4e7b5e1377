"""``gguftool diff``: what differs between two models."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL


@command(
    examples="""
    gguftool diff old.gguf new.gguf
    gguftool diff --data model-f16.gguf model-q8_0.gguf      how far the weights are apart
    gguftool diff --format json old.gguf new.gguf
    """
)
@click.argument("old", type=MODEL, metavar="A")
@click.argument("new", type=MODEL, metavar="B")
@format_option("text", "json")
@option("--data", is_flag=True, help="Compare the tensor data too: bytes, and the distance of what differs.")
@pass_session
def diff(session: Session, old: str, new: str, data: bool) -> int:
    """Compare two models: keys, tensors, types. Exit code 1 when they differ."""
    from gguftool.build.datadiff import with_data
    from gguftool.cli.opened import open_for
    from gguftool.model.compare import compare
    from gguftool.report.diff import diff_json, diff_text

    with open_for(session, old) as a, open_for(session, new) as b:
        found = compare(a, b)
        if data:
            found = with_data(found, a, b, session.status())
        if session.format == "json":
            session.write_json(ok=found.same, body={"old": old, "new": new, **diff_json(found)})
        else:
            session.out(diff_text(found, session.style))
    return 0 if found.same else 1
