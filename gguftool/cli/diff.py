"""``gguftool diff``: what differs between two models."""

from __future__ import annotations

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL, PATH


@command(
    examples="""
    gguftool diff old.gguf new.gguf
    gguftool diff --data model-f16.gguf model-q8_0.gguf      how far the weights are apart
    gguftool diff --plot errors.svg model-f16.gguf model-q4_k_m.gguf
    gguftool diff --format json old.gguf new.gguf
    """
)
@click.argument("old", type=MODEL, metavar="A")
@click.argument("new", type=MODEL, metavar="B")
@format_option("text", "json")
@option("--data", is_flag=True, help="Compare the tensor data too: bytes, and the distance of what differs.")
@option("--plot", type=PATH, metavar="FILE.svg", help="Draw the error of each tensor; implies --data.")
@pass_session
def diff(session: Session, old: str, new: str, data: bool, plot: str | None) -> int:
    """Compare two models: keys, tensors, types. Exit code 1 when they differ.

    With --data also how far the weights are apart, tensor by tensor, ‖W-Ŵ‖²/‖W‖² with W of A. Where B has a coarser
    type, the error is held against what our own quantiser makes of the same weights: a tensor that is much worse was
    quantised twice, or is broken.
    """
    from gguftool.cli.opened import open_for
    from gguftool.model.compare import compare
    from gguftool.report.diff import diff_json, diff_text

    if plot is not None:
        from gguftool.report.plot import check_svg

        check_svg(plot)
    with open_for(session, old) as a, open_for(session, new) as b:
        found = compare(a, b)
        if data or plot is not None:
            from gguftool.build.datadiff import with_data

            found = with_data(found, a, b, session.status())
        if plot is not None:
            from gguftool.report import distances
            from gguftool.report.plot import save
            from gguftool.report.text import safe

            save(plot, distances.svg(found.data, f"{new.rsplit('/', 1)[-1]} against {old.rsplit('/', 1)[-1]}"))
            session.note(f"wrote {safe(plot)}")
        if session.format == "json":
            session.write_json(ok=found.same, body={"old": old, "new": new, **diff_json(found)})
        else:
            session.out(diff_text(found, session.style))
    return 0 if found.same else 1
