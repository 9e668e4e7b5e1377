"""Which part of a model a tensor is, in the words of people: attention, feed-forward, experts …"""

from __future__ import annotations

from gguftool.regex import regex

_BLOCK = regex(r"(?:[a-z_]{1,8}\.){0,2}(?:blk|layers|block)\.(\d{1,18})\.")
KINDS = (
    ("norm", regex(r"(?:^|[._])(?:norm|ln|layernorm|layer_norm)\d*[._]|_norms?(?:_|\.|$)|\.ln\d?\.|_ln\.")),
    ("experts", regex(r"_(?:ch)?exps?(?:\.|_)|_shexp|ffn_gate_inp|exp_probs|ffn_gate_tid2eid")),
    ("state", regex(r"\b(?:ssm|time_mix|channel_mix|shortconv|kda|wkv)|ssm_")),
    ("attention", regex(r"attn|cross_attn|indexer|compressor|\.k_|\.q_|\.v_b")),
    ("feed-forward", regex(r"ffn|mlp|vis_(?:gate|up|down)")),
    ("embedding", regex(r"embd|embed|token_types|altup|per_layer_|patch|class_")),
    ("output", regex(r"^(?:output|cls|dec\.output|head)|nextn\.shared_head_head")),
    ("rope", regex(r"^rope_")),
)
"""By the first that is found in the name; what none of them is, is ``other``."""


def kind(name: str) -> str:
    """What part of a model the tensor of that name is: a word of `KINDS`, else ``other``."""
    return next((word for word, pattern in KINDS if pattern.search(name[:200])), "other")


def block(name: str) -> str:
    """The block that a tensor stands in, ``blk.7`` or ``v.blk.3``; "" outside of any."""
    found = _BLOCK.match(name[:200])
    return found[0].rstrip(".") if found else ""
