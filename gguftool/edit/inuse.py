"""Who has a file open, for messages. Whether anybody has is decided by a lease, not here."""

from __future__ import annotations

import os
import sys

from gguftool.quantity import whole


def users_of(path: str, limit: int = 5) -> list[tuple[int, str]]:
    """(pid, name) of other processes that have the file open or mapped, as far as /proc lets us see."""
    if sys.platform != "linux":
        return []
    try:
        s = os.stat(path)
    except OSError:
        return []
    found: list[tuple[int, str]] = []
    for entry in os.listdir("/proc"):
        if whole(entry) not in (None, os.getpid()) and _has(entry, s):
            found.append((int(entry), _name(entry)))
            if len(found) == limit:
                break
    return found


def _has(pid: str, s: os.stat_result) -> bool:
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                other = os.stat(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if (other.st_dev, other.st_ino) == (s.st_dev, s.st_ino):
                return True
        with open(f"/proc/{pid}/maps", "rb") as maps:
            inode = str(s.st_ino).encode()
            device = f"{os.major(s.st_dev):02x}:{os.minor(s.st_dev):02x}".encode()
            for line in maps:
                parts = line.split(None, 5)
                if len(parts) > 4 and parts[4] == inode and parts[3] == device:
                    return True
    except OSError:
        pass
    return False


def _name(pid: str) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb") as f:
            return f.read().decode("utf-8", "replace").strip()
    except OSError:
        return "?"
