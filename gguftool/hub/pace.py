"""When a server says that it is asked too often: how long is waited.

Whoever asks for one model waits a few seconds between tries. Who looks at thousands waits as long as the server says
(`patient`): the Hub counts in windows of five minutes. All threads of a process wait together.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from gguftool.regex import regex
from gguftool.wire import Nonsense, number

LONG = 1800.0
"""Seconds that whoever looks at thousands waits for one answer in all."""
_patience: ContextVar[float] = ContextVar("patience", default=0.0)
_closed: dict[object, float] = {}
_lock = threading.Lock()
_LEFT = regex(r"\br=0\b.*?\bt=(\d{1,6})\b|\bt=(\d{1,6})\b.*?\br=0\b")


@contextmanager
def patient(seconds: float = LONG) -> Iterator[None]:
    """For the length of the block, wait up to so many seconds for an answer when a server asks for it."""
    before = _patience.set(seconds)
    try:
        yield
    finally:
        _patience.reset(before)


def patience() -> float:
    """Seconds that may be waited for one answer in all, as its server asks; 0 where nobody is patient."""
    return _patience.get()


def asked(headers: Mapping[str, str]) -> float:
    """Seconds that a server asks to wait: ``Retry-After``, in seconds or as a date, else ``RateLimit``; 0 for none.

    Args:
        headers: of its answer, names in small letters.
    """
    said = headers.get("retry-after", "")
    try:
        return float(number(said, "Retry-After"))
    except Nonsense:
        pass
    if said:
        from email.utils import parsedate_to_datetime

        try:
            return max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
        except (ValueError, OverflowError, OSError):
            return 0.0
    found = _LEFT.search(headers.get("ratelimit", ""))
    return float(found[1] or found[2]) if found else 0.0


def close(server: object, seconds: float) -> None:
    """Nobody of this process asks a server for so many seconds."""
    with _lock:
        _closed[server] = max(_closed.get(server, 0.0), time.monotonic() + seconds)


def hold(server: object) -> None:
    """Wait until a server may be asked again."""
    while (left := _closed.get(server, 0.0) - time.monotonic()) > 0:
        time.sleep(min(left, 1.0))
