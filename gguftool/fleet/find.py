"""Which models there are in files, folders, repositories: found while others are looked at, a folder at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from gguftool.elsewhere import meant
from gguftool.errors import GgufToolError, MissingFile, ToolFailed, Unreadable, UsageError
from gguftool.files.patterns import Patterns
from gguftool.hub import entries, is_folder, is_remote
from gguftool.model.folder import firsts
from gguftool.model.shards import LIKELY, is_gguf
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Group:
    """Files of one folder, among which the shards of a set may be; or a folder and why it cannot be listed."""

    paths: Sequence[str]
    error: GgufToolError | None = None


def there(paths: Sequence[str]) -> list[str]:
    """Those of some paths that are of this machine, each once.

    Raises:
        MissingFile: one does not exist.
    """
    here = [path for path in dict.fromkeys(paths) if not is_remote(path)]
    for path in here:
        if not os.path.lexists(path):
            raise MissingFile(f"{path}: no such file or folder", meant(path))
    return here


def models(paths: Sequence[str], patterns: Patterns | None = None, linked: list[str] | None = None) -> Iterator[Group]:
    """Files and addresses to look at, those of one folder together.

    Args:
        paths: files, folders with their subfolders, addresses; each file comes once.
        patterns: which files of folders; one that is named itself is always taken.
        linked: gets the folders that are links, which are not entered.

    Raises:
        MissingFile: a path that does not exist.
        UsageError: an address that names nothing.
        ToolFailed: the Hub cannot be asked.
    """
    here = there(paths)
    folders = {path: os.path.join(os.path.abspath(path), "") for path in here if os.path.isdir(path)}
    beside: dict[str, list[str]] = {}
    for path in here:
        if path not in folders:
            beside.setdefault(os.path.dirname(path), []).append(path)
    named = {os.path.abspath(path) for files in beside.values() for path in files}
    for path in dict.fromkeys(paths):
        if is_remote(path):
            for one in _far(path):
                yield Group((one,))
        elif path in folders:
            whole = folders[path]
            if not any(whole.startswith(other) and other != whole for other in folders.values()) and (
                next(p for p, place in folders.items() if place == whole) == path
            ):
                yield from _walk(path, patterns or Patterns(), named, [] if linked is None else linked)
        elif files := beside.pop(os.path.dirname(path), None):
            yield Group(files)


def told_empty(paths: Sequence[str], found: Iterable[Group], patterns: Patterns) -> Iterator[Group]:
    """What was found, and each folder that was named and holds nothing, with an error: a disk that is not mounted is
    an empty folder, too.
    """
    left = {os.path.join(os.path.abspath(path), ""): path for path in there(paths) if os.path.isdir(path)}
    for group in found:
        if left and not is_remote(group.paths[0]):
            at = os.path.abspath(group.paths[0])
            left = {whole: path for whole, path in left.items() if not os.path.join(at, "").startswith(whole)}
        yield group
    given = " that the patterns take" if patterns.include or patterns.exclude else ""
    for path in left.values():
        message = f"{path}: no model{given} in it or below it"
        yield Group((path,), MissingFile(message, "is the path right, and is the disk mounted?"))


def count(paths: Sequence[str], patterns: Patterns) -> int | None:
    """How many files `models` finds, by their names alone; None when the network must be asked."""
    if any(map(is_remote, paths)):
        return None
    return sum(len(group.paths) for group in models(paths, patterns))


def below(root: str, patterns: Patterns, start: str, *, deep: bool) -> Iterator[Group]:
    """What `models` finds of a folder from one of its folders on: in that one, or below it too; nothing is raised.

    Args:
        root: the folder that was named.
        patterns: which of its files.
        start: the folder itself, or one below it; nothing is found in one that `models` does not enter.
        deep: with its subfolders.
    """
    steps = _inside(root, start)
    for n in range(1, len(steps) + 1):
        if patterns.excludes(steps[:n], folder=True) or os.path.islink(os.path.join(root, *steps[:n])):
            return
    yield from _walk(root, patterns, set(), [], start=start, deep=deep)


def _inside(root: str, place: str) -> tuple[str, ...]:
    return () if place == root else tuple(os.path.relpath(place, root).split(os.sep))


def _walk(
    root: str, patterns: Patterns, named: set[str], linked: list[str], *, start: str = "", deep: bool = True
) -> Iterator[Group]:
    failed: list[OSError] = []
    for place, folders, names in os.walk(start or root, onerror=failed.append):
        yield from map(_unlisted, failed)
        failed.clear()
        inside = _inside(root, place)
        folders[:] = sorted(name for name in folders if not patterns.excludes((*inside, name), folder=True))
        linked += [path for name in folders if os.path.islink(path := os.path.join(place, name))]
        found = _in_folder(place, sorted(names), patterns, inside)
        if named:
            found = [path for path in found if os.path.abspath(path) not in named]
        if found:
            yield Group(found)
        if not deep:
            folders.clear()
    yield from map(_unlisted, failed)


def _in_folder(place: str, names: Sequence[str], patterns: Patterns, inside: tuple[str, ...]) -> list[str]:
    """The models of one folder: what ends in ``.gguf``; without any, what begins as GGUF under a name of a store."""
    taken = [n for n in names if patterns.takes((*inside, n), n.lower().endswith(".gguf"))]
    if not taken and not patterns.include and not (inside and _blobs(place)):
        stored = (n for n in names if LIKELY.fullmatch(n) and is_gguf(os.path.join(place, n)))
        taken = [n for n in stored if patterns.takes((*inside, n), True)]
    return [os.path.join(place, n) for n in taken]


def _blobs(place: str) -> bool:
    """Whether a folder holds what the cache of Hugging Face shows under its names in another."""
    return os.path.basename(place) == "blobs" and os.path.isdir(os.path.join(os.path.dirname(place), "snapshots"))


def _unlisted(error: OSError) -> Group:
    place = str(error.filename)
    return Group((place,), Unreadable(f"{place}: {(error.strerror or str(error)).lower()}"))


def _far(spec: str) -> Iterator[str]:
    """The models of an address: of an owner all repositories, of a repository or a bucket all of it."""
    if is_folder(spec):
        yield from firsts([entry.path for entry in entries(spec)])
        return
    if not spec.lower().startswith("hf://"):
        yield spec
        return
    owner = spec[len("hf://") :].rstrip("/")
    if not owner:
        raise UsageError(f"{spec}: names no owner and no repository", "hf://OWNER or hf://OWNER/REPO")
    if "/" in owner:
        yield from _of_repository(spec)
        return
    from gguftool.hub.api import repositories

    for repo in repositories(owner):
        yield from _of_repository(f"hf://{repo}")


def _of_repository(spec: str) -> Iterator[str]:
    from gguftool.hub.address import hub_address
    from gguftool.hub.api import listing
    from gguftool.hub.cache import cached, pick

    address = hub_address(spec)
    here = cached(address) is not None
    if address.path or (address.quant and here):
        yield spec
        return
    try:
        names = pick([record.path for record in listing(address)], address.quant)
    except (MissingFile, ToolFailed):
        # Nobody to ask, and one model of it is on this machine.
        if not here:
            raise
        yield spec
        return
    at = "" if address.revision == "main" else f"@{address.revision}"
    for name in names:
        yield f"hf://{address.repo}{at}/{name}"
