"""Models that are named by address: the Hugging Face Hub, any web server, the local store of Ollama.

Only this room calls the network. A remote model is read by range requests, its headers only, never downloaded whole.
Credentials go to the host they belong to and to no other.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.source import Source

SCHEMES = ("hf://", "https://", "http://", "ollama://")


def is_remote(spec: object) -> TypeGuard[str]:
    """Whether ``spec`` is an address and not a path."""
    return isinstance(spec, str) and spec.startswith(SCHEMES)


def open_any(spec: str | os.PathLike[str], *, strict: bool = True, whole_set: bool = True) -> Model:
    """Open a model by path or address; what every command calls for its MODEL.

    Args:
        spec: a path (see `gguftool.model.open_model`), ``hf://owner/repo/file.gguf``, ``hf://owner/repo:Q4_K_M``,
            ``https://…/x.gguf`` or ``ollama://name:tag``.
        strict: raise at the first fault in a header or at a missing shard; else note it.
        whole_set: follow the shard keys to the other files.

    Raises:
        MissingFile: no such file, here or there.
        UsageError: an address nobody understands.
        ToolFailed: the network or the server failed.
        NotGguf, FormatError: as for a path.
    """
    if is_remote(spec):
        return open_remote(str(spec), strict=strict, whole_set=whole_set)
    from gguftool.model import open_model

    return open_model(spec, strict=strict, whole_set=whole_set)


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


def open_remote(spec: str, *, strict: bool = True, whole_set: bool = True) -> Model:
    """As `open_any`, for addresses only."""
    from gguftool.hub import remote

    return remote.open_remote(spec, strict=strict, whole_set=whole_set)


def open_source(spec: str | os.PathLike[str]) -> Source:
    """The bytes of one file by path or address, without reading it as GGUF."""
    if is_remote(spec):
        from gguftool.hub import remote

        return remote.source(str(spec))
    from gguftool.source import LocalFile

    return LocalFile(spec)


def local_path(spec: str | os.PathLike[str]) -> str | None:
    """Where the file of an address lies on this machine (Hugging Face cache, Ollama store); a path is returned as is.

    None when it is not here and only the network has it.
    """
    if not is_remote(spec):
        return os.fspath(spec)
    from gguftool.hub import remote

    return remote.local_path(str(spec))
