"""Latent attention that is not used: what the KV cache costs in a file made before llama.cpp kept the latent alone.

Until April 2025 (llama.cpp pull request 12801) the converter left `attn_kv_b` in one piece; llama.cpp still loads such
a file and keeps K and V of every head, where a newer file costs one latent for each token.
"""

from __future__ import annotations

from collections.abc import Iterable

from gguftool.facts.arch import Hparams


def unsplit(hp: Hparams, tensors: Iterable[str]) -> bool:
    """Whether a file has the latent projections in one piece, so that llama.cpp keeps whole heads.

    Args:
        hp: its hyperparameters.
        tensors: names of its tensors.

    Source: `models/deepseek2.cpp:load_arch_tensors`, `models/kimi-linear.cpp:load_arch_tensors` (b11434).
    """
    names = [name for name in tensors if name.startswith("blk.")]
    if not any(".attn_kv_b." in name for name in names) or any(".attn_k_b." in name for name in names):
        return False
    # Who reads which key is a table of its own, and few files have such a tensor.
    from gguftool.facts.reads import reads

    return "attention.key_length_mla" in reads(hp.arch) and not hp.shape.mla


def as_latent(hp: Hparams) -> Hparams | None:
    """The same model as the converter writes it today: one KV head, of the latent and the rotated part.

    Source: `conversion/deepseek.py:DeepseekV2Model.set_gguf_parameters` (b11434).

    Returns:
        hyperparameters for `gguftool.memory.kv.kv_cache`; None when the keys do not say how wide the latent is.
    """
    rank, turned = hp.int("attention.kv_lora_rank"), hp.int("rope.dimension_count")
    if not rank or not turned or not hp.key_length or not hp.value_length:
        return None
    return hp.changed(
        {
            "attention.head_count_kv": 1,
            "attention.key_length": rank + turned,
            "attention.value_length": rank,
            "attention.key_length_mla": hp.key_length,
            "attention.value_length_mla": hp.value_length,
        }
    )


def price(hp: Hparams, ctx: int) -> tuple[int, int] | None:
    """Bytes of an f16 cache of one slot: as the file is, and as a newer conversion has it; None when unknown."""
    from gguftool.memory.kv import kv_cache
    from gguftool.memory.settings import Settings

    newer = as_latent(hp)
    if newer is None:
        return None
    settings = Settings(ctx=ctx)
    return kv_cache(hp, settings).bytes, kv_cache(newer, settings).bytes
