"""How the fixes of lint do when number keys of real headers are wrong: python scripts/sweep.py [FOLDER] [--pairs N]

One number of each header is changed (or, with --pairs, two at a time, N times by chance), and the fixes that lint
offers are compared with the header as it was. FOLDER holds NAME.hdr files and an index.jsonl with a line
``{"name": …, "size": …}`` for each; without it the headers of the tests are taken.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from gguftool.edit.ops import Set
from gguftool.lint.rule import Finding
from gguftool.lint.run import lint
from gguftool.model import Model, from_source
from tests.predict import recipes
from tests.predict.recipes import built

STEPS: dict[str, tuple[str, ...]] = {
    "block_count": ("+1", "-1"),
    "nextn_predict_layers": ("+1",),
    "feed_forward_length": ("+32",),
    "attention.head_count": ("*2",),
    "attention.head_count_kv": ("*2",),
    "attention.key_length": ("/2",),
    "attention.value_length": ("/2",),
    "rope.dimension_count": ("/2",),
    "embedding_length": ("*2",),
    "expert_count": ("+1",),
    "vocab_size": ("+7",),
    "expert_feed_forward_length": ("+32",),
    "ssm.inner_size": ("*2",),
    "leading_dense_block_count": ("+1",),
    "expert_used_count": ("+99",),
}
"""Key without prefix -> how it is made wrong."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What lint offers for one mutation.

    Attributes:
        base: header.
        keys: keys that were changed.
        verdict: ``safe`` or ``offered`` (the fixes put all keys right), ``shown`` (the right values are among the
            readings shown), ``silent`` (nothing found against it), ``part`` (some keys put right), ``none`` (found,
            no fix).
        wrong: fixes that write another value than the header had, as (rule, key, value).
    """

    base: str
    keys: tuple[str, ...]
    verdict: str
    wrong: tuple[tuple[str, str, object], ...]


def made_wrong(value: int, step: str) -> int:
    """The value after a step."""
    n = int(step[1:])
    return {"+": value + n, "-": value - n, "*": value * n, "/": value // n}[step[0]]


def steps(model: Model) -> Iterator[tuple[str, int]]:
    """Every key that can be made wrong, with its wrong value."""
    for suffix, ways in STEPS.items():
        key = f"{model.architecture}.{suffix}"
        value = model.get(key)
        if isinstance(value, bool) or not isinstance(value, int) or (not value and suffix != "nextn_predict_layers"):
            continue
        for step in ways:
            if made_wrong(value, step) > 0:
                yield key, made_wrong(value, step)


def header(base: str, wrong: dict[str, int] | None = None) -> Model:
    """A header with wrong numbers."""
    ops = [{"op": "set", "key": key, "type": "u32", "value": value} for key, value in (wrong or {}).items()]
    return from_source(built({"base": base, "ops": ops}), strict=False)


def outcome(base: str, wrong: dict[str, int]) -> Outcome:
    """Lint one mutation."""
    sound = header(base)
    before = {(f.rule, f.message) for f in lint(sound).findings}
    report = lint(header(base, wrong))
    new = [f for f in report.findings if (f.rule, f.message) not in before]
    truth = {key: sound.get(key) for key in wrong}
    spoiled, right, safe = [], set(), set()
    for f in new:
        for key, value in _written(f):
            old = sound.get(key)
            same = old == value or (isinstance(value, float) and isinstance(old, float) and abs(old - value) < 1e-6)
            if old is not None and not same:
                spoiled.append((f.rule, key, value))
            elif key in truth:
                right.add(key)
                safe |= {key} if f.fix is not None and f.fix.safe else set()
    said = " ".join(f"{f.message} {f.data.get('readings', '')}" for f in new)
    shown = all(f"{key}={value}" in said for key, value in truth.items())
    if right == set(truth):
        verdict = "safe" if safe == right else "offered"
    elif shown:
        verdict = "shown"
    else:
        verdict = "part" if right else "none" if new else "silent"
    return Outcome(base, tuple(wrong), verdict, tuple(spoiled))


def _written(finding: Finding) -> Iterator[tuple[str, object]]:
    for op in finding.fix.operations if finding.fix is not None else ():
        if isinstance(op, Set):
            yield op.key, op.value


def singles(bases: list[str]) -> Iterator[Outcome]:
    """One wrong key at a time."""
    for base in bases:
        for key, value in steps(header(base)):
            yield outcome(base, {key: value})


def pairs(bases: list[str], n: int, seed: int = 1) -> Iterator[Outcome]:
    """Two wrong keys at once, by chance."""
    rnd = random.Random(seed)
    for _ in range(n):
        base = rnd.choice(bases)
        ways = dict(rnd.sample(list(steps(header(base))), k=2))
        yield outcome(base, ways)


def _read(folder: Path) -> list[str]:
    """Headers of a folder in place of those of the tests."""
    index = [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines() if line]
    found = {j["name"]: ((folder / f"{j['name']}.hdr").read_bytes(), j["size"]) for j in index}
    recipes.bases = lambda: found  # type: ignore[assignment]
    return sorted(found)


def main() -> None:
    """Count, and tell each fix that would spoil a right key."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--pairs", type=int, default=0, metavar="N")
    parser.add_argument("--only", default="archs/", help="bases of the tests whose names begin so")
    parser.add_argument("--every", type=int, default=1, help="each so manieth header")
    args = parser.parse_args()
    names = _read(args.folder) if args.folder else [b for b in sorted(recipes.bases()) if b.startswith(args.only)]
    names = names[:: args.every]
    counts: Counter[str] = Counter()
    by_key: Counter[str] = Counter()
    spoiled = 0
    for one in pairs(names, args.pairs) if args.pairs else singles(names):
        counts[one.verdict] += 1
        by_key[f"{'+'.join(key.partition('.')[2] for key in one.keys)} {one.verdict}"] += 1
        for rule, key, value in one.wrong:
            spoiled += 1
            print(f"{one.base}: {', '.join(one.keys)} wrong, {rule} would set {key} to {value}", flush=True)
    total = sum(counts.values())
    if not args.pairs:
        for name, n in sorted(by_key.items()):
            print(f"{n:5d}  {name}")
    print(f"{total:,} mutations in {len(names)} headers; {spoiled} fixes write a wrong value")
    found = total - counts["silent"]
    for verdict, n in counts.most_common():
        share = f" ({n / found:.1%} of what can be found)" if verdict != "silent" and found else ""
        print(f"{n:6,}  {verdict}{share}")


if __name__ == "__main__":
    main()
