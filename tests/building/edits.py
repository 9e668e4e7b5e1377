"""Changes of a tiny folder: each makes one fault, or the sound folder beside it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.building import hf, stored
from tests.building.stored import Tensors, config, read, rewrite, tensor

Edit = Callable[[Path], object]
EXPERTS, EXPERT_FF = 4, 128


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


def fused(path: Path) -> Path:
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


def together(*edits: Edit) -> Edit:
    return lambda folder: [edit(folder) for edit in edits]


def index(change: Callable[[dict[str, Any]], object]) -> Edit:
    def edit(folder: Path) -> None:
        path = folder / "model.safetensors.index.json"
        found = json.loads(path.read_text())
        change(found)
        path.write_text(json.dumps(found))

    return edit


def stale(folder: Path, same: bool) -> None:
    """model.safetensors, and an index of a set that is older (or the same)."""
    tensors = read(folder)
    if not same:
        tensors = {n: (d, s, data[::-1]) for n, (d, s, data) in tensors.items()}
    split(folder, tensors, 2)


def again(folder: Path, same: bool) -> None:
    """Beside a set of files the same model in another number of them, or another version of it."""
    tensors: Tensors = {}
    for file in sorted(folder.glob("*.safetensors")):
        tensors |= read(folder, file.name)
    if not same:
        tensors = {n: (d, s, data[::-1]) for n, (d, s, data) in tensors.items()}
    split(folder, tensors, 2, index=False)


def left_alone(folder: Path) -> None:
    """The index of files that are no longer there."""
    split(folder, read(folder), 2)
    for part in folder.glob("model-*"):
        part.unlink()


def longer(layers: int) -> Edit:
    def change(tensors: Tensors) -> Tensors:
        last = {n: t for n, t in tensors.items() if n.startswith("model.layers.1.")}
        for i in range(2, layers):
            tensors |= {n.replace("layers.1.", f"layers.{i}."): t for n, t in last.items()}
        return tensors

    return lambda folder: rewrite(folder, change)


def cut(folder: Path, by: int = 100) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-by])


def header(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the header of a file, not its data."""
    path = folder / "model.safetensors"
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found = json.loads(data[8 : 8 + length])
    change(found)
    text = json.dumps(found).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + length :])


def write(name: str, data: bytes) -> Edit:
    return lambda folder: (folder / name).write_bytes(data)


def begun(folder: Path) -> None:
    """A link into a cache, where the file is still being fetched."""
    (folder / "model.safetensors").unlink()
    os.symlink(f"blobs-of-{folder.name}", folder / "model.safetensors")
    (folder / f"blobs-of-{folder.name}.incomplete").write_bytes(bytes(1000))


def left(folder: Path, ending: str = ".incomplete") -> None:
    """The notes of `hf download --local-dir`."""
    notes = folder / ".cache" / "huggingface" / "download"
    notes.mkdir(parents=True)
    (notes / f"abc.def{ending}").write_bytes(bytes(1000))


def no_index(path: Path) -> Path:
    (sharded(path) / "model.safetensors.index.json").unlink()
    return path


def untold(path: Path) -> Path:
    """A folder without a chat template."""
    said = stored.folder(path) / "tokenizer_config.json"
    said.write_text(json.dumps({k: v for k, v in json.loads(said.read_text()).items() if k != "chat_template"}))
    return path


def own_template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(hf.PLAIN)


def tied(folder: Path) -> None:
    rewrite(folder, lambda tensors: {**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"]})


def hole(header: dict[str, Any]) -> None:
    """Bytes in the middle that no tensor has."""
    del header["model.layers.0.post_attention_layernorm.weight"]
    del header["model.layers.1.post_attention_layernorm.weight"]


def part(number: int) -> str:
    return f"model-{number:05d}-of-00003.safetensors"
