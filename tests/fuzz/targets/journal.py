"""Undo records and journals, of others: odd fields under a right checksum, and bytes anywhere."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence
from copy import deepcopy as copy
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from gguftool.edit.plan import plan_edit
from tests.fuzz.gguf import WHOLE, anywhere
from tests.fuzz.target import Target, cli
from tests.lint import samples

_HEAD = struct.Struct("<16sQQ")
ODD = [
    None, True, "x", "", "\ud800", "a" * 64, [], {}, [[0, 1]], [[0, 1, 2]], [["a", 1]], [1], -1, 0.5, 1e18,
    float("inf"),
    float("nan"), *WHOLE, [["\ud800"]],
]  # fmt: skip


@cache
def records() -> tuple[tuple[bytes, bytes], ...]:
    """Pairs of the undo record and the file that an edit left."""
    out = []
    with TemporaryDirectory() as folder:
        for i, (key, text) in enumerate((("general.name", "x"), ("general.name", "y" * 9000), ("general.b", "z"))):
            path = Path(folder) / f"{i}.gguf"
            path.write_bytes(samples.ready().bytes())
            from gguftool.edit.ops import Set

            plan_edit(str(path), [Set(key, text, "str")], strategy=("patch", "rewrite", None)[i]).commit()
            out.append((Path(f"{path}-undo-1").read_bytes(), path.read_bytes()))
    return tuple(out)


def corpus() -> Sequence[bytes]:
    """Records of real edits."""
    return [record for record, _ in records()]


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another record; mostly one whose checksum is right."""
    data = rng.choice(given)
    if rng.random() < 0.2:
        return anywhere(rng, data)
    try:
        magic, n_text, n_payload = _HEAD.unpack_from(data)
        fields = json.loads(data[_HEAD.size : _HEAD.size + n_text])
        payload = data[_HEAD.size + n_text : _HEAD.size + n_text + n_payload]
    except (ValueError, struct.error):
        return anywhere(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        name = rng.choice(list(fields))
        if isinstance(fields[name], list) and fields[name] and rng.random() < 0.6:
            one = rng.choice(fields[name])
            if isinstance(one, list) and one:
                one[rng.randrange(len(one))] = copy(rng.choice(ODD))
            else:
                fields[name].append(copy(rng.choice(ODD)))
        elif type(fields[name]) is int and rng.random() < 0.5:
            fields[name] += rng.choice((-4096, -1, 1, 32, 4096))
        elif rng.random() < 0.1:
            del fields[name]
            break
        else:
            fields[name] = copy(rng.choice(ODD))
    text = json.dumps(fields).encode()
    if rng.random() < 0.1:
        text = b"[" * 5000 + text
    whole = _HEAD.pack(magic, len(text), len(payload)) + text + payload
    whole += hashlib.sha256(whole).digest()
    return whole + bytes(-len(whole) % 4096) + data[-4096:]


def run(data: bytes, folder: Path, rng: Random) -> None:
    """As a record of an edit that is done, and as one of an edit that goes on."""
    path = folder / "m.gguf"
    path.write_bytes(rng.choice(records())[1])
    (folder / f"m.gguf{rng.choice(('-undo-1', '-journal'))}").write_bytes(data)
    for words in rng.sample([("undo", "--list"), ("undo",), ("recover",), ("dump", "--overview"), ("verify",)], 3):
        cli(*words, path, *(("--format", "json") if rng.random() < 0.4 else ()))
    cli("fix", "--set", "general.name=z", path)


TARGET = Target(corpus, mutate, run)
