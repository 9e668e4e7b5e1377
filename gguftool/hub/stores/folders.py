"""Stores that are folders of files with names: LM Studio, GPT4All, and llama.cpp's own cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from gguftool.hub.stores import huggingface
from gguftool.hub.stores.kept import Contents, Kept, Name, Walk

PARTS = (".part", ".downloadinprogress", ".incomplete", ".partial", ".tmp", ".crdownload")
"""Endings of a download that was not finished, behind the name that it will have."""
FRONT = "incomplete-"
"""What GPT4All puts in front of such a name (`ModelList::incompleteDownloadPath`)."""
ARIA = ".aria2"
"""A file of this name beside a download says that it was not finished (aria2c(1))."""
SIDES = (".etag", ".json", ".url")
"""Endings of small files that llama.cpp and jan write beside one that they fetched."""


def lm_studio(root: str) -> Contents:
    """The folder of LM Studio: publisher/repository/file.gguf."""
    return plain(root, lambda path: os.path.relpath(path, root))


def gpt4all(root: str) -> Contents:
    """The folder of GPT4All; it calls a model by the name of its file."""
    return plain(root, os.path.basename)


def llama_cpp(root: str) -> Contents:
    """The cache of llama.cpp: files of older builds, and of newer ones what lies as huggingface-hub lays it."""
    found = plain(root, os.path.basename, skip=huggingface.FOLDERS)
    other = huggingface.read(root)
    return Contents([*found.kept, *other.kept], [*found.unread, *other.unread], found.cut or other.cut)


def plain(root: str, called: Callable[[str], str], skip: tuple[str, ...] = ()) -> Contents:
    """Files below a folder.

    Args:
        root: the folder.
        called: what the program calls a file, by its path.
        skip: beginnings of names of folders in it that are laid out otherwise.
    """
    found = Contents()
    walk = Walk(found)
    below = [p for p in walk.files(root, follow=True) if not (skip and os.path.relpath(p, root).startswith(skip))]
    there = set(below)
    for path in below:
        if is_model(path):
            if not os.path.exists(path) or os.path.isfile(path):
                found.kept.append(entry(walk, path, Name(called(path), path), there))
        elif base := finished_name(path):
            found.kept += part(walk, path, Name(called(base), path), there)
    return found


def is_model(path: str) -> bool:
    """Whether a file is a model by its name."""
    return path.lower().endswith(".gguf") and not os.path.basename(path).startswith(FRONT)


def finished_name(path: str) -> str:
    """Path that a download will have when it is finished; "" for what is no download of a model."""
    folder, base = os.path.split(path)
    low = base.lower()
    if low.startswith(FRONT) and low.endswith(".gguf"):
        return os.path.join(folder, base[len(FRONT) :])
    for ending in PARTS:
        if low.endswith(f".gguf{ending}"):
            return path[: -len(ending)]
    return ""


def entry(walk: Walk, path: str, name: Name, there: Iterable[str]) -> Kept:
    """A model under its name, or a link whose data is gone."""
    file = walk.file(path)
    if file is None:
        return Kept("lost", path, (name,), group=name.text)
    aria = path + ARIA
    state = "part" if aria in there else "model"
    beside = tuple(p for p in (aria, *(path + end for end in SIDES)) if p in there)
    return Kept(state, file.path, (name,), file, beside=beside, group=name.text)


def part(walk: Walk, path: str, name: Name, there: Iterable[str]) -> list[Kept]:
    """A download that was not finished."""
    file = walk.file(path)
    if file is None:
        return []
    # jan keeps the address of the download beside it.
    base = finished_name(path)
    beside = tuple(p for p in (base + ".url", path + ARIA) if p in there)
    return [Kept("part", file.path, (name,), file, beside=beside, group=name.text)]
