"""A Hugging Face folder as the source of a GGUF file: its raw JSON, without transformers.

The raw files matter: configuration classes change values while they load them (llama.cpp issue 15867).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from gguftool.brief import short_repr
from gguftool.chat.infolder import ADDITIONAL, JINJA, LEGACY, PROCESSORS, Templates, templates
from gguftool.errors import MissingFile, Unreadable, UsageError
from gguftool.model.card import NAME as CARD
from gguftool.model.card import Card, read_card
from gguftool.model.hfconfig import HfConfig
from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass, field

FILES = (
    "config.json",
    "tokenizer_config.json",
    "generation_config.json",
    "special_tokens_map.json",
    JINJA,
    LEGACY,
    *PROCESSORS,
    CARD,
)
"""What is read, when it is there; only ``config.json`` must be."""
MODULES = "modules.json"
EMBEDDING = (MODULES, "config_sentence_transformers.json")
"""Of a model made for sentence-transformers; `module_files` names the rest."""
TOKENIZER = "tokenizer.json"
TOKENIZER_LIMIT = 64 << 20
"""Bytes of it; Gemma's has 33 MB."""
CONTEXT = (
    "max_position_embeddings",
    "n_ctx",
    "n_positions",
    "max_length",
    "max_sequence_length",
    "model_max_length",
    "max_seq_len",
    "seq_length",
)
"""Names of the trained context length, the converter's first (`conversion/base.py:set_gguf_parameters`, b11434)."""
MOST_TEMPLATES = 64
LARGEST = 32 << 20
"""Bytes of one file; the largest real tokenizer_config.json has about 1 MB."""


@dataclass(frozen=True)
class HfFolder:
    """The source of a model.

    Attributes:
        name: folder or repository, for messages.
        config: ``config.json`` as it stands there.
        tokenizer: ``tokenizer_config.json``; {} when absent.
        generation: ``generation_config.json``; {} when absent.
        special: ``special_tokens_map.json``; {} when absent.
        jinja: ``chat_template.jinja``; None when absent.
        legacy: what ``chat_template.json`` says.
        additional: texts in ``additional_chat_templates`` by name.
        names: of the files in the folder, as far as they are known.
        unread: files that are there but could not be read, with the reason.
        modules: entries of ``modules.json``; () when absent.
        inside: further JSON objects by path in the folder: those of the modules, ``config_sentence_transformers.json``.
        path: the folder, None when the files came from elsewhere.
        card: its README.md; None when absent.
    """

    name: str
    config: Mapping[str, Any]
    tokenizer: Mapping[str, Any] = field(default_factory=dict)
    generation: Mapping[str, Any] = field(default_factory=dict)
    special: Mapping[str, Any] = field(default_factory=dict)
    jinja: str | None = None
    legacy: object = None
    additional: Mapping[str, str] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    unread: Mapping[str, str] = field(default_factory=dict)
    modules: tuple[Mapping[str, Any], ...] = ()
    inside: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    path: str | None = None
    card: Card | None = None

    __repr__ = short_repr

    @cached_property
    def post_processor(self) -> Mapping[str, Any] | None:
        """What ``tokenizer.json`` puts around a text; None when it is not at hand. Read when asked for: it is large."""
        whole = self.inside.get(TOKENIZER)
        if whole is None and self.path is not None:
            data = _read(os.path.join(self.path, TOKENIZER), TOKENIZER_LIMIT)
            whole = _object(TOKENIZER, data, {}, TOKENIZER_LIMIT) if data is not None else None
        found = whole.get("post_processor") if whole is not None else None
        return found if isinstance(found, Mapping) else None

    @cached_property
    def text(self) -> Mapping[str, Any]:
        """The language model's part of the configuration, laid over the rest, as the converter does."""
        return HfConfig(self.config).text

    def number(self, *names: str) -> int | float | None:
        """The first of these names that has a number in the configuration."""
        for name in names:
            value = self.text.get(name)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return value
        return None

    @property
    def context_length(self) -> int | None:
        """Trained context length, None when the configuration names none."""
        value = self.number(*CONTEXT)
        return value if isinstance(value, int) and value > 0 else None

    @cached_property
    def rope(self) -> Mapping[str, Any]:
        """RoPE parameters of full-attention layers: ``rope_theta``, ``rope_type``, ``factor`` …"""
        for name in ("rope_parameters", "rope_scaling"):
            value = self.text.get(name)
            if isinstance(value, Mapping):
                full = value.get("full_attention", value)
                out = dict(full) if isinstance(full, Mapping) else {}
                if "rope_type" not in out and isinstance(out.get("type"), str):
                    out["rope_type"] = out["type"]
                return out
        return {}

    @property
    def rope_theta(self) -> float | None:
        """RoPE base, None when the configuration names none."""
        value = self.rope.get("rope_theta")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        named = self.number(
            "global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base"
        )
        return None if named is None else float(named)

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Ids that end a generation: those of the generation configuration, else of the configuration."""
        for source in (self.generation, self.text, self.config):
            value = source.get("eos_token_id")
            ids = value if isinstance(value, list) else [value]
            found = tuple(i for i in ids if isinstance(i, int) and not isinstance(i, bool) and i >= 0)
            if found:
                return found
        return ()

    def special_text(self, role: str) -> str | None:
        """Text of ``bos``, ``eos``, ``unk`` or ``pad`` by the tokenizer's files; None when they name none."""
        for source in (self.tokenizer, self.special):
            value = source.get(f"{role}_token")
            if isinstance(value, Mapping):
                value = value.get("content")
            if isinstance(value, str):
                return value
        return None

    @cached_property
    def templates(self) -> Templates:
        """The chat template in use, and the one the converter writes."""
        return templates(self.names, self.tokenizer or None, self.jinja, self.legacy, self.additional)

    @property
    def chat_template(self) -> str | None:
        """The default chat template that training and transformers take."""
        return self.templates.used.text if self.templates.used else None


def read_folder(path: str | os.PathLike[str]) -> HfFolder:
    """Read a folder as `transformers` saves it, or the ``config.json`` in it.

    Raises:
        MissingFile: no such folder, or no config.json in it.
        Unreadable: the system refuses.
        UsageError: config.json is not JSON, or is no object.
    """
    folder = os.fspath(path)
    if os.path.basename(folder) == "config.json":
        folder = os.path.dirname(folder) or "."
    if not os.path.isdir(folder):
        raise MissingFile(f"{folder}: no such folder", "--against takes the folder with the source model's config.json")
    files = {n: data for n in (*FILES, *EMBEDDING) if (data := _read(os.path.join(folder, n))) is not None}
    more = (*module_files(files), *_additional(folder))
    files |= {n: data for n in more if (data := _read(os.path.join(folder, n))) is not None}
    return from_files(folder, files, folder)


def module_files(files: Mapping[str, bytes]) -> list[str]:
    """The files of the modules that ``modules.json`` among these names, each in a folder beside it."""
    paths = [str(entry.get("path")) for entry in _entries(files.get(MODULES))]
    return [f"{path}/config.json" for path in paths if path and os.path.basename(path) == path and path != ".."]


def _additional(folder: str) -> list[str]:
    """Named templates beside chat_template.jinja."""
    try:
        names = sorted(os.listdir(os.path.join(folder, ADDITIONAL)))
    except OSError:
        return []
    return [f"{ADDITIONAL}/{n}" for n in names if n.endswith(".jinja")][:MOST_TEMPLATES]


def _read(path: str, limit: int = LARGEST) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(limit + 1)
    except FileNotFoundError:
        return None
    except OSError as e:
        raise Unreadable(f"{path}: {(e.strerror or str(e)).lower()}") from None


def from_files(name: str, files: Mapping[str, bytes], path: str | None = None) -> HfFolder:
    """A source from the bytes of its files, by file name (`FILES`, `EMBEDDING`).

    Args:
        name: for messages.
        files: bytes by path in the folder.
        path: the folder, for what is read on demand.

    Raises:
        MissingFile: config.json is not among them.
        UsageError: config.json is not JSON, or is no object.
    """
    if "config.json" not in files:
        raise MissingFile(f"{name}: no config.json in this folder", "a Hugging Face model folder has one")
    unread: dict[str, str] = {}
    parsed = {n: _object(n, data, unread) for n, data in files.items() if n.endswith(".json") and n != MODULES}
    if "config.json" in unread:
        raise UsageError(f"{name}: config.json {unread['config.json']}")
    jinja = {n: data.decode("utf-8", "replace") for n, data in files.items() if n.endswith(".jinja")}
    return HfFolder(
        name,
        parsed["config.json"],
        parsed.get("tokenizer_config.json", {}),
        parsed.get("generation_config.json", {}),
        parsed.get("special_tokens_map.json", {}),
        jinja.get(JINJA),
        parsed.get(LEGACY, {}).get("chat_template"),
        {os.path.basename(n).removesuffix(".jinja"): text for n, text in jinja.items() if n != JINJA},
        frozenset(os.path.basename(n) for n in files),
        unread,
        _entries(files.get(MODULES)),
        {n: found for n, found in parsed.items() if n not in FILES},
        path,
        read_card(files[CARD][:LARGEST].decode("utf-8", "replace")) if CARD in files else None,
    )


def _entries(data: bytes | None) -> tuple[Mapping[str, Any], ...]:
    """The modules in ``modules.json``, a list; () when it is none."""
    try:
        value = from_json(data) if data is not None and len(data) <= LARGEST else []
    except Malformed:
        return ()
    return tuple(x for x in value if isinstance(x, Mapping)) if isinstance(value, list) else ()


def _object(name: str, data: bytes, unread: dict[str, str], limit: int = LARGEST) -> dict[str, Any]:
    if len(data) > limit:
        unread[name] = f"is larger than {limit >> 20} MiB"
        return {}
    try:
        value = from_json(data)
    except Malformed as e:
        unread[name] = str(e)
        return {}
    if not isinstance(value, dict):
        unread[name] = "is no JSON object"
        return {}
    return value
