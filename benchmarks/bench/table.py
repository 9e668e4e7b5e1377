"""The tables, in Markdown, and the judgement on the goals."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.bench.cases import CLICK, OPENSSL, QUANTIZE_START, Goal, one_thread
from benchmarks.bench.curves import MOST, Line
from benchmarks.bench.measure import Bench, Case

LEFT_OUT = "not measured"
BUSY = "others use the machine"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal and what came; ``value`` is None when it was not measured, ``why`` the reason."""

    goal: Goal
    value: float | None
    why: str = ""

    @property
    def good(self) -> bool:
        return self.value is not None and self.value <= self.goal.most

    @property
    def text(self) -> str:
        return "ok" if self.good else self.why or LEFT_OUT if self.value is None else "MISSED"


def verdict(bench: Bench, goal: Goal, program: str | None = None) -> Verdict:
    """How a program does on one goal; the one of this tree when none is named."""
    if goal.what == "wall" and bench.busy(goal.case, goal.base):
        return Verdict(goal, None, f"{LEFT_OUT}: {BUSY}")
    if goal.base:
        return Verdict(goal, bench.ratio(goal.case, goal.base, program, goal.less, goal.what))
    return Verdict(goal, bench.of(goal.case, program).mebibytes)


def ms(seconds: float | None) -> str:
    """Milliseconds; fractions below ten."""
    if seconds is None:
        return LEFT_OUT
    return f"{seconds * 1000:,.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their cells; the first to the left, figures to the right."""
    widths = [max(len(line[i]) for line in [head, *rows]) for i in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))) + " |"  # fmt: skip  # noqa: E501

    rule = "|" + "|".join("-" * (w + 1) + (":" if i else "-") for i, w in enumerate(widths)) + "|"
    return "\n".join([line(head), rule, *map(line, rows)])


def times(ratio: float | None) -> str:
    """A ratio; that of another's program far below one as a fraction."""
    if ratio is None:
        return ""
    return f"{ratio:,.2f}" if ratio < 20 else f"{ratio:,.0f}"


def _base(case: Case) -> str:
    """What a row without a goal is divided by."""
    return {"hash": OPENSSL, "start": CLICK, "copy": "cp"}.get(case.group, "")


def _figure(done: Verdict) -> str:
    """A ratio, or MiB."""
    if done.value is None:
        return ""
    return times(done.value) if done.goal.base else f"{done.value:,.0f} MiB"


def rows(bench: Bench, cases: Sequence[Case], goals: Sequence[Goal], limits: Mapping[str, float | None],
         missing: Sequence[tuple[str, str, str, str]] = ()) -> tuple[list[str], list[list[str]]]:  # fmt: skip
    """Head and rows: each command of ours, below it other programs at the same work.

    Args:
        bench: with what was found.
        cases: in the order of the table.
        goals: those that count.
        limits: seconds by row.
        missing: programs without a figure: row they stand below, name, in a word and in a sentence why.
    """
    now, *older = bench.programs
    head = ["", "CPU ms", *(f"{name} ms" for name in older), "times", *(f"{name}" for name in older), "of", "goal",
            "", "limit ms", "peak MiB"]  # fmt: skip
    out: list[list[str]] = []

    blank = [""] * len(older)

    def add(case: Case, indent: str) -> None:
        found = bench.of(case.name, now)
        if found.failed:
            out.append([indent + case.name, LEFT_OUT, *blank, "", *blank, "", "", found.failed, "", ""])
            return
        own = [goal for goal in goals if goal.case == case.name]
        goal = next((g for g in own if g.base and g.what == "cpu"), None)
        # Another's program: as many times our figure.
        base = goal.base if goal else case.beside if indent else _base(case)
        less = goal.less if goal else None
        base = "" if base == case.name else base
        ratio = bench.ratio(case.name, base, now, less) if base else None
        ratios = [times(bench.ratio(case.name, base, name, less)) if case.ours and base else "" for name in older]
        was = [ms(bench.of(case.name, name).cpu) if case.ours else "" for name in older]
        aim = ["", ""] if goal is None else [f"≤ {goal.most:g}", verdict(bench, goal).text]
        limit = limits.get(case.name)
        out.append([indent + case.name, ms(found.cpu), *was, times(ratio), *ratios, base if ratio else "", *aim,
                    "" if limit is None else ms(limit), f"{found.mebibytes:,.0f}"])  # fmt: skip
        for other in own:
            if other is not goal:
                value = verdict(bench, other)
                old = [_figure(verdict(bench, other, name)) for name in older]
                out.append([other.title, "", *blank, _figure(value), *old, other.base, f"≤ {other.most:g}", value.text,
                            "", ""])  # fmt: skip

    for case in cases:
        if case.beside:
            continue
        add(case, "")
        if (seen := scaling(bench, case.name)) is not None:
            ratio, limit, told = seen
            out.append([f"{case.name}, clock", "", *blank, ratio, *blank, one_thread(case.name), "", told, limit, ""])
        for other in cases:
            if other.beside == case.name:
                add(other, "– ")
        out.extend([f"– {name}", word, *[""] * len(older), "", *[""] * len(older), "", "", why, "", ""]
                   for beside, name, word, why in missing if beside == case.name)  # fmt: skip
    return head, out


def scaling(bench: Bench, case: str, cores: int = os.cpu_count() or 1) -> tuple[str, str, str] | None:
    """What threads bring, by the clock: times the clock of one thread; the least in ms; the figures, in words.

    The least is Amdahl's: what no thread shortens, and the rest by the number of processors. None for a row that was
    not run with one thread, too.
    """
    all_of_them, one, start = (bench.of(name).wall for name in (case, one_thread(case), QUANTIZE_START))
    if all_of_them is None or one is None or start is None:
        return None
    if bench.busy(case, one_thread(case)):
        return "", "", f"{LEFT_OUT}: {BUSY}"
    ratio, pure = (
        bench.ratio(case, one_thread(case), less=less, what="wall") for less in (None, (QUANTIZE_START, QUANTIZE_START))
    )
    told = (
        f"{ms(all_of_them)} ms, 1 thread {ms(one)}, start {ms(start)}; without it {times(pure)}, limit {1 / cores:.2f}"
    )
    return times(ratio), ms(start + (one - start) / cores), told


def curves(lines: Sequence[Line]) -> str:
    """A table for each kind of file: milliseconds at each count, and the exponent."""
    parts = []
    for what in dict.fromkeys(line.what for line in lines):
        some = [line for line in lines if line.what == what]
        counts = sorted({n for line in some for n in line.seconds})
        table = []
        for line in some:
            exponent = "flat" if line.exponent is None else f"{line.exponent:.2f}"
            aim = line.failed or ("ok" if line.good else "MISSED")
            table.append([line.command, *(ms(line.seconds.get(n)) for n in counts), exponent, f"≤ {MOST:g}", aim])
        parts.append(markdown([what, *(f"{n:,}" for n in counts), "exponent", "goal", ""], table))
    return "\n\n".join(parts)


def put(page: str, shown: Mapping[str, str]) -> str:
    """A page with other tables between ``<!-- bench: NAME -->`` and ``<!-- bench: end -->``."""
    for name, text in shown.items():
        begin, end = f"<!-- bench: {name} -->\n", "<!-- bench: end -->"
        before, found, rest = page.partition(begin)
        if found:
            # Without the blanks that line columns up on a terminal, which make every line another one.
            narrow = re.sub(r"-{3,}", "---", re.sub(r"(?<=\|) +(?= )| +(?= \|)", "", text))
            page = before + begin + "\n" + narrow + "\n\n" + end + rest.partition(end)[2]
    return page


def faults(bench: Bench | None, goals: Sequence[Goal], lines: Sequence[Line]) -> list[str]:
    """What makes ``--check`` fail: goals missed or not measured, curves too steep."""
    out = []
    for goal in goals if bench else ():
        assert bench is not None
        done = verdict(bench, goal)
        if not done.good:
            value = "" if done.value is None else f" {done.value:.2f} > {goal.most:g}"
            out.append(f"{goal.title}: {done.text}{value}")
    out += [f"{line.command} over {line.what}: {line.failed or f'exponent {line.exponent:.2f} > {MOST:g}'}"
            for line in lines if not line.good]  # fmt: skip
    return out
