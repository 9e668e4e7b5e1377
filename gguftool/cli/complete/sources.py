"""The names there are: out of our tables, and out of the model that the line names."""

from __future__ import annotations

import os
import re
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from gguftool.cli.complete.offer import Asked, Name, Names

if TYPE_CHECKING:
    from gguftool.format.header import Field, Header

MOST_BYTES = 32 << 20
"""More than any vocabulary takes; a longer header is completed as far as this."""
MOST_TOKENS = 4096
"""Special tokens that are looked at; models have a few hundred, some some thousand placeholders."""


# -- out of the model


def header(asked: Asked) -> Header | None:
    """The header of the first local model that the line names, before the cursor or behind it."""
    return _first_model(asked.words)


def _first_model(words: Iterable[str]) -> Header | None:
    from gguftool.format.parse import parse_bytes

    for word in words:
        path = _file(os.path.expandvars(os.path.expanduser(word)))
        if not path:
            continue
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES)
        if data[:4] == b"GGUF":
            return parse_bytes(data, strict=False, name=path)
    return None


def _file(path: str) -> str:
    """The file that a word names; of a folder its first model."""
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            found = [entry.path for entry in entries if entry.name.endswith(".gguf") and entry.is_file()]
        return min(found, default="")
    return path if os.path.isfile(path) else ""


def keys(asked: Asked) -> Iterable[Name]:
    """Its keys, each with its type."""
    from gguftool.format.types import value_type_name

    found = header(asked)
    return [(f.key, value_type_name(f.type)) for f in found.fields] if found else ()


def keys_of_other(asked: Asked) -> Iterable[Name]:
    """Keys of the model that ``--from`` names; else of any that the line names."""
    other = asked.ctx.params.get("source")
    found = _first_model([other] if other else asked.words)
    return [f.key for f in found.fields] if found else ()


def tensors(asked: Asked) -> Iterable[Name]:
    """Its tensors."""
    found = header(asked)
    return [t.name for t in found.tensors] if found else ()


def tensor_globs(asked: Asked) -> Iterable[Name]:
    """Its tensors, and one pattern for those that every layer has."""
    names = [str(name) for name in tensors(asked)]
    many = {re.sub(r"\.\d+\.", ".*.", name, count=1) for name in names}
    return [*names, *(name for name in many if "*" in name)]


def templates(asked: Asked) -> Iterable[Name]:
    """Names of its chat templates besides the one that has none."""
    prefix = "tokenizer.chat_template."
    found = header(asked)
    return [f.key.removeprefix(prefix) for f in found.fields if f.key.startswith(prefix)] if found else ()


def special_tokens(asked: Asked, name: str) -> Iterable[Name]:
    """Texts of its control and user-defined tokens."""
    from gguftool.model.tokenlist import token_list
    from gguftool.model.vocab import CONTROL, TOKENS, TYPES, USER_DEFINED

    found = header(asked)
    tokens, types = (found.get(TOKENS), found.get(TYPES)) if found else (None, None)
    if tokens is None or types is None or types.type_name != "arr[i32]" or tokens.type_name != "arr[str]":
        return ()
    kinds = types.value
    if not isinstance(kinds, array):
        return ()
    ids = [i for i, kind in enumerate(kinds) if kind in (CONTROL, USER_DEFINED)][:MOST_TOKENS]
    texts = token_list(tokens)
    return [texts.raw(i).decode(errors="surrogateescape") for i in ids if i < texts.count]


# -- out of our tables


def rules(asked: Asked) -> Iterable[Name]:
    """Ids of the rules with their first sentence, and the families."""
    from gguftool.lint.catalogue import described
    from gguftool.lint.rules import FAMILIES

    return [*((name, "a family") for name in FAMILIES), *((r.id, r.title) for r in described().values())]


def known_keys(asked: Asked) -> Iterable[Name]:
    """Keys that anybody reads, those under an architecture without it."""
    from gguftool.lint.explain import known_keys as known

    return known()


def architectures(asked: Asked) -> Iterable[Name]:
    """Architectures that llama.cpp knows."""
    from gguftool.facts.arch import names

    return names()


def cache_types(asked: Asked) -> Iterable[Name]:
    """KV cache types."""
    from gguftool.facts.cachetypes import CACHE_TYPES

    return CACHE_TYPES


def quants(asked: Asked) -> Iterable[Name]:
    """What a model can be quantised to."""
    from gguftool.build.ftypes import TARGETS

    return TARGETS


def tensor_types(asked: Asked) -> Iterable[Name]:
    """Types that a tensor can have."""
    from gguftool.format.types import TENSOR_TYPE_BY_NAME

    return TENSOR_TYPE_BY_NAME


def pre_tokenizers(asked: Asked) -> Iterable[Name]:
    """Names of ways to cut text."""
    from gguftool.model.vocab import names

    return names("pre")


def builds(asked: Asked) -> Iterable[Name]:
    """Builds whose loading code is known apart, and those that somebody ships, each with who."""
    from gguftool.facts import NUMBER, shipping, timeline

    found = {f"b{n}": "" for n in (timeline.oldest(), timeline.newest())}
    for s in shipping.shipped():
        if s.since == s.last:
            found[f"b{s.since}"] = f"{s.package} {s.version}"
    return [*found.items(), (f"b{NUMBER}", "the newest that gguftool knows")]


def llama_cpp_python(asked: Asked) -> Iterable[Name]:
    """Versions of that package, each with the build inside."""
    from gguftool.facts import shipping
    from gguftool.run.target import PYTHON

    return [(s.version, f"b{s.since}") for s in shipping.shipped() if s.package == PYTHON]


def conversations(asked: Asked) -> Iterable[Name]:
    """The standard conversations."""
    from gguftool.chat.conversations import STANDARD

    return [(name, talk.title) for name, talk in STANDARD.items()]


def symptoms(asked: Asked) -> Iterable[Name]:
    """What ails models, by name."""
    from gguftool.run.symptoms import symptoms as known

    return [(s.name, s.title) for s in known()]


def flags(asked: Asked) -> Iterable[Name]:
    """llama-server's options."""
    from gguftool.run.capabilities import known

    return known().by_name


def devices(asked: Asked) -> Iterable[Name]:
    """Devices whose memory bandwidth is known."""
    from gguftool.facts.data import load

    return [row["name"] for row in load("devices.json")]


def sampling(asked: Asked) -> Iterable[Name]:
    """Sampler settings that a model can bring."""
    from gguftool.edit.sampling import SAMPLING

    return SAMPLING


def special(asked: Asked) -> Iterable[Name]:
    """Short names of special tokens."""
    from gguftool.edit.special import SPECIAL

    return SPECIAL


def groups(asked: Asked) -> Iterable[Name]:
    """Groups of keys that are copied together."""
    from gguftool.edit.copied import GROUPS

    return GROUPS


def commands(asked: Asked) -> Iterable[Name]:
    """Our own commands."""
    from gguftool.cli.group import TABLE

    return [(entry.name, entry.about) for entry in TABLE]


# -- values of keys


def values(asked: Asked, name: str) -> Iterable[Name]:
    """What a key can be set to, where that is a list; ``name`` is a key, with its type or without."""
    from gguftool.edit.schema import TYPED

    typed = TYPED.match(name)
    key, kind = (typed["key"], typed["type"]) if typed else (name, "")
    found = next((names for ending, names in VALUES.items() if key == ending or key.endswith(f".{ending}")), None)
    if found is not None:
        return list(found(asked))
    return ("true", "false") if (kind or _type_of(asked, key)) == "bool" else ()


def value_types(asked: Asked) -> Iterable[Name]:
    """Types as ``KEY:TYPE=VALUE`` has them."""
    from gguftool.format.types import VALUE_TYPE_BY_NAME

    plain = [name for name in VALUE_TYPE_BY_NAME if name != "arr"]
    return [*plain, *(f"[{name}]" for name in plain)]


def _type_of(asked: Asked, key: str) -> str:
    from gguftool.edit.schema import architecture, key_types

    found = header(asked)
    arch = architecture(found) if found else ""
    field: Field | None = (found.get(key) or found.get(f"{arch}.{key}")) if found else None
    known: Sequence[str] = key_types(key, arch) or key_types(f"{arch}.{key}", arch)
    return field.type_name if field is not None else known[0] if known else ""


def _enum(key: str) -> list[Name]:
    from gguftool.facts.enums import numbers

    return [(str(number), name) for name, number in numbers(key).items() if number >= 0]


def _words(key: str) -> list[Name]:
    from gguftool.facts.enums import words

    return list(words(key))


def _file_types() -> list[Name]:
    from gguftool.format.types import FILE_TYPES

    return [(str(number), name) for number, name in FILE_TYPES.items()]


def _licences() -> Iterable[Name]:
    from gguftool.facts.licences import names

    return names()


def _tokenizers() -> Iterable[Name]:
    from gguftool.model.vocab import KINDS

    return KINDS


VALUES: dict[str, Names] = {
    "general.architecture": architectures,
    "general.file_type": lambda asked: _file_types(),
    "general.license": lambda asked: _licences(),
    "general.type": lambda asked: ("model", "adapter", "mmproj", "imatrix", "vocab"),
    "tokenizer.ggml.model": lambda asked: _tokenizers(),
    "tokenizer.ggml.pre": pre_tokenizers,
    "kv_cache_type": cache_types,
    "pooling_type": lambda asked: _enum("pooling_type"),
    "expert_gating_func": lambda asked: _enum("expert_gating_func"),
    "rope.scaling.type": lambda asked: _words("rope.scaling.type"),
    "hidden_activation": lambda asked: _words("hidden_activation"),
    "decision.type": lambda asked: _words("decision.type"),
}
"""Keys, or their ends under an architecture, whose values are a list."""
