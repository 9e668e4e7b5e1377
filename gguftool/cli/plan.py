"""``gguftool plan``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.wishes import wish_options, wished
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.memory.advice import Advice
    from gguftool.model import Model
    from gguftool.run.deploy import Deployment
    from gguftool.run.wishes import Wishes


@command(
    examples="""
    gguftool plan model.gguf
    gguftool plan model.gguf --ctx 131072 --vram 16GiB --ram 32GiB
    gguftool plan model.gguf --cache-type q8_0 --parallel 4 --vram 24GiB,24GiB
    gguftool plan hf://owner/repo:Q4_K_M --ctx 32768 --vram 12GiB
    gguftool plan model.gguf --measure --format json
    gguftool plan model.gguf --plot memory.svg
    """
)
@model_argument
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- LLAMA-SERVER ARGS]")
@wish_options("plan")
@option("--max-context", is_flag=True, help="Plan the largest context that fits.")
@option("--measure", is_flag=True, help="Ask the real library (it allocates nothing) in place of estimating.")
@option("--plot", metavar="FILE.svg|png|html", type=click.Path(), help="Draw memory against context.")
@format_option("text", "json")
@pass_session
def plan(session: Session, /, model: str, extra: tuple[str, ...], **options: Any) -> int:
    """Work out what memory MODEL takes, and with which settings it fits.

    Caches, states and weights are exact; compute buffers are estimated, or measured with --measure. When it does not
    fit, settings that nobody named are changed: the context, cache types, batch, experts on the host, layers on the
    host. The same options mean the same for `gguftool launch`; those of llama-server work in its own spelling, too.
    """
    from gguftool.cli.opened import open_for
    from gguftool.cli.plan_command import planned_command
    from gguftool.model.role import only_runnable
    from gguftool.report import plan as report
    from gguftool.run.deploy import resolved
    from gguftool.run.launch import expectations

    with open_for(session, model, beside=wished(extra).mmproj is None) as m:
        only_runnable(m)
        d, advice = _advise(session, m, wished(extra), options)
        said = resolved(d, advice.planner, advice.plan)
        argv = planned_command(model, m.name, said)
        if options["plot"]:
            from gguftool.report.plot import draw

            draw(advice, model, options["plot"])
            session.note(f"wrote {safe(options['plot'])}")
        for text in (*d.notes, *(doubt for doubt, _ in d.doubts)):
            session.note(f"note: {safe(text)}")
        code = _code(advice, d)
        if session.format == "json":
            body = report.plan_json(advice, argv, expectations(m, advice.plan, said))
            session.write_json(ok=code == 0, body=body)
        else:
            session.out(report.plan_text(advice, m.name, argv, session.style))
    return code


def _code(advice: Advice, d: Deployment) -> int:
    """1: llama.cpp would refuse; 5: it does not fit into the memory that was named."""
    if advice.plan.refused:
        return 1
    return 5 if advice.plan.fits is False and d.named else 0


def _advise(session: Session, m: Model, wishes: Wishes, options: dict[str, Any]) -> tuple[Deployment, Advice]:
    from gguftool.memory.advice import advise
    from gguftool.run.deploy import deploy, look, outcome, with_largest_context
    from gguftool.run.engine import choose

    engine = choose(wishes, printed=True)
    d = deploy(m, wishes, look(wishes, engine.tool), engine.build)
    planner = d.planner(m)
    if options["max_context"]:
        d = with_largest_context(d, planner)
    fit = outcome(d, planner)
    if d.problems:
        fit = replace(fit, plan=replace(fit.plan, refused=(*d.problems, *fit.plan.refused)))
    measured = ""
    if options["measure"]:
        from gguftool.cli.plan_measure import measured_fit

        fit, measured = measured_fit(session, m, d, planner, fit)
    advice = advise(planner, fit, measured=measured)
    if fit.fits is False and not fit.plan.refused:
        from gguftool.cli.plan_smaller import with_smaller

        advice = with_smaller(m, advice)
    return d, advice
