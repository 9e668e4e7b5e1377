"""`./dev bench`: a row for each goal, exponents that are right, and a judgement that lets nothing through."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bench import cases, curves, floor, peers, table
from benchmarks.bench.__main__ import words
from benchmarks.bench.cases import CLICK, GOALS, Goal
from benchmarks.bench.measure import Bench, Case, Failed, Found, Run, run

ROOT = Path(__file__).resolve().parents[2]
ISSUE = {
    "--version": 0.6, "--help": 1.2, "dump": 1.7, "lint": 3.2, "fix --set": 2.3, "fix, new key": 2.3, "plan": 2.0,
    "verify": 2.0, "diff": 2.0, "undo": 2.0, "launch --print": 3.5, "explain": 2.0, "rules": 2.0, "compat": 2.0,
    "check-log": 2.0, "lint, peak memory": 45, "hash": 1.05, "hash --tensors, clock": 1.6, "quantize Q8_0": 1.0,
    "quantize Q4_K_M": 1.0, "quantize Q6_K": 1.0, "quantize IQ4_XS": 1.0,
}  # fmt: skip
"""The table of issue 20, and the ratios below it."""


def every() -> list[Case]:
    return [*cases.start(), *cases.hashes(True), *cases.quantize("llama-quantize"), *cases.copy("llama-gguf-split")]


def bench(**cpu: list[float]) -> Bench:
    """Made-up figures, by turn; names with underscores for blanks."""
    found = {
        (name.replace("_", " "), "now"): Found({i: Run(s, s, 50.0) for i, s in enumerate(seconds)})
        for name, seconds in cpu.items()
    }
    return Bench({"now": "gguftool"}, {}, Path(), found)


def test_every_goal_of_the_issue_has_its_row_and_its_base():
    assert {goal.title: goal.most for goal in GOALS}.items() >= ISSUE.items()
    names = {case.name for case in every()}
    for goal in GOALS:
        assert {goal.case, *(goal.less or ())} <= names
        assert not goal.base or goal.base in names
    assert {case.beside for case in every()} <= names | {""}


def test_what_is_compared_stands_beside_a_row():
    names = {case.name for case in every()}
    assert {peer.beside for peer in peers.PEERS} | {row for row, *_ in peers.NOT_HERE} <= names
    assert {"gguf-dump", "gguf-set-metadata", "gguf-inspect", "gguf-parser 0.11"} <= {peer.name for peer in peers.PEERS}


def test_commands_of_the_rows_exist():
    """Each row is a command of the help, so none measures a message of wrong usage."""
    shown = subprocess.run(
        [sys.executable, "-m", "gguftool", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    known = set(re.findall(r"^  ([a-z-]+)  ", shown, re.MULTILINE))
    for case in every():
        if case.ours:
            command = next((word for word in case.command[1:] if not word.startswith("-")), None)
            assert command is None or command in known


@pytest.mark.parametrize("power", [1.0, 1.5, 2.0])
def test_the_fit_finds_the_exponent_behind_a_start(power: float):
    counts = [10, 100, 1000, 5000, 10_000, 20_000, 40_000]
    seconds = [0.1 + (n / 10_000) ** power for n in counts]
    found = curves.fit(counts, seconds)
    assert found == pytest.approx(power, abs=0.03)


def test_a_cost_that_does_not_grow_has_no_exponent():
    assert curves.fit([1, 10, 100, 1000], [0.1, 0.102, 0.099, 0.103]) is None
    assert curves.fit([], []) is None


def test_a_steep_curve_and_one_that_failed_are_faults():
    counts = (10, 100, 1000, 10_000)
    linear = curves.Line("keys", "dump", {n: 0.1 + n * 1e-4 for n in counts})
    steep = curves.Line("keys", "lint", {n: 0.1 + n * n * 1e-7 for n in counts})
    broken = curves.Line("keys", "plan", {10: 0.1}, "at 100: exit 70")
    said = table.faults(None, (), [linear, steep, broken])
    assert len(said) == 2
    assert "lint over keys: exponent 2.0" in said[0]
    assert "exit 70" in said[1]
    assert "MISSED" in table.curves([linear, steep, broken])


def test_ratios_are_taken_within_a_turn():
    """The second turn was twice as slow for both; the medians alone would say 3."""
    assert bench(dump=[0.2, 0.4, 0.6], import_click=[0.1, 0.2, 0.1]).ratio("dump", CLICK) == pytest.approx(2.0)


def test_a_start_is_taken_off_on_both_sides():
    b = bench(hash=[0.3], start=[0.1], openssl=[0.12], nothing=[0.02])
    assert b.ratio("hash", "openssl", less=("start", "nothing")) == pytest.approx(2.0)


def test_a_missed_goal_and_an_unmeasured_one_are_faults():
    b = bench(dump=[0.2], lint=[0.2], import_click=[0.1])
    b.found["plan", "now"] = Found(failed="exit 70: a bug")
    goals = [Goal("dump", 2.5), Goal("lint", 1.5), Goal("lint", 45, base=""), Goal("plan", 2.0), Goal("rules", 2.0)]
    said = table.faults(b, goals, [])
    assert said == ["lint: MISSED 2.00 > 1.5", "lint, peak memory: MISSED 50.00 > 45", "plan: not measured",
                    "rules: not measured"]  # fmt: skip
    shown = table.markdown(*table.rows(b, [case for case in cases.start() if case.name in ("dump", "plan")], goals, {}))
    assert "exit 70: a bug" in next(line for line in shown.splitlines() if "plan" in line)
    assert " ok " in next(line for line in shown.splitlines() if "dump" in line)


def test_the_clock_is_judged_only_where_a_processor_is_free():
    goal = Goal("hash", 1.6, "openssl", None, "wall")
    b = bench(hash=[0.3], openssl=[0.2])
    assert table.faults(b, [goal], []) == []
    b.found["openssl", "now"] = Found({0: Run(0.2, 0.5, 50.0)})
    assert table.faults(b, [goal], []) == ["hash, clock: not measured: others use the machine"]


def test_the_clock_is_not_judged_while_others_use_another_processor():
    """Openssl had one for itself; a program of two threads did not have two."""
    goal = Goal("hash", 1.6, "openssl", None, "wall")
    b = bench(hash=[0.3], openssl=[0.2])
    b.found["hash", "now"] = Found({0: Run(0.3, 0.3, 50.0, others=0.2)})
    b.found["openssl", "now"] = Found({0: Run(0.2, 0.2, 50.0, others=0.1)})
    assert table.faults(b, [goal], []) == ["hash, clock: not measured: others use the machine"]


def test_what_threads_bring_is_told_with_its_limit():
    """Of 2.1 s, 0.1 cannot be shared: two processors need 1.1 s at least."""
    one, row = cases.one_thread("quantize Q8_0"), "quantize Q8_0"
    b = bench()
    clock = {row: 1.3, one: 2.1, cases.QUANTIZE_START: 0.1}
    b.found |= {(name, "now"): Found({0: Run(clock[one], wall, 50.0)}) for name, wall in clock.items()}
    ratio, limit, told = table.scaling(b, row, cores=2) or ("", "", "")
    assert (ratio, limit) == ("0.62", "1,100")
    assert "without it 0.60, limit 0.50" in told
    shown = table.markdown(*table.rows(b, [c for c in cases.quantize(None) if c.name in (row, one)], [], {}))
    assert "quantize Q8_0, clock" in shown
    b.found[one, "now"] = Found({0: Run(2.1, 2.9, 50.0)})
    assert table.scaling(b, row, cores=2) == ("", "", "not measured: others use the machine")


def test_others_at_work_are_seen():
    spin = "import time; end = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    with subprocess.Popen([sys.executable, "-c", spin.replace("0.4", "3")]) as other:
        found = run([sys.executable, "-c", spin])
        other.kill()
    assert found.others > 0.1


def test_tables_go_into_the_page():
    page = (ROOT / "docs" / "performance.md").read_text()
    new = table.put(page, {"table": "| a |", "curves": "| b |", "other": "| c |"})
    assert "<!-- bench: table -->\n\n| a |\n\n<!-- bench: end -->" in new
    assert "<!-- bench: curves -->\n\n| b |\n\n<!-- bench: end -->" in new
    assert "| c |" not in new
    assert re.sub(r"(?s)(bench: (table|curves) -->).*?(<!-- bench: end)", r"\1\3", page) == re.sub(
        r"(?s)(bench: (table|curves) -->).*?(<!-- bench: end)", r"\1\3", new
    )


def test_what_cannot_be_had_is_said_below_its_row():
    b = bench(dump=[0.2], import_click=[0.1])
    shown = [case for case in cases.start() if case.name == "dump"]
    _, rows = table.rows(b, shown, GOALS, {}, [("dump", "other", "not to be had", "in no registry")])
    assert rows[1][:2] == ["– other", "not to be had"]
    assert "in no registry" in rows[1]


def test_a_program_that_fails_is_no_figure():
    with pytest.raises(Failed, match="exit 3: no such thing"):
        run([sys.executable, "-c", "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"])
    found = run([sys.executable, "-c", "import sys; sum(range(3_000_000)); sys.exit(3)"], (0, 3))
    assert 0 < found.cpu < 60
    assert found.mebibytes > 5


def test_the_limit_is_what_must_be_read_and_hashed():
    speed = floor.Speeds(read=100.0, write=50.0, copy=200.0, sha256=10.0, memory=1.0)
    sizes = {"header": 100, "data": 1000, "f16": 500, "Q8_0": 50}
    assert floor.limit(("start", "header"), speed, sizes, 0.5) == pytest.approx(1.5)
    assert floor.limit(("sha256",), speed, sizes, 0.5) == pytest.approx(110.0)
    assert floor.limit(("copy",), speed, sizes, 0.5) == pytest.approx(5.0)
    assert floor.limit(("start", "f16", "write Q8_0"), speed, sizes, 0.5) == pytest.approx(6.5)
    assert floor.limit((), speed, sizes, 0.5) is None


def test_words_choose_groups(capsys: pytest.CaptureFixture[str]):
    assert words(["hash", "copy"]).groups == {"hash", "copy"}
    assert words([]).groups == set(cases.GROUPS)
    with pytest.raises(SystemExit):
        words(["hahs"])
    assert "no such group" in capsys.readouterr().err


@pytest.mark.parametrize("curve", curves.CURVES, ids=lambda curve: curve.what)
def test_files_of_the_curves_are_what_they_say(curve: curves.Curve, tmp_path: Path):
    """Read by gguf-py's own reader, or counted in the header."""
    from gguftool.format.parse import parse
    from gguftool.source import LocalFile

    path = curve.make(tmp_path, 1000 if curve.what != "shards" else 8)
    source = LocalFile(path)
    header = parse(source)
    source.close()
    found = {field.key: field for field in header.fields}
    if curve.what == "shards":
        assert len(list(tmp_path.iterdir())) == 8
        return
    count = {
        "tokens": found["tokenizer.ggml.tokens"].count,
        "tokens and merges": found["tokenizer.ggml.merges"].count if "tokenizer.ggml.merges" in found else 0,
        "tensors": len(header.tensors),
        "keys": len(header.fields),
    }[curve.what]
    assert 1000 <= count < 1300
