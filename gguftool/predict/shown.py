"""What the tensors of a model show of its sizes, without any key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gguftool.format.header import TensorInfo
from gguftool.model import Model
from gguftool.predict.stages import stored_tensors
from gguftool.records import dataclass
from gguftool.regex import regex

_BLOCK = regex(r"(?:(?:enc|dec)\.)?blk\.(\d{1,18})\.(.*)")
_PLACES: dict[str, tuple[tuple[str, int], ...]] = {
    "embedding_length": (("token_embd.weight", 0), ("output_norm.weight", 0)),
    "feed_forward_length": (("ffn_up.weight", 1), ("ffn_gate.weight", 1), ("ffn_down.weight", 0)),
    "expert_feed_forward_length": (("ffn_up_exps.weight", 1), ("ffn_down_exps.weight", 0)),
    "expert_shared_feed_forward_length": (("ffn_up_shexp.weight", 1), ("ffn_down_shexp.weight", 0)),
    "expert_count": (("ffn_up_exps.weight", 2), ("ffn_down_exps.weight", 2), ("ffn_gate_inp.weight", 1)),
    "attention.head_count": (("attn_sinks.weight", 0),),
    "attention.key_length": (("attn_q_norm.weight", 0), ("attn_k_norm.weight", 0)),
    "attention.q_lora_rank": (("attn_q_a.weight", 1), ("attn_q_b.weight", 0)),
    "attention.kv_lora_rank": (("attn_kv_b.weight", 0), ("attn_kv_a_norm.weight", 0)),
    "ssm.inner_size": (("ssm_out.weight", 0), ("ssm_conv1d.bias", 0)),
    "ssm.state_size": (("ssm_a", 0),),
    "ssm.conv_kernel": (("ssm_conv1d.weight", 0),),
    "ssm.time_step_rank": (("ssm_dt.weight", 0), ("ssm_dt.bias", 0)),
    "context_length": (("position_embd.weight", 1),),
    "vocab_size": (("token_embd.weight", 1),),
}
"""Keys and the tensor sizes that are their value."""
_ROWS: dict[str, tuple[tuple[str, int, str], ...]] = {
    "attention.head_count": (("attn_q.weight", 1, "n_embd_head_k()"), ("attn_output.weight", 0, "n_embd_head_v()")),
    "attention.head_count_kv": (("attn_k.weight", 1, "n_embd_head_k()"), ("attn_v.weight", 1, "n_embd_head_v()")),
    "attention.key_length": (
        ("attn_k.weight", 1, "n_head_kv()"),
        ("attn_q.weight", 1, "n_head()"),
        ("attn_q_b.weight", 1, "n_head()"),
    ),
    "attention.value_length": (("attn_v.weight", 1, "n_head_kv()"), ("attn_output.weight", 0, "n_head()")),
}
"""Keys, and the tensor sizes that are a multiple of their value: by the number that llama.cpp calls so."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What the tensors show.

    Attributes:
        stored: tensors by name.
        blocks: one more than the highest block number.
        nextn: blocks that predict further tokens: they have tensors of that name.
        dense: blocks in front of the first one with experts.
        sizes: shapes that tensors of one name (without the block) have.
    """

    stored: Mapping[str, TensorInfo]
    blocks: int
    nextn: frozenset[int]
    dense: int
    sizes: Mapping[str, tuple[tuple[int, ...], ...]]

    def block(self, name: str) -> int:
        """Number of the block of a tensor, -1 outside."""
        hit = _BLOCK.match(name)
        return int(hit[1]) if hit else -1

    def values(self, suffix: str, named: Mapping[str, int]) -> Iterator[int]:
        """Values that the tensors suggest for a key."""
        if suffix == "block_count":
            yield from (self.blocks, self.blocks - len(self.nextn))
        elif suffix == "nextn_predict_layers":
            yield from (len(self.nextn), 0)
        elif suffix == "leading_dense_block_count":
            yield self.dense
        for name, axis in _PLACES.get(suffix, ()):
            yield from (shape[axis] for shape in self.sizes.get(name, ()) if len(shape) > axis)
        for name, axis, divisor in _ROWS.get(suffix, ()):
            by = named.get(divisor, 0)
            for shape in self.sizes.get(name, ()):
                if by and len(shape) > axis and shape[axis] % by == 0:
                    yield shape[axis] // by
        yield from self._heads(suffix, named)

    def _heads(self, suffix: str, named: Mapping[str, int]) -> Iterator[int]:
        """Sizes of heads that one key tells another one."""
        rot, width = named.get("n_rot()", 0), named.get("n_embd", 0)
        low = next(iter(self.sizes.get("attn_kv_a_norm.weight", ())), ())
        wide = next(iter(self.sizes.get("attn_kv_a_mqa.weight", ())), ())
        latent = bool(low) and len(wide) > 1
        if suffix == "rope.dimension_count":
            yield from (2 * shape[0] for shape in self.sizes.get("rope_freqs.weight", ()) if shape)
            yield named.get("n_embd_head_k()", 0)
            if latent:
                yield wide[1] - low[0]
        elif suffix == "attention.key_length":
            yield rot
            if latent:
                yield wide[1]
        elif suffix == "attention.value_length" and latent:
            yield low[0]
        elif suffix == "attention.head_count":
            yield named.get("n_head_kv()", 0)
            if rot and width % rot == 0:
                yield width // rot
        elif suffix == "attention.head_count_kv":
            yield 1 if latent else named.get("n_head()", 0)


def shown_by(model: Model) -> Shown:
    """Look at every tensor once."""
    stored = stored_tensors(model)
    blocks, nextn, experts = 0, set(), []
    sizes: dict[str, dict[tuple[int, ...], None]] = {}
    for name, info in stored.items():
        hit = _BLOCK.match(name)
        base = hit[2] if hit else name
        if hit:
            n = int(hit[1])
            blocks = max(blocks, n + 1)
            if base.startswith("nextn."):
                nextn.add(n)
            if "_exps." in base or base == "ffn_gate_inp.weight":
                experts.append(n)
        sizes.setdefault(base, {})[info.shape] = None
    # Of many shapes of one name only a few are worth a trial.
    few = {base: tuple(shapes)[:3] for base, shapes in sizes.items()}
    return Shown(stored, blocks, frozenset(nextn), min(experts, default=blocks), few)
