"""What lies in a Hugging Face folder, read once for all checks: names, config.json, index, headers of the weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from gguftool.build.folder.given import as_file, not_there
from gguftool.build.folder.problem import Problem
from gguftool.build.safetensors import Entry, is_lfs_pointer, read_header
from gguftool.errors import FormatError, GgufToolError, MissingFile, Unreadable
from gguftool.facts.converters import Registry, known, packaged
from gguftool.model.hfconfig import HfConfig
from gguftool.reading import file_bytes, from_json, json_file
from gguftool.records import dataclass, field
from gguftool.regex import regex
from gguftool.source import LocalFile

CONFIG = "config.json"
INDEX = "model.safetensors.index.json"
BIN_INDEX = "pytorch_model.bin.index.json"
PART = regex(r"(?P<stem>.+?)-(?P<no>[0-9]{1,6})-of-(?P<count>[0-9]{1,6})(?P<end>\.(?:safetensors|bin))")
_INDEX_LIMIT = 48 << 20
"""Bytes; the largest real ones have 20 million."""
_INDEX_NESTED = 1 << 10
"""Lists and objects in it; a real one has three."""
_MOST = 1 << 20
"""Tensors of all files together; with more the rest of the files stays unread."""
_BESIDE_TEXT = regex(
    r"mlp|vit\.|vpm\.|siglip2\.|conformer\.|merger\.|resampler\.|sound_encoder\.|sound_projection\.|speech_embeddings\."
    r"|.*?(?:visual\.|vision[._]|audio[._]|talker\.|token2wav\.|code2wav\.|projector\.|pre_mm_projector_norm"
    r"|image_newline|view_seperator|patch_embed|patch_merger\.|patch_merge_mlp\.|model\.connector\.)"
)
"""Names that no language model is made of (`conversion/base.py:TextModel.filter_tensors`, b11434)."""
_BESIDE_WORDS = (
    *"\nmlp \nvit. \nvpm. siglip2. conformer. merger. resampler. sound_ speech_embeddings. visual. vision audio "
    "talker. token2wav. code2wav. projector. pre_mm_ image_newline view_seperator patch_ connector.".split(" "),
    "attention.masked_bias",
    "attention.bias",
    "inv_freq",
)
"""Words of which one is in each of these names."""
_NOT_NEEDED = (".attention.masked_bias", ".attention.bias", ".rotary_emb.inv_freq")
"""Endings of names that are passed over (`ModelBase.prepare_tensors`)."""


@dataclass(frozen=True)
class Seen:
    """A folder as it was read.

    Attributes:
        path: the folder.
        names: all names in it, sorted.
        config: of config.json; an empty one when that is not there or cannot be read.
        index: tensor name -> file, of the index; {} when there is none or it cannot be read.
        headers: safetensors file -> its tensors; a file that cannot be read is not there.
        files: weight files the converter reads, sorted; those the index names when there is one.
        config_read: config.json is there and a JSON object.
        index_name: name of the index that counts, "" when there is none.
        total_size: bytes of all tensors as the index says; None when it does not.
        sizes: bytes of every file; what is no file, or a link that leads nowhere, is not in it.
        unread: what could not be read, and why: config.json, index, weights.
        registry: what the converter takes; None when there is none at hand.
        methods: quantised weights it takes.
        arguments: further arguments that the converter will get.
    """

    path: str
    names: tuple[str, ...]
    config: HfConfig
    index: Mapping[str, str]
    headers: Mapping[str, tuple[Entry, ...]]
    files: tuple[str, ...]
    config_read: bool = True
    index_name: str = ""
    total_size: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)
    unread: tuple[Problem, ...] = ()
    registry: Registry | None = None
    methods: frozenset[str] = frozenset()
    arguments: tuple[str, ...] = ()
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
    def architecture(self) -> str:
        """The name the converter goes by, "" when config.json says none."""
        return self.config.named(self.registry or known())

    @property
    def wants_projector(self) -> bool:
        """The converter is asked for the projector."""
        return "--mmproj" in self.arguments

    @property
    def lacks_mistral_common(self) -> bool:
        """The converter's environment has no mistral-common."""
        return "mistral_common" in (self.registry or packaged()).lacks

    @property
    def mistral(self) -> bool:
        """The converter is told that it is a folder in Mistral's own format."""
        return "--mistral-format" in self.arguments

    def takes(self, name: str) -> bool:
        """Whether the converter, or without one that of ``--setup``, takes a model of that architecture."""
        registry = self.registry or packaged()
        return name in (registry.projector if self.wants_projector else registry.text)

    def once(self, check: Callable[[Seen], Iterable[Problem]]) -> tuple[Problem, ...]:
        """What a check says, which is asked once."""
        key = f"{check.__module__}.{check.__qualname__}"
        if key not in self._read:
            self._read[key] = tuple(check(self))
        found: tuple[Problem, ...] = self._read[key]
        return found

    @property
    def only_adapter(self) -> bool:
        """A LoRA adapter without a model."""
        return self.has("adapter_config.json") and not self.has(CONFIG)

    @cached_property
    def whole(self) -> bool:
        """Whether the headers of all weights have been read, so that what is not there is missing."""
        there = bool(self.files) and all(n in self.headers for n in self.files)
        return there and all(n in self.sizes for n in set(self.index.values())) and not missing_parts(self.files)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The tensors of all files that the converter reads; a name may be there twice."""
        return tuple(entry for name in self.files for entry in self.headers.get(name, ()))

    @cached_property
    def tensors(self) -> Mapping[str, Entry]:
        """The tensors the converter reads, by name."""
        return {entry.name: entry for entry in self.entries}

    @cached_property
    def text(self) -> Mapping[str, Entry]:
        """Those of them that a language model is made of, by the name that the converter goes on with."""
        tensors = self.tensors
        if any(word in self.joined for word in _BESIDE_WORDS):
            tensors = {n: e for n, e in tensors.items() if not _BESIDE_TEXT.match(n) and not n.endswith(_NOT_NEEDED)}
        if "language_model." in self.joined:
            tensors = {n.replace("language_model.", ""): e for n, e in tensors.items()}
        return tensors

    @cached_property
    def joined(self) -> str:
        """All names of tensors, one a line: to find out at once that none holds a word."""
        return "\n".join(("", *self.tensors))

    @cached_property
    def ends(self) -> Mapping[str, Sequence[Entry]]:
        """Tensors of the language model by the last part of their names: ``weight``, ``qweight``."""
        out: dict[str, list[Entry]] = {}
        for name, entry in self.text.items():
            out.setdefault(name.rpartition(".")[2], []).append(entry)
        return out

    @cached_property
    def others(self) -> Mapping[str, tuple[Entry, ...]]:
        """Tensors of the safetensors files that the converter does not read, as far as they can be read."""
        names = [n for n in self.sizes if n.endswith(".safetensors") and n not in self.files]
        return dict(_headers(self.path, names, []))

    def some(self, entry: Entry, most: int) -> bytes:
        """Bytes out of the middle of a tensor of any safetensors file here.

        Raises:
            MissingFile, Unreadable: the file cannot be read any more.
        """
        name = next((n for n in self.files if n.rpartition("/")[2] == entry.file), entry.file)
        file = LocalFile(self.at(name))
        try:
            start = 8 + int.from_bytes(file.read_at(0, 8), "little") + entry.begin
            middle = max(0, entry.nbytes // 2 - most // 2)
            return file.read_at(start + middle, min(most, entry.nbytes - middle))
        finally:
            file.close()

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of the files that the converter reads."""
        return sum(self.sizes.get(n, 0) for n in self.files)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(self.names)


def beside_text(name: str) -> bool:
    """Whether no language model is made of a tensor of that name: one of an encoder, a projector, a voice."""
    return _BESIDE_TEXT.match(name) is not None


def read(path: str, registry: Registry | None, methods: Iterable[str], arguments: Sequence[str] = ()) -> Seen:
    """Read a folder.

    Raises:
        MissingFile: no such folder.
        Unreadable: it cannot be listed.
    """
    sizes: dict[str, int] = {}
    names = _listed(path, sizes)
    unread: list[Problem] = []
    config = _config(path, names, unread)
    own = "--mistral-format" in arguments
    index_name = "" if own else _which_index(names)
    index, total = _index(path, index_name, unread) if index_name else ({}, None)
    files = sorted(set(index.values())) if index else weight_files(names, "consolidated" if own else "model")
    _below(path, files, sizes)
    there = [n for n in files if n in sizes]
    return Seen(
        path=path,
        names=tuple(names),
        config=HfConfig(config or {}),
        index=index,
        headers=dict(_headers(path, there, unread)),
        files=tuple(there),
        config_read=config is not None,
        index_name=index_name if index else "",
        total_size=total,
        sizes=sizes,
        unread=tuple(unread),
        registry=registry,
        methods=frozenset(methods),
        arguments=tuple(arguments),
    )


def weight_files(names: Iterable[str], prefix: str = "model") -> list[str]:
    """The files the converter reads where there is no index: model*.safetensors, else pytorch_model*.bin."""
    files = sorted(n for n in names if n.startswith(prefix) and n.endswith(".safetensors"))
    return files or sorted(n for n in names if n.startswith("pytorch_model") and n.endswith(".bin"))


def missing_parts(files: Iterable[str]) -> dict[str, int]:
    """Of sets of files with numbers (``model-00001-of-00003.safetensors``) a part that is missing -> how many are."""
    sets: dict[tuple[str, int, str], set[int]] = {}
    for name in files:
        if part := PART.fullmatch(name):
            sets.setdefault((part["stem"], int(part["count"]), part["end"]), set()).add(int(part["no"]))
    out = {}
    for (stem, count, end), numbers in sets.items():
        start = 0 if 0 in numbers else 1  # some count from 0
        if len(numbers) < count:
            gone = next(n for n in range(start, start + count) if n not in numbers)
            out[f"{stem}-{gone:05d}-of-{count:05d}{end}"] = count - len(numbers)
    return out


def pointer(path: str, name: str) -> Problem:
    """That a file is a pointer of Git LFS."""
    return Problem("lfs-pointer", f"{path}: {name} is a Git LFS pointer", "git lfs pull")


def _listed(path: str, sizes: dict[str, int]) -> list[str]:
    try:
        with os.scandir(path) as found:
            names = []
            for entry in found:
                names.append(entry.name)
                _size(entry, sizes)
        return sorted(names)
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such folder", not_there(path)) from None
    except NotADirectoryError:
        raise as_file(path) from None
    except OSError as error:
        raise Unreadable(f"{path}: {(error.strerror or str(error)).lower()}") from None


def _size(entry: os.DirEntry[str], sizes: dict[str, int]) -> None:
    try:
        if entry.is_file():
            sizes[entry.name] = entry.stat().st_size
    except OSError:
        return


def _below(path: str, files: Iterable[str], sizes: dict[str, int]) -> None:
    """Sizes of files that an index names in folders below."""
    for name in files:
        inside = "/" in name and not os.path.isabs(name) and ".." not in name.split("/")
        if inside and os.path.isfile(os.path.join(path, name)):
            sizes[name] = os.path.getsize(os.path.join(path, name))


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


def _which_index(names: list[str]) -> str:
    """The index that the converter goes by (`ModelBase.index_tensors`)."""
    if INDEX in names:
        return INDEX
    safe = any(n.startswith("model") and n.endswith(".safetensors") for n in names)
    return BIN_INDEX if BIN_INDEX in names and not safe else ""


def _index(path: str, name: str, unread: list[Problem]) -> tuple[dict[str, str], int | None]:
    index = os.path.join(path, name)
    try:
        data = file_bytes(index, _INDEX_LIMIT)
        if data.count(b"{") + data.count(b"[") > _INDEX_NESTED:
            raise TypeError("not a list of names")
        found = from_json(data)
        files = {str(k): str(v) for k, v in found["weight_map"].items()}
        notes = found.get("metadata")
        total = notes.get("total_size") if isinstance(notes, dict) else None
        return files, int(total) if isinstance(total, (int, float)) and 0 <= total < 1 << 63 else None
    except (GgufToolError, ValueError, KeyError, TypeError, AttributeError):
        if is_lfs_pointer(index):
            unread.append(pointer(path, name))
        else:
            unread.append(Problem("bad-index", f"{index}: is not a readable index", "download it again"))
        return {}, None


def _headers(path: str, files: list[str], unread: list[Problem]) -> Iterator[tuple[str, tuple[Entry, ...]]]:
    read = 0
    for name in files:
        full = os.path.join(path, name)
        if not name.endswith(".safetensors"):
            if is_lfs_pointer(full):
                unread.append(pointer(path, name))
            continue
        if read > _MOST:
            words = f"{path}: its files hold more than the {_MOST:,} tensors that are read"
            unread.append(Problem("too-many", words, "is it one model?"))
            return
        try:
            entries = tuple(read_header(full))
        except GgufToolError as error:
            kind = error.kind if isinstance(error, FormatError) else "unreadable"
            unread.append(Problem(kind, str(error), error.hint))
            continue
        read += len(entries)
        yield name, entries
