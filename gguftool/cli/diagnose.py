"""``gguftool diagnose``."""

from __future__ import annotations

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session


@command(
    examples="""
    gguftool diagnose model.gguf
    gguftool diagnose model.gguf --symptom "it never stops"
    gguftool diagnose model.gguf --symptom GGGG --no-run
    """,
    words_for="--symptom",
)
@model_argument
@option("--symptom", metavar="TEXT", help="What it does, in your own words: talks nonsense, GGGG, never stops, slow …")
@option("--no-run", is_flag=True, help="Do not load it: no known text, no look at tensor data.")
@option("--no-hash", is_flag=True, help="Do not hash it, even where its hash is known.")
@option("--llama-cpp", metavar="PATH", help="The llama.cpp to use: its folder, or a program of it.")
@format_option("text", "json")
@pass_session
def diagnose(
    session: Session, /, model: str, symptom: str | None, no_run: bool, no_hash: bool, llama_cpp: str | None
) -> int:
    """Find out why a model does not do well: lint, integrity and hash, memory, what it knows; ranked.

    Every cause comes with its evidence and the next command. Exit code 1 when a cause was found.
    """
    return shown(session, model, symptom, run=not no_run, hashes=not no_hash, llama_cpp=llama_cpp)


def shown(
    session: Session,
    model: str,
    symptom: str | None,
    *,
    run: bool = True,
    hashes: bool = True,
    llama_cpp: str | None = None,
) -> int:
    """Diagnose and report, for `doctor`, too."""
    from gguftool.api.diagnosed import diagnose as look
    from gguftool.errors import Bug
    from gguftool.report import diagnosed as report
    from gguftool.report.envelope import error_row

    found = look(model, symptom, run=run, hashes=hashes, llama_cpp=llama_cpp)
    if session.format == "json":
        body = report.json_body(found)
        session.write_json(ok=found.ok and not found.bugs, body=body, errors=map(error_row, found.bugs))
    else:
        session.out("\n".join(report.lines(found, session.style)))
        for bug in found.bugs:
            session.warn(str(bug))
    return Bug.exit_code if found.bugs else 0 if found.ok else 1
