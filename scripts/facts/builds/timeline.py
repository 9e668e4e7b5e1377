"""`gguftool/facts/data/builds`: since which build llama.cpp has known a name, and until when.

    ./dev facts --builds                         ask the registries, read the releases newer than the newest known
    ./dev facts --builds --most 5                ... five of them at most; the next run goes on
    ./dev facts --builds --again                 every kind anew from all releases
    ./dev facts --builds --again --history CLONE ... and from every single commit of a clone
    ./dev facts --builds --again --kind option   ... of one kind

The builds are walked from the oldest to the newest; what is kept of each is which names came and which went.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from builds import fetch
from builds.kinds import KINDS, Kind
from builds.registry import CannotFetch
from builds.trees import Clone, Commit, Folder, Unread

DATA = fetch.ROOT / "gguftool" / "facts" / "data" / "builds"
FIRST = 1046
"""The build that brought GGUF."""
Row = list[int | None]
"""First build with the name, last older one without, first without after it, last one with it."""


@dataclass
class Walk:
    """What is known of one kind so far.

    Attributes:
        last: newest build that was read.
        unread: trees whose names could not be read: first, last, why.
    """

    rows: dict[str, Row] = field(default_factory=dict)
    last: int | None = None
    unread: list[list[Any]] = field(default_factory=list)

    def see(self, build: int, before: int | None, found: set[str]) -> None:
        """One build; ``before`` is the newest older one that is known to have what `last` had."""
        for name in found:
            row = self.rows.setdefault(name, [build, before, None, None])
            if row[2] is not None:
                # Taken out and brought back: what counts is that it is there.
                row[2] = row[3] = None
        for name, row in self.rows.items():
            if name not in found and row[2] is None:
                row[2], row[3] = build, before
        self.last = build

    def fail(self, build: int, why: str) -> None:
        """A tree that could not be read."""
        if self.unread and self.unread[-1][2] == why and self.unread[-1][1] > (self.last or 0):
            self.unread[-1][1] = build
        else:
            self.unread.append([build, build, why])


def walk(kind: Kind, state: Walk, trees: Iterator[tuple[int, int | None, Any]]) -> None:
    """Read the trees in order: build, the one before it with the same files (None: the last that was read), tree."""
    for build, before, tree in trees:
        try:
            found = kind.read(tree)
        except Unread as fault:
            state.fail(build, str(fault))
            continue
        failed = bool(state.unread) and state.last is not None and state.unread[-1][1] > state.last
        state.see(build, state.last if before is None or failed or state.last is None else before, found)


def history(
    clone: Clone, kind: Kind, tip: str, numbers: list[tuple[int, str]]
) -> Iterator[tuple[int, int | None, Any]]:
    """The commits of a clone that can have changed the kind, from the first build with GGUF on."""
    wanted = clone.touching(tip, kind.files)
    for build, commit in numbers:
        if build == FIRST or (build > FIRST and commit in wanted):
            yield build, build - 1, Commit(clone, commit)


def packages(after: int, most: int | None) -> Iterator[tuple[int, int | None, Any]]:
    """The releases newer than ``after`` whose build is known, oldest first."""
    wanted = [b for b in fetch.builds() if b > after]
    for build in wanted[:most]:
        yield build, None, Folder(fetch.tree(build))


def packed(rows: dict[str, Row]) -> dict[str, list[int | None]]:
    """Rows without what can be told: ``[since]`` is the very build that brought a name which is still there."""
    out: dict[str, list[int | None]] = {}
    for name, (since, before, gone, last) in sorted(rows.items(), key=lambda item: (item[1][0], item[0])):
        exact = before is not None and since is not None and before == since - 1
        out[name] = [since, before, gone, last] if gone else [since] if exact else [since, before]
    return out


def unpacked(rows: dict[str, list[int | None]]) -> dict[str, Row]:
    """The other way."""
    out: dict[str, Row] = {}
    for name, row in rows.items():
        since = row[0]
        full = [*row, (since or 1) - 1] if len(row) == 1 else list(row)
        out[name] = [*full, None, None] if len(full) == 2 else full
    return out


def load(name: str) -> Walk:
    """What is known of a kind."""
    file = DATA / f"{name}.json"
    if not file.is_file():
        return Walk()
    said = json.loads(file.read_text(encoding="utf-8"))
    return Walk(unpacked(said["names"]), said["last"], said["unread"])


def save(name: str, state: Walk) -> None:
    """Write a kind."""
    text = json.dumps(
        {"last": state.last, "unread": state.unread, "names": packed(state.rows)},
        separators=(",", ":"),
        ensure_ascii=False,
    )
    (DATA / f"{name}.json").write_text(text, encoding="utf-8")


def spans(numbers: list[int]) -> list[list[int]]:
    """Numbers as runs: first and last of each."""
    out: list[list[int]] = []
    for n in sorted(set(numbers)):
        if out and out[-1][1] == n - 1:
            out[-1][1] = n
        else:
            out.append([n, n])
    return out


def main(words: list[str]) -> int:
    """Run it; the exit code."""
    parser = argparse.ArgumentParser(prog="./dev facts --builds", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--most", type=int, help="read so many new builds at most")
    parser.add_argument("--again", action="store_true", help="from the oldest on")
    parser.add_argument("--history", type=Path, help="a clone of llama.cpp with its history")
    parser.add_argument("--tip", default="master", help="branch or commit of the clone to read up to")
    parser.add_argument("--kind", choices=sorted(KINDS), action="append", help="this kind alone")
    parser.add_argument("--offline", action="store_true", help="do not ask the registries for new releases")
    asked = parser.parse_args(words)
    DATA.mkdir(parents=True, exist_ok=True)
    try:
        if not asked.offline:
            fetch.update_all()
        seen = _walk_all(asked)
    except (CannotFetch, OSError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    _index(seen, asked.again)
    return 0


def _walk_all(asked: argparse.Namespace) -> list[int]:
    names = asked.kind or list(KINDS)
    states = {name: Walk() if asked.again else load(name) for name in names}
    seen: list[int] = []
    if asked.again and asked.history:
        clone = Clone(asked.history)
        numbers = clone.numbers(asked.tip)
        for name in names:
            walk(KINDS[name], states[name], history(clone, KINDS[name], asked.tip, numbers))
            states[name].last = numbers[-1][0]
            save(name, states[name])
            print(f"{name}: {len(states[name].rows)} names, {len(states[name].unread)} trees not read", flush=True)
        clone.close()
        seen += range(FIRST, numbers[-1][0] + 1)
    after = min((state.last or 0) for state in states.values())
    for build, before, tree in packages(after, asked.most):
        for name in names:
            if (states[name].last or 0) < build:
                walk(KINDS[name], states[name], iter([(build, before, tree)]))
                save(name, states[name])
        seen.append(build)
        print(f"b{build} read", flush=True)
    for name in names:
        for first, last, why in states[name].unread:
            print(f"not read: {name} of b{first}..b{last}: {why}", file=sys.stderr)
    return seen


def _index(seen: list[int], again: bool) -> None:
    file = DATA / "builds.json"
    old = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {"looked_at": []}
    before = [] if again and seen else [n for a, b in old["looked_at"] for n in range(a, b + 1)]
    old["looked_at"] = spans([*before, *seen])
    file.write_text(json.dumps(old, separators=(",", ":")), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
