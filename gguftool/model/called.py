"""What a model is called: names that are none, the repository that a path belongs to, the parts of a name.

A store's path is no name: the cache of huggingface-hub calls a folder by its commit, trainers call theirs
``checkpoint-500``.
"""

from __future__ import annotations

import os
import re

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError
from gguftool.reading import file_bytes
from gguftool.records import dataclass
from gguftool.regex import regex

_HASH = regex(r"(?:sha256[-:])?[0-9a-f]{20,64}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_TEMPORARY = regex(r"tmp[a-z0-9_]{6,10}")
"""As `tempfile.mkdtemp` makes them."""
_WORDS = frozenset(
    "ggml gguf hf safetensors pytorch model models weights converted conversion output outputs out result results tmp "
    "temp final merged merge snapshot snapshots checkpoint checkpoints ckpt epoch step last best latest saved save "
    "full lora qlora adapter hub cache download downloads input source src repo repository main master content data "
    "workspace new old test copy unknown none n/a 16bit 4bit 8bit bf16 f16 fp16 fp32 f32".split()
)
"""Words of folders; what is made of them and of numbers alone is no name."""
_BREAKS = regex(r"[\s._-]+")
_NUMBER = regex(r"v?\d+")
_CACHED = regex(r"(?:.*/)?models--(?P<name>[^/]+)/snapshots/(?P<commit>[^/]+)(?:/.*)?")
_LM_STUDIO = regex(r"(?:.*/)?\.?lm-?studio/models/(?P<name>[^/]+/[^/]+)(?:/.*)?")
_MODELSCOPE = regex(r"(?:.*/)?modelscope/(?:hub/)?(?:models/)?(?P<name>[^/]+/[^/]+)(?:/.*)?")
_REMOTE = regex(
    r"^\s*url\s*=\s*(?:https?://(?:[^@/\s]+@)?|git@)(?:huggingface\.co|hf\.co)[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?\s*$",
    re.M,
)
_GIT = os.path.join(".git", "config")
_LARGEST = 1 << 16
_MADE = regex(r"[-_.](?:gguf|ggml)$", re.I)
"""What a repository of files made for llama.cpp has behind the name of the model."""
_VERSION = regex(r"v\d+(?:\.\d+)*|\d.*")
_SPEAKS = regex(r"[\w.+-]{3,96}")


@dataclass(frozen=True, slots=True)
class Place:
    """The repository that a path belongs to.

    Attributes:
        repo: ``owner/name``; ``name`` alone for the few that have no owner.
        commit: its revision, "" where the path does not say it.
        hub: it is on the Hub, not only named as one there may be.
        told_by: what says so, in words.
    """

    repo: str
    commit: str = ""
    hub: bool = True
    told_by: str = ""

    __repr__ = short_repr

    @property
    def name(self) -> str:
        """The repository without its owner."""
        return self.repo.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Parts:
    """What the converter reads out of a name (`gguf-py/gguf/metadata.py`, b11434); "" for what is not in it."""

    basename: str = ""
    finetune: str = ""
    version: str = ""
    size_label: str = ""


def no_name(said: str) -> str:
    """Why `general.name` is none, in words; "" for a name."""
    plain = said.strip().lower()
    if not plain:
        return "is missing: programs show the name of the file"
    if _HASH.fullmatch(plain):
        return f"is {said[:16]!r}…, a commit and no name"
    if plain[0] in "./~\\":
        return f"is {said!r}, a path and no name"
    if plain in _WORDS or _TEMPORARY.fullmatch(plain):
        return f"is {said!r}, what a folder was called and no name"
    words = [w for w in _BREAKS.split(plain) if w]
    folders = [w for w in words if w in _WORDS]
    if not words or (folders and all(w in _WORDS or _NUMBER.fullmatch(w) for w in words)):
        return f"is {said!r}, what a folder was called and no name"
    return ""


def place_of(path: str) -> Place | None:
    """The repository that a folder or file lies in: a cache, a store with folders of owners, a clone; None: not said.

    Read are the path and ``.git/config``.
    """
    plain = os.path.abspath(path).replace(os.sep, "/")
    behind = os.path.realpath(path).replace(os.sep, "/") if os.path.islink(path) and os.path.isdir(path) else plain
    if found := _CACHED.fullmatch(plain) or _CACHED.fullmatch(behind):
        return Place(found["name"].replace("--", "/", 1), found["commit"], told_by="the Hub's cache")
    if found := _LM_STUDIO.fullmatch(plain):
        return Place(found["name"], hub=False, told_by="the folder of LM Studio")
    if found := _MODELSCOPE.fullmatch(plain):
        # A dot is not written as one there.
        return Place(found["name"].replace("___", "."), hub=False, told_by="the cache of ModelScope")
    folder = plain if os.path.isdir(plain) else os.path.dirname(plain)
    if not os.path.isfile(git := os.path.join(folder, _GIT)):
        return None
    try:
        config = file_bytes(git, _LARGEST).decode("utf-8", "replace")
    except GgufToolError:
        return None
    remote = _REMOTE.search(config)
    return Place(remote[1], told_by="the clone") if remote else None


def bare(name: str) -> str:
    """The name of a repository without its owner and without ``-GGUF`` behind it."""
    return _MADE.sub("", name.rpartition("/")[2])


def title(name: str) -> str:
    """``smollm2-135M`` as the converter writes names (`gguf-py/gguf/metadata.py:id_to_title`, b11434)."""
    words = name.strip().replace("-", " ").split()
    return " ".join(w if not w.islower() or _VERSION.fullmatch(w) else w.title() for w in words)


def parts(name: str, parameters: int) -> Parts:
    """What the converter reads out of the name of a repository.

    Args:
        name: ``owner/name`` or ``name``.
        parameters: elements of all tensors; 0 when unknown.
    """
    from gguf.metadata import Metadata

    _, _, basename, finetune, version, size_label = Metadata.get_model_id_components(bare(name), parameters)
    return Parts(basename or "", finetune or "", version or "", size_label or "")


def speaks(name: str) -> bool:
    """Whether a word is the name of a model: with a number or a hyphen in it, and not one of `no_name`."""
    return bool(_SPEAKS.fullmatch(name) and re.search(r"[-\d]", name) and not no_name(name))
