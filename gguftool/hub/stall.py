"""A download that huggingface-hub makes, ended when nothing comes any more; not when it merely takes long.

Its own limit is for one wait of one connection (and it asks for 10 MB before it writes any): a server that sends a byte
every few seconds holds it for ever. What counts here is what this process receives, reads and writes, whoever of its
libraries does it: `LEAST` bytes in `SECONDS`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeVar

from gguftool.errors import ToolFailed
from gguftool.wire import apart

T = TypeVar("T")
SECONDS = 60.0
LEAST = 64 << 10
"""Bytes that must move in that time; the bars of a progress display are fewer."""
BLIND_SECONDS = 600.0
"""The same where the system does not tell what a process receives: only the growth of the file is seen then."""
_LOOK = 0.5
_RECEIVED = 128
"""Where `tcp_info` has the bytes received (linux/tcp.h; since 4.1)."""


def while_growing(work: Callable[[], T], grown: Callable[[], int], name: str) -> T:
    """What the work gives; it runs in a thread that does not hold up the end of the process.

    Args:
        work: downloads something.
        grown: bytes that are there of it, whoever brings them: another process may do it while this one waits.
        name: what messages call it.

    Raises:
        ToolFailed: nothing comes any more.
    """
    moved = _Moved(grown)
    since, mark = time.monotonic(), 0
    thread, came = apart(work)
    while thread.is_alive():
        thread.join(min(_LOOK, SECONDS / 4))
        total = moved.look()
        if total - mark >= LEAST:
            since, mark = time.monotonic(), total
        limit = BLIND_SECONDS if moved.blind else SECONDS
        if thread.is_alive() and time.monotonic() - since > limit:
            raise ToolFailed(
                f"{name}: the download stands still: {total - mark:,} bytes in {limit:.0f} s",
                "type the same command again later: what has come is kept",
            )
    return came()


class _Moved:
    """Bytes that have moved since the beginning."""

    def __init__(self, grown: Callable[[], int]) -> None:
        self._grown = grown
        self._size = grown()
        self._copied = _copied()
        self.blind = self._copied is None
        self._sockets = {} if self.blind else _received()
        self._total = 0

    def look(self) -> int:
        """All until now."""
        size = self._grown()
        self._total += max(0, size - self._size)
        self._size = size
        copied = _copied()
        if copied is not None and self._copied is not None:
            self._total += copied - self._copied
            self._copied = copied
            now = _received()
            self._total += sum(max(0, n - self._sockets.get(socket, 0)) for socket, n in now.items())
            self._sockets = now
        return self._total


def _copied() -> int | None:
    """Bytes that this process has read from files and written to them; None where the system does not count."""
    try:
        with open("/proc/self/io", "rb", buffering=0) as f:
            rows = f.read(4096).split()
        return int(rows[1]) + int(rows[3])
    except (OSError, ValueError, IndexError):
        return None


def _received() -> dict[str, int]:
    """Bytes that have come on each TCP connection of this process."""
    import socket

    found: dict[str, int] = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            what = os.readlink(f"/proc/self/fd/{name}")
            if what.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(name))) as copy:
                    info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RECEIVED + 8)
                if len(info) == _RECEIVED + 8:
                    found[what] = int.from_bytes(info[_RECEIVED:], "little")
        except OSError:
            # It is closed by now, or no TCP.
            continue
    return found
