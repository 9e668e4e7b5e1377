"""Which models there are in files, folders, repositories."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gguftool.elsewhere import meant
from gguftool.errors import MissingFile, ToolFailed, UsageError


def models(paths: Sequence[str]) -> Iterator[str]:
    """Files and addresses to look at: of a set only the first shard, `mmproj` files included."""
    from gguftool import hub
    from gguftool.model.folder import firsts

    seen: set[str] = set()
    for path in paths:
        if path.lower().startswith("hf://"):
            owner = path[len("hf://") :].rstrip("/")
            if not owner:
                raise UsageError(f"{path}: names no owner and no repository", "hf://OWNER or hf://OWNER/REPO")
            if "/" not in owner:
                from gguftool.hub.api import repositories

                for repo in repositories(owner):
                    yield from _of_repository(f"hf://{repo}")
            else:
                yield from _of_repository(path)
            continue
        if hub.is_remote(path):
            yield path
            continue
        if not os.path.lexists(path):
            raise MissingFile(f"{path}: no such file or folder", meant(path))
        for name in [path] if not os.path.isdir(path) else firsts(_walk(path)):
            if name not in seen:
                seen.add(name)
                yield name


def _walk(folder: str) -> Iterator[str]:
    for place, folders, names in os.walk(folder):
        folders.sort()
        yield from (os.path.join(place, n) for n in sorted(names) if n.lower().endswith(".gguf"))


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
