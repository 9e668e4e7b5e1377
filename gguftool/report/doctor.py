"""An examination of the machine as text and JSON."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.api.health import Health
from gguftool.api.upgrade import Upgrade
from gguftool.build.survey import Found
from gguftool.facts import llama_cpp
from gguftool.hub.stores import PROGRAMS, Store
from gguftool.records import asdict
from gguftool.report.compat import dated
from gguftool.report.text import Style, safe, size, table
from gguftool.run.changed import DEFAULT, OptionChange
from gguftool.run.diagnose import Diagnosis
from gguftool.run.doctor import Program
from gguftool.run.launch import LaunchPlan
from gguftool.run.target import build_name
from gguftool.run.traps import Trap

SHOWN = 8
"""Models of a store that are named without --verbose."""


def lines(h: Health, style: Style, *, verbose: bool = False) -> Iterator[str]:
    """Everything, by section; traps last, where they are seen."""
    e, builders = h.examination, h.builders
    yield style.bold("machine")
    rows = [
        ("system", e.system.system),
        ("python", e.system.python),
        ("processor", f"{e.system.processor}, {e.system.cores} cores, {' '.join(e.system.instructions)}"),
    ]
    if e.memory:
        limit = " (limit of the container)" if e.memory.limited else ""
        rows.append(("memory", f"{size(e.memory.free)} free of {size(e.memory.total)}{limit}"))
    for d in e.devices:
        rows.append((d.name, f"{d.about}, {size(d.free)} free of {size(d.total)} ({d.source})"))
    if not e.devices:
        rows.append(("devices", "none: everything runs on the processor"))
    yield table(rows, align="ll", indent="  ")
    yield ""
    yield style.bold("llama.cpp")
    yield table([_program(p) for p in e.programs], align="ll", indent="  ") if e.programs else "  no program found"
    if e.missing:
        yield f"  not found: {', '.join(e.missing)}"
    yield from _age(h.upgrade)
    yield ""
    yield style.bold("convert and quantise")
    yield table([(f.name, _builder(f)) for f in builders], align="ll", indent="  ")
    yield ""
    yield style.bold("packages and programs")
    both = [(name, version) for name, version in e.packages] + [(name, path) for name, path in e.others]
    yield table(both, align="ll", indent="  ") if both else "  none"
    yield ""
    yield style.bold("models on this machine")
    for store in e.stores:
        yield from _store(store, verbose)
    if not e.stores:
        yield f"  no store of {', '.join(p.name for p in PROGRAMS)}"
    yield ""
    yield from _upgrade(h.upgrade, style)
    yield style.bold("traps")
    for t in e.traps:
        yield from trap_lines(t, style)
    if not e.traps:
        yield "  none found"


def _age(u: Upgrade) -> Iterator[str]:
    """How old the llama-server at hand is."""
    if u.build is None:
        return
    newest = f"the newest known here is {dated(u.newest)}"
    if u.build > u.newest:
        yield f"  {llama_cpp(u.build)} is newer than what is known here: {newest}"
        return
    if u.last != u.build:
        yield f"  llama-server does not say its build: its options are those of {dated(u.build)} to {dated(u.last)}"
        return
    days = f", {u.days:,} days ago" if u.days is not None else ""
    behind = "the newest known here" if u.build == u.newest else newest
    yield f"  {llama_cpp(u.build)} " + (f"was made on {u.date}{days}; {behind}" if u.date else f"; {behind}")


def _upgrade(u: Upgrade, style: Style) -> Iterator[str]:
    """What the llama-server at hand cannot load, and what a newer one changes for saved commands."""
    if u.cannot:
        yield style.bold(f"models that {llama_cpp(u.build)} does not load")
        for x in u.cannot:
            yield f"  {style.red(x.path)}: {safe(x.line)}"
            if x.needs:
                yield f"    it {safe(x.needs)}"
        yield ""
    for c in u.commands:
        yield style.bold(f"{c.file}: {c.command.where}")
        older = f"b{u.build}" if u.build is not None else "its build, which is not known"
        if not c.changes:
            yield f"  nothing that it says changes from {older} to b{u.newest}"
        else:
            rows = [_change(x, style) for x in c.changes]
            yield f"  from {older} to b{u.newest}:"
            yield table(rows, align="llll", indent="  ")
        yield ""


def _change(c: OptionChange, style: Style) -> tuple[object, ...]:
    paint = style.red if c.said and c.kind != DEFAULT else style.dim
    became = f"{c.was or 'nothing'} -> {c.becomes or 'nothing'}"
    return safe(c.option), paint(_KINDS[c.kind]), safe(became), safe(c.why)


_KINDS = {
    "gone": "gone", "renamed": "renamed", "values": "other values", "default": "other default", "later": "newer only",
}  # fmt: skip


def _program(p: Program) -> tuple[str, str]:
    if p.build is None:
        return p.tool.name, f"{p.tool.path}: does not run: {p.error}"
    return p.tool.name, f"{p.tool.path} ({build_name(p.build)}, {len(p.build.options)} options, {p.tool.source})"


def _builder(f: Found) -> str:
    parts = [f.label, f"({f.path})" if f.path else "", f"· {f.can}" if f.can else ""]
    found = " ".join(p for p in parts if p) or "not found"
    return f"{found}; to get it: {f.hint}" if f.hint else found


def _store(s: Store, verbose: bool) -> Iterator[str]:
    whole = [m for m in s.models if m.whole]
    total = sum(m.size for m in whole)
    more = " or more" if s.cut else ""
    yield f"  {s.kind}: {safe(s.path)}: {len(whole)} files{more}, {size(total)}; {size(s.free)} free"
    for m in whole if verbose else whole[:SHOWN]:
        yield f"    {size(m.size):>10}  {safe(m.names[0].text if m.names else os.path.relpath(m.path, s.path))}"
    if len(whole) > SHOWN and not verbose:
        yield f"    … and {len(whole) - SHOWN} more (--verbose)"


def trap_lines(t: Trap, style: Style) -> Iterator[str]:
    """One trap."""
    paint = {"error": style.red, "warning": style.yellow}.get(t.severity, style.dim)
    yield f"  {paint(t.severity)}: {safe(t.message)}"
    yield f"    {style.cyan('try:')} {safe(t.remedy)}"


def model_lines(plan: LaunchPlan, style: Style) -> Iterator[str]:
    """Whether a model fits on this machine."""
    m = plan.memory
    yield style.bold("model")
    for d in m.devices:
        free = f"{size(d.memory)} free" if d.memory is not None else "free memory unknown"
        yield f"  {safe(d.name)}: {size(d.total)} needed, {free}"
    verdict = {True: style.green("fits"), False: style.red("does not fit"), None: style.yellow("unknown")}[m.fits]
    yield f"  in all {size(m.total)} at {m.cache.context.total} tokens: {verdict}"


def diagnosis_json(d: Diagnosis | None) -> dict[str, object]:
    """The fields of ``doctor --error``."""
    if d is None:
        return {"known": False, "error": None}
    return {
        "known": True,
        "error": {
            "kind": d.kind, "line": d.line, "number": d.number, "cause": d.cause, "remedy": d.remedy,
            "details": dict(d.details),
        },
    }  # fmt: skip


def json_body(h: Health) -> dict[str, object]:
    """The fields of an examination."""
    e, builders, plan = h.examination, h.builders, h.plan
    return {
        "system": {
            "system": e.system.system, "python": e.system.python, "processor": e.system.processor,
            "cores": e.system.cores, "instructions": list(e.system.instructions),
        },
        "memory": {"total": e.memory.total, "free": e.memory.free, "limited": e.memory.limited} if e.memory else None,
        "devices": [
            {"name": d.name, "kind": d.kind, "about": d.about, "total": d.total, "free": d.free, "source": d.source}
            for d in e.devices
        ],
        "programs": [
            {
                "name": p.tool.name, "path": p.tool.path, "source": p.tool.source,
                "build": p.build.build if p.build else None, "commit": (p.build.commit or None) if p.build else None,
                "error": p.error or None,
            }
            for p in e.programs
        ],
        "missing": list(e.missing),
        "builders": [
            {"name": f.name, "label": f.label, "path": f.path or None, "can": f.can, "hint": f.hint} for f in builders
        ],
        "packages": dict(e.packages),
        "others": dict(e.others),
        "stores": [
            {
                "kind": s.kind, "path": s.path, "free": s.free,
                "models": [{"path": m.opened, "size": m.size, "whole": m.whole} for m in s.models],
            }
            for s in e.stores
        ],
        "settings": [{"source": s.source, "name": s.name, "value": s.value} for s in e.settings],
        "traps": [
            {"kind": t.kind, "severity": t.severity, "message": t.message, "remedy": t.remedy} for t in e.traps
        ],
        "upgrade": _upgrade_json(h.upgrade),
        "model": _model(plan) if plan else None,
    }  # fmt: skip


def _upgrade_json(u: Upgrade) -> dict[str, object]:
    return {
        "build": u.build, "last": u.last, "date": u.date or None, "days": u.days, "newest": u.newest,
        "looked": u.looked,
        "cannot_load": [{"path": x.path, "message": x.line, "needs": x.needs or None} for x in u.cannot],
        "commands": [
            {
                "file": c.file, "where": c.command.where, "breaks": c.breaks,
                "changes": [asdict(x) for x in c.changes],
            }
            for c in u.commands
        ],
    }  # fmt: skip


def _model(plan: LaunchPlan) -> dict[str, object]:
    m = plan.memory
    return {
        "context": m.cache.context.total,
        "total": m.total,
        "fits": m.fits,
        "devices": [{"name": d.name, "needed": d.total, "free": d.memory} for d in m.devices],
    }
