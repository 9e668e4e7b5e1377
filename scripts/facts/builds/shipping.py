"""`gguftool/facts/data/builds/shipping.json`: when builds of llama.cpp were made, and which packages carry them.

    python scripts/facts/builds/shipping.py                    from releases.json
    python scripts/facts/builds/shipping.py --history CLONE    ... and the day of every commit of a clone

Days that a clone told are kept when it is not there; newer builds have the day of their commit, else of the package.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts" / "facts")]

from builds import fetch  # noqa: E402
from builds.trees import Clone  # noqa: E402

OUT = ROOT / "gguftool" / "facts" / "data" / "builds" / "shipping.json"


def of_history(clone: Path) -> dict[int, date]:
    """Day of the commit of every build up to the newest release that the clone has."""
    git = Clone(clone)
    for release in sorted(fetch.releases(), key=lambda r: -r.since):
        if not (release.build and release.commit):
            continue
        try:
            numbers = git.numbers(release.commit)
        except subprocess.CalledProcessError:
            continue
        times = dict(row.split() for row in git.run("log", "--format=%H %ct", release.commit).splitlines())
        return {build: _day(int(times[commit])) for build, commit in numbers if build >= fetch.FIRST}
    return {}


def _day(seconds: int) -> date:
    return datetime.fromtimestamp(seconds, UTC).date()


def _known() -> dict[int, date]:
    """First build of each day, as it was written before."""
    if not OUT.is_file():
        return {}
    days = json.loads(OUT.read_text(encoding="utf-8"))["days"]
    build, day, out = 0, date.fromisoformat(days["from"]), {}
    for step in days["builds"]:
        build += step
        out[build] = out.get(build, day)
        day += timedelta(1)
    return out


def main(argv: list[str]) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--history", type=Path, metavar="CLONE")
    clone = parser.parse_args(argv).history
    made = of_history(clone) if clone else _known()
    newest = max(made, default=0)
    found = [r for r in fetch.releases() if r.since]
    for r in found:
        if r.build and r.build > newest:
            told = _day(r.committed) if r.committed else date.fromisoformat(r.published[:10])
            made[r.build] = min(told, made.get(r.build, told))
    # A package may be of later days than one with a newer build.
    last, firsts = date.max, dict[date, int]()
    for build in sorted(made, reverse=True):
        last = min(last, made[build])
        firsts[last] = build
    day, steps, before = min(firsts), [], 0
    while day <= max(firsts):
        build = firsts.get(day, before)
        steps.append(build - before)
        before = build
        day += timedelta(1)
    shipped: dict[str, list[list[object]]] = {}
    for r in sorted(found, key=lambda r: (r.package, r.published, r.since)):
        # What npm says is the day of a copy.
        day_of = str(_day(r.committed)) if r.package == "node-llama-cpp" and r.committed else r.published[:10]
        row: list[object] = [r.version, day_of, r.since]
        shipped.setdefault(r.package, []).append(row if r.until == r.since else [*row, r.until])
    text = {"days": {"from": str(min(firsts)), "builds": steps}, "shipped": shipped}
    OUT.write_text(json.dumps(text, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
