"""What a repository or a folder holds: its models, each set once, and what lies beside them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from urllib.parse import unquote

from gguftool.brief import short_repr
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub import entries, is_folder
from gguftool.hub.address import (
    HUB_HOSTS,
    HubAddress,
    OllamaName,
    WebAddress,
    hub_address,
    in_store,
    is_remote,
    ollama_name,
)
from gguftool.hub.address import parse as parse_address
from gguftool.hub.api import LfsRecord, endpoint, listing, offline
from gguftool.hub.cache import in_cache, ollama_blob, ollama_names, pick, snapshot
from gguftool.hub.stores import hub_cache
from gguftool.model.folder import firsts, gguf_files, in_folder
from gguftool.model.pieces import of_sure_name
from gguftool.model.role import sidecar_by_name
from gguftool.model.shards import naming
from gguftool.records import dataclass, replace
from gguftool.regex import regex


@dataclass(frozen=True, slots=True)
class Listed:
    """One model, or one file beside models.

    Attributes:
        spec: path or address that opens it; of a set that of its first file there is.
        name: path inside the repository or the folder.
        files: all its files, in order.
        count: how many there should be, by their names.
        raw: they are raw pieces of one file, which have to be put together before llama.cpp loads it.
    """

    spec: str
    name: str
    files: tuple[LfsRecord, ...]
    count: int = 1
    raw: bool = False

    __repr__ = short_repr

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(f.size for f in self.files)

    @property
    def has_header(self) -> bool:
        """Whether it is GGUF by its name; importance matrices of before they were GGUF have no header."""
        return not _importance(self.name)


@dataclass(frozen=True, slots=True)
class Collection:
    """What lies in one place.

    Attributes:
        spec: as it was named.
        address: where on the Hub; None: in a folder.
        models: what is a model by its name.
        beside: projectors, drafts and importance matrices by their names.
    """

    spec: str
    address: HubAddress | None
    models: tuple[Listed, ...]
    beside: tuple[Listed, ...]

    __repr__ = short_repr

    @property
    def every(self) -> tuple[Listed, ...]:
        """All of them."""
        return (*self.models, *self.beside)


def collection(spec: str) -> Collection | None:
    """What a repository or a folder holds; None when ``spec`` names one file.

    Of the Hub the newest listing is asked for; where nobody can be asked, what is in the cache counts.

    Args:
        spec: a folder, ``hf://owner/repo``, ``hf://owner/repo:QUANT`` (those alone), ``hf://owner/repo/folder``, the
            page of one of these on the Hub, a folder of a bucket (``s3://…``), ``ollama://name`` without a ``latest``.

    Raises:
        MissingFile, ToolFailed: as `gguftool.hub.api.listing`, with nothing in the cache.
        UsageError: an address nobody understands.
        Unreadable: the folder cannot be listed.
    """
    if not is_remote(spec):
        return _of_folder(spec) if os.path.isdir(spec) else None
    if in_store(spec):
        file = spec.partition("::")[0].lower().endswith(".gguf")
        return _of_store(spec) if not file and is_folder(spec) else None
    address = place_on_hub(spec)
    if address is None:
        named = parse_address(spec, endpoint())
        return _of_ollama(spec, named) if isinstance(named, OllamaName) else None
    if address.path.lower().endswith(".gguf"):
        return None
    records = _records(address)
    below = address.path.rstrip("/") + "/" if address.path else ""
    if below:
        records = [r for r in records if r.path.startswith(below)]
        if not records:
            return None
    by_path = {r.path: r for r in records}
    pieces = _pieces(by_path)
    models = pick([*by_path, *pieces], address.quant)
    every = firsts(sorted(n for n in (*by_path, *pieces) if n.lower().endswith(".gguf") or _importance(n)))
    beside = [n for n in every if n not in models and (sidecar_by_name(n) or _importance(n))]

    def listed(name: str) -> Listed:
        spec = replace(address, path=name, quant="")
        if name in pieces:
            count, files = pieces[name]
            return Listed(str(replace(spec, path=files[0].path)), name, files, count, raw=True)
        return _listed(name, by_path, str(spec))

    return Collection(spec, address, tuple(map(listed, models)), tuple(map(listed, beside)))


_PAGE = regex(r"^(https?://([^/]+))/([\w.-]+/[\w.-]+)(?:/tree/([^/?#]+)(?:/([^?#]+))?)?/?(?:[?#].*)?$")


def place_on_hub(spec: str) -> HubAddress | None:
    """What an address names on the Hub; None: it is none of the Hub's.

    The page of a repository, or of a folder in it, is what people copy from the browser: it means the repository.

    Raises:
        UsageError: nobody understands it.
    """
    found = parse_address(spec, endpoint())
    if isinstance(found, HubAddress):
        return found
    if not isinstance(found, WebAddress):
        return None
    m = _PAGE.match(found.url)
    if (
        found.hub is None
        and m is not None
        and (m[1] == endpoint() or m[2] in HUB_HOSTS)
        and not m[3].lower().endswith(".gguf")
    ):
        path = f"/{unquote(m[5])}" if m[5] else ""
        return hub_address(f"{m[3]}@{unquote(m[4] or 'main')}{path}")
    return found.hub


def several(spec: str) -> Collection | None:
    """As `collection`; None also when there are not several models, so that the one that is named is meant.

    Raises:
        MissingFile: a folder without a model, and as `collection`.
        ToolFailed, UsageError, Unreadable: as `collection`.
    """
    if is_remote(spec):
        found = meant(spec)
        return found if isinstance(found, Collection) else None
    try:
        in_folder(spec)
    except MissingFile:
        raise
    except UsageError:
        return _of_folder(spec)
    return None


def meant(spec: str) -> Collection | str:
    """As `several`; else what opens the one model that is named, in a folder of a repository that alone.

    Raises:
        MissingFile, ToolFailed, UsageError, Unreadable: as `several`.
    """
    if not is_remote(spec):
        return several(spec) or spec
    found = collection(spec)
    if found is None or not found.models:
        return spec
    if len(found.models) > 1:
        return found
    return found.models[0].spec if found.address is not None and found.address.path else spec


def _records(address: HubAddress) -> list[LfsRecord]:
    folder = snapshot(address)
    if offline() and folder is None:
        raise ToolFailed(f"{address}: not in the cache ({hub_cache()}), and HF_HUB_OFFLINE forbids the network")
    try:
        if not offline():
            return [r for r in listing(address) if _inside(r.path)]
    except (MissingFile, ToolFailed):
        # Nobody to ask, and a model of it is on this machine.
        if folder is None or not pick(in_cache(address), ""):
            raise
    return [LfsRecord(name, _size(os.path.join(folder or "", name)), None) for name in in_cache(address)]


def _of_ollama(spec: str, name: OllamaName) -> Collection | None:
    """The tags of a model of Ollama, where the one that is meant without a tag is not there."""
    if name.tag != "latest":
        return None
    try:
        ollama_blob(name)
    except MissingFile:
        same = [tag for tag in map(ollama_name, ollama_names()) if replace(tag, tag="latest") == name]
        blobs = {tag.short: ollama_blob(tag) for tag in same}
        models = [
            Listed(f"ollama://{short}", short, (LfsRecord(blob, _size(blob), None),)) for short, blob in blobs.items()
        ]
        return Collection(spec, None, tuple(models), ())
    return None


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _pieces(by_path: Mapping[str, LfsRecord]) -> dict[str, tuple[int, tuple[LfsRecord, ...]]]:
    """Files that are there in raw pieces, whose first is there, by their names: how many pieces, and which."""
    found: dict[str, dict[int, LfsRecord]] = {}
    counts: dict[str, int] = {}
    for path, record in sorted(by_path.items()):
        if (said := of_sure_name(path)) is not None and said[0] not in by_path:
            found.setdefault(said[0], {}).setdefault(said[1], record)
            counts[said[0]] = max(counts.get(said[0], 0), said[2])
    return {
        base: (max(counts[base], len(rows)), tuple(rows[no] for no in sorted(rows)))
        for base, rows in found.items()
        if min(rows) <= 1 and (counts[base] or len(rows) > 1)
    }


def _inside(path: str) -> bool:
    """Whether a path that the Hub names stays in the repository, on any system: it becomes that of a file here."""
    parts = path.split("/")
    return all(part not in ("", ".", "..") for part in parts) and not set(path) & {"\\", "\0", ":"}


def _of_folder(folder: str) -> Collection:
    return _of_paths(folder, {path: _size(path) for path in gguf_files(folder)})


def _of_store(spec: str) -> Collection:
    """What lies in a folder of a bucket, or of another machine, that fsspec lists."""
    return _of_paths(spec, {entry.path: entry.size for entry in entries(spec)})


def _of_paths(folder: str, sizes: Mapping[str, int]) -> Collection:
    by_path = {path: LfsRecord(path, size, None) for path, size in sizes.items()}
    every = firsts(by_path)
    models = [p for p in every if not sidecar_by_name(p)] or every
    front = folder.rstrip("/") + "/"

    def listed(path: str) -> Listed:
        return replace(_listed(path, by_path, path), name=path.removeprefix(front))

    return Collection(folder, None, tuple(map(listed, models)), tuple(listed(p) for p in every if p not in models))


def _listed(name: str, by_path: dict[str, LfsRecord], spec: str) -> Listed:
    said = naming(name)
    if said is None or said.count < 2:
        return Listed(spec, name, (by_path[name],))
    files = _of_set(name, by_path)
    return Listed(spec, name, tuple(by_path[p] for p in files), said.count)


def _of_set(name: str, paths: Iterable[str]) -> list[str]:
    """The files of the set that ``name`` is of, by number; of two for one number the first."""
    said = naming(name)
    place = os.path.dirname(name)
    found: dict[int, str] = {}
    for path in sorted(paths):
        other = naming(path)
        if (
            said is not None
            and other is not None
            and (os.path.dirname(path), other.stem, other.count) == (place, said.stem, said.count)
        ):
            found.setdefault(other.no, path)
    return [found[no] for no in sorted(found)]


def _importance(name: str) -> bool:
    """Importance matrices of before they were GGUF."""
    base = os.path.basename(name).lower()
    return "imatrix" in base and base.endswith((".dat", ".imatrix"))
