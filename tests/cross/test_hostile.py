"""Every command on every hostile file: an exit code of the table, no traceback, no terminal escape, in bounded time.

In one process (the `cli` fixture): an exception that is not ours would end the test, exit code 70 fails it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lint.badfiles import files

BAD_FILES = files()

COMMANDS = [
    ("dump",),
    ("dump", "--format", "json"),
    ("dump", "--layout"),
    ("lint",),
    ("lint", "--format", "json"),
    ("lint", "--format", "sarif"),
    ("verify", "--data"),
    ("verify", "--format", "json"),
    ("hash", "--tensors"),
    ("plan",),
    ("plan", "--format", "json"),
    ("launch", "--print"),
    ("fix", "--dry-run", "--set", "general.name=x"),
    ("fix", "--set", "general.name=x"),
    ("fix", "--auto"),
    ("undo",),
    ("recover",),
]


@pytest.mark.parametrize("name", sorted(BAD_FILES))
def test_no_command_falls(cli, tmp_path: Path, name: str) -> None:
    data = BAD_FILES[name]
    path = tmp_path / name
    for command in COMMANDS:
        path.write_bytes(data)
        result = cli(*command, str(path))
        assert result.code in range(8), (command, result.err)
        assert "Traceback" not in result.out + result.err, command
        assert "\x1b" not in result.out + result.err, command
        if command[0] not in ("fix", "undo", "recover"):
            assert path.read_bytes() == data, command


def test_a_nul_in_a_name(cli) -> None:
    """As a program hands it over that calls ours; also where a name is opened by the library."""
    import gguftool
    from gguftool.errors import MissingFile

    for command in ("dump", "undo", "convert", "quantize", "scan"):
        assert cli(command, "a\0b").code == 2
    with pytest.raises(MissingFile):
        gguftool.open("a\0b")
