"""``gguftool recover``: settle an interrupted edit."""

from __future__ import annotations

from gguftool.cli.options import Session, command, format_option, model_argument, pass_session


@command(examples="gguftool recover model.gguf")
@model_argument
@format_option("text", "json")
@pass_session
def recover(session: Session, model: str) -> int:
    """Finish or take back an edit that was interrupted; the file is then exactly the new or the old one."""
    from gguftool.edit.recover import recover as settle
    from gguftool.edit.which import unfinished
    from gguftool.hub import on_this_machine
    from gguftool.report.text import Style
    from gguftool.report.undone import recovered_body, recovered_text

    outcome = settle(unfinished(on_this_machine(model)))
    session.did(recovered_text(outcome, Style(enabled=False)).partition("\n")[0])
    if session.format == "json":
        session.write_json(ok=True, body=recovered_body(outcome))
    else:
        session.out(recovered_text(outcome, session.style))
    return 0
