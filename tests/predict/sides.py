"""Mutated adapters, control vectors and importance matrices as recipes, over the bases of `recipes.py`.

A recipe is ``{"kind": "lora", "base": "tiny/qwen2", "made": 3, "with": "tiny/qwen2", "ops": [...]}``: a sound file for
``base`` as its writer would make it (``made`` picks rank, type and targets), the operations, and the model it is given
beside. The operations are those of `recipes.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from tests.build import GGUF, TENSOR
from tests.predict.mutations import model
from tests.predict.recipes import Hole, built

BASES = (
    "tiny/llama-gqa tiny/llama-mha tiny/llama-mixtral tiny/qwen2 tiny/qwen3 tiny/qwen3moe tiny/qwen2moe tiny/gemma "
    "tiny/gemma2 tiny/gemma3 tiny/gemma3n tiny/phi3 tiny/gpt-oss tiny/deepseek2-lite tiny/mamba2 tiny/jamba tiny/lfm2 "
    "tiny/granitehybrid tiny/gpt2 tiny/falcon tiny/bert tiny/t5 tiny/glm4 tiny/starcoder2 tiny/rwkv7 tiny/olmo2"
).split()
"""Models of 26 architectures that load and decode, with and without experts, tied output, attention."""
_LINEAR = "attn_q attn_k attn_v attn_output attn_qkv ffn_up ffn_gate ffn_down attn_q_a attn_kv_b ssm_in ssm_out".split()
_EXPERTS = "ffn_up_exps ffn_gate_exps ffn_down_exps".split()
Op = dict[str, Any]


@cache
def weights(base: str) -> dict[str, tuple[int, ...]]:
    """Weights of a model that PEFT would change."""
    named = (*_LINEAR, *_EXPERTS)
    return {
        name: t.shape
        for name, t in model(base).tensors.items()
        if name.endswith(".weight") and name.split(".")[-2] in named
    }


def lora(base: str, made: int) -> GGUF:
    """An adapter as convert_lora_to_gguf.py writes it (b11434)."""
    r = random.Random(f"{base} {made}")
    arch = model(base).architecture
    g = GGUF(arch).kv("general.type", "adapter").kv("adapter.type", "lora").kv("general.name", "a")
    rank, kind = r.choice([1, 4, 8, 16, 32]), r.choice(["f32", "f16", "bf16"])
    g.kv("general.file_type", {"f32": 0, "f16": 1, "bf16": 32}[kind])
    g.kv("adapter.lora.alpha", float(r.choice([rank, 2 * rank, 16])))
    if r.random() < 0.2:
        g.kv("adapter.alora.invocation_tokens", [1, 2, 3], "[u32]")
    names = list(weights(base))
    some = r.sample(names, min(len(names), r.choice([1, 2, 4, 8])))
    for name in names:
        if name in some:
            n_in, n_out, *experts = weights(base)[name]
            g.tensor(f"{name}.lora_a", (n_in, rank, *experts), kind)
            g.tensor(f"{name}.lora_b", (rank, n_out, *experts), kind)
    if r.random() < 0.15:
        width, tokens = model(base).tensors["token_embd.weight"].shape
        g.tensor("token_embd.weight.lora_a", (rank, tokens), kind).tensor(
            "token_embd.weight.lora_b", (rank, width), kind
        )
    if r.random() < 0.1:
        g.tensor("blk.0.attn_norm.weight", (8,), "f32")
    return g


def control_vector(base: str, made: int) -> GGUF:
    """A control vector as llama-cvector-generator and repeng write it."""
    r = random.Random(f"{base} {made}")
    m = model(base)
    g = GGUF("controlvector").kv("controlvector.model_hint", m.architecture)
    width, layers = m.arch.embedding_length or 0, max(2, m.arch.block_count)
    g.kv("controlvector.layer_count", layers - 1, "i32")
    for i in range(1, layers):
        if r.random() < 0.9 or i == 1:
            g.tensor(f"direction.{i}", (width,), "f32")
    return g


def imatrix(base: str, made: int) -> GGUF:
    """An importance matrix as `imatrix.cpp:save_imatrix` writes it."""
    r = random.Random(f"{base} {made}")
    g = GGUF().kv("general.type", "imatrix").kv("imatrix.datasets", ["a.txt"]).kv("imatrix.chunk_count", 8)
    g.kv("imatrix.chunk_size", 512)
    names = list(weights(base))
    some = r.sample(names, min(len(names), r.choice([1, 3, 6])))
    for name in some:
        n_in, _, *experts = weights(base)[name]
        g.tensor(f"{name}.in_sum2", (n_in, *experts), "f32")
        g.tensor(f"{name}.counts", (1, *experts), "f32")
        if made % 4 == 0:
            g.tensor(f"{name}.in_sum", (n_in, *experts), "f32")
    return g


MAKERS: dict[str, Callable[[str, int], GGUF]] = {"lora": lora, "cvec": control_vector, "imat": imatrix}


@cache
def sound(kind: str, base: str, made: int) -> tuple[bytes, int]:
    """Header and size of a sound file."""
    g = MAKERS[kind](base, made)
    for t in g._tensors:
        t["data"] = bytes(_nbytes(t["shape"], t["type"]))
    data = g.bytes()
    return g.header(), len(data)


def _nbytes(shape: tuple[int, ...], kind: str) -> int:
    _, block, size = TENSOR[kind]
    n = 1
    for d in shape:
        n *= d
    return n // block * size


def side(recipe: dict[str, Any], name: str = "/x/side.gguf") -> Hole:
    """The mutated file."""
    return built(recipe, name, sound(recipe["kind"], recipe["base"], recipe["made"]))


class _File:
    """What a mutation may choose from."""

    def __init__(self, kind: str, base: str, made: int) -> None:
        g = MAKERS[kind](base, made)
        self.kind, self.base = kind, base
        self.keys = [e[0] for e in g._kv if isinstance(e, tuple)]
        self.tensors = {t["name"]: t["shape"] for t in g._tensors}
        self.alignment = 32


SCALARS = "u8 i8 u16 i16 u32 i32 f32 bool str u64 i64 f64".split()
_TYPES = [*range(43), 0, 1, 8, 30, 45]
_VALUES: dict[str, tuple[str, list[Any]]] = {
    "general.type": ("str", ["model", "", "lora", "Adapter", "adapter ", "mmproj", "adapter\0x"]),
    "general.architecture": ("str", ["llama", "qwen2", "", "unknown", "gemma3", "clip", "controlvector", "bert"]),
    "adapter.type": ("str", ["", "LoRA", "dora", "control_vector", "lora\0"]),
    "adapter.lora.alpha": ("f32", [0.0, -1.0, 1e30, "nan", "inf", 16.0]),
    "adapter.lora.task_name": ("str", ["x" * 2000, ""]),
    "adapter.lora.prompt_prefix": ("str", ["y"]),
    "controlvector.model_hint": ("str", ["", "other"]),
    "controlvector.layer_count": ("i32", [0, 9999]),
    "general.alignment": ("u32", [0, 3, 1, 64]),
    "imatrix.chunk_count": ("u32", [0, 1 << 31]),
    "imatrix.chunk_size": ("i32", [512, -1]),
    "imatrix.n_layer_nextn": ("u32", [1]),
}


def _delete(r: random.Random, f: _File) -> Op:
    return {"op": "del", "key": r.choice(f.keys)}


def _retype(r: random.Random, f: _File) -> Op:
    kind = r.choice([*SCALARS, "arr:u32", "arr:f32", "arr:str"])
    return {"op": "retype", "key": r.choice(f.keys), "type": kind}


def _value(r: random.Random, f: _File) -> Op:
    key = r.choice(list(_VALUES))
    kind, values = _VALUES[key]
    return {"op": "set", "key": key, "type": kind, "value": r.choice(values)}


def _invocation(r: random.Random, f: _File) -> Op:
    kind = r.choice(["arr:u32", "arr:i32", "arr:str", "u32", "arr:u64", "str", "arr:f32"])
    value: Any = [1, 2] if kind.startswith("arr:") and "str" not in kind else ["a"] if "arr" in kind else "7"
    if kind == "arr:u32":
        value = r.choice([[], [0], [4000000000, 1]])
    return {"op": "set", "key": "adapter.alora.invocation_tokens", "type": kind, "value": value}


def _lose(r: random.Random, f: _File) -> Op:
    return {"op": "del_tensor", "name": r.choice(list(f.tensors))}


_NAMES = (
    "{base}.lora_A", "{base}.lora_a.weight", "{base}", "{base}.lora_c", "{base}.lora_a.lora_a", "{base}.lora_b.lora_a",
    "blk.0.attn_norm.weight", "blk.0.attn_norm.bias", "output_norm.weight", "blk.99.attn_q.weight.lora_a",
    "output.weight.lora_a", "base_model.model.{base}.lora_a", "{name} ", "{upper}", "x", "token_embd.weight.lora_a",
    "{name}\0x",
)  # fmt: skip
_DIRECTIONS = (
    "direction.0", "direction.-1", "direction.x", "direction", "direction.", "Direction.1", "direction. 3",
    "direction.+4", "direction.007", "direction.1.weight", "direction.4x", "direction.99", "direction.2147483648",
    "direction.2147483647", "direction.5000000", "directions.1", "blk.1.direction", "direction.99999999999999999999",
    "direction.0x4", "direction.1\0x", "direction.60000000", "direction.1e3",
)  # fmt: skip


def _rename(r: random.Random, f: _File) -> Op:
    name = r.choice(list(f.tensors))
    if f.kind == "cvec":
        return {"op": "rename_tensor", "name": name, "to": r.choice(_DIRECTIONS)}
    if f.kind == "imat":
        base = name.rpartition(".")[0]
        to = [
            "{base}.in_sum",
            "{base}.in_sum2",
            "{base}.counts",
            "{base}",
            "x.counts",
            ".in_sum2",
            "{name}\0x",
            "{name}x",
        ]
        return {"op": "rename_tensor", "name": name, "to": r.choice(to).format(base=base, name=name)[:63]}
    base = name.removesuffix(".lora_a").removesuffix(".lora_b")
    to = r.choice(_NAMES).format(base=base, name=name, upper=name.upper())
    return {"op": "rename_tensor", "name": name, "to": to[:63]}


def _extra(r: random.Random, f: _File) -> Op:
    if f.kind == "cvec":
        dims = list(next(iter(f.tensors.values())))
        return {"op": "add_tensor", "name": r.choice(_DIRECTIONS), "dims": dims, "type": 0}
    if f.kind == "imat":
        name = r.choice(
            ["x", "x.in_sum2", "x.counts", "x.in_sum", next(iter(f.tensors)).rpartition(".")[0] + ".in_sum"]
        )
        return {"op": "add_tensor", "name": name, "dims": r.choice([[8], [1]]), "type": 0}
    layer = r.randrange(4)
    names = [f"blk.{layer}.attn_q.weight.lora_a", "output.weight.lora_b", "x.lora_a", f"blk.{layer}.ffn_norm.weight"]
    names += ["token_embd.weight", "rope_freqs.weight", "output.weight.lora_a", "blk.0.attn_q.bias.lora_a"]
    return {"op": "add_tensor", "name": r.choice(names), "dims": r.choice([[8], [64, 8], [8, 64]]), "type": 0}


def _reshape(r: random.Random, f: _File) -> Op:
    name = r.choice(list(f.tensors))
    shape = list(f.tensors[name])
    i = r.randrange(len(shape))
    half, more, twice, none = list(shape), list(shape), list(shape), list(shape)
    half[i], more[i], twice[i], none[i] = max(1, shape[i] // 2), shape[i] + r.choice([1, 32]), shape[i] * 2, 0
    longer = [[*shape, 1], [*shape, 2], [1, *shape], [*shape, 1, 1], shape[:1], []]
    return {"op": "shape", "name": name, "dims": r.choice([half, more, twice, none, shape[::-1], *longer])[:4]}


def _turned(r: random.Random, f: _File) -> Op:
    return {"op": "reverse_dims", "name": r.choice(list(f.tensors))}


def _type(r: random.Random, f: _File) -> Op:
    return {"op": "ttype", "name": r.choice(list(f.tensors)), "type": r.choice(_TYPES)}


def _layout(r: random.Random, f: _File) -> Op:
    name = r.choice(list(f.tensors))
    return r.choice(
        [
            {"op": "align", "value": r.choice([1, 2, 8, 32, 64, 4096, 0, 3])},
            {"op": "offset", "name": name, "add": r.choice([32, -32, 1])},
            {"op": "truncate", "bytes": r.choice([1, 31, 32, 100, 300, 10**6])},
            {"op": "truncate", "bytes": r.choice([1, 64, 128])},
            {"op": "append", "bytes": r.choice([1, 64])},
            {"op": "dup_key", "key": r.choice(f.keys)},
            {"op": "dup_tensor", "name": name},
            {"op": "cut_header", "bytes": r.choice([0, 3, 8, 23, 30, 100, 200])},
            {"op": "counts", **r.choice([{"tensors": 1}, {"tensors": -1}, {"kv": 1}, {"kv": -1}])},
            {"op": "magic", "hex": "47475546"},
            {"op": "version", "v": r.choice([1, 2, 4])},
        ]
    )


Several = Op | list[Op]


def _swapped(r: random.Random, f: _File) -> Several:
    """The two halves under each other's name."""
    name = r.choice(list(f.tensors))
    base, dot, _ = name.rpartition(".lora_")
    if not dot:
        return _turned(r, f)
    a, b = f"{base}.lora_a", f"{base}.lora_b"
    return [{"op": "rename_tensor", "name": x, "to": y} for x, y in ((a, "x"), (b, a), ("x", b))]


def _pair_turned(r: random.Random, f: _File) -> Several:
    """Both halves the other way round, or both with another rank."""
    name = r.choice(list(f.tensors))
    base, dot, _ = name.rpartition(".lora_")
    if not dot:
        return _turned(r, f)
    a, b = list(f.tensors[f"{base}.lora_a"]), list(f.tensors[f"{base}.lora_b"])
    new, axis = r.choice([0, 1, 2, 3, 64, 500]), 0 if "token_embd" in name else 1
    if r.random() < 0.7:
        a[axis] = b[0] = new
    else:
        a[:2], b[:2] = a[1::-1], b[1::-1]
    return [{"op": "shape", "name": f"{base}.lora_{h}", "dims": dims} for h, dims in (("a", a), ("b", b))]


def _renumbered(r: random.Random, f: _File) -> Several:
    """All directions one layer down, as vectors with layer 0 have it; or all in another way of writing."""
    names = sorted(f.tensors, key=len)
    way = r.choice(
        ["direction.{}", "direction.{}.weight", "direction.0{}", "direction.{}\0", "layer.{}", "direction_{}"]
    )
    shift = r.choice([0, 1]) if way == "direction.{}" else 0
    ops: list[Op] = [{"op": "rename_tensor", "name": name, "to": f"x{i}"} for i, name in enumerate(names)]
    for i, name in enumerate(names):
        layer = int(name.rpartition(".")[2]) - shift
        ops.append({"op": "rename_tensor", "name": f"x{i}", "to": way.format(layer)})
    return ops


def _width(r: random.Random, f: _File) -> Several:
    """All directions of another width."""
    n = r.choice([0, 1, 32, 63, 4096])
    return [{"op": "shape", "name": name, "dims": r.choice([[n], [n], [n, 1], [1, n]])} for name in f.tensors]


MORE: dict[str, tuple[Callable[[random.Random, _File], Several], ...]] = {
    "lora": (_swapped, _pair_turned, _pair_turned),
    "cvec": (_renumbered, _width),
    "imat": (),
}
"""Kinds that were thought of when all others agreed."""
KINDS: dict[str, tuple[Callable[[random.Random, _File], Op], ...]] = {
    "lora": (
        _delete, _delete, _retype, _value, _value, _invocation, _lose, _lose, _rename, _rename, _rename, _extra,
        _reshape, _reshape, _reshape, _turned, _type, _type, _layout, _layout,
    ),
    "cvec": (_delete, _retype, _value, _lose, _rename, _rename, _rename, _extra, _reshape, _reshape, _type, _layout,
             _layout),
    "imat": (_delete, _delete, _retype, _value, _lose, _lose, _rename, _extra, _reshape, _type, _layout, _layout),
}  # fmt: skip


def mutations(
    seed: int, n: int, kinds: tuple[str, ...] = ("lora", "lora", "cvec"), *, more: bool = False
) -> Iterator[dict[str, Any]]:
    """``n`` recipes: one in twenty sound, one in six beside another model, one in six with two operations.

    With ``more`` all of them have an operation of `MORE`, half of them others as well.
    """
    r = random.Random(seed)
    made = 0
    while made < n:
        kind, base, number = r.choice(kinds), r.choice(BASES), r.randrange(40)
        file = _File(kind, base, number)
        if not file.tensors:
            continue
        beside = r.choice(BASES) if r.random() < 0.17 else base
        count = r.choices([0, 1, 2], [1, 16, 3])[0]
        ops: list[Op] = []
        if more:
            made_of = r.choice(MORE[kind])(r, file)
            ops += made_of if isinstance(made_of, list) else [made_of]
            count = r.choice([0, 0, 1, 2])
        ops += [r.choice(KINDS[kind])(r, file) for _ in range(count)]
        recipe = {"kind": kind, "base": base, "made": number, "with": beside, "ops": ops}
        try:
            size = side(recipe).size
        except (AssertionError, StopIteration, OverflowError, ValueError, ZeroDivisionError):
            continue  # the second operation wants what the first took away
        if size < 1 << 28:
            made += 1
            yield recipe
