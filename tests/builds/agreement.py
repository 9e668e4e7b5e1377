"""Prediction and real verdict side by side, by build and by class of mutation.

``python -m tests.builds.agreement [--records FOLDER] [--build N] [--wrong KIND]`` prints the tables; with ``--wrong``
every disagreement of a class, or of all.

A prediction ``unknown`` counts as wrong: everything that decides a load stands in the header.
"""

from __future__ import annotations

import argparse
import random
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gguftool.predict import Prediction, predict
from tests.builds.records import HELD_OUT, Record, records
from tests.predict.mutations import plain
from tests.predict.recipes import built

PATH = "/x/m.gguf"
LOADED = ("loads", "warns")


@dataclass
class Row:
    """Counts, and what did not agree."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, Record, Prediction]] = field(default_factory=list)


def verdict_of(p: Prediction) -> str:
    """The prediction's verdict in the words of the records."""
    return "loads" if p.verdict in LOADED else p.verdict


def same_words(mine: str, real: str) -> bool:
    """Equal lines; of an assertion without the place in the source, which differs between builds."""
    mine, real = (re.sub(r"^\S*:\d+: ", "", text).rstrip() for text in (mine, real))
    return mine[:400] == real[:400]


def compare(record: Record) -> tuple[Counter[str], list[str], Prediction]:
    """Counts, the kinds of disagreement, and the prediction."""
    p = predict(built(record.recipe, PATH), build=record.build, given_as="model")
    counts, wrong = Counter(n=1), []

    def note(kind: str, good: bool) -> None:
        counts["of " + kind] += 1
        counts[kind] += good
        if not good:
            wrong.append(kind)

    good = verdict_of(p) == record.verdict
    note("verdict", good)
    if record.verdict == "refused" and record.error:
        note("first line", p.verdict == "refused" and same_words(plain(p.first_error, PATH), record.error))
    if "unknown model architecture" in record.error:
        note("unknown architecture", "unknown model architecture" in p.first_error)
    elif "unknown model architecture" in p.first_error:
        note("unknown architecture", False)
    if record.verdict == "loads" and good:
        mine = sorted(plain(w, PATH)[:400] for w in p.warnings)
        note("warnings", mine == sorted(record.warnings))
    counts["unknown"] += p.verdict == "unknown"
    return counts, wrong, p


def measured(found: Iterable[Record]) -> dict[tuple[str, str], Row]:
    """The comparison, by (``build``, number), (``class``, name) and (``all``, ``""``)."""
    rows: dict[tuple[str, str], Row] = {}
    for record in found:
        counts, wrong, prediction = compare(record)
        for group in (("build", f"b{record.build}"), ("class", record.kind), ("all", "")):
            row = rows.setdefault(group, Row())
            row.counts += counts
            row.wrong += [(kind, record, prediction) for kind in wrong]
    return rows


KINDS = ("verdict", "first line", "unknown architecture", "warnings")


def table(rows: dict[tuple[str, str], Row], what: str) -> str:
    """The agreement as a table in Markdown."""

    def cell(c: Counter[str], kind: str) -> str:
        of = c["of " + kind]
        return f"{c[kind]}/{of} {100 * c[kind] / of:.1f} %" if of else "–"

    lines = [f"| {what} | " + " | ".join(KINDS) + " | unknown |", "|---" * (len(KINDS) + 2) + "|"]
    names = [name for group, name in rows if group == what]
    for name in sorted(names, key=lambda n: (len(n), n) if what == "build" else (0, n)):
        c = rows[what, name].counts
        lines.append(f"| {name} | " + " | ".join(cell(c, k) for k in KINDS) + f" | {c['unknown']} |")
    c = rows["all", ""].counts
    lines.append("| all | " + " | ".join(cell(c, k) for k in KINDS) + f" | {c['unknown']} |")
    return "\n".join(lines)


def disagreements(row: Row, kinds: tuple[str, ...]) -> Iterator[str]:
    """Each disagreement as two lines."""
    for kind, record, p in row.wrong:
        if kind in kinds:
            texts = ("", "") if kind != "warnings" else (str(p.warnings), str(record.warnings))
            mine, real = (p.verdict, p.first_error or p.not_evaluated), (record.verdict, record.error)
            place = f"b{record.build} {record.kind} {record.recipe['base']} {record.recipe['ops']}"
            yield f"{kind}: {place}\n  real {real} {texts[1]}\n  mine {mine} {texts[0]}"


def _main() -> None:
    parser = argparse.ArgumentParser(description="Prediction by build against real loads.")
    parser.add_argument("--records", help="folder of raw records; without it those of tests/data/builds")
    parser.add_argument("--build", type=int, action="append")
    parser.add_argument("--class", dest="kind", action="append")
    parser.add_argument("--held-out", action="store_true", help="only what was held out")
    parser.add_argument("--every", type=int, default=1, help="so many times fewer records, drawn at random")
    parser.add_argument("--wrong", nargs="*", choices=KINDS)
    asked = parser.parse_args()
    found = [
        r
        for r in records(asked.records)
        if (not asked.build or r.build in asked.build)
        and (not asked.kind or r.kind in asked.kind)
        and (not asked.held_out or r.held_out)
    ]
    if asked.every > 1:
        found = random.Random(0).sample(found, len(found) // asked.every)
    rows = measured(found)
    sys.stdout.write(table(rows, "build") + "\n\n" + table(rows, "class") + "\n")
    if asked.wrong is not None:
        sys.stdout.writelines(f"{line}\n" for line in disagreements(rows["all", ""], tuple(asked.wrong) or KINDS))
    held = sorted({r.build for r in found if r.build in HELD_OUT})
    if held:
        sys.stdout.write(f"builds held out: {', '.join(f'b{b}' for b in held)}\n")


if __name__ == "__main__":
    _main()
