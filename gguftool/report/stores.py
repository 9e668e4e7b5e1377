"""The stores of this machine as text, Markdown and JSON: what there is, what is there twice, and what frees room."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gguftool.fleet.copies import DATA, HEADER, NAMED, Copies
from gguftool.fleet.offers import Offer, Offers
from gguftool.fleet.stores import Holding, Inventory
from gguftool.hub.stores import PROGRAMS, Name
from gguftool.report.scan.shown import lint, load, whole
from gguftool.report.text import Style, markdown_table, safe, shorten, size, table

MANY = 50
"""Lines of a section that are shown without --verbose."""
HEADERS = ("model", "store", "arch", "quant", "size", "whole", "loads", "lint")
_PROOFS = {
    DATA: "the data was read and is the same",
    NAMED: "the names of both have the same sha256",
    HEADER: "probably the same: size, header and samples are; --hash reads all of it",
}
_TITLES = {
    "lost": "names whose data is gone",
    "part": "downloads that were not finished",
    "orphan": "data that nothing names",
    "old": "old revisions",
    "merge": "one file in place of several (hard links)",
    "copy": "or one copy less: one of them must stay",
}


def lines(found: Inventory, made: Offers, style: Style, *, verbose: bool = False) -> Iterator[str]:
    """Everything, by section; the commands last."""
    if not found.stores:
        yield f"no store of {', '.join(p.name for p in PROGRAMS)} on this machine"
        yield from (f"{style.yellow('not read')}: {safe(path)}: {safe(why)}" for path, why in _unread(found))
        return
    yield style.bold("stores")
    yield table([*_stores(found)], align="llrr", indent="  ")
    for path, why in _unread(found):
        yield f"  {style.yellow('not read')}: {safe(path)}: {safe(why)}"
    yield ""
    yield style.bold("models")
    rows = [*_models(found)]
    yield table(rows if verbose else rows[:MANY], HEADERS, align="llllrlll", indent="  ")
    yield from _rest(rows, verbose)
    yield from _bad(found, style)
    yield from _copies(found, style, verbose)
    yield from _commands(made, style, verbose)
    if made.kept:
        yield ""
        yield style.bold("not offered")
        for what, why in made.kept if verbose else made.kept[:MANY]:
            yield f"  {safe(what)}: {safe(why)}"
        yield from _rest(made.kept, verbose)
    yield ""
    yield total(found, made)


def total(found: Inventory, made: Offers) -> str:
    """The sentence that counts."""
    n = sum(h.state == "model" for h in found.holdings)
    bad = sum(bool(h.row and not h.row["ok"]) for h in found.holdings)
    said = f"{n:,} model file{'' if n == 1 else 's'}, {size(found.disk)} on the disk"
    said += f"; {bad:,} not whole" if bad else ""
    said += f"; {len(found.lost):,} lost" if found.lost else ""
    return f"{said}; {size(made.reclaimable)} can be freed" if made.reclaimable else said


def markdown(found: Inventory, made: Offers) -> Iterator[str]:
    """The same as Markdown."""
    yield markdown_table(_stores(found), ("store", "folder", "files", "size"))
    yield ""
    yield markdown_table(_models(found), HEADERS)
    for path, why in _unread(found):
        yield f"\nNot read: `{safe(path)}`: {safe(why)}"
    plain = Style()
    for line in (*_bad(found, plain), *_copies(found, plain, True)):
        yield line.strip() and f"\n{line.strip()}"
    if made.made:
        yield "\n```sh"
        for kind, offers in _by_kind(made):
            yield f"# {_TITLES[kind]}"
            for o in offers:
                yield f"# {safe(o.why)}{_frees(o)}"
                yield o.command
        yield "```"
    for what, why in made.kept:
        yield f"\nNot offered: `{safe(what)}`: {safe(why)}"
    yield f"\n{total(found, made)}"


def body(found: Inventory, made: Offers) -> dict[str, object]:
    """The fields of the JSON object."""
    copies = {f.inode: no for no, same in enumerate(found.compared.copies) for f in same.files}
    return {
        "stores": [
            {
                "program": s.kind, "path": s.path, "user": s.user or None, "files": len(s.models),
                "bytes": sum(k.size for k in s.models), "free": s.free, "cut": s.cut,
                "unread": [{"path": path, "why": why} for path, why in s.unread],
            }
            for s in found.stores
        ],
        "files": [
            {
                "path": h.file.path, "open": h.opened, "state": h.state, "old": h.old, "size": h.file.size,
                "disk": h.file.disk, "links": h.file.links, "changed": int(h.file.changed),
                "sha256": h.sha256 or None,
                "names": [_name(x.store, n) for x in h.held for n in x.kept.names],
                "copies": copies.get(h.file.inode),
                "row": dict(h.row) if h.row else None,
            }
            for h in found.holdings
        ],
        "lost": [
            {"path": x.kept.path, "names": [_name(x.store, n) for n in x.kept.names]} for x in found.lost
        ],
        "copies": [
            {"proof": c.proof, "sha256": c.sha256 or None, "extra": c.extra, "paths": [f.path for f in c.files]}
            for c in found.compared.copies
        ],
        "wrong": [{"path": f.path, "sha256": sha} for f, sha in found.compared.wrong],
        "failed": [{"path": f.path, "why": why} for f, why in found.compared.failed],
        "closed": list(found.closed),
        "commands": [
            {"kind": o.kind, "why": o.why, "command": o.command, "frees": o.frees, "copies": o.group}
            for o in made.made
        ],
        "kept": [{"what": what, "why": why} for what, why in made.kept],
        "disk": found.disk,
        "reclaimable": made.reclaimable,
    }  # fmt: skip


def _name(store: int, n: Name) -> dict[str, object]:
    return {"store": store, "name": n.text, "at": n.at, "part": n.part or None, "old": n.old}


def _stores(found: Inventory) -> Iterator[tuple[str, str, str, str]]:
    for s in found.stores:
        whose = f" ({s.user})" if s.user else ""
        more = " or more" if s.cut else ""
        yield f"{s.kind}{whose}", s.path, f"{len(s.models):,} files{more}", size(sum(k.size for k in s.models))


def _unread(found: Inventory) -> Iterator[tuple[str, str]]:
    for s in found.stores:
        yield from s.unread
    for path in found.closed:
        yield path, "of another user, who alone may look into it; as root it is looked at, too"


def _models(found: Inventory) -> Iterator[tuple[object, ...]]:
    """A row for each file that some store calls a model, a set in as many rows as it has files."""
    for h in sorted(found.holdings, key=lambda h: (h.state != "model", h.called)):
        if h.state == "part":
            continue
        facts = h.row["facts"] if h.row else None
        kinds = dict.fromkeys(found.stores[x.store].kind for x in h.held)
        called = os.path.basename(h.file.path) if h.state == "orphan" else h.called
        told = shorten(called, 60) + (" (old)" if h.old else " (no name)" if h.state == "orphan" else "")
        part = next((n.part for x in h.held for n in x.kept.names if n.part), "")
        yield (
            f"{told} ({part})" if part else told,
            ", ".join(kinds),
            facts["architecture"] if facts else "",
            facts["quantisation"] if facts else "",
            size(h.file.size),
            "" if h.row is None else "yes" if h.row["ok"] else "no",
            load(h.row) if h.row else "",
            lint(h.row) if h.row else "",
        )


def _bad(found: Inventory, style: Style) -> Iterator[str]:
    told: set[str] = set()
    for h in found.holdings:
        if h.row and not h.row["ok"] and h.row["path"] not in told:
            told.add(h.row["path"])
            yield f"  {style.red('FAULT')}  {safe(h.called)}: {safe(whole(h.row).removeprefix('no: '))}"
    for file, sha in found.compared.wrong:
        yield f"  {style.red('FAULT')}  {safe(file.path)}: its data is not what its name says: it has the sha256 {sha}"
    for file, why in found.compared.failed:
        yield f"  {style.yellow('not compared')}  {safe(file.path)}: {safe(why)}"


def _copies(found: Inventory, style: Style, verbose: bool) -> Iterator[str]:
    groups = found.compared.copies
    if not groups:
        return
    yield ""
    yield style.bold("the same content")
    by_inode = found.by_inode()
    for no, same in enumerate(groups if verbose else groups[:MANY]):
        yield f"  {no + 1}. {size(same.extra)} more than needed: {_proof(same)}"
        for f in same.files:
            h: Holding = by_inode[f.inode]
            kinds = ", ".join(dict.fromkeys(found.stores[x.store].kind for x in h.held))
            yield f"     {safe(kinds)}: {safe(h.called)}"
    yield from _rest(groups, verbose)


def _proof(same: Copies) -> str:
    return _PROOFS[same.proof]


def _commands(made: Offers, style: Style, verbose: bool) -> Iterator[str]:
    if not made.made:
        return
    yield ""
    yield style.bold("commands, for you to run")
    for kind, offers in _by_kind(made):
        yield f"  {style.dim(f'# {_TITLES[kind]}')}"
        for o in offers if verbose else offers[:MANY]:
            yield f"  {style.dim(f'# {safe(o.why)}{_frees(o)}')}"
            yield f"  {o.command}"
        yield from _rest(offers, verbose)


def _by_kind(made: Offers) -> Iterator[tuple[str, list[Offer]]]:
    for kind in _TITLES:
        if offers := [o for o in made.made if o.kind == kind]:
            yield kind, offers


def _frees(o: Offer) -> str:
    return f"; frees {size(o.frees)}" if o.frees else ""


def _rest(rows: Sequence[object], verbose: bool) -> Iterator[str]:
    if len(rows) > MANY and not verbose:
        yield f"  … and {len(rows) - MANY:,} more (--verbose)"
