"""How a server is reached: address, prefix, TLS and key, from its options and from the variables it reads itself."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gguftool.brief import short_repr
from gguftool.errors import ToolFailed
from gguftool.records import dataclass
from gguftool.run.capabilities import known
from gguftool.run.options.kinds import row
from gguftool.run.options.table import by_field
from gguftool.run.silent import applied
from gguftool.run.wishes import Wishes
from gguftool.wire import Clock, Pipe

ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1", "*": "127.0.0.1"}
"""Addresses to listen on that one cannot connect to."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way to a server.

    Attributes:
        host: address to connect to, or the path of a socket that ends in ``.sock``.
        port: its port.
        prefix: what stands before the path of every endpoint.
        tls: it speaks https.
        key: key to send, or "".
    """

    host: str
    port: int
    prefix: str = ""
    tls: bool = False
    key: str = ""

    __repr__ = short_repr

    @property
    def url(self) -> str:
        """Address for people."""
        if self.host.endswith(".sock"):
            return f"unix:{self.host}{self.prefix}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{self.prefix}"

    @property
    def authority(self) -> str:
        """What stands in ``Host``."""
        if self.host.endswith(".sock"):
            return "localhost"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def pipe(self, clock: Clock) -> Pipe:
        """A connection; no proxy sees it, and a certificate is not checked, because the server is our own child.

        Raises:
            OSError, Broken: there is none.
        """
        import socket

        from gguftool.hub.connect import addresses, dialled, secured

        if self.host.endswith(".sock"):
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                sock.settimeout(clock.left())
                sock.connect(self.host)
            except BaseException:
                sock.close()
                raise
            return Pipe(sock, clock)
        sock = dialled(addresses(self.host, self.port, clock), clock)
        if not self.tls:
            return Pipe(sock, clock)
        import ssl

        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        try:
            return Pipe(secured(sock, context, self.host, clock), clock)
        except BaseException:
            sock.close()
            raise


def way_to(w: Wishes, environment: Mapping[str, str] = os.environ) -> Way:
    """The way to the server of these wishes; what they do not say, llama.cpp takes from its environment and files.

    Raises:
        ToolFailed: the file of keys cannot be read.
    """
    silent = applied(environment, known())
    prefix = _said(w, "api_prefix", silent)
    tls = bool(_said(w, "ssl_key_file", silent) and _said(w, "ssl_cert_file", silent))
    keys = [key for key in row(_said(w, "api_key", silent)) if key]
    key = keys[0] if keys else first_key(_said(w, "api_key_file", silent))
    host = hosts(w)[0]
    return Way(ANY.get(host, host), w.port, prefix, tls, key)


def hosts(w: Wishes) -> list[str]:
    """The addresses to listen on."""
    return [part.strip() for part in row(w.host) if part.strip()] or [w.host]


def _said(w: Wishes, field: str, silent: Mapping[str, str]) -> str:
    value = getattr(w, field)
    option = known().by_name.get(by_field()[field].names[0])
    return str(value) if value is not None else silent.get(option.env if option else "", "")


def first_key(path: str) -> str:
    """The first key of an API key file, "" without one.

    Raises:
        ToolFailed: the file cannot be read.
    """
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return next((x.strip() for x in file if x.strip() and not x.startswith("#")), "")
    except OSError as error:
        raise ToolFailed(f"{path}: {error.strerror or error}") from None
