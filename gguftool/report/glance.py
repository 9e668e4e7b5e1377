"""A repository at a glance, as one screen of text and as JSON."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Sequence

from gguftool.api.glance import OVER, PARTLY, REFUSED, UNKNOWN, UNPLANNED, WHOLE, Entry, Glance
from gguftool.facts import llama_cpp
from gguftool.facts.cachetypes import shown
from gguftool.hub.address import in_store
from gguftool.hub.beyond import fetching
from gguftool.memory.choices import on_devices
from gguftool.model.role import ROLES
from gguftool.model.shards import naming
from gguftool.report.envelope import error_row
from gguftool.report.load import load_json
from gguftool.report.text import Style, Styled, count, safe, shorten, size, table
from gguftool.shell import gguftool, path_word, shell

LINE = 100
"""Columns of a reason below the table."""
_BREAK = "-. /"
"""What ends the part that names have in common; the one inside Q4_K_M does not."""


def text(g: Glance, style: Style) -> Iterator[str]:
    """The screen: each model with its quantisations, the best first, what lies beside, and how to get the best."""
    groups = g.groups
    for group in groups:
        yield _head(g, group, len(groups) > 1, style)
        yield ""
        yield from _table(group, style)
        yield from _reasons(group, style)
        if g.wishes.ctx is None and len({_context(x, style) for x in group if x.plan is not None}) > 1:
            yield style.dim("  each with the context that it has room for: --ctx names the one that is needed")
        yield ""
        if len(groups) > 1:
            yield from _way(g, group, style)
    if g.beside:
        yield style.bold("beside them")
        yield table([_beside(x, style) for x in g.beside], align="llrl", indent="  ")
        yield ""
    if len(groups) == 1:
        yield from _way(g, groups[0], style)
    word = path_word(g.spec)
    yield style.dim(f"findings: {gguftool('lint', word)}")
    yield style.dim(f"builds:   {gguftool('compat', word)}")


def _head(g: Glance, group: Sequence[Entry], many: bool, style: Style) -> str:
    first = group[0]
    plan = next((x.plan for x in group if x.plan is not None), None)
    name = str(first.kin[-1]) if many and first.kin and first.kin[-1] else g.spec
    said = [safe(first.architecture)] if first.architecture else []
    said += [f"{_short(first.parameters)} parameters"] if first.parameters else []
    said += [f"{len(group)} quantisations" if len(group) > 1 else "1 quantisation"]
    lines = [f"{style.bold(shorten(name, LINE))}   {' · '.join(said)}"]
    if plan is not None:
        there = ", ".join(f"{safe(d.name)} {size(d.memory) if d.memory is not None else '?'}" for d in plan.devices)
        kept = sorted({d.reserve for d in plan.devices if d.memory is not None and d.reserve})
        lines.append(style.dim(f"planned for {there} · {llama_cpp(g.build)}"))
        if kept:
            lines.append(style.dim(f"{' or '.join(map(size, kept))} of each is kept free (--reserve)"))
    return "\n".join(lines)


def _short(n: int) -> str:
    for unit, name in ((10**12, "T"), (10**9, "B"), (10**6, "M")):
        if n >= unit:
            return f"{n / unit:.3g} {name}"
    return count(n)


_Cell = Callable[[Entry, Style], "str | Styled"]


def _bits(x: Entry, style: Style) -> str:
    return f"{x.bits_per_weight:.2f}" if x.bits_per_weight else "?"


def _matrix(x: Entry, style: Style) -> str:
    return "yes" if x.imatrix else "no"


def _files(x: Entry, style: Style) -> str | Styled:
    there = len(x.listed.files)
    lacks = max(x.listed.count - there, len(x.missing))
    if lacks:
        return style.red(f"{there} of {there + lacks}")
    return f"{there} pieces" if x.listed.raw else str(there)


def _context(x: Entry, style: Style) -> str:
    if x.plan is None:
        return "–"
    n = x.plan.cache.context.requested
    return f"{n >> 10}k" if n % 1024 == 0 else str(n)


def _cache(x: Entry, style: Style) -> str:
    return "–" if x.plan is None or not x.plan.cache.caches else shown(x.plan.settings.type_k, x.plan.settings.type_v)


def _fits(x: Entry, style: Style) -> str | Styled:
    where = x.standing
    if where in (WHOLE, PARTLY, UNKNOWN) and x.plan is not None:
        taken = size(on_devices(x.plan))
        if where == PARTLY:
            return style.yellow(f"host: {x.on_host}")
        return style.green(f"yes, {taken}") if where == WHOLE else f"takes {taken}"
    said = {OVER: f"no, {size(x.over)} over", REFUSED: "refused", UNPLANNED: "–"}
    return style.red(said.get(where, "not readable"))


def _loads(x: Entry, style: Style) -> str | Styled:
    if x.load is None:
        return "–"
    if x.load.ends:
        return style.red(x.load.verdict)
    since = f"b{x.since}+" if x.since else "every"
    return style.red(since) if x.load.first_error else since


def _lint(x: Entry, style: Style) -> str | Styled:
    errors, warnings = (x.counts.get(name, 0) for name in ("error", "warning"))
    said = " ".join(f"{n}{letter}" for n, letter in ((errors, "e"), (warnings, "w")) if n)
    if not x.counts:
        return "–"
    return style.red(said) if errors else style.yellow(said) if warnings else style.green("ok")


COLUMNS: tuple[tuple[str, str, _Cell], ...] = (
    ("imatrix", "l", _matrix),
    ("files", "r", _files),
    ("fits", "l", _fits),
    ("context", "r", _context),
    ("cache", "l", _cache),
    ("loads", "l", _loads),
    ("lint", "l", _lint),
)
ALWAYS = ("fits",)


def _table(group: Sequence[Entry], style: Style) -> Iterator[str]:
    """Rows, the best first; what is the same in all of them is said once below."""
    names = labels([x.listed.name for x in group])
    readable = [x for x in group if x.error is None] or list(group)
    plain = Style()
    same = {}
    for title, _, cell in COLUMNS:
        values = {str(cell(x, plain)) for x in readable}
        if len(readable) > 1 and len(values) == 1 and title not in ALWAYS:
            same[title] = values.pop()
    left = [c for c in COLUMNS if c[0] not in same]
    rows = [
        [
            style.bold(name) if x.standing <= PARTLY and x is group[0] else safe(name),
            size(x.listed.size),
            _bits(x, style),
            *(cell(x, style) for _, _, cell in left),
        ]
        for name, x in zip(names, group, strict=True)
    ]
    yield table(
        rows, ("best first", "size", "bits", *(c[0] for c in left)), align="lrr" + "".join(c[1] for c in left),
        indent="  ", style=style,
    )  # fmt: skip
    said = [_SAID[title](value) for title, value in same.items() if value != "–"]
    if said:
        yield style.dim(f"  all of them: {' · '.join(s for s in said if s)}")


_SAID: dict[str, Callable[[str], str]] = {
    "imatrix": lambda v: "made with an importance matrix" if v == "yes" else "no importance matrix recorded",
    "files": lambda v: "one file each" if v == "1" else f"{v} each" if " " in v else f"{v} files each",
    "context": lambda v: f"context {v}",
    "cache": lambda v: f"cache {v}",
    "loads": lambda v: "every known llama.cpp loads it" if v == "every" else f"llama.cpp {v}",
    "lint": lambda v: "lint finds nothing" if v == "ok" else f"lint {v}",
}


def labels(names: Sequence[str]) -> list[str]:
    """What tells names apart: without the ending, the numbers of shards and the beginning that all have."""
    bare = []
    for name in names:
        said = naming(name)
        stem = said.stem if said is not None and said.count > 1 else os.path.basename(name)
        bare.append(stem[: -len(".gguf")] if stem.lower().endswith(".gguf") else stem)
    first, last = min(bare), max(bare)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))
    start = first[:same] if len(bare) > 1 else ""
    cut = max(start.rfind(c) + 1 for c in _BREAK)
    out = [b[cut:] for b in bare]
    return out if len(set(out)) == len(out) and all(out) else list(names)


def _reasons(group: Sequence[Entry], style: Style) -> Iterator[str]:
    """Why one cannot be used, a line each."""
    for name, x in zip(labels([x.listed.name for x in group]), group, strict=True):
        why = ""
        if x.error is not None:
            why = str(x.error).removeprefix(f"{x.listed.spec}: ")
        elif x.standing == REFUSED:
            why = f"llama.cpp refuses: {x.refused}"
        elif x.standing == UNPLANNED:
            why = x.unplanned.removeprefix(f"{x.listed.spec} ") or f"is {ROLES[x.role].what}"
        if why:
            yield f"  {style.red(shorten(name, 30))}: {shorten(why, LINE)}"


def _beside(x: Entry, style: Style) -> tuple[object, ...]:
    if x.error is not None:
        said: str | Styled = style.red(shorten(str(x.error).removeprefix(f"{x.listed.spec}: "), LINE))
    elif x.unfit:
        said = style.yellow(f"does not go with them: {shorten(x.unfit, LINE)}")
    else:
        said = style.green("goes with them") if x.unfit == "" else ""
    return shorten(x.listed.name, 50), x.role or "?", size(x.listed.size), said


def _way(g: Glance, group: Sequence[Entry], style: Style) -> Iterator[str]:
    best = g.best(group)
    if best is not None:
        [name] = [n for n, x in zip(labels([x.listed.name for x in group]), group, strict=True) if x is best]
        yield f"{style.bold('best')} {safe(name)}"
        yield from (f"  {shell(words)}" for words in commands(g, best))
    elif any(x.standing == UNKNOWN for x in group):
        yield "name --vram and --ram to see which fits"
    elif over := next((x for x in group if x.standing == OVER), None):
        yield style.red(f"none fits; the least over is {safe(over.listed.name)}, by {size(over.over)}")
        for x in g.offers.get(over.kin, ()):
            yield f"  with {x.what}: {shell(x.words)}"
    else:
        yield style.red("none of them can be used")
    yield ""


def commands(g: Glance, best: Entry) -> list[tuple[str, ...]]:
    """What gets the best one, and starts it."""
    spec = best.listed.spec
    if best.listed.raw:
        return [g.words(best, "pull")]
    if in_store(spec):
        return [tuple(shlex.split(fetching(spec)))]
    return [*([g.words(best, "pull")] if spec.lower().startswith("hf://") else []), g.words(best, "launch")]


# -- JSON


def json_body(g: Glance) -> dict[str, object]:
    """The command's own fields of the envelope."""
    best = g.best()
    groups = list(dict.fromkeys(x.kin for x in g.models))
    return {
        "repository": g.spec,
        "build": g.build,
        "models": [{**_json(x), "group": groups.index(x.kin)} for x in g.models],
        "beside": [{**_json(x), "unfit": x.unfit} for x in g.beside],
        "best": best.listed.name if best is not None else None,
        "commands": [list(words) for words in commands(g, best)] if best is not None else [],
        "offers": [{"what": x.what, "command": list(x.words)} for o in g.offers.values() for x in o],
    }


def _json(x: Entry) -> dict[str, object]:
    return {
        "name": x.listed.name,
        "address": x.listed.spec,
        "size": x.listed.size,
        "files": [{"name": f.path, "size": f.size, "sha256": f.sha256} for f in x.listed.files],
        "raw_pieces": x.listed.raw,
        "missing_shards": list(x.missing),
        "role": x.role or None,
        "architecture": x.architecture or None,
        "parameters": x.parameters,
        "quantisation": x.label or None,
        "bits_per_weight": round(x.bits_per_weight, 4) if x.bits_per_weight else None,
        "imatrix": None
        if x.imatrix is None
        else {
            "file": x.imatrix.file or None,
            "dataset": x.imatrix.dataset or None,
            "entries": x.imatrix.entries,
            "chunks": x.imatrix.chunks,
        },
        "standing": STANDINGS[x.standing],
        "why": x.refused or x.unplanned or None,
        "plan": None if x.plan is None else _plan_json(x),
        "load": None if x.load is None else load_json(x.load),
        "since": x.since,
        "lint": x.counts or None,
        "error": None if x.error is None else error_row(x.error),
    }


STANDINGS = ("fits", "partly-on-host", "unknown", "over", "refused", "not-planned", "not-readable")
"""In the order of `gguftool.api.glance.WHOLE` … `FAILED`."""


def _plan_json(x: Entry) -> dict[str, object] | None:
    p = x.plan
    if p is None:
        return None
    return {
        "fits": p.fits,
        "context": p.cache.context.requested,
        "type_k": p.settings.type_k,
        "type_v": p.settings.type_v,
        "total": p.total,
        "over": x.over,
        "on_host": x.on_host or None,
        "devices": [{"name": d.name, "total": d.total, "memory": d.memory, "missing": d.missing} for d in p.devices],
    }
