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


def children() -> list[int]:
    """Processes whose parent we are."""
    text = Path(f"/proc/self/task/{os.getpid()}/children").read_text() if sys.platform.startswith("linux") else ""
    return [int(pid) for pid in text.split() if alive(int(pid))]


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def checks(found: dict[str, Any]) -> dict[str, bool | None]:
    return {c["what"]: c["ok"] for c in found["checks"]}
