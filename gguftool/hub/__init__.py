"""Models that are named by address: the Hub, any web server, the local store of Ollama, whatever fsspec opens.

The text of an address walks one way: parsed (`address`, pure), located (`place`: a folder, the caches, the Hub), opened
as a source (`remote`, `http`, `gguftool.source`), read as a header, a model.

Only this room calls the network. A remote model is read by range requests, its headers only, never downloaded whole.
Credentials go to the host they belong to and to no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from gguftool.hub.address import SCHEMES
    from gguftool.hub.beyond import Entry
    from gguftool.model import Model
    from gguftool.model.headers import Headers
    from gguftool.source import Source

__all__ = [
    "SCHEMES",
    "entries",
    "file_of",
    "is_folder",
    "is_remote",
    "local_path",
    "named",
    "on_this_machine",
    "open_any",
    "open_source",
    "opened",
    "patient",
    "stamp",
]


def __getattr__(name: str) -> Any:
    if name != "SCHEMES":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gguftool.hub.address import SCHEMES

    return SCHEMES


def is_remote(spec: object) -> TypeGuard[str]:
    """Whether ``spec`` is an address and not a path; what addresses there are is loaded for what may be one."""
    if not isinstance(spec, str) or "://" not in spec:
        return False
    from gguftool.hub.address import is_remote as asked

    return asked(spec)


def open_any(
    spec: str | os.PathLike[str],
    *,
    strict: bool = True,
    whole_set: bool = True,
    until: str | None = None,
    keep: bool = True,
    known: Headers | None = None,
) -> Model:
    """Open a model by path or address; what every command calls for its MODEL.

    Args:
        spec: a path (see `gguftool.model.open_model`), ``hf://owner/repo/file.gguf``, ``hf://owner/repo:Q4_K_M``,
            ``https://…/x.gguf``, ``ollama://name:tag``, or what fsspec opens: ``s3://bucket/x.gguf``.
        strict: raise at the first fault in a header or at a missing shard; else note it.
        whole_set: follow the shard keys to the other files.
        until: over the network, read no further than this key of the metadata; there are no tensors then.
        keep: keep a header that came over the network for the next time; not for who looks at thousands once.
        known: headers of files on this machine that need not be read again.

    Raises:
        MissingFile: no such file, here or there.
        UsageError: an address nobody understands.
        ToolFailed: the network or the server failed.
        NotGguf, FormatError: as for a path.
    """
    from gguftool.model import open_model

    if not is_remote(spec):
        return open_model(spec, strict=strict, whole_set=whole_set, known=known)
    from gguftool.hub.place import OnDisk, locate
    from gguftool.hub.remote import open_there

    place = locate(spec)
    if isinstance(place, OnDisk):
        return open_model(place.path, strict=strict, whole_set=whole_set, known=known)
    return open_there(place, strict=strict, whole_set=whole_set, until=until, keep=keep)


@contextmanager
def opened(model: Model | str | os.PathLike[str], *, strict: bool = False) -> Iterator[Model]:
    """A model by path or address, closed at the end of the block; one that is open already stays open.

    Args:
        model: as for `open_any`, or an open model.
        strict: as for `open_any`.
    """
    from gguftool.model import Model

    if isinstance(model, Model):
        yield model
        return
    with open_any(model, strict=strict) as found:
        yield found


def open_source(spec: str | os.PathLike[str]) -> Source:
    """The bytes of one file by path or address, without reading it as GGUF."""
    if is_remote(spec):
        from gguftool.hub import remote

        return remote.source(spec)
    from gguftool.source import LocalFile

    return LocalFile(spec)


def entries(spec: str) -> list[Entry]:
    """The ``.gguf`` files of a bucket or folder that fsspec opens, and of the folders in it: addresses and sizes.

    Raises:
        MissingFile: no such folder.
        ToolFailed, UsageError: it cannot be listed.
    """
    from gguftool.hub.beyond import entries as found

    return found(spec)


def is_folder(spec: str | os.PathLike[str]) -> bool:
    """Whether an address is that of a folder in a bucket or on another machine, which fsspec lists; the store is asked.

    Raises:
        ToolFailed, UsageError: it cannot be asked.
    """
    from gguftool.hub.address import in_store

    if not in_store(spec):
        return False
    from gguftool.hub.beyond import is_folder as asked

    return asked(spec)


def stamp(spec: str) -> str | None:
    """Size and version of the file behind an address as one word, None where nobody says; one small answer or none."""
    from gguftool.hub.remote import stamp as asked

    return asked(spec)


def patient() -> AbstractContextManager[None]:
    """For the length of a block, wait as long as a server asks for that says it was asked too often."""
    from gguftool.hub.pace import patient as waiting

    return waiting()


def named(model: Model | str | os.PathLike[str]) -> str:
    """The path or address that a model goes by, without credentials."""
    from gguftool.model import Model
    from gguftool.wire import without_login

    return model.name if isinstance(model, Model) else without_login(os.fspath(model))


def file_of(model: Model | str | os.PathLike[str]) -> str:
    """The file of a model named by path or address, or open already, for what needs the data itself.

    Raises:
        UsageError, MissingFile: as `on_this_machine`.
    """
    return on_this_machine(named(model))


def local_path(spec: str | os.PathLike[str]) -> str | None:
    """Where the file of a model lies on this machine, be it in a folder, the Hugging Face cache or Ollama's store.

    None when it is not here and only the network has it.

    Raises:
        MissingFile: a folder without a model, a model that Ollama's store has not.
        UsageError: a folder of several models, an address nobody understands.
    """
    from gguftool.hub.place import here

    return here(spec)


def on_this_machine(spec: str | os.PathLike[str]) -> str:
    """As `local_path`, for what needs the data of a model, to run, edit or copy it.

    Raises:
        UsageError: only the network has it; the hint is the command that fetches it.
        MissingFile: as `local_path`.
    """
    if not is_remote(spec):
        path = os.fspath(spec)
        if not os.path.isdir(path):
            return path
        from gguftool.model import in_folder

        return in_folder(path)
    from gguftool.hub.place import on_this_machine as found

    return found(spec)
