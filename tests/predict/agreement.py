"""Prediction and real verdict side by side, counted by class of mutation.

``python -m tests.predict.agreement [recipes|fresh]`` prints the table and every disagreement.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from gguftool.predict import Prediction, predict
from tests.predict.mutations import plain
from tests.predict.recipes import bases, built, recipes

PATH = "/x/m.gguf"
LOADED = ("loads", "warns")
HELD_OUT_SEED = 20261129
PROMPT = ("no tokens", "init: entry")
"""What the prompt of the oracle meets in a vocabulary without its letters: no matter of the file."""


@dataclass
class Row:
    """Counts of one class: records, of which refused, loaded; agreements; and what did not agree."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, dict[str, Any], Prediction]] = field(default_factory=list)


@cache
def held_out() -> frozenset[str]:
    """Bases that were set aside while the predictor was written: a random third."""
    names = sorted({r["base"] for r in recipes()})
    random.Random(HELD_OUT_SEED).shuffle(names)
    return frozenset(names[: len(names) // 3])


@cache
def base_warnings(base: str) -> Counter[str]:
    """Warnings of the unmutated file: the records hold only new ones."""
    return Counter(predict(built({"base": base, "ops": []}, PATH)).warnings)


def same_text(mine: str, real: str) -> bool:
    """Equal, up to the cut that the records make in very long lines."""
    head, cut, _ = real.partition("...[")
    return mine == real or (bool(cut) and len(head) > 200 and mine.startswith(head))


def compare(record: dict[str, Any], *, relative: bool) -> tuple[Counter[str], list[str], Prediction]:
    """Counts, the kinds of disagreement, and the prediction.

    Args:
        record: recipe and verdict.
        relative: the record's verdict and warnings are relative to its base.
    """
    p = predict(built(record, PATH), given_as="model")
    warnings = Counter(p.warnings) - (base_warnings(record["base"]) if relative else Counter())
    verdict = p.verdict
    if verdict in LOADED:
        verdict = "loads" if not relative or not warnings else "warns"
    real = record["verdict"]
    counts, wrong = Counter(n=1), []

    def note(kind: str, good: bool, of: str) -> None:
        counts[of] += 1
        counts[kind] += good
        if not good:
            wrong.append(kind)

    note("verdict", verdict == real, "n_verdict")
    if real == "refused":
        mine = plain(p.messages[0], PATH) if p.messages and p.verdict == "refused" else ""
        note("first error", same_text(mine, (record["errors"] or [""])[0].rstrip()), "n_first")
    elif real in LOADED:
        mine_lines = sorted(plain(w, PATH) for w in warnings.elements())
        note("warnings", mine_lines == sorted(w.rstrip() for w in record.get("warnings", ())), "n_warnings")
        after = _after(record)
        if after and p.after_load is not None:
            outcome = p.after_load.outcome
            stage = p.after_load.stage if outcome != "ok" else "decode"
            note("after", f"{stage}:{outcome}" == after, "n_after")
    elif real == "aborts" and record.get("stderr"):
        said = record["stderr"][0] if isinstance(record["stderr"], list) else record["stderr"]
        said = re.sub(r"^\S*:\d+: ", "", said)
        note("words of the abort", bool(p.messages) and p.messages[0] == said, "n_words")
    return counts, wrong, p


def _after(record: dict[str, Any]) -> str:
    """``context:aborts``, ``decode:ok``; "" where the record does not say."""
    after = record.get("after")
    if after is None:
        context, use = record.get("context", ""), record.get("use", "")
        after = f"context:{context}" if context and context != "ok" else f"decode:{use}" if use else ""
    lines = [after.partition(":")[2], *record.get("use_lines", ())]
    if any(line.startswith(PROMPT) for line in lines):
        return ""
    return str(after).replace("fails: decode -1", "fails")


@cache
def measured(name: str = "recipes") -> dict[str, Row]:
    """The comparison of all records of a file, by class (``held out`` and ``developed on`` are classes too)."""
    rows: dict[str, Row] = {}
    for record in recipes(name):
        if record.get("memory"):
            continue  # the outcome depends on the machine's memory
        counts, wrong, prediction = compare(record, relative=name == "recipes")
        groups = [record.get("class") or record["ops"][0]["op"], "all"]
        if name == "recipes":
            groups.append("held out" if record["base"] in held_out() else "developed on")
        for group in groups:
            row = rows.setdefault(group, Row())
            row.counts += counts
            row.wrong += [(kind, record, prediction) for kind in wrong]
    return rows


def table(rows: dict[str, Row]) -> str:
    """The agreement as text."""
    kinds = [("verdict", "n_verdict"), ("first error", "n_first"), ("warnings", "n_warnings"), ("after", "n_after")]
    lines = [f"{'class':<16}" + "".join(f"{kind:>22}" for kind, _ in kinds)]
    last = ("developed on", "held out", "all")
    for name in [*sorted(set(rows) - set(last)), *(n for n in last if n in rows)]:
        c = rows[name].counts
        cells = [f"{c[kind]}/{c[of]} {100 * c[kind] / c[of]:6.2f} %" if c[of] else "-" for kind, of in kinds]
        lines.append(f"{name:<16}" + "".join(f"{cell:>22}" for cell in cells))
    return "\n".join(lines)


if __name__ == "__main__":
    which = sys.argv[1] if len(sys.argv) > 1 else "recipes"
    print(len(bases()), "bases,", len(recipes(which)), "records of", which)
    print(table(measured(which)))
    for kind, record, prediction in measured(which)["all"].wrong:
        real = record["verdict"], (record.get("errors") or [""])[0], _after(record), record.get("stderr", "")
        print(f"{kind}: {record['base']} {record['ops']}\n  real {real}\n  mine {prediction}"[:900])
