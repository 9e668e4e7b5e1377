"""A machine that lets nobody connect to its own servers is told at once, not waited for."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gguftool.errors import ToolFailed
from gguftool.run.reach import Way
from gguftool.run.server import Running, free_port, wait_until_ready


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """A process that never listens."""
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield Running(process, str(tmp_path / "log"), Way("127.0.0.1", free_port("127.0.0.1")))
    process.kill()
    process.wait()


@pytest.mark.parametrize("number", [errno.ENETUNREACH, errno.EPERM], ids=errno.errorcode.get)
def test_nobody_may_connect(running: Running, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(self: socket.socket, place: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket.socket, "connect", connect)
    start = time.monotonic()
    with pytest.raises(ToolFailed, match=os.strerror(number)):
        wait_until_ready(running, 600)
    assert time.monotonic() - start < 60


def test_one_that_is_not_ready_is_waited_for(running: Running) -> None:
    start = time.monotonic()
    assert not wait_until_ready(running, 1)
    assert time.monotonic() - start >= 1
