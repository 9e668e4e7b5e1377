"""The tokenizer of a model: what it is, its special tokens, what ends an answer."""

from __future__ import annotations

from collections import Counter

from gguftool.brief import short_repr
from gguftool.model import Model
from gguftool.model.vocab import ID_KEYS, vocabulary
from gguftool.records import dataclass

SHOWN = 32
"""Tokens that end an answer, and bytes of a token, that are told."""


@dataclass(frozen=True, slots=True)
class Special:
    """One special token.

    Attributes:
        role: ``bos``, ``eos`` …
        id: as llama.cpp takes it.
        text: of the token; None: the id is none of the vocabulary.
        stated: the file says so; else it is what llama.cpp takes by itself.
    """

    role: str
    id: int
    text: str | None
    stated: bool

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Tokens:
    """A tokenizer.

    Attributes:
        model: value of `tokenizer.ggml.model`; "": none.
        kind: what that is to llama.cpp: ``BPE``, ``SPM`` …; "": it does not know it.
        pre: value of `tokenizer.ggml.pre`; "": none.
        size: number of tokens; None: there is no list.
        types: tokens by their type, as numbers (`gguftool dump --tokens` has the names).
        merges: number of merges.
        special: special tokens.
        ends: tokens that end an answer, each with its text.
        add_bos, add_eos: what is put around a text.
    """

    model: str
    kind: str
    pre: str
    size: int | None
    types: tuple[tuple[int, int], ...]
    merges: int
    special: tuple[Special, ...]
    ends: tuple[tuple[int, str], ...]
    add_bos: bool
    add_eos: bool

    __repr__ = short_repr


def tokens(m: Model) -> Tokens | None:
    """The tokenizer of a model; None: it has none."""
    v = vocabulary(m)
    if v.model is None and not v.count:
        return None
    n = v.count or 0
    merges = m.fields.get("tokenizer.ggml.merges")
    special = []
    for role in ID_KEYS:
        found = v.special(role)
        if found is not None:
            text = v.text(found)[:SHOWN] if 0 <= found < n else None
            special.append(Special(role, found, text, v.stored(role) is not None))
    ends = tuple((i, v.text(i)[:SHOWN]) for i in sorted(v.eog)[:SHOWN] if 0 <= i < n)
    types = tuple(sorted(Counter(v.types).items()))
    return Tokens(
        model=v.model or "",
        kind=v.kind.name if v.kind is not None else "",
        pre=v.pre or "",
        size=v.count,
        types=types,
        merges=0 if merges is None else merges.count or 0,
        special=tuple(special),
        ends=ends,
        add_bos=v.add_bos,
        add_eos=v.add_eos,
    )
