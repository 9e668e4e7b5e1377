"""``gguftool doctor``."""

from __future__ import annotations

import sys

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL


@command(
    examples="""
    gguftool doctor
    gguftool doctor model.gguf                 is there room for this model?
    gguftool doctor --error "No LM Runtime found for model format 'gguf'"
    llama-server -m x.gguf 2>&1 | gguftool doctor --error -
    """
)
@click.argument("model", type=MODEL, metavar="[MODEL]", required=False)
@option("--error", "message", metavar="TEXT", help="Say what an error message means; - reads it from stdin.")
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
@format_option("text", "json")
@pass_session
def doctor(session: Session, /, model: str | None, message: str | None, llama_cpp: str | None) -> int:
    """Show what is installed and what it can do, memory, model caches, and known traps.

    With --error, exit code 1 when the message is not known.
    """
    if message is not None:
        return _explain(session, sys.stdin.read() if message == "-" else message)
    from gguftool.api.health import doctor as look
    from gguftool.report import doctor as report

    found = look(model or None, llama_cpp=llama_cpp)
    if session.format == "json":
        session.write_json(ok=found.ok, body=report.json_body(found.examination, found.builders, found.plan))
    else:
        session.out("\n".join(report.lines(found.examination, found.builders, session.style, verbose=session.verbose)))
        if found.plan is not None:
            session.out("\n" + "\n".join(report.model_lines(found.plan, session.style)))
    return 0 if found.ok else 1


def _explain(session: Session, text: str) -> int:
    from gguftool.report import doctor as report
    from gguftool.report.proof import diagnosis_lines
    from gguftool.run.diagnose import explain_text

    found = explain_text(text)
    if session.format == "json":
        session.write_json(ok=found is not None, body=report.diagnosis_json(found))
    elif found is None:
        session.out("this message is not in our table; `gguftool check-log` looks at a whole log")
    else:
        session.out("\n".join(diagnosis_lines(found, session.style, notice=not found.fatal)))
    return 0 if found else 1
