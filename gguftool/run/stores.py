"""Folders where programs keep models: Hugging Face, Ollama, LM Studio, llama.cpp itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.files.disk import free_bytes
from gguftool.model.folder import is_gguf

MAX_FILES = 20_000
"""A folder with more entries is not searched to its end."""
LM_STUDIO = ("~/.lmstudio/models", "~/.cache/lm-studio/models")
LLAMA_CPP = "~/.cache/llama.cpp"


@dataclass(frozen=True, slots=True)
class Kept:
    """A model file in a store: path and bytes; ``whole`` False: a dead link or an unfinished download."""

    path: str
    size: int
    whole: bool = True

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Store:
    """One folder.

    Attributes:
        kind: ``Hugging Face``, ``Ollama``, ``LM Studio`` or ``llama.cpp``.
        path: the folder.
        models: what lies in it.
        free: bytes free on its disk.
        cut: there were too many files to look at all of them.
    """

    kind: str
    path: str
    models: tuple[Kept, ...]
    free: int
    cut: bool = False

    __repr__ = short_repr


def stores(hub: str, ollama: Sequence[str]) -> list[Store]:
    """The folders that exist.

    Args:
        hub: the cache of huggingface-hub.
        ollama: folders of Ollama.
    """
    llama = os.environ.get("LLAMA_CACHE") or LLAMA_CPP
    places = [
        ("Hugging Face", hub),
        *(("Ollama", place) for place in ollama),
        *(("LM Studio", place) for place in LM_STUDIO),
        ("llama.cpp", llama),
    ]
    out, seen = [], set()
    for kind, place in places:
        path = os.path.realpath(os.path.expanduser(place))
        if os.path.isdir(path) and path not in seen:
            seen.add(path)
            out.append(_look(kind, path))
    return out


def _look(kind: str, root: str) -> Store:
    models: list[Kept] = []
    count = 0
    for path in _walk(root):
        count += 1
        if count > MAX_FILES:
            break
        if (found := _kept(path, kind)) is not None:
            models.append(found)
    models.sort(key=lambda m: m.path)
    try:
        free = free_bytes(root)
    except OSError:
        free = 0
    return Store(kind, root, tuple(models), free, count > MAX_FILES)


def _walk(root: str) -> Iterator[str]:
    for folder, _, names in os.walk(root):
        for name in names:
            yield os.path.join(folder, name)


def _kept(path: str, kind: str) -> Kept | None:
    name = os.path.basename(path).lower()
    blob = kind == "Ollama" and name.startswith("sha256-")
    unfinished = name.endswith((".incomplete", ".part", ".partial", ".aria2", "-partial"))
    if not (name.endswith(".gguf") or blob or (unfinished and kind in ("Hugging Face", "llama.cpp", "LM Studio"))):
        return None
    try:
        found = os.stat(path)
    except OSError:
        return Kept(path, 0, False)
    if not stat.S_ISREG(found.st_mode):
        return None
    if blob and not is_gguf(path):
        return None
    return Kept(path, found.st_size, not unfinished)


def misplaced(store: Store) -> list[Kept]:
    """Files that LM Studio does not see: it wants publisher/repository/file.gguf."""
    if store.kind != "LM Studio":
        return []
    return [m for m in store.models if m.whole and len(os.path.relpath(m.path, store.path).split(os.sep)) != 3]
