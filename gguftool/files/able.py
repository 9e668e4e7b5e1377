"""What this system can do: reads at an offset on every one, crash-safe writing only where it has what that needs."""

from __future__ import annotations

import os
import sys
import threading
from importlib import import_module
from typing import Any

from gguftool.errors import Refused

_ONE_AT_A_TIME = threading.Lock()


def read_once(fd: int, n: int, offset: int) -> bytes:
    """One read of up to ``n`` bytes at ``offset``; the position of the descriptor means nothing afterwards."""
    if hasattr(os, "pread"):
        return os.pread(fd, n, offset)
    with _ONE_AT_A_TIME:
        os.lseek(fd, offset, os.SEEK_SET)
        return os.read(fd, n)


def read_once_into(fd: int, buffer: memoryview, offset: int) -> int:
    """As `read_once`, into a buffer; the bytes read."""
    if hasattr(os, "preadv"):
        return os.preadv(fd, [buffer], offset)
    data = read_once(fd, len(buffer), offset)
    buffer[: len(data)] = data
    return len(data)


def linux_calls() -> Any:
    """The module ``fcntl`` where Linux's own calls (leases, inode flags, shared extents) can be made; else None."""
    return _fcntl() if sys.platform == "linux" else None


def must_write() -> None:
    """Before any work: this system has what a file needs that is whole or not there.

    Locks tell a killed run's draft from one at work, writes at an offset keep an edit where its journal says, and a
    file that is open gets its name at the end. Windows has none of these.

    Raises:
        Refused: it has not.
    """
    if not hasattr(os, "pwrite") or _fcntl() is None:
        raise Refused(
            "gguftool does not write files on this system: it has no locks and no writes at an offset, without which "
            "an interrupted run could leave a broken model; nothing was written",
            "run this command on Linux or macOS, or in WSL; the commands that only read work here",
        )


def _fcntl() -> Any:
    try:
        return import_module("fcntl")
    except ImportError:
        return None
