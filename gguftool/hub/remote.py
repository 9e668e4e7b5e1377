"""Open what an address names: from the cache when it is there, else by range requests."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from gguftool.errors import FormatError, GgufToolError, MissingFile, ToolFailed, UsageError
from gguftool.format.parse import parse
from gguftool.hub.address import HubAddress, hub_address, hub_address_of_url
from gguftool.hub.cache import cached, hub_cache, ollama_blob, pick
from gguftool.hub.http import FRONT_LIMIT, TIMEOUT, HttpRange
from gguftool.model import Model, Part, open_model
from gguftool.model.shards import NAME, shard_name, split_keys
from gguftool.source import LocalFile, Source


@dataclass(frozen=True, slots=True)
class LfsRecord:
    """What the Hub says of a file: size in bytes and, for files in large storage, the sha256."""

    path: str
    size: int
    sha256: str | None


def endpoint() -> str:
    """Address of the Hub; HF_ENDPOINT names a mirror."""
    return (os.environ.get("HF_ENDPOINT") or "https://huggingface.co").rstrip("/")


def offline() -> bool:
    """Whether the user forbids the network (HF_HUB_OFFLINE)."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")


def token() -> str | None:
    """The user's token for the Hub: HF_TOKEN, or the file that ``hf auth login`` writes."""
    if os.environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in ("1", "ON", "YES", "TRUE"):
        return None
    if found := os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN"):
        return found.strip() or None
    place = os.environ.get("HF_TOKEN_PATH") or os.path.join(os.path.dirname(hub_cache()), "token")
    try:
        with open(os.path.expanduser(place), encoding="utf-8") as f:
            return f.read().strip() or None
    except OSError:
        return None


def local_path(spec: str) -> str | None:
    """See `gguftool.hub.local_path`."""
    if spec.startswith("ollama://"):
        return ollama_blob(spec)
    address = hub_address(spec) if spec.startswith("hf://") else hub_address_of_url(spec, endpoint())
    return cached(address) if address is not None else None


def source(spec: str) -> Source:
    """The bytes behind an address: the cached file, or a range source."""
    if (here := local_path(spec)) is not None:
        return LocalFile(here)
    return _open(_locate(spec))


def open_remote(spec: str, *, strict: bool = True, whole_set: bool = True) -> Model:
    """See `gguftool.hub.open_any`."""
    if (here := local_path(spec)) is not None:
        return open_model(here, strict=strict, whole_set=whole_set)
    place = _locate(spec)
    first = _part(place, strict)
    keys = split_keys(first.header) if whole_set else None
    folder, _, base = place.path.rpartition("/")
    m = NAME.match(base)
    if keys is None or m is None:
        return Model((first,), shard_count=keys.count if keys else 1)
    parts: list[Part] = []
    missing: list[int] = []
    for no in range(keys.count):
        other = shard_name(m["prefix"], no, keys.count)
        if other == base:
            parts.append(Part(first.name, first.source, first.header, no))
            continue
        try:
            parts.append(_part(place.sibling(f"{folder}/{other}" if folder else other), strict, no))
        except MissingFile:
            missing.append(no + 1)
    if strict and missing:
        numbers = ", ".join(map(str, missing))
        raise FormatError(f"{spec}: shard {numbers} of {keys.count} is not on the server", kind="shard-missing")
    return Model(tuple(parts), tuple(missing), keys.count)


@dataclass(frozen=True, slots=True)
class _Place:
    """One file on a server: its path there, how that becomes a name and an address, whether it is the Hub's."""

    path: str
    name: Callable[[str], str]
    url: Callable[[str], str]
    headers: dict[str, str]
    of_hub: bool

    def sibling(self, path: str) -> _Place:
        return replace(self, path=path)


def _locate(spec: str) -> _Place:
    if not spec.startswith("hf://"):
        address = hub_address_of_url(spec, endpoint())
        base = spec.partition("?")[0]
        if address is not None and "/blob/" in spec:
            spec = spec.replace("/blob/", "/resolve/", 1)
        front, _, last = spec.partition("?")[0].rpartition("/")
        query = spec.partition("?")[2]
        at_hub = spec.startswith(endpoint() + "/")
        return _Place(
            last,
            lambda path: f"{base.rpartition('/')[0]}/{path}",
            lambda path: f"{front}/{path}" + (f"?{query}" if query and path == last else ""),
            _authorization() if at_hub else {},
            at_hub or address is not None,
        )
    address = hub_address(spec)
    if offline():
        raise ToolFailed(f"{spec}: not in the cache ({hub_cache()}), and HF_HUB_OFFLINE forbids the network")
    if not address.path:
        address = HubAddress(address.repo, _choose(address), "", address.revision)
    root = f"{endpoint()}/{address.repo}/resolve/{quote(address.revision, safe='')}"
    at = "" if address.revision == "main" else f"@{address.revision}"
    return _Place(
        address.path,
        lambda path: f"hf://{address.repo}{at}/{path}",
        lambda path: f"{root}/{quote(path)}",
        _authorization(),
        True,
    )


def _choose(address: HubAddress) -> str:
    """The one file of a repository with the quantisation asked for."""
    names = [record.path for record in listing(address)]
    found = pick(names, address.quant)
    if len(found) == 1:
        return found[0]
    models = pick(names, "")
    if not models:
        raise MissingFile(f"{address}: there is no .gguf file in this repository")
    shown = ", ".join((found or models)[:8]) + (" …" if len(found or models) > 8 else "")
    what = "several models" if not address.quant else "several files fit" if found else "no file fits"
    raise UsageError(f"{address}: {what}: {shown}", f"name one: hf://{address.repo}/{(found or models)[0]}")


def _authorization() -> dict[str, str]:
    found = token()
    return {"Authorization": f"Bearer {found}"} if found else {}


def _open(place: _Place) -> HttpRange:
    if place.of_hub and offline():
        raise ToolFailed(
            f"{place.name(place.path)}: HF_HUB_OFFLINE forbids the network", "unset it, or name a local file"
        )
    return HttpRange(place.url(place.path), place.headers, place.name(place.path))


def _part(place: _Place, strict: bool, no: int = 0) -> Part:
    source = _open(place)
    header = parse(source, strict=strict)
    return Part(source.name, source, header, no)


def listing(address: HubAddress) -> list[LfsRecord]:
    """All files of a repository with size and sha256, as the Hub records them.

    Raises:
        MissingFile: no such repository or revision.
        ToolFailed: the network or the Hub failed, or access is refused.
    """
    from huggingface_hub.hf_api import HfApi

    api = HfApi(endpoint=endpoint(), token=token() or False)

    def ask() -> list[LfsRecord]:
        # One request and no retries, unlike the listing of a tree: without a network the answer comes at once.
        info = api.model_info(address.repo, revision=address.revision, files_metadata=True, timeout=TIMEOUT)
        return [_record(entry) for entry in info.siblings or ()]

    return _asked(address, ask)


def lfs_record(address: HubAddress) -> LfsRecord:
    """What the Hub records of one file.

    Raises:
        MissingFile: no such repository, revision or file.
        ToolFailed: the network or the Hub failed, or access is refused.
    """
    from huggingface_hub.hf_api import HfApi, RepoFile

    api = HfApi(endpoint=endpoint(), token=token() or False)

    def ask() -> list[LfsRecord]:
        found = api.get_paths_info(address.repo, [address.path], revision=address.revision)
        return [_record(entry) for entry in found if isinstance(entry, RepoFile)]

    records = _asked(address, ask)
    if not records:
        raise MissingFile(f"{address}: the repository has no such file")
    return records[0]


def _record(entry: object) -> LfsRecord:
    lfs = getattr(entry, "lfs", None)
    sha256 = lfs["sha256"] if isinstance(lfs, dict) else getattr(lfs, "sha256", None)
    size = getattr(entry, "size", 0)
    path = getattr(entry, "path", None) or getattr(entry, "rfilename", "")
    return LfsRecord(str(path), int(size or 0), sha256)


def _asked(address: HubAddress, ask: Callable[[], list[LfsRecord]]) -> list[LfsRecord]:
    """The answer of huggingface-hub, its errors turned into ours."""
    from huggingface_hub import errors

    if offline():
        raise ToolFailed(
            f"{address}: HF_HUB_OFFLINE forbids to ask the Hub", "unset it, or use a manifest or SHA256SUMS"
        )
    try:
        return ask()
    except (errors.RepositoryNotFoundError, errors.RevisionNotFoundError, errors.EntryNotFoundError) as error:
        gated = isinstance(error, errors.GatedRepoError)
        hint = "a gated or private repository needs HF_TOKEN" + (" and an accepted licence" if gated else "")
        kind: type[GgufToolError] = ToolFailed if gated else MissingFile
        raise kind(f"{address}: {_first_line(error)}", hint) from None
    except errors.HFValidationError as error:
        raise UsageError(f"{address}: {_first_line(error)}") from None
    except Exception as error:
        # huggingface-hub changed its HTTP library more than once: which classes network errors have is not ours to say.
        if isinstance(error, (TypeError, AttributeError, KeyError)):
            raise
        hint = "check the network; without one, use a manifest or SHA256SUMS"
        raise ToolFailed(f"{address}: the Hub cannot be asked: {_first_line(error)}", hint) from None


def _first_line(error: Exception) -> str:
    """What the Hub itself says, else the line of the message that says most."""
    if said := getattr(error, "server_message", None):
        return str(said)
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    useful = [line for line in lines if "Request ID" not in line and " Error for url" not in line]
    return (useful or lines or [type(error).__name__])[0]


def is_list(spec: str) -> bool:
    """Whether an address is that of a file on a web server and not a place on the Hub."""
    return spec.startswith(("http://", "https://")) and hub_address_of_url(spec, endpoint()) is None


def text(spec: str) -> str:
    """A small text file from a web server (a list of hashes).

    Raises:
        MissingFile, ToolFailed: it cannot be had.
        UsageError: it is larger than 64 MiB.
    """
    source = _open(_locate(spec))
    if source.size > FRONT_LIMIT:
        raise UsageError(f"{spec}: {source.size:,} bytes is too much for a list of hashes")
    return source.read_at(0, source.size).decode("utf-8", "surrogateescape")


def hub_records(spec: str, paths: Sequence[str]) -> dict[str, LfsRecord]:
    """What the Hub records of local files, matched by name.

    Args:
        spec: ``hf://owner/repo`` (files are looked for by their names), or ``hf://owner/repo/file`` for one file.
        paths: the local files.

    Raises:
        UsageError: several files for one record.
        MissingFile, ToolFailed: as `listing`.
    """
    address = hub_address_of_url(spec, endpoint()) or hub_address(spec)
    if address.path:
        if len(paths) != 1 and address.path.rpartition("/")[2] not in {os.path.basename(p) for p in paths}:
            raise UsageError(
                f"{spec} names one file, here are {len(paths)}", f"name the repository: hf://{address.repo}"
            )
        record = lfs_record(address)
        same = [p for p in paths if os.path.basename(p) == address.path.rpartition("/")[2]]
        return dict.fromkeys(same or paths, record)
    records = {record.path.rpartition("/")[2]: record for record in listing(address)}
    return {path: records[os.path.basename(path)] for path in paths if os.path.basename(path) in records}


def repositories(owner: str) -> list[str]:
    """Repositories of an owner that hold GGUF files, as the Hub tags them.

    Raises:
        ToolFailed: the network or the Hub failed.
    """
    from huggingface_hub.hf_api import HfApi

    api = HfApi(endpoint=endpoint(), token=token() or False)

    def ask() -> list[LfsRecord]:
        return [LfsRecord(model.id, 0, None) for model in api.list_models(author=owner, filter="gguf")]

    return [record.path for record in _asked(HubAddress(owner), ask)]
