"""How far a long reading has come: rate and time left, on one line of stderr that is overwritten."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TextIO

from gguftool.report.lines import standing, terminal_columns
from gguftool.report.text import shorten, size, width

EVERY = 0.1
"""Seconds between two updates."""
DELAY = 0.5
"""Nothing is shown for what is done sooner."""


class Status:
    """One line of a terminal that is written over, without escapes: a dumb one shows it, too.

    Args:
        stream: where; None shows nothing.
    """

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream
        self._columns = 0

    def __call__(self, text: str) -> None:
        """Show ``text`` in its place, cut to what the terminal has."""
        if self._stream is None:
            return
        # A line that goes over the edge cannot be taken back by \r.
        if (most := terminal_columns(self._stream)) is not None:
            text = shorten(text, most - 1)
        filler = " " * max(0, self._columns - width(text))
        if text and not self._columns:
            standing(self.close)
        self._columns = width(text)
        self._stream.write(f"\r{text}{filler}")
        self._stream.flush()

    def close(self) -> None:
        """Take the line away."""
        if self._stream is not None and self._columns:
            self("")
            self._stream.write("\r")
            self._stream.flush()


class Progress:
    """Counts bytes, or other things; called from any thread with the number done since the last call.

    Args:
        total: how many there are; 0 as long as that is not known (it may be set later).
        stream: where to show it; None shows nothing.
        what: a word in front.
        amount: so many of them, in words.
    """

    def __init__(
        self,
        total: int,
        stream: TextIO | None,
        what: str = "hashing",
        amount: Callable[[float], str] = lambda n: size(round(n)),
    ) -> None:
        self.total = total
        self._amount = amount
        self._status = Status(stream)
        self._what = what
        self._lock = threading.Lock()
        self._start = self._shown = time.monotonic()
        self._done = 0

    def __call__(self, n: int) -> None:
        """``n`` more bytes are done."""
        with self._lock:
            self._done += n
            now = time.monotonic()
            if now - self._shown < EVERY or now - self._start < DELAY:
                return
            self._shown = now
            self._status(self.line(now - self._start))

    def line(self, seconds: float) -> str:
        """The line to show after so many seconds."""
        done, total = self._done, max(self.total, self._done, 1)
        rate = done / seconds if seconds > 0 else 0.0
        if not self.total:
            return f"{self._what} {self._amount(done)}  {self._amount(rate)}/s"
        left = (total - done) / rate if rate > 0 else 0.0
        how_far = f"{100 * done / total:3.0f}%  {self._amount(done)} of {self._amount(total)}"
        return f"{self._what} {how_far}  {self._amount(rate)}/s  {clock(left)} left"

    def close(self) -> None:
        """Take the line away."""
        with self._lock:
            self._status.close()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def clock(seconds: float) -> str:
    """``0:07``, ``12:34``, ``1:02:03``."""
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"
