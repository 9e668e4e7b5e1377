"""What the tests of this room share: the real server, and a look at what is still running."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from gguftool.programs import find


@pytest.fixture(scope="session")
def server() -> str:
    tool = find("llama-server")
    if tool is None:
        pytest.skip("no llama-server on this machine")
    return tool.path


_others: set[int] = set()


@pytest.fixture(autouse=True)
def _of_others() -> None:
    """What runs before a test is not its own: a server that tests of another room share."""
    _others.clear()
    _others.update(children())


def children() -> list[int]:
    """Processes whose parent we are, and that were not there before this test."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text() if sys.platform.startswith("linux") else ""
    return [pid for pid in map(int, text.split()) if pid not in _others and alive(pid)]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def checks(found: dict[str, Any]) -> dict[str, bool | None]:
    return {c["what"]: c["ok"] for c in found["checks"]}
