"""What differs between two JSON values, as `gguftool/facts/difference.py` puts it together again."""

from __future__ import annotations

import difflib
import json
from typing import Any

from gguftool.facts.difference import applied


def difference(old: Any, new: Any) -> list[Any]:
    """The shorter of the difference from ``old`` to ``new`` and the new value itself."""
    if old == new and type(old) is type(new):
        return ["="]
    whole = ["v", new]
    if isinstance(old, dict) and isinstance(new, dict):
        changed = {k: difference(old.get(k), v) for k, v in new.items() if k not in old or old[k] != v}
        found: list[Any] = ["d", changed, [k for k in old if k not in new]]
    elif isinstance(old, list) and isinstance(new, list):
        found = ["l", *_steps(old, new)]
    else:
        return whole
    if applied(old, found) != new:
        raise AssertionError("a difference does not lead back to its value")
    return min(whole, found, key=lambda d: len(_text(d)))


def _steps(old: list[Any], new: list[Any]) -> list[Any]:
    out: list[Any] = []
    matcher = difflib.SequenceMatcher(None, [_text(x) for x in old], [_text(x) for x in new], autojunk=False)
    for what, a, b, c, d in matcher.get_opcodes():
        if what == "equal":
            out.append(b - a)
            continue
        # Entries that stand against each other are changed within, what is left over came or went.
        both = min(b - a, d - c)
        for i in range(both):
            inner = difference(old[a + i], new[c + i])
            out += [-1, {"+": [inner[1]]}] if inner[0] == "v" else [inner]
        if b - a > both:
            out.append(-(b - a - both))
        if d - c > both:
            out.append({"+": new[c + both : d]})
    return _joined(out)


def _joined(steps: list[Any]) -> list[Any]:
    """Neighbours of one kind as one step."""
    out: list[Any] = []
    for step in steps:
        last = out[-1] if out else None
        if isinstance(step, int) and isinstance(last, int) and (step > 0) == (last > 0):
            out[-1] += step
        elif isinstance(step, dict) and isinstance(last, dict):
            out[-1] = {"+": last["+"] + step["+"]}
        else:
            out.append(step)
    return out


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
