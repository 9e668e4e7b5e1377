"""Broken projectors as recipes: a sound one (`tests.projectors.SOUND`) and what is done to it.

``python -m tests.predict.projector_mutations SEED N FOLDER`` writes N of them with their recipes, for the real loader.
An operation is a list: ``key name value type``, ``nokey name``, ``tensor name shape type``, ``notensor name``,
``rename old new``, ``cut bytes`` (from the end).
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.projectors import SOUND, Made

Op = list[Any]
_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "i32", "f64", "q4_k")
_NEW_KEYS: tuple[tuple[str, Any, str | None], ...] = (
    ("clip.has_audio_encoder", True, None),
    ("clip.has_vision_encoder", True, None),
    ("clip.use_silu", True, None),
    ("clip.use_gelu", False, None),
    ("clip.vision.feature_layer", [0, 1], "[i32]"),
    ("clip.vision.feature_layer", [1, 9], "[i32]"),
    ("clip.vision.image_grid_pinpoints", [336, 672, 14], "[i32]"),
    ("clip.vision.image_grid_pinpoints", [336, 672], "[i32]"),
    ("clip.vision.attention.head_count_kv", 1, None),
    ("clip.vision.attention.head_dim", 8, None),
    ("clip.vision.projector.scale_factor", 3, None),
    ("clip.vision.spatial_merge_size", 0, None),
    ("clip.vision.mm_patch_merge_type", "spatial_unpad", None),
    ("clip.vision.n_wa_pattern", 2, None),
    ("clip.minicpmv_version", 7, "i32"),
    ("clip.vision.image_min_pixels", 0, None),
    ("clip.vision.image_max_pixels", 100, None),
    ("clip.vision.preproc_max_tiles", 0, None),
    ("clip.vision.window_size", 112, None),
    ("general.description", 5, None),
    ("clip.vision.projector_type", "mlp", None),
)
_NEW_TENSORS: tuple[tuple[str, tuple[int, ...]], ...] = (
    ("v.pre_ln.weight", (32,)),
    ("v.post_ln.bias", (32,)),
    ("v.class_embd", (32,)),
    ("v.patch_embd.bias", (32,)),
    ("v.blk.0.ffn_gate.weight", (32, 64)),
    ("v.blk.0.attn_q_norm.weight", (16,)),
    ("v.blk.0.attn_k_norm.weight", (32,)),
    ("v.blk.0.ls1.weight", (32,)),
    ("v.blk.0.attn_qkv.weight", (32, 96)),
    ("mm.3.weight", (64, 64)),
    ("mm.3.bias", (64,)),
    ("v.patch_embd.weight.1", (14, 14, 3, 32)),
    ("v.blk.0.ffn_up_exps.weight", (32, 64, 2)),
    ("v.deepstack.0.fc1.weight", (128, 128)),
    ("v.image_newline", (64,)),
    ("v.position_embd.weight", (32, 16)),
)


def applied(kind: str, ops: list[Op]) -> bytes:
    """The bytes of a file."""
    made = SOUND[kind]()
    cut = 0
    for word, *rest in ops:
        if word == "key":
            made.key(rest[0], rest[1], rest[2])
        elif word == "nokey":
            made.keys.pop(rest[0], None)
        elif word == "tensor":
            made.tensors[rest[0]] = (tuple(rest[1]), rest[2])
        elif word == "notensor":
            made.tensors.pop(rest[0], None)
        elif word == "rename" and rest[0] in made.tensors:
            made.tensors = {rest[1] if n == rest[0] else n: t for n, t in made.tensors.items()}
        elif word == "cut":
            cut = rest[0]
    data = made.gguf().bytes()
    return data[: len(data) - cut]


def recipes(seed: int, n: int) -> Iterator[tuple[str, list[Op]]]:
    """Type and operations of so many files."""
    dice = random.Random(seed)
    kinds = sorted(SOUND)
    for i in range(n):
        kind = kinds[i % len(kinds)]
        made = SOUND[kind]()
        yield kind, [_one(dice, made) for _ in range(1 if dice.random() < 0.8 else 2)]


def _one(dice: random.Random, made: Made) -> Op:
    what = dice.random()
    if what < 0.12:
        return ["nokey", dice.choice([k for k in made.keys if not k.startswith("general.")])]
    if what < 0.45:
        return _key(dice, made)
    if what < 0.52:
        return ["key", *dice.choice(_NEW_KEYS)]
    if what < 0.62:
        return ["notensor", dice.choice(list(made.tensors))]
    if what < 0.66:
        name = dice.choice(list(made.tensors))
        return [
            "rename",
            name,
            dice.choice([name + "x", name.replace("weight", "bias"), name.replace("blk.0", "blk.1")]),
        ]
    if what < 0.72:
        name, shape = dice.choice(_NEW_TENSORS)
        return ["tensor", name, list(shape), dice.choice(("f32", "f16"))]
    if what < 0.94:
        return _tensor(dice, made)
    return ["cut", dice.choice([1, 33, dice.randrange(1, 400), dice.randrange(1, 9000), dice.randrange(1, 60000)])]


def _key(dice: random.Random, made: Made) -> Op:
    name = dice.choice([k for k in made.keys if k != "general.architecture"])
    value, kind = made.keys[name]
    if isinstance(value, bool):
        return dice.choice([["key", name, not value, None], ["key", name, int(value), "u32"]])
    if isinstance(value, str):
        near = dice.choice(sorted(SOUND))
        return [
            "key",
            name,
            *dice.choice([("", None), (value.upper(), None), (near, None), (7, "u32"), (value + "x", None)]),
        ]
    if isinstance(value, list):
        other = dice.choice([value[:2], value[:1], [], [*value, 0.5], [int(v) for v in value]])
        return ["key", name, other, "[i32]" if other and isinstance(other[0], int) else "[f32]"]
    if isinstance(value, float):
        return ["key", name, *dice.choice([(0.0, None), (-1.0, None), (1, "u32"), (value, "f64")])]
    assert isinstance(value, int)
    number = dice.choice(
        [0, 1, 2, 3, value - 1, value + 1, value // 2, value * 2, value * 7, 65535, 65536, 1 << 31, 8193]
    )
    number = min(max(0, number), (1 << 31) - 1) if kind == "i32" else max(0, number)
    other_type = dice.random() < 0.2
    return [
        "key",
        name,
        number & 0x7FFFFFFF if other_type else number,
        dice.choice(("i32", "u64")) if other_type else kind,
    ]


def _tensor(dice: random.Random, made: Made) -> Op:
    name = dice.choice(list(made.tensors))
    shape, kind = made.tensors[name]
    new = list(shape)
    if dice.random() < 0.3:
        other = dice.choice([t for t in _TYPES if t != kind])
        if other.startswith("q") and new[0] % (256 if other == "q4_k" else 32):
            other = "bf16"
        return ["tensor", name, new, other]
    i = dice.randrange(len(new))
    how = dice.randrange(7)
    if how == 0:
        new.reverse()
    elif how == 1 and len(new) > 1:
        new.pop()
    elif how == 2 and len(new) < 4:
        new.append(dice.choice((1, 2)))
    else:
        new[i] = max(1, dice.choice([new[i] - 1, new[i] + 1, new[i] // 2, new[i] * 2, 1, new[i] + 32]))
    return ["tensor", name, new, kind]


def main() -> None:
    """Write files and their recipes."""
    seed, n, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "recipes.jsonl", "w", encoding="utf-8") as out:
        for i, (kind, ops) in enumerate(recipes(seed, n)):
            (folder / f"{i:05}.gguf").write_bytes(applied(kind, ops))
            out.write(json.dumps([kind, ops]) + "\n")


if __name__ == "__main__":
    main()
