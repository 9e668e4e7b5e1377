"""Files in buckets and on other machines: whatever fsspec opens (``s3://``, ``gs://``, ``az://``, ``sftp://`` …).

fsspec knows how to get at them, and takes credentials from where its drivers look for them (the environment, files of
the user). What is read, and how much at once, is decided here (`gguftool.hub.pieces`): its own reading ahead is off.
Its drivers have no time limit for the whole of a request, and errors of many kinds; both are bounded here.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from gguftool.errors import ChangedMeanwhile, GgufToolError, MissingFile, ToolFailed, Unreadable, UsageError
from gguftool.format.foresee import FIRST_READ
from gguftool.hub import stamps
from gguftool.hub.address import StoreAddress
from gguftool.hub.headers import Front
from gguftool.hub.pieces import Pieces
from gguftool.model.shards import NAME
from gguftool.records import dataclass
from gguftool.shell import shell
from gguftool.wire import GRACE_SECONDS, HEAD_SECONDS, LEAST_RATE, Broken, within, without_login

T = TypeVar("T")

EXTRA = "pip install 'gguftool[remote]'"
_PACKAGES = {
    "smb": "smbprotocol", "hdfs": "pyarrow", "arrow_hdfs": "pyarrow", "oss": "ossfs", "oci": "ocifs",
    "ocilake": "ocifs", "webdav": "webdav4", "dropbox": "dropboxdrivefs", "gdrive": "gdrive-fsspec", "git": "pygit2",
    "lakefs": "lakefs-spec", "box": "boxfs", "tos": "tosfs", "tosfs": "tosfs", "wandb": "wandbfs",
    "root": "fsspec-xrootd", "dvc": "dvc", "libarchive": "libarchive-c", "webhdfs": "requests", "github": "requests",
    "gist": "requests", "dbfs": "requests", "jupyter": "requests", "jlab": "requests",
}  # fmt: skip
"""What pip calls the driver of a scheme that the extra ``remote`` does not bring."""
_TAGS = ("ETag", "etag", "sha", "md5Hash", "content_md5", "checksum", "ukey")
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")
_SECRET = ("SECRET", "TOKEN", "PASSWORD", "PASSWD", "KEY", "CREDENTIAL", "CONNECTION_STRING", "SAS")
_NO_ACCESS = ("credential", "forbidden", "denied", "unauthorized", "authenticat")
LISTING_SECONDS = 600.0
"""What the listing of a folder may take."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a folder: its address, and its size in bytes."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class OnStore:
    """A file that fsspec opens.

    Attributes:
        path: its address, of one inside another the first.
        behind: ``::`` and what it is inside of, or "".
    """

    path: str
    behind: str = ""

    @property
    def address(self) -> str:
        """The whole of it."""
        return self.path + self.behind

    def sibling(self, path: str) -> OnStore:
        """Another file there."""
        return OnStore(path, self.behind)


def place(address: StoreAddress) -> OnStore:
    """Where an address leads."""
    front, sign, behind = address.text.partition("::")
    if "://" not in front:
        # A cache in front of the address: simplecache::s3://…
        return OnStore(address.text)
    return OnStore(front, sign + behind)


class StoreFile:
    """Random access to a file that fsspec opens.

    Args:
        at: where it is.
        known: what is kept of it; taken when the store says that the file is still that.

    Raises:
        ToolFailed: fsspec or a driver is missing, no access, or the other side failed.
        UsageError: no such scheme.
        MissingFile: no such file.
    """

    def __init__(self, at: OnStore, known: Front | None = None) -> None:
        self.url = self.name = without_login(at.address)
        self._fs, self._path = _system(at.address)
        self._pieces = Pieces(self._exactly)
        self._info: Mapping[str, Any] | None = None
        self._file: Any = None
        self._lock = threading.RLock()
        self.known = known
        self.linked = ""

    @property
    def size(self) -> int:
        """Length in bytes."""
        return int(self._told()["size"])

    @property
    def ready(self) -> int:
        """Bytes of the front that are here."""
        return len(self._pieces.front)

    @property
    def version(self) -> str:
        """What the store calls this version of the file, or ""."""
        return _tag(self._told())

    @property
    def identity(self) -> tuple[str, int, str]:
        """Address, size, and what tells this version from others."""
        return self.url, self.size, self.stamp()

    def stamp(self) -> str:
        """Size and version as one word."""
        return stamp_of(self._told())

    def read_at(self, offset: int, n: int) -> bytes:
        """Exactly ``n`` bytes; fewer only at the end.

        Raises:
            ToolFailed: the other side failed.
        """
        with self._lock:
            return self._pieces.read(offset, n, self.size)

    def check_unchanged(self) -> None:
        """Ask the store whether it is still the same file.

        Raises:
            ChangedMeanwhile: it is not.
        """
        self._fs.invalidate_cache()
        if stamp_of(_guarded(self.name, HEAD_SECONDS, lambda: self._fs.info(self._path))) != stamp_of(self._told()):
            raise ChangedMeanwhile(f"{self.name}: changed while it was read", "run the command again")

    def close(self) -> None:
        """Drop what is here; connections are the driver's."""
        self._pieces.drop()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _told(self) -> Mapping[str, Any]:
        with self._lock:
            if self._info is None:
                self._info = self._begin()
            return self._info

    def _begin(self) -> Mapping[str, Any]:
        """What the store says of the file; with the first bytes, where both can be asked for at once."""
        fs, path = self._fs, self._path
        fs.invalidate_cache()
        seconds = HEAD_SECONDS + GRACE_SECONDS
        front: object = b""
        if self.known is None and fs.async_impl:
            info, front = _guarded(self.name, seconds, lambda: _both(fs, path))
            if isinstance(info, BaseException):
                raise _ours(self.name, info)
        else:
            info = _guarded(self.name, seconds, lambda: fs.info(path))
        if info.get("type") == "directory":
            raise Unreadable(f"{self.name}: is a folder", "name a .gguf file")
        if not isinstance(info.get("size"), int):
            raise ToolFailed(f"{self.name}: the store does not say how long the file is")
        if self.known and self.known.etag == _tag(info) and self.known.size == info["size"]:
            self._pieces.front = self.known.front
        else:
            self.known = None
            if isinstance(front, bytes):
                self._pieces.front = front[: info["size"]]
        return dict(info)

    def _exactly(self, offset: int, n: int) -> bytes:
        data = _guarded(self.name, HEAD_SECONDS + GRACE_SECONDS + n / LEAST_RATE, lambda: self._range(offset, n))
        if len(data) != n:
            raise ToolFailed(f"{self.name}: the store sent {len(data):,} of {n:,} bytes at offset {offset:,}")
        return data

    def _range(self, offset: int, n: int) -> bytes:
        from fsspec.spec import AbstractFileSystem

        fs = self._fs
        if fs.async_impl or type(fs).cat_file is not AbstractFileSystem.cat_file:
            return bytes(fs.cat_file(self._path, start=offset, end=offset + n))
        if self._file is None:
            self._file = fs.open(self._path, "rb", cache_type="none")
        self._file.seek(offset)
        data = bytearray()
        while len(data) < n and (more := self._file.read(n - len(data))):
            data += more
        return bytes(data)


def entries(spec: str) -> list[Entry]:
    """The ``.gguf`` files of a folder and of those below it, by address, sorted.

    Raises:
        MissingFile: no such folder.
        ToolFailed, UsageError: as for `StoreFile`.
    """
    at = place(StoreAddress(spec))
    name = without_login(at.address)
    fs, root = _system(at.address)

    def find() -> list[Entry]:
        fs.invalidate_cache()
        found = fs.find(root, detail=True)
        if not found and not fs.exists(root):
            raise FileNotFoundError(root)
        below = root.rstrip("/")
        front = at.path.rstrip("/")
        rows = [
            (front + path[len(below) :] + at.behind, {**info, "size": int(info.get("size") or 0)})
            for path, info in sorted(found.items())
            if path.lower().endswith(".gguf") and path.startswith(below + "/") and info.get("type") != "directory"
        ]
        stamps.note((path, stamp_of(info)) for path, info in rows)
        return [Entry(path, info["size"]) for path, info in rows]

    return _guarded(name, LISTING_SECONDS, find)


def is_folder(spec: str) -> bool:
    """Whether an address is that of a folder; a name that ends in ``.gguf`` is taken for a file, unasked.

    Raises:
        ToolFailed, UsageError: as for `StoreFile`.
    """
    at = place(StoreAddress(spec))
    if at.path.endswith("/"):
        return True
    if at.path.lower().endswith(".gguf"):
        return False
    fs, path = _system(at.address)
    return bool(_guarded(without_login(at.address), HEAD_SECONDS + GRACE_SECONDS, lambda: fs.isdir(path)))


def fetching(spec: str) -> str:
    """The command that brings a file here, of a shard its set, with the driver and credentials that it is read with."""
    at = place(StoreAddress(spec))
    front, slash, name = at.path.rstrip("/").rpartition("/")
    target = name or "model.gguf"
    if (m := NAME.match(name)) is not None:
        # Several files go into a folder.
        name, target = f"{m['prefix']}-*-of-{m['count']}.gguf", "./"
    address = json.dumps(without_login(front + slash + name + at.behind))
    code = f"import fsspec; fs, path = fsspec.url_to_fs({address}); fs.get(path, {json.dumps(target)})"
    return shell(["python3", "-c", code])


def stamp_of(info: Mapping[str, Any]) -> str:
    """What tells a version of a file from others: its size, and its tag or else the time of its last change."""
    when = next((str(info[key]) for key in _TIMES if info.get(key)), "")
    return stamps.word(info["size"], _tag(info) or when) or str(info["size"])


def _tag(info: Mapping[str, Any]) -> str:
    return next((str(info[key]) for key in _TAGS if info.get(key)), "")


def _both(fs: Any, path: str) -> tuple[Any, Any]:
    import asyncio

    from fsspec.asyn import sync

    async def ask() -> tuple[Any, Any]:
        front = fs._cat_file(path, start=0, end=FIRST_READ)
        return await asyncio.gather(fs._info(path), front, return_exceptions=True)

    found: tuple[Any, Any] = sync(fs.loop, ask)
    return found


def _system(address: str) -> tuple[Any, str]:
    """The driver of an address, and what it calls the file."""
    name = without_login(address)
    scheme = name.rpartition("::")[2].partition("://")[0].lower() if "://" in name else name
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ToolFailed(f"{name}: is read through fsspec, which is not installed", EXTRA) from None
    try:
        fs, path = within(HEAD_SECONDS, lambda: url_to_fs(address))
    except ImportError as error:
        what = shell(("pip", "install", _PACKAGES[scheme])) if scheme in _PACKAGES else EXTRA
        raise ToolFailed(f"{name}: its driver is not installed: {_text(error)}", what) from None
    except Exception as error:
        raise _ours(name, error) from None
    return fs, path


def _guarded(name: str, seconds: float, act: Callable[[], T]) -> T:
    """What a driver comes to, in bounded time, its errors turned into ours."""
    try:
        return within(seconds, act)
    except Exception as error:
        raise _ours(name, error) from None


def _ours(name: str, error: BaseException) -> GgufToolError:
    """An error of a driver as one of ours; which classes those have is not ours to say."""
    if isinstance(error, GgufToolError):
        return error
    text = _text(error)
    low = f"{type(error).__name__} {text}".lower()
    if isinstance(error, ImportError):
        return ToolFailed(f"{name}: its driver is not installed: {text}", EXTRA)
    if isinstance(error, FileNotFoundError):
        return MissingFile(f"{name}: there is no such file, bucket or folder")
    if isinstance(error, IsADirectoryError):
        return Unreadable(f"{name}: is a folder", "name a .gguf file")
    if isinstance(error, PermissionError) or any(word in low for word in _NO_ACCESS):
        hint = "its driver takes credentials from the environment or its own files; public buckets: FSSPEC_S3_ANON=true"
        return ToolFailed(f"{name}: no access: {text}", hint)
    if isinstance(error, ValueError) and "protocol not known" in low:
        return UsageError(f"{name}: {text}", "addresses: hf://, https://, ollama://, and those that fsspec knows")
    hint = "check the address and the network"
    return ToolFailed(f"{name}: {'is too slow: ' if isinstance(error, Broken) else ''}{text}", hint)


def _text(error: BaseException) -> str:
    """The first line of an error, without credentials."""
    text = without_login(str(error).strip())
    for key, value in os.environ.items():
        if len(value) > 7 and any(word in key.upper() for word in _SECRET):
            text = text.replace(value, "…")
    return (text.splitlines() or [type(error).__name__])[0][:300]
