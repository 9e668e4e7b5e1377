"""The types llama.cpp takes for its KV cache, and what it refuses.

The list is that of `-ctk`/`-ctv` (`common/arg.cpp:kv_cache_types`, b11434); the rules are those of
`llama-context.cpp:llama_init_from_model`, in its order and in its words. Nothing of this can be set in a GGUF file:
llama.cpp reads no such key. `{arch}.kv_cache_type` is gguftool's own note of what a file is meant to run with.
"""

from __future__ import annotations

from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.layers import is_mla, layers
from gguftool.records import dataclass

DEFAULT = "f16"
RECORD_KEY = "kv_cache_type"
"""Key, without the architecture prefix, under which gguftool records the wanted cache types."""


@dataclass(frozen=True, slots=True)
class CacheType:
    """A cache type: ``block_size`` elements take ``block_bytes`` bytes."""

    name: str
    block_size: int
    block_bytes: int

    @property
    def quantized(self) -> bool:
        """Stored in blocks with a scale (`ggml.c:ggml_is_quantized`)."""
        return self.block_size > 1

    @property
    def bytes_per_element(self) -> float:
        """Bytes per element: 1.0625 for q8_0."""
        return self.block_bytes / self.block_size

    def row_bytes(self, elements: int) -> int:
        """Bytes of a row (`ggml.c:ggml_row_size`)."""
        return elements * self.block_bytes // self.block_size


CACHE_TYPES: dict[str, CacheType] = {
    t.name: t
    for t in (
        CacheType("f32", 1, 4),
        CacheType("f16", 1, 2),
        CacheType("bf16", 1, 2),
        CacheType("q8_0", 32, 34),
        CacheType("q4_0", 32, 18),
        CacheType("q4_1", 32, 20),
        CacheType("iq4_nl", 32, 18),
        CacheType("q5_0", 32, 22),
        CacheType("q5_1", 32, 24),
    )
}
FAST_PAIRS = frozenset({("q4_0", "q4_0"), ("q8_0", "q8_0"), ("f16", "f16"), ("bf16", "bf16")})
"""Pairs with a FlashAttention vector kernel in a CUDA build as it comes (`GGML_CUDA_FA_QUANTS` by default)."""


def parse(text: str) -> tuple[str, str]:
    """``q8_0`` or ``q8_0/q4_0`` (K/V) as a pair of names.

    Raises:
        UsageError: a name llama.cpp does not take; the hint lists those it does.
    """
    parts = [p.strip().lower() for p in text.split("/")]
    for p in parts:
        if p not in CACHE_TYPES:
            raise UsageError(f"{p or text!r} is not a cache type", "one of " + ", ".join(CACHE_TYPES) + "; or K/V")
    if len(parts) > 2:
        raise UsageError(f"{text}: a cache type is K or K/V", "for example q8_0 or q8_0/q4_0")
    return parts[0], parts[-1]


def shown(type_k: str, type_v: str) -> str:
    """``q8_0`` when both are equal, else ``q8_0/q4_0``: what `parse` reads."""
    return type_k if type_k == type_v else f"{type_k}/{type_v}"


def recorded(hp: Hparams) -> tuple[str, str] | None:
    """The pair the file itself records under ``{arch}.kv_cache_type``; None when absent or not a cache type."""
    raw = hp.raw(RECORD_KEY)
    if not isinstance(raw, str):
        return None
    try:
        return parse(raw)
    except UsageError:
        return None


NO_CACHE = frozenset({"recurrent", "none", "unsupported"})
"""Memory classes that have no KV cache to quantise."""


def has_cache(hp: Hparams) -> bool:
    """The architecture keeps a KV cache (an unknown one is taken to)."""
    return hp.facts is None or hp.facts.memory not in NO_CACHE


def possible(hp: Hparams) -> list[str]:
    """The types that K and V of this model can both have; none for a model without a KV cache."""
    return [name for name in CACHE_TYPES if has_cache(hp) and not refusals(hp, name, name)]


def refusals(hp: Hparams, type_k: str, type_v: str, flash_attn: str = "auto") -> list[str]:
    """Why llama.cpp b11434 would refuse these cache types for this model, in its own words; empty: it takes them.

    llama.cpp stops at the first reason, so there is never more than one.

    Args:
        hp: hyperparameters of the model.
        type_k: a name of `CACHE_TYPES`.
        type_v: another, or the same.
        flash_attn: ``on``, ``off`` or ``auto``.
    """
    for option, name in (("-ctk", type_k), ("-ctv", type_v)):
        if name not in CACHE_TYPES:
            return [f'error while handling argument "{option}": Unsupported cache type: {name}']
    k, v = CACHE_TYPES[type_k], CACHE_TYPES[type_v]
    flash = flash_attn_used(hp, type_v, flash_attn)
    if (is_mla(hp) or hp.arch == "deepseek4") and type_k != type_v:
        return [f"model does not support different K ({type_k}) and V ({type_v}) cache types"]
    if v.quantized and not flash:
        return ["quantized V cache requires flash_attn to be enabled"]
    trunk = [x for x in layers(hp) if x.trunk] if flash and (k.quantized or v.quantized) else []
    for label, t, sizes in (
        ("K", k, [x.key_length for x in trunk]),
        ("V", v, [x.value_length for x in trunk]),
    ):
        for size in sizes:
            if t.quantized and size % t.block_size:
                what = f"n_embd_head_{label.lower()}={size}"
                return [f"{label} cache type {t.name} with block size {t.block_size} does not divide {what}"]
    return []


def flash_attn_said(type_v: str, flash_attn: str, arch: str = "") -> str:
    """What llama.cpp makes of ``-fa``: a quantised V turns ``auto`` into ``on``, for grok it is always ``off``."""
    if arch == "grok":
        return "off"
    return "on" if flash_attn == "auto" and CACHE_TYPES[type_v].quantized else flash_attn


def flash_attn_used(hp: Hparams, type_v: str, flash_attn: str) -> bool:
    """Whether the cache is laid out for FlashAttention: ``auto`` counts as on."""
    return flash_attn_said(type_v, flash_attn, hp.arch) != "off"


def slow_pairs(type_k: str, type_v: str) -> list[str]:
    """Why this pair is slow on a CUDA build as it comes; empty: it is not.

    `fattn.cu:ggml_cuda_flash_attn_ext_vec` (b11434): a stock build compiles the vector kernel for `FAST_PAIRS` only,
    and no kernel at all reads iq4_nl.
    """
    if "iq4_nl" in (type_k, type_v):
        return ["iq4_nl has no FlashAttention on CUDA: its attention would run on the CPU"]
    if (type_k, type_v) not in FAST_PAIRS:
        return [
            f"a CUDA build as it comes has no FlashAttention vector kernel for {type_k}-{type_v} and converts both to"
            " f16 at every step; equal q8_0 or q4_0 are fast"
        ]
    return []
