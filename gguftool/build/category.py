"""What part of a model a tensor is, told by its name as llama.cpp's quantiser tells it, and what it never quantises.

After `llama-quant.cpp:tensor_get_category` and `tensor_allows_quantization` (b11434).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum


class Category(Enum):
    """A part of a model, as coarse as the quantiser needs it."""

    TOKEN_EMBD = "token_embd"
    OUTPUT = "output"
    ATTENTION_Q = "attn_q"
    ATTENTION_K = "attn_k"
    ATTENTION_V = "attn_v"
    ATTENTION_QKV = "attn_qkv"
    ATTENTION_KV_B = "attn_kv_b"
    ATTENTION_OUTPUT = "attn_output"
    FFN_UP = "ffn_up"
    FFN_GATE = "ffn_gate"
    FFN_DOWN = "ffn_down"
    OTHER = ""

    @property
    def is_value(self) -> bool:
        """Attention values, alone or fused with others: they suffer most from few bits."""
        return self in (Category.ATTENTION_V, Category.ATTENTION_QKV, Category.ATTENTION_KV_B)


_BY_PART = (
    ("attn_qkv.weight", Category.ATTENTION_QKV),
    ("attn_kv_b.weight", Category.ATTENTION_KV_B),
    ("attn_v.weight", Category.ATTENTION_V),
    ("attn_k.weight", Category.ATTENTION_K),
    ("attn_q.weight", Category.ATTENTION_Q),
    ("attn_output.weight", Category.ATTENTION_OUTPUT),
    ("ffn_up", Category.FFN_UP),
    ("ffn_gate", Category.FFN_GATE),
    ("ffn_down", Category.FFN_DOWN),
)


def is_embedding(name: str) -> bool:
    """Token embeddings, of the model or of each layer."""
    return name in ("token_embd.weight", "per_layer_token_embd.weight")


def category(name: str) -> Category:
    """The category of the tensor called ``name``."""
    if name == "output.weight":
        return Category.OUTPUT
    if is_embedding(name):
        return Category.TOKEN_EMBD
    return next((kind for part, kind in _BY_PART if part in name), Category.OTHER)


_NEVER = (
    # norms, routers and routing tables, small projections
    *"_norm.weight ffn_gate_inp.weight ffn_gate_tid2eid.weight altup laurel per_layer_model_proj".split(),
    # short convolutions, indexers
    *"ssm_conv1d shortconv.conv.weight indexer.k_proj.weight indexer.q_proj.weight".split(),
    # RWKV's small matrices
    *(f"time_mix_{part}.weight" for part in "first w0 w1 w2 v0 v1 v2 a0 a1 a2 g1 g2".split()),
    *(f"time_mix_{part}.weight" for part in "decay_w1 decay_w2 lerp_fused".split()),
    # relative positions, images, audio
    *"attn_rel_b.weight .position_embd sam.pos_embd sam.neck. sam.net_ .rel_pos .patch_embd .patch_merger".split(),
    *"a.rvq.codebook mm.a.code_embd".split(),
)
_NEVER_GLM5_NEXT = tuple(
    "hc_ indexer.attn_q_b indexer.attn_k indexer.proj indexer_compressor_gate indexer_compressor_ape ssm_f_a.weight "
    "ssm_f_b.weight ssm_g_a.weight ssm_g_b.weight ssm_beta.weight attn_kv_a_mqa.weight attn_k_b.weight "
    "attn_v_b.weight".split()
)


def allowed(name: str, dims: Sequence[int], arch: str) -> bool:
    """Whether the quantiser touches this tensor at all; ``dims`` fastest running first."""
    if dimensions(dims) < 2 or not name.endswith("weight"):
        return False
    if name in ("position_embd.weight", "token_types.weight"):
        return False
    if any(part in name for part in _NEVER):
        return False
    return not (arch == "glm5-next" and any(part in name for part in _NEVER_GLM5_NEXT))


def dimensions(dims: Sequence[int]) -> int:
    """How many dimensions are left when trailing ones of size 1 do not count (`ggml.c:ggml_n_dims`)."""
    return max((i + 1 for i, n in enumerate(dims) if n > 1), default=1)
