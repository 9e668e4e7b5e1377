"""Which builds of llama.cpp load a file, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.api.compat import BIG_ENDIAN, CUT
from gguftool.facts import llama_cpp, shipping, timeline
from gguftool.predict.byname import NOT_COMPARED
from gguftool.predict.needs import Need, sentence
from gguftool.predict.verdict import LOAD_ERROR
from gguftool.report.envelope import error_row
from gguftool.report.load import load_json, load_line, need_json
from gguftool.report.text import Style, Styled, safe, shorten, table
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.api.compat import Compatibility, Judged, OfMany
    from gguftool.facts.shipping import Shipped
    from gguftool.run.target import Target

LINE = 90
"""Columns of llama.cpp's line in the row of builds."""
MANY = 8
"""Keys and tensors that are shown without ``-v``."""


def text(c: Compatibility, style: Style, *, verbose: bool = False) -> Iterator[str]:
    """The report as lines."""
    yield style.bold(c.path)
    if c.load is not None and c.asked is not None:
        yield f"  {load_line(c.load, style, build=c.asked.build)}"
    said = safe(sentence(c.needs))
    none = f"every llama.cpp since {dated(timeline.oldest())} knows the names in it"
    yield f"  {_UNREAD[c.unread] if c.unread else said or none}"
    yield from _must(c, style)
    yield from _ignored(c, style, verbose)
    if c.shipped and _another_helps(c):
        yield ""
        yield style.bold("who ships such a build")
        yield table([_package(of) for of in _by_package(c.shipped)], align="ll", indent="  ")
    if c.row:
        yield ""
        yield style.bold("what builds do with it")
        heads = ("build", "of", "", "judged by", "llama.cpp's first line, or what is to be known")
        yield table([_judged(j, style) for j in c.row], heads, align="lllll", indent="  ")
        if c.cut:
            yield style.yellow("  the data of this file is not all here: this is what builds do with the whole file")
        if any(j.load.build is None for j in c.row):
            yield style.dim(f"  names: {NOT_COMPARED}")
        yield style.dim(f"  any other build: {gguftool('compat', path_word(c.path), '--build', 'b8179')}")


def all_text(spec: str, rows: Sequence[OfMany], style: Style) -> Iterator[str]:
    """Many files side by side: what a build must be to load each, and what the newest, or the one asked about, does."""
    loads = next(
        (x.found.load or x.found.row[-1].load for x in rows if x.found and (x.found.load or x.found.row)), None
    )
    asked = next((x.found.asked for x in rows if x.found and x.found.asked), None)
    build = asked.build if asked is not None else None
    yield style.bold(spec)
    grid = [_one_of_many(x, style) for x in rows]
    if loads is not None:
        yield table(grid, ("", "needs", llama_cpp(build), ""), align="llll", indent="  ", style=style)
    else:
        yield table(grid, align="llll", indent="  ")
    yield style.dim(f"  one of them alone: {gguftool('compat', path_word(rows[0].spec))}")


def _one_of_many(x: OfMany, style: Style) -> tuple[object, ...]:
    name = shorten(x.name, LINE)
    if x.found is None or x.error is not None:
        return name, style.red("not readable"), "", shorten(str(x.error).partition(": ")[2] or str(x.error), LINE)
    load = x.found.load or (x.found.row[-1].load if x.found.row else None)
    since = f"b{x.found.since}" if x.found.since else "–" if load is not None and load.ends else "every build"
    if load is None:
        return name, since, "", ""
    verdict: Styled = getattr(style, _PAINT[load.verdict])(_VERDICT.get(load.verdict, load.verdict))
    why = load.reason.removeprefix(LOAD_ERROR) or sentence(x.found.needs).partition(" (")[2].removesuffix(")")
    return name, since, verdict, shorten(why, LINE)


_UNREAD = {
    CUT: "its header cannot be read to the end: what it needs is not known",
    BIG_ENDIAN: "it is big-endian: only a llama.cpp on a machine of that kind (s390x) reads it",
}


def _another_helps(c: Compatibility) -> bool:
    """Whether a newer build loads what the one asked about does not; without one, whether the newest loads it."""
    if c.load is None or c.asked is None:
        return not c.unread and bool(c.row) and not c.row[-1].load.ends
    build = c.asked.build or timeline.newest()
    return c.load.ends and any(n.refuses and n.there(build) is False for n in c.needs)


def _must(c: Compatibility, style: Style) -> Iterator[str]:
    """Names that not every build knows; the others in one line."""
    refusing = [n for n in c.needs if n.refuses]
    later = [n for n in refusing if not n.always]
    build = c.asked.build if c.asked is not None else None
    if later:
        yield ""
        yield style.bold("what a build must know")
        heads = ["", "first build with it", "last without it"]
        rows = [list(_need(n)) for n in later]
        if build is not None:
            heads.append(f"b{build}")
            for row, n in zip(rows, later, strict=True):
                row.append({True: style.green("yes"), False: style.red("no"), None: "not known"}[n.there(build)])
        yield table(rows, heads, align="llll"[: len(heads)], indent="  ")
    if always := [n.what for n in refusing if n.always]:
        yield style.dim(f"  {safe(', '.join(always))}: in every build since {dated(timeline.oldest())}")


def _ignored(c: Compatibility, style: Style, verbose: bool) -> Iterator[str]:
    """Keys and tensors that came later; of one build those it does not look at."""
    later = [n for n in c.needs if not n.refuses]
    build = c.asked.build if c.asked is not None else None
    if build is not None:
        later = [n for n in later if n.there(build) is not True]
    if not later:
        return
    yield ""
    yield style.bold("what older builds do not look at" if build is None else f"what b{build} does not look at")
    shown = later if verbose else later[:MANY]
    yield table([_need(n) for n in shown], ("", "first build with it", "last without it"), align="lll", indent="  ")
    if len(later) > len(shown):
        yield style.dim(f"  … and {len(later) - len(shown)} more (-v shows them all)")


def _need(n: Need) -> tuple[Styled | str, ...]:
    if n.since is None:
        return safe(n.what), "none", dated(n.not_in)
    ended = f", last in {dated(n.last)}" if n.last is not None else ""
    return safe(n.what), dated(n.since) + ended, dated(n.not_in)


def dated(build: int | None) -> str:
    """A build with its date, where it is known: ``b8179 (2026-02-27)``."""
    if build is None:
        return ""
    when = shipping.date(build)
    return f"b{build} ({when})" if when else f"b{build}"


def _by_package(shipped: Sequence[Shipped]) -> list[list[Shipped]]:
    out: dict[str, list[Shipped]] = {}
    for s in shipped:
        out.setdefault(s.package, []).append(s)
    return list(out.values())


def _package(of: Sequence[Shipped]) -> tuple[str, str]:
    first, last = of[0], of[-1]
    newest = "" if last == first else f"; newest known {last.version} ({last.date})"
    return first.package, f"{first.version} ({first.date}) or newer{newest}"


_PAINT = {"loads": "green", "warns": "yellow", "refused": "red", "aborts": "red", "unknown": "dim"}
_VERDICT = {"warns": "loads with warnings", "refused": "refuses"}


def _judged(j: Judged, style: Style) -> tuple[object, ...]:
    load = j.load
    after = load.after_load
    open_ = [why for why in load.not_evaluated if why != NOT_COMPARED]
    said = load.reason or " ".join((*open_[:1], *load.warnings)[:1])
    verdict, paint = _VERDICT.get(load.verdict, load.verdict), _PAINT[load.verdict]
    if load.loads and after is not None and after.outcome not in ("ok", "unknown"):
        verdict, paint = f"loads, then {after.outcome}", "red"
    shown: Styled = getattr(style, paint)(verdict)
    by = "names" if load.build is None else f"b{load.build}"
    return f"b{j.build}", j.date, shown, style.dim(by), shorten(safe(said.removeprefix(LOAD_ERROR)), LINE)


# -- JSON


def all_json(spec: str, rows: Sequence[OfMany]) -> dict[str, object]:
    """The same of many files; a file that could not be read has an error in place of an answer."""
    return {
        "repository": spec,
        "models": [
            {
                "name": x.name,
                **(json_body(x.found) if x.found is not None else {}),
                "error": error_row(x.error) if x.error is not None else None,
            }
            for x in rows
        ],
    }


def json_body(c: Compatibility) -> dict[str, object]:
    """The command's own fields of the envelope."""
    body: dict[str, object] = {
        "path": c.path,
        "needs": [need_json(n) for n in c.needs],
        "since": c.since,
        "sentence": sentence(c.needs) or None,
        "cut": c.cut,
        "shipped": [
            {"package": s.package, "version": s.version, "date": s.date or None, "since": s.since, "last": s.last}
            for s in c.shipped
        ],
        "builds": [
            {**load_json(j.load), "build": j.build, "date": j.date or None, "judged_by": j.load.build} for j in c.row
        ],
    }  # fmt: skip
    if c.load is not None and c.asked is not None:
        load = load_json(c.load)
        body |= {"asked": target_json(c.asked), "verdict": load["verdict"], "messages": load["messages"], "load": load}
    return body


def target_json(t: Target) -> dict[str, object]:
    """The llama.cpp that was asked about."""
    return {"build": t.build, "last": t.last, "name": t.name or None, "notes": list(t.notes)}
