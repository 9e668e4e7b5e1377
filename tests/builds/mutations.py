"""Recipes of the kinds that builds of llama.cpp judge differently: names that came with a build (architectures,
pre-tokenizers, tokenizer models, tensor types), keys that became required or optional, limits that moved, layouts.

``recipes()`` is the fixed list (seeds below) that `tests.builds.record` loads with the library of each build.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from gguftool.facts.arch import names as architectures
from gguftool.model.vocab import names as words_of
from tests.predict.mutations import model, mutations
from tests.predict.recipes import bases, built

SEED = 20270115
Op = dict[str, Any]
EARLY = frozenset(
    "llama qwen2 qwen2moe gemma gemma2 phi2 phi3 mamba falcon gpt2 gptneox starcoder2 bert command-r deepseek2 t5 "
    "rwkv6 stablelm nomic-bert olmo2 minicpm3 mpt bloom granite granitemoe jina-bert-v2 qwen deci cohere2".split()
)
NO_NAMES = ("llamaa", "Llama", "gemma5", "qwen4", "", "llama ", "deepseek9", "grok2", "phi4", "mistral5", "gptoss")
NO_PRE = ("llama-bpe2", "qwen4", "LLAMA-BPE", "gemma5", "x", "gpt-5")
TOKENIZERS = (
    "llama",
    "gpt2",
    "bert",
    "t5",
    "rwkv",
    "plamo2",
    "no_vocab",
    "none",
    "test",
    "gemma4",
    "hybriddna",
    "x",
    "",
)
ROPES = ("none", "linear", "yarn", "longrope", "su", "dynamic", "", "YARN", "llama3", "mrope")
VALUES: dict[str, tuple[tuple[str, Any], ...]] = {
    "block_count": (("u32", 0), ("u32", 1), ("u32", 256), ("u32", 257), ("u32", 512), ("u32", 513), ("u32", 600)),
    "expert_count": tuple(("u32", n) for n in (0, 1, 60, 61, 128, 129, 160, 161, 256, 257, 384, 385, 512, 513, 1025)),
    "expert_used_count": (("u32", 0), ("u32", 1), ("u32", 999)),
    "expert_gating_func": tuple(("u32", n) for n in (0, 1, 2, 3, 4, 5, 9)),
    "expert_group_count": (("u32", 0), ("u32", 1), ("u32", 2), ("u32", 3)),
    "expert_shared_count": (("u32", 0), ("u32", 1), ("u32", 2)),
    "attention.sliding_window": (("u32", 0), ("u32", 128), ("i32", 128), ("arr:u32", [128, 128])),
    "attention.sliding_window_pattern": (("u32", 2), ("arr:bool", [1, 0, 1, 0]), ("u32", 0), ("arr:u32", [1, 0])),
    "attention.head_count": (("arr:u32", [4, 4, 4, 4]), ("arr:u32", [4, 4]), ("u32", 0), ("arr:i32", [4, 4, 4, 4])),
    "attention.head_count_kv": (("arr:u32", [2, 2, 2, 2]), ("arr:i32", [2, 2]), ("u32", 0)),
    "feed_forward_length": (("arr:u32", [256, 256, 256, 256]), ("arr:i32", [256, 256]), ("u32", 0)),
    "nextn_predict_layers": (("u32", 0), ("u32", 1), ("u32", 99)),
    "pooling_type": (("u32", 0), ("u32", 1), ("u32", 4), ("u32", 9), ("i32", -1)),
    "rope.dimension_sections": (("arr:i32", [8, 8, 8, 0]), ("arr:i32", [8, 8]), ("arr:u32", [8, 8, 8, 0]), ("u32", 8)),
    "rope.dimension_count": (("u32", 0), ("u32", 16), ("arr:u32", [16, 16]), ("i32", 32)),
    "rope.freq_base": (("f32", 0.0), ("u32", 10000), ("arr:f32", [1e4, 1e6]), ("f64", 1e4)),
    "attention.key_length": (("u32", 16), ("u32", 64), ("arr:u32", [32, 32])),
    "rope.scaling.factor": (("f32", 4.0), ("u32", 4), ("f32", 0.0)),
    "vocab_size": (("u32", 0), ("u32", 320), ("u32", 400), ("i32", 320)),
    "context_length": (("u32", 0), ("u64", 4096), ("i32", 4096)),
    "dense_2_feat_in": (("u32", 64),),
    "classifier.output_labels": (("arr:str", ["a", "b"]), ("str", "a")),
    "logit_scale": (("f32", 0.0), ("u32", 1)),
    "attention.causal": (("bool", 0), ("u32", 0)),
}  # fmt: skip


def _set(key: str, kind: str, value: Any) -> Op:
    return {"op": "set", "key": key, "type": kind, "value": value}


def _with(kind: str) -> list[str]:
    return [b for b in bases() if b.startswith("tiny/") and model(b).get("tokenizer.ggml.model") == kind]


def _small() -> list[str]:
    return [b for b in bases() if not b.startswith("giants/")]


def _plain(_: random.Random) -> Iterator[tuple[str, list[Op]]]:
    """Every base as it is; those with a vocabulary for tests also with none at all."""
    for base in _small():
        yield base, []
        if base.startswith("archs/"):
            yield base, _older(base)[:1]
            yield base, _older(base)[:2]
            yield base, _older(base)


def _older(base: str) -> list[Op]:
    """A base of llama.cpp's own generator without the vocabulary and the scales that older builds refuse."""
    size = model(base).tensors.get("token_embd.weight")
    return [
        _set("tokenizer.ggml.model", "str", "no_vocab"),
        _set(f"{model(base).architecture}.vocab_size", "u32", size.shape[-1] if size else 128),
        {"op": "del_tensors", "ending": [".scale", ".input_scale"]},
    ]


def _early() -> list[str]:
    """Bases of architectures that have been there for long."""
    return [b for b in bases() if b.startswith("tiny/") and model(b).architecture in EARLY]


def _architectures(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    for name in (*architectures(), *NO_NAMES):
        yield r.choice(_small()), [{"op": "arch", "to": name, "keys": True}]
    for name in r.sample([*architectures()], 60):
        yield (
            r.choice(["tiny/llama-mha", "tiny/qwen2", "tiny/qwen3", "tiny/gemma2"]),
            [{"op": "arch", "to": name, "keys": r.random() < 0.8}],
        )


def _pre_tokenizers(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    early = [b for b in _with("gpt2") if model(b).architecture in ("llama", "qwen2", "phi2", "starcoder2", "gpt2")]
    for name in (*words_of("pre"), *NO_PRE):
        yield r.choice(early), [_set("tokenizer.ggml.pre", "str", name)]
    for name in NO_PRE:
        yield r.choice(_with("llama")), [_set("tokenizer.ggml.pre", "str", name)]
    for base in r.sample(_with("gpt2"), 12):
        yield base, [{"op": "del", "key": "tokenizer.ggml.pre"}]


def _tokenizers(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    for name in TOKENIZERS:
        for base in r.sample(_small(), 5):
            yield base, [_set("tokenizer.ggml.model", "str", name)]
    for base in r.sample(_small(), 10):
        yield base, [{"op": "del", "key": "tokenizer.ggml.model"}]


def _types(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    tiny = [b for b in bases() if b.startswith("tiny/")]
    for n in (*range(46), 99, 1 << 31):
        for base in ("tiny/llama-mha", r.choice(tiny)):
            names = [t for t in model(base).tensors if len(model(base).tensors[t].shape) > 1]
            yield base, [{"op": "ttype", "name": r.choice(names), "type": n}]


def _missing(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    """Keys that became required or optional: each key under the architecture's name, of a base of each architecture."""
    for base in [b for b in bases() if b.startswith("tiny/")]:
        m = model(base)
        own = [k for k in m.fields if k.startswith(m.architecture + ".")]
        for key in r.sample(own, min(7, len(own))):
            yield base, [{"op": "del", "key": key}]
        others = [k for k in m.fields if k.startswith("tokenizer.")]
        if others:
            yield base, [{"op": "del", "key": r.choice(others)}]
        yield base, [{"op": "del_tensor", "name": r.choice(list(m.tensors))}]


def _values(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    for key, values in VALUES.items():
        having = [b for b in _small() if f"{model(b).architecture}.{key}" in model(b).fields]
        for kind, value in values:
            for base in (r.choice(having or _small()), r.choice(_small())):
                yield base, [_set(f"{model(base).architecture}.{key}", kind, value)]
    for name in ROPES:
        for base in r.sample(_small(), 2):
            yield base, [_set(f"{model(base).architecture}.rope.scaling.type", "str", name)]


def _layouts(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    """What the reader of the file itself asks for."""
    for base in r.sample(_small(), 4):
        m = model(base)
        key, tensor = r.choice(list(m.fields)), r.choice(list(m.tensors))
        shape = list(m.tensors[tensor].shape)
        yield base, [{"op": "dup_key", "key": key}]
        yield base, [{"op": "dup_tensor", "name": tensor}]
        yield base, [{"op": "dup_tensor", "name": tensor, "to": "x.weight"}]
        yield base, [{"op": "shape", "name": tensor, "dims": [*shape, *[1] * (4 - len(shape))]}]
        yield base, [{"op": "shape", "name": tensor, "dims": [*shape, 1, 1, 1, 1]}]
        yield base, [{"op": "shape", "name": tensor, "dims": [*shape[:-1], 0]}]
        yield base, [{"op": "shape", "name": tensor, "dims": []}]
        yield base, [{"op": "rename_tensor", "name": tensor, "to": "x" * 63}]
        yield base, [{"op": "rename_tensor", "name": tensor, "to": "x" * 64}]
        yield base, [{"op": "rename_tensor", "name": tensor, "to": ""}]
        yield base, [{"op": "rename", "key": key, "to": ""}]
        yield base, [{"op": "rename", "key": key, "to": {"repeat": ["k", 70000]}}]
        for value in (0, 1, 3, 8, 16, 64, 4096):
            yield base, [{"op": "align", "value": value}]
        for version in (0, 1, 2, 4, 99, 3 << 24):
            yield base, [{"op": "version", "v": version}]
        yield base, [{"op": "magic", "hex": "67676d6c"}]
        yield base, [{"op": "counts", "kv": 1}]
        yield base, [{"op": "counts", "tensors": 1}]
        yield base, [{"op": "counts", "tensors": -1}]
        yield base, [{"op": "kv_type", "key": key, "id": 13}]
        yield base, [{"op": "truncate", "bytes": r.choice([1, 32, 5000])}]
        yield base, [{"op": "append", "bytes": 32}]
        yield base, [{"op": "cut_header", "bytes": r.randrange(8, 2000)}]
        yield base, [{"op": "offset", "name": tensor, "add": 32}]
        yield base, [{"op": "gap", "name": tensor, "bytes": 32}]
        yield base, [_set("split.count", "u16", 1)]
        yield base, [_set("split.count", "u32", 1)]
        yield base, [_set("general.file_type", "str", "x")]
        yield base, [_set("general.name", "u32", 1)]


def _old_drawn(r: random.Random) -> Iterator[tuple[str, list[Op]]]:
    """Drawn for bases that old builds load: the early architectures, and llama.cpp's own without what came late."""
    for recipe in mutations(r.randrange(1 << 30), 6000):
        if recipe["base"] in _early():
            yield recipe["base"], recipe["ops"]
        elif recipe["base"].startswith("archs/") and r.random() < 0.3:
            yield recipe["base"], [*_older(recipe["base"]), *recipe["ops"]]


KINDS = {
    "plain": _plain,
    "architecture": _architectures,
    "pre-tokenizer": _pre_tokenizers,
    "tokenizer": _tokenizers,
    "tensor type": _types,
    "missing": _missing,
    "value": _values,
    "layout": _layouts,
    "old": _old_drawn,
}


def recipes(seed: int = SEED, fresh: int = 1000) -> list[dict[str, Any]]:
    """``{"class", "base", "ops"}`` of every kind, then ``fresh`` drawn like those of `tests.predict.mutations`."""
    found: list[dict[str, Any]] = []
    for name, kind in KINDS.items():
        r = random.Random(f"{seed} {name}")
        found += ({"class": name, "base": base, "ops": ops} for base, ops in kind(r) if _builds(base, ops))
    found += ({"class": "drawn", **recipe} for recipe in mutations(seed, fresh))
    return found


def _builds(base: str, ops: list[Op]) -> bool:
    try:
        return built({"base": base, "ops": ops}).size < 1 << 30
    except (AssertionError, StopIteration, OverflowError, ValueError, IndexError):
        return False
