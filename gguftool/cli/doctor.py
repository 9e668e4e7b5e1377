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
    gguftool doctor --command llama.service    what changes for it with a newer llama.cpp?
    gguftool doctor --symptom "it never stops"
    gguftool doctor --error "No LM Runtime found for model format 'gguf'"
    llama-server -m x.gguf 2>&1 | gguftool doctor --error -
    """,
    words_for="--error",
)
@click.argument("model", type=MODEL, metavar="[MODEL]", required=False)
@option("--error", "message", metavar="TEXT", help="Say what an error message means; - reads it from stdin.")
@option("--symptom", metavar="TEXT", help="Say what usually causes it; with MODEL as `gguftool diagnose`.")
@option(
    "--command",
    "commands",
    multiple=True,
    type=click.Path(),
    metavar="FILE",
    help="A unit, compose file, llama-swap.yaml or script: which of its options change with a newer build?",
)
@option("--build", metavar="BUILD", help="The caches and commands are for that build, which is elsewhere: b8179.")
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
@format_option("text", "json")
@pass_session
def doctor(
    session: Session,
    /,
    model: str | None,
    message: str | None,
    symptom: str | None,
    commands: tuple[str, ...],
    build: str | None,
    llama_cpp: str | None,
) -> int:
    """Show what is installed and what it can do, memory, model caches, and known traps.

    With --error, exit code 1 when the message is not known; with --command, when the newest build that is known would
    not start with an option that the file says, or read it otherwise.
    """
    if message is not None:
        return _explain(session, sys.stdin.read() if message == "-" else message)
    if symptom is not None:
        if model:
            from gguftool.cli.diagnose import shown

            return shown(session, model, symptom, llama_cpp=llama_cpp)
        return _usual(session, symptom)
    from gguftool.api.health import doctor as look
    from gguftool.errors import Bug
    from gguftool.report import doctor as report

    found = look(model or None, llama_cpp=llama_cpp, commands=commands, build=build)
    bugs = [x.line for x in found.upgrade.cannot if x.bug]
    if session.format == "json":
        errors = [{"code": Bug.code, "message": line, "hint": None} for line in bugs]
        session.write_json(ok=found.ok and not bugs, body=report.json_body(found), errors=errors)
    else:
        session.out("\n".join(report.lines(found, session.style, verbose=session.verbose)))
        if found.plan is not None:
            session.out("\n" + "\n".join(report.model_lines(found.plan, session.style)))
    return Bug.exit_code if bugs else 0 if found.ok else 1


def _usual(session: Session, text: str) -> int:
    from gguftool.api.diagnosed import usual
    from gguftool.report import diagnosed as report

    found, causes = usual(text)
    if session.format == "json":
        body = {"symptom": report.symptom_json(found), "common": [report.cause_json(c) for c in causes]}
        session.write_json(ok=True, body=body)
    else:
        session.out("\n".join((session.style.bold(found.title), *report.common_lines(causes, session.style))))
        session.note("`gguftool diagnose MODEL` looks which of these, or of the faults of a file, it is")
    return 0


def _explain(session: Session, text: str) -> int:
    from gguftool.report import doctor as report
    from gguftool.report.proof import diagnosis_lines
    from gguftool.run.diagnose import explain_text

    found = explain_text(text)
    if session.format == "json":
        session.write_json(ok=found is not None, body=report.diagnosis_json(found))
    elif found is None:
        session.out("this message is not in our table; `gguftool check-log LOG` looks at a whole log")
    else:
        session.out("\n".join(diagnosis_lines(found, session.style, notice=not found.fatal)))
    return 0 if found else 1
