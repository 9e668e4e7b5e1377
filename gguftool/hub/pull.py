"""Fetch one file of the Hub: huggingface-hub does it, into its cache or a folder, as it lays them out itself.

What it does not do since 2.0 is to go on with an interrupted download: it throws away what was there. So where a file
comes over plain HTTP, its bytes are gathered by huggingface-hub's own reader under the name that its cache has for
what is unfinished, and handed over whole. What comes from Xet storage is its library's business, which keeps chunks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

from gguftool.errors import ToolFailed
from gguftool.files.faults import DISK, plain
from gguftool.files.names import make_folder
from gguftool.files.partial import partial
from gguftool.hub.address import HubAddress
from gguftool.hub.api import LfsRecord, endpoint, offline, ours, token
from gguftool.hub.cache import cached
from gguftool.hub.session import keep_redirects_in
from gguftool.hub.stall import while_growing
from gguftool.hub.stores import hub_cache
from gguftool.records import replace

HINT = "type the same command again: it goes on where it ended"
XET_HINT = "check the network, and type the same command again"


def fetch(address: HubAddress, record: LfsRecord, folder: str | None, *, force: bool, shown: bool) -> str:
    """Path of a file of the Hub, downloaded when it is not there.

    Args:
        address: the repository and revision.
        record: the file in it.
        folder: where to; None: the cache of huggingface-hub.
        force: download it even if it is there.
        shown: huggingface-hub shows its progress on stderr.

    Raises:
        MissingFile: there is no such file.
        ToolFailed: the network or the Hub failed, or access is refused, or nothing comes any more.
    """
    from huggingface_hub import hf_hub_download

    address = replace(address, path=record.path, quant="")
    if offline():
        raise ToolFailed(f"{address}: is not on this machine, and HF_HUB_OFFLINE forbids to download it", "unset it")
    way = [XET_HINT]

    def download() -> str:
        keep_redirects_in()
        if not force and (found := _over_http(address, record)) is not None:
            way[:] = [HINT]
            _gather(address, record, folder, found)
        return str(
            hf_hub_download(
                address.repo, record.path, revision=address.revision, local_dir=folder, force_download=force,
                token=token() or False, endpoint=endpoint(), cache_dir=hub_cache(),
            )
        )  # fmt: skip

    try:
        with _quiet(not shown):
            return while_growing(download, lambda: begun(address, record, folder), str(address))
    except Exception as error:
        if isinstance(error, OSError) and error.errno in DISK:
            raise plain(error, folder or hub_cache()) from None
        raise ours(error, address, "the download broke off", way[0]) from None


def there(address: HubAddress, record: LfsRecord, folder: str | None) -> str | None:
    """Where a whole file lies already: in the folder it would be downloaded to, or in the cache; None: nowhere.

    Args:
        address: the repository and revision.
        record: the file in it.
        folder: where it would go to; None: the cache.
    """
    inside = os.path.join(folder, *record.path.split("/")) if folder is not None else None
    kept = cached(replace(address, path=record.path, quant=""))
    if kept is not None and record.sha256 and os.path.basename(os.path.realpath(kept)) != record.sha256:
        # Of an older commit.
        kept = None
    for path in (inside, kept):
        try:
            if path is not None and os.stat(path).st_size == record.size:
                return path
        except OSError:
            continue
    return None


def begun(address: HubAddress, record: LfsRecord, folder: str | None) -> int:
    """Bytes of a file that an interrupted download has left."""
    try:
        return os.stat(_partial(address, record, folder)[0]).st_size if record.sha256 else 0
    except OSError:
        return 0


def _partial(address: HubAddress, record: LfsRecord, folder: str | None) -> tuple[str, str, str]:
    """Paths of what is unfinished, of the whole, and of the lock, as huggingface-hub has them."""
    name = str(record.sha256)
    if folder is not None:
        notes = os.path.join(folder, ".cache", "huggingface", "download", *record.path.split("/"))
        return f"{notes}.{name}.incomplete", os.path.join(folder, *record.path.split("/")), f"{notes}.lock"
    repo = "models--" + address.repo.replace("/", "--")
    blob = os.path.join(hub_cache(), repo, "blobs", name)
    return f"{blob}.incomplete", blob, os.path.join(hub_cache(), ".locks", repo, f"{name}.lock")


def _over_http(address: HubAddress, record: LfsRecord) -> Any:
    """What the Hub says of a file whose bytes come over plain HTTP, from which on they can be had; else None."""
    from huggingface_hub import file_download, get_hf_file_metadata, hf_hub_url

    if not record.sha256 or "resume_size" not in signature(file_download.http_get).parameters:
        return None
    url = hf_hub_url(address.repo, record.path, revision=address.revision, endpoint=endpoint())
    found = get_hf_file_metadata(url, token=token() or False)
    by_xet = getattr(found, "xet_file_data", None) is not None and _takes_xet()
    return None if by_xet or found.etag != record.sha256 else found


def _gather(address: HubAddress, record: LfsRecord, folder: str | None, found: Any) -> None:
    """Bring the data of a file to where huggingface-hub looks for it, going on with what is there."""
    from huggingface_hub import file_download
    from huggingface_hub.utils import WeakFileLock, build_hf_headers

    part, whole, lock = _partial(address, record, folder)
    headers = build_hf_headers(token=_own(found.location))
    make_folder(os.path.dirname(lock))
    with WeakFileLock(lock):
        if os.path.exists(whole):
            return
        with partial(part, whole, record.size) as f:
            file_download.http_get(
                found.location, f, resume_size=f.tell(), headers=headers, expected_size=record.size,
                displayed_filename=os.path.basename(record.path),
            )  # fmt: skip


def _own(url: str) -> Any:
    """The token for the Hub itself and for nobody else: what it redirects to has its signature in the address."""
    return token() or False if url.startswith(endpoint() + "/") else False


def _takes_xet() -> bool:
    from huggingface_hub import constants, file_download

    there = getattr(file_download, "is_xet_available", None)
    return there is not None and bool(there()) and not getattr(constants, "HF_HUB_DISABLE_XET", False)


@contextmanager
def _quiet(wanted: bool) -> Iterator[None]:
    """Without the bars of huggingface-hub."""
    from huggingface_hub.utils import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    if not wanted or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
