"""Which builds of llama.cpp load a file, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gguftool.facts import timeline
from gguftool.predict.needs import Need, sentence
from gguftool.report.lint import judged_by, load_json, load_line, need_json
from gguftool.report.text import Style, Styled, safe, shorten, table

if TYPE_CHECKING:
    from gguftool.api.compat import Compatibility, Judged
    from gguftool.facts.timeline import Shipped
    from gguftool.run.target import Target

LINE = 90
"""Columns of llama.cpp's line in the row of builds."""


def text(c: Compatibility, style: Style, *, verbose: bool = False) -> Iterator[str]:
    """The report as lines."""
    yield style.bold(c.path)
    if c.load is not None and c.asked is not None:
        yield f"  {load_line(c.load, style, build=c.asked.build)}"
    said = sentence(c.needs)
    yield f"  {said}" if said else f"  every llama.cpp since b{timeline.oldest()} knows what stands in it"
    yield ""
    yield from _needs(c.needs, style, verbose)
    if c.shipped:
        yield ""
        yield style.bold("who ships such a build")
        yield table([_package(of) for of in _by_package(c.shipped)], align="ll", indent="  ")
    if c.row:
        yield ""
        yield style.bold("builds")
        yield table([_judged(j, style) for j in c.row], ("build", "of", "", "llama.cpp's first line"), indent="  ")
        yield style.dim("  one in full: gguftool compat MODEL --build NUMBER")


def _needs(found: Sequence[Need], style: Style, verbose: bool) -> Iterator[str]:
    refusing = [n for n in found if n.refuses]
    if refusing:
        yield style.bold("what a build must know")
        yield table([_need(n) for n in refusing], ("", "first build seen with it", "last without"), indent="  ")
    later = [n for n in found if not n.refuses]
    if later:
        yield ""
        yield style.bold("what older builds do not look at")
        shown = later if verbose else later[:MANY]
        yield table([_need(n) for n in shown], ("", "first build seen with it", "last without"), indent="  ")
        if len(later) > len(shown):
            yield style.dim(f"  … and {len(later) - len(shown)} more (-v shows them all)")


MANY = 8
"""Keys and tensors that are shown without ``-v``."""


def _need(n: Need) -> tuple[str, str, str]:
    what = safe(n.what)
    if n.since is None:
        return what, "none", dated(n.not_in)
    ended = f", last seen in {dated(n.last)}" if n.last is not None else ""
    if n.not_in is None:
        return what, f"b{n.since}, the oldest looked at{ended}", ""
    return what, dated(n.since) + ended, dated(n.not_in)


def dated(build: int | None) -> str:
    """A build with its date, where it is known: ``b8179 (2026-02-27)``."""
    if build is None:
        return ""
    when = timeline.date(build)
    return f"b{build} ({when})" if when else f"b{build}"


def _by_package(shipped: Sequence[Shipped]) -> list[list[Shipped]]:
    out: dict[str, list[Shipped]] = {}
    for s in shipped:
        out.setdefault(s.package, []).append(s)
    return list(out.values())


def _package(of: Sequence[Shipped]) -> tuple[str, str]:
    first, last = of[0], of[-1]
    newest = "" if last == first else f"; newest {last.version} ({last.date})"
    return first.package, f"{first.version} ({first.date}) or newer{newest}"


_PAINT = {"loads": "green", "warns": "yellow", "refused": "red", "aborts": "red", "unknown": "dim"}
_VERDICT = {"warns": "loads with warnings", "refused": "refuses"}


def _judged(j: Judged, style: Style) -> tuple[object, ...]:
    load = j.load
    after = load.after_load
    verdict, line = _VERDICT.get(load.verdict, load.verdict), load.first_error or " ".join(load.warnings[:1])
    paint = _PAINT[load.verdict]
    if load.loads and after is not None and after.outcome not in ("ok", "unknown"):
        verdict, paint = f"loads, then {after.outcome}", "red"
    shown: Styled = getattr(style, paint)(verdict)
    return f"b{j.build}", j.date, shown, shorten(safe(line), LINE) + style.dim(judged_by(load, j.build))


# -- JSON


def json_body(c: Compatibility) -> dict[str, object]:
    """The command's own fields of the envelope."""
    body: dict[str, object] = {
        "path": c.path,
        "needs": [need_json(n) for n in c.needs],
        "since": c.since,
        "sentence": sentence(c.needs) or None,
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
