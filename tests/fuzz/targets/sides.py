"""What stands beside a model (projector, adapter, control vector, draft, importance matrix), in any role."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from random import Random

from tests import draft_cases, pair_cases
from tests.build import GGUF
from tests.fuzz import gguf, loads
from tests.fuzz.target import Target, cli
from tests.predict import projector_mutations, sides
from tests.predict.recipes import bases

ROLES = ("mmproj", "adapter", "control-vector", "draft", "imatrix")
FORMS = [
    ("lint", "--no-config", "M", "--with", "S", "--format", "json"),
    ("lint", "--no-config", "M", "--with", "S", "-v"),
    ("lint", "--no-config", "S"),
    ("dump", "S"),
    ("verify", "S"),
    ("scan", "S"),
]
OWN = {
    "mmproj": [("plan", "--vram", "8GiB", "--mmproj", "S", "M"), ("launch", "--print", "--mmproj", "S", "M")],
    "adapter": [("plan", "--vram", "none", "--lora", "S", "M"), ("launch", "--print", "--lora", "S", "M")],
    "draft": [("plan", "--vram", "8GiB", "-md", "S", "M"), ("plan", "--vram", "none", "-md", "S", "M", "--format",
                                                            "json")],
    "imatrix": [("quantize", "--dry-run", "--imatrix", "S", "M", "Q4_K_M")],
    "control-vector": [("launch", "--print", "M", "--", "--control-vector", "S")],
}  # fmt: skip


def _bytes(made: GGUF | bytes) -> bytes:
    return made.header() if isinstance(made, GGUF) else made


def pack(role: str, model: bytes, side: bytes) -> bytes:
    """One input: a role, a model, the file beside it."""
    return struct.pack("<BI", ROLES.index(role), len(model)) + model + side


def apart(data: bytes) -> tuple[str, bytes, bytes]:
    """The three of an input."""
    role, n = struct.unpack_from("<BI", data.ljust(5, b"\0"))
    return ROLES[role % len(ROLES)], data[5 : 5 + n], data[5 + n :]


def corpus() -> Sequence[bytes]:
    """Pairs that fit and pairs that do not."""
    out = [pack(role, _bytes(one()), _bytes(two())) for one, role, two in pair_cases.PAIRS.values() if role in ROLES]
    out += [pack("draft", _bytes(a()), _bytes(b())) for a, b, _ in draft_cases.PAIRS.values() if b is not None]
    return [one for one in out if len(one) < 200_000]


@cache
def _all(given: tuple[bytes, ...]) -> tuple[tuple[str, bytes, bytes], ...]:
    return tuple(apart(one) for one in given)


def mutate(rng: Random, given: Sequence[bytes]) -> bytes:
    """One of the two changed, or beside another."""
    pairs = _all(tuple(given))
    role, model, side = rng.choice(pairs)
    how = rng.random()
    if how < 0.2:
        kind, ops = next(projector_mutations.recipes(rng.randrange(1 << 40), 1))
        role, side = "mmproj", projector_mutations.applied(kind, ops)
    elif how < 0.4:
        recipe = next(sides.mutations(rng.randrange(1 << 40), 1, ("lora", "cvec", "imat")))
        role = {"lora": "adapter", "cvec": "control-vector", "imat": "imatrix"}[recipe["kind"]]
        model, side = bases()[recipe["with"]][0], sides.side(recipe).data
    elif how < 0.85:
        side = gguf.mutate(rng, [side])
    else:
        model = gguf.mutate(rng, [model])
    if rng.random() < 0.1:
        side = rng.choice(pairs)[rng.choice((1, 2))]
    return pack(rng.choice(ROLES) if rng.random() < 0.1 else role, model, side)


def run(data: bytes, folder: Path, rng: Random) -> None:
    """One way to use them together."""
    role, model, side = apart(data)
    places = {"M": loads.place(folder / "m.gguf", model), "S": loads.place(folder / f"{role}.gguf", side)}
    words = rng.choice([*FORMS, *OWN[role] * 2])
    if words[0] in ("plan", "launch"):
        words = (words[0], "--ram", "64GiB", *words[1:])
    cli(*(places.get(w, w) for w in words))


TARGET = Target(corpus, mutate, run)
