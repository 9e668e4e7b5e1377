"""Where a header will end, told from as much of it as has been read. What it is off by costs bytes, or another read.

Reading a header over a network is a matter of round trips and of bytes. Every count stands in front of what it counts,
so the end of most records is known as soon as they begin; strings are taken to be as long as those seen. What follows
the vocabulary is foreseen where the vocabulary tells: one that is known by its first thousand tokens (`KNOWN`, and
whatever this process has met) has known sizes, and one whose tokens are joined of earlier ones has merges.
Nothing is foreseen that nothing speaks for: one more round trip is better than a megabyte for nothing.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import log

from gguftool.format.types import Layout
from gguftool.format.vocabularies import KNOWN, Vocabulary, Whole
from gguftool.records import dataclass, field

FIRST_READ = 1 << 16
"""Bytes of the first read. Headers without a vocabulary (projectors, adapters, later shards) have 2 to 60 KB, those
with one 0.6 to 16 MB; 64 KiB show more than a thousand tokens of these."""

_MARGIN, _KNOWN_MARGIN = 16, 50
"""Read beyond the foreseen end: a sixteenth; of a known vocabulary a fiftieth and `_MORE`, for a long template."""
_MORE = 16 << 10
_CERTAIN = 1.15
"""Of what must be there at least, so much may be read once the foreseen end was wrong twice."""
_KEY = 48
_TENSOR = 40
"""Bytes of a key, and of a tensor, of which none was seen; real ones have 45 and 62."""
_LEAST_KEY = 8 + 1 + 4 + 1
_TEMPLATE = 6 << 10
"""Bytes of a chat template that is still to come."""
_FEW, _LONG = 16, 24
"""While less than a sixteenth of an array of strings was seen, another is taken to have at most so many bytes."""
_GROWTH = 0.05
"""Tokens of a vocabulary that was joined of pieces get longer, so much with the logarithm of their number."""
_PRINT = 1000
"""Tokens that tell a vocabulary."""
_LOOKED_AT, _TRIED = 4000, 500
"""Tokens that are looked at for how they were made, and those of them, the last ones, that are tried."""

TOKENS = "tokenizer.ggml.tokens"
_SCORES, _TYPES, MERGES = "tokenizer.ggml.scores", "tokenizer.ggml.token_type", "tokenizer.ggml.merges"
_CHARSMAP = "tokenizer.ggml.precompiled_charsmap"
MODEL, CHAT = "tokenizer.ggml.model", "tokenizer.chat_template"


_MARKS = {
    b"llama": ("▁".encode(),), b"t5": ("▁".encode(),), b"gemma4": ("▁".encode(),), b"bert": (b"##", b"[unused"),
}  # fmt: skip
"""What the tokens of a kind of tokenizer look like; those of ``gpt2`` are joined of earlier ones."""

_MET: dict[int, Vocabulary] = {}
_MOST_MET = 256


@dataclass(frozen=True, slots=True)
class Array:
    """An array that was read, or is being read.

    Attributes:
        start: offset of its elements.
        count: elements as stated.
        seen: elements that were walked.
        end: offset behind those.
        strings: whether it is one of strings.
    """

    start: int
    count: int
    seen: int
    end: int
    strings: bool


@dataclass(slots=True)
class Seen:
    """What has been read of a header.

    Attributes:
        layout: byte order and size of lengths.
        fields: number of fields as stated.
        tensors: number of tensors as stated.
        done: fields that were read.
        arrays: of the tokenizer by key, the one that is being read included.
        model: kind of the tokenizer.
        template: whether there was a chat template.
        first_tensor: offset of the tensor infos, 0 before they were reached.
        infos: tensor infos that were read.
        grown: how often more was read.
        name: what the first tokens tell the vocabulary by.
    """

    layout: Layout = field(default_factory=Layout)
    fields: int = 0
    tensors: int = 0
    done: int = 0
    arrays: dict[str, Array] = field(default_factory=dict)
    model: bytes = b""
    template: bool = False
    first_tensor: int = 0
    infos: int = 0
    grown: int = 0
    name: int | None = None


def foreseen(seen: Seen, buf: memoryview, pos: int, need: int, key: str | None) -> int:
    """How far to read, an offset.

    Args:
        seen: what has been read.
        buf: the bytes so far.
        pos: offset at which the walk stands.
        need: where the record in hand ends at least.
        key: of the field in hand, None among tensors and before the first field.
    """
    if seen.first_tensor:
        # Names get longer with the number of the layer.
        each = (pos - seen.first_tensor) / seen.infos if seen.infos else _TENSOR
        left = seen.tensors - seen.infos
        end = pos + int(left * max(each, _least_tensor(seen)))
        return max(need, end + (end - seen.first_tensor) // 16 + _KEY)
    certain = need + _least(seen, key)
    array = seen.arrays.get(key or "")
    rest = _strings_left(seen, key, array, buf) if array and array.strings else 0
    end = max(need, pos + rest)
    end += _to_come(seen, buf, key, min(_TEMPLATE, end // 100))
    more = end // _KNOWN_MARGIN + _MORE if vocabulary(seen, buf) else end // _MARGIN
    want, most = end + more, int(certain * _CERTAIN)
    if array and rest and array.seen < array.count // _FEW and not _trained(seen, buf):
        # A few strings of no vocabulary: others of any length may follow.
        want = min(want, most)
    return max(need, want, most if seen.grown > 1 else 0)


def _least_tensor(seen: Seen) -> int:
    return 2 * seen.layout.length_size + 4 + 12


def _least(seen: Seen, key: str | None) -> int:
    """Bytes that must follow the record in hand at least."""
    array = seen.arrays.get(key or "")
    strings = (array.count - array.seen) * seen.layout.length_size if array and array.strings else 0
    return strings + max(0, seen.fields - seen.done - 1) * _LEAST_KEY + seen.tensors * _least_tensor(seen)


def _strings_left(seen: Seen, key: str | None, array: Array, buf: memoryview) -> int:
    """Bytes of the strings that are still to come in an array."""
    left, walked = array.count - array.seen, array.end - array.start
    tokens = seen.arrays.get(TOKENS)
    if key in (TOKENS, MERGES) and tokens and (known := vocabulary(seen, buf)):
        whole = known.tokens if key == TOKENS else known.merges
        return max(left * seen.layout.length_size, whole * tokens.count // known.count - walked)
    few = array.seen < array.count // _FEW
    each = walked / array.seen if array.seen else 2.0 * seen.layout.length_size
    if key == MERGES and few and tokens and tokens.seen:
        # A merge is a token and a blank.
        each = (tokens.end - tokens.start) / tokens.seen + 1
    elif key == TOKENS and array.seen and joined(buf, array, seen.layout):
        each *= 1 + _GROWTH * log(array.count / array.seen)
    return int(left * (min(each, _LONG) if few else each))


def _trained(seen: Seen, buf: memoryview) -> bool:
    """Whether the tokens are those of a real vocabulary, whose lengths change little from piece to piece."""
    tokens = seen.arrays.get(TOKENS)
    if tokens is None or not tokens.seen:
        return False
    if vocabulary(seen, buf) or joined(buf, tokens, seen.layout):
        return True
    text = bytes(buf[tokens.start : tokens.end])
    return any(mark in text for mark in _MARKS.get(seen.model, ()))


def _to_come(seen: Seen, buf: memoryview, key: str | None, template: int) -> int:
    """Bytes of the fields and tensors behind the record in hand; ``template``: of a chat template among them."""
    left = max(0, seen.fields - seen.done - (key is not None))
    arrays = _arrays_to_come(seen, buf, left)
    left -= len(arrays)
    if TOKENS not in seen.arrays or not left or seen.template or key == CHAT:
        template = 0
    return sum(arrays) + left * _KEY + template + seen.tensors * _TENSOR


def _arrays_to_come(seen: Seen, buf: memoryview, left: int) -> list[int]:
    """Bytes of the arrays that follow a vocabulary, as far as something speaks for them."""
    tokens = seen.arrays.get(TOKENS)
    if tokens is None or not tokens.seen:
        return []
    sized = {_SCORES: 4 * tokens.count, _TYPES: 4 * tokens.count}
    names: tuple[str, ...]
    if known := vocabulary(seen, buf):
        names = (_SCORES, _TYPES) if known.scores else (_TYPES,)
        sized[MERGES] = known.merges * tokens.count // known.count
        sized[_CHARSMAP] = known.charsmap
        names += tuple(name for name in (MERGES, _CHARSMAP) if sized[name])
    elif not _trained(seen, buf):
        return []
    elif seen.model != b"gpt2":
        names = (_TYPES,) if seen.model == b"bert" else (_SCORES, _TYPES)
    else:
        each = (tokens.end - tokens.start) / tokens.seen * (1 + _GROWTH * log(tokens.count / tokens.seen))
        sized[MERGES] = int(tokens.count * (each + 1))
        names = (_TYPES, MERGES)
    names = tuple(name for name in names if name not in seen.arrays)
    return [sized[name] for name in names] if left >= len(names) else []


def vocabulary(seen: Seen, buf: memoryview) -> Vocabulary | None:
    """The sizes of a vocabulary that is known by its first tokens and has about as many."""
    tokens = seen.arrays.get(TOKENS)
    if tokens is None or not tokens.strings or tokens.seen <= _PRINT:
        return None
    name = _print_of(seen, buf, tokens)
    found = _MET.get(name) or KNOWN.get(name)
    return found if found and abs(found.count - tokens.count) <= found.count // 16 else None


def whole(seen: Seen, buf: memoryview, key: str, count: int) -> Whole | None:
    """What the array in hand is if it is that of the vocabulary that the first tokens tell; None if nothing is known.

    Lengths must be those of version 2 or 3, little-endian.
    """
    tokens = seen.arrays.get(TOKENS)
    if tokens is None or not tokens.strings or tokens.seen <= _PRINT or key not in (TOKENS, MERGES):
        return None
    name = _print_of(seen, buf, tokens)
    known = KNOWN.get(name)
    if known is None or (key == TOKENS and known.count != count):
        return None
    size, told = (known.tokens, known.digests[0]) if key == TOKENS else (known.merges, known.digests[1])
    return Whole(name, size, told) if told else None


def met(seen: Seen, buf: memoryview) -> None:
    """Remember the sizes of the vocabulary of a header that was read whole."""
    tokens = seen.arrays.get(TOKENS)
    if tokens is None or not tokens.strings or tokens.seen < tokens.count or tokens.seen <= _PRINT:
        return
    merges, charsmap = (a.end - a.start if (a := seen.arrays.get(name)) else 0 for name in (MERGES, _CHARSMAP))
    sizes = Vocabulary(tokens.count, tokens.end - tokens.start, merges, _SCORES in seen.arrays, charsmap)
    name = _print_of(seen, buf, tokens)
    if KNOWN.get(name) != sizes:
        if len(_MET) >= _MOST_MET:
            _MET.clear()
        _MET[name] = sizes


def _strings(buf: memoryview, start: int, layout: Layout, most: int) -> Iterator[bytes]:
    """Strings of an array of which at least ``most`` lie in the buffer."""
    unpack = struct.Struct(layout.order + layout.length_code).unpack_from
    at = start
    for _ in range(most):
        begin = at + layout.length_size
        at = begin + unpack(buf, at)[0]
        yield bytes(buf[begin:at])


def _print_of(seen: Seen, buf: memoryview, tokens: Array) -> int:
    if seen.name is None and seen.layout.length_size == 8 and not seen.layout.big_endian:
        # They stand in the file as they are summed up.
        unpack, at = struct.Struct("<Q").unpack_from, tokens.start
        for _ in range(_PRINT):
            at += 8 + unpack(buf, at)[0]
        seen.name = zlib.crc32(buf[tokens.start : at])
    elif seen.name is None:
        strings = _strings(buf, tokens.start, seen.layout, _PRINT)
        seen.name = zlib.crc32(b"".join(len(text).to_bytes(8, "little") + text for text in strings))
    return seen.name


def joined(buf: memoryview, tokens: Array, layout: Layout) -> bool:
    """Whether the tokens are joined of earlier ones, as those of a byte-pair encoding are, which has merges."""
    if not tokens.strings or tokens.seen <= _PRINT:
        return False
    return _joined(tuple(_strings(buf, tokens.start, layout, min(tokens.seen - 1, _LOOKED_AT))))


@lru_cache(4)
def _joined(strings: Sequence[bytes]) -> bool:
    begin = len(strings) - _TRIED
    known = set(strings[:begin])
    good = 0
    for text in strings[begin:]:
        good += len(text) > 1 and any(text[:cut] in known and text[cut:] in known for cut in range(1, len(text)))
        known.add(text)
    return good > _TRIED * 9 // 10
