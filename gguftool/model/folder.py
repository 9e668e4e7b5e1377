"""What lies in a folder: which of its files are one model, which lie beside a model."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from functools import lru_cache

from gguftool.errors import GgufToolError, MissingFile, Unreadable, UsageError
from gguftool.model.headers import Headers, headers_beside
from gguftool.model.model import Model
from gguftool.model.part import Part
from gguftool.model.role import ROLES, role, sidecar_by_name
from gguftool.model.shards import LIKELY, find, is_gguf, naming
from gguftool.records import dataclass, field
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word
from gguftool.source import Identity, LocalFile

LOOKED_INTO = 32
"""In a folder of more files their names alone say what they are."""
ALIKE = 8
"""Projectors of such a folder that are held against one model."""
_WORD = regex(r"[a-z]+|[0-9.]+")


FRONT = 1 << 16
"""Bytes in which a file says what it is."""


def gguf_files(folder: str) -> list[str]:
    """Paths of the ``.gguf`` files of a folder, sorted; without any, of what begins as GGUF under a name of a store.

    Raises:
        Unreadable: the folder cannot be listed.
    """
    try:
        everything = sorted(os.listdir(folder))
    except OSError as e:
        raise Unreadable(f"{folder}: {(e.strerror or str(e)).lower()}") from None
    names = [n for n in everything if n.lower().endswith(".gguf")]
    paths = [os.path.join(folder, n) for n in names or everything]
    # Some splitters and stores leave the ending away; then the magic has to say it.
    return paths if names else [p for p in paths if LIKELY.fullmatch(os.path.basename(p)) and is_gguf(p)]


def firsts(paths: Iterable[str]) -> list[str]:
    """One path for every model among files, by their names: of a set the first that is there."""
    found: dict[tuple[str, str, int], str] = {}
    for path in paths:
        said = naming(path)
        folder, base = os.path.split(path)
        key = (folder, base, 0) if said is None or said.count < 2 else (folder, said.stem, said.count)
        before = naming(found[key]) if key in found else None
        if before is None or said is None or said.no < before.no:
            found[key] = path
    return list(found.values())


def in_folder(path: str) -> str:
    """The file of the one model in a folder, or the first shard of its one set; a path that is no folder stays.

    Projectors, drafts and importance matrices lie beside a model and are none, by name or by content; a folder that
    holds one single file means this file, whatever it is.

    Raises:
        MissingFile: there is none.
        UsageError: there are several; the message lists them.
        Unreadable: the folder cannot be listed.
    """
    if not os.path.isdir(path):
        return path
    found = firsts(gguf_files(path))
    if not found:
        raise MissingFile(f"{path}: no .gguf file in this folder", what_is_in(path))
    models = [p for p in found if not sidecar_by_name(p)] or found
    if 1 < len(models) <= LOOKED_INTO:
        models = [p for p in models if not _is_sidecar(p)] or models
    if len(models) == 1:
        return models[0]
    paths = _set_of(models[0])
    if not set(models) <= set(paths):
        names = [os.path.basename(p) for p in models]
        listed = ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
        raise UsageError(f"{path}: holds {len(models)} models: {listed}", "name one of them")
    return paths[0]


def what_is_in(folder: str) -> str | None:
    """What helps with a folder that holds a model of another kind, or models in folders of its own."""
    from gguftool.model.otherkinds import held

    names = os.listdir(folder)
    endings = {os.path.splitext(n)[1].lower() for n in names}
    if "config.json" in names and endings & {".safetensors", ".bin", ".pth"}:
        return f"it holds a Hugging Face model: {gguftool('convert', path_word(folder))}"
    other = held(folder)
    if other is None and any(_holds_gguf(os.path.join(folder, name)) for name in names[:LOOKED_INTO]):
        return f"models lie in folders below it: {gguftool('scan', path_word(folder))}"
    return f"it holds {other.what}: {other.way}" if other is not None else None


def _holds_gguf(path: str) -> bool:
    try:
        return any(name.lower().endswith(".gguf") for name in os.listdir(path))
    except OSError:
        return False


def projectors_beside(m: Model) -> tuple[list[str], bool]:
    """Multimodal projectors in the folder of a model.

    Returns:
        Their paths, and whether the model is the only one there, so that they must be meant for it.
    """
    if "://" in m.name:
        return [], True
    try:
        here = _listed(os.path.dirname(m.name) or ".")
    except GgufToolError:
        return [], True
    known = headers_beside(m.kept)
    many = len(here.models) + len(here.projectors) > LOOKED_INTO
    named = _others(m, _alike(m.name, here.projectors) if many else here.projectors)
    if many and len(here.models) > len(m.parts):
        return [p for p in named if _is_projector(p, here, known)], False
    unnamed = _others(m, here.models)
    found = [p for p in (*named, *unnamed) if _is_projector(p, here, known)]
    return found, all(p in found for p in unnamed)


@dataclass(frozen=True, slots=True)
class _Folder:
    """What lies in a folder by its names, of a set the first shard; what else stands beside a model is left out."""

    projectors: tuple[str, ...]
    models: tuple[str, ...]
    told: dict[tuple[str, Identity], bool] = field(default_factory=dict)


QUIET = 2_000_000_000
"""Nanoseconds after which the time of a folder tells whether it changed again."""


def _listed(folder: str) -> _Folder:
    """As it is now; of the last folders it is remembered, for of many models in one each asks."""
    try:
        found = os.stat(folder)
    except OSError:
        return _sorted_out(folder)
    quiet = time.time_ns() - found.st_mtime_ns > QUIET
    return _remembered(folder, found.st_dev, found.st_ino, found.st_mtime_ns) if quiet else _sorted_out(folder)


@lru_cache(2)
def _remembered(folder: str, device: int, inode: int, changed: int) -> _Folder:
    return _sorted_out(folder)


def _sorted_out(folder: str) -> _Folder:
    found: dict[str, list[str]] = {}
    for path in firsts(gguf_files(folder)):
        found.setdefault(sidecar_by_name(path), []).append(path)
    return _Folder(tuple(found.get("mmproj", ())), tuple(found.get("", ())))


def _others(m: Model, paths: Iterable[str]) -> list[str]:
    """Those that are no file of the model, by whatever name."""
    names = {part.name for part in m.parts}
    mine = {part.source.identity[:2] for part in m.parts if isinstance(part.source, LocalFile)}
    return [p for p in paths if p not in names and _inode(p) not in mine]


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _alike(path: str, others: Sequence[str]) -> Sequence[str]:
    """Of very many files those that are named most like a model."""
    if len(others) <= ALIKE:
        return others
    words = set(_WORD.findall(os.path.basename(path).lower()))
    return sorted(others, key=lambda p: -len(words & set(_WORD.findall(os.path.basename(p).lower()))))[:ALIKE]


def _alone(path: str, known: Headers | None = None) -> Model | None:
    """One file by itself, its header as far as it can be read; None when that is not at all."""
    try:
        source = LocalFile(path)
    except GgufToolError:
        return None
    try:
        return Model((Part(path, source, (known or Headers()).parsed(source)),))
    except GgufToolError:
        source.close()
        return None


def _is_sidecar(path: str) -> bool:
    m = _alone(path)
    if m is None:
        return False
    with m:
        return not ROLES[role(m)].runs


def _is_projector(path: str, here: _Folder, known: Headers) -> bool:
    """Asked for each model of a folder anew, and answered once for a file that stays what it is."""
    # The vocabulary of a model takes long to walk; what is a projector says so in its first keys.
    try:
        found = os.stat(path)
    except OSError:
        return False
    if not stat.S_ISREG(found.st_mode):  # a pipe has no end, and nobody at the other side
        return False
    key = path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
    if key not in here.told:
        here.told[key] = _tells(path, known)
    return here.told[key]


def _tells(path: str, known: Headers) -> bool:
    m = _alone(path, known) if _begins_with(path, (b"clip", b"mmproj")) else None
    if m is None:
        return False
    with m:
        return role(m) == "mmproj"


def _begins_with(path: str, words: Sequence[bytes]) -> bool:
    try:
        with open(path, "rb") as f:
            head = f.read(FRONT)
    except OSError:
        return False
    return any(word in head for word in words)


def _set_of(path: str) -> list[str]:
    """The shards there are of the set that ``path`` belongs to."""
    m = _alone(path)
    if m is None:
        return []
    with m:
        found = find(path, m.header)
    return [] if found is None else [p for p in found.paths if p is not None]
