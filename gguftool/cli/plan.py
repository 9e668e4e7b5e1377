"""``gguftool plan``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, option, pass_session
from gguftool.cli.values import PATH
from gguftool.cli.wishes import wish_options, wished
from gguftool.report.text import safe
from gguftool.shell import gguftool

if TYPE_CHECKING:
    from gguftool.api.plan import Planned


@command(
    examples="""
    gguftool plan model.gguf
    gguftool plan model.gguf --ctx 131072 --vram 16GiB --ram 32GiB
    gguftool plan model.gguf --cache-type q8_0 --parallel 4 --vram 24GiB,24GiB
    gguftool plan hf://owner/repo --ctx 32768 --vram 12GiB     which quantisation?
    gguftool plan hf://owner/repo:Q4_K_M --ctx 32768 --vram 12GiB
    gguftool plan model.gguf --vram 24GiB --bandwidth "CUDA0=RTX 3090,CPU=DDR5-5600x2"
    gguftool plan model.gguf --calibrate
    gguftool plan model.gguf --measure --format json
    gguftool plan model.gguf --build b8179 --vram 24GiB
    gguftool plan model.gguf --plot memory.svg
    """
)
@model_argument
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- LLAMA-SERVER ARGS]")
@wish_options("plan")
@option("--max-context", is_flag=True, help="Plan the largest context that fits.")
@option("--measure", is_flag=True, help="Ask the real library (it allocates nothing) in place of estimating.")
@option("--calibrate", is_flag=True, help="First measure how fast this host reads and computes, and keep it.")
@option("--plot", metavar="FILE.svg|png|html", type=PATH, help="Draw memory against context.")
@option("--build", metavar="BUILD", help="Plan for that build of llama.cpp, in place of the one at hand: b8179.")
@format_option("text", "json")
@pass_session
def plan(session: Session, /, model: str, extra: tuple[str, ...], **options: Any) -> int:
    """Work out what memory MODEL takes, and with which settings it fits.

    Caches, states and weights are exact; compute buffers are estimated, or measured with --measure. When it does not
    fit, settings that nobody named are changed: the context, cache types, batch, experts on the host, layers on the
    host. The same options mean the same for `gguftool launch`; those of llama-server work in its own spelling, too.
    Exit code 1 when the llama-server at hand (or --build) would refuse it, 5 when it does not fit the memory named.

    Of a repository or a folder with several quantisations each is a row, the best first: that with the most bits a
    weight, as measured, that fits whole. Only headers are read, side by side.
    """
    from gguftool.api.plan import engine_for, plan_open
    from gguftool.cli.opened import open_for
    from gguftool.hub.meant import meant

    wishes = wished(extra)
    if options["calibrate"]:
        from gguftool.memory.speed import measured

        rate = measured.calibrate()
        session.note(
            f"this host reads {rate.bandwidth / 1e9:,.1f} GB/s and computes {rate.compute / 1e9:,.0f} GFLOPS"
            f" in 32 bits; kept in {safe(measured.path())}"
        )
    there = meant(model)
    if not isinstance(there, str):
        from gguftool.cli.plan_table import table

        return table(session, there, wishes, options)
    model = there
    with open_for(session, model) as m:
        engine = engine_for(wishes, options["build"], options["measure"])
        found = plan_open(
            m,
            wishes,
            engine,
            model,
            max_context=options["max_context"],
            measure=options["measure"],
            tell=session.warn,
        )
        advice = found.advice
        if options["plot"]:
            from gguftool.report.plot import draw

            draw(advice, model, options["plot"])
            session.note(f"wrote {safe(options['plot'])}")
        for text in found.left_out:
            session.warn(f"left out: {text}")
        for text in found.notes:
            session.note(f"note: {safe(text)}")
        code, words = _code(found), list(found.command)
        if session.format == "json":
            from gguftool.report.plan_json import plan_json

            unfit = found.deployment.unfit
            body = plan_json(
                advice, words, found.expected, unfit, found.speed, found.ways, found.not_ready, found.not_loaded
            )
            session.write_json(ok=code == 0, body=body)
        else:
            from gguftool.report.plan import plan_text

            measuring = "" if options["measure"] else _measuring(session.words, found)
            text = plan_text(
                advice, m.name, words, session.style, found.speed, found.ways, found.not_ready, found.not_loaded,
                measuring,
            )  # fmt: skip
            session.out(text)
    return code


def _measuring(words: Sequence[str], found: Planned) -> str:
    """The line that asks the real library of the same plan; "": none is at hand, or nothing is left to ask."""
    from gguftool.run.measurer import at_hand
    from gguftool.run.options.extra import without_secrets

    if found.refused or not (who := at_hand(found.deployment, found.advice.planner)):
        return ""
    at = list(words).index("plan") + 1 if "plan" in words else len(words)
    again = gguftool(*words[:at], "--measure", *(x for x in without_secrets(words[at:]) if x != "--calibrate"))
    return f"{safe(who)} measures it and allocates nothing: {safe(again)}"


def _code(found: Planned) -> int:
    """1: llama.cpp would refuse, or leave a file out; 5: it does not fit into the memory that was named."""
    if found.refused or found.left_out:
        return 1
    return 5 if found.fits is False and found.deployment.named else 0
