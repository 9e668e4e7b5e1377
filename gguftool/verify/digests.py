"""The hash functions: those of hashlib, and xxh64 from the xxhash package or the system's libxxhash."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from gguftool.errors import ToolFailed, UsageError

EMPTY_SHA256 = hashlib.sha256().hexdigest()
"""The hash of no bytes at all: who publishes it hashed an empty file."""
HEX_LENGTH = {"sha256": 64, "sha1": 40, "xxh64": 16}


class Digest(Protocol):
    """As hashlib's objects."""

    def update(self, data: Any, /) -> None:
        """Take more bytes."""

    def hexdigest(self) -> str:
        """The hash so far, hexadecimal."""


def maker(name: str) -> Callable[[], Digest]:
    """A function that makes new hash objects.

    Raises:
        UsageError: an unknown name.
        ToolFailed: xxh64 without a library for it.
    """
    if name == "sha256":
        return hashlib.sha256
    if name == "sha1":
        return lambda: hashlib.sha1(usedforsecurity=False)
    if name == "xxh64":
        return _xxh64()
    raise UsageError(f"unknown hash {name!r}", f"one of {', '.join(HEX_LENGTH)}")


@cache
def _xxh64() -> Callable[[], Digest]:
    # Every step of xxh64 needs the one before it, so numpy cannot help, and Python alone does 1 MB a second.
    try:
        import xxhash
    except ImportError:
        return _system_xxh64()
    found: Callable[[], Digest] = xxhash.xxh64
    return found


def _system_xxh64() -> Callable[[], Digest]:
    """From the shared library that apt, rsync and btrfs-progs bring along."""
    import ctypes

    for name in ("libxxhash.so.0", "libxxhash.0.dylib", "libxxhash.dylib", "xxhash.dll"):
        try:
            library = ctypes.CDLL(name)
            break
        except OSError:
            continue
    else:
        raise ToolFailed("xxh64 needs the xxhash package", "pip install 'gguftool[hash]', or use sha256")
    state, size = ctypes.c_void_p, ctypes.c_size_t
    library.XXH64_createState.restype = state
    library.XXH64_reset.argtypes = [state, ctypes.c_ulonglong]
    library.XXH64_update.argtypes = [state, ctypes.c_void_p, size]
    library.XXH64_digest.argtypes = [state]
    library.XXH64_digest.restype = ctypes.c_ulonglong
    library.XXH64_freeState.argtypes = [state]

    class Xxh64:
        """One running hash."""

        def __init__(self) -> None:
            self._state = library.XXH64_createState()
            library.XXH64_reset(self._state, 0)

        def update(self, data: Any, /) -> None:
            """Take more bytes."""
            view = memoryview(data).cast("B") if not isinstance(data, bytes) else memoryview(data)
            if view.readonly:
                raw = bytes(view)
                library.XXH64_update(self._state, raw, len(raw))
            elif len(view):
                library.XXH64_update(self._state, ctypes.addressof(ctypes.c_char.from_buffer(view)), len(view))

        def hexdigest(self) -> str:
            """The hash so far, hexadecimal."""
            return f"{library.XXH64_digest(self._state):016x}"

        def __del__(self) -> None:
            library.XXH64_freeState(self._state)

    return Xxh64
