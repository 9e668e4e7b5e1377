"""Folders that are sound and unlike most: names, counts and types of tensors as these models have them on the Hub."""

from __future__ import annotations

import gzip
import json
import math
from functools import cache
from pathlib import Path
from typing import Any

from gguftool.build.safetensors import BITS
from tests.building import hf
from tests.building.stored import Tensors, tensor

Folder = tuple[dict[str, Any], Tensors]


def _bf(*shape: int) -> Any:
    return tensor("BF16", *shape)


def _llama_layer(base: str, width: int = 32) -> Tensors:
    names = ("q_proj", "k_proj", "v_proj", "o_proj")
    out = {f"{base}self_attn.{n}.weight": _bf(width, width) for n in names}
    out |= {f"{base}mlp.{n}_proj.weight": _bf(64, width) for n in ("gate", "up")}
    out[f"{base}mlp.down_proj.weight"] = _bf(width, 64)
    return out | {f"{base}{n}.weight": _bf(width) for n in ("input_layernorm", "post_attention_layernorm")}


def _deepseek() -> Folder:
    """DeepSeek V3: FP8 in blocks, a layer behind the last, experts in all but the first layer."""
    out: Tensors = {
        "model.embed_tokens.weight": _bf(hf.VOCAB, 256),
        "lm_head.weight": _bf(hf.VOCAB, 256),
        "model.norm.weight": _bf(256),
    }

    def matrix(name: str, rows: int, columns: int) -> None:
        out[name + ".weight"] = tensor("F8_E4M3", rows, columns)
        out[name + ".weight_scale_inv"] = tensor("F32", -(-rows // 128), -(-columns // 128))

    for layer in range(3):
        base = f"model.layers.{layer}."
        matrix(base + "self_attn.kv_b_proj", 192, 64)
        matrix(base + "self_attn.o_proj", 256, 128)
        if layer:
            out[base + "mlp.gate.weight"] = _bf(4, 256)
            out[base + "mlp.gate.e_score_correction_bias"] = tensor("F32", 4)
            for expert in (*(f"experts.{e}" for e in range(4)), "shared_experts"):
                matrix(f"{base}mlp.{expert}.gate_proj", 128, 256)
                matrix(f"{base}mlp.{expert}.down_proj", 256, 128)
        if layer == 2:
            out |= {base + "eh_proj.weight": _bf(256, 512), base + "embed_tokens.weight": _bf(hf.VOCAB, 256)}
            out[base + "shared_head.head.weight"] = _bf(hf.VOCAB, 256)
    said = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}
    config = {"architectures": ["DeepseekV3ForCausalLM"], "num_hidden_layers": 2, "num_nextn_predict_layers": 1}
    more = {"n_routed_experts": 4, "tie_word_embeddings": False, "quantization_config": said, "kv_lora_rank": 64}
    return {**config, **more, "vocab_size": hf.VOCAB, "hidden_size": 256, "num_attention_heads": 1}, out


def _gpt_oss() -> Folder:
    """gpt-oss: MXFP4 in blocks, all experts in one tensor, a number a head beside the attention."""
    out: Tensors = {
        "model.embed_tokens.weight": _bf(hf.VOCAB, 64),
        "lm_head.weight": _bf(hf.VOCAB, 64),
        "model.norm.weight": _bf(64),
    }
    for part, rows, columns in (("gate_up_proj", 128, 64), ("down_proj", 64, 64)):
        base = f"model.layers.0.mlp.experts.{part}"
        out[base + "_blocks"] = tensor("U8", 4, rows, columns // 32, 16)
        out[base + "_scales"] = tensor("U8", 4, rows, columns // 32)
        out[base + "_bias"] = _bf(4, rows)
    out |= {"model.layers.0.self_attn.sinks": _bf(4), "model.layers.0.mlp.router.weight": _bf(4, 64)}
    said = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    config = {
        "architectures": ["GptOssForCausalLM"],
        "num_hidden_layers": 1,
        "num_local_experts": 4,
        "vocab_size": hf.VOCAB,
    }
    return {**config, "tie_word_embeddings": False, "quantization_config": said}, out


def _bert() -> Folder:
    """BERT: positions as integers, no head, layers called otherwise."""
    out: Tensors = {
        "embeddings.word_embeddings.weight": _bf(hf.VOCAB, 32),
        "embeddings.position_ids": tensor("I64", 1, 512),
        "embeddings.position_embeddings.weight": _bf(512, 32),
        "encoder.layer.0.attention.self.query.weight": _bf(32, 32),
        "pooler.dense.weight": _bf(32, 32),
    }
    return {"architectures": ["BertModel"], "num_hidden_layers": 1, "vocab_size": hf.VOCAB, "hidden_size": 32}, out


def _gpt2() -> Folder:
    """GPT-2: masks as bytes, no prefix, the output shared and not said to be."""
    out: Tensors = {"wte.weight": _bf(hf.VOCAB, 32), "wpe.weight": _bf(16, 32), "ln_f.weight": _bf(32)}
    out |= {"h.0.attn.bias": tensor("U8", 1, 1, 16, 16), "h.0.attn.c_attn.weight": _bf(32, 96)}
    return {"architectures": ["GPT2LMHeadModel"], "n_layer": 1, "vocab_size": hf.VOCAB, "n_embd": 32, "n_head": 2}, out


def _sees() -> Folder:
    """A model that sees: a tower beside the language model, with integers and layers of its own."""
    out: Tensors = {
        "language_model.model.embed_tokens.weight": _bf(hf.VOCAB, 32),
        "language_model.model.norm.weight": _bf(32),
    }
    out |= _llama_layer("language_model.model.layers.0.")
    out |= {"language_model.lm_head.weight": _bf(hf.VOCAB, 32), "vision_tower.position_ids": tensor("I64", 1, 9)}
    out |= {f"vision_tower.layers.{i}.q_proj.weight": _bf(48, 48) for i in range(5)}
    out["vision_tower.unused"] = _bf(0)
    text = {"num_hidden_layers": 1, "vocab_size": hf.VOCAB, "hidden_size": 32, "num_attention_heads": 2}
    config = {"architectures": ["Mistral3ForConditionalGeneration"], "text_config": {**text, "num_key_value_heads": 2}}
    return {**config, "vision_config": {"num_hidden_layers": 5}, "tie_word_embeddings": False}, out


def _some_layers_plain() -> Folder:
    """A model of which the first layer is not quantised."""
    out: Tensors = {
        "model.embed_tokens.weight": _bf(hf.VOCAB, 256),
        "model.norm.weight": _bf(256),
        "lm_head.weight": _bf(hf.VOCAB, 256),
    }
    for layer in range(3):
        base = f"model.layers.{layer}.self_attn.q_proj."
        if layer:
            out |= {base + "weight": tensor("F8_E4M3", 256, 256), base + "weight_scale_inv": tensor("F32", 2, 2)}
        else:
            out[base + "weight"] = _bf(256, 256)
    said = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    config = {"architectures": ["Qwen3ForCausalLM"], "num_hidden_layers": 3, "vocab_size": hf.VOCAB, "hidden_size": 256}
    return {**config, "quantization_config": said}, out


def _padded() -> Folder:
    """Rows that fill up the vocabulary, as config.json tells."""
    out: Tensors = {
        "model.embed_tokens.weight": _bf(hf.VOCAB, 32),
        "lm_head.weight": _bf(hf.VOCAB, 32),
        "model.layers.0.x": _bf(1),
    }
    config = {"architectures": ["NemotronForCausalLM"], "num_hidden_layers": 1, "vocab_size": hf.VOCAB - 3}
    return {**config, "pad_vocab_size_multiple": 8, "tie_word_embeddings": False}, out


def _sparse_config() -> Folder:
    """A configuration that leaves to the class what its class knows, as Gemma 3's."""
    out: Tensors = {"model.embed_tokens.weight": _bf(hf.VOCAB, 32), "model.norm.weight": _bf(32)}
    for i in range(2):
        out |= _llama_layer(f"model.layers.{i}.")
    return {"architectures": ["Gemma3ForCausalLM"], "hidden_size": 32, "num_hidden_layers": 2}, out


ODD = {f.__name__[1:]: f for f in (
    _deepseek, _gpt_oss, _bert, _gpt2, _sees, _some_layers_plain, _padded, _sparse_config
)}  # fmt: skip


def write(path: Path, name: str) -> Path:
    """Make one of them."""
    config, tensors = ODD[name]()
    path.mkdir(parents=True)
    if "vision_config" in config:
        (path / "preprocessor_config.json").write_text("{}")
    (path / "config.json").write_text(json.dumps(config))
    (path / "tokenizer.json").write_text((hf.TOKENIZERS / "bpe.json").read_text())
    if config["architectures"] == ["NemotronForCausalLM"]:  # the converter reads no other
        (path / "tokenizer.model").write_bytes((hf.TOKENIZERS / "spm.model").read_bytes())
    hf.safetensors(path / "model.safetensors", tensors)
    return path


@cache
def made() -> dict[str, Any]:
    """Small models of many architectures as transformers made and saved them: ``config``, ``tensors``."""
    path = Path(__file__).parents[1] / "data" / "building" / "sound_models.json.gz"
    found: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    return found


def write_made(path: Path, name: str, **config: Any) -> Path:
    """One of them, of which no data is stored; ``config`` changes its configuration."""
    model = made()[name]
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({**model["config"], **config}))
    (path / "tokenizer.json").write_text((hf.TOKENIZERS / "bpe.json").read_text())
    header, at = {}, 0
    for tensor_name, (dtype, shape) in model["tensors"].items():
        end = at + math.prod(shape) * BITS[dtype] // 8
        header[tensor_name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    with open(path / "model.safetensors", "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + at)
    return path
