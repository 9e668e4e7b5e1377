"""Options about the context: its length, its slots, its cache."""

from __future__ import annotations

from gguftool.memory.settings import BATCH, UBATCH
from gguftool.records import dataclass
from gguftool.run.options.kinds import CACHE_TYPE, ON_OFF_WORDS, SLOTS, SWITCH, TOKENS, choice, numbers
from gguftool.run.options.row import Constant, option


@dataclass(frozen=True, slots=True)
class ContextWishes:
    """What is asked of the context."""

    ctx: int | None = option(
        TOKENS, help="Tokens of all slots together; default, and 0: the file's context length.",
        names=("-c", "--ctx-size"), ours="--ctx", former=("--context-length", "--context", "--n-ctx", "--n_ctx"),
        plan=True, library="n_ctx",
    )  # fmt: skip
    cache_type: tuple[str, str] | None = option(
        CACHE_TYPE, help="KV cache types, of K or K/V; default: the file's record, else f16.", ours="--cache-type",
        former=("--kv-cache-type",), plan=True,
        sides=(("-ctk", "--cache-type-k", "--ctk", "--type-k"), ("-ctv", "--cache-type-v", "--ctv", "--type-v")),
    )  # fmt: skip
    flash_attn: str = option(
        choice("on", "off", "auto", also=ON_OFF_WORDS), "auto", "Flash attention.", names=("-fa", "--flash-attn"),
        constants=(Constant(("--no-flash-attn",), "off", "The same as --flash-attn off."),), plan=True,
    )  # fmt: skip
    parallel: int | None = option(
        SLOTS, 1, "Slots; auto: 4 that share the context, as llama-server does when it is not told.",
        names=("-np", "--parallel"), former=("--slots-count", "--n-parallel"), plan=True, must=False,
        library="n_parallel",
    )  # fmt: skip
    kv_unified: bool | None = option(
        SWITCH, help="All slots share one context.", names=("-kvu", "--kv-unified"), plan=True,
        constants=(Constant(("-no-kvu", "--no-kv-unified"), False, "Each slot has its part of the context."),),
        library="kv_unified",
    )  # fmt: skip
    slot_ctx: int | None = option(
        numbers(1), help="Most tokens of one slot.", names=("--kv-unified-per-slot",), plan=True,
        library="kv_unified_per_slot",
    )  # fmt: skip
    ubatch: int | None = option(
        numbers(1, 2**31 - 1), help=f"Tokens of one graph, the physical batch (llama.cpp: {UBATCH}).", ours="--ubatch",
        names=("-ub", "--ubatch-size"), plan=True, library="n_ubatch",
    )  # fmt: skip
    batch: int | None = option(
        numbers(1, 2**31 - 1), help=f"Logical batch (llama.cpp: {BATCH}).", ours="--batch",
        names=("-b", "--batch-size"), plan=True, library="n_batch",
    )  # fmt: skip
    swa_full: bool = option(
        SWITCH, False, "Sliding windows as large as the context.", names=("--swa-full",), plan=True, library="swa_full"
    )
