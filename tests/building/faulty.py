"""Model folders that the converter stops at, one fault each, and what its end is to be called."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.building import hf

Edit = Callable[[Path], None]


def folder(path: Path, name: str) -> Path:
    """A folder with that fault."""
    arch, edit, _ = FAULTS[name]
    hf.folder(path, arch)
    edit(path)
    return path


def config(**changes: Any) -> Edit:
    """Entries of config.json; None takes one away."""

    def edit(path: Path) -> None:
        _change(path / "config.json", changes)

    return edit


def tokenizer_config(**changes: Any) -> Edit:
    """Entries of tokenizer_config.json."""
    return lambda path: _change(path / "tokenizer_config.json", changes)


def _change(path: Path, changes: dict[str, Any]) -> None:
    value = {**json.loads(path.read_text()), **changes}
    path.write_text(json.dumps({k: v for k, v in value.items() if v is not None}))


def without(name: str) -> Edit:
    """A file that is missing."""
    return lambda path: (path / name).unlink()


def text(name: str, content: str | bytes) -> Edit:
    """A file with that content."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda path: (path / name).write_bytes(data) and None  # type: ignore[func-returns-value]


def weights(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Edit:
    """Other weights: name -> (dtype, shape, data)."""

    def edit(path: Path) -> None:
        arch = next(a for a, c in hf.CONFIGS.items() if c["architectures"] == _config(path)["architectures"])
        made = {n: ("BF16", s, hf.bf16(s, i)) for i, (n, s) in enumerate(hf.shapes(arch).items())}
        hf.safetensors(path / "model.safetensors", change(made))

    return edit


def _config(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((path / "config.json").read_text())
    return found


def _tokens(path: Path, ids: list[tuple[int, str]]) -> None:
    whole = json.loads((path / "tokenizer.json").read_text())
    rows = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False} for i, t in ids]  # fmt: skip
    whole["added_tokens"] += rows
    (path / "tokenizer.json").write_text(json.dumps(whole))


def _renamed(old: str, new: str) -> Edit:
    return weights(lambda w: {n.replace(old, new): v for n, v in w.items()})


def _more(name: str, dtype: str = "BF16", shape: tuple[int, ...] = (8, 8)) -> Edit:
    size = {"BF16": 2, "U8": 1, "F4": 1, "I32": 4, "C64": 8}[dtype] * int(np.prod(shape))
    return weights(lambda w: {**w, name: (dtype, shape, bytes(size))})


def _both(*edits: Edit) -> Edit:
    def edit(path: Path) -> None:
        for one in edits:
            one(path)

    return edit


def _legacy(path: Path) -> None:
    (path / "model.safetensors").unlink()
    # The beginning of torch.save before 1.6: a pickle of its magic number.
    magic = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
    (path / "pytorch_model.bin").write_bytes(magic + b"\x80\x02M\xe9\x03.\x80\x02}q\x00.")


def _cut(path: Path) -> None:
    whole = (path / "tokenizer.json").read_text()
    (path / "tokenizer.json").write_text(whole[:500])


STALE = '{"weight_map": {"a.weight": "model.safetensors"}}'
NEW = '{"version": "9.0", "model": {"type": "New"}}'


FAULTS: dict[str, tuple[str, Edit, str]] = {
    "vocab-grown": ("qwen2", lambda p: _tokens(p, [(400, "<|new|>"), (401, "<|newer|>")]), "vocab-grown"),
    "pre-tokenizer": ("qwen2", config(), "pre-tokenizer"),
    "more-layers": ("llama", config(num_hidden_layers=1), "layers"),
    "peft": ("llama", _renamed("model.", "base_model.model.model."), "adapter"),
    "lora": ("llama", _more("model.layers.0.self_attn.q_proj.lora_A.weight"), "adapter"),
    "bitsandbytes": ("llama", _more("model.layers.0.mlp.up_proj.weight.SCB", "U8"), "quantised"),
    "fp8-no-config": ("llama", _more("model.layers.0.mlp.up_proj.weight_scale_inv"), "quantised"),
    "unknown-tensor": ("llama", _more("model.odd.weight"), "tensor"),
    "method": ("llama", config(quantization_config={"quant_method": "awq"}), "quantised"),
    "format": (
        "llama",
        config(quantization_config={"quant_method": "compressed-tensors", "format": "marlin-24",
                                    "config_groups": {"a": {"weights": {}}}}),
        "quantised",
    ),
    "dtype": ("llama", _more("model.norm.bias", "C64", (4,)), "dtype"),
    "no-layers": ("llama", config(num_hidden_layers=None, model_type="own"), "config-lacks"),
    "no-heads": ("llama", config(num_attention_heads=None, model_type="own"), "config-lacks"),
    "null-heads": ("llama", config(num_attention_heads=0), "config-null"),
    "negative": ("llama", config(max_position_embeddings=-1), "config-number"),
    "heads": ("llama", config(num_attention_heads=3, num_key_value_heads=3), "shape"),
    "no-spm": ("gemma3", without("tokenizer.model"), "tokenizer-missing"),
    "spm-pointer": (
        "llama",
        text("tokenizer.model", "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"),
        "tokenizer-spm",
    ),
    "tokenizer-cut": ("qwen2", _cut, "json"),
    "tokenizer-newer": ("qwen2", text("tokenizer.json", NEW), "tokenizer-load"),
    "tokenizer-none": ("qwen2", without("tokenizer.json"), "pre-tokenizer"),
    "special-negative": ("llama", config(pad_token_id=-1), "tokenizer-special"),
    "config-cut": ("llama", text("config.json", '{"architectures": ["Llama'), "json"),
    "index-cut": ("llama", text("model.safetensors.index.json", "{"), "json"),
    "index-empty": ("llama", text("model.safetensors.index.json", "{}"), "index"),
    "index-missing": (
        "llama",
        text("model.safetensors.index.json", '{"weight_map": {"a.weight": "model-00002-of-00002.safetensors"}}'),
        "file",
    ),
    "index-stale": ("llama", text("model.safetensors.index.json", STALE), "index"),
    "weights-cut": ("llama", text("model.safetensors", b"\x40\0\0\0\0\0\0\0{}"), "disk-image"),
    "weights-text": ("llama", text("model.safetensors", "not a model at all, not at all"), "disk-image"),
    "legacy-pickle": ("llama", _legacy, "legacy-pickle"),
    "bin-cut": (
        "llama", _both(without("model.safetensors"), text("pytorch_model.bin", b"PK\x03\x04" + bytes(200))), "pickle",
    ),
    "pooling": (
        "qwen3",
        _both(
            text("modules.json", '[{"type": "x.Pooling", "path": "1_Pooling"}]'),
            lambda p: (p / "1_Pooling").mkdir() or ((p / "1_Pooling/config.json").write_text("{}") and None),
        ),
        "pooling",
    ),
    "score-func": ("llama", config(scoring_func="odd"), "variant"),
}  # fmt: skip
"""Name -> kind of folder, what is wrong in it, kind of meaning (`facts/data/converter_errors.json`)."""
