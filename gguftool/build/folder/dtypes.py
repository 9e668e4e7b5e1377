"""What the weights are stored as: anything but floating-point numbers needs a quantisation that is declared."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder import quantised
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen
from gguftool.build.folder.weights import shown
from gguftool.build.safetensors import BITS, FLOATS, Entry
from gguftool.regex import regex

KNOWN = frozenset("F64 F32 BF16 F16 I64 I32 I16 U8 I8 BOOL F8_E4M3 F8_E5M2 F8_E8M0".split())
"""Types the converter can read (`conversion/base.py:LazyTorchTensor._dtype_str_map`, b11434)."""
_NO_WEIGHT = regex(
    r".*?(?:position_ids|token_type_ids|\.attn\.bias|masked_bias|tid2eid|relative_position_index|num_batches_tracked"
    r"|inv_freq|rope_freqs|\.causal_mask|_mask|_index|_ids|n_averaged)$"
)
"""Names of tables, masks and counters: integers by nature."""


def types(seen: Seen) -> Iterator[Problem]:
    """Weights that are stored as integers or in 8 bits though nothing says what their numbers mean."""
    if quantised.refused(seen):
        return
    foreign = [e for e in seen.text.values() if e.dtype not in KNOWN]
    if foreign:
        yield _problem(foreign, "dtype-unknown", "a type this converter cannot read", "save the weights in BF16")
    if quantised.own_way(seen):
        return
    if quantised.plain(seen):
        odd = [e for n, e in seen.text.items() if e.dtype not in FLOATS and not _NO_WEIGHT.match(n)]
    else:
        # What a declared quantisation stores under the name of a weight has a scale beside it.
        odd = [e for e in seen.ends.get("weight", ()) if e.dtype not in FLOATS and not _scaled(seen, e.name)]
    eights = [e for e in odd if e.dtype.startswith("F8_")]
    if eights:
        yield _problem(
            eights,
            "fp8-without-scales",
            "8-bit floating point, and no scale lies beside it",
            "its numbers mean nothing without their scales: take the unquantised model, or download the folder again",
        )
    whole = [e for e in odd if e.dtype in KNOWN and not e.dtype.startswith("F8_") and _is_weight(e)]
    if whole:
        yield _problem(
            whole,
            "integer-weights",
            "whole numbers, and nothing in config.json says what they stand for",
            "take the unquantised model; what was trained in 8 bits must be saved or merged in 16",
        )


def empty(seen: Seen) -> Iterator[Problem]:
    """Tensors without a single number, as DeepSpeed's ZeRO 3 leaves them when each process saves its own part."""
    found = [e for e in seen.text.values() if 0 in e.shape]
    if found:
        more = f"; {len(found) - 1:,} more like it" if len(found) > 1 else ""
        yield Problem(
            "empty-tensor",
            f"{seen.path}: {found[0].name} is empty ({shown(found[0].shape)}){more}",
            "the weights were saved from one part of a sharded model: gather them first (DeepSpeed: "
            "zero_to_fp32.py, or stage3_gather_16bit_weights_on_model_save)",
        )


def _scaled(seen: Seen, name: str) -> bool:
    return any(name + end in seen.tensors for end in ("_scale", "_scale_inv"))


def _is_weight(entry: Entry) -> bool:
    return len(entry.shape) >= 2 or entry.name.endswith((".weight", ".bias"))


def _problem(found: list[Entry], kind: str, what: str, hint: str) -> Problem:
    e = found[0]
    bits = f" ({BITS[e.dtype]} bits)" if kind == "dtype-unknown" and e.dtype in BITS else ""
    more = f"; {len(found) - 1:,} more like it" if len(found) > 1 else ""
    return Problem(kind, f"{e.name} is {e.dtype}{bits}: {what}{more}", hint)
