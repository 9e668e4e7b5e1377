"""Speed and memory of gguftool, in one table: goals, other tools, and what no program could do without.

``./dev bench [GROUP …] [--before PROGRAM] [--check]``. Groups: start, hash, quantize, copy, peers, curves; all of them
when none is named. gguftool is built as a wheel and installed into an environment of its own, so that the figures are
those of an installation. The measure is processor time of whole processes, user and system, children included, in
turns; ratios are medians of ratios within a turn. See docs/performance.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.bench import cases, curves, floor, peers, place, table
from benchmarks.bench.cases import GOALS, GROUPS, KEY, PASS
from benchmarks.bench.measure import Bench, Case
from tests.build import llama
from tests.real_models import GEMMA3, ensure


def say(text: str = "") -> None:
    """Progress, on one line of stderr."""
    if sys.stderr.isatty():
        print(f"\r{text:70.70}", end="" if text else "\r", file=sys.stderr, flush=True)


def words(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    told = "; ".join(f"{name}: {text}" for name, text in GROUPS.items())
    parser.add_argument("groups", nargs="*", metavar="GROUP", help=told)
    parser.add_argument("--before", metavar="PROGRAM", help="a gguftool to measure in the same turns")
    parser.add_argument("--runs", type=int, default=7, help="turns (default 7); rows of seconds get half as many")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a goal is missed or not measured")
    parser.add_argument("--write", type=Path, metavar="PAGE", help="put the tables into a page, as docs/performance.md")
    parser.add_argument("--folder", type=Path, help="where copies and outputs go (default: the cache of the tests)")
    given = parser.parse_args(argv)
    if unknown := set(given.groups) - set(GROUPS):
        parser.error(f"no such group: {', '.join(sorted(unknown))}; there are {', '.join(GROUPS)}")
    given.groups = set(given.groups) or set(GROUPS)
    return given


def quiet(command: list[str | Path]) -> None:
    """Run what must not fail."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stderr[-2000:]}")


def prepared(program: Path, folder: Path, groups: set[str], model: Path) -> dict[str, str]:
    """The files that the rows of these groups work on."""
    paths = {"model": str(model), "python": str(program.with_name("python")), "cores": str(os.cpu_count() or 1)}
    small = llama().write(folder / "small.gguf")
    other = folder / "other.gguf"
    shutil.copyfile(model, other)
    quiet([program, "-q", "fix", "--yes", "--no-undo", "--set", f"{KEY}=8192", other])
    log = folder / "server.log"
    log.write_bytes(peers.unpacked("server.lv4_default.log.gz"))
    # A vocabulary that nobody knows: each of its tokens must be looked at.
    tuned = folder / "tuned.gguf"
    shutil.copyfile(model, tuned)
    with open(tuned, "r+b") as file:
        at = file.read(8 << 20).index(b"<unused1000>")
        file.seek(at)
        file.write(b"<unusedX000>")
    paths |= {"small": str(small), "other": str(other), "log": str(log), "tuned": str(tuned)}
    if "quantize" in groups:
        f16 = folder / "f16.gguf"
        say("making an F16 model")
        quiet([program, "-q", "quantize", model, f16, "F16", "--allow-requantize", "--engine", "builtin"])
        paths["f16"] = str(f16)
    if "copy" in groups:
        quiet([program, "-q", "split", model, "--max-tensors", "60", "-o", folder / "set"])
        paths["shard"] = str(next(folder.glob("set-00001-of-*.gguf")))
    return paths


def sizes(paths: dict[str, str], program: Path) -> dict[str, int]:
    """Bytes of what `floor.limit` asks for."""
    from gguftool.format.parse import parse
    from gguftool.source import LocalFile

    source = LocalFile(paths["model"])
    found = {"header": parse(source).data_offset, "data": source.size}
    source.close()
    if "f16" in paths:
        found["f16"] = Path(paths["f16"]).stat().st_size
        for kind in cases.TYPES:
            out = Path(paths["f16"]).with_name(f"{kind}.gguf")
            quiet([program, "-q", "quantize", paths["f16"], out, kind, "--engine", "builtin", "--no-provenance"])
            found[kind] = out.stat().st_size
            out.unlink()
    return found


def chosen(groups: set[str]) -> tuple[list[Case], list[Case], list[peers.Missing]]:
    """Rows that take a moment, rows that take seconds, and what cannot be had."""
    if not groups - {"curves"}:
        return [], [], []
    beside = {peer.beside for peer in peers.PEERS} if "peers" in groups else set()
    # The two that are not ours are what the others are divided by; others' programs stand beside a row of ours.
    quick = [c for c in cases.start() if "start" in groups or not c.ours or c.name in beside]
    hashes = cases.hashes(shutil.which("openssl") is not None)
    slow = hashes if groups & {"hash", "peers"} else []
    missing: list[peers.Missing] = []
    for group, make, name, row in (
        ("quantize", cases.quantize, "llama-quantize", f"quantize {cases.TYPES[0]}"),
        ("copy", cases.copy, "llama-gguf-split", "merge"),
    ):
        if group in groups:
            try:
                slow += make(str(place.llama(name)))
            except place.Missing as e:
                slow += make(None)
                missing.append((row, name, peers.NOT_HAD, str(e)))
    if "peers" in groups:
        theirs, gone = peers.cases(say, {case.name for case in quick + slow})
        quick += [case for case in theirs if not case.once]
        slow += [case for case in theirs if case.once]
        missing += gone
    return quick, slow, missing


def measured(bench: Bench, quick: list[Case], slow: list[Case], missing: list[peers.Missing], turns: int) -> str:
    """Run all rows; the table, and what machine it is of."""
    size, speed = sizes(bench.paths, Path(bench.programs["now"])), floor.speeds(bench.folder)
    model = Path(bench.paths["model"])
    # Read once, so that all find the file in memory.
    with open(model, "rb") as handle:
        while handle.read(1 << 20):
            pass
    bench.measure(quick, turns, say)
    bench.measure(slow, max(1, turns // 2), say)
    say()
    start = bench.of(PASS).cpu or 0.0
    limits = {case.name: floor.limit(case.needs, speed, size, start) for case in quick + slow}
    goals = [goal for goal in GOALS if goal.case in limits]
    told = (
        f"{model.name}: {size['data']:,} bytes, header {size['header']:,}, 262,144 tokens. {os.cpu_count()} cores, "
        f"load {os.getloadavg()[0]:.0f}, Python {sys.version.split()[0]}. {speed}."
    )
    return f"{told}\n\n{table.markdown(*table.rows(bench, quick + slow, goals, limits, missing))}"


def main(argv: list[str] | None = None) -> int:
    """Measure, print, judge."""
    given = words(argv)
    groups = given.groups
    say("building the wheel")
    try:
        program = place.ours()
    except place.Missing as e:
        raise SystemExit(f"error: the wheel cannot be built and installed: {e}") from None
    programs = {"now": str(program)} | ({"before": given.before} if given.before else {})
    quick, slow, missing = chosen(groups)
    bench = None
    shown: dict[str, str] = {}
    lines: list[curves.Line] = []
    with tempfile.TemporaryDirectory(dir=given.folder or place.folder(), prefix="run-") as name:
        folder = Path(name)
        if quick or slow:
            bench = Bench(programs, prepared(program, folder, groups, ensure(GEMMA3)), folder)
            shown["table"] = measured(bench, quick, slow, missing, given.runs)
            print(shown["table"] + "\n", flush=True)
        if "curves" in groups:
            lines = curves.measure(str(program), folder, say, max(1, given.runs // 2))
            say()
            shown["curves"] = "Processor time in ms, with the start, by what the file has:\n\n" + table.curves(lines)
            print(shown["curves"] + "\n")
    if given.write:
        given.write.write_text(table.put(given.write.read_text(), shown))
    wrong = table.faults(bench, [goal for goal in GOALS if _wanted(goal, groups)], lines)
    print("\n".join(f"missed: {text}" for text in wrong) or "all goals are met")
    return 1 if wrong and given.check else 0


def _wanted(goal: cases.Goal, groups: set[str]) -> bool:
    """Whether the goal belongs to these groups, measured or not."""
    every = [*cases.start(), *cases.hashes(True), *cases.quantize("x"), *cases.copy("x")]
    return next(case.group for case in every if case.name == goal.case) in groups


if __name__ == "__main__":
    sys.exit(main())
