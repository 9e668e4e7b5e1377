"""Shards: keys, names, totals, and files that do not belong together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gguftool.model import Model, open_model
from tests.build import GGUF
from tests.lint.samples import Sample, ready

Names = dict[str, GGUF]


def files(names: Names, given: str | None = None) -> Callable[[Path], Model]:
    """Write files into a folder and open one of them, as a user would."""

    def opened(folder: Path) -> Model:
        for name, g in names.items():
            g.write(folder / name)
        return open_model(folder / (given or next(iter(names))), strict=False)

    return opened


def shards(n: int = 3, type: str = "f32", total: int | None = None) -> list[GGUF]:
    """A set of shards with three matrices each; the first carries the metadata."""
    out = []
    for no in range(n):
        g = GGUF("llama").kv("llama.block_count", n) if no == 0 else GGUF()
        g.shard(no, n, 3 * n if total is None else total)
        for name in ("ffn_up", "ffn_down", "ffn_gate"):
            g.tensor(f"blk.{no}.{name}.weight", (256, 2), type)
        out.append(g)
    return out


def named(parts: list[GGUF], prefix: str = "m") -> Names:
    return {f"{prefix}-{i + 1:05d}-of-{len(parts):05d}.gguf": g for i, g in enumerate(parts)}


def without(no: int) -> Names:
    kept = named(shards())
    del kept[f"m-{no:05d}-of-00003.gguf"]
    return kept


def replaced(no: int, g: GGUF) -> Names:
    parts = shards()
    parts[no - 1] = g
    return named(parts)


def swapped() -> Names:
    a, b, c = shards()
    return {"m-00001-of-00003.gguf": a, "m-00002-of-00003.gguf": c, "m-00003-of-00003.gguf": b}


WHOLE = files(named(shards()))
SAMPLES = [
    # case 61
    Sample(
        "shard-missing",
        files(without(2)),
        "shard:2",
        "shard 2 of 3 is missing: m-00002-of-00003.gguf",
        WHOLE,
        severity="error",
    ),
    Sample(
        "shard-missing", files({"m-00002-of-00003.gguf": shards()[1]}), "shard:1", "shards 1, 3 of 3 are missing", WHOLE
    ),
    Sample(
        "split-key-type",
        ready().kv("split.count", 1, "u32"),
        "field:split.count",
        "is u32, llama.cpp reads u16",
        severity="error",
        fix="--set split.count=1",
        safe=True,
        silent=ready().kv("split.count", 1, "u16"),
    ),
    Sample(
        "split-key-type",
        files(
            {"m-00001-of-00002.gguf": GGUF("llama").kv("split.count", 2, "u16").kv("split.no", 0, "u32").tensor("w")}
        ),
        "field:split.no",
        "is u32",
        WHOLE,
    ),
    Sample(
        "split-number",
        files({"m.gguf": GGUF("llama").shard(3, 3, 9).tensor("w")}),
        "field:split.no",
        "split.no is 3, split.count is 3",
        WHOLE,
        severity="error",
    ),
    Sample(
        "split-number",
        files({"m.gguf": GGUF("llama").kv("split.count", 3, "u16").tensor("w")}),
        "field:split.no",
        "is missing",
        WHOLE,
    ),
    # case 59: a lost name, four digits; swapped names
    Sample(
        "shard-name-invalid",
        files(dict(zip(["a.gguf", "b.gguf", "c.gguf"], shards(), strict=True))),
        "shard:1",
        "llama.cpp looks for a-00001-of-00003.gguf",
        WHOLE,
        severity="error",
        fix="gguftool verify --repair-names",
    ),
    Sample(
        "shard-name-invalid",
        files({f"m-000{i + 1}-of-0003.gguf": g for i, g in enumerate(shards())}),
        "shard:2",
        "llama.cpp looks for m-00002-of-00003.gguf",
        WHOLE,
    ),
    Sample("shard-name-invalid", files(swapped()), "shard:2", "m-00003-of-00003.gguf is shard 2 of 3", WHOLE),
    # case 67
    Sample(
        "shard-tensor-total",
        files(named(shards(total=10))),
        "field:split.tensors.count",
        "split.tensors.count is 10, the shards hold 9",
        WHOLE,
        severity="error",
    ),
    Sample(
        "shard-keys-differ",
        files(replaced(2, GGUF().shard(1, 4, 9).tensor("w"))),
        "shard:2",
        "shard 2 says 4 shards, shard 1 says 3",
        WHOLE,
        severity="error",
    ),
    Sample(
        "shard-keys-differ",
        files(replaced(2, GGUF().shard(1, 3, 8).tensor("w"))),
        "shard:2",
        "shard 2 says 8 tensors, shard 1 says 9",
        WHOLE,
    ),
    # shards of two quantisations mixed load without a word
    Sample(
        "shard-foreign",
        files(replaced(2, shards(type="q8_0")[1])),
        "shard:2",
        "shard 2 is Q8_0 throughout, the others are mostly F32",
        WHOLE,
        severity="warning",
    ),
    Sample(
        "shard-metadata",
        files(replaced(2, shards()[1].kv("general.name", "x"))),
        "shard:2",
        "1 keys",
        WHOLE,
        severity="warning",
    ),
    Sample(
        "split-keys-left",
        ready().kv("split.no", 0, "u16").kv("split.count", 0, "u16"),
        "field:split.no",
        "split.no, split.count left in a whole model",
        severity="info",
        safe=True,
        fix="--delete split.no --delete split.count",
    ),
    # case 60
    Sample(
        "shards-many",
        files(named(shards(65))),
        "field:split.count",
        "65 shards",
        files(named(shards(64))),
        severity="warning",
    ),
]
