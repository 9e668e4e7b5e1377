"""Folders with one fault each, and beside each one that differs from it in nothing but the fault."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.building import hf, stored
from tests.building.stored import Tensors, config, read, rewrite, tensor

Edit = Callable[[Path], object]
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 12345\n"
EXPERTS, EXPERT_FF = 4, 128


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


def moe(path: Path, arch: str = "qwen3") -> Path:
    """A mixture of experts, as Qwen3 has them."""
    stored.folder(path, arch)

    def change(tensors: Tensors) -> Tensors:
        out = {n: t for n, t in tensors.items() if ".mlp." not in n}
        for i in range(hf.LAYERS):
            base = f"model.layers.{i}.mlp."
            out[base + "gate.weight"] = bf16(EXPERTS, hf.WIDTH)
            for e in range(EXPERTS):
                for part in ("gate", "up"):
                    out[f"{base}experts.{e}.{part}_proj.weight"] = bf16(EXPERT_FF, hf.WIDTH)
                out[f"{base}experts.{e}.down_proj.weight"] = bf16(hf.WIDTH, EXPERT_FF)
        return out

    rewrite(path, change)
    numbers = {"num_experts": EXPERTS, "num_experts_per_tok": 2, "moe_intermediate_size": EXPERT_FF}
    config(path, architectures=["Qwen3MoeForCausalLM"], model_type="qwen3_moe", **numbers)
    return path


def _fused(path: Path) -> Path:
    """The same, all experts of a layer in one tensor, as transformers 5 saves them."""
    moe(path)

    def change(tensors: Tensors) -> Tensors:
        out = {n: t for n, t in tensors.items() if ".experts." not in n}
        for i in range(hf.LAYERS):
            base = f"model.layers.{i}.mlp.experts."
            out[base + "gate_up_proj"] = tensor("BF16", EXPERTS, 2 * EXPERT_FF, hf.WIDTH)
            out[base + "down_proj"] = tensor("BF16", EXPERTS, hf.WIDTH, EXPERT_FF)
        return out

    rewrite(path, change)
    return path


def sharded(path: Path) -> Path:
    """Three files and an index."""
    stored.folder(path)
    tensors = read(path)
    (path / "model.safetensors").unlink()
    return split(path, tensors, 3)


def split(path: Path, tensors: Tensors, parts: int, total: int | None = None, index: bool = True) -> Path:
    """Write a set of files."""
    names, where = list(tensors), {}
    for no in range(parts):
        file = f"model-{no + 1:05d}-of-{parts:05d}.safetensors"
        hf.safetensors(path / file, {n: tensors[n] for n in names[no::parts]})
        where |= dict.fromkeys(names[no::parts], file)
    size = sum(len(data) for _, _, data in tensors.values()) if total is None else total
    if index:
        listed = {"metadata": {"total_size": size}, "weight_map": where}
        (path / "model.safetensors.index.json").write_text(json.dumps(listed))
    return path


def rename(change: Callable[[str], str]) -> Edit:
    """Other names of tensors."""
    return lambda folder: rewrite(folder, lambda tensors: {change(n): t for n, t in tensors.items()})


def without(*parts: str) -> Edit:
    """Take tensors away."""
    return lambda folder: rewrite(
        folder, lambda tensors: {n: t for n, t in tensors.items() if not any(p in n for p in parts)}
    )


def put(**more: Any) -> Edit:
    """Put a tensor in, or in the place of another; ``__`` in a name stands for a point."""
    named = {n.replace("__", "."): t for n, t in more.items()}
    return lambda folder: rewrite(folder, lambda tensors: {**tensors, **named})


def bf16(*shape: int) -> stored.Tensor:
    """A tensor in BF16."""
    return tensor("BF16", *shape)


def set_config(**values: Any) -> Edit:
    """Change config.json."""
    return lambda folder: config(folder, **values)


def _all(*edits: Edit) -> Edit:
    return lambda folder: [edit(folder) for edit in edits]


def _index(change: Callable[[dict[str, Any]], object]) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))

    return edit


def _stale(folder: Path, same: bool) -> None:
    """model.safetensors, and an index of a set that is older (or the same)."""
    tensors = read(folder)
    if not same:
        tensors = {n: (d, s, data[::-1]) for n, (d, s, data) in tensors.items()}
    split(folder, tensors, 2)


def _longer(layers: int) -> Edit:
    def change(tensors: Tensors) -> Tensors:
        last = {n: t for n, t in tensors.items() if n.startswith("model.layers.1.")}
        for i in range(2, layers):
            tensors |= {n.replace("layers.1.", f"layers.{i}."): t for n, t in last.items()}
        return tensors

    return lambda folder: rewrite(folder, change)


def _cut(folder: Path, by: int = 100) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-by])


def _header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a file, not its data."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found = json.loads(data[8 : 8 + length])
    change(found)
    text = json.dumps(found).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def _write(name: str, data: bytes) -> Edit:
    return lambda folder: (folder / name).write_bytes(data)


def _untold(path: Path) -> Path:
    """A folder without a chat template."""
    said = stored.folder(path) / "tokenizer_config.json"
    said.write_text(json.dumps({k: v for k, v in json.loads(said.read_text()).items() if k != "chat_template"}))
    return path


def _own_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(hf.PLAIN)


def _tied(folder: Path) -> None:
    rewrite(folder, lambda tensors: {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]})


def _hole(header: dict[str, Any]) -> None:
    """Bytes in the middle that no tensor has."""
    del header["model.layers.0.post_attention_layernorm.weight"]
    del header["model.layers.1.post_attention_layernorm.weight"]


def _part(number: int) -> str:
    return f"model-{number:05d}-of-00003.safetensors"


_NORM = "model.norm.weight"
_UP = "model.layers.0.mlp.up_proj.weight"
_tie = set_config(tie_word_embeddings=True)
_untie = set_config(tie_word_embeddings=False)
_qwen3 = lambda path: stored.folder(path, "qwen3")  # noqa: E731
_gemma3 = lambda path: stored.folder(path, "gemma3")  # noqa: E731

CASES: dict[str, Case] = {
    # Files
    "pointer": Case("lfs-pointer", True, _write("model.safetensors", POINTER)),
    "pointer-tokenizer": Case("lfs-pointer", True, _write("tokenizer.model", POINTER)),
    "pointer-index": Case("lfs-pointer", True, _write("model.safetensors.index.json", POINTER), base=sharded),
    "pointer-generation": Case(
        "lfs-pointer", False, _write("generation_config.json", POINTER), _write("generation_config.json", b"{}")
    ),
    "pointer-template": Case("lfs-pointer", True, _write("chat_template.jinja", POINTER), _own_template, base=_untold),
    "empty": Case("empty-file", True, _write("model.safetensors", b"")),
    "empty-shard": Case("empty-file", True, _write(_part(2), b""), base=sharded),
    "zeros": Case("never-written", True, _write("model.safetensors", bytes(1 << 16))),
    "web-page": Case(
        "not-safetensors",
        True,
        _write("model.safetensors", b"<!DOCTYPE html><title>Sign in</title>" * 9),
        says=("HTML",),
    ),
    "answer": Case("not-safetensors", True, _write("model.safetensors", b"Entry not found"), says=("the Hub",)),
    "cut": Case("truncated", True, _cut, says=("cut off",)),
    "cut-header": Case("truncated", True, lambda f: _cut(f, (f / "model.safetensors").stat().st_size - 500)),
    "aria2": Case("half-download", True, _write("model.safetensors.aria2", b"\0\1"), says=("model.safetensors.aria2",)),
    "incomplete": Case(
        "half-download", False, _write("model.safetensors.incomplete", b"x"), says=("model.safetensors.incomplete",)
    ),
    "dangling": Case(
        "missing-weights",
        True,
        lambda f: ((f / "model.safetensors").unlink(), os.symlink("../../blobs/abc", f / "model.safetensors")),
        says=("link",),
    ),
    "wrong-size": Case("wrong-size", True, lambda f: _header(f, lambda h: h[_NORM].update(shape=[512])), says=(_NORM,)),
    "gap": Case("gaps", False, lambda f: _header(f, _hole), says=("bytes",)),
    # The index
    "shard-gone": Case("missing-weights", True, lambda f: (f / _part(2)).unlink(), base=sharded, says=("model-00002",)),
    "shard-gone-no-index": Case(
        "missing-weights",
        True,
        lambda f: [(f / n).unlink() for n in (_part(2), "model.safetensors.index.json")],
        lambda f: (f / "model.safetensors.index.json").unlink(),
        base=sharded,
        says=("model-00002-of-00003",),
    ),
    "total": Case("wrong-total-size", False, _index(lambda i: i["metadata"].update(total_size=1)), base=sharded),
    "index-list": Case("bad-index", True, _index(lambda i: i.update(weight_map=[])), base=sharded),
    "index-names-more": Case(
        "missing-tensors", True, _index(lambda i: i["weight_map"].update({"model.x": _part(1)})), base=sharded
    ),
    "index-names-less": Case(
        "unlisted-tensors", True, _index(lambda i: i["weight_map"].pop(_NORM)), base=sharded, says=(_NORM,)
    ),
    "moved": Case(
        "moved-tensors", False, _index(lambda i: i["weight_map"].update({_NORM: _part(1), _UP: _part(1)})), base=sharded
    ),
    "stale": Case("stale-index", True, lambda f: _stale(f, same=False), says=("model.safetensors", "transformers")),
    "twice-the-same": Case("two-sets", False, lambda f: _stale(f, same=True)),
    "other-set": Case(
        "two-sets", False, lambda f: split(f, {"a": bf16(9, 9), "b": bf16(9)}, 2, index=False), base=sharded
    ),
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
        _write("pytorch_model.bin", bytes(9_000_000)),
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
    "more-layers": Case(
        "layers",
        True,
        _longer(4),
        _all(_longer(4), set_config(num_hidden_layers=4)),
        says=("num_hidden_layers 2", "4 layers"),
    ),
    "fewer-layers": Case("layers", True, set_config(num_hidden_layers=5), says=("num_hidden_layers 5", "2 layers")),
    "hole": Case(
        "layers",
        True,
        _all(_longer(4), without("layers.2."), set_config(num_hidden_layers=4)),
        _all(_longer(4), set_config(num_hidden_layers=4)),
        says=("layer 2",),
    ),
    "half-a-layer": Case(
        "missing-tensors",
        True,
        _all(_longer(4), without("layers.3.self_attn.k_proj"), set_config(num_hidden_layers=4)),
        _all(_longer(4), set_config(num_hidden_layers=4)),
        says=("layer 3", "k_proj"),
    ),
    "no-embedding": Case("missing-tensors", True, without("embed_tokens"), says=("embed_tokens",)),
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
        base=_fused,
        says=("num_experts 4", "3"),
    ),
    "expert-size": Case(
        "intermediate-size", True, set_config(moe_intermediate_size=64), base=moe, says=("moe_intermediate_size 64",)
    ),
    # The output
    "untied-no-head": Case(
        "no-head",
        True,
        _all(without("lm_head"), _untie),
        _all(without("lm_head"), _tie),
        says=("tie_word_embeddings false",),
    ),
    "no-head-unsaid": Case("no-head", True, without("lm_head"), base=_qwen3),
    "tied-but-head": Case("tied-head", False, _tie, _all(_tied, _tie), says=("lm_head",)),
    "gemma-untied": Case("no-head", True, _untie, base=_gemma3),
}
