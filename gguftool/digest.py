"""SHA-256 of small things: names, templates, numbers; BLAKE2 of vocabularies.

Python has both built in; `hashlib` loads OpenSSL first, in 2 ms, which is what 500 KB are worth. Whole headers and
files are hashed by `hashlib`, whose SHA-256 of OpenSSL is several times as fast; its BLAKE2 is Python's own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hashlib import blake2b, sha256

__all__ = ["blake2b", "sha256"]

_HOMES = {"blake2b": ("_blake2", "hashlib"), "sha256": ("_sha2", "_sha256", "hashlib")}
"""Modules that may have it, the cheapest first; `_sha256` until Python 3.11."""


def __getattr__(name: str) -> Any:
    for module in _HOMES.get(name, ()):
        try:
            return getattr(import_module(module), name)
        except ImportError:
            continue
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
