"""A set of shards: which files belong to it, decided by what is in them, and whether it is one whole model."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass

from gguftool.errors import GgufToolError
from gguftool.format.header import Header
from gguftool.format.parse import parse
from gguftool.model.shards import FEW_FIELDS, NAME, SplitKeys, neighbours, shard_name, split_keys
from gguftool.shell import gguftool, path_word
from gguftool.source import LocalFile
from gguftool.verify.foreign import duplicates, foreign
from gguftool.verify.result import Fault, SetReport

MANY = 64
"""Some builds cannot open more shards than this."""


@dataclass(frozen=True, slots=True)
class Shard:
    """One file that says it is a shard."""

    path: str
    keys: SplitKeys
    header: Header

    @property
    def named(self) -> tuple[str, int, int] | None:
        """Prefix, number (from 1) and count that the file name states; None when it is not the usual name."""
        m = NAME.match(os.path.basename(self.path))
        return (m["prefix"], int(m["no"]), int(m["count"])) if m else None


def read_shard(path: str, *, first: bool = True) -> Shard | None:
    """The file as a shard; None when it is unreadable or a whole model.

    ``first``: also when it has many fields, as only a first shard would; reading these takes longer.
    """
    try:
        source = LocalFile(path)
    except GgufToolError:
        return None
    try:
        if not first and FEW_FIELDS < int.from_bytes(source.read_at(16, 8), "little") < 1 << 32:
            return None
        header = parse(source, strict=False)
    except GgufToolError:
        return None
    finally:
        source.close()
    keys = split_keys(header)
    return Shard(path, keys, header) if keys else None


def leftover(header: Header) -> list[Fault]:
    """A note about split keys in a file that is no shard (`llama-gguf-split --merge` leaves three)."""
    left = [f.key for f in header.fields if f.key.startswith("split.")]
    if not left:
        return []
    message = f"{', '.join(left)}: left behind by a merge; harmless"
    return [Fault("split-keys-left", message, f"field:{left[0]}")]


def check(path: str, header: Header, extra: Iterable[str] = ()) -> SetReport | None:
    """Check the set that a file belongs to.

    Args:
        path: a shard.
        header: its header.
        extra: further files that may belong to the set, wherever they lie.

    Returns:
        The report; None when the file is a whole model.
    """
    keys = split_keys(header)
    if keys is None:
        return None
    own = Shard(path, keys, header)
    prefix = own.named[0] if own.named else None
    members: dict[int, list[Shard]] = {keys.no: [own]}
    strangers: list[Shard] = []
    seen = {os.path.realpath(path)}
    for other in (*neighbours(path), *extra):
        real = os.path.realpath(other)
        if real in seen or not _may_belong(prefix, other):
            continue
        seen.add(real)
        shard = read_shard(other, first=keys.no != 0)
        if shard is None:
            continue
        if (shard.keys.count, shard.keys.tensors) == (keys.count, keys.tensors):
            members.setdefault(shard.keys.no, []).append(shard)
        elif prefix is not None and shard.named and shard.named[0] == prefix and shard.named[2] == keys.count:
            strangers.append(shard)
    if len(members) == 1 and keys.no == 0 and keys.tensors == len(header.tensors) > 0:
        message = (
            f"split.count is {keys.count}, yet all {keys.tensors:,} tensors are here: a merged model with its split "
            f"keys left in; llama.cpp looks for the other shards and fails"
        )
        left = (word for f in header.fields if f.key.startswith("split.") for word in ("--delete", f.key))
        hint = gguftool("fix", path_word(path), *left)
        return SetReport(1, (path,), (Fault("split-keys-left", message, "field:split.count", hint),))
    return _judge(own, members, strangers)


def _may_belong(prefix: str | None, path: str) -> bool:
    """Two sets of the same size may lie in one folder: then the names tell them apart."""
    m = NAME.match(os.path.basename(path))
    return prefix is None or m is None or m["prefix"] == prefix


def _judge(own: Shard, members: dict[int, list[Shard]], strangers: list[Shard]) -> SetReport:
    keys = own.keys
    faults: list[Fault] = []
    notes: list[Fault] = []
    chosen: dict[int, Shard] = {}
    for no, shards in sorted(members.items()):
        if not 0 <= no < keys.count:
            message = f"{_base(shards[0])} says it is shard {no + 1} of {keys.count}"
            faults.append(Fault("shard-number", message, f"shard:{no + 1}"))
            continue
        right = [s for s in shards if s.named and s.named[1:] == (no + 1, keys.count)]
        chosen[no] = (right or [s for s in shards if s is own] or shards)[0]
        if len(shards) > 1:
            names = ", ".join(_base(s) for s in shards)
            message = f"{len(shards)} files are shard {no + 1}: {names}"
            if len(right) == 1:
                notes.append(
                    Fault("duplicate-shard", f"{message}; the one with the usual name is taken", f"shard:{no + 1}")
                )
            else:
                hint = "keep one of them (gguftool hash --tensors tells whether they are equal)"
                faults.append(Fault("duplicate-shard", message, f"shard:{no + 1}", hint))
    for s in strangers:
        number = s.named[1] if s.named else s.keys.no + 1
        message = (
            f"{_base(s)} belongs to another set: it says shard {s.keys.no + 1} of {s.keys.count}"
            + (f", {s.keys.tensors:,} tensors in all" if s.keys.tensors is not None else "")
            + f", here it must be {keys.count} shards"
            + (f" with {keys.tensors:,} tensors" if keys.tensors is not None else "")
        )
        faults.append(Fault("foreign-shard", message, f"shard:{number}", "fetch this shard again from the same set"))
    paths = tuple(chosen[no].path if no in chosen else None for no in range(keys.count))
    prefix = next((s.named[0] for s in (own, *chosen.values()) if s.named), None)
    for no, path in enumerate(paths):
        if path is None:
            name = f" ({shard_name(prefix, no, keys.count)})" if prefix is not None else ""
            message = f"shard {no + 1} of {keys.count} is missing{name}"
            faults.append(Fault("shard-missing", message, f"shard:{no + 1}", "download this file"))
    faults += _names(chosen, keys.count, own.path)
    headers = {no + 1: s.header for no, s in sorted(chosen.items()) if s.header.complete}
    faults += duplicates(headers)
    if len(headers) == keys.count:
        total = sum(len(h.tensors) for h in headers.values())
        if keys.tensors is not None and total != keys.tensors:
            message = f"the shards hold {total:,} tensors, split.tensors.count says {keys.tensors:,}"
            faults.append(Fault("tensor-count", message, "set", "one shard is from another split: fetch the set again"))
    more = foreign(headers)
    faults += more[0]
    notes += more[1]
    if keys.old:
        message = "the shards carry general.split keys of early 2024: llama.cpp no longer joins them"
        faults.append(
            Fault("old-split-keys", message, "set", gguftool("merge", path_word(own.path), "-o", "merged.gguf"))
        )
    if 0 in chosen and not chosen[0].header.tensors and chosen[0].header.complete:
        notes.append(Fault("no-tensors-first", "the first shard holds metadata only; this is meant to be", "shard:1"))
    if keys.count > MANY:
        notes.append(Fault("many-shards", f"{keys.count} shards: some builds cannot open more than {MANY}", "set"))
    return SetReport(keys.count, paths, tuple(faults), tuple(notes))


def _names(chosen: dict[int, Shard], count: int, path: str) -> list[Fault]:
    """llama.cpp finds shards by name only: names must have the one form, one prefix, and fit the content."""
    hint = gguftool("verify", "--repair-names", path_word(path))
    swapped = [
        f"{_base(s)} holds shard {no + 1}"
        for no, s in sorted(chosen.items())
        if s.named and s.named[2] == count and s.named[1] != no + 1
    ]
    if swapped:
        return [Fault("shards-permuted", f"names and contents differ: {', '.join(swapped)}", "set", hint)]
    odd = [_base(s) for s in chosen.values() if s.named is None or s.named[2] != count]
    prefixes = {(os.path.dirname(os.path.abspath(s.path)), s.named[0]) for s in chosen.values() if s.named}
    if odd:
        want = shard_name("NAME", 0, count)
        shown = ", ".join(odd[:4]) + (" …" if len(odd) > 4 else "")
        return [
            Fault(
                "shard-names",
                f"llama.cpp would not find shards under these names: {shown} (it wants {want})",
                "set",
                hint,
            )
        ]
    if len(prefixes) > 1:
        shown = ", ".join(sorted(prefix for _, prefix in prefixes))
        return [Fault("shard-names", f"the shards have different prefixes or folders: {shown}", "set", hint)]
    return []


def _base(shard: Shard) -> str:
    return os.path.basename(shard.path)
