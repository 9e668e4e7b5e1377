"""`builds/maps.jsonl`: what a series of llama.cpp builds does with a file, each as it differs from the next.

    ./dev facts --builds maps            builds of `SERIES` that are not in the file, fetched where missing
    ./dev facts --builds maps --again    all of them, after a change of what reads the sources
    ./dev facts --builds maps --tree FOLDER b9093 ...    trees that lie in FOLDER/llama.cpp-bN

After `./dev facts` of a new release all are read again: each is stored as what differs from the next newer.

The first line says the builds, newest first, and where the line of each document stands (offset and length in bytes,
from the end of the first line). A line is ``{"build": difference}``; what stands in `load_maps.json` is not repeated
(`gguftool/facts/editions.py` puts it together).
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts" / "facts")]

from builds.differences import difference  # noqa: E402
from builds.edition import edition  # noqa: E402
from builds.registry import CannotFetch  # noqa: E402
from gguftool.facts import NUMBER, editions  # noqa: E402
from gguftool.facts.data import load  # noqa: E402

OUT = ROOT / "gguftool" / "facts" / "data" / "builds" / "maps.jsonl"
SERIES = (
    *(11311, 11223, 11117, 11003, 10901, 10798, 10683, 10568, 10456, 10362, 10276, 10227, 10182, 10068, 9993, 9871),
    *(9837, 9743, 9637, 9536, 9444, 9341, 9246, 9093, 8942, 8672, 8531, 8390, 8179, 7964, 7698, 7551, 7347, 7079),
    *(6845, 6673, 6431, 6301, 6122, 5904, 5763, 5640, 5415, 5308, 4980, 4875, 4753, 4600, 4435, 4234, 4094, 3889),
    *(3658, 3543, 3347, 3166, 2985, 2717, 2487, 2249, 1892),
)
"""About one build a month, and those that programs were shipped with."""


def written(found: dict[int, dict[str, Any]]) -> str:
    """The text of the file.

    Args:
        found: documents by build; the newest build is among them.
    """
    builds = sorted(found, reverse=True)
    newest = load("load_maps.json")
    lines: dict[str, str] = {}
    names = sorted({name for documents in found.values() for name in documents})
    for name in names:
        last: Any = newest["classes"].get(name.removeprefix("class/")) if name.startswith("class/") else None
        steps = {}
        for build in builds:
            now = found[build].get(name, None if name.startswith("class/") else last)
            if name.startswith("class/") and build == builds[0]:
                now = last
            step = difference(last, now)
            if step != ["="]:
                steps[str(build)] = step
            last = now
        if steps:
            lines[name] = json.dumps(steps, separators=(",", ":"), ensure_ascii=False)
    at: dict[str, list[int]] = {}
    place = 0
    for name, line in lines.items():
        size = len(line.encode())
        at[name] = [place, size]
        place += size + 1
    head = json.dumps({"builds": builds, "at": at}, separators=(",", ":"))
    return "\n".join([head, *lines.values()]) + "\n"


def stored() -> dict[int, dict[str, Any]]:
    """The documents of the builds that are in the file."""
    if not OUT.exists() or editions.builds()[0] != NUMBER:
        return {}
    base = load("load_maps.json")["classes"]
    names = {*editions.documents(), *(f"class/{name}" for name in base)}
    found: dict[int, dict[str, Any]] = {}
    for build in editions.builds():
        at = editions.edition(build)
        values = {name: at.document(name, base.get(name.removeprefix("class/"))) for name in names}
        found[build] = {name: value for name, value in values.items() if value is not None}
    return found


def main(line: list[str]) -> int:
    """Run it; the exit code."""
    words = argparse.ArgumentParser(prog="./dev facts --builds maps", description=(__doc__ or "").partition("\n")[0])
    words.add_argument("build", nargs="*", help="b9093; without any: the series")
    words.add_argument("--tree", type=Path, help="folder with trees named llama.cpp-bN")
    words.add_argument("--output", type=Path, default=OUT)
    words.add_argument("--again", action="store_true", help="read builds again that are in the file")
    asked = words.parse_args(line)
    wanted = {int(text.removeprefix("b")) for text in asked.build} or set(SERIES)
    found = stored() if asked.output == OUT else {}
    again = wanted if asked.again or asked.build else wanted - set(found)
    missed = 0
    for build in sorted({NUMBER, *again}, reverse=True):
        try:
            found[build], gaps = edition(_tree(build, asked.tree), load("load_maps.json"))
        except (CannotFetch, OSError, ValueError, KeyError) as fault:
            gaps = [f"the whole tree: {fault}"]
        missed += len(gaps)
        for gap in gaps:
            print(f"b{build} not read: {gap}", file=sys.stderr)
    text = written(found)
    asked.output.parent.mkdir(parents=True, exist_ok=True)
    asked.output.write_text(text, encoding="utf-8")
    print(f"{asked.output}: {len(found)} builds, {len(text):,} bytes")
    return 1 if missed else 0


def _tree(build: int, folder: Path | None) -> Path:
    if folder is not None and (folder / f"llama.cpp-b{build}").is_dir():
        return folder / f"llama.cpp-b{build}"
    from builds.fetch import tree

    return tree(build)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
