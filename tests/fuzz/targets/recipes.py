"""Patches of others: odd fields, other pieces under right hashes, and bytes anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from copy import deepcopy as copy
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from gguftool.api.edits import make_patch
from gguftool.edit.ops import Delete, Set
from gguftool.edit.patch import pack
from tests.fuzz.gguf import anywhere
from tests.fuzz.target import Target, Wrong, cli
from tests.fuzz.targets.journal import ODD
from tests.lint import samples

EDITS = ([Set("general.name", "x", "str")], [Set("general.a", "y" * 9000, "str")], [Delete("general.name")])


@cache
def corpus() -> Sequence[bytes]:
    """Patches of real edits of one file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        path.write_bytes(samples.ready().bytes())
        return tuple(pack(make_patch(path, ops).patch) for ops in EDITS)


def _front(body: dict[str, Any]) -> bytearray:
    """The new front, as the pieces say."""
    old = samples.ready().bytes()
    rows = body["pieces"]
    return bytearray(
        b"".join(
            old[r["old"] : r["old"] + r["size"]] if "old" in r else zlib.decompress(base64.b64decode(r["zlib"]))
            for r in rows
        )
    )


def _another_front(rng: Random, body: dict[str, Any]) -> None:
    """Other bytes under a hash that is theirs: only reading them tells that they are wrong."""
    front = _front(body)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(front))
        front[at : at + rng.choice((1, 4, 8))] = rng.choice((b"\xff", b"\0" * 8, rng.randbytes(4), b"\x01"))
    if rng.random() < 0.3:
        front += rng.choice((b"\0" * 32, b"\xff" * 64, bytes(4096)))
    body["pieces"] = [{"zlib": base64.b64encode(zlib.compress(bytes(front))).decode(), "size": len(front)}]
    new, old = body["new"], body["old"]
    new |= {"front": len(front), "sha256": hashlib.sha256(front).hexdigest()}
    new["size"] = old["size"] - old["front"] + len(front)


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """Another patch; mostly one that still is JSON."""
    data = rng.choice(given)
    try:
        body = json.loads(data)
        kind = rng.random()
        if kind < 0.15:
            return anywhere(rng, data)
        if kind < 0.5:
            _another_front(rng, body)
        else:
            for _ in range(rng.choice((1, 1, 2, 3))):
                _odd(rng, body)
        return (
            data[: data.index(b",")] + b", " + json.dumps({k: v for k, v in body.items() if k != "format"})[1:].encode()
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, zlib.error):
        return anywhere(rng, data)


def _odd(rng: Random, body: dict[str, Any]) -> None:
    """Something else in one place."""
    place: Any = body
    while isinstance(place, (dict, list)) and place:
        key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
        inner = place[key]
        if isinstance(inner, (dict, list)) and inner and rng.random() < 0.8:
            place = inner
            continue
        if isinstance(place, dict) and rng.random() < 0.15:
            del place[key]
        elif type(inner) is int and rng.random() < 0.6:
            place[key] = inner + rng.choice((-4096, -32, -1, 1, 32, 4096, 1 << 40))
        else:
            place[key] = copy(rng.choice(ODD))
        return


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Applied, looked at, taken back: the file is the old one unless the command says that it did it."""
    path, patch = folder / "m.gguf", folder / "p.json"
    before = samples.ready().bytes()
    path.write_bytes(before)
    patch.write_bytes(data)
    form = ("--format", "json") if rng.random() < 0.4 else ()
    cli("fix", path, "--patch", patch, "--dry-run", *form)
    if path.read_bytes() != before:
        raise Wrong("a dry run wrote into the file")
    cli("fix", path, "--patch", patch, *form, *(("--yes",) if rng.random() < 0.5 else ()))
    if path.read_bytes() == before:
        return
    cli("dump", "--overview", path)
    cli("undo", path, codes=(0,))
    if path.read_bytes() != before:
        raise Wrong("undo gives another file")


TARGET = Target(corpus, mutate, run)
