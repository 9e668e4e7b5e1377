"""SECURITY.md promises what a test holds: each promise names its tests, and they are there."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from tests.build import llama

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")


def promises() -> list[str]:
    section = PAGE.split("## What gguftool promises")[1].split("What it cannot promise")[0]
    return [row for row in section.splitlines() if row.startswith("| ") and "---" not in row][1:]


def test_each_promise_names_tests_that_are_there() -> None:
    assert len(promises()) >= 6
    for row in promises():
        named = re.findall(r"`(tests/[\w/.]+)`", row)
        assert named, row
        for name in named:
            assert (ROOT / name).exists(), name


COMMANDS = (
    ("dump",), ("lint",), ("verify",), ("verify", "--hash"), ("hash",), ("plan",), ("compat",), ("scan",),
    ("fix", "--dry-run", "--set", "general.name=x"),
)  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_local_file_needs_no_network(command: tuple[str, ...], cli, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Also of a file whose texts are addresses."""
    asked: list[object] = []

    def ask(*args: object, **kwargs: object) -> None:
        asked.append(args)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", ask)
    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(socket, "create_connection", ask)
    model = llama().kv("general.source.url", "https://localhost:1/x").kv("general.base_model.count", 1)
    model.kv("general.base_model.0.repo_url", "https://localhost:1/owner/repo").kv("general.url", "hf://owner/repo")
    path = model.write(tmp_path / "m.gguf")
    assert cli(*command, path).code in (0, 1)
    assert asked == []
