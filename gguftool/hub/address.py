"""What an address means: ``hf://owner/repo[@revision]/path``, ``hf://owner/repo:QUANT``, ``ollama://…``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gguftool.errors import UsageError

_REPO = re.compile(r"^(?P<owner>[\w.-]+)/(?P<repo>[\w.-]+?)(?:@(?P<revision>[^/:]+))?(?:(?P<kind>[:/])(?P<rest>.*))?$")


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
    m = _REPO.match(spec.removeprefix("hf://"))
    if m is None or ".." in (m["rest"] or "").split("/"):
        raise UsageError(
            f"{spec}: not an address on the Hub", "write hf://owner/repo/file.gguf or hf://owner/repo:Q4_K_M"
        )
    rest = m["rest"] or ""
    path, quant = (rest, "") if m["kind"] == "/" else ("", rest)
    return HubAddress(f"{m['owner']}/{m['repo']}", path, quant, m["revision"] or "main")


HUB_HOSTS = frozenset({"huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com"})


def hub_address_of_url(url: str, endpoint: str) -> HubAddress | None:
    """The address behind a web address of the Hub (``/owner/repo/resolve|blob|raw/rev/path``); None for other hosts.

    The page of a file (``/blob/``) is what people copy from the browser; it is HTML, so it must not be fetched.

    Args:
        url: the web address.
        endpoint: origin of the Hub that the environment names.
    """
    m = re.match(r"^(https?://([^/]+))/([\w.-]+/[\w.-]+)/(?:resolve|blob|raw)/([^/]+)/([^?#]+)", url)
    if m is None or (m[1] != endpoint and m[2] not in HUB_HOSTS):
        return None
    return HubAddress(m[3], m[5], "", m[4])


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
    if not model or len(front) > 2 or any(part in ("", ".", "..") for part in (*front, model)):
        raise UsageError(f"{spec}: not a model of Ollama", "write ollama://name:tag, as `ollama list` shows it")
    namespace = front.pop() if front else "library"
    return OllamaName(front[0] if front else "registry.ollama.ai", namespace, model, tag or "latest")
