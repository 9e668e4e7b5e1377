"""Commands as text that a shell reads back."""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def shell(argv: Sequence[str]) -> str:
    r"""One line for a POSIX shell; what a terminal would act on is written as ``$'\xNN'``."""
    return " ".join(_quote(word) for word in argv)


def _quote(word: str) -> str:
    if word.isprintable():
        return shlex.quote(word)
    body = "".join(c if c.isprintable() and c not in "\\'" else _escape(c) for c in word)
    return f"$'{body}'"


def _escape(c: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in c.encode("utf-8", "surrogateescape"))
