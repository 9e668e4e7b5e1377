"""Folders with one fault each, and beside each one that differs from it in nothing but the fault."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.building import hf, stored
from tests.building.edits import (
    EXPERT_FF,
    Edit,
    again,
    begun,
    bf16,
    cut,
    fused,
    header,
    hole,
    index,
    left,
    left_alone,
    longer,
    moe,
    no_index,
    own_template,
    part,
    put,
    rename,
    set_config,
    sharded,
    split,
    stale,
    tied,
    together,
    untold,
    without,
    write,
)
from tests.building.stored import tensor

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"


@dataclass(frozen=True)
class Case:
    """One fault.

    Attributes:
        kind: of the problem, the only one.
        fatal: whether it stops a conversion.
        fault: makes the fault in a healthy folder.
        sound: makes the healthy sibling of it.
        base: makes the folder.
        says: words of the message.
    """

    kind: str
    fatal: bool
    fault: Edit
    sound: Edit = lambda folder: None
    base: Callable[[Path], Path] = stored.folder
    says: tuple[str, ...] = ()


_NORM = "model.norm.weight"
_UP = "model.layers.0.mlp.up_proj.weight"
_tie = set_config(tie_word_embeddings=True)
_untie = set_config(tie_word_embeddings=False)
_qwen3 = lambda path: stored.folder(path, "qwen3")  # noqa: E731
_gemma3 = lambda path: stored.folder(path, "gemma3")  # noqa: E731

CASES: dict[str, Case] = {
    # Files
    "pointer": Case("lfs-pointer", True, write("model.safetensors", POINTER)),
    "pointer-tokenizer": Case("lfs-pointer", True, write("tokenizer.model", POINTER)),
    "pointer-index": Case("lfs-pointer", True, write("model.safetensors.index.json", POINTER), base=sharded),
    "pointer-generation": Case(
        "lfs-pointer", False, write("generation_config.json", POINTER), write("generation_config.json", b"{}")
    ),
    "pointer-template": Case("lfs-pointer", True, write("chat_template.jinja", POINTER), own_template, base=untold),
    "empty": Case("empty-file", True, write("model.safetensors", b"")),
    "empty-shard": Case("empty-file", True, write(part(2), b""), base=sharded),
    "zeros": Case("never-written", True, write("model.safetensors", bytes(1 << 16))),
    "web-page": Case(
        "not-safetensors",
        True,
        write("model.safetensors", b"<!DOCTYPE html><title>Sign in</title>" * 9),
        says=("HTML",),
    ),
    "answer": Case("not-safetensors", True, write("model.safetensors", b"Entry not found"), says=("the Hub",)),
    "cut": Case("truncated", True, cut, says=("cut off",)),
    "cut-header": Case("truncated", True, lambda f: cut(f, (f / "model.safetensors").stat().st_size - 500)),
    "aria2": Case("half-download", True, write("model.safetensors.aria2", b"\0\1"), says=("model.safetensors.aria2",)),
    "incomplete": Case(
        "half-download", False, write("model.safetensors.incomplete", b"x"), says=("model.safetensors.incomplete",)
    ),
    "dangling": Case(
        "missing-weights",
        True,
        lambda f: ((f / "model.safetensors").unlink(), os.symlink("../../blobs/abc", f / "model.safetensors")),
        says=("link",),
    ),
    "begun": Case("missing-weights", True, begun, says=("1,000 bytes of it",)),
    "left-by-the-hub": Case("half-download", False, left, lambda f: left(f, ".lock"), base=no_index),
    "left-beside-all": Case("half-download", False, left, base=sharded, says=("hf download",)),
    "wrong-size": Case("wrong-size", True, lambda f: header(f, lambda h: h[_NORM].update(shape=[512])), says=(_NORM,)),
    "gap": Case("gaps", False, lambda f: header(f, hole), says=("bytes",)),
    # The index
    "shard-gone": Case("missing-weights", True, lambda f: (f / part(2)).unlink(), base=sharded, says=("model-00002",)),
    "shard-gone-no-index": Case(
        "missing-weights",
        True,
        lambda f: [(f / n).unlink() for n in (part(2), "model.safetensors.index.json")],
        lambda f: (f / "model.safetensors.index.json").unlink(),
        base=sharded,
        says=("model-00002-of-00003",),
    ),
    "total": Case("wrong-total-size", False, index(lambda i: i["metadata"].update(total_size=1)), base=sharded),
    "index-list": Case("bad-index", True, index(lambda i: i.update(weight_map=[])), base=sharded),
    "index-names-more": Case(
        "missing-tensors", True, index(lambda i: i["weight_map"].update({"model.x": part(1)})), base=sharded
    ),
    "index-names-less": Case(
        "unlisted-tensors", True, index(lambda i: i["weight_map"].pop(_NORM)), base=sharded, says=(_NORM,)
    ),
    "moved": Case(
        "moved-tensors", False, index(lambda i: i["weight_map"].update({_NORM: part(1), _UP: part(1)})), base=sharded
    ),
    "stale": Case("stale-index", True, lambda f: stale(f, same=False), says=("model.safetensors", "transformers")),
    "index-left-alone": Case("stale-index", True, left_alone, says=("move model.safetensors.index.json away",)),
    "twice-the-same": Case("two-sets", False, lambda f: stale(f, same=True)),
    "other-set": Case(
        "two-sets", False, lambda f: split(f, {"a": bf16(9, 9), "b": bf16(9)}, 2, index=False), base=sharded
    ),
    "other-version": Case(
        "two-sets", False, lambda f: again(f, same=False), base=sharded, says=("model-00001-of-00002", "differ")
    ),
    "same-version": Case("two-sets", False, lambda f: again(f, same=True), base=sharded, says=("hold the same",)),
    "twice": Case(
        "duplicate-tensors", True, lambda f: hf.safetensors(f / "model-extra.safetensors", {_NORM: bf16(hf.WIDTH)})
    ),
    "consolidated": Case(
        "two-sets",
        False,
        lambda f: hf.safetensors(f / "consolidated.safetensors", {"norm.weight": bf16(8)}),
        lambda f: (f / "consolidated.safetensors").write_bytes((f / "model.safetensors").read_bytes()),
        says=("consolidated.safetensors",),
    ),
    "pickle-beside": Case(
        "two-sets",
        False,
        write("pytorch_model.bin", bytes(9_000_000)),
        lambda f: (f / "pytorch_model.bin").write_bytes((f / "model.safetensors").read_bytes()),
        says=("pytorch_model.bin",),
    ),
    # Names
    "lora": Case(
        "unmerged-adapter",
        True,
        put(**{"model.layers.0.self_attn.q_proj.lora_A.default.weight": bf16(8, hf.WIDTH)}),
        says=("merge",),
    ),
    "base-layer": Case("unmerged-adapter", True, rename(lambda n: n.replace("q_proj.", "q_proj.base_layer."))),
    "modules-to-save": Case(
        "unmerged-adapter", True, rename(lambda n: n.replace("lm_head.", "lm_head.modules_to_save.default."))
    ),
    "peft": Case("wrapped-names", True, rename(lambda n: "base_model.model." + n), says=("base_model.model.",)),
    "adapter-beside": Case(
        "adapter-beside",
        False,
        lambda f: [(f / n).write_bytes(b"{}") for n in ("adapter_config.json", "adapter_model.safetensors")],
        write("adapter_config.json", b"{}"),
    ),
    "module": Case("wrapped-names", True, rename(lambda n: "module." + n), says=("module.",)),
    "compiled": Case("wrapped-names", True, rename(lambda n: "_orig_mod." + n), says=("_orig_mod.",)),
    "compiled-inside": Case("wrapped-names", True, rename(lambda n: n.replace("layers.0.", "layers.0._orig_mod."))),
    "fsdp": Case("wrapped-names", True, rename(lambda n: n.replace("layers.0.", "layers.0._fsdp_wrapped_module."))),
    "doubled": Case("wrapped-names", True, rename(lambda n: "model." + n if n.startswith("model.") else n)),
    "other-names": Case("other-names", True, rename(lambda n: n.replace("model.layers", "stack.block"))),
    "value-head": Case("unknown-tensors", True, put(**{"v_head.summary.weight": bf16(1, hf.WIDTH)}), says=("v_head",)),
    # Types
    "half-i8": Case(
        "integer-weights",
        True,
        put(**{_UP: tensor("I8", hf.FF, hf.WIDTH)}),
        put(**{"model.layers.0.self_attn.attention.bias": tensor("U8", 1, 1, 64, 64)}),
        says=(_UP,),
    ),
    "mixed": Case(
        "fp8-without-scales",
        True,
        put(**{_UP: tensor("F8_E4M3", hf.FF, hf.WIDTH)}),
        put(**{_UP: tensor("F32", hf.FF, hf.WIDTH)}),
    ),
    "complex": Case("dtype-unknown", True, put(**{_UP: ("C64", (hf.FF, hf.WIDTH), bytes(8 * hf.FF * hf.WIDTH))})),
    "zero3": Case("empty-tensor", True, put(**{_UP: bf16(0)}), says=(_UP,)),
    # Numbers
    "no-layer-count": Case(
        "no-layer-count", True, set_config(num_hidden_layers=None, model_type=None), set_config(model_type=None)
    ),
    "more-layers": Case(
        "layers",
        True,
        longer(4),
        together(longer(4), set_config(num_hidden_layers=4)),
        says=("num_hidden_layers 2", "4 layers"),
    ),
    "fewer-layers": Case("layers", True, set_config(num_hidden_layers=5), says=("num_hidden_layers 5", "2 layers")),
    "hole": Case(
        "layers",
        True,
        together(longer(4), without("layers.2."), set_config(num_hidden_layers=4)),
        together(longer(4), set_config(num_hidden_layers=4)),
        says=("layer 2",),
    ),
    "half-a-layer": Case(
        "missing-tensors",
        True,
        together(longer(4), without("layers.3.self_attn.k_proj"), set_config(num_hidden_layers=4)),
        together(longer(4), set_config(num_hidden_layers=4)),
        says=("layer 3", "k_proj"),
    ),
    "half-a-layer-of-experts": Case(
        "missing-tensors",
        True,
        together(longer(4), without("layers.3.self_attn.k_proj"), set_config(num_hidden_layers=4)),
        together(longer(4), set_config(num_hidden_layers=4)),
        base=moe,
        says=("layer 3", "k_proj"),
    ),
    "half-an-expert": Case("experts", True, without("experts.2.up_proj"), base=moe, says=("up_proj", "there are 3")),
    "no-embedding": Case("missing-tensors", True, without("embed_tokens"), says=("400 tokens",)),
    "rows-grown": Case(
        "rows",
        True,
        put(**{"model.embed_tokens.weight": bf16(408, hf.WIDTH), "lm_head.weight": bf16(408, hf.WIDTH)}),
        says=("vocab_size 400", "408"),
    ),
    "rows-of-head": Case("rows", True, put(**{"lm_head.weight": bf16(402, hf.WIDTH)}), says=("lm_head", "402")),
    "rows-of-one": Case("rows", True, set_config(vocab_size=399), says=("399", "400")),
    "heads": Case(
        "heads",
        True,
        set_config(num_attention_heads=8, num_key_value_heads=2, head_dim=64),
        says=("num_attention_heads 8",),
    ),
    "kv-heads": Case("kv-heads", True, set_config(num_key_value_heads=4), says=("num_key_value_heads 4",)),
    "head-dim": Case("head-dim", True, set_config(head_dim=32), says=("head_dim 32", "64")),
    "head-dim-unsaid": Case(
        "kv-heads", True, set_config(head_dim=None, num_attention_heads=8), set_config(head_dim=None)
    ),
    "intermediate": Case(
        "intermediate-size", True, set_config(intermediate_size=768), says=("intermediate_size 768", "512")
    ),
    "hidden": Case("hidden-size", True, set_config(hidden_size=128), says=("hidden_size 128", "256")),
    "experts-more": Case("experts", True, set_config(num_experts=3), base=moe, says=("num_experts 3", "4")),
    "experts-fewer": Case("experts", True, without("experts.3."), base=moe, says=("num_experts 4", "3")),
    "experts-hole": Case("experts", True, without("experts.1."), base=moe),
    "experts-fused": Case(
        "experts",
        True,
        put(**{f"model.layers.{i}.mlp.experts.gate_up_proj": bf16(3, 2 * EXPERT_FF, hf.WIDTH) for i in range(2)}),
        base=fused,
        says=("num_experts 4", "3"),
    ),
    "expert-size": Case(
        "intermediate-size", True, set_config(moe_intermediate_size=64), base=moe, says=("moe_intermediate_size 64",)
    ),
    # The output
    "untied-no-head": Case(
        "no-head",
        True,
        together(without("lm_head"), _untie),
        together(without("lm_head"), _tie),
        says=("tie_word_embeddings false",),
    ),
    "no-head-unsaid": Case("no-head", True, without("lm_head"), base=_qwen3),
    "tied-but-head": Case("tied-head", False, _tie, together(tied, _tie), says=("lm_head",)),
    "gemma-untied": Case("no-head", True, _untie, base=_gemma3),
}
