r"""Does the tokenizer cut as the vocabulary was made? Its own tokens, given as texts, must come back whole.

A vocabulary of byte-level BPE holds what its merges made of what its pre-tokenizer left together. Under another one
whole kinds of tokens cannot come any more: ``'s``, `` (``, ``12``, ``\n\n``. Which kinds, and how many of them, was
measured with the vocabularies that llama.cpp brings, each under its own pre-tokenizer and under others:
docs/smoke.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.model.vocab import NORMAL, vocabulary
from gguftool.records import dataclass
from gguftool.regex import regex

if TYPE_CHECKING:
    from gguftool.model import Model

BYTE_LEVEL = "gpt2"
SIGNS = r"[!-/:-@\[-`{-~]"
SORTS = (
    ("numbers", regex(r" ?[0-9]{2,3}")),
    ("contractions", regex(r"'(?:s|t|re|ve|m|ll|d)")),
    ("signs after a blank", regex(rf" {SIGNS}+")),
    ("rows of signs", regex(rf"{SIGNS}{{2,}}")),
    ("signs before a word", regex(rf"{SIGNS}[A-Za-z]+")),
    ("line ends", regex(r"(?=.*\n)\s{2,}", re.DOTALL)),
    ("words", regex(r" ?[A-Za-z]{2,}")),
    ("Chinese, Japanese and Korean", regex("[\u3040-\u9fff\uac00-\ud7a3]{2,}")),
    ("other letters", regex(r" ?[^\W\d_A-Za-z]{2,}")),
)  # fmt: skip
"""Kinds of tokens that pre-tokenizers keep or cut, the first that matches counts."""
EACH, LEAST = 30, 7
"""Tokens taken of each kind, and how many there must be for a verdict."""
LOST, LOST_LINES = 0.2, 0.75
"""Share of a kind that never comes, above which the pre-tokenizer is another one's. Sound vocabularies: at most 0.04;
of line ends 0.6, where runs of them were added by hand."""


@dataclass(frozen=True, slots=True)
class Own:
    """A token of the vocabulary: its kind, id and text."""

    sort: str
    token: int
    text: str

    __repr__ = short_repr


def own_tokens(model: Model) -> tuple[Own, ...]:
    """Some tokens of each kind, evenly over the vocabulary; () where it is no byte-level BPE."""
    v = vocabulary(model)
    if v.model != BYTE_LEVEL:
        return ()
    found: dict[str, list[Own]] = {}
    for token in range(v.listed):
        if v.type_of(token) != NORMAL:
            continue
        text = _plain(v.text(token))
        sort = next((name for name, pattern in SORTS if pattern.fullmatch(text)), None) if len(text) > 1 else None
        if sort is not None:
            found.setdefault(sort, []).append(Own(sort, token, text))
    return tuple(one for rows in found.values() for one in rows[:: max(1, len(rows) // EACH)][:EACH])


def lost(own: tuple[Own, ...], whole: Mapping[int, bool]) -> Iterator[tuple[str, int, int]]:
    """Kinds of which too many do not come back whole: name, how many, of how many.

    Args:
        own: the tokens.
        whole: by id, whether its text became this token alone.
    """
    for sort in dict.fromkeys(one.sort for one in own):
        asked = [whole[one.token] for one in own if one.sort == sort and one.token in whole]
        missing = len(asked) - sum(asked)
        limit = LOST_LINES if sort == "line ends" else LOST
        if len(asked) >= LEAST and missing > limit * len(asked):
            yield sort, missing, len(asked)


def _plain(text: str) -> str:
    """What a token of byte-level BPE stands for; "" where that is no text."""
    try:
        return bytes(_bytes()[c] for c in text).decode()
    except (KeyError, UnicodeDecodeError):
        return ""


@cache
def _bytes() -> dict[str, int]:
    """Byte by letter of byte-level BPE: printable ones are themselves, the others follow from 256 on."""
    shown = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [b for b in range(256) if b not in shown]
    return {chr(b): b for b in shown} | {chr(256 + n): b for n, b in enumerate(hidden)}
