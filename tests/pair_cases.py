"""Pairs of a model and what stands beside it, made from scratch, and what the real server does with each.

The record, `tests/data/llamacpp/pairs.jsonl`, was made with a llama-server built from release b11434, on a processor:
``python -m tests.pair_cases LLAMA_SERVER > tests/data/llamacpp/pairs.jsonl`` makes it anew. Drafts: `draft_cases.py`.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.beside import control_vector, imatrix, lora, measured, projector, sighted
from tests.build import GGUF, llama
from tests.draft_cases import start, waited
from tests.projectors import SOUND

Make = Callable[[], GGUF | bytes]
Pair = tuple[Callable[[], GGUF], str, Make]
"""Model, role that the file is given in, the file."""
OPTIONS = {"mmproj": "--mmproj", "adapter": "--lora", "control-vector": "--control-vector"}


def plain() -> GGUF:
    return llama(layers=3)


def deep() -> GGUF:
    """One whose deep layers take parts of the image: three times as wide an input."""
    g = llama(layers=3, arch="qwen3vl").kv("qwen3vl.n_deepstack_layers", 2)
    g.kv("qwen3vl.rope.dimension_sections", [8, 4, 4, 0], "[i32]")
    for i in range(3):
        g.tensor(f"blk.{i}.attn_q_norm.weight", (16,)).tensor(f"blk.{i}.attn_k_norm.weight", (16,))
    return g


def _eyes(kind: str = "mlp", width: int = 64, **keys: object) -> Make:
    def make() -> GGUF:
        g = projector(kind, width)
        for key, value in keys.items():
            g.replace(f"clip.{key.replace('__', '.')}", value)
        return g

    return make


def _sound(kind: str) -> Make:
    return lambda: SOUND[kind]().gguf()


def _lora(change: Callable[[GGUF], GGUF] = lambda g: g, *weights: tuple[str, int, int], arch: str = "llama") -> Make:
    return lambda: change(lora(*weights, arch=arch))


def _transposed() -> GGUF:
    g = lora().drop_tensor(*(t["name"] for t in lora()._tensors))
    return g.tensor("blk.0.attn_q.weight.lora_a", (4, 64)).tensor("blk.0.attn_q.weight.lora_b", (64, 4))


def _embedding() -> GGUF:
    g = lora().drop_tensor(*(t["name"] for t in lora()._tensors))
    return g.tensor("token_embd.weight.lora_a", (4, 291)).tensor("token_embd.weight.lora_b", (4, 64))


Q, UP = "blk.0.attn_q.weight", "blk.2.ffn_up.weight"
OTHERS: dict[str, Make] = {
    "a model": plain,
    "a projector": _eyes(),
    "an adapter": _lora(),
    "a control vector": control_vector,
    "an importance matrix": lambda: imatrix(measured()),
    "a web page": lambda: b"<html>" * 40,
}
PAIRS: dict[str, Pair] = {
    "eyes": (plain, "mmproj", _eyes()),
    "eyes, other width": (plain, "mmproj", _eyes(width=96)),
    "eyes, the key alone is wrong": (plain, "mmproj", _eyes(vision__projection_dim=96)),
    "eyes, the key alone is right": (plain, "mmproj", _eyes(width=96, vision__projection_dim=64)),
    "eyes of gemma3": (sighted, "mmproj", _eyes("gemma3")),
    "eyes of gemma3, no markers": (plain, "mmproj", _eyes("gemma3")),
    "eyes of gemma3, other width": (sighted, "mmproj", _eyes("gemma3", 96)),
    "eyes of idefics3, no tokens": (plain, "mmproj", _eyes("idefics3")),
    "eyes of idefics3, other width": (plain, "mmproj", _eyes("idefics3", 96)),
    "eyes for deep layers": (deep, "mmproj", _eyes(width=192)),
    "eyes, none for deep layers": (deep, "mmproj", _eyes()),
    "eyes of an unknown type": (plain, "mmproj", _eyes(projector_type="locateanything")),
    "eyes, cut short": (plain, "mmproj", lambda: projector("mlp").bytes()[:-500]),
    "eyes without a key": (plain, "mmproj", lambda: projector("mlp").drop("clip.vision.image_size")),
    "eyes without a tensor": (plain, "mmproj", lambda: projector("mlp").drop_tensor("v.position_embd.weight")),
    "eyes with two activations": (plain, "mmproj", lambda: projector("mlp").kv("clip.use_silu", True)),
    **{f"sound {kind}": (plain, "mmproj", _sound(kind)) for kind in SOUND},
    "lora": (plain, "adapter", _lora()),
    "lora, other architecture": (plain, "adapter", _lora(arch="qwen2")),
    "lora, unknown architecture": (plain, "adapter", _lora(arch="lama")),
    "lora, other width": (plain, "adapter", _lora(lambda g: g, (Q, 96, 96))),
    "lora, more columns": (plain, "adapter", _lora(lambda g: g, (UP, 64, 256))),
    "lora, more layers": (plain, "adapter", _lora(lambda g: g, ("blk.7.attn_q.weight", 64, 64))),
    "lora, fewer layers": (deep, "adapter", _lora(lambda g: g, (Q, 64, 64), arch="qwen3vl")),
    "lora, half a pair": (plain, "adapter", _lora(lambda g: g.drop_tensor(f"{Q}.lora_b"))),
    "lora, transposed": (plain, "adapter", _transposed),
    "lora of the embedding": (plain, "adapter", _embedding),
    "lora, a stranger": (plain, "adapter", _lora(lambda g: g.tensor("blk.0.attn_q.lora_magnitude", (64,)))),
    "lora, no pairs": (plain, "adapter", _lora(lambda g: g.drop_tensor(*(t["name"] for t in g._tensors)))),
    "lora, other kind": (plain, "adapter", _lora(lambda g: g.replace("adapter.type", "dora"))),
    "lora, alpha is a whole number": (plain, "adapter", _lora(lambda g: g.replace("adapter.lora.alpha", 16))),
    "lora, cut short": (plain, "adapter", lambda: lora().bytes()[:-300]),
    "vector": (plain, "control-vector", control_vector),
    "vector, other width": (plain, "control-vector", lambda: control_vector(96)),
    "vector, layer 0": (plain, "control-vector", lambda: control_vector(layers=(0, 1))),
    "vector, more layers": (plain, "control-vector", lambda: control_vector(layers=(1, 2, 3, 4))),
    "vector, f16": (plain, "control-vector", lambda: control_vector().retensor("direction.1", type="f16")),
    "vector, matrix": (plain, "control-vector", lambda: control_vector().retensor("direction.1", shape=(64, 2))),
    "vector, two widths": (plain, "control-vector", lambda: control_vector().retensor("direction.2", shape=(32,))),
    "vector, no layers": (plain, "control-vector", lambda: control_vector(layers=())),
    "vector, cut short": (plain, "control-vector", lambda: control_vector().bytes()[:-100]),
    **{
        f"{what} as {role}": (plain, role, make)
        for role in OPTIONS
        for what, make in OTHERS.items()
        if (role, what) not in (("mmproj", "a projector"), ("adapter", "an adapter"))
        and (role, what) != ("control-vector", "a control vector")
    },
}  # fmt: skip
UNSEEN = ("eyes of idefics3, no tokens", "sound idefics3")
"""The server starts, and answers 400 to every image: measured with one of 56 by 56 pixels."""
SAID = re.compile(r"^[\d.]+ E |direction tensors|GGML_ASSERT|terminate called")


def run(server: str, folder: Path, pair: Pair) -> dict[str, Any]:
    """How the server ended, and its errors."""
    make, role, side = pair
    beside = folder / "side.gguf"
    made = side()
    beside.write_bytes(made if isinstance(made, bytes) else made.bytes())
    words = ["-m", str(make().write(folder / "model.gguf")), "-c", "512", OPTIONS[role], str(beside)]
    process, port = start(server, words, folder / "log")
    ready = False
    try:
        ready = waited(process, port)
        code = process.poll()
    finally:
        process.terminate()
        process.wait()
    text = (folder / "log").read_text(errors="replace").replace(str(folder) + "/", "")
    lines = [x for x in text.splitlines() if SAID.search(x)]
    plain_lines = [re.sub(r"^[\d.]+ [A-Z] |^/\S+?:\d+: |\s+", " ", x).strip() for x in lines]
    return {"ready": ready, "code": code, "said": list(dict.fromkeys(plain_lines))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for title, case in PAIRS.items():
            print(json.dumps({"pair": title, **run(sys.argv[1], Path(name), case)}), flush=True)
