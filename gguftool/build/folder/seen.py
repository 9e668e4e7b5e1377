"""What lies in a Hugging Face folder, read once for all checks: names, config.json, index, headers of the weights."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from gguftool.build.folder.problem import Problem
from gguftool.build.safetensors import Entry, is_lfs_pointer, read_header
from gguftool.elsewhere import meant
from gguftool.errors import FormatError, GgufToolError, MissingFile, Unreadable
from gguftool.model.hfconfig import HfConfig
from gguftool.reading import json_file

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Seen:
    """A folder as it was read.

    Attributes:
        path: the folder.
        names: all names in it, sorted.
        config: of config.json; an empty one when that is not there or cannot be read.
        index: tensor name -> file, of ``model.safetensors.index.json``; {} when there is none or it cannot be read.
        headers: safetensors file -> its tensors; a file that cannot be read is not there.
        files: weight files the converter reads, sorted; those the index names when there is one.
        config_read: config.json is there and a JSON object.
        unread: what could not be read, and why: config.json, index, weights.
        supported: architecture names the converter knows; None when they are not known.
        methods: quantised weights it takes.
    """

    path: str
    names: tuple[str, ...]
    config: HfConfig
    index: Mapping[str, str]
    headers: Mapping[str, tuple[Entry, ...]]
    files: tuple[str, ...]
    config_read: bool = True
    unread: tuple[Problem, ...] = ()
    supported: frozenset[str] | None = None
    methods: frozenset[str] = frozenset()
    _read: dict[str, Any] = field(default_factory=dict, repr=False)

    def has(self, name: str) -> bool:
        """Whether there is something of that name."""
        return name in self._names

    def at(self, name: str) -> str:
        """The path of a name."""
        return os.path.join(self.path, name)

    def json(self, name: str) -> Any:
        """The value of a JSON file of the folder, read once; None when it is not there or cannot be read."""
        if name not in self._read:
            try:
                self._read[name] = json_file(self.at(name)) if self.has(name) else None
            except GgufToolError:
                self._read[name] = None
        return self._read[name]

    @property
    def only_adapter(self) -> bool:
        """A LoRA adapter without a model."""
        return self.has("adapter_config.json") and not self.has(CONFIG)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The tensors of all files that the converter reads; a name may be there twice."""
        return tuple(entry for name in self.files for entry in self.headers.get(name, ()))

    @cached_property
    def tensors(self) -> Mapping[str, Entry]:
        """The tensors the converter reads, by name."""
        return {entry.name: entry for entry in self.entries}

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of the files that the converter reads."""
        return sum(os.path.getsize(self.at(n)) for n in self.files if os.path.isfile(self.at(n)))

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.names)


def read(path: str, supported: Iterable[str] | None, methods: Iterable[str]) -> Seen:
    """Read a folder.

    Raises:
        MissingFile: no such folder.
        Unreadable: it cannot be listed.
    """
    names = _listed(path)
    unread: list[Problem] = []
    config = _config(path, names, unread)
    index = _index(path, names, unread)
    files = sorted(set(index.values()) & set(names)) if index else weight_files(names)
    return Seen(
        path=path,
        names=tuple(names),
        config=HfConfig(config or {}),
        index=index,
        headers=_headers(path, files, unread),
        files=tuple(files),
        config_read=config is not None,
        unread=tuple(unread),
        supported=None if supported is None else frozenset(supported),
        methods=frozenset(methods),
    )


def weight_files(names: Iterable[str]) -> list[str]:
    """The files the converter reads where there is no index: model*.safetensors, else pytorch_model*.bin."""
    files = sorted(n for n in names if n.startswith("model") and n.endswith(".safetensors"))
    return files or sorted(n for n in names if n.startswith("pytorch_model") and n.endswith(".bin"))


def pointer(path: str, name: str) -> Problem:
    """That a file is a pointer of Git LFS."""
    return Problem("lfs-pointer", f"{path}: {name} is a Git LFS pointer", "git lfs pull")


def _listed(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such folder", meant(path)) from None
    except NotADirectoryError:
        raise Unreadable(f"{path}: is a file", "name the folder with config.json in it") from None
    except OSError as error:
        raise Unreadable(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _config(path: str, names: list[str], unread: list[Problem]) -> dict[str, object] | None:
    if CONFIG not in names:
        return None
    try:
        found = json_file(os.path.join(path, CONFIG))
        if isinstance(found, dict):
            return found
    except GgufToolError:
        if is_lfs_pointer(os.path.join(path, CONFIG)):
            unread.append(pointer(path, CONFIG))
            return None
    unread.append(Problem("bad-config", f"{path}: config.json is not a JSON object", "download it again"))
    return None


def _index(path: str, names: list[str], unread: list[Problem]) -> dict[str, str]:
    if INDEX not in names:
        return {}
    index = os.path.join(path, INDEX)
    try:
        return {str(k): str(v) for k, v in json_file(index)["weight_map"].items()}
    except (GgufToolError, KeyError, TypeError, AttributeError):
        unread.append(Problem("bad-index", f"{index}: is not a readable index", "download it again"))
        return {}


def _headers(path: str, files: list[str], unread: list[Problem]) -> dict[str, tuple[Entry, ...]]:
    found = {}
    for name in files:
        full = os.path.join(path, name)
        if name.endswith(".safetensors"):
            try:
                found[name] = tuple(read_header(full))
            except GgufToolError as error:
                kind = error.kind if isinstance(error, FormatError) else "unreadable"
                unread.append(Problem(kind, str(error), error.hint))
        elif is_lfs_pointer(full):
            unread.append(pointer(path, name))
    return found
