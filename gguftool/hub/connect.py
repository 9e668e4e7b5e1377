"""Connections to web servers: proxies and certificates as the environment has them, kept open between requests.

Not huggingface-hub's session, which asks the Hub itself (`gguftool.hub.api`). It cannot hold a limit on headers that
come byte by byte (its own limits are for one wait, see `gguftool.wire`), it connects before anybody can look at the
address that a name came to, and it is requests, httpx or httpx2, depending on its release. What its users set is read
here as well: the proxies of the environment, REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE, SSL_CERT_FILE, SSL_CERT_DIR.
"""

from __future__ import annotations

import os
import threading
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from gguftool.errors import Refused
from gguftool.hub.spot import Reach, Spot, reach, spot
from gguftool.records import dataclass
from gguftool.wire import Broken, Clock, Nonsense, Pipe, TooSlow, exchange, within

if TYPE_CHECKING:
    import socket
    import ssl

_KEPT = 32
"""Connections that are kept open: of some threads, each to the Hub and to where the Hub sends it."""


@dataclass(frozen=True, slots=True)
class Line:
    """A connection to a server.

    Attributes:
        pipe: the connection.
        reach: how far in the server lies.
        key: what else it can be used for.
        proxy: the proxy that requests for ``http`` are put to in full, None without one.
    """

    pipe: Pipe
    reach: Reach
    key: tuple[object, ...]
    proxy: Spot | None

    def target(self, at: Spot) -> str:
        """What to ask for on this connection."""
        return at.url if self.proxy and at.scheme == "http" else at.target


_idle: list[Line] = []
_lock = threading.Lock()


def line(at: Spot, clock: Clock, within_reach: Reach, *, fresh: bool = False) -> Line:
    """A connection to a server, one that is open already when there is one.

    Args:
        at: where.
        clock: of the request.
        within_reach: the furthest in that it may lead.
        fresh: do not take one that is open already.

    Raises:
        Refused: it leads further in.
        Broken: no connection.
    """
    proxy = _proxy(at)
    key = (*at.origin, proxy and proxy.url)
    with _lock:
        found = next((x for x in _idle if x.key == key), None)
        if found is not None:
            _idle.remove(found)
    if found is not None and not fresh and found.reach <= within_reach:
        found.pipe.again(clock)
        return found
    if found is not None:
        found.pipe.close()
    return _connect(at, clock, within_reach, proxy, key)


def give_back(used: Line) -> None:
    """Keep a connection for the next request."""
    with _lock:
        _idle.append(used)
        gone = _idle.pop(0) if len(_idle) > _KEPT else None
    if gone is not None:
        gone.pipe.close()


def _connect(at: Spot, clock: Clock, within_reach: Reach, proxy: Spot | None, key: tuple[object, ...]) -> Line:
    if proxy is None:
        found = addresses(at.host, at.port, clock)
    else:
        # The proxy looks the name up; what it will find can only be guessed by looking as well.
        try:
            found = addresses(at.host, at.port, clock)
        except TooSlow:
            raise
        except Broken:
            found = []
    far = max((reach(where[0]) for _, where in found), default=Reach.PUBLIC)
    if far > within_reach:
        raise Refused(
            f"{at.shown}: the server sends us to an address of this machine or of the network behind it",
            "if that is meant, name that address itself",
        )
    sock = dialled(found if proxy is None else addresses(proxy.host, proxy.port, clock), clock)
    try:
        if proxy is not None:
            if proxy.scheme == "https":
                sock = secured(sock, _trusted(), proxy.host, clock)
            if at.scheme == "https":
                _through(sock, at, proxy, clock)
        if at.scheme == "https":
            sock = secured(sock, _trusted(), at.host, clock)
    except BaseException:
        sock.close()
        raise
    return Line(Pipe(sock, clock), far, key, proxy)


def addresses(host: str, port: int, clock: Clock) -> list[tuple[int, tuple[str, int]]]:
    """What a name comes to: family, and what to connect to.

    Raises:
        Broken: nothing.
        TooSlow: not soon.
    """
    import socket

    try:
        rows = within(clock.left(), lambda: socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else "not the name of a host"
        raise Broken(f"cannot connect: {host}: {why}") from None
    return [(int(family), (str(where[0]), port)) for family, _, _, _, where in rows]


def dialled(places: list[tuple[int, tuple[str, int]]], clock: Clock) -> socket.socket:
    """A connection to the first of these addresses that answers.

    Raises:
        Broken: none does.
        TooSlow: not soon.
    """
    import socket

    wrong: OSError | None = None
    for family, where in places:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.settimeout(clock.left())
            sock.connect(where)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        except OSError as error:
            sock.close()
            wrong = error
        except BaseException:
            sock.close()
            raise
    clock.left()
    raise Broken(f"cannot connect: {(wrong and (wrong.strerror or wrong)) or 'no address'}") from wrong


def secured(sock: socket.socket, trust: ssl.SSLContext, host: str, clock: Clock) -> socket.socket:
    """TLS over a connection.

    Raises:
        TooSlow, Nonsense: the other side does not come to it.
    """
    sock.settimeout(clock.left())
    try:
        return trust.wrap_socket(sock, server_hostname=host)
    except TimeoutError:
        clock.left()
        raise TooSlow("the server is too slow") from None
    except (OSError, ValueError) as error:
        raise Nonsense(f"no secure connection: {error}") from None


_BUNDLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")


def _trusted() -> ssl.SSLContext:
    try:
        return _trust(*(os.environ.get(name, "") for name in _BUNDLES))
    except OSError as error:
        raise Nonsense(f"the certificates named by {' or '.join(_BUNDLES)} cannot be read: {error}") from None


@cache
def _trust(*named: str) -> ssl.SSLContext:
    """Whom to trust: the first file or folder that is named, else the system's, else certifi's."""
    import ssl

    if place := next((x for x in named if x), ""):
        folder = os.path.isdir(place)
        return ssl.create_default_context(cafile=None if folder else place, capath=place if folder else None)
    paths = ssl.get_default_verify_paths()
    if paths.cafile or paths.capath or os.name == "nt":
        return ssl.create_default_context()
    import certifi  # huggingface-hub brings it

    return ssl.create_default_context(cafile=certifi.where())


def _proxy(at: Spot) -> Spot | None:
    """The proxy that the environment (on Windows and macOS also the system) wants for it."""
    from urllib.request import getproxies, proxy_bypass

    named = getproxies()
    place = named.get(at.scheme) or named.get("all") or ""
    if not place or proxy_bypass(at.host):
        return None
    try:
        return spot(place if "://" in place else f"http://{place}")
    except Nonsense:
        kind = place.partition("://")[0] if "://" in place else "this"
        raise Nonsense(f"{kind}: not a proxy that is spoken here: http and https are") from None


def _through(sock: socket.socket, at: Spot, proxy: Spot, clock: Clock) -> None:
    """Have a proxy connect us through to a server."""
    host = f"[{at.host}]" if ":" in at.host else at.host
    place = f"{host}:{at.port}"
    answer = exchange(Pipe(sock, clock), "CONNECT", place, {"Host": place} | proxy_login(proxy))
    clock.body_began = None
    if not 200 <= answer.status < 300:
        raise Nonsense(f"the proxy {proxy.host} does not let us through: HTTP {answer.status}")


def proxy_login(proxy: Spot | None) -> dict[str, str]:
    """The header with the credentials that stand in the address of a proxy."""
    return {"Proxy-Authorization": basic(proxy.login)} if proxy and proxy.login else {}


def basic(login: str) -> str:
    """``Authorization`` for the ``user:password`` of an address."""
    import base64

    user, _, password = login.partition(":")
    return "Basic " + base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode("ascii")
