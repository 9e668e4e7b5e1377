"""`HttpRange`: a file on a web server as a `Source`, read by ranges (how much at once: `gguftool.hub.pieces`)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from urllib.parse import urljoin

from gguftool.errors import ChangedMeanwhile, GgufToolError, MissingFile, Refused, ToolFailed, UsageError
from gguftool.format.foresee import FIRST_READ
from gguftool.hub import pace, stamps
from gguftool.hub.connect import Line, basic, give_back, line, proxy_login
from gguftool.hub.headers import Front
from gguftool.hub.logins import login
from gguftool.hub.pieces import LARGEST as LARGEST
from gguftool.hub.pieces import Pieces
from gguftool.hub.spot import Reach, Spot, spot
from gguftool.version import __version__
from gguftool.wire import Broken, Clock, Nonsense, Reply, TooSlow, exchange, number, without_login

FIRST = FIRST_READ
"""The first request: what the parser reads first."""
TRIES = 3
REDIRECTS = 8
SHORT = 64 << 10
SHORT_ANSWERS = 4
"""Answers in a row that bring less than `SHORT` and less than asked for: then it is no use."""
LONGEST_WAIT = 10.0
"""Seconds between two tries, where nobody is patient (`gguftool.hub.pace`)."""
_SENT_ON = frozenset({301, 302, 303, 307, 308})
_RETRY = frozenset({429, 500, 502, 503, 504})


class HttpRange:
    """Random access to a file behind an http(s) address.

    Args:
        url: where it is.
        headers: request headers, an ``Authorization`` among them if needed; sent to the host of ``url`` only.
        name: what messages call it; the address without its query when None.
        known: what is kept of it; taken when the server says that the file is still that.
        fixed: the address never means anything else, so the server is not asked.

    A request ends in bounded time, whatever the server does (`gguftool.wire.Clock`). Redirects are not followed from
    the open internet to this machine or the network behind it, nor from https to http; credentials stay at home.

    Raises:
        UsageError: not an http(s) address.
        MissingFile: the server has no such file (404).
        Refused: a redirect leads where it must not.
        ToolFailed: no connection, no permission, or a server that cannot serve ranges or does not keep to HTTP.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str] | None = None,
        name: str | None = None,
        known: Front | None = None,
        fixed: bool = False,
    ) -> None:
        try:
            self._home = spot(url)
        except Nonsense as error:
            raise UsageError(f"{without_login(url)}: {error}", "write https://host/path/file.gguf") from None
        self.url = self._home.url
        self.name = name or self._home.shown
        self._headers = dict(headers or {})
        if (found := login(self._home)) and "authorization" not in {k.lower() for k in self._headers}:
            self._headers["Authorization"] = basic(found)
        self._now = self._home
        self._reach: Reach | None = None
        self._size: int | None = None
        self._etag: str | None = None
        self._pieces = Pieces(self._exactly)
        self._lock = threading.RLock()
        self.requests = 0
        self._only_version = False
        self.known = known
        self.linked = ""
        """What the Hub calls this version of the file."""
        if known and fixed:
            self._take(known, "")

    @property
    def size(self) -> int:
        """Length of the file in bytes, as the server states it; costs the first request."""
        if self._size is None:
            self._pieces.front = self._fetch(0, FIRST)
        return self._size or 0

    @property
    def ready(self) -> int:
        """Bytes of the front that are here."""
        return len(self._pieces.front)

    @property
    def version(self) -> str:
        """The entity tag that the server gives the file, or ""."""
        return self._etag or ""

    def stamp(self) -> str | None:
        """Size and version as one word, None where the server names no version; asked for without the bytes."""
        if self._size is None:
            self._only_version = True
            self._fetch(0, 1)
            self._only_version = False
        return stamps.word(self._size or 0, self.linked or self.version)

    def _take(self, known: Front, etag: str) -> bytes:
        """The file is what is kept of it; ``etag``: what the server of the bytes calls it, "" when it was not asked."""
        self._size, self._etag, self.linked = known.size, etag or None, known.linked
        self._pieces.front = known.front
        return known.front

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
            return self._pieces.read(offset, n, self.size)

    def check_unchanged(self) -> None:
        """Nothing to ask: every request compares size and entity tag."""

    def close(self) -> None:
        """Drop the cache; connections are shared and stay."""
        self._pieces.drop()

    def _exactly(self, offset: int, n: int) -> bytes:
        data = bytearray()
        short = 0
        while len(data) < n:
            left = n - len(data)
            more = self._fetch(offset + len(data), left)
            short = short + 1 if len(more) < min(left, SHORT) else 0
            data += more
            if not more or (short >= SHORT_ANSWERS and len(data) < n):
                raise ToolFailed(f"{self.name}: the server sent {len(data):,} of {n:,} bytes at offset {offset:,}")
        return bytes(data)

    def _fetch(self, offset: int, n: int) -> bytes:
        """One range, tried again when the network or the server stumbles, or says when to come again."""
        attempt, waited = 0, 0.0
        while True:
            pace.hold(self._home.origin)
            wait, hint = 0.0, None
            try:
                return self._once(offset, n)
            except _Stumble as error:
                wait, why, hint = error.wait, str(error), error.hint
            except (TooSlow, Nonsense) as error:
                raise ToolFailed(f"{self.name}: {error}") from None
            except Broken as error:
                why, hint = str(error), _OFFLINE
            if wait and waited + wait <= pace.patience():
                waited += wait
                pace.close(self._home.origin, wait)
                continue
            attempt += 1
            if attempt == TRIES:
                raise ToolFailed(f"{self.name}: {why}", f"the server asks to wait {wait:,.0f} s" if wait else hint)
            time.sleep(min(wait or 0.3 * 3 ** (attempt - 1), LONGEST_WAIT))

    def _once(self, offset: int, n: int) -> bytes:
        self.requests += 1
        known = self.known if self._size is None else None
        asked = {"If-None-Match": known.etag} if known and known.etag else {}
        with self._answer({"Range": f"bytes={offset}-{offset + n - 1}"} | asked) as reply:
            said = reply.headers.get("content-range", "")
            if self._only_version and 300 <= reply.status < 400:
                self._size = number(reply.headers.get("x-linked-size", ""), "X-Linked-Size")
                return b""
            if known and (300 <= reply.status < 400 or reply.headers.get("etag", "") == known.etag != ""):
                # Of what the Hub names, the storage may have another tag by now.
                return self._take(known, known.etag if reply.status not in _SENT_ON else "")
            self.known = None
            if (coding := reply.headers.get("content-encoding", "identity").lower()) != "identity":
                raise ToolFailed(
                    f"{self.name}: the server sends the file compressed ({coding[:40]!r}), which was not asked for",
                    "download the file first, then name the local copy",
                )
            if reply.status == 416:
                unit, _, total = said.partition("*/")
                self._note(number(total, "Content-Range") if unit.strip() == "bytes" else None, reply)
                return b""
            if reply.status == 200:
                # No ranges: the front can still be read off the start of the whole.
                if offset or reply.length is None:
                    hint = "download the file first, then name the local copy"
                    raise ToolFailed(f"{self.name}: the server does not answer range requests", hint)
                self._note(reply.length, reply)
                self._pieces.whole = True
            else:
                first, last, size = _range(said)
                if first != offset or not first <= last < size:
                    raise ToolFailed(f"{self.name}: the server answered with another range than asked for")
                self._note(size, reply)
                n = min(n, last - first + 1)
            return reply.read(n)

    def _note(self, size: int | None, reply: Reply) -> None:
        etag = reply.headers.get("etag")
        if size is None:
            raise ToolFailed(f"{self.name}: the server does not say how long the file is")
        if self._size is not None and (size != self._size or (etag and self._etag and etag != self._etag)):
            raise ChangedMeanwhile(f"{self.name}: changed on the server while it was read", "run the command again")
        self._size = size
        self._etag = self._etag or etag

    @contextmanager
    def _answer(self, extra: Mapping[str, str]) -> Iterator[Reply]:
        """The answer to a GET, redirects followed by hand: not everywhere, and credentials stay behind."""
        at, clock = self._now, Clock()
        for _ in range(REDIRECTS):
            used, reply = self._ask(at, extra, clock)
            try:
                if reply.status in _SENT_ON:
                    _drained(reply)
                    self.linked = reply.headers.get("x-linked-etag", self.linked)
                    if self._still_known() or (self._only_version and "x-linked-size" in reply.headers):
                        yield reply
                        return
                    at = self._next(at, reply.headers.get("location", ""))
                    # All the way there is one request.
                    clock.body_began = None
                    continue
                if reply.status in (200, 206, 416) or (reply.status == 304 and self.known):
                    # Signed addresses are good for many ranges; an expired one falls back to the first.
                    self._now = at
                    yield reply
                    return
                if reply.status in (401, 403) and at != self._home and self._now != self._home:
                    _drained(reply)
                    at = self._now = self._home
                    clock.body_began = None
                    continue
                raise self._refused(reply)
            finally:
                if reply.reusable:
                    give_back(used)
                else:
                    used.pipe.close()
        raise ToolFailed(f"{self.name}: more than {REDIRECTS} redirects")

    def _still_known(self) -> bool:
        """Whether the Hub, before it sends us on to the bytes, names the version that is kept."""
        return self._size is None and self.known is not None and self.linked == self.known.linked != ""

    def _ask(self, at: Spot, extra: Mapping[str, str], clock: Clock) -> tuple[Line, Reply]:
        """Send the request; once more on a new connection when the one that was kept open has died meanwhile."""
        headers = {"Host": at.authority, "User-Agent": f"gguftool/{__version__}", "Accept-Encoding": "identity"}
        headers |= self._headers_for(at) | dict(extra)
        for fresh in (False, True):
            used = line(at, clock, Reach.LINK if self._reach is None else self._reach, fresh=fresh)
            try:
                own = proxy_login(used.proxy) if at.scheme == "http" else {}
                reply = exchange(used.pipe, "GET", used.target(at), headers | own)
            except BaseException as error:
                used.pipe.close()
                again = type(error) is Broken and used.pipe.used and not fresh
                if not again:
                    raise
            else:
                self._reach = used.reach if self._reach is None else self._reach
                return used, reply
        raise Broken("no answer")

    def _next(self, at: Spot, place: str) -> Spot:
        """Where a redirect leads.

        Raises:
            ToolFailed: nowhere.
            Refused: from https to http.
        """
        if not place:
            raise ToolFailed(f"{self.name}: the server redirects to nowhere")
        try:
            there = spot(urljoin(at.url, place))
        except (Nonsense, ValueError) as error:
            raise ToolFailed(f"{self.name}: the server redirects to what is no web address: {error}") from None
        if at.scheme == "https" and there.scheme == "http":
            raise Refused(
                f"{self.name}: the server redirects from https to http: {there.shown}",
                "if that is meant, name that address itself",
            )
        return there

    def _headers_for(self, at: Spot) -> dict[str, str]:
        if at.origin == self._home.origin:
            return dict(self._headers)
        return {k: v for k, v in self._headers.items() if k.lower() not in ("authorization", "cookie")}

    def _refused(self, reply: Reply) -> GgufToolError | _Stumble:
        status, said = reply.status, " ".join(reply.read(200).decode("utf-8", "replace").split())
        said = reply.headers.get("x-error-message") or ("" if said.startswith("<") else said)
        what = f"HTTP {status}" + (f": {without_login(said[:300])}" if said else "")
        if status in _RETRY:
            return _Stumble(what, "try again later", pace.asked(reply.headers))
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


def _drained(reply: Reply) -> None:
    """Read off what nobody wants, so that the connection can be used again; when that fails it is closed."""
    try:
        reply.read(SHORT)
    except Broken:
        pass


def _range(said: str) -> tuple[int, int, int]:
    """First byte, last byte and size of ``bytes 0-9/100``; a size that is not known is no number either."""
    place, _, size = said.removeprefix("bytes").strip().partition("/")
    first, _, last = place.partition("-")
    return number(first, "Content-Range"), number(last, "Content-Range"), number(size, "Content-Range")
