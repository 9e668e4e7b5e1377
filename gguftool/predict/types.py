"""Which tensor types the CPU kernels take for which operation; the loader checks none of it (facts of b11434)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gguftool.predict.words import type_name

if TYPE_CHECKING:
    from gguftool.model import Model
    from gguftool.predict.tensors import Wanted

F32 = 0
NOT_WEIGHTS = frozenset({9, 15, 24, 25, 26, 27, 28})
"""q8_1, q8_K, i8, i16, i32, i64, f64: no matrix product takes them as weights."""
I32 = 26
MATRIX_OPS = frozenset({"MUL_MAT", "MUL_MAT_ID", "GET_ROWS"})
BINARY = "binary_op: unsupported types: dst: f32, src0: f32, src1: {type}"
STRIDE = "GGML_ASSERT(src1->nb[0] == sizeof(float)) failed"


_NO_FILE_TYPE = frozenset({9, 15, 24, 25, 26, 27, 28, 39})
"""Types that no model is named after (`llama-model-loader.cpp`): MXFP4 is one of them."""


def unknown_type(m: Model) -> list[str]:
    """llama.cpp names a model after the type that most tensors have, and warns where it has no such name."""
    if all(tensor.type_id not in _NO_FILE_TYPE for part in m.parts for tensor in part.header.tensors):
        return []
    counts: dict[int, int] = {}
    most, best = 0, F32
    # Of equal counts the one that is reached first counts, in the order of the layers.
    for tensor in sorted(m.all_tensors(), key=lambda t: _order(t.name)):
        n = counts[tensor.info.type_id] = counts.get(tensor.info.type_id, 0) + 1
        if n > most:
            most, best = n, tensor.info.type_id
    return [f"llama_model_loader: unknown type {type_name(best)}"] if best in _NO_FILE_TYPE else []


def _order(name: str) -> tuple[int, bytes]:
    layer = re.match(r"blk\.\s*([+-]?[0-9]+)", name)
    return int(layer[1]) if layer else -1, name.encode("utf-8", "surrogateescape")


def needs_f32(wanted: Wanted) -> bool:
    """True when only f32 works for this tensor."""
    return wanted.op not in MATRIX_OPS or wanted.name.endswith(("scale", ".bias")) or wanted.name in _AS_ADDEND


_AS_ADDEND = frozenset({"token_types.weight"})
"""Looked up by row in name, but added as it is."""


def fault_of_type(wanted: Wanted, type_id: int) -> tuple[str, str]:
    """When (``context``, ``decode``, "" never) and with which words a type makes the process die.

    Args:
        wanted: the tensor as the architecture asked for it.
        type_id: stored type; f32 is never a fault.
    """
    if wanted.pattern.endswith("input_scale"):
        return "", ""  # only kernels for NVFP4 look at it
    if wanted.pattern.endswith("attn_sinks.weight"):
        return "context", "GGML_ASSERT(sinks->type == GGML_TYPE_F32) failed"
    if wanted.op == "SSM_CONV":
        return ("", "") if type_id == I32 else ("decode", STRIDE)
    if wanted.op == "SSM_SCAN":
        return "decode", "GGML_ASSERT(src3->nb[0] == sizeof(float)) failed"
    if wanted.op == "ADD_ID":
        return "decode", "GGML_ASSERT(src1->type == GGML_TYPE_F32) failed"
    if needs_f32(wanted):
        return "decode", BINARY
    if type_id not in NOT_WEIGHTS:
        return "", ""
    if wanted.op == "GET_ROWS":
        if type_id == I32 and "rel_b" in wanted.name:
            return "decode", BINARY
        if type_id == I32 and wanted.name in ("token_embd.weight", "position_embd.weight"):
            return "context", "GGML_ASSERT(b->type == GGML_TYPE_F32 || b->type == GGML_TYPE_F16) failed"
        return "decode", "fatal error (no row lookup for {type})"
    return "decode", "a null pointer: no matrix product for {type}"
