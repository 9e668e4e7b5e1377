"""Open what lies on a server: by range requests, headers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.errors import FormatError, GgufToolError, MissingFile, ToolFailed, UsageError
from gguftool.format.foresee import FIRST_READ
from gguftool.format.parse import parse
from gguftool.hub import headers, stamps
from gguftool.hub.address import StoreAddress, WebAddress
from gguftool.hub.address import parse as parse_address
from gguftool.hub.api import endpoint, offline
from gguftool.hub.http import HttpRange
from gguftool.hub.pieces import FRONT_LIMIT
from gguftool.hub.place import OnDisk, OnServer, locate
from gguftool.hub.spot import spot
from gguftool.model import Model, Part
from gguftool.model.missing import missing_text
from gguftool.model.shards import NAME, shard_name, split_keys
from gguftool.source import LocalFile
from gguftool.wire import Nonsense, without_login

if TYPE_CHECKING:
    from gguftool.hub.beyond import OnStore, StoreFile


def source(spec: str) -> LocalFile | HttpRange | StoreFile:
    """The bytes behind a path or an address: a file of this machine, or a range source."""
    place = locate(spec)
    return LocalFile(place.path) if isinstance(place, OnDisk) else _open(place)


def open_there(
    place: OnServer | OnStore,
    *,
    strict: bool = True,
    whole_set: bool = True,
    until: str | None = None,
    keep: bool = True,
) -> Model:
    """The model of a file on a server; the other shards of its set are those beside it with the usual names.

    Args:
        place: where it is.
        strict: raise at the first fault in a header or at a missing shard; else note it.
        whole_set: follow the shard keys to the other files.
        until: read no further than this key, unless it is another shard that has the metadata.
        keep: keep the headers (`gguftool.hub.headers`).
    """
    folder, _, base = place.path.rpartition("/")
    m = NAME.match(base)
    if until is not None and (m is None or int(m["no"]) == 1):
        first = _part(place, strict, until=until, keep=keep)
        if first.header.get(until) is not None:
            return Model((first,))
    else:
        first = _part(place, strict, keep=keep)
    keys = split_keys(first.header) if whole_set else None
    if keys is None or m is None:
        return Model((first,), shard_count=keys.count if keys else 1)
    parts: list[Part] = []
    missing: list[int] = []
    names = tuple(shard_name(m["prefix"], no, keys.count) for no in range(keys.count))
    for no, other in enumerate(names):
        if other == base:
            parts.append(Part(first.name, first.source, first.header, no))
            continue
        try:
            parts.append(_part(place.sibling(f"{folder}/{other}" if folder else other), strict, no, keep=keep))
        except MissingFile:
            missing.append(no + 1)
    found = Model(tuple(parts), tuple(missing), keys.count, shard_names=names)
    if strict and missing:
        text = missing_text(missing, keys.count, found.missing_names)
        raise FormatError(f"{first.name}: {text}: not on the server", kind="shard-missing")
    return found


def stamp(spec: str) -> str | None:
    """Size and version of a file by its address; None where nobody says. Costs one small answer, or none.

    A listing that this process has seen is taken for what is now; `HttpRange` and `StoreFile` have the stamp of what
    they read.
    """
    if (known := stamps.told(spec)) is not None:
        return known
    try:
        found = source(spec)
    except GgufToolError:
        return None
    try:
        return None if isinstance(found, LocalFile) else found.stamp()
    except GgufToolError:
        return None
    finally:
        found.close()


def is_list(spec: str) -> bool:
    """Whether an address is that of a file on a web server and not a place on the Hub."""
    address = parse_address(spec, endpoint())
    return isinstance(address, StoreAddress) or (isinstance(address, WebAddress) and address.hub is None)


def text(spec: str) -> str:
    """A small text file from a web server (a list of hashes).

    Raises:
        MissingFile, ToolFailed: it cannot be had.
        UsageError: it is larger than 64 MiB.
    """
    found = source(spec)
    if found.size > FRONT_LIMIT:
        raise UsageError(f"{found.name}: {found.size:,} bytes is too much for a list of hashes")
    return found.read_at(0, found.size).decode("utf-8", "surrogateescape")


def _open(place: OnServer | OnStore) -> HttpRange | StoreFile:
    if not isinstance(place, OnServer):
        from gguftool.hub.beyond import StoreFile

        return StoreFile(place, headers.find(without_login(place.address)))
    if place.of_hub and offline():
        raise ToolFailed(
            f"{place.name(place.path)}: HF_HUB_OFFLINE forbids the network", "unset it, or name a local file"
        )
    url = place.url(place.path)
    try:
        known = headers.find(spot(url).url)
    except Nonsense:
        known = None
    return HttpRange(url, place.headers, place.name(place.path), known, place.fixed)


def _part(place: OnServer | OnStore, strict: bool, no: int = 0, until: str | None = None, keep: bool = True) -> Part:
    opened = _open(place)
    fixed = isinstance(place, OnServer) and place.fixed
    header = parse(opened, strict=strict, until=until)
    keep = keep and (until is None or header.get(until) is None)
    if keep and not opened.known and not header.problems and (opened.version or opened.linked or fixed):
        front = opened.read_at(0, min(opened.ready, max(header.data_offset, FIRST_READ)))
        if len(front) >= header.end and header.complete:
            headers.keep(headers.Front(opened.url, opened.size, opened.version, opened.linked, front))
    return Part(opened.name, opened, header, no)
