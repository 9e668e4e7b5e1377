"""A planned launch as text and JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gguftool.cachetypes import shown
from gguftool.llamacpp.launch import LaunchPlan, Obstacle
from gguftool.llamacpp.silent import SilentSetting
from gguftool.report.text import Style, count, safe, size


def shell(argv: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """One line for a POSIX shell; text that a terminal would act on is refused by quoting it as ``$'..'``."""
    words = [f"{name}={_quote(value)}" for name, value in (environment or {}).items()]
    return " ".join([*words, *(_quote(word) for word in argv)])


def _quote(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    body = "".join(c if c.isprintable() and c not in "\\'" else _c_escape(c) for c in word)
    return f"$'{body}'"


def _c_escape(c: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape"))


def plan_lines(plan: LaunchPlan, style: Style) -> Iterator[str]:
    """What the command stands for, a few lines for stderr."""
    c, s = plan.cache.context, plan.settings
    slots = f"{c.slots} slots" if c.slots > 1 else "1 slot"
    share = " sharing it" if c.unified and c.slots > 1 else f" of {count(c.per_slot)}" if c.slots > 1 else ""
    memory = f"{size(plan.cache.kv_bytes)} KV cache"
    if plan.cache.state_bytes:
        memory += f" and {size(plan.cache.state_bytes)} state"
    yield f"context {count(c.total)} tokens, {slots}{share}; cache {shown(s.type_k, s.type_v)}: {memory}"
    if plan.tool:
        build = f"b{plan.build.build}" if plan.build.build else plan.build.commit or "unknown build"
        yield f"{safe(plan.tool.path)} ({build}, {plan.tool.source})"
    for note in plan.notes:
        yield f"{style.dim('note:')} {safe(note)}"


def silent_lines(settings: Iterable[SilentSetting], style: Style) -> Iterator[str]:
    """Settings that nobody typed."""
    for s in settings:
        effect = "no effect: the command line says otherwise" if s.overridden else "llama.cpp applies it silently"
        yield f"{style.yellow('setting:')} {safe(s.source)}: {safe(s.name)} = {safe(s.value)} ({effect})"


def obstacle_lines(obstacles: Iterable[Obstacle], style: Style) -> Iterator[str]:
    """Reasons not to start."""
    for o in obstacles:
        label = style.red("error:") if o.severity == "error" else style.yellow("warning:")
        yield f"{label} {safe(o.message)}" + (f"\n  {style.cyan('try:')} {safe(o.remedy)}" if o.remedy else "")


def plan_json(plan: LaunchPlan, silent: Iterable[SilentSetting]) -> dict[str, object]:
    """The fields of a launch that was planned."""
    c = plan.cache.context
    return {
        "command": plan.argv,
        "shell": shell(plan.argv),
        "program": {
            "path": plan.tool.path if plan.tool else None,
            "source": plan.tool.source if plan.tool else None,
            "build": plan.build.build,
            "commit": plan.build.commit or None,
            "assumed": plan.build.assumed,
        },
        "context": {
            "requested": c.requested,
            "total": c.total,
            "per_slot": c.per_slot,
            "usable": c.usable,
            "slots": c.slots,
            "unified": c.unified,
        },
        "kv": {
            "bytes": plan.cache.kv_bytes,
            "type_k": plan.settings.type_k,
            "type_v": plan.settings.type_v,
            "caches": [
                {"name": k.name, "cells": k.cells, "streams": k.streams, "layers": len(k.layers), "bytes": k.bytes}
                for k in plan.cache.caches
            ],
        },
        "state": {"bytes": plan.cache.state_bytes},
        "obstacles": [
            {"where": o.where, "severity": o.severity, "message": o.message, "remedy": o.remedy or None}
            for o in plan.obstacles
        ],
        "notes": list(plan.notes),
        "silent": [{"source": s.source, "name": s.name, "value": s.value, "overridden": s.overridden} for s in silent],
    }
