"""The tokenizer of one model as llama.cpp b11434 would set it up: kind, special ids, end-of-generation set.

Tokens stay bytes; of the 262,144 of a large vocabulary only the ones asked for become text. Facts: `llama-vocab.cpp:
llama_vocab::impl::load` (b11434); names are data (`gguftool/facts/data/vocabulary.json`).
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.format.header import LONG, Field
from gguftool.format.types import ARR, STR
from gguftool.model.tokenlist import TokenList, token_list
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.model.model import Model

UNDEFINED, NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(7)
"""Token types as `tokenizer.ggml.token_type` holds them."""

TOKENS = "tokenizer.ggml.tokens"
TYPES = "tokenizer.ggml.token_type"
SCORES = "tokenizer.ggml.scores"
MERGES = "tokenizer.ggml.merges"


@dataclass(frozen=True, slots=True)
class Kind:
    """One value of `tokenizer.ggml.model`: algorithm and the defaults of ids that a file does not name."""

    name: str
    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    sep: int | None = None
    pad: int | None = None
    mask: int | None = None
    add_bos: bool = False
    add_eos: bool = False

    __repr__ = short_repr


KINDS = {
    "llama": Kind("SPM", bos=1, eos=2, unk=0, add_bos=True),
    "bert": Kind("WPM", bos=101, unk=100, sep=102, pad=0, mask=103, add_bos=True),
    "gpt2": Kind("BPE", bos=11, eos=11),
    "hybriddna": Kind("BPE", bos=11, eos=11),
    "whitespace": Kind("BPE", bos=11, eos=11),
    "gemma4": Kind("BPE", add_bos=True),
    "t5": Kind("UGM", eos=1, unk=2, pad=0, add_eos=True),
    "rwkv": Kind("RWKV"),
    "plamo2": Kind("PLaMo2", bos=1, eos=2, unk=0, pad=3),
    "test": Kind("TEST"),
    "no_vocab": Kind("none"),
    "none": Kind("none"),
}
"""`tokenizer.ggml.model` -> what it means."""

ADD_BOS_PRE = frozenset(
    "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken chameleon".split()
)
"""Pre-tokenizers that switch add_bos on when the file does not say."""
NO_BOS_PRE = frozenset({"chatglm-bpe", "glm4", "glm5"})
"""Pre-tokenizers without a default BOS."""

ID_KEYS = {
    "bos": "bos_token_id",
    "eos": "eos_token_id",
    "eot": "eot_token_id",
    "eom": "eom_token_id",
    "unk": "unknown_token_id",
    "sep": "seperator_token_id",
    "pad": "padding_token_id",
    "mask": "mask_token_id",
    "fim_pre": "fim_pre_token_id",
    "fim_suf": "fim_suf_token_id",
    "fim_mid": "fim_mid_token_id",
    "fim_pad": "fim_pad_token_id",
    "fim_rep": "fim_rep_token_id",
    "fim_sep": "fim_sep_token_id",
}
"""Role -> end of the key; ``seperator`` is the spelling of the format."""
OLD_ID_KEYS = {"fim_pre": "prefix_token_id", "fim_suf": "suffix_token_id", "fim_mid": "middle_token_id"}


def names(group: str) -> tuple[str, ...]:
    """A list of `vocabulary.json`: ``pre``, ``eog``, ``eot``, ``fim_pre`` …"""
    return tuple(load("vocabulary.json")[group])


def id_key(role: str) -> str:
    """``bos`` -> ``tokenizer.ggml.bos_token_id``."""
    return f"tokenizer.ggml.{ID_KEYS[role]}"


_SEARCHED = 1 << 14
"""Types that are searched at a time: of all of them a copy would take a megabyte."""
_SHOWN = 256
"""Characters of a token in a message; the longest real one has 1,024 bytes, of blanks."""


class Vocabulary:
    """The vocabulary of a model; everything is computed when first asked for.

    Attributes:
        model: value of `tokenizer.ggml.model`, None when absent or not a string.
        kind: what that means to llama.cpp, None when it does not know it.
        pre: value of `tokenizer.ggml.pre`, None when absent or not a string.
        byte_faults: the first byte token that ends a load, by kind of vocabulary and number of tokens.
    """

    def __init__(self, m: Model) -> None:
        self._fields = m.fields
        self._get = m.reading
        self._shared = m.shared
        self.model = _string(m.get("tokenizer.ggml.model"))
        self.kind = KINDS.get(self.model) if self.model is not None else None
        self.pre = _string(m.get("tokenizer.ggml.pre"))
        self.byte_faults: dict[tuple[str, int], int | None] = {}

    @cached_property
    def count(self) -> int | None:
        """Number of tokens; None without a proper token list."""
        f = self._fields.get(TOKENS)
        return f.count if f is not None and is_array(f, STR) else None

    @cached_property
    def _list(self) -> TokenList:
        f = self._fields.get(TOKENS)
        if f is None or not is_array(f, STR):
            return token_list(None)
        # A draft has the tokens of its model, unless they are what was changed.
        known: list[tuple[Field, TokenList]] = self._shared.setdefault("token lists", [])
        for field, found in known:
            if field is f:
                return found
        known[:] = [*known[-1:], (f, token_list(f))]
        return known[-1][1]

    @property
    def listed(self) -> int:
        """Number of tokens; 0 without a proper token list."""
        return self._list.count

    @property
    def name(self) -> int:
        """Of the known vocabulary that the list is, byte by byte; 0 for any other."""
        return self._list.name

    def records(self) -> Iterator[bytes]:
        """Tokens in order, each with its length in front, made one after another; a large list has many."""
        return chain.from_iterable(self._list.chunks())

    def longer(self, than: int) -> list[int]:
        """Tokens of more bytes."""
        return self._list.longer(than)

    def size(self, token: int) -> int:
        """Bytes of a token of the vocabulary."""
        return self._list.length(token)

    def contains(self, data: bytes) -> bool:
        """Whether the bytes stand anywhere in the list, in a token or across two of them."""
        return self._list.contains(data)

    @property
    def zero_bytes(self) -> int:
        """Zero bytes in the stored token list, length prefixes included."""
        return self._list.zero_bytes

    @property
    def told(self) -> dict[str, Any]:
        """What else was found out about the tokens, by name."""
        return self._list.told

    @property
    def prefix_size(self) -> int:
        """Bytes of a length prefix."""
        return self._list.prefix.size

    def id_of(self, text: str) -> int | None:
        """Id of a token by its exact text; None when there is none. Id 0 is an id like any other."""
        return self._list.find(text)

    def has(self, text: str) -> bool:
        """Whether there is a token of exactly this text; `id_of` also finds it."""
        return self._list.has(text)

    def raw(self, token: int) -> bytes:
        """Bytes of a token; b"" outside the vocabulary."""
        return self._list.raw(token)

    def text(self, token: int) -> str:
        """Text of a token, of a longer one the first `LONG` bytes; "" outside the vocabulary."""
        return str(self._list.raw(token, LONG), "utf-8", "surrogateescape")

    def show(self, token: int | None) -> str:
        """``2 '<eos>'`` for messages."""
        return "none" if token is None else f"{token} {self.text(token)[:_SHOWN]!r}"

    @property
    def distinct(self) -> int:
        """Number of different tokens."""
        return self._list.distinct

    def duplicates(self, limit: int = 5) -> list[tuple[int, int]]:
        """Up to ``limit`` pairs (first id, later id) of tokens with equal text."""
        if self.distinct == self.listed:
            return []
        first: dict[bytes, int] = {}
        out = []
        for i, record in enumerate(self.records()):
            j = first.setdefault(record, i)
            if j != i:
                out.append((j, i))
                if len(out) == limit:
                    break
        return out

    @cached_property
    def types(self) -> Sequence[int]:
        """Token types; empty when absent or not an array of i32."""
        f = self._fields.get(TYPES)
        if f is None or f.type_name != "arr[i32]":
            return ()
        value = f.value
        return value if isinstance(value, array) else ()

    @cached_property
    def _numbers(self) -> memoryview[int] | array[int]:
        """The types where they stand in the file: a list of them is a megabyte, of which a few are looked at."""
        f = self._fields.get(TYPES)
        if f is not None and f.count and f.type_name == "arr[i32]":
            if f.layout.big_endian == (sys.byteorder == "big"):
                return f.value_bytes.cast("i")
            if isinstance(self.types, array):
                return self.types
        return array("i")

    @property
    def typed(self) -> int:
        """Number of token types; 0 when absent or not an array of i32."""
        return len(self._numbers)

    def type_of(self, token: int) -> int:
        """Type of one token: NORMAL when the file has no (or too short) types, as in llama.cpp."""
        return self._numbers[token] if 0 <= token < len(self._numbers) else NORMAL

    @property
    def all_typed(self) -> bool:
        """Whether every type is one of 1 to 6."""
        data, size = self._numbers.tobytes(), self._numbers.itemsize
        # Each low byte is one of these, and the zeros are the other bytes.
        low = data[0 if sys.byteorder == "little" else size - 1 :: size]
        return not low.translate(None, b"\1\2\3\4\5\6") and data.count(0) == len(data) - len(low)

    def ids_of_type(self, kind: int) -> list[int]:
        """Tokens of one type, in order. Only for types 1 to 6."""
        types, size, out = self._numbers, self._numbers.itemsize, []
        # A search in bytes is far faster than a loop over 262,144 integers.
        for start in range(0, len(types), _SEARCHED):
            some = types[start : start + _SEARCHED]
            data = some.tobytes()
            at = data.find(kind)
            while at >= 0:
                token = at // size
                if some[token] == kind:
                    out.append(start + token)
                at = data.find(kind, (token + 1) * size)
        return out

    def stored(self, role: str) -> int | None:
        """The id the file states for a role, in range or not; None when absent or no whole number."""
        for key in (ID_KEYS[role], OLD_ID_KEYS.get(role)):
            value = self._get(f"tokenizer.ggml.{key}") if key else None
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return None

    def default(self, role: str) -> int | None:
        """The id llama.cpp takes when the file states none; None for no token (also when it is out of range)."""
        if self.kind is None or role not in ("bos", "eos", "unk", "sep", "pad", "mask"):
            return None
        if role == "bos" and self.kind.name == "BPE" and self.pre in NO_BOS_PRE:
            return None
        value = getattr(self.kind, role)
        return value if value is not None and value < (self.count or 0) else None

    def special(self, role: str) -> int | None:
        """The id in effect: the stored one when in range, else the default."""
        stored = self.stored(role)
        if stored is not None and 0 <= stored < (self.count or 0):
            return stored
        return self.default(role)

    def by_name(self, role: str) -> int | None:
        """Token that llama.cpp would find by its text for a role that has no id: ``eot``, ``eom``, ``fim_*``."""
        return next((i for n in names(role) if (i := self.id_of(n)) is not None), None)

    @cached_property
    def add_bos(self) -> bool:
        """True when llama.cpp puts BOS in front of a prompt."""
        if self.kind is None or self.model == "gemma4":
            return self.kind is not None
        value = self._get("tokenizer.ggml.add_bos_token")
        if isinstance(value, bool):
            return value
        return self.kind.add_bos or (self.kind.name == "BPE" and self.pre in ADD_BOS_PRE)

    @cached_property
    def add_eos(self) -> bool:
        """True when llama.cpp puts EOS behind a prompt."""
        value = self._get("tokenizer.ggml.add_eos_token")
        return value if isinstance(value, bool) else self.kind is not None and self.kind.add_eos

    @cached_property
    def eog(self) -> frozenset[int]:
        """Tokens that end a generation: eos, eot, eom, three fill-in-the-middle tokens and those with known names."""
        out = set(self._found("eog"))
        for role in ("eos", "eot", "eom"):
            if (i := self.special(role)) is not None:
                out.add(i)
        for role in ("fim_pad", "fim_rep", "fim_sep"):
            i = self.special(role)
            i = self.by_name(role) if i is None else i
            if i is not None:
                out.add(i)
        texts = {self.text(i) for i in out}
        call = texts & {"<|call|>", "<|calls|>"}
        if "<|end|>" in texts and (("<|return|>" in texts and "<|call|>" in call) or ("<|flush|>" in texts and call)):
            out -= {self.id_of("<|end|>")}
        if texts & {"<|tool_response>", "<|plamo:eos|>"}:
            out -= {self.id_of("</s>")}
        return frozenset(i for i in out if i is not None)

    def _found(self, group: str) -> Iterator[int]:
        for name in names(group):
            if (i := self.id_of(name)) is not None:
                yield i

    @cached_property
    def stated_size(self) -> int | None:
        """`{arch}.vocab_size`; None when absent. llama.cpp reads it only where there is no token list."""
        arch = self._get("general.architecture")
        value = self._get(f"{arch}.vocab_size")
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def vocabulary(m: Model) -> Vocabulary:
    """The vocabulary of a model, kept on it."""
    found: Vocabulary | None = m.kept.get("vocabulary")
    if found is None:
        found = m.kept["vocabulary"] = Vocabulary(m)
    return found


def is_array(f: Field, element: int) -> bool:
    """True for an array of that element type."""
    return f.type == ARR and f.element_type == element


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
