"""Tensor types that the loader takes and no kernel can compute with."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.facts.data import load
from gguftool.format.types import tensor_type_name
from gguftool.lint.predicted import surveyed
from gguftool.lint.rule import Context, Draft, Drafts, Severity, found, rule
from gguftool.lint.rules.tensors.groups import blocked, grouped, limited, several
from gguftool.model import Model
from gguftool.predict import Survey
from gguftool.predict.tensors import Wanted
from gguftool.predict.types import MATRIX_OPS, NOT_WEIGHTS, fault_of_type, needs_f32


@rule(Severity.ERROR, known_arch=True)
def tensor_type_not_f32(m: Model, ctx: Context) -> Drafts:
    """Norms, biases and the like must be F32.

    Why. The loader does not look at types: the file loads, and the first decode ends the process.
    Evidence. `binary-ops.cpp:binary_op` (b11434): "unsupported types: dst: f32, src0: f32, src1: f16"; 1,776 of 7,650
    mutated files died of it.
    Example. blk.0.attn_norm.weight is F16; llama.cpp multiplies with it in F32 only and dies at the first decode
    Fix. None in place: convert again, norms and biases stay F32 there.
    """
    s = surveyed(m, ctx)
    if s.machine is None:
        yield blocked(s)
        return
    names = [n for n, w in _suspects(m, s) if needs_f32(w) and fault_of_type(w, s.stored[n].type_id)[0]]
    yield from limited(_types(s, names, "llama.cpp computes with it in F32 only and dies at the first decode"))


@rule(Severity.ERROR, known_arch=True)
def tensor_type_not_for_weights(m: Model, ctx: Context) -> Drafts:
    """Integer and double types are not for weights.

    Why. The loader does not look at types: the file loads, and the first matrix product ends the process.
    Evidence. `ggml-cpu.c:ggml_compute_forward_mul_mat` (b11434) has no kernel for I8, I16, I32, I64, F64, Q8_1, Q8_K.
    Example. blk.0.attn_q.weight is I32; llama.cpp has no matrix product for it and dies at the first decode
    Fix. None: quantise or convert again.
    """
    s = surveyed(m, ctx)
    if s.machine is None:
        yield blocked(s)
        return
    names = [
        n for n, w in _suspects(m, s) if w.op in MATRIX_OPS and not needs_f32(w) and s.stored[n].type_id in NOT_WEIGHTS
    ]
    yield from limited(_types(s, names, "llama.cpp has no product for it and dies at the first decode"))


def _suspects(m: Model, s: Survey) -> Iterator[tuple[str, Wanted]]:
    """Tensors that the graph uses and that are not F32."""
    ignored = load("load_maps.json")["unused"].get(m.architecture, ())
    for name, wanted in s.wanted.items():
        info = s.stored.get(name)
        if info is not None and info.type_id and info.type is not None and wanted.used and wanted.slot not in ignored:
            yield name, wanted


def _types(s: Survey, names: list[str], why: str) -> Iterator[Draft]:
    for group in grouped(names).values():
        kind = tensor_type_name(s.stored[group[0]].type_id)
        yield found(f"{group[0]} is {kind}{several(group)}; {why}", where=f"tensor:{group[0]}", tensors=group)
