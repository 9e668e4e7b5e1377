"""The ``user:password@`` of addresses: taken off at the door, so that no message, log or manifest can show it.

What is taken off a command line is kept for this process, and sent to its own origin only.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.hub.spot import Spot, spot
from gguftool.wire import Nonsense, without_login

_kept: dict[tuple[str, str, int], str] = {}


def taken(words: Sequence[str]) -> list[str]:
    """The words of a command line without the credentials of web addresses, which are kept.

    Args:
        words: of the command line; those after ``--`` are for another program and stay.
    """
    end = words.index("--") if "--" in words else len(words)
    return [*(_taken(word) for word in words[:end]), *words[end:]]


def _taken(word: str) -> str:
    if "@" not in word or "://" not in word:
        return word
    front, equals, address = word.partition("=") if word.startswith("-") else ("", "", word)
    clean = without_login(address)
    if clean == address or not address.lower().startswith(("http://", "https://")):
        return word
    try:
        found = spot(address)
    except Nonsense:
        return front + equals + clean
    _kept[found.origin] = found.login
    return front + equals + clean


def login(at: Spot) -> str:
    """What to log in with: what stands in the address, or what was kept for its origin; "" for nothing."""
    return at.login or _kept.get(at.origin, "")
