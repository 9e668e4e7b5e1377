"""The tokenizer of one model as llama.cpp b11434 would set it up: kind, special ids, end-of-generation set.

Tokens stay bytes; of the 262,144 of a large vocabulary only the ones asked for become text. Facts: `llama-vocab.cpp:
llama_vocab::impl::load` (b11434); names are data (`gguftool/facts/data/vocabulary.json`).
"""

from __future__ import annotations

import re
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.format.header import LONG, Field
from gguftool.format.types import ARR, STR

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


_SHOWN = 256
"""Characters of a token in a message; the longest real one has 1,024 bytes, of blanks."""
_WALK = 1 << 20
"""Tokens walked past in searches, after which a map is made."""


class Vocabulary:
    """The vocabulary of a model; everything is computed when first asked for.

    Attributes:
        model: value of `tokenizer.ggml.model`, None when absent or not a string.
        kind: what that means to llama.cpp, None when it does not know it.
        pre: value of `tokenizer.ggml.pre`, None when absent or not a string.
        all_short: known, once ``records`` was asked for, that no token has more than 255 bytes.
    """

    def __init__(self, m: Model) -> None:
        self.all_short = False
        self._fields = m.fields
        self._get = m.reading
        self.model = _string(m.get("tokenizer.ggml.model"))
        self.kind = KINDS.get(self.model) if self.model is not None else None
        self.pre = _string(m.get("tokenizer.ggml.pre"))
        self._walked = 0

    @cached_property
    def count(self) -> int | None:
        """Number of tokens; None without a proper token list."""
        f = self._fields.get(TOKENS)
        return f.count if f is not None and is_array(f, STR) else None

    @cached_property
    def records(self) -> list[bytes]:
        """Tokens in order, each with its length prefix, so that no slice per token is needed; [] without a list."""
        f = self._fields.get(TOKENS)
        if f is None or not is_array(f, STR):
            return []
        found = short_strings(f)
        self.all_short = found is not None
        return long_strings(f) if found is None else found

    @cached_property
    def zero_bytes(self) -> int:
        """Zero bytes in the stored token list, length prefixes included."""
        return bytes(self._fields[TOKENS].value_bytes).count(0) if self.records else 0

    @cached_property
    def _by_record(self) -> dict[bytes, int]:
        # Of equal tokens the last one wins, as in llama.cpp's map.
        return dict(zip(self.records, range(len(self.records)), strict=True))

    @cached_property
    def _texts(self) -> set[bytes]:
        # Half the time and memory of the map, and most questions are for tokens that are not there.
        return set(self.records)

    @cached_property
    def _prefix(self) -> struct.Struct:
        layout = self._fields[TOKENS].layout
        return struct.Struct(layout.order + layout.length_code)

    def id_of(self, text: str) -> int | None:
        """Id of a token by its exact text; None when there is none. Id 0 is an id like any other."""
        if not self.records:
            return None
        data = text.encode("utf-8", "surrogateescape")
        record = self._prefix.pack(len(data)) + data
        if record not in self._texts:
            return None
        # A few tokens are found faster by walking than by making the map; of equal ones the map knows the last.
        if "_by_record" in self.__dict__ or self._walked > _WALK or self.distinct < len(self.records):
            return self._by_record[record]
        found = self.records.index(record)
        self._walked += found
        return found

    def has(self, text: str) -> bool:
        """Whether there is a token of exactly this text; `id_of` also finds it."""
        data = text.encode("utf-8", "surrogateescape")
        return bool(self.records) and self._prefix.pack(len(data)) + data in self._texts

    def raw(self, token: int) -> bytes:
        """Bytes of a token; b"" outside the vocabulary."""
        return self.records[token][self._prefix.size :] if 0 <= token < len(self.records) else b""

    def text(self, token: int) -> str:
        """Text of a token, of a longer one the first `LONG` bytes; "" outside the vocabulary."""
        if not 0 <= token < len(self.records):
            return ""
        head = self._prefix.size
        return str(self.records[token][head : head + LONG], "utf-8", "surrogateescape")

    def show(self, token: int | None) -> str:
        """``2 '<eos>'`` for messages."""
        return "none" if token is None else f"{token} {self.text(token)[:_SHOWN]!r}"

    @property
    def distinct(self) -> int:
        """Number of different tokens."""
        return len(self._texts)

    def duplicates(self, limit: int = 5) -> list[tuple[int, int]]:
        """Up to ``limit`` pairs (first id, later id) of tokens with equal text."""
        if self.distinct == len(self.records):
            return []
        first: dict[bytes, int] = {}
        out = []
        for i, record in enumerate(self.records):
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

    def type_of(self, token: int) -> int:
        """Type of one token: NORMAL when the file has no (or too short) types, as in llama.cpp."""
        return self.types[token] if 0 <= token < len(self.types) else NORMAL

    def ids_of_type(self, kind: int) -> list[int]:
        """Tokens of one type, in order. Only for types 1 to 6."""
        types = self.types
        if not isinstance(types, array):
            return []
        # The low byte of every element: a search in bytes is far faster than a loop over 262,144 integers.
        low = types.tobytes()[0 if sys.byteorder == "little" else types.itemsize - 1 :: types.itemsize]
        out, at = [], low.find(kind)
        while at >= 0:
            if types[at] == kind:
                out.append(at)
            at = low.find(kind, at + 1)
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


@cache
def _pattern() -> re.Pattern[bytes]:
    """One alternative per length up to 255, most frequent lengths first: three times as fast as a loop in Python."""
    order = sorted(range(256), key=lambda n: (abs(n - 5), n))
    some = (re.escape(bytes([n])) + b"\0" * 7 + (b"." * n if n < 4 else b".{%d}" % n) for n in order)
    return re.compile(b"|".join(some), re.S)


def short_strings(f: Field) -> list[bytes] | None:
    """As `split_strings`, the fast way; None when a string has more than 255 bytes or the array is too small for it."""
    view, layout, count = f.value_bytes, f.layout, f.count or 0
    if layout.length_size == 8 and not layout.big_endian and count > 64:
        found: list[bytes] = _pattern().findall(view)
        # Each match starts where the one before ended, unless a longer string made it slip: then the sums differ.
        if len(found) == count and sum(map(len, found)) == len(view):
            return found
    return None


def split_strings(f: Field) -> list[bytes]:
    """The strings of an array field as bytes, each with its length prefix."""
    found = short_strings(f)
    return long_strings(f) if found is None else found


def long_strings(f: Field) -> list[bytes]:
    """As `split_strings`, string by string, of any length."""
    view, layout, count = f.value_bytes, f.layout, f.count or 0
    unpack = struct.Struct(layout.order + layout.length_code).unpack_from
    size, o, out = layout.length_size, 0, []
    data = bytes(view)
    for _ in range(count):
        end = o + size + unpack(data, o)[0]
        out.append(data[o:end])
        o = end
    return out


def tokens_of_type(vocab: Vocabulary, wanted: int, n: int) -> Iterator[int]:
    """Ids of one token type, without a Python step per token."""
    types, i = vocab.types, -1
    while True:
        try:
            i = types.index(wanted, i + 1)
        except ValueError:
            return
        if i >= n:
            return
        yield i
