"""Where the file of a model is: on this machine (folder, Hugging Face cache, store of Ollama) or on a server."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import quote

from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub.address import HubAddress, OllamaName, StoreAddress, WebAddress, hub_address, is_remote, parse
from gguftool.hub.api import endpoint, listing, offline, token
from gguftool.hub.cache import cached, in_cache, ollama_blob, pick, snapshot
from gguftool.hub.stores.huggingface import COMMIT
from gguftool.hub.stores.places import hub_cache
from gguftool.records import dataclass, replace
from gguftool.shell import gguftool, path_word, shell
from gguftool.wire import without_login

if TYPE_CHECKING:
    from gguftool.hub.beyond import OnStore


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file on this machine."""

    path: str


@dataclass(frozen=True, slots=True)
class OnServer:
    """A file on a server.

    Attributes:
        path: its path there.
        name: makes what it is called of a path.
        url: makes where it is of a path.
        headers: to ask with.
        of_hub: it is the Hub's, so that HF_HUB_OFFLINE holds.
        fixed: the address names a commit, and never means anything else.
    """

    path: str
    name: Callable[[str], str]
    url: Callable[[str], str]
    headers: Mapping[str, str]
    of_hub: bool
    fixed: bool = False

    def sibling(self, path: str) -> OnServer:
        """Another file there."""
        return replace(self, path=path)


def locate(spec: str | os.PathLike[str]) -> OnDisk | OnServer | OnStore:
    """Find the file that a path or an address names; of a folder or a repository its one model.

    What is on this machine is taken from here, so that nothing is asked of the network for it.

    Raises:
        MissingFile: there is none.
        UsageError: an address nobody understands, or one that fits several models.
        ToolFailed: the Hub has to be asked and cannot.
    """
    if (path := here(spec)) is not None:
        return OnDisk(path)
    address = parse(os.fspath(spec), endpoint())
    if isinstance(address, StoreAddress):
        return _on_store(address)
    return _on_hub(address) if isinstance(address, HubAddress) else _on_web(address)


def here(spec: str | os.PathLike[str]) -> str | None:
    """Path of the file on this machine, of a folder its one model; None when only a server has it.

    Raises:
        MissingFile: nothing of that name in a folder or in the store of Ollama.
        UsageError: as `locate`.
    """
    if not is_remote(spec):
        from gguftool.model import in_folder

        return in_folder(os.fspath(spec))
    address = parse(os.fspath(spec), endpoint())
    if isinstance(address, OllamaName):
        return ollama_blob(address)
    if isinstance(address, StoreAddress):
        return None
    hub = address.hub if isinstance(address, WebAddress) else address
    return cached(hub) if hub is not None else None


def on_this_machine(spec: str | os.PathLike[str]) -> str:
    """As `here`, for what needs the data itself.

    Raises:
        UsageError: only a server has it; the hint is the command that fetches it.
    """
    path = here(spec)
    if path is not None:
        return path
    fetch = fetching(spec)
    raise UsageError(
        f"{without_login(os.fspath(spec))}: is not on this machine, and its data is needed", f"fetch it first: {fetch}"
    )


def fetching(spec: str | os.PathLike[str]) -> str:
    """The command that fetches what an address names.

    Raises:
        UsageError: an address nobody understands.
    """
    address = parse(os.fspath(spec), endpoint())
    text = without_login(os.fspath(spec))
    if isinstance(address, StoreAddress):
        from gguftool.hub.beyond import fetching as from_store

        return from_store(text)
    hub = address.hub if isinstance(address, WebAddress) else address
    if isinstance(hub, HubAddress):
        _one_in_cache(hub)
        return gguftool("pull", path_word(str(hub)))
    return shell(["curl", "-LO", text])


def on_the_hub(spec: str | os.PathLike[str], name: str) -> HubAddress | None:
    """What an address is on the Hub, with the path of the file; None for what is not of the Hub.

    Args:
        spec: path or address, as it was typed.
        name: what the file that was opened by it is called.
    """
    if not is_remote(spec):
        return None
    address = parse(os.fspath(spec), endpoint())
    hub = address.hub if isinstance(address, WebAddress) else address
    if not isinstance(hub, HubAddress):
        return None
    if is_remote(name):
        # As the file that carries the metadata is called: of a set, another than the one named.
        return hub_address(name)
    folder = snapshot(hub)
    return replace(hub, path=os.path.relpath(name, folder), quant="") if folder is not None else None


def _on_web(address: WebAddress | OllamaName) -> OnServer:
    if isinstance(address, OllamaName):
        raise MissingFile(f"ollama://{address.short}: is not on this machine")
    whole, _, query = address.url.partition("?")
    front, _, last = whole.rpartition("/")
    shown = without_login(front)
    at_hub = address.url.startswith(endpoint() + "/")
    return OnServer(
        last,
        lambda path: f"{shown}/{path}",
        lambda path: f"{front}/{path}" + (f"?{query}" if query and path == last else ""),
        _authorization() if at_hub else {},
        at_hub or address.hub is not None,
        address.hub is not None and COMMIT.fullmatch(address.hub.revision) is not None,
    )


def _on_store(address: StoreAddress) -> OnStore:
    """A file that fsspec opens; of a folder its one model."""
    from gguftool.hub.beyond import entries, is_folder, place

    if not is_folder(address.text):
        return place(address)
    names = [entry.path for entry in entries(address.text)]
    return place(StoreAddress(_one(without_login(address.text), names, "", lambda name: name)))


def _on_hub(address: HubAddress) -> OnServer:
    if offline():
        _one_in_cache(address)
        raise ToolFailed(f"{address}: not in the cache ({hub_cache()}), and HF_HUB_OFFLINE forbids the network")
    path = address.path or _choose(address, [record.path for record in listing(address)])
    root = f"{endpoint()}/{address.repo}/resolve/{quote(address.revision, safe='')}"
    at = "" if address.revision == "main" else f"@{address.revision}"
    return OnServer(
        path,
        lambda path: f"hf://{address.repo}{at}/{path}",
        lambda path: f"{root}/{quote(path)}",
        _authorization(),
        True,
        COMMIT.fullmatch(address.revision) is not None,
    )


def _one_in_cache(address: HubAddress) -> None:
    """Where only what is on this machine counts: several models of a repository in the cache are not none."""
    if not address.path and len(pick(names := in_cache(address), address.quant)) > 1:
        _choose(address, names)


def _choose(address: HubAddress, names: list[str]) -> str:
    """The one file of a repository with the quantisation asked for."""
    return _one(str(address), names, address.quant, lambda name: str(replace(address, path=name, quant="")))


def _one(shown: str, names: list[str], quant: str, whole: Callable[[str], str]) -> str:
    """The one model among the files of a place; ``whole``: the address of one of them."""
    found = pick(names, quant)
    if len(found) == 1:
        return found[0]
    models = pick(names, "")
    if not models:
        raise MissingFile(f"{shown}: there is no .gguf file in it")
    some = found or models
    listed = ", ".join(some[:8]) + (" …" if len(some) > 8 else "")
    what = "several models" if not quant else "several files fit" if found else "no file fits"
    raise UsageError(f"{shown}: {what}: {without_login(listed)}", f"name one: {without_login(whole(some[0]))}")


def _authorization() -> dict[str, str]:
    found = token()
    return {"Authorization": f"Bearer {found}"} if found else {}
