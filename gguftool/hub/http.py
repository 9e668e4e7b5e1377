"""`HttpRange`: a file on a web server as a `Source`, read by range requests with a small cache.

Headers are read front to back, so the cache holds the front of the file as one piece and grows it geometrically, from
1 MiB to 16 MiB a request. Elsewhere (a tensor) the last piece is kept, and reads that follow one another fetch ahead.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Mapping
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from gguftool.errors import ChangedMeanwhile, GgufToolError, MissingFile, ToolFailed, UsageError
from gguftool.quantity import whole
from gguftool.version import __version__

if TYPE_CHECKING:
    from http.client import HTTPResponse

FIRST = 1 << 20
LARGEST = 16 << 20
FRONT_LIMIT = 64 << 20
"""Bytes of the front kept in memory: a header is read again and again while it is parsed."""
TIMEOUT = 30.0
"""Seconds without an answer before a request counts as failed."""
TRIES = 3
REDIRECTS = 8
_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+)")
_RETRY = frozenset({429, 500, 502, 503, 504})


class HttpRange:
    """Random access to a file behind an http(s) address.

    Args:
        url: where it is.
        headers: request headers, an ``Authorization`` among them if needed; sent to the host of ``url`` only.
        name: what messages call it; the address without its query when None.

    Raises:
        MissingFile: the server has no such file (404).
        ToolFailed: no connection, no permission, or a server that cannot serve ranges.
    """

    def __init__(self, url: str, headers: Mapping[str, str] | None = None, name: str | None = None) -> None:
        self.url = url
        self.name = name or url.partition("?")[0]
        self._headers = dict(headers or {})
        self._home = _origin(url)
        self._now = url
        self._size: int | None = None
        self._etag: str | None = None
        self._front = b""
        self._window: tuple[int, bytes] = (0, b"")
        self._lock = threading.RLock()
        self.requests = 0

    @property
    def size(self) -> int:
        """Length of the file in bytes, as the server states it; costs the first request."""
        if self._size is None:
            self._front = self._fetch(0, FIRST)
        return self._size or 0

    @property
    def identity(self) -> tuple[str, int, str | None]:
        """Address, size and entity tag."""
        return self.url, self.size, self._etag

    def read_at(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes; fewer only at the end.

        Raises:
            ChangedMeanwhile: the file on the server is no longer the same.
            ToolFailed: the network or the server failed.
        """
        with self._lock:
            return self._read(offset, max(0, min(n, self.size - offset)))

    def _read(self, offset: int, n: int) -> bytes:
        if not n:
            return b""
        end, have = offset + n, len(self._front)
        if end <= have:
            return self._front[offset:end]
        if offset <= have and end <= FRONT_LIMIT:
            step = max(end - have, min(LARGEST, max(FIRST, have)))
            self._front += self._exactly(have, min(step, self.size - have))
            return self._front[offset:end]
        return self._ahead(offset, n)

    def _ahead(self, offset: int, n: int) -> bytes:
        """A read behind the front: when reads follow one another, more is fetched than asked for."""
        at, window = self._window
        if not at <= offset <= offset + n <= at + len(window):
            follows = offset == at + len(window)
            want = min(max(n, LARGEST) if follows else n, self.size - offset)
            at, window = self._window = (offset, self._exactly(offset, want))
        return window[offset - at : offset - at + n]

    def check_unchanged(self) -> None:
        """Nothing to ask: every request compares size and entity tag."""

    def close(self) -> None:
        """Drop the cache; there is no connection to give back."""
        self._front = b""
        self._window = (0, b"")

    def _exactly(self, offset: int, n: int) -> bytes:
        data = self._fetch(offset, n)
        while len(data) < n:
            more = self._fetch(offset + len(data), n - len(data))
            if not more:
                raise ToolFailed(f"{self.name}: the server sent {len(data):,} of {n:,} bytes at offset {offset:,}")
            data += more
        return data

    def _fetch(self, offset: int, n: int) -> bytes:
        """One range, tried again when the network or the server stumbles."""
        for attempt in range(TRIES):
            try:
                return self._once(offset, n)
            except _Stumble as error:
                if attempt == TRIES - 1:
                    raise ToolFailed(f"{self.name}: {error}", error.hint) from None
                time.sleep(min(error.wait or 0.3 * 3**attempt, 10.0))
        raise ToolFailed(f"{self.name}: no answer")

    def _once(self, offset: int, n: int) -> bytes:
        self.requests += 1
        response = self._open({"Range": f"bytes={offset}-{offset + n - 1}"})
        with response:
            if response.status == 416:
                self._note(_total(response.headers.get("Content-Range")), response)
                return b""
            if response.status == 200:
                # No ranges: the front can still be read off the start of the whole.
                length = response.headers.get("Content-Length")
                if offset or length is None:
                    hint = "download the file first, then name the local copy"
                    raise ToolFailed(f"{self.name}: the server does not answer range requests", hint)
                self._note(int(length), response)
            else:
                m = _RANGE.match(response.headers.get("Content-Range", ""))
                if m is None or int(m[1]) != offset:
                    raise ToolFailed(f"{self.name}: the server answered with another range than asked for")
                self._note(int(m[3]), response)
            return _read(response, n)

    def _note(self, size: int | None, response: HTTPResponse) -> None:
        etag = response.headers.get("ETag")
        if size is None:
            raise ToolFailed(f"{self.name}: the server does not say how long the file is")
        if self._size is not None and (size != self._size or (etag and self._etag and etag != self._etag)):
            raise ChangedMeanwhile(f"{self.name}: changed on the server while it was read", "run the command again")
        self._size = size
        self._etag = self._etag or etag

    def _open(self, extra: Mapping[str, str]) -> HTTPResponse:
        """The answer to a GET, redirects followed by hand: credentials must not go with them to another host."""
        url = self._now
        for _ in range(REDIRECTS):
            response = request(url, self._headers_for(url) | dict(extra))
            if response.status in (301, 302, 303, 307, 308):
                place = response.headers.get("Location")
                response.close()
                if not place:
                    raise ToolFailed(f"{self.name}: the server redirects to nowhere")
                url = urljoin(url, place)
                continue
            if response.status in (200, 206, 416):
                # Signed addresses are good for many ranges; an expired one falls back to the first.
                self._now = url
                return response
            if response.status in (401, 403) and url != self.url and self._now != self.url:
                response.close()
                url = self._now = self.url
                continue
            with response:
                raise self._refused(response)
        raise ToolFailed(f"{self.name}: more than {REDIRECTS} redirects")

    def _headers_for(self, url: str) -> dict[str, str]:
        if _origin(url) == self._home:
            return dict(self._headers)
        return {k: v for k, v in self._headers.items() if k.lower() not in ("authorization", "cookie")}

    def _refused(self, response: HTTPResponse) -> GgufToolError | _Stumble:
        status, said = response.status, " ".join(_read(response, 200).decode("utf-8", "replace").split())
        said = response.headers.get("X-Error-Message") or ("" if said.startswith("<") else said)
        what = f"HTTP {status}" + (f": {said}" if said else "")
        if status in _RETRY:
            wait = response.headers.get("Retry-After", "")
            return _Stumble(what, "try again later", float(whole(wait) or 0))
        if status in (404, 410):
            return MissingFile(f"{self.name}: the server has no such file ({what})")
        if status in (401, 403):
            return ToolFailed(
                f"{self.name}: no access ({what})",
                "for a gated or private repository set HF_TOKEN and accept the licence on its page",
            )
        return ToolFailed(f"{self.name}: {what}")


class _Stumble(Exception):
    """Worth another try."""

    def __init__(self, message: str, hint: str | None = None, wait: float = 0.0) -> None:
        super().__init__(message)
        self.hint = hint
        self.wait = wait


_OFFLINE = "check the network; without one, name a local file (HF_HUB_OFFLINE=1 uses the cache only)"


def request(url: str, headers: Mapping[str, str], method: str = "GET") -> HTTPResponse:
    """One request, redirects and error statuses left to the caller.

    Raises:
        UsageError: not an http(s) address.
        _Stumble: no connection.
    """
    import http.client
    import urllib.error
    import urllib.request

    if urlsplit(url).scheme not in ("http", "https"):
        raise UsageError(f"{url}: not an http or https address")

    class Plain(urllib.request.HTTPRedirectHandler, urllib.request.HTTPErrorProcessor):
        """Answers as they come."""

        def http_response(self, request: Any, response: Any) -> Any:
            return response

        https_response = http_response

    opener = urllib.request.build_opener(Plain)
    ask = urllib.request.Request(url, headers={"User-Agent": f"gguftool/{__version__}", **headers}, method=method)
    try:
        answer: HTTPResponse = opener.open(ask, timeout=TIMEOUT)
        return answer
    except urllib.error.URLError as error:
        raise _Stumble(f"cannot connect: {error.reason}", _OFFLINE) from None
    except (OSError, http.client.HTTPException) as error:
        raise _Stumble(f"no answer: {error or type(error).__name__}", _OFFLINE) from None
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from None


def _read(response: IO[bytes] | HTTPResponse, n: int) -> bytes:
    """At most ``n`` bytes of the body; a connection that breaks off gives what came."""
    import http.client

    parts: list[bytes] = []
    left = n
    try:
        while left > 0 and (part := response.read(min(left, FIRST))):
            parts.append(part)
            left -= len(part)
    except http.client.IncompleteRead as error:
        parts.append(error.partial[:left])
    except OSError as error:
        if not parts:
            raise _Stumble(f"the connection broke off: {error}", _OFFLINE) from None
    return b"".join(parts)


def _total(content_range: str | None) -> int | None:
    m = re.fullmatch(r"bytes \*/(\d+)", content_range or "")
    return int(m[1]) if m else None


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
