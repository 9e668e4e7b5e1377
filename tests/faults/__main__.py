"""``python -m tests.faults [WORD ...]``: the table of command and fault; only rows with one of the words."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.faults.commands import Command, all_commands
from tests.faults.harness import Bench
from tests.faults.table import FAULTS, Cell, cell

POINTS = (*range(1, 12), *range(12, 400, 7))
"""Steps at which a fault comes."""
FEW = (1, 5, 60)
"""For commands that take long."""
SOME = (1, 4, 9, 20, 45, 90, 180)
"""For `prepare`, a second a run; tests/building and tests/files kill it at every step."""


def _points(command: Command) -> tuple[int, ...]:
    return FEW if command.long else SOME if command.words[0] == "prepare" else POINTS


def rows(commands: list[Command], folder: Path) -> Iterator[tuple[str, list[Cell | None]]]:
    """Each command, and with JSON, under all faults."""
    for n, command in enumerate(commands):
        for m, one in enumerate((command, command.json)):
            if one is not None:
                bench = Bench(one, folder / f"{n}-{m}")
                yield (
                    one.name,
                    [cell(bench, f, iter(_points(one))) if m == 0 or f.json else None for f in FAULTS],
                )


def main() -> int:
    """Print the table, then what is wrong."""
    words = sys.argv[1:]
    commands = [c for c in all_commands() if not words or any(word in c.name for word in words)]
    wrong: list[str] = []
    print("| command |", " | ".join(fault.name for fault in FAULTS), "|")
    print("|---" * (len(FAULTS) + 1) + "|")
    runs = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, cells in rows(commands, Path(folder)):
            texts = []
            for one in cells:
                codes = sorted(one.codes.items()) if one else []
                runs += sum(n for _, n in codes)
                text = " ".join(f"{code}×{n}" if n > 1 else str(code) for code, n in codes)
                texts.append(f"{text} **{len(one.wrong)} wrong**" if one and one.wrong else text)
                wrong += one.wrong if one else []
            print(f"| {name} |", " | ".join(texts), "|", flush=True)
    print(f"\n{runs:,} runs, {len(wrong)} wrong")
    for line in wrong:
        print(line)
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
