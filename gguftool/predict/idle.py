"""Keys that no stage of a load looks at, so that most edits need no prediction (and need not even import one)."""

from __future__ import annotations

from itertools import compress, count
from operator import is_not

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
    keys = _edited(old.fields, new.fields)
    before, after = _first(old, keys), _first(new, keys)
    out = {key for key in keys if before.get(key) is not after.get(key) and not _IDLE.fullmatch(key)}
    # The name is read and not used; only its type counts.
    name = after.get("general.name")
    return out - {"general.name"} if name is None or name.type_name == "str" else out


def _edited(old: tuple[Field, ...], new: tuple[Field, ...]) -> set[str]:
    """Keys of the fields between the first and the last difference: no other key can have another first field."""
    least = min(len(old), len(new))
    start = next(compress(count(), map(is_not, old, new)), least)
    left = least - start
    end = min(left, next(compress(count(), map(is_not, reversed(old), reversed(new))), left))
    return {f.key for fields in (old, new) for f in fields[start : len(fields) - end]}


def _first(header: Header, keys: set[str]) -> dict[str, Field]:
    out: dict[str, Field] = {}
    for field in header.fields if keys else ():
        if field.key in keys:
            out.setdefault(field.key, field)
    return out
