"""Keys that no stage of a load looks at, so that most edits need no prediction (and need not even import one)."""

from __future__ import annotations

from gguftool.format.header import Field, Header
from gguftool.regex import regex

_IDLE = regex(
    r"general\.(?!architecture$|alignment$|file_type$|name$|type$|tensor_extra)[^\0]+"
    r"|(tokenizer\.chat_template|gguftool\.|quantize\.)[^\0]*"
    r"|[^\0]+\.(attention\.)?(kv_cache_type|rope\.freq_scale)"
)
"""Models' cards, templates, settings of samplers, our own keys and records."""


def all_the_same(old: Header, new: Header) -> bool:
    """Whether a load sees no difference between two headers of the same file."""
    return old.tensors is new.tensors and not changed_keys(old, new)


def changed_keys(old: Header, new: Header) -> set[str]:
    """Keys that differ and that a load looks at."""
    before, after = _first(old), _first(new)
    keys = {key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)}
    out = {key for key in keys if not _IDLE.fullmatch(key)}
    # The name is read and not used; only its type counts.
    name = after.get("general.name")
    return out - {"general.name"} if name is None or name.type_name == "str" else out


def _first(header: Header) -> dict[str, Field]:
    out: dict[str, Field] = {}
    for field in header.fields:
        out.setdefault(field.key, field)
    return out
