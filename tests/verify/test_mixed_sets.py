"""A set whose shards are not of one split: no command that copies from it writes a mixture."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import GGUF, llama


def _shard(no: int, *tensors: str, total: int = 4) -> GGUF:
    g = llama(tensors=False) if no == 0 else GGUF()
    g.kv("split.no", no, "u16").kv("split.count", 2, "u16").kv("split.tensors.count", total, "i32")
    for name in tensors:
        g.tensor(name, (32, 4))
    return g


SETS = {
    "twice": (_shard(0, "blk.0.a", "blk.0.b"), _shard(1, "blk.0.b", "blk.1.a"), "both hold blk.0.b"),
    "too many": (_shard(0, "blk.0.a", "blk.0.b"), _shard(1, "blk.1.a", "blk.1.b", "blk.2.a"), "says 4"),
    "too few": (_shard(0, "blk.0.a", "blk.0.b"), _shard(1, "blk.1.a"), "says 4"),
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("typed", [1, 2])
@pytest.mark.parametrize("command", ["split", "merge", "quantize", "quantize --dry-run", "prepare"])
def test_nothing_is_written(cli, tmp_path: Path, name: str, typed: int, command: str) -> None:
    *shards, said = SETS[name]
    for no, g in enumerate(shards, 1):
        g.write(tmp_path / f"a-{no:05d}-of-00002.gguf")
    model, out = tmp_path / f"a-{typed:05d}-of-00002.gguf", tmp_path / "out"
    out.mkdir()
    words: list[object] = {
        "split": ["split", "--max-tensors", 1, "-o", out / "s", model],
        "merge": ["merge", "-o", out / "m.gguf", model],
        "quantize": ["quantize", model, "Q8_0", "-o", out / "q.gguf"],
        "quantize --dry-run": ["quantize", "--dry-run", model, "Q8_0", "-o", out / "q.gguf"],
        "prepare": ["prepare", model, "-o", out / "p.gguf", "--quantize", "Q8_0"],
    }[command]
    done = cli(*words)
    assert done.code == 4
    assert said in done.err
    assert not list(out.glob("*.gguf"))
