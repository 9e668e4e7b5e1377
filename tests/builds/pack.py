"""``python -m tests.builds.pack RECIPES.jsonl bN.jsonl …``: raw records as `tests/data/builds`.

Every load is kept: an index into the distinct answers, for each recipe and build.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.builds.records import DATA


def pack(recipes: Path, files: list[Path]) -> None:
    """Write `recipes.jsonl.gz` and `loads.jsonl.gz`."""
    files = sorted(files, key=lambda path: int(path.stem[1:]))
    said: dict[str, int] = {}
    columns = [[_index(line, said) for line in path.read_text(encoding="utf-8").splitlines()] for path in files]
    rows = [[int(path.stem[1:]) for path in files], *map(list, zip(*columns, strict=True))]
    rows.append([json.loads(text) for text in said])
    DATA.mkdir(exist_ok=True)
    _write("loads.jsonl.gz", (json.dumps(row, separators=(",", ":"), ensure_ascii=False) for row in rows))
    _write("recipes.jsonl.gz", recipes.read_text(encoding="utf-8").splitlines())


def _index(line: str, said: dict[str, int]) -> int:
    verdict, error, warnings, _ = json.loads(line)
    text = json.dumps([verdict, _assertion(error), warnings], separators=(",", ":"), ensure_ascii=False)
    return said.setdefault(text, len(said))


def _assertion(error: str) -> str:
    """Without the place in the sources."""
    return error[error.find("GGML_ASSERT") :] if "GGML_ASSERT" in error else error


def _write(name: str, lines: Iterable[str]) -> None:
    with open(DATA / name, "wb") as raw, gzip.GzipFile("", "wb", 9, raw, mtime=0) as f:
        f.writelines(line.encode() + b"\n" for line in lines)


def _main(arguments: list[str]) -> None:
    recipes, *files = map(Path, arguments)
    pack(recipes, files)


if __name__ == "__main__":
    _main(sys.argv[1:])
