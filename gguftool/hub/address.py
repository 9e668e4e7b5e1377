"""What an address means, from its text alone: no file, no network, no environment is looked at.

``hf://owner/repo[@revision]/path``, ``hf://owner/repo:QUANT``, ``https://…``, ``ollama://[host/][namespace/]name[:tag]``,
and whatever fsspec has a name for (``s3://bucket/path``, ``sftp://host/path`` …).
"""

from __future__ import annotations

import re
from typing import TypeGuard

from gguftool.errors import UsageError
from gguftool.records import dataclass
from gguftool.regex import regex

SCHEMES = ("hf://", "https://", "http://", "ollama://")
STORES = frozenset(
    "abfs abfss adl arrow_hdfs az box dask dbfs dropbox dvc ftp gcs gdrive gist git github gs hdfs jlab jupyter "
    "lakefs libarchive memory oci ocilake oss root s3 s3a sftp smb ssh tar tos tosfs wandb wasb wasbs webdav webhdfs "
    "zip".split()
)
"""Schemes of places that fsspec (2026.9) opens, by its own drivers or others' (`fsspec.registry`)."""
_STORE = regex(r"((?:[a-z]+::)*)([a-z][a-z0-9_]*)://", re.I)
_REPO = regex(r"^(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+?)(?:@(?P<revision>[^/:]+))?(?:(?P<kind>[:/])(?P<rest>.*))?$")


@dataclass(frozen=True, slots=True)
class HubAddress:
    """A file, a quantisation or a whole repository on the Hugging Face Hub.

    Attributes:
        repo: ``owner/name``.
        path: file inside the repository, "" when none is named.
        quant: quantisation label after the colon, "" when none is named.
        revision: branch, tag or commit.
    """

    repo: str
    path: str = ""
    quant: str = ""
    revision: str = "main"

    def __str__(self) -> str:
        at = "" if self.revision == "main" else f"@{self.revision}"
        tail = f"/{self.path}" if self.path else f":{self.quant}" if self.quant else ""
        return f"hf://{self.repo}{at}{tail}"


def hub_address(spec: str) -> HubAddress:
    """Parse ``hf://owner/repo[@revision]`` followed by nothing, ``/path`` or ``:QUANT``.

    Raises:
        UsageError: it has another form.
    """
    m = _REPO.match(spec[len("hf://") :] if spec[:5].lower() == "hf://" else spec)
    if m is None or any(part in ("..", ".") for text in m.groups() for part in (text or "").split("/")):
        raise UsageError(
            f"{spec}: not an address on the Hub", "write hf://owner/repo/file.gguf or hf://owner/repo:Q4_K_M"
        )
    rest = m["rest"] or ""
    path, quant = (rest, "") if m["kind"] == "/" else ("", rest)
    return HubAddress(f"{m['owner']}/{m['repo']}", path, quant, m["revision"] or "main")


HUB_HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com"})
_PAGE = regex(r"^(https?://([^/]+))/([\w.-]+/[\w.-]+)/(?:resolve|blob|raw)/([^/]+)/([^?#]+)")


def hub_address_of_url(url: str, endpoint: str) -> HubAddress | None:
    """The address behind a web address of the Hub (``/owner/repo/resolve|blob|raw/rev/path``); None for other hosts.

    Args:
        url: the web address.
        endpoint: origin of the Hub that the environment names.

    Raises:
        UsageError: its path leads out of the repository.
    """
    from urllib.parse import unquote

    from gguftool.wire import without_login

    m = _PAGE.match(url)
    if m is None or (m[1] != endpoint and m[2] not in HUB_HOSTS):
        return None
    revision, path = unquote(m[4]), unquote(m[5])
    if any(part in ("..", ".") for text in (revision, path) for part in text.split("/")):
        raise UsageError(f"{without_login(url)}: not an address on the Hub", "write hf://owner/repo/file.gguf")
    return HubAddress(m[3], path, "", revision)


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A file on a web server; ``hub``: what it is on the Hub, when the server is the Hub's."""

    url: str
    hub: HubAddress | None = None


def web_address(url: str, endpoint: str) -> WebAddress:
    """Check a web address, and find the file behind a page of the Hub.

    The page of a file (``/blob/``) is what people copy from the browser; it is HTML, so the file is meant.

    Args:
        url: the web address; letters beyond ASCII are written as the server wants them.
        endpoint: origin of the Hub that the environment names.

    Raises:
        UsageError: no web address can be of that form.
    """
    from urllib.parse import quote

    from gguftool.hub.spot import spot
    from gguftool.wire import Nonsense, without_login

    try:
        spot(url)
    except Nonsense as error:
        text = f"{without_login(url)}: not a web address: {error}"
        raise UsageError(text, "write https://host/path/file.gguf") from None
    hub = hub_address_of_url(url, endpoint)
    if hub is not None:
        url = url.replace("/blob/", "/resolve/", 1)
    return WebAddress(quote(url, safe="%/:?#[]@!$&'()*+,;=~"), hub)


@dataclass(frozen=True, slots=True)
class OllamaName:
    """A model in an Ollama store: ``[host/][namespace/]name[:tag]`` with Ollama's defaults filled in."""

    host: str
    namespace: str
    model: str
    tag: str

    @property
    def short(self) -> str:
        """As ``ollama list`` shows it."""
        front = "" if self.host == "registry.ollama.ai" else f"{self.host}/"
        front += "" if (self.namespace == "library" and not front) else f"{self.namespace}/"
        return f"{front}{self.model}:{self.tag}"


def ollama_name(spec: str) -> OllamaName:
    """Parse ``ollama://name:tag``.

    Raises:
        UsageError: it has another form.
    """
    text = spec.removeprefix("ollama://").strip("/")
    head, _, last = text.rpartition("/")
    model, _, tag = last.partition(":")
    front = head.split("/") if head else []
    if not model or len(front) > 2 or any(part in ("", ".", "..") for part in (*front, model, tag or "latest")):
        raise UsageError(f"{spec}: not a model of Ollama", "write ollama://name:tag, as `ollama list` shows it")
    namespace = front.pop() if front else "library"
    return OllamaName(front[0] if front else "registry.ollama.ai", namespace, model, tag or "latest")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """A file or a folder that fsspec opens: the address as it was typed."""

    text: str


Address = HubAddress | WebAddress | OllamaName | StoreAddress


def is_remote(spec: object) -> TypeGuard[str]:
    """Whether ``spec`` is an address and not a path."""
    return isinstance(spec, str) and "://" in spec and (spec[:9].lower().startswith(SCHEMES) or in_store(spec))


def in_store(spec: object) -> TypeGuard[str]:
    """Whether ``spec`` is an address that fsspec opens; behind a cache of its own (``simplecache::``) any."""
    if not isinstance(spec, str) or (m := _STORE.match(spec)) is None:
        return False
    return bool(m[1]) or m[2].lower() in STORES


def parse(spec: str, endpoint: str) -> Address:
    """What an address names.

    Args:
        spec: text for which `is_remote` holds.
        endpoint: origin of the Hub that the environment names.

    Raises:
        UsageError: it has another form than its scheme asks for.
    """
    if in_store(spec):
        return StoreAddress(spec)
    scheme, _, rest = spec.partition("://")
    spec = f"{scheme.lower()}://{rest}"
    if spec.startswith("hf://"):
        return hub_address(spec)
    return ollama_name(spec) if spec.startswith("ollama://") else web_address(spec, endpoint)
