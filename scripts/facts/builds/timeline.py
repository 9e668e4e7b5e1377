"""`gguftool/facts/data/builds`: since which build llama.cpp has known a name, and until when.

    ./dev facts --builds                         ask the registries, read the releases newer than the newest known
    ./dev facts --builds --most 5                ... five of them, evenly spread
    ./dev facts --builds --narrow 20             ... and twenty between, for each kind, where names came or went
    ./dev facts --builds --again                 every kind anew from all releases
    ./dev facts --builds --again --history CLONE ... and from every single commit of a clone
    ./dev facts --builds --again --kind option   ... of one kind

The builds are walked from the oldest to the newest; what is kept of each is which names came and which went.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from builds import fetch, shipping
from builds.kinds import KINDS, Kind
from builds.registry import CannotFetch
from builds.trees import Clone, Commit, Folder, Unread

DATA = fetch.ROOT / "gguftool" / "facts" / "data" / "builds"
Step = tuple[int, int | None, Any]
"""A build, the newest one before it that has the same files (None: the last that was read), its tree."""
Row = list[int | None]
"""A run of builds with a name: its first, the last older one without it, the first without it after, its last."""


@dataclass
class Walk:
    """What is known of one kind so far.

    Attributes:
        last: newest build that was read.
        unread: trees whose names could not be read: first, last, why.
    """

    rows: dict[str, list[Row]] = field(default_factory=dict)
    last: int | None = None
    unread: list[list[Any]] = field(default_factory=list)

    def see(self, build: int, before: int | None, found: set[str]) -> None:
        """One build; ``before`` is the newest older one that is known to have what `last` had."""
        for name in found:
            runs = self.rows.setdefault(name, [])
            if not runs or runs[-1][2] is not None:
                runs.append([build, before, None, None])
        for name, runs in self.rows.items():
            if name not in found and runs[-1][2] is None:
                runs[-1][2:] = build, before
        self.last = build

    def fail(self, build: int, why: str) -> None:
        """A tree that could not be read."""
        if self.unread and self.unread[-1][2] == why and self.unread[-1][1] > (self.last or 0):
            self.unread[-1][1] = build
        else:
            self.unread.append([build, build, why])


def walk(kind: Kind, state: Walk, trees: Iterator[Step]) -> None:
    """Read the trees, oldest first."""
    for build, before, tree in trees:
        try:
            found = kind.read(tree)
        except Unread as fault:
            state.fail(build, str(fault))
            continue
        failed = bool(state.unread) and state.last is not None and state.unread[-1][1] > state.last
        state.see(build, state.last if before is None or failed or state.last is None else before, found)


Source = Callable[[int], Any]
"""Tree of a build."""


def history(clone: Clone, kind: Kind, tip: str, numbers: list[tuple[int, str]]) -> Iterator[Step]:
    """The commits of a clone that can have changed the kind, from the first build with GGUF on."""
    wanted = clone.touching(tip, kind.files) if kind.every == 1 else set()
    for build, commit in numbers:
        if kind.every > 1:
            if build == fetch.FIRST or (build > fetch.FIRST and build % kind.every == 0) or build == numbers[-1][0]:
                yield build, None, Commit(clone, commit)
        elif build == fetch.FIRST or (build > fetch.FIRST and commit in wanted):
            yield build, build - 1, Commit(clone, commit)


def gaps(rows: dict[str, list[Row]]) -> Iterator[tuple[int, int]]:
    """Builds without and with a name, or with and without it, that have others between them."""
    for since, before, gone, last in (row for runs in rows.values() for row in runs):
        if since is not None and before is not None and since - before > 1:
            yield before, since
        if gone is not None and last is not None and gone - last > 1:
            yield last, gone


def narrow(kind: Kind, state: Walk, there: list[int], tree: Source, most: int | None = None) -> list[int]:
    """Halve the gaps with builds whose sources can be had; the builds that were read."""
    read: list[int] = []
    failed: set[int] = set()
    while most is None or len(read) < most:
        usable = ([b for b in there if low < b < high and b not in failed] for low, high in gaps(state.rows))
        inside = next((between for between in usable if between), None)
        if inside is None:
            break
        build = inside[len(inside) // 2]
        try:
            found = kind.read(tree(build))
        except Unread as fault:
            failed.add(build)
            state.fail(build, str(fault))
            continue
        read.append(build)
        for name, row in ((name, row) for name, runs in state.rows.items() for row in runs):
            since, before, gone, last = row
            if since is not None and before is not None and before < build < since:
                row[0 if name in found else 1] = build
            if gone is not None and last is not None and last < build < gone:
                row[3 if name in found else 2] = build
    return read


def choose(after: int, most: int | None) -> list[int]:
    """Builds newer than ``after`` to read now: all, or so many, evenly between them and the newest always."""
    wanted = [b for b in fetch.builds() if b > after]
    if most is None or len(wanted) <= most:
        return wanted
    return sorted({wanted[-1 - i * len(wanted) // most] for i in range(most)})


def bracket(tree: Any, states: dict[str, Walk]) -> tuple[int, int]:
    """First and last build that a tree without a number can be, by the names that it has and has not."""
    low, high = fetch.FIRST, min(state.last or 0 for state in states.values())
    for kind, state in states.items():
        try:
            found = KINDS[kind].read(tree)
        except Unread:
            continue
        for name, runs in state.rows.items():
            since, before, gone, _ = runs[-1]
            if name in found:
                low = max(low, (runs[0][1] or fetch.FIRST - 1) + 1)
                high = high if gone is None else min(high, gone - 1)
            elif len(runs) == 1 and gone is None and since is not None and before is not None:
                high = min(high, since - 1)
    return (low, high) if low <= high else (0, 0)


def _number_the_rest(states: dict[str, Walk]) -> None:
    """Releases whose build nobody says: between which it lies, by their content."""
    found = {(r.package, r.version): r for r in fetch.releases()}
    for r in list(found.values()):
        if not r.lacking and not r.build:
            since, until = bracket(Folder(fetch.tree_of(r)), states)
            found[r.package, r.version] = replace(r, since=since, until=until)
            print(f"{r.package} {r.version}: b{since}..b{until}", flush=True)
    fetch.write(list(found.values()))


def packed(rows: dict[str, list[Row]]) -> dict[str, Any]:
    """Runs without what can be told: ``[since]`` is the very build that brought a name which is still there."""

    def short(row: Row) -> Row:
        since, before, gone, _ = row
        exact = before is not None and since is not None and before == since - 1
        return row if gone else [since] if exact else [since, before]

    order = sorted(rows.items(), key=lambda item: (item[1][0][0], item[0]))
    return {name: short(runs[0]) if len(runs) == 1 else [short(run) for run in runs] for name, runs in order}


def unpacked(rows: dict[str, Any]) -> dict[str, list[Row]]:
    """The other way."""

    def whole(row: Row) -> Row:
        before = row[0] - 1 if len(row) == 1 and row[0] else None
        return list(row) if len(row) == 4 else [row[0], *(row[1:] or [before]), None, None]

    return {name: [whole(r) for r in (row if isinstance(row[0], list) else [row])] for name, row in rows.items()}


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
    parser.add_argument("build", nargs="*", type=lambda b: int(b.removeprefix("b")), help="read these new builds alone")
    parser.add_argument("--most", type=int, help="read so many new builds at most")
    parser.add_argument("--narrow", type=int, default=0, help="then read so many builds between, where names changed")
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
    _index(seen, asked.again and not asked.kind)
    shipping.main(["--history", str(asked.history)] if asked.history else [])
    return 0


def _walk_all(asked: argparse.Namespace) -> list[int]:
    names = asked.kind or list(KINDS)
    states = {name: Walk() if asked.again else load(name) for name in names}
    seen: list[int] = []
    if asked.again and asked.history:
        clone = Clone(asked.history)
        numbers = clone.numbers(asked.tip)
        commits = dict(numbers)
        for name in names:
            kind = KINDS[name]
            walk(kind, states[name], history(clone, kind, asked.tip, numbers))
            if kind.every > 1:
                every = [b for b in commits if b > fetch.FIRST]
                narrow(kind, states[name], every, lambda build: Commit(clone, commits[build]))
            states[name].last = numbers[-1][0]
            save(name, states[name])
            print(f"{name}: {len(states[name].rows)} names, {len(states[name].unread)} trees not read", flush=True)
        clone.close()
        seen += range(fetch.FIRST, numbers[-1][0] + 1)
    after = min((state.last or 0) for state in states.values())
    for build in sorted(asked.build) or choose(after, asked.most):
        for name in names:
            if (states[name].last or 0) < build:
                walk(KINDS[name], states[name], iter([(build, None, Folder(fetch.tree(build)))]))
                save(name, states[name])
        seen.append(build)
        print(f"b{build} read", flush=True)
    if asked.narrow:
        for name in names:
            seen += narrow(KINDS[name], states[name], fetch.builds(), lambda b: Folder(fetch.tree(b)), asked.narrow)
            save(name, states[name])
    if set(names) == set(KINDS):
        _number_the_rest(states)
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
