"""A sample of ``./dev crash``: each command under the faults of streams, and under some step of some other fault."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gguftool import cli
from gguftool.cli.group import TABLE
from tests.faults.commands import all_commands
from tests.faults.harness import Bench
from tests.faults.table import FAULTS, cell

pytestmark = pytest.mark.skipif(not os.path.exists("/dev/full") or not hasattr(os, "fork"), reason="needs /dev/full")
COMMANDS = all_commands()
CLI = os.path.dirname(cli.__file__)


def test_every_command_is_a_row():
    """And really run: an answer to ``--help`` is no row. So is each way of a command that has a file of its own."""
    assert {entry.name for entry in TABLE} <= {c.words[0] for c in COMMANDS if "--help" not in c.words}
    ways = {name.removesuffix(".py").partition("_")[2] for name in os.listdir(CLI) if name.startswith("scan_")}
    for way in ways - {"rows", "progress"}:
        assert [c for c in COMMANDS if c.words[0] == "scan" and f"--{way}" in c.words], way


@pytest.mark.parametrize("name", [c.name for c in COMMANDS if not c.long])
def test_some_faults(name: str, tmp_path: Path, thin):
    assert not thin(_some, name, tmp_path)


def _some(name: str, folder: Path) -> list[str]:
    """What is wrong."""
    command = next(c for c in COMMANDS if c.name == name)
    rng = random.Random(name)
    bench = Bench(command, folder / "b")
    wrong: list[str] = []
    for fault in rng.sample(FAULTS, 5 if command.writes else 3):
        found = cell(bench, fault, iter((rng.randint(1, 8),)))
        wrong += found.wrong if found else []
    return wrong
