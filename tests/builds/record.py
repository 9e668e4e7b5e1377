"""What the libraries of many builds do with the recipes: one process for each file, a time limit, a memory limit.

``python -m tests.builds.record LIBRARY OUT.jsonl < RECIPES.jsonl`` loads each recipe with one library (the .so of an
xllamacpp wheel) and writes one line each: ``[verdict, first error or last words, warnings, after the load]``.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.oracle.verdicts import Judged, judge
from tests.predict.mutations import plain
from tests.predict.recipes import write

WRAPPED = ("llama_model_load_from_file_impl: ", "llama_load_model_from_file: ")
"""The line that every refusal ends with, whatever its cause."""
UNREAD = "llama_model_load: error loading model: llama_model_loader: failed to load"


def record(recipes: Iterable[dict[str, Any]], library: Path, folder: Path) -> Iterator[list[Any]]:
    """Each recipe's record; files are written once into the folder, and found there by the next library."""
    listed = list(recipes)
    paths = [folder / f"{i}.gguf" for i in range(len(listed))]
    for recipe, path in zip(listed, paths, strict=True):
        if not path.exists():
            write(recipe, path)
    for path, answer in zip(paths, judge(map(str, paths), 512, library), strict=True):
        yield _line(answer, str(path))


def _line(answer: Judged, path: str) -> list[Any]:
    errors = [plain(e, path) for e in answer.errors if not e.startswith(WRAPPED)]
    if errors and errors[0].startswith(UNREAD) and answer.stderr:
        # Until b5390 the reader of GGUF writes past the log.
        errors = [plain(answer.stderr.splitlines()[0], path)]
    last = [x for x in answer.stderr.splitlines() if "GGML_ASSERT" in x or "error" in x or "what" in x]
    said = errors[0] if errors else plain(last[-1], path) if answer.verdict == "aborts" and last else ""
    after = ""
    if answer.verdict == "loads":
        after = f"context:{answer.context}" if answer.context != "ok" else f"decode:{answer.use}"
    return [answer.verdict, said[:400], [plain(w, path)[:400] for w in answer.warnings], after]


def _main(library: str, out: str, folder: str | None = None) -> None:
    with tempfile.TemporaryDirectory() as temporary, open(out, "w", encoding="utf-8") as f:
        for line in record(map(json.loads, sys.stdin), Path(library), Path(folder or temporary)):
            f.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    _main(*sys.argv[1:])
