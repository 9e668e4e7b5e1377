"""What every generator of pages ends with: write the files, or with ``--check`` tell which are out of step."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def keep(files: Mapping[Path, str], *, folder: Path | None = None, pattern: str = "*") -> None:
    """Write ``files``; with ``--check`` on the command line only compare, and exit 1 where one differs.

    Args:
        files: text by path.
        folder: one that holds these files alone: what else lies there by ``pattern`` is removed, or counts as wrong.
        pattern: which of its files are meant.
    """
    stray = sorted(set(folder.glob(pattern)) - set(files)) if folder else []
    if "--check" in sys.argv[1:]:
        wrong = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
        if names := ", ".join(path.name for path in [*wrong, *stray]):
            sys.exit(f"{names}: out of step: ./dev docs")
        return
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for path in stray:
        path.unlink()


def table(*head: str, rows: list[tuple[str, ...]]) -> str:
    """A table of Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def prose(text: str) -> str:
    """Text of a docstring as Markdown: angle brackets and stars outside of code would be HTML and emphasis."""
    pieces = text.replace("``", "`").split("`")
    return "`".join(
        piece if i % 2 else piece.replace("<", "&lt;").replace("*", "\\*") for i, piece in enumerate(pieces)
    )
