"""The arrays of a vocabulary: what `llama-vocab.cpp` asks of their types, and what builds before b10683 do instead.

Those read what they find: `gguf_get_arr_n` takes a scalar for one element, `gguf_get_arr_str` asserts that it stands
before strings, `gguf_get_arr_data` that it does not (`gguf.cpp`).
"""

from __future__ import annotations

from gguftool.facts.machine.ends import Abort, Refusal
from gguftool.facts.machine.reader import where
from gguftool.facts.marks import bears
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR, value_type_name

_STRING = "GGML_ASSERT(ctx->kv[key_id].get_type() {} GGUF_TYPE_STRING) failed"
_BYTES = "GGML_ASSERT(pc_type == GGUF_TYPE_INT8 || pc_type == GGUF_TYPE_UINT8) failed"


def length(f: Field) -> int:
    """Elements, of a scalar 1."""
    return 1 if f.type != ARR else f.count or 0


def holds(f: Field, *elements: str) -> bool:
    """Whether it is an array of such elements."""
    element = f.element_type if f.type == ARR else None
    return element is not None and value_type_name(element) in elements


def must_be(f: Field, *elements: str) -> None:
    """The array holds such elements.

    Raises:
        Refusal, Abort: it does not.
    """
    element = f.element_type if f.type == ARR else f.type
    named = value_type_name(element if element is not None else -1)
    if holds(f, *elements):
        return
    if bears("types"):
        raise Refusal(f"invalid gguf type for {f.key}", where(f.key), expected=list(elements), got=f.type_name)
    if elements == ("str",):
        if element != STR and length(f):
            raise Abort(_STRING.format("=="), where(f.key))
    elif elements == ("i8", "u8"):
        if f.type != ARR:
            raise Abort("GGML_ASSERT(ctx->kv[key_id].is_array) failed", where(f.key))
        if named not in elements and bears("charsmap-type"):
            raise Abort(_BYTES, where(f.key))
    elif element == STR:
        raise Abort(_STRING.format("!="), where(f.key))


def must_reach(f: Field, n: int, word: str) -> None:
    """The array has a number for each of ``n`` tokens.

    Raises:
        Refusal: it is shorter; builds that do not look read on behind it.
    """
    have = length(f)
    if have < n and bears("lengths"):
        text = f"Index out of array bounds for {word} ({have} < {n})\n"
        raise Refusal(text, where(f.key), expected=n, got=have)
