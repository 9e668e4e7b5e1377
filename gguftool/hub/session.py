"""The session of huggingface-hub, with our rule for redirects, its own follows any, and without its other errands.

Nowhere from the open internet to this machine or the network behind it, and from https never to http
(`gguftool.hub.http` keeps to the same). A session has a hook for answers, which sees each redirect before it is
followed, in httpx and httpx2 as in requests, which huggingface-hub used before 1.0. What its Xet library fetches does
not pass here.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin

from gguftool.errors import Refused
from gguftool.hub.connect import addresses
from gguftool.hub.spot import Reach, Spot, reach, spot
from gguftool.records import dataclass
from gguftool.wire import Broken, Clock, Nonsense

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_FACTORIES = (
    ("_GLOBAL_CLIENT_FACTORY", "set_client_factory"),
    ("_GLOBAL_BACKEND_FACTORY", "configure_http_backend"),
)
"""Where huggingface-hub keeps what makes its sessions, since 1.0 and before, and what sets it."""
_lock = threading.Lock()


def keep_redirects_in() -> None:
    """See to it that the sessions of huggingface-hub know the rule; call it where the request is made.

    It makes new ones when a connection failed, so what makes them is taught, whoever set it.

    To say in its headers which agent it runs under, it would ask its server for a list of agents first: a request that
    nobody asked for, and where that server is not to be reached three seconds of waiting, every time. It does not,
    unless ``HF_HUB_DISABLE_TELEMETRY`` says that it may.
    """
    from huggingface_hub import constants
    from huggingface_hub.utils import _http, get_session

    with _lock:
        if not os.environ.get("HF_HUB_DISABLE_TELEMETRY"):
            constants.HF_HUB_DISABLE_TELEMETRY = True
        for kept, setter in _FACTORIES:
            factory, teach = getattr(_http, kept, None), getattr(_http, setter, None)
            if factory is not None and teach is not None:
                if not isinstance(factory, _Taught):
                    teach(_Taught(factory))
                return
    _taught(get_session())


@dataclass(frozen=True, slots=True)
class _Taught:
    """Makes sessions as that does, which know the rule."""

    factory: Callable[[], Any]

    def __call__(self) -> Any:
        with _certificates():
            return _taught(self.factory())


def _taught(session: Any) -> Any:
    # httpx has ``event_hooks``, requests ``hooks``.
    hooks = getattr(session, "event_hooks", None) or session.hooks
    if _look not in hooks["response"]:
        hooks["response"].append(_look)
    # A session of requests, which does not look at OpenSSL's names, where its own are not set.
    named = os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR")
    if named and getattr(session, "verify", None) is True:
        session.verify = named
    return session


@contextmanager
def _certificates() -> Iterator[None]:
    """What names certificates for requests and curl names them for httpx, too, which looks at OpenSSL's names only."""
    named = next((v for n in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if (v := os.environ.get(n))), "")
    name = "SSL_CERT_DIR" if os.path.isdir(named) else "SSL_CERT_FILE"
    if not named or os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        yield
        return
    os.environ[name] = named
    try:
        yield
    finally:
        os.environ.pop(name, None)


def _look(answer: Any, *args: object, **options: object) -> None:
    place = answer.headers.get("location")
    if answer.status_code not in _REDIRECTS or not place:
        return
    at = spot(str(answer.url))
    try:
        there = spot(urljoin(at.url, place))
    except (Nonsense, ValueError) as error:
        raise Refused(f"{at.shown}: redirects to what is no web address: {error}") from None
    if at.scheme == "https" and there.scheme == "http":
        raise Refused(f"{at.shown}: redirects from https to http: {there.shown}")
    if there.origin != at.origin and _reach(there) > _reach(at):
        raise Refused(
            f"{at.shown}: redirects to an address of this machine or of the network behind it: {there.shown}",
            "if that is a mirror, name it with HF_ENDPOINT",
        )


def _reach(place: Spot) -> Reach:
    """How far in a host lies; one whose name only a proxy knows is of the open internet."""
    try:
        return max((reach(where[0]) for _, where in addresses(place.host, place.port, Clock())), default=Reach.PUBLIC)
    except Broken:
        return Reach.PUBLIC
