"""What the templates need to write numbers, and rows that say the same, as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from gguftool.regex import regex
from gguftool.report.overview import parameters_text
from gguftool.report.text import count, size
from gguftool.shell import gguftool, path_word

Row = dict[str, Any]
MOST = 40
"""Rules of a fleet that are shown."""


def percent(part: float) -> str:
    """``72 %``, ``0.09 %``, ``< 0.01 %``; the scripts of the page do the same."""
    p = 100 * part
    if 0 < p < 0.01:
        return "< 0.01 %"
    return f"{p:.0f} %" if p >= 9.5 or not p else f"{p:.1g} %"


def number(value: float) -> str:
    """``1,000,000``, ``0.25``."""
    return f"{value:,.10g}"


def pairs(rows: Iterable[Row], *names: str) -> list[tuple[Any, ...]]:
    """These fields of every row."""
    return [tuple(row[name] for name in names) for row in rows]


def runs(rows: Iterable[Row]) -> list[Row]:
    """Layers one after the other that are the same as one row; ``layers`` says which."""
    out: list[Row] = []
    for row in rows:
        same = {name: value for name, value in row.items() if name != "index"}
        if out and out[-1]["same"] == same:
            out[-1]["last"] = row["index"]
        else:
            out.append({"same": same, "first": row["index"], "last": row["index"]})
    return [{**x["same"], "layers": _span(x["first"], x["last"])} for x in out]


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}–{last}"


def blocks(shares: Iterable[Row]) -> list[Row]:
    """Blocks by their numbers; those with the same tensors and bytes one after the other as one row."""
    out: list[Row] = []
    for x in sorted(
        shares, key=lambda x: [int(part) if part.isdecimal() else part for part in _DIGITS.split(x["name"])]
    ):
        same = (x["tensors"], x["elements"], x["bytes"], bool(x["name"]))
        if out and out[-1]["same"] == same:
            out[-1].update(last=x["name"], count=out[-1]["count"] + 1)
        else:
            out.append({**x, "same": same, "first": x["name"], "last": x["name"], "count": 1})
    for x in out:
        x["name"] = " … ".join(dict.fromkeys((x["first"], x["last"])))
    return out


_DIGITS = regex(r"([0-9]{1,18})")


def alike(builds: Iterable[Row]) -> list[Row]:
    """Builds that have something to say, those with the same words one after the other as one row."""
    out: list[Row] = []
    for b in builds:
        says = next(iter((*b["messages"], *b["not_evaluated"])), "")
        if out and (out[-1]["verdict"], out[-1]["says"]) == (b["verdict"], says):
            out[-1]["last"] = b["build"]
        else:
            out.append({"first": b["build"], "last": b["build"], "verdict": b["verdict"], "says": says})
    named = [{**x, "builds": " … ".join(f"b{n}" for n in dict.fromkeys((x["first"], x["last"])))} for x in out]
    return [x for x in named if x["says"] or x["verdict"] != "loads"]


def fills(names: Iterable[str]) -> dict[str, int]:
    """A colour of the ten for each name, in their order; the last is for all that are left."""
    return {name: min(i, 10) for i, name in enumerate(dict.fromkeys(names), 1)}


def moment(seconds: float) -> str:
    """``2026-11-30 13:47 UTC``."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def within(path: str, folder: str) -> str:
    """A path as it is named from a folder; the whole one where it is not in it."""
    return path.removeprefix(folder.rstrip("/") + "/")


def last(path: str) -> str:
    """The last part of a path or an address."""
    return path.rstrip("/").rsplit("/", 1)[-1] or path


def state(row: Row) -> tuple[str, str]:
    """How a model of a fleet stands: a level, and a word for it."""
    lint = row["lint"] or {}
    if not row["ok"] or lint.get("error") or row["load"] not in (None, "loads", "warns", "unknown"):
        return "error", "broken" if not row["ok"] else "with errors"
    return ("warning", "with warnings") if lint.get("warning") else ("good", "good")


def totals(rows: Sequence[Row]) -> Row:
    """What the models of a fleet come to: bytes, and how many of each state."""
    states = [state(row)[0] for row in rows]
    return {
        "bytes": sum((row["facts"] or {}).get("size") or 0 for row in rows),
        "whole": sum(bool(row["ok"]) for row in rows),
        **{level: states.count(level) for level in ("good", "warning", "error")},
    }


def by_rule(rows: Iterable[Row]) -> list[Row]:
    """The findings of a fleet by rule, the worst first, then the commonest; at most `MOST`."""
    out: dict[tuple[str, str], Row] = {}
    for row in rows:
        seen = set()
        for f in row["findings"]:
            at = (f["rule"], f["severity"])
            one = out.setdefault(at, {**f, "path": row["path"], "models": 0})
            one["models"] += at not in seen
            seen.add(at)
    worst = ("error", "warning", "info")
    return sorted(out.values(), key=lambda x: (worst.index(x["severity"]), -x["models"], x["rule"]))[:MOST]


def flags(text: str) -> Any:
    """Markup of a text in which no option (``--cache-type``) is broken at its hyphens."""
    from markupsafe import Markup, escape

    return Markup(_FLAG.sub(r'<span class="nb">\1</span>', str(escape(text))))


_FLAG = regex(r"(?<![\w-])(-{1,2}[a-z][a-z-]{0,30})(?![\w-])")


def takes(entry: Row) -> int:
    """Bytes that a quantisation of a repository takes when it runs; without a plan those of its files."""
    return int((entry["plan"] or {}).get("total") or entry["size"])


FILTERS: dict[str, Callable[..., Any]] = {
    "size": lambda n: "?" if n is None else size(n),
    "count": lambda n: "?" if n is None else count(n),
    "short": lambda n: "?" if n is None else parameters_text(n),
    "shape": lambda shape: " × ".join(map(str, shape)) or "scalar",
    "percent": percent,
    "number": number,
    "pairs": pairs,
    "runs": runs,
    "blocks": blocks,
    "alike": alike,
    "fills": fills,
    "moment": moment,
    "within": within,
    "last": last,
    "line": lambda path, *words: gguftool(*words, path_word(path)),
    "state": state,
    "totals": totals,
    "by_rule": by_rule,
    "takes": takes,
    "flags": flags,
}
