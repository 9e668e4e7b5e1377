"""``gguftool plan``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, model_argument, pass_session
from gguftool.cli.values import CACHE_TYPES, RAM, SIZE
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.memory.advice import Advice
    from gguftool.memory.fit import Fit, Free
    from gguftool.memory.plan import Planner
    from gguftool.memory.settings import Settings
    from gguftool.memory.weights import Placement
    from gguftool.model import Model

HEADLINE_CONTEXT = 8192
"""Context planned when none is asked for, if the file's is longer; the table shows the longer ones."""


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
@click.option("--ctx", type=click.IntRange(min=0), help="Tokens of all slots together; 0: the file's.")
@click.option("--max-context", is_flag=True, help="Plan the largest context that fits.")
@click.option("--cache-type", type=CACHE_TYPES, help="KV cache types; default: the file's record, else f16.")
@click.option("--parallel", metavar="N|auto", default="1", show_default=True, help="Slots; auto: as llama-server does.")
@click.option("--kv-unified/--no-kv-unified", default=None, help="All slots share one context.")
@click.option("--ubatch", type=click.IntRange(min=1), help="Tokens of one graph (llama.cpp: 512).")
@click.option("--batch", type=click.IntRange(min=1), default=2048, show_default=True, help="Logical batch.")
@click.option(
    "--flash-attn", type=click.Choice(["on", "off", "auto"]), default="auto", show_default=True, help="FlashAttention."
)
@click.option("--no-flash-attn", is_flag=True, help="The same as --flash-attn off.")
@click.option("--swa-full", is_flag=True, help="Sliding windows as large as the context.")
@click.option("--vram", metavar="SIZE[,SIZE…]|auto|none", help="Memory of each device; default: what is found.")
@click.option("--ram", type=RAM, metavar="SIZE|auto", help="Memory of the host; default: what is free.")
@click.option(
    "--backend",
    type=click.Choice(["cuda", "rocm", "vulkan", "metal", "sycl"]),
    default="cuda",
    show_default=True,
    help="What the devices named with --vram are.",
)
@click.option("--rpc", metavar="HOST:PORT=SIZE,…", help="RPC servers that stand in as devices.")
@click.option("--reserve", type=SIZE, default="1GiB", show_default=True, help="Left free on each device.")
@click.option("--gpu-layers", "-ngl", metavar="N|all", help="Layers on the devices; the output counts as one.")
@click.option("--n-cpu-moe", type=click.IntRange(min=0), help="Experts of the first N layers stay on the host.")
@click.option("--cpu-moe", is_flag=True, help="All experts stay on the host.")
@click.option("--tensor-split", metavar="N,N", help="Shares of the devices.")
@click.option("--override-tensor", multiple=True, metavar="REGEX=DEVICE", help="Where single tensors go.")
@click.option("--no-kv-offload", is_flag=True, help="Caches stay on the host.")
@click.option("--no-repack", is_flag=True, help="The host does not rearrange weights.")
@click.option("--mmproj", metavar="FILE", help="Multimodal projector to load beside the model.")
@click.option("--measure", is_flag=True, help="Ask the real library (it allocates nothing) in place of estimating.")
@click.option("--server", metavar="PATH", help="The llama.cpp program to ask for devices.")
@click.option("--plot", metavar="FILE.svg|png|html", type=click.Path(), help="Draw memory against context.")
@format_option("text", "json")
@pass_session
def plan(session: Session, /, model: str, **options: Any) -> int:
    """Work out what memory MODEL takes, and with which settings it fits.

    Caches, states and weights are exact; compute buffers are estimated, or measured with --measure. When it does not
    fit, settings that nobody named are changed: cache types, batch, experts on the host, layers on the host.
    """
    from gguftool.cli.plan_command import server_command_of
    from gguftool.hub import open_any
    from gguftool.model.role import only_runnable
    from gguftool.report import plan as report

    with open_any(model) as m:
        only_runnable(m)
        advice = _advise(session, m, options)
        argv = server_command_of(model, m.name, advice, options)
        if options["plot"]:
            from gguftool.report.plot import draw

            draw(advice, model, options["plot"])
            session.note(f"wrote {safe(options['plot'])}")
        if session.format == "json":
            session.write_json(ok=_code(advice, options) == 0, body=report.plan_json(advice, argv))
        else:
            session.out(report.plan_text(advice, m.name, argv, session.style))
    return _code(advice, options)


def _code(advice: Advice, options: Mapping[str, Any]) -> int:
    """1: llama.cpp would refuse; 5: it does not fit into the memory that was named."""
    if advice.plan.refused:
        return 1
    return 5 if advice.plan.fits is False and _named(options) else 0


def _advise(session: Session, m: Model, options: dict[str, Any]) -> Advice:
    from gguftool.cli import plan_machine
    from gguftool.memory.advice import advise
    from gguftool.memory.plan import Planner, weights_of

    place = plan_machine.placement(options)
    planner = Planner(
        m.arch,
        weights_of(m),
        plan_machine.machine(options),
        plan_machine.overrides(options),
        _projector(options["mmproj"]),
    )
    settings, free = _settings(m, options)
    if options["max_context"]:
        settings = _largest(planner, settings, place)
    fit = _outcome(planner, settings, place, free, named=_named(options))
    measured = ""
    if options["measure"]:
        from gguftool.cli.plan_measure import measured_fit

        fit, measured = measured_fit(session, m, planner, fit, may_move=free.gpu_layers)
    advice = advise(planner, fit, measured=measured)
    if fit.fits is False and not fit.plan.refused:
        from gguftool.cli.plan_smaller import with_smaller

        return with_smaller(m, advice)
    return advice


def _named(options: Mapping[str, Any]) -> bool:
    """Whether the user said how much memory there is: then the answer to "does it fit" is what was asked for."""
    return options["vram"] is not None or options["ram"] is not None or options["max_context"]


def _outcome(planner: Planner, s: Settings, p: Placement, free: Free, *, named: bool) -> Fit:
    """The search; on a bare host whose memory nobody named, what was asked for stays and the search is a proposal."""
    from dataclasses import replace

    from gguftool.memory.fit import Fit, Step, search

    found = search(planner, s, p, free)
    if named or planner.machine.devices or found.plan.settings == s:
        return found
    steps = tuple(replace(x, kept=i == 0) for i, x in enumerate(found.steps))
    offer = Step("to get this", "name the memory there is with --ram", True, kept=False)
    return Fit(planner.plan(s, p), (*steps, offer))


def _settings(m: Model, options: dict[str, Any]) -> tuple[Settings, Free]:
    from gguftool.errors import UsageError
    from gguftool.facts.cachetypes import DEFAULT, parse, recorded
    from gguftool.memory.fit import Free
    from gguftool.memory.settings import Settings

    pair = parse("/".join(options["cache_type"])) if options["cache_type"] else None
    parallel = options["parallel"]
    if parallel != "auto" and not parallel.isdigit():
        raise UsageError(f"--parallel {parallel}: expected a number or auto")
    trained = m.arch.context_length or 0
    ctx = options["ctx"]
    if ctx is None:
        ctx = min(trained, HEADLINE_CONTEXT) if trained else HEADLINE_CONTEXT
    types = pair or recorded(m.arch) or (DEFAULT, DEFAULT)
    settings = Settings(
        ctx=ctx,
        type_k=types[0],
        type_v=types[1],
        parallel=None if parallel == "auto" else int(parallel),
        kv_unified=options["kv_unified"],
        ubatch=options["ubatch"] or 512,
        batch=options["batch"],
        flash_attn="off" if options["no_flash_attn"] else options["flash_attn"],
        swa_full=options["swa_full"],
    )
    free = Free(
        cache_type=pair is None,
        ubatch=options["ubatch"] is None,
        cpu_moe=options["n_cpu_moe"] is None and not options["cpu_moe"] and not options["override_tensor"],
        gpu_layers=options["gpu_layers"] in (None, "auto"),
    )
    return settings, free


def _largest(planner: Any, settings: Settings, place: Any) -> Settings:
    from dataclasses import replace

    from gguftool.errors import UsageError
    from gguftool.memory.fit import largest_context

    tokens = largest_context(planner, settings, place)
    if tokens is None:
        raise UsageError("--max-context needs to know how much memory there is", "name --vram and --ram")
    return replace(settings, ctx=tokens or 256)


def _projector(path: str | None) -> int:
    """Bytes of a multimodal projector's tensors."""
    if path is None:
        return 0
    from gguftool.hub import open_any

    with open_any(path) as m:
        return sum(t.nbytes or 0 for t in m.tensors.values())
