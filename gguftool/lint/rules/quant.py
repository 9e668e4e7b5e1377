"""Quantisation: the labels in the metadata against the types of the tensors."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts import llama_cpp
from gguftool.format.types import FILE_TYPES, file_type_name
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.model import Model, Tensor

KEY = "general.file_type"
VERSION_KEY = "general.quantization_version"
CURRENT_VERSION = 2
FLOATS = frozenset({"F32", "F16", "BF16", "F64"})
_GUESSED = 1024


def _weights(m: Model) -> dict[str, int]:
    """Elements of all tensors with two or more dimensions, by tensor type."""
    out: dict[str, int] = {}
    for t in m.tensors.values():
        if len(t.shape) > 1 and t.info.type is not None and t.info.elements:
            out[t.type_name] = out.get(t.type_name, 0) + t.info.elements
    return out


def family_of(ftype: str) -> frozenset[str]:
    """Tensor types that a recipe is made of: Q4_K_M mixes Q4_K with Q5_K, Q6_K and, in odd rows, 32-element types."""
    base = ftype.removesuffix("_S").removesuffix("_M").removesuffix("_L").removesuffix("_XL").removesuffix("_MOE")
    return frozenset({ftype, base})


@rule(Severity.WARNING, changes_run=False)
def file_type_mismatch(m: Model, ctx: Context) -> Drafts:
    """The quantisation label should be what the tensors are.

    Why. `general.file_type` is what file listings, user interfaces and llama.cpp's log show; the tensors decide.
    A file labelled Q4_K_M that holds F16 is four times larger than planned for.
    Evidence. `llama-model-loader.cpp` (b11434) guesses from the tensors only when the key is missing.
    Example. labelled Q8_0, but no tensor is Q8_0 (mostly F16)
    Fix. `gguftool fix --set general.file_type=N`, or look for the right file.
    """
    value = m.get(KEY)
    if isinstance(value, bool) or not isinstance(value, int) or (value & ~_GUESSED) not in FILE_TYPES:
        return
    weights = _weights(m)
    if not weights or any(t.info.type is None for t in m.tensors.values()):
        return
    label, types = file_type_name(value), set(weights)
    most = max(weights, key=lambda name: weights[name])
    share = 100 * weights[most] / sum(weights.values())
    if _explains(label, types):
        return
    right = next((n for n, name in FILE_TYPES.items() if name == most), None)
    fix = Fix(f"set it to {right} ({most})", (Set(KEY, right, "u32"),)) if right is not None and share > 90 else None
    yield found(
        f"labelled {label}, but the tensors are mostly {most} ({share:.0f} %)",
        where=f"field:{KEY}",
        fix=fix,
        label=label,
        types=weights,
    )


def _explains(label: str, types: set[str]) -> bool:
    """The label fits the types: a float label needs that float, a quantised one a quantised tensor of its kind."""
    if label in FLOATS:
        # llama-quantize names a file F16 when its large tensors are; norms and one-dimensional tensors stay F32.
        return label in types or types <= {"F32"}
    quantised = types - FLOATS
    if not quantised:
        return False
    # Rows that do not divide by 256 fall back to 32-element types, so the recipe's own type may be missing.
    return bool(family_of(label) & types) or label.startswith("IQ") or bool(quantised & _FALLBACKS)


_FALLBACKS = {"Q4_0", "Q5_0", "Q5_1", "Q8_0", "IQ4_NL", "Q6_K", "Q5_K", "Q4_K", "Q3_K", "Q2_K", "MXFP4"}


@rule(Severity.INFO)
def file_type_unknown(m: Model, ctx: Context) -> Drafts:
    """The quantisation label should be a number that is known.

    Why. Programs show "unknown" or a wrong name; llama.cpp loads the file all the same.
    Evidence. `llama.h:llama_ftype` (b11434); any value loads (measured).
    Example. general.file_type is 99, which is no file type of llama.cpp b11434
    Fix. `gguftool fix --set general.file_type=N`.
    """
    value = m.get(KEY)
    if isinstance(value, int) and not isinstance(value, bool) and (value & ~_GUESSED) not in FILE_TYPES:
        yield found(f"{KEY} is {value}, which is no file type of {llama_cpp()}", where=f"field:{KEY}")


@rule(Severity.INFO)
def file_type_missing(m: Model, ctx: Context) -> Drafts:
    """A quantised file should say how it was quantised.

    Why. Without the label llama.cpp guesses from the most frequent tensor type and prints "(guessed)".
    Evidence. `llama-model-loader.cpp` (b11434).
    Example. general.file_type is missing; most tensors are Q4_K
    Fix. `gguftool fix --set general.file_type=N`.
    """
    if KEY in m:
        return
    weights = _weights(m)
    quantised = {name: n for name, n in weights.items() if name not in FLOATS}
    if quantised:
        most = max(quantised, key=lambda name: quantised[name])
        yield found(f"{KEY} is missing; most quantised tensors are {most}", where=f"field:{KEY}")


@rule(Severity.WARNING)
def quantization_version_odd(m: Model, ctx: Context) -> Drafts:
    """The version of the quantised formats should be 2.

    Why. Version 1 blocks (before May 2023) have another layout and decode to noise; no GGUF should hold them, and
    programs that check the number refuse the file.
    Evidence. `ggml.h:GGML_QNT_VERSION` is 2; llama-quantize writes it, llama.cpp b11434 does not check it.
    Example. general.quantization_version is 1
    Fix. `gguftool fix --set general.quantization_version=2` when the tensors are right; else quantise again.
    """
    value = m.get(VERSION_KEY)
    if isinstance(value, bool) or not isinstance(value, int) or value == CURRENT_VERSION:
        return
    if any(_quantised(t) for t in m.tensors.values()):
        yield found(
            f"{VERSION_KEY} is {value}, current files have {CURRENT_VERSION}",
            where=f"field:{VERSION_KEY}",
            fix=Fix(f"set it to {CURRENT_VERSION}", (Set(VERSION_KEY, CURRENT_VERSION, "u32"),)),
        )


def _quantised(t: Tensor) -> bool:
    return t.info.type is not None and t.info.type.block_size > 1


@rule(Severity.INFO)
def quantization_version_missing(m: Model, ctx: Context) -> Drafts:
    """A quantised file should state the version of its formats.

    Why. The specification demands the key where tensors are quantised; some readers insist on it.
    Evidence. GGUF specification; llama-quantize writes 2, llama.cpp b11434 does not check it.
    Example. general.quantization_version is missing in a quantised file
    Fix. Writes 2, the only version there is in GGUF.
    """
    if VERSION_KEY not in m and any(_quantised(t) for t in m.tensors.values()):
        fix = Fix(f"set it to {CURRENT_VERSION}", (Set(VERSION_KEY, CURRENT_VERSION, "u32"),), safe=True)
        yield found(f"{VERSION_KEY} is missing in a quantised file", where=f"field:{VERSION_KEY}", fix=fix)
