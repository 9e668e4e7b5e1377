"""Fresh mutations: random recipes over the bases, judged by the real library (xllamacpp, b11549).

``python -m tests.predict.mutations SEED N`` writes records like those of `recipes.jsonl.gz` to standard output.
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from gguftool.model import Model, from_source
from tests.oracle.verdicts import judge
from tests.predict.recipes import Hole, bases, built, write

SCALARS = "u8 i8 u16 i16 u32 i32 f32 bool str u64 i64 f64".split()
ROLES = (
    "bos eos eot eom unknown seperator padding mask fim_pre fim_suf fim_mid fim_pad fim_rep fim_sep "
    "prefix suffix middle"
).split()
WORDS = ["", "<|im_end|>", "<|endoftext|>", "<0x0A>", "\n", "</s>", "<eos>", "<|end|>", "<|return|>", "<|call|>"]
WORDS += ["<|fim_pad|>", "<EOT>", "unused", "<|channel|>", "<|eot_id|>", "<|tool_response>", "[EOT]", "a\0b"]
NEW_KEYS = (
    "attention.sliding_window attention.sliding_window_pattern rope.scaling.type rope.scaling.factor "
    "attention.key_length attention.value_length rope.dimension_count expert_count expert_used_count "
    "nextn_predict_layers attention.head_count_kv expert_gating_func logit_scale pooling_type attention.causal "
    "rope.scaling.finetuned attention.layer_norm_epsilon feed_forward_length block_count expert_shared_count "
    "leading_dense_block_count attention.key_length_swa"
).split()
Op = dict[str, Any]


@cache
def model(base: str) -> Model:
    """The base, opened."""
    header, size = bases()[base]
    return from_source(Hole(header, base, size), strict=False)


def _own_keys(m: Model) -> list[str]:
    return [k for k in m.fields if k.startswith((m.architecture + ".", "tokenizer", "general"))]


def _delete(r: random.Random, m: Model) -> Op | None:
    return {"op": "del", "key": r.choice(_own_keys(m))}


def _retype(r: random.Random, m: Model) -> Op | None:
    return {
        "op": "retype",
        "key": r.choice(_own_keys(m)),
        "type": r.choice([*SCALARS, "arr:u32", "arr:f32", "arr:str"]),
    }


def _value(r: random.Random, m: Model) -> Op | None:
    key = r.choice([k for k in _own_keys(m) if m.fields[k].type_name in ("u32", "f32", "bool", "str")])
    kind, old = m.fields[key].type_name, m.get(key)
    value: Any
    if isinstance(old, bool):
        value = int(not old)
    elif isinstance(old, int):
        near = [0, 1, 2, 3, old + 1, max(0, old - 1), old * 2, old // 2, 511, 513, (1 << 31) - 1, (1 << 32) - 1]
        value = r.choice([*near, r.randrange(1000)]) % (1 << 32)
    elif isinstance(old, float):
        value = r.choice([0.0, 1.0, -1.0, 1e-6, 2.5, 1e9, "nan", "inf"])
    else:
        words = ["", "x", "yarn", "linear", "none", "longrope", "gpt2", "llama", "default", "qwen2"]
        value = r.choice([*words, str(old).upper(), f"{old} "])
    return {"op": "set", "key": key, "type": kind, "value": value}


def _arrays(m: Model) -> list[str]:
    return [k for k in _own_keys(m) if m.fields[k].count]


def _length(r: random.Random, m: Model) -> Op | None:
    if not _arrays(m):
        return None
    key = r.choice(_arrays(m))
    n = m.fields[key].count or 0
    return {"op": "array_len", "key": key, "n": r.choice([0, 1, n + 1, n - 1, n * 2, n // 2])}


def _element_type(r: random.Random, m: Model) -> Op | None:
    return {"op": "elem_type", "key": r.choice(_arrays(m)), "type": r.choice(SCALARS)} if _arrays(m) else None


def _tensor(r: random.Random, m: Model) -> str:
    return r.choice(list(m.tensors))


def _lose(r: random.Random, m: Model) -> Op | None:
    return {"op": "del_tensor", "name": _tensor(r, m)}


def _rename(r: random.Random, m: Model) -> Op | None:
    name = _tensor(r, m)
    other = [name + "x", name.replace(".weight", ".bias"), name.replace("blk.0", "blk.9"), "x.weight", name.upper()]
    return {"op": "rename_tensor", "name": name, "to": r.choice(other)}


def _reshape(r: random.Random, m: Model) -> Op | None:
    name = _tensor(r, m)
    shape = list(m.tensors[name].shape)
    i = r.randrange(len(shape))
    half, more, twice = list(shape), list(shape), list(shape)
    half[i], more[i], twice[i] = max(1, shape[i] // 2), shape[i] + r.choice([32, 1, 256]), shape[i] * 2
    return {"op": "shape", "name": name, "dims": r.choice([half, more, twice, shape[::-1], [*shape, 1, 1][:4]])}


def _type(r: random.Random, m: Model) -> Op | None:
    return {"op": "ttype", "name": _tensor(r, m), "type": r.choice([*range(43), 0, 1, 30, 8, 1, 30, 45])}


def _extra(r: random.Random, m: Model) -> Op | None:
    i = r.randrange(4)
    names = ["x.weight", f"blk.{i}.attn_q.bias", f"blk.{i}.attn_k_norm.weight", "output.bias", "rope_freqs.weight"]
    names += [f"blk.{i}.ffn_up.scale", "output.weight", f"blk.{i}.attn_output.bias", f"blk.{i}.ffn_down.bias"]
    shapes = [[1], [32], [m.arch.embedding_length or 1], [64]]
    return {"op": "add_tensor", "name": r.choice(names), "dims": r.choice(shapes), "type": 0}


def _special(r: random.Random, m: Model) -> Op | None:
    key = f"tokenizer.ggml.{r.choice(ROLES)}_token_id"
    value = r.choice([0, 1, 2, 3, 5, 100, 319, 320, (1 << 31) - 1])
    return {"op": "set", "key": key, "type": r.choice(["u32", "u32", "u32", "i32"]), "value": value}


def _word(r: random.Random, m: Model) -> Op | None:
    f = m.fields.get("tokenizer.ggml.tokens")
    if f is None or not f.count:
        return None
    return {"op": "array_set", "key": f.key, "i": r.randrange(f.count), "value": r.choice(WORDS)}


def _new_key(r: random.Random, m: Model) -> Op | None:
    kind = r.choice(["u32", "u32", "u32", "f32", "str", "bool", "arr:u32"])
    values = {"u32": r.choice([0, 1, 2, 4, 32, 64]), "f32": 1.5, "str": r.choice(["yarn", "x", "none"]), "bool": 1}
    value = values.get(kind, [1] * r.choice([1, 2, 3, 4, 6]))
    return {"op": "set", "key": f"{m.architecture}.{r.choice(NEW_KEYS)}", "type": kind, "value": value}


def _layout(r: random.Random, m: Model) -> Op | None:
    return r.choice(
        [
            {"op": "align", "value": r.choice([1, 2, 4, 8, 16, 32, 64, 128, 4096, 0, 3, 48])},
            {"op": "offset", "name": _tensor(r, m), "add": r.choice([32, -32, 1])},
            {"op": "truncate", "bytes": r.choice([1, 31, 32, 100, 5000, 10**6])},
            {"op": "dup_key", "key": r.choice(list(m.fields))},
        ]
    )


KINDS: tuple[Callable[[random.Random, Model], Op | None], ...] = (
    _delete, _retype, _value, _value, _value, _length, _lose, _rename, _reshape, _type, _type, _extra, _special,
    _word, _layout, _layout, _element_type, _new_key,
)  # fmt: skip


def mutations(seed: int, n: int) -> Iterator[dict[str, Any]]:
    """``n`` recipes; one in eight has two operations."""
    r = random.Random(seed)
    names = [b for b in bases() if not b.startswith("giants/")]
    made = 0
    while made < n:
        base = r.choice(names)
        ops = [r.choice(KINDS)(r, model(base)) for _ in range(2 if r.random() < 0.125 else 1)]
        recipe = {"base": base, "ops": [op for op in ops if op]}
        try:
            size = built(recipe).size
        except (AssertionError, StopIteration, OverflowError, ValueError):
            continue  # the second operation wants what the first took away
        if recipe["ops"] and size < 1 << 30:
            made += 1
            yield recipe


def judged(recipes: list[dict[str, Any]], folder: Path) -> Iterator[dict[str, Any]]:
    """Each recipe with what the real library did to its file."""
    paths = [str(folder / f"{i % 3}.gguf") for i in range(len(recipes))]

    def files() -> Iterator[str]:
        for recipe, path in zip(recipes, paths, strict=True):
            if os.path.exists(path):
                os.remove(path)
            write(recipe, Path(path))
            yield path

    for recipe, path, answer in zip(recipes, paths, judge(files()), strict=False):
        after = f"context:{answer.context}" if answer.context != "ok" else f"decode:{answer.use}"
        last = [
            line for line in answer.stderr.splitlines() if "GGML_ASSERT" in line or "error" in line or "what" in line
        ]
        yield {
            **recipe,
            "verdict": answer.verdict,
            "errors": [plain(e, path) for e in answer.errors if "from_file_impl" not in e],
            "warnings": [plain(w, path) for w in answer.warnings],
            "after": after if answer.verdict == "loads" else "",
            "stderr": last[-1][-200:] if last else "",
        }


def plain(line: str, path: str) -> str:
    """A log line without what differs between runs and compilers."""
    return line.replace(path, "<file>").replace("_Map_base::at", "unordered_map::at").rstrip()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        for record in judged(list(mutations(int(sys.argv[1]), int(sys.argv[2]))), Path(name)):
            sys.stdout.write(json.dumps(record, separators=(",", ":")) + "\n")
