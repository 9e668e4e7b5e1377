"""Damaged files of every kind end in a report, never in a traceback, and soon."""

from __future__ import annotations

import random
from pathlib import Path

from gguftool.errors import GgufToolError
from gguftool.verify import check, deep
from gguftool.verify.hashes import ALL, hash_file
from gguftool.verify.resplit import open_set, plan_merge, write_all
from tests.build import llama
from tests.pace import within
from tests.verify.sets import three


def damage(data: bytes, rng: random.Random) -> bytes:
    """A few flipped bytes, a cut, a swap or an insertion, mostly in the header."""
    out = bytearray(data)
    header = min(len(out), 12_000)
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(header) if rng.random() < 0.8 else rng.randrange(len(out))
        kind = rng.randrange(5)
        if kind == 0:
            out[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            out[at : at + 8] = rng.choice([b"\xff" * 8, bytes(8), (1 << 62).to_bytes(8, "little"), rng.randbytes(8)])
        elif kind == 2:
            del out[at : at + rng.randint(1, 64)]
        elif kind == 3:
            out[at:at] = rng.randbytes(rng.randint(1, 64))
        else:
            del out[rng.randrange(len(out)) :]
        if not out:
            return b"GGUF"
        header = min(len(out), header)
    return bytes(out)


def test_single_files(tmp_path: Path):
    rng = random.Random(20)
    whole = llama(tokens=4).bytes()
    path = tmp_path / "m.gguf"
    kinds = set()
    with within(40):
        for _ in range(400):
            path.write_bytes(damage(whole, rng))
            result = check(path)
            result = deep.with_data([result])[0]
            expected = deep.expectations(result.files, "ab" * 32)
            [result], _ = deep.with_hashes([result], expected)
            kinds |= {fault.kind for report in result.files for fault in report.faults}
            try:
                hash_file(str(path), ALL)
            except GgufToolError:
                pass
    assert {"truncated", "excess", "hash-mismatch"} <= kinds


def test_sets(tmp_path: Path):
    rng = random.Random(21)
    paths = three(tmp_path)
    whole = [p.read_bytes() for p in paths]
    seen = set()
    merged = 0
    for _ in range(60):
        victim = rng.randrange(3)
        for no, (path, data) in enumerate(zip(paths, whole, strict=True)):
            path.write_bytes(damage(data, rng) if no == victim else data)
        for path in paths:
            result = check(path)
            seen |= {f.kind for f in (result.set.faults if result.set else ())}
        out = tmp_path / "out" / "m.gguf"
        out.parent.mkdir(exist_ok=True)
        try:
            with open_set([str(paths[0])]) as opened:
                write_all([plan_merge(opened, str(out))])
        except GgufToolError:
            assert not out.exists()
        else:
            merged += 1
            assert check(out).ok
            out.unlink()
        assert list(out.parent.iterdir()) == []
    assert merged
    assert "shard-unreadable" in seen
