"""First stage: the records of the file, checked in the order of `gguf.cpp:gguf_init_from_reader` (b11434).

A header that our own parser read to its end is judged from its records; any other is walked again, byte by byte, as
llama.cpp walks it (`walk.py`), because only that tells which of its messages comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gguftool.facts.marks import bears
from gguftool.format.header import Field, Header, TensorInfo, align
from gguftool.format.types import ARR, MAX_NAME, U32, value_type_name
from gguftool.model import Model, Part
from gguftool.predict.verdict import LOAD_ERROR, LoadEnds
from gguftool.predict.words import (
    KV_FAILED,
    TENSOR_FAILED,
    alignment_abort,
    check_offsets,
    empty_key,
    failed,
    init,
    key_twice,
    shape_fault,
    tensor_twice,
    type_fault,
)
from gguftool.records import replace


def check_file(part: Part) -> None:
    """Everything `gguf_init_from_file` refuses in one file.

    Raises:
        LoadEnds: refused, with the error lines.
    """
    header = part.header
    if header.version == 1 or header.big_endian or not header.complete or _nested(header.fields):
        from gguftool.predict.walk import walk

        walk(part.source, part.name)
        return
    check_fields(header.fields, part.name)
    header = as_c_reads(header)
    check_alignment(header.fields, part.name)
    seen: dict[str, int] = {}
    for index, tensor in enumerate(header.tensors):
        check_tensor(index, tensor, part.name, seen)
        seen[tensor.name] = index
    check_offsets(header.tensors, header.end, header.alignment, part.size, part.name)


def as_c_reads(header: Header) -> Header:
    """The header with keys cut at a NUL, as C compares them: of keys that are then equal the first counts."""
    if not any("\0" in f.key for f in header.fields):
        return header
    first: dict[str, Field] = {}
    for f in header.fields:
        key = f.key.partition("\0")[0]
        first.setdefault(key, f if f.key == key else replace(f, key=key))
    stated = first.get("general.alignment")
    alignment = stated.value if stated is not None and stated.type == U32 else header.alignment
    if not isinstance(alignment, int) or alignment <= 0:
        alignment = header.alignment
    fields = tuple(first.values())
    return replace(header, fields=fields, alignment=alignment, data_offset=align(header.end, alignment))


def keys_as_c(m: Model) -> Model:
    """The model with the keys of its first file as `as_c_reads` has them."""
    header = as_c_reads(m.header)
    if header is m.header:
        return m
    from gguftool.model import with_header

    return with_header(m, header, m.parts[0].size)


def _nested(fields: Iterable[Field]) -> bool:
    return any(f.element_type == ARR for f in fields)


def check_fields(fields: Iterable[Field], path: str) -> None:
    """Empty and duplicate keys, which builds before b4436 take: of equal ones the first counts."""
    seen: dict[str, int] = {}
    if not bears("key-twice"):
        return
    for index, f in enumerate(fields):
        if not f.key and bears("empty-key"):
            raise LoadEnds(failed(path, f"{init()}key {index} is empty", init() + KV_FAILED), where="header")
        if not f.key and f.key not in seen:
            raise empty_key()
        if f.key in seen:
            line = init() + key_twice(f.key, seen[f.key], index)
            raise LoadEnds(failed(path, line, init() + KV_FAILED), where=f"field:{f.key}")
        seen[f.key] = index


def check_alignment(fields: Iterable[Field], path: str) -> None:
    """`general.alignment`: u32 and a power of 2."""
    for f in fields:
        if f.key != "general.alignment":
            continue
        if not bears("alignment-type") and (f.element_type if f.type == ARR else f.type) != U32:
            raise alignment_abort(f.count if f.type == ARR else None)
        if f.type != U32 and bears("alignment-type"):
            line = f"{init()}key 'general.alignment' must be of type u32 but is {value_type_name(f.type)}"
            if f.type == ARR:
                # gguf_get_kv_type says "arr" for arrays of any element type.
                line = f"{init()}key 'general.alignment' must be of type u32 but is arr"
            raise LoadEnds(failed(path, line), where="field:general.alignment")
        value = int.from_bytes(f.value_bytes, "little")
        if value == 0 or value & (value - 1):
            raise LoadEnds(
                failed(path, f"{init()}alignment {value} is not a power of 2"), where="field:general.alignment"
            )
        return


def check_tensor(index: int, tensor: TensorInfo, path: str, seen: Mapping[str, int]) -> None:
    """Name, dimensions, type and size of one tensor record; ``seen``: the names before it with their numbers."""
    raw_name = tensor.name.encode("utf-8", "surrogateescape")

    def end(line: str) -> LoadEnds:
        return LoadEnds(failed(path, init() + line, init() + TENSOR_FAILED), where=f"tensor:{tensor.name}")

    if len(raw_name) >= MAX_NAME:
        raise end(f"tensor name {index} is too long: {len(raw_name)} >= {MAX_NAME}")
    if tensor.name in seen:
        raise end(tensor_twice(tensor.name, seen[tensor.name], index))
    text = shape_fault(tensor.name, tensor.shape) or type_fault(tensor.name, tensor.shape, tensor.type_id)
    if text:
        raise end(text)


def check_bounds(part: Part) -> None:
    """Every tensor's data inside the file (`llama-model-loader.h:llama_tensor_weight`, b11434)."""
    for t in part.header.tensors:
        stop = part.header.data_offset + t.offset + (t.nbytes or 0)
        if stop > part.size:
            text = f"tensor '{t.name}' data is not within the file bounds, model is corrupted or incomplete"
            raise LoadEnds((LOAD_ERROR + text,), where=f"tensor:{t.name}", missing=stop - part.size)
