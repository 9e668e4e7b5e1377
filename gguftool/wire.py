"""One exchange of HTTP/1.1 over a socket, bounded in time and in size whatever the other side does.

A time limit of a socket (and of http.client, requests, httpx) holds for one wait: a server that sends a byte a second
keeps them for ever. Here a `Clock` holds for the whole of it, headers included, and every number of the other side
goes through `number`. Measured with huggingface-hub 2.4 (httpx2 2.16): with a time limit of 3 s and headers at 2 bytes
a second its session waited 30 s, until the server gave up.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from gguftool.quantity import whole
from gguftool.records import dataclass, field
from gguftool.regex import regex

if TYPE_CHECKING:
    import socket

T = TypeVar("T")

HEAD_SECONDS = 30.0
"""From the first step of a request to the end of the headers of its answer, redirects included."""
GRACE_SECONDS = 15.0
"""What a body may take besides its bytes."""
LEAST_RATE = 16 << 10
"""Bytes a second below which a body is given up."""
HEAD_BYTES = 64 << 10
"""Headers, and whatever else is no content: chunk sizes, trailers, interim answers."""
LARGEST_NUMBER = (1 << 63) - 1
_PIECE = 1 << 18
_INTERIM = 8


class Broken(Exception):
    """The other side did not keep to HTTP, or the connection broke off."""


class TooSlow(Broken):
    """It took longer than a request may take; nothing that another try would mend."""


class Nonsense(Broken):
    """An answer nobody can read; another try brings the same."""


def number(text: str, what: str, most: int = LARGEST_NUMBER, base: int = 10) -> int:
    """A number that the other side wrote: of ASCII digits only, none below 0, none above ``most``.

    Args:
        text: what it wrote.
        what: what it is the number of, for the message.
        most: largest that makes sense.
        base: 10 or 16.

    Raises:
        Nonsense: it is none.
    """
    found = whole(text.strip(" \t"), base)
    if found is None or found > most:
        shown = text if len(text) <= 40 else text[:40] + "…"
        raise Nonsense(f"the server's {what} is not a number that can be: {shown!r}")
    return found


@dataclass(slots=True)
class Clock:
    """The time of one request: ``head`` seconds until its headers are there, then as long as the bytes keep coming.

    A body of n bytes ends at the latest after ``GRACE_SECONDS + n / LEAST_RATE``.
    """

    head: float = field(default_factory=lambda: HEAD_SECONDS)
    began: float = field(default_factory=time.monotonic)
    body_began: float | None = None
    got: int = 0

    def left(self) -> float:
        """Seconds left for the next step.

        Raises:
            TooSlow: none.
        """
        now = time.monotonic()
        if self.body_began is None:
            left, what = self.began + self.head - now, f"no whole answer within {self.head:g} s"
        else:
            left = self.body_began + GRACE_SECONDS + self.got / LEAST_RATE - now
            what = f"fewer than {LEAST_RATE >> 10} KiB a second ({self.got:,} bytes in {now - self.body_began:.0f} s)"
        if left <= 0:
            raise TooSlow(f"the server is too slow: {what}")
        return left


class Pipe:
    """A connected socket with a buffer; every wait ends with the clock."""

    def __init__(self, sock: socket.socket, clock: Clock) -> None:
        self.sock = sock
        self.clock = clock
        self.used = False
        self._buffer = bytearray()
        self._head_left = HEAD_BYTES

    def close(self) -> None:
        """End the connection."""
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.sock.settimeout(self.clock.left())
        self._guarded(lambda: self.sock.sendall(data))

    def some(self, most: int) -> bytes:
        """At least one byte and at most ``most``; none at the end."""
        if not self._buffer:
            self._fill()
        taken = bytes(self._buffer[:most])
        del self._buffer[: len(taken)]
        # Chunks of a few bytes each would be mostly their sizes; those of a kilobyte are usual.
        self._head_left += len(taken)
        return taken

    def line(self) -> str:
        """One line of what is no content, without its end."""
        while (end := self._buffer.find(b"\n")) < 0:
            if len(self._buffer) > self._head_left:
                raise Nonsense(f"the server sends more than {HEAD_BYTES >> 10} KiB of headers")
            if not self._fill():
                raise Broken("the connection was closed")
        self._head_left -= end + 1
        if self._head_left < 0:
            raise Nonsense(f"the server sends more than {HEAD_BYTES >> 10} KiB of headers")
        text = self._buffer[:end].rstrip(b"\r").decode("latin-1")
        del self._buffer[: end + 1]
        return text

    def again(self, clock: Clock) -> None:
        """Ready for the next request on the same connection."""
        self.clock, self._head_left, self.used = clock, HEAD_BYTES, True

    @property
    def quiet(self) -> bool:
        """Whether nothing has come that was not asked for."""
        return not self._buffer

    def _fill(self) -> bool:
        self.sock.settimeout(self.clock.left())
        data = self._guarded(lambda: self.sock.recv(_PIECE))
        self._buffer += data
        return bool(data)

    def _guarded(self, act: Callable[[], T]) -> T:
        try:
            return act()
        except TimeoutError:
            self.clock.left()
            raise TooSlow("the server is too slow") from None
        except (OSError, ValueError) as error:
            raise Broken(f"the connection broke off: {error}") from None


class Reply:
    """An answer whose headers are here; its body is read off bit by bit.

    Attributes:
        status: of the answer.
        headers: by name in small letters; of repeated ones the first.
        length: bytes of the body as the server states them, None when it does not.
    """

    def __init__(self, pipe: Pipe, status: int, headers: Mapping[str, str], bodiless: bool) -> None:
        self.status = status
        self.headers = headers
        said = headers.get("content-length")
        self.length = None if said is None else number(said, "Content-Length")
        coding = headers.get("transfer-encoding", "").strip().lower()
        if coding not in ("", "identity", "chunked"):
            raise Nonsense(f"the server answers in a coding that was not asked for: {coding[:40]!r}")
        self._chunked = coding == "chunked"
        self._pipe = pipe
        self._open_end = not (bodiless or self._chunked or self.length is not None)
        self._left = 0 if bodiless or self._chunked else self.length or 0
        self.finished = bodiless or not (self._chunked or self._open_end or self._left)
        self._first_chunk = True
        pipe.clock.body_began = time.monotonic()

    def read(self, n: int) -> bytes:
        """At most ``n`` bytes of the body; a connection that breaks off gives what came.

        Raises:
            TooSlow: the bytes come slower than `LEAST_RATE`.
            Broken: it broke off before anything came, or the chunks are nonsense.
        """
        got = bytearray()
        while len(got) < n and not self.finished:
            try:
                part = self._part(n - len(got))
            except (TooSlow, Nonsense):
                raise
            except Broken:
                if not got:
                    raise
                break
            got += part
            self._pipe.clock.got += len(part)
        return bytes(got)

    def _part(self, most: int) -> bytes:
        if self._chunked and not self._left and not self._next_chunk():
            return b""
        part = self._pipe.some(most if self._open_end else min(most, self._left))
        if not part:
            self.finished = self._open_end
            if not self._open_end:
                raise Broken("the connection was closed before the end")
        self._left -= 0 if self._open_end else len(part)
        self.finished = self.finished or not (self._open_end or self._chunked or self._left)
        return part

    def _next_chunk(self) -> bool:
        """Read the size of the next chunk; False after the last."""
        if not self._first_chunk and self._pipe.line():
            raise Nonsense("the server's chunks do not end where they should")
        self._first_chunk = False
        self._left = number(self._pipe.line().partition(";")[0], "chunk size", base=16)
        if not self._left:
            while self._pipe.line():
                pass
            self.finished = True
        return bool(self._left)

    @property
    def reusable(self) -> bool:
        """Whether the connection can carry another request."""
        stays = self.headers.get("connection", "keep-alive").lower() != "close"
        return self.finished and stays and not self._open_end and self._pipe.quiet


def exchange(pipe: Pipe, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None) -> Reply:
    """Send one request and read the headers of its answer.

    Args:
        pipe: the connection.
        method: ``GET``, ``POST`` ….
        target: path and query, or what a proxy wants.
        headers: to send, ``Host`` among them.
        body: to send, None for none.

    Raises:
        TooSlow, Nonsense, Broken: as the other side does.
    """
    rows = dict(headers) | ({} if body is None else {"Content-Length": str(len(body))})
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in rows.items())]
    if any(c in line for line in lines for c in "\r\n\0"):
        raise Nonsense("a line of the request would be two")
    pipe.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace") + (body or b""))
    for _ in range(_INTERIM):
        status = _status(pipe.line())
        found: dict[str, str] = {}
        while line := pipe.line():
            name, colon, value = line.partition(":")
            if colon:
                _add(found, name.strip().lower(), value.strip())
        if status >= 200:
            return Reply(pipe, status, found, method == "HEAD" or status in (204, 304))
    raise Nonsense("the server sends interim answers without end")


def _add(found: dict[str, str], name: str, value: str) -> None:
    if name == "content-length" and found.get(name, value) != value:
        raise Nonsense("the server states two different lengths")
    found.setdefault(name, value)


def _status(line: str) -> int:
    version, _, rest = line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise Nonsense(f"the answer is not HTTP: {line[:40]!r}")
    code = rest.strip().partition(" ")[0]
    if len(code) != 3:
        raise Nonsense(f"the server's status is not a number that can be: {code[:40]!r}")
    return number(code, "status", 599)


_LOGIN = regex(r"(\b[a-z][a-z0-9+.-]*://)[^/?#\s]*@", re.I)


def without_login(text: str) -> str:
    """A text without the ``user:password@`` of the addresses in it."""
    return _LOGIN.sub(r"\1", text) if "@" in text else text


def within(seconds: float, act: Callable[[], T]) -> T:
    """What ``act`` comes to, when it comes within the time; for what has no time limit of its own.

    The thread it runs in does not hold up the end of the process.

    Args:
        seconds: wall-clock time.
        act: what to do.

    Raises:
        TooSlow: it goes on longer.
    """
    thread, came = apart(act)
    thread.join(seconds)
    if thread.is_alive():
        raise TooSlow(f"no answer within {seconds:g} s")
    return came()


def apart(act: Callable[[], T]) -> tuple[threading.Thread, Callable[[], T]]:
    """A thread that does it and does not hold up the end of the process; and what it came to, once it has ended."""
    out: list[T] = []
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            out.append(act())
        except BaseException as error:
            wrong.append(error)

    def came() -> T:
        if wrong:
            raise wrong[0]
        return out[0]

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, came
