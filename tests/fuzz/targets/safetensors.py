"""Folders of Hugging Face: headers of safetensors, configurations, the index."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.fuzz import texts
from tests.fuzz.target import Target, cli
from tests.lint import samples

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 128, "vocab_size": 32, "max_position_embeddings": 2048,
    "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "torch_dtype": "bfloat16", "eos_token_id": [2], "bos_token_id": 1,
    "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512},
}  # fmt: skip
PLACES = ("model.safetensors", "config.json", "model.safetensors.index.json", "tokenizer_config.json", "tokenizer.json",
          "generation_config.json")  # fmt: skip


def corpus() -> Sequence[bytes]:
    """A header, and the files beside it."""
    rows = {"model.embed_tokens.weight": {"dtype": "BF16", "shape": [32, 64], "data_offsets": [0, 4096]}}
    rows["__metadata__"] = {"format": "pt"}
    head = json.dumps(rows).encode()
    index = {"metadata": {"total_size": 4096}, "weight_map": {"model.embed_tokens.weight": "model.safetensors"}}
    tokens = {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]},
        "added_tokens": [{"id": 2, "content": "</s>"}],
    }
    special = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ messages }}"}
    return [
        head,
        *(json.dumps(x).encode() for x in (CONFIG, index, special, tokens, {"temperature": 0.6, "top_k": 20})),
    ]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Each of the files is the odd one in its turn."""
    sound = dict(zip(PLACES, (corpus()[0], corpus()[1], *corpus()[2:5], corpus()[5]), strict=True))
    odd = rng.choice(PLACES)
    for name, text in (sound | {odd: data}).items():
        if name == "model.safetensors":
            length = len(text) if rng.random() < 0.9 else rng.choice((0, 1 << 40, (1 << 64) - 1, len(text) + 9))
            text = struct.pack("<Q", length) + text + bytes(4096)
        (folder / name).write_bytes(text)
    form = ("--format", "json") if rng.random() < 0.5 else ()
    if rng.random() < 0.5:
        cli("convert", "--check", folder, *form)
    else:
        model = folder / "out.gguf"
        model.write_bytes(samples.ready().bytes())
        cli("lint", "--no-config", "--against", folder, model, *form)


TARGET = Target(corpus, texts.mutate, run)
