"""A set of shards: which files belong to it, decided by what is in them, and whether it is one whole model."""

from __future__ import annotations

import os
from collections.abc import Iterable

from gguftool.errors import Refused
from gguftool.format.header import Header
from gguftool.model import Model
from gguftool.model.headers import Headers
from gguftool.model.missing import missing_text
from gguftool.model.shards import Gathered, Shard, SplitKeys, all_here, best, gather, shard_name, split_keys
from gguftool.shell import gguftool, path_word
from gguftool.verify.result import Fault, SetReport

MANY = 64
"""Some builds cannot open more shards than this."""


def leftover(header: Header) -> list[Fault]:
    """A note about split keys in a file that is no shard (`llama-gguf-split --merge` leaves three)."""
    left = [f.key for f in header.fields if f.key.startswith("split.")]
    if not left:
        return []
    message = f"{', '.join(left)}: left behind by a merge; harmless"
    return [Fault("split-keys-left", message, f"field:{left[0]}")]


def check(
    path: str, header: Header, extra: Iterable[str] = (), *, free: bool = True, read: Headers | None = None
) -> SetReport | None:
    """Check the set that a file belongs to.

    Args:
        path: a shard.
        header: its header.
        extra: further files that may belong to the set, wherever they lie.
        free: take files by what is in them where their names say nothing, as long as that is told.
        read: headers that were read, see `gguftool.model.shards.gather`.

    Returns:
        The report; None when the file is a whole model.
    """
    keys = split_keys(header)
    if keys is None:
        return None
    found = gather(path, header, keys, extra, free=free, every=True, read=read)
    if all_here(found):
        message = (
            f"split.count is {keys.count}, yet all {keys.tensors:,} tensors are here: a merged model with its split "
            f"keys left in; llama.cpp looks for the other shards and fails"
        )
        left = (word for f in header.fields if f.key.startswith("split.") for word in ("--delete", f.key))
        hint = gguftool("fix", path_word(path), *left)
        return SetReport(1, (path,), (Fault("split-keys-left", message, "field:split.count", hint),))
    return _judge(found)


def _judge(found: Gathered) -> SetReport:
    own, keys = found.own, found.own.keys
    faults: list[Fault] = []
    notes: list[Fault] = []
    chosen: dict[int, Shard] = {}
    for no, shards in sorted(found.members.items()):
        if not 0 <= no < keys.count:
            message = f"{_base(shards[0])} says it is shard {no + 1} of {keys.count}"
            faults.append(Fault("shard-number", message, f"shard:{no + 1}"))
            continue
        right = [s for s in shards if s.named and s.named[1:] == (no + 1, keys.count)]
        chosen[no] = best(shards, no, keys.count)
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
    for s in found.strangers:
        if s.keys.count < 2:
            # A whole model under the name: the shard is missing, and the name is taken.
            continue
        number = s.named[1] if s.named else s.keys.no + 1
        message = (
            f"{_base(s)} belongs to another set: it says shard {s.keys.no + 1} of {s.keys.count}"
            + (f", {s.keys.tensors:,} tensors in all" if s.keys.tensors is not None else "")
            + f", here it must be {keys.count} shards"
            + (f" with {keys.tensors:,} tensors" if keys.tensors is not None else "")
        )
        faults.append(Fault("foreign-shard", message, f"shard:{number}", "fetch this shard again from the same set"))
    paths = tuple(chosen[no].path if no in chosen else found.broken.get(no) for no in range(keys.count))
    prefix = found.prefix or next((s.named[0] for s in chosen.values() if s.named), None)
    offers = {s.keys.no: _base(s) for s in found.offers}
    gone = [no for no, path in enumerate(paths) if path is None]
    if len(gone) > MANY:
        text = missing_text([no + 1 for no in gone], keys.count, [])
        faults.append(Fault("shard-missing", text, "set", "download these files"))
        gone = []
    for no in gone:
        name = f" ({shard_name(prefix, no, keys.count)})" if prefix is not None else ""
        message = f"shard {no + 1} of {keys.count} is missing{name}"
        if no in offers:
            message += f"; {offers[no]} claims to be it, but its name does not"
        faults.append(Fault("shard-missing", message, f"shard:{no + 1}", "download this file"))
    for no, path in sorted(found.broken.items()):
        if no not in chosen:
            message = f"shard {no + 1} of {keys.count} cannot be read: {os.path.basename(path)}"
            faults.append(Fault("shard-unreadable", message, f"shard:{no + 1}", gguftool("verify", path_word(path))))
    faults += _names(chosen, keys.count, own.path)
    headers = {no + 1: s.header for no, s in sorted(chosen.items()) if s.header.complete}
    more = contents(headers, keys)
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
    by_content = tuple(s.path for s in chosen.values() if s.bond == "content")
    others = tuple(s.path for shards in found.members.values() for s in shards if s.path not in paths)
    return SetReport(keys.count, paths, tuple(faults), tuple(notes), by_content, others)


def contents(headers: dict[int, Header], keys: SplitKeys) -> tuple[list[Fault], list[Fault]]:
    """What speaks against shards being of one split, and what is merely odd, by what is in them.

    Args:
        headers: of the shards that are there, by number (from 1).
        keys: of one of them.
    """
    from gguftool.verify.foreign import duplicates, foreign

    faults = duplicates(headers)
    total = sum(len(h.tensors) for h in headers.values())
    if len(headers) == keys.count and keys.tensors is not None and total != keys.tensors:
        message = f"the shards hold {total:,} tensors, split.tensors.count says {keys.tensors:,}"
        faults.append(Fault("tensor-count", message, "set", "one shard is from another split: fetch the set again"))
    strange, odd = foreign(headers)
    return faults + strange, odd


def refuse_mixed(model: Model) -> None:
    """For commands that copy from a set: its shards must be of one split.

    Raises:
        Refused: what is in them says that they are not.
    """
    keys = split_keys(model.header)
    if keys is None or model.shard_count < 2:
        return
    faults, _ = contents({part.no + 1: part.header for part in model.parts}, keys)
    if faults:
        allowed = faults[0].kind == "foreign-shard"
        hint = gguftool("merge", "--allow-foreign", path_word(model.name), "-o", "whole.gguf") if allowed else ""
        raise Refused(
            f"{model.name}: {faults[0].message}",
            f"joined all the same: {hint}" if hint else gguftool("verify", path_word(model.name)),
        )


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
