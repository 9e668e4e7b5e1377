"""The llama-server command that runs a memory plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguftool.memory.advice import Advice
from gguftool.run.args import ServerOptions, server_command
from gguftool.run.capabilities import known

MIB = 1 << 20


def server_command_of(model: str, first: str, a: Advice, options: Mapping[str, Any]) -> list[str]:
    """Program and arguments, in the spelling of b11434.

    Everything the plan rests on is said, also where it is the default; llama.cpp's own fit is switched off when layers
    are placed, because it gives up as soon as one of its choices is taken.

    Args:
        model: the model as the user named it.
        first: path of its first file.
        a: the advice.
        options: of the command line.
    """
    plan, m = a.plan, a.planner.machine
    s, c = plan.settings, plan.cache.context
    placed = bool(m.devices)
    layers = a.planner.weights.layer_count + 1
    moe = min(plan.placement.cpu_moe, a.planner.weights.layer_count)
    o = ServerOptions(
        first,
        c.requested,
        s.type_k,
        s.type_v,
        flash_attn=_flash_attn(a),
        parallel=c.slots,
        kv_unified=s.unified if c.slots > 1 else None,
        ubatch=c.ubatch if c.ubatch != 512 or options["ubatch"] else None,
        batch=s.batch if s.batch != 2048 else None,
        swa_full=s.swa_full,
        gpu_layers=str(layers if plan.placement.gpu_layers is None else plan.placement.gpu_layers) if placed else None,
        tensor_split=_split(a) if len(m.devices) > 1 else None,
        cpu_moe=moe if placed and moe else None,
        override_tensor=",".join(f"{p}={d}" for p, d in a.planner.overrides) or None,
        fit="off" if placed else None,
        rpc=tuple(d.about for d in m.devices if d.kind == "rpc"),
        mmproj=options["mmproj"],
        extra=tuple(_extra(options)),
    )
    arguments = list(server_command(o, known()).args)
    return ["llama-server", *_source(model, first), *arguments[2:]]


def _source(model: str, first: str) -> list[str]:
    """How llama-server gets the model: a path, or by itself from where it was read."""
    if model.startswith(("http://", "https://")):
        return ["-mu", model]
    if model.startswith("hf://"):
        owner, _, rest = model.removeprefix("hf://").partition("/")
        repository, _, file = rest.partition("/")
        return ["-hf", f"{owner}/{repository}", *(["-hff", file] if file else [])]
    return ["-m", first]


def _flash_attn(a: Advice) -> str:
    """Said as ``on`` wherever llama.cpp would take it, so that a log can be held against it."""
    s = a.plan.settings
    if s.flash_attn != "auto" or not a.plan.cache.caches:
        return s.flash_attn
    return "off" if a.planner.hp.arch == "grok" else "on"


def _split(a: Advice) -> str:
    """The shares the plan was made with: what is free at the start may differ."""
    given = a.plan.placement.split
    shares = given or tuple((d.memory or MIB) / MIB for d in a.planner.machine.devices)
    return ",".join(f"{x:g}" if given else f"{x:.0f}" for x in shares)


def _extra(options: Mapping[str, Any]) -> list[str]:
    return [*(["-nkvo"] if options["no_kv_offload"] else []), *(["-nr"] if options["no_repack"] else [])]
