"""What llama.cpp says of a record it does not like, and the checks of one record or of all offsets (b11434).

Shared by the two ways to judge a file: from the records that our own parser read (`file.py`), and walked byte by byte
(`walk.py`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from gguftool.facts.data import load
from gguftool.facts.marks import bears
from gguftool.format.header import TensorInfo, align
from gguftool.format.types import MAX_DIMS, REMOVED_TENSOR_TYPES, TENSOR_TYPES, TYPE_COUNT
from gguftool.predict.verdict import ABORTS, LOAD_ERROR, LoadEnds

INITS = ("gguf_init_from_reader: ", "gguf_init_from_file_ptr: ", "gguf_init_from_file_impl: ")
"""What the lines of the reader begin with: the name of its function, the newest first."""
APPLY = "llama_adapter_lora_init_from_file_ptr: failed to apply lora adapter: "
"""What the reason stands behind why an adapter is not applied."""
KV_FAILED = "failed to read key-value pairs"
TENSOR_FAILED = "failed to read tensor info"
INT64_MAX = (1 << 63) - 1
SIZE_MAX = (1 << 64) - 1
_FEW = INT64_MAX >> 1
"""Elements that no build has ever counted as too many, in whatever way it asks."""
_ODD_NAMES = {4: "DEPRECATED", 5: "DEPRECATED"} | {
    i: f"TYPE_{name} REMOVED, use {name[:-4]} with runtime repacking"
    for i, name in REMOVED_TENSOR_TYPES.items()
    if i > 5
}


def type_name(type_id: int) -> str:
    """A tensor type as llama.cpp prints it: ``q4_K``, ``f16``."""
    t = TENSOR_TYPES.get(type_id)
    if t is None:
        return _ODD_NAMES.get(type_id, "NONE")
    name = t.name.lower()
    return name[:-1] + "K" if name.endswith("_k") else name


def init() -> str:
    """What the lines of the reader begin with in the build that is asked about."""
    return INITS[0] if bears("reader") else INITS[1] if bears("file-ptr") else INITS[2]


def failed(path: str, *lines: str) -> tuple[str, ...]:
    """Error lines of a file that could not be read, with the one llama.cpp adds; C cuts a name at a NUL."""
    lines = tuple(re.sub("\0[^']*(?=')", "", line) if "\0" in line else line for line in lines)
    return (*lines, f"{LOAD_ERROR}llama_model_loader: failed to load model from {path}")


def own_lines(lines: tuple[str, ...]) -> tuple[str, ...]:
    """What the reader of GGUF says, without the line that the loader of models adds."""
    return tuple(line for line in lines if not line.startswith(LOAD_ERROR))


def key_twice(key: str, first: int, index: int) -> str:
    """What is said of a key that was there before."""
    if bears("kv-pair"):
        return f"duplicate key '{key}' for KV pair {index}"
    return f"duplicate key '{key}' for tensors {first} and {index} "


def tensor_twice(name: str, first: int, index: int) -> str:
    """What is said of a tensor's name that was there before."""
    if bears("kv-pair"):
        return f"duplicate tensor name '{name}' for tensor {index}"
    return f"duplicate tensor name '{name}' for tensors {first} and {index}"


def empty_key() -> LoadEnds:
    """What ends the process at a key without a name, in builds that do not refuse it."""
    return LoadEnds(("GGML_ASSERT(!key.empty()) failed",), verdict=ABORTS, where="header")


def alignment_abort(n: int | None) -> LoadEnds:
    """What ends the process at an alignment that is no u32, in builds that do not look; ``n``: elements of an array."""
    words = "ctx->kv[key_id].get_ne() == 1" if n not in (None, 1) else "type_to_gguf_type<T>::value == type"
    return LoadEnds((f"GGML_ASSERT({words}) failed",), verdict=ABORTS, where="field:general.alignment")


def shape_fault(name: str, shape: tuple[int, ...]) -> str:
    """What is wrong with the dimensions, "" when nothing."""
    if len(shape) > MAX_DIMS:
        return f"tensor '{name}' has invalid number of dimensions: {len(shape)} > {MAX_DIMS}"
    if 0 < math.prod(shape) <= _FEW:
        return ""
    signed = [signed64(n) for n in shape] + [1] * (MAX_DIMS - len(shape))
    for j, n in enumerate(signed):
        if n < 0:
            return f"tensor '{name}' dimension {j} has invalid number of elements: {n} < 0"
    return _too_many(name, signed) if bears("incorrect-shape") else _too_many_before(name, signed)


def _too_many(name: str, signed: list[int]) -> str:
    """More elements than an int64 counts."""
    total = signed[0]
    for n in signed[1:]:
        if n > 1 and INT64_MAX // n < total:
            dims = ", ".join(str(d) for d in signed)
            return (
                f"incorrect shape for a tensor '{name}' may cause overflow errors: "
                f"({dims}) is >= INT64_MAX ({INT64_MAX})"
            )
        total *= n
    return ""


def _too_many_before(name: str, signed: list[int]) -> str:
    """As `_too_many`, as builds before b11434 asked: by divisions, which no zero survives before b10683."""
    if 0 in signed and bears("zero-elements"):
        return ""
    total = signed[0]
    for n in signed[1:]:
        if n == 0:
            raise LoadEnds(("division by zero (SIGFPE)",), verdict=ABORTS, where=f"tensor:{name}")
        if INT64_MAX // n <= total:
            dims = ", ".join(str(d) for d in signed)
            return f"total number of elements in tensor '{name}' with shape ({dims}) is >= {INT64_MAX}"
        total *= n
    return ""


def type_fault(name: str, shape: tuple[int, ...], type_id: int) -> str:
    """What is wrong with the tensor type over this shape, "" when nothing."""
    types = load("load_maps.json").get("types")
    t = TENSOR_TYPES.get(type_id) if types is None or type_id in types["known"] else None
    if t is None:
        signed_id = type_id - (1 << 32) if type_id >> 31 else type_id
        count = TYPE_COUNT if types is None else types["count"]
        if not 0 <= signed_id < count:
            why = f". should be in [0, {count})" if bears("type-range") else " (NONE)"
            return f"tensor '{name}' has invalid ggml type {signed_id}{why}"
    row = shape[0] if shape else 1
    block = t.block_size if t else 0
    if t is None or row % block:
        return (
            f"tensor '{name}' of type {type_id} ({type_name(type_id)}) has {row} elements per row, "
            f"not a multiple of block size ({block})"
        )
    elements = math.prod(shape)
    if elements // block > SIZE_MAX // t.block_bytes and bears("size-in-bytes"):
        dims = ", ".join(str(d) for d in (*shape, *[1] * (MAX_DIMS - len(shape))))
        return f"tensor '{name}' with shape ({dims}) has a size in bytes > {SIZE_MAX}"
    return ""


def check_offsets(tensors: Iterable[TensorInfo], end: int, alignment: int, size: int, path: str) -> None:
    """The data section exists and every offset is the running padded sum."""
    expected = 0
    for index, t in enumerate(tensors):
        if index == 0 and align(end, alignment) > size and bears("reader"):
            line = f"{init()}failed to seek to beginning of data section"
            raise LoadEnds(failed(path, line), where="file")
        where = f"tensor:{t.name}"
        if t.offset != expected:
            line = f"{init()}tensor '{t.name}' has offset {t.offset}, expected {expected}"
            raise LoadEnds(failed(path, line, f"{init()}failed to read tensor data"), where=where, expected=expected)
        n = t.nbytes or 0
        if n > SIZE_MAX - (alignment - 1) and bears("padding-overflow"):
            line = f"{init()}tensor '{t.name}' size {n} overflows after padding (alignment {alignment})"
            raise LoadEnds(failed(path, line), where=where)
        padded = align(n, alignment) & SIZE_MAX
        if SIZE_MAX - expected < padded and bears("size-overflow"):
            line = f"{init()}tensor '{t.name}' size overflow, cannot accumulate size {expected} + {padded}"
            raise LoadEnds(failed(path, line), where=where)
        expected = (expected + padded) & SIZE_MAX


def signed64(n: int) -> int:
    """An unsigned 64-bit number as C reads it into an int64_t."""
    return n - (1 << 64) if n >> 63 else n
