"""`builds/maps.jsonl`: what a series of llama.cpp builds does with a file, each as it differs from the next.

    python scripts/facts/builds/maps.py                 all builds of `SERIES`, fetched where they are missing
    python scripts/facts/builds/maps.py --tree FOLDER b9093 ...    trees that lie in FOLDER/llama.cpp-bN

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
from gguftool.facts import BUILD  # noqa: E402
from gguftool.facts.data import load  # noqa: E402

OUT = ROOT / "gguftool" / "facts" / "data" / "builds" / "maps.jsonl"
SERIES = (11223, 11003, 10683, 10362, 9993, 9743, 9444, 9093)
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
            now = found[build].get(name)
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


def main() -> int:
    """Run it; the exit code."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("build", nargs="*", help="b9093; without any: the series")
    words.add_argument("--tree", type=Path, help="folder with trees named llama.cpp-bN")
    words.add_argument("--output", type=Path, default=OUT)
    asked = words.parse_args()
    wanted = [int(text.removeprefix("b")) for text in asked.build] or list(SERIES)
    found: dict[int, dict[str, Any]] = {}
    missed = 0
    for build in sorted({int(BUILD[1:]), *wanted}, reverse=True):
        found[build], gaps = edition(_tree(build, asked.tree), load("load_maps.json"))
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
    sys.exit(main())
