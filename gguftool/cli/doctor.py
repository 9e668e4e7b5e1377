"""``gguftool doctor``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL

if TYPE_CHECKING:
    from gguftool.run.launch import LaunchPlan


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
    from gguftool.build.survey import survey
    from gguftool.hub.cache import hub_cache, ollama_stores
    from gguftool.report import doctor as report
    from gguftool.run.doctor import examine
    from gguftool.run.stores import stores

    found = examine(stores(hub_cache(), ollama_stores()), llama_cpp=llama_cpp)
    builders = survey(llama_cpp)
    plan = _plan(model, llama_cpp) if model else None
    bad = plan is not None and plan.memory.fits is False
    if session.format == "json":
        session.write_json(ok=not bad, body=report.json_body(found, builders, plan))
    else:
        session.out("\n".join(report.lines(found, builders, session.style, verbose=session.verbose)))
        if plan is not None:
            session.out("\n" + "\n".join(report.model_lines(plan, session.style)))
    return 1 if bad else 0


def _plan(model: str, llama_cpp: str | None) -> LaunchPlan:
    from gguftool.hub import open_any
    from gguftool.programs import SERVER, find
    from gguftool.run.devices import devices, host_memory
    from gguftool.run.launch import plan_launch
    from gguftool.run.wishes import Wishes

    with open_any(model, strict=False) as m:
        return plan_launch(m, Wishes(), None, devices(find(SERVER, llama_cpp, may_lack=True)), host_memory())


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
