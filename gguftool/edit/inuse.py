"""Who has a file open: decided by a lease; /proc gives the names, and is asked where there is no lease."""

from __future__ import annotations

import os
import stat

from gguftool.edit.oslayer import OsLayer
from gguftool.errors import Refused
from gguftool.quantity import whole
from gguftool.source import attempts


def hold_alone(layer: OsLayer, fd: int, path: str, *, wait: bool = True) -> bool | None:
    """Keep everybody else from opening a file that is open for writing.

    Args:
        layer: the operating system.
        fd: the file; the lease goes with it.
        path: its path.
        wait: for a program that has it open for a moment.

    Returns:
        True: we hold it. False: somebody else has it open. None: that cannot be known; nobody is seen.
    """
    for _ in attempts(wait):
        alone = layer.lease(fd)
        if alone is None and users_of(path, 1):
            alone = False
        if alone is not False:
            return alone
    return False


def alone(layer: OsLayer, path: str, *, wait: bool = True) -> bool | None:
    """As `hold_alone`, without holding it afterwards."""
    try:
        fd = layer.open(path, write=True)
    except (OSError, Refused):
        return None
    try:
        found = hold_alone(layer, fd, path, wait=wait)
        if found:
            layer.unlease(fd)
        return found
    finally:
        layer.close(fd)


def users_of(path: str, limit: int = 5) -> list[tuple[int, str]]:
    """(pid, name) of other processes that have the file open or mapped, as far as /proc lets us see."""
    if not os.path.isdir("/proc"):
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


def in_use() -> dict[tuple[int, int], tuple[int, str]]:
    """Device and number of every file that another process has open or mapped, with its pid and name.

    As far as /proc lets us see; for many files, where `users_of` would go through all processes for each.
    """
    found: dict[tuple[int, int], tuple[int, str]] = {}
    if not os.path.isdir("/proc"):
        return found
    for entry in os.listdir("/proc"):
        if whole(entry) in (None, os.getpid()):
            continue
        here = _files_of(entry)
        if here:
            found.update(dict.fromkeys(here, (int(entry), _name(entry))))
    return found


def _files_of(pid: str) -> set[tuple[int, int]]:
    out: set[tuple[int, int]] = set()
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            try:
                s = os.stat(f"/proc/{pid}/fd/{fd}")
            except OSError:
                continue
            if stat.S_ISREG(s.st_mode):
                out.add((s.st_dev, s.st_ino))
        with open(f"/proc/{pid}/maps", "rb") as maps:
            for line in maps:
                parts = line.split(None, 5)
                if len(parts) > 5 and parts[4] != b"0":
                    major, _, minor = parts[3].partition(b":")
                    out.add((os.makedev(int(major, 16), int(minor, 16)), int(parts[4])))
    except (OSError, ValueError):
        pass
    return out


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
