"""Where an http(s) address leads: its parts, and how far from the open internet that is. Pure, no network.

A server may send us on to another address. One of the open internet has no business in the network behind us: such a
redirect reaches what only we can reach (a metadata service, a router, a daemon on this machine).
"""

from __future__ import annotations

import ipaddress
import re
from enum import IntEnum

from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.wire import Nonsense, number

PORTS = {"http": 80, "https": 443}
_PORT = 65535
_HOST = regex(r"(?P<host>\[[0-9A-Fa-f:.]+(?:%25[\w.-]+)?\]|[^\[\]:@]+)(?::(?P<port>.*))?", re.S)
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Spot:
    """The parts of an address.

    Attributes:
        scheme: ``http`` or ``https``.
        host: name or number, without brackets.
        port: the one to connect to.
        target: path and query.
        login: ``user:password`` as it stands in the address, or "".
    """

    scheme: str
    host: str
    port: int
    target: str
    login: str = ""

    @property
    def origin(self) -> tuple[str, str, int]:
        """What credentials belong to."""
        return self.scheme, self.host, self.port

    @property
    def authority(self) -> str:
        """Host and port as they stand in an address and in ``Host``; a usual port is left out."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The address without credentials."""
        return f"{self.scheme}://{self.authority}{self.target}"

    @property
    def shown(self) -> str:
        """The address for people, without credentials and without a query, which may be a signature."""
        return self.url.partition("?")[0]


def spot(url: str) -> Spot:
    """The parts of an address.

    Raises:
        Nonsense: it is none of http or https.
    """
    scheme, sign, rest = url.partition("://")
    scheme = scheme.lower()
    if not sign or scheme not in PORTS:
        raise Nonsense("not an http or https address")
    if any(c <= " " or c == "\x7f" for c in url):
        raise Nonsense("a blank must be written %20")
    end = next((i for i, c in enumerate(rest) if c in "/?#\\"), len(rest))
    login, _, place = rest[:end].rpartition("@")
    m = _HOST.fullmatch(place)
    if m is None:
        raise Nonsense("it names no host" if not place.strip("[]") or place[:1] == ":" else "its host is not a name")
    host = m["host"].strip("[]").lower().replace("%25", "%")
    if not host.isascii():
        raise Nonsense("the host must be ASCII")
    port = number(m["port"], "port", _PORT) if m["port"] else PORTS[scheme]
    if not port:
        raise Nonsense("port 0 is none")
    target = rest[end:].partition("#")[0].replace("\\", "/")
    return Spot(scheme, host, port, target if target.startswith("/") else "/" + target, login)


class Reach(IntEnum):
    """How far from the open internet an address lies; a redirect never leads further in than the first address."""

    PUBLIC = 0
    PRIVATE = 1
    """This machine, a network behind a router, and whatever else has no place in the internet."""
    LINK = 2
    """The wire itself; the metadata services of clouds answer there."""


def reach(address: str) -> Reach:
    """How far in a numeric address lies.

    Args:
        address: IPv4 or IPv6 as text, a zone after ``%`` allowed. IPv4 inside IPv6 counts as itself.

    Raises:
        ValueError: it is no numeric address.
    """
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address) and (inner := _inside(ip)) is not None:
        ip = inner
    if ip.is_link_local:
        return Reach.LINK
    odd = ip.is_multicast or ip.is_reserved or ip.is_unspecified or ip.is_loopback or ip.is_private
    return Reach.PRIVATE if odd or not ip.is_global else Reach.PUBLIC


def _inside(ip: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that one of IPv6 stands for: mapped, compatible, 6to4, Teredo, NAT64."""
    if ip in _NAT64 or (int(ip) >> 32 == 0 and int(ip) > 1):
        return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
