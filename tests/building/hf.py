"""Tiny Hugging Face folders with random weights and a small real tokenizer, written without torch.

The tokenizers (tests/data/building/tokenizers), a SentencePiece model and a byte-level BPE, were trained on
licence texts.
"""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path
from typing import Any

import numpy as np

TOKENIZERS = Path(__file__).parent.parent / "data" / "building" / "tokenizers"
VOCAB, WIDTH, FF, LAYERS, HEADS, KV_HEADS, HEAD = 400, 256, 512, 2, 4, 2, 64
CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
PLAIN = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)

_COMMON = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "intermediate_size": FF,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "torch_dtype": "bfloat16",
}
CONFIGS: dict[str, dict[str, Any]] = {
    "llama": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", **_COMMON},
    "qwen2": {
        "architectures": ["Qwen2ForCausalLM"],
        "model_type": "qwen2",
        "hidden_act": "silu",
        **_COMMON,
        "rope_theta": 1000000.0,
        "max_position_embeddings": 4096,
    },
    "qwen3": {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        **_COMMON,
        "rope_theta": 1000000.0,
    },
    "gemma3": {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": HEAD,
        "sliding_window": 512,
        "sliding_window_pattern": 2,
        "rope_local_base_freq": 10000.0,
        **_COMMON,
        "rope_theta": 1000000.0,
    },
}
SPM = ("llama", "gemma3")


def shapes(arch: str) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the weights as transformers saves them."""
    found: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, WIDTH), "model.norm.weight": (WIDTH,)}
    if arch != "gemma3":
        found["lm_head.weight"] = (VOCAB, WIDTH)
    q, kv = HEADS * HEAD, KV_HEADS * HEAD
    for i in range(LAYERS):
        parts: dict[str, tuple[int, ...]] = {
            "input_layernorm.weight": (WIDTH,),
            "post_attention_layernorm.weight": (WIDTH,),
            "self_attn.q_proj.weight": (q, WIDTH),
            "self_attn.k_proj.weight": (kv, WIDTH),
            "self_attn.v_proj.weight": (kv, WIDTH),
            "self_attn.o_proj.weight": (WIDTH, q),
            "mlp.gate_proj.weight": (FF, WIDTH),
            "mlp.up_proj.weight": (FF, WIDTH),
            "mlp.down_proj.weight": (WIDTH, FF),
        }
        if arch == "qwen2":
            parts |= {f"self_attn.{x}_proj.bias": (n,) for x, n in (("q", q), ("k", kv), ("v", kv))}
        if arch in ("qwen3", "gemma3"):
            parts |= {"self_attn.q_norm.weight": (HEAD,), "self_attn.k_norm.weight": (HEAD,)}
        if arch == "gemma3":
            parts |= {"pre_feedforward_layernorm.weight": (WIDTH,), "post_feedforward_layernorm.weight": (WIDTH,)}
        found |= {f"model.layers.{i}.{name}": shape for name, shape in parts.items()}
    return found


def safetensors(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> Path:
    """Write a safetensors file: name -> (dtype, shape, data)."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))
    return path


def bf16(shape: tuple[int, ...], seed: int) -> bytes:
    """Random weights; norms (one dimension) around one."""
    values = np.random.RandomState(seed).standard_normal(shape).astype(np.float32) * 0.05
    if len(shape) == 1:
        values += 1
    return (values.view(np.uint32) >> 16).astype("<u2").tobytes()


def folder(path: Path, arch: str, *, parts: int = 1, **config: Any) -> Path:
    """A model folder; with ``parts`` > 1 its weights lie in several files with an index."""
    path.mkdir(parents=True, exist_ok=True)
    special = {"bos_token_id": 2, "eos_token_id": 1} if arch in SPM else {"bos_token_id": 0, "eos_token_id": 2}
    (path / "config.json").write_text(json.dumps({**CONFIGS[arch], **special, **config}, indent=1))
    if arch in SPM:
        shutil.copy(TOKENIZERS / "spm.model", path / "tokenizer.model")
        names = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        names |= {"add_bos_token": True, "pad_token": "<pad>"}
    else:
        shutil.copy(TOKENIZERS / "bpe.json", path / "tokenizer.json")
        names = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
        names |= {"add_bos_token": False}
    (path / "tokenizer_config.json").write_text(
        json.dumps({**names, "chat_template": PLAIN if arch in SPM else CHATML})
    )
    weights = {n: ("BF16", s, bf16(s, i)) for i, (n, s) in enumerate(shapes(arch).items())}
    if parts == 1:
        safetensors(path / "model.safetensors", weights)
        return path
    index: dict[str, str] = {}
    names_of = list(weights)
    for no in range(parts):
        own = names_of[no::parts]
        file = f"model-{no + 1:05d}-of-{parts:05d}.safetensors"
        safetensors(path / file, {n: weights[n] for n in own})
        index |= dict.fromkeys(own, file)
    (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))
    return path
