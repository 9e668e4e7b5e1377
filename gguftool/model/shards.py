"""A set of shard files as one model: the one answer to which files belong together.

llama.cpp writes ``name-00001-of-00003.gguf`` and the keys `split.no` (u16, from 0), `split.count` (u16) and
`split.tensors.count` (i32, of the whole model). The keys say which number a file is, never of which set: two
fine-tunes cut alike carry the same. So a name is evidence too, for and against:

- A file under the name that the set has for a number is that shard, also when it is cut off or being edited.
- A file whose name is that of another set is never taken.
- A file whose name says nothing may be taken by its content to look at a model; it is told then
  (`ShardSet.by_content`), and a command that writes refuses it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from gguftool.format.header import Header
from gguftool.format.types import MAGIC
from gguftool.model.headers import Headers
from gguftool.records import dataclass, field
from gguftool.regex import regex

NAME = regex(r"^(?P<prefix>.*)-(?P<no>\d{5})-of-(?P<count>\d{5})\.gguf$", re.S)
SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count", "general.split", "general.split_count")
SEARCH_LIMIT = 4096
"""Files of a folder looked at when shards do not carry the usual names."""

LIKELY = regex(r"(?:.*\.gguf(?:-\d+-of-\d+)?|(?:sha256[-:])?[0-9a-f]{40,64})", re.I | re.S)
"""Names a shard may have: ``.gguf``, the count put behind it, or the hash a content store gives (no ending at all)."""
MOST_SHARDS = 65535
"""`split.count` is a u16."""
FEW_FIELDS = 16
"""Shards other than the first carry the split keys and little else."""

_LOOSE = {
    ".gguf-": regex(r"(?P<stem>.*?)\.gguf-(?P<no>\d{1,5})-of-(?P<count>\d{1,5})", re.I | re.S),
    "of": regex(
        r"(?P<stem>.*?)[-_. ]?(?:part|shard|split)?[-_. ]?(?P<no>\d{1,5})[-_. ]?of[-_. ]?(?P<count>\d{1,5})\.gguf",
        re.I | re.S,
    ),
    ".gguf": regex(r"(?P<stem>.*?)[-_. ]?(?:part|shard|split)?[-_. ]?(?P<no>\d{1,5})(?P<count>)\.gguf", re.I | re.S),
}
"""By what stands in such a name, in small letters."""


@dataclass(frozen=True, slots=True)
class SplitKeys:
    """The `split.*` keys of one file; ``no`` counts from 0.

    ``old``: they have the names of March 2024 (`general.split`, `general.split_count`), which llama.cpp ignores.
    """

    no: int
    count: int
    tensors: int | None
    old: bool = False


@dataclass(frozen=True, slots=True)
class Naming:
    """What a file name says: of which set, which number (from 0), of how many (0 when it does not say)."""

    stem: str
    no: int
    count: int


@dataclass(frozen=True, slots=True)
class Shard:
    """One file that says it is a shard.

    ``bond``: what ties it to the file that was named: ``own`` (it is that file), ``name``, ``given`` (the user named it
    too) or ``content``.
    """

    path: str
    keys: SplitKeys
    header: Header
    bond: str = "own"

    @property
    def named(self) -> tuple[str, int, int] | None:
        """Prefix, number (from 1) and count that the file name states; None when it is not the usual name."""
        m = NAME.match(os.path.basename(self.path))
        return (m["prefix"], int(m["no"]), int(m["count"])) if m else None


@dataclass(frozen=True, slots=True)
class Gathered:
    """All files that have to do with a set.

    Attributes:
        own: the file that was named.
        members: those that belong to it, by number (from 0); more than one for a number is a fault.
        broken: number -> the file that has the name for it and cannot be read.
        strangers: files with a name of this set that hold something else.
        offers: files that claim a number of such a set, with names that say nothing: told, never taken.
        prefix: what the usual names of the set start with; None when no name tells.
    """

    own: Shard
    members: dict[int, list[Shard]] = field(default_factory=dict)
    broken: dict[int, str] = field(default_factory=dict)
    strangers: list[Shard] = field(default_factory=list)
    offers: list[Shard] = field(default_factory=list)
    prefix: str | None = None

    def lacks(self, no: int) -> bool:
        """Whether no file at all stands for that number."""
        return no not in self.members and no not in self.broken


@dataclass(frozen=True, slots=True)
class ShardSet:
    """The files of one model in order; None where a shard is missing.

    Attributes:
        paths: the files; one that cannot be read is among them, for its reader to say why.
        by_content: those whose names do not say that they belong here.
        names: the names that llama.cpp looks for, as far as they are known.
        offers: files that may be the missing ones, though their names do not say so.
        strangers: files with the name of a shard of this set whose split keys are those of another.
    """

    paths: tuple[str | None, ...]
    by_content: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    offers: tuple[str, ...] = ()
    strangers: tuple[Shard, ...] = ()

    @property
    def missing(self) -> tuple[int, ...]:
        """Numbers (from 1) of the shards that were not found."""
        return tuple(i + 1 for i, p in enumerate(self.paths) if p is None)

    @property
    def missing_names(self) -> tuple[str, ...]:
        """Their file names; empty when no name tells."""
        return tuple(self.names[no - 1] for no in self.missing) if self.names else ()


def split_keys(header: Header) -> SplitKeys | None:
    """The split keys of a header; None when the file is a whole model (no count, 0 or 1, or one that cannot be)."""
    numbers: dict[str, int] = {}
    for f in header.fields:
        if f.key in SPLIT_KEYS and f.key not in numbers:
            value = f.told
            if isinstance(value, int) and not isinstance(value, bool):
                numbers[f.key] = value
    count, old = numbers.get("split.count", 0), numbers.get("general.split_count", 0)
    if max(count, old) > MOST_SHARDS:
        return None
    if count > 1:
        return SplitKeys(numbers.get("split.no", 0), count, numbers.get("split.tensors.count"))
    if old > 1 and "split.count" not in numbers:
        return SplitKeys(numbers.get("general.split", 0), old, numbers.get("split.tensors.count"), old=True)
    return None


def shard_name(prefix: str, no: int, count: int) -> str:
    """File name of shard ``no`` (from 0) as llama.cpp wants it (`llama.cpp:llama_split_path`)."""
    return f"{prefix}-{no + 1:05d}-of-{count:05d}.gguf"


def naming(path: str) -> Naming | None:
    """What the name of a file says of a set, whatever its padding, case and separators; None when nothing."""
    base = os.path.basename(path)
    small = base.lower().removesuffix("\n")
    if ".gguf-" not in small and not (small.endswith(".gguf") and small[-6:-5].isdecimal()):
        return None  # as nearly all, without a search for each form
    if m := NAME.match(base):
        return Naming(m["prefix"], int(m["no"]) - 1, int(m["count"]))
    for word, form in _LOOSE.items():
        if word in small and (m := form.fullmatch(base)):
            return Naming(m["stem"], int(m["no"]) - 1, int(m["count"] or 0))
    return None


def find(path: str, header: Header, read: Headers | None = None) -> ShardSet | None:
    """The shard set ``path`` belongs to; None when it is a whole model, also one with split keys left behind.

    ``read``: as for `gather`.
    """
    keys = split_keys(header)
    if keys is None or not 0 <= keys.no < keys.count:
        return None
    found = gather(path, header, keys, free=True, read=read)
    if all_here(found):
        return None
    paths = [found.broken.get(no) for no in range(keys.count)]
    by_content: list[str] = []
    offers = [shard.path for shard in found.offers]
    for no, shards in found.members.items():
        one = best(shards, no, keys.count)
        if not 0 <= no < keys.count:
            continue
        if len(shards) > 1 and not _is_usual(one, no, keys.count) and one.bond != "own":
            # Several claim the number and no name decides.
            offers += [shard.path for shard in shards]
            continue
        paths[no] = one.path
        if one.bond == "content":
            by_content.append(one.path)
    prefix = found.prefix
    names = tuple(shard_name(prefix, no, keys.count) for no in range(keys.count)) if prefix is not None else ()
    return ShardSet(tuple(paths), tuple(by_content), names, tuple(offers), tuple(found.strangers))


def all_here(found: Gathered) -> bool:
    """Whether everything is in the one file: a merged model whose split keys were left behind."""
    keys, header = found.own.keys, found.own.header
    alone = len(found.members) == 1 and len(found.members.get(0, ())) == 1 and not found.broken
    return alone and keys.no == 0 and keys.tensors == len(header.tensors) > 0


def best(shards: list[Shard], no: int, count: int) -> Shard:
    """Of several files for one number the one to take: its usual name, the file that was named, then as found."""
    usual = [s for s in shards if _is_usual(s, no, count)]
    return (usual or [s for s in shards if s.bond == "own"] or sorted(shards, key=lambda s: _BONDS.index(s.bond)))[0]


def _is_usual(shard: Shard, no: int, count: int) -> bool:
    return shard.named is not None and shard.named[1:] == (no + 1, count)


_BONDS = ("own", "name", "given", "content")


def gather(
    path: str,
    header: Header,
    keys: SplitKeys,
    given: Iterable[str] = (),
    *,
    free: bool = False,
    every: bool = False,
    read: Headers | None = None,
) -> Gathered:
    """The files that belong to the set of ``path``, and those that look like it.

    Args:
        path: a shard.
        header: its header.
        keys: its split keys.
        given: further files that the user named, wherever they lie.
        free: take files whose names say nothing even where the name of ``path`` says of which set it is.
        every: look at the whole folder also when nothing is missing.
        read: headers of shards, which are not read again; those that are read now are added.
    """
    sets = _sets_named(path, keys)
    own = Shard(path, keys, header)
    found = Gathered(own, {keys.no: [own]}, prefix=sets[0][1] if sets else None)
    read = Headers() if read is None else read
    seen = {os.path.realpath(path)}
    for folder, stem in sets:
        _by_name(found, folder, stem, seen, read)
    # Read on when one was found: a second that claims the same number says that neither is proved.
    first = keys.no != 0 and (every or found.lacks(0))
    for bond, others in (("given", given), ("content", neighbours(path))):
        if bond == "content" and not every and not any(map(found.lacks, range(keys.count))):
            break
        for other in others:
            real = os.path.realpath(other)
            if real not in seen and (mine := _ties(own, sets, other)) != "against":
                seen.add(real)
                _add(found, other, mine or bond, read, free=free or not sets or bool(mine), first=first)
    return found


def _sets_named(path: str, keys: SplitKeys) -> list[tuple[str, str]]:
    """Folders and stems under which the set of a file is named: by its own name, or by that behind or before a link."""
    out: list[tuple[str, str]] = []
    for name in (path, os.path.realpath(path), *_links_to(path)):
        said = naming(name)
        if said is not None and said.count == keys.count:
            place = (os.path.dirname(name), said.stem)
            if all((os.path.abspath(p), s) != (os.path.abspath(place[0]), place[1]) for p, s in out):
                out.append(place)
    return out


def _links_to(path: str) -> list[str]:
    """The names under which the cache of Hugging Face shows a blob (``blobs/HASH`` and ``snapshots/COMMIT/NAME``)."""
    folder = os.path.dirname(os.path.abspath(path))
    snapshots = os.path.join(os.path.dirname(folder), "snapshots")
    if os.path.basename(folder) != "blobs" or not os.path.isdir(snapshots):
        return []
    real = os.path.realpath(path)
    names = [os.path.join(place, name) for place, _, files in os.walk(snapshots) for name in sorted(files)]
    return [name for name in names[:SEARCH_LIMIT] if os.path.realpath(name) == real]


def _by_name(found: Gathered, folder: str, stem: str, seen: set[str], read: Headers) -> None:
    """The files under the usual names of a set: believed, unless the content speaks against it."""
    keys = found.own.keys
    try:
        there = set(os.listdir(folder or "."))
    except OSError:
        return
    for no in range(keys.count):
        name = shard_name(stem, no, keys.count)
        if name not in there:
            continue
        other = os.path.join(folder, name)
        real = os.path.realpath(other)
        if real in seen or not os.path.isfile(other):
            continue
        seen.add(real)
        header = read.read(other)
        claim = split_keys(header) if header is not None else None
        if header is None or (claim is None and not header.complete):
            found.broken.setdefault(no, other)
        elif claim is not None and (claim.count, claim.tensors) == (keys.count, keys.tensors):
            found.members.setdefault(claim.no, []).append(Shard(other, claim, header, "name"))
        else:
            found.strangers.append(Shard(other, claim or SplitKeys(no, 1, None), header, "name"))


def _ties(own: Shard, sets: list[tuple[str, str]], other: str) -> str:
    """What the name of another file says: ``name`` it belongs to the set, ``against``, "" nothing."""
    keys = own.keys
    said = next(filter(None, map(naming, (other, *_links_to(other)))), None)
    if said is None:
        return ""
    if sets:
        if said.count == 0:
            return ""
        return "name" if said.count == keys.count and any(said.stem == stem for _, stem in sets) else "against"
    mine = naming(own.path)
    if said.count == keys.count:
        # A set that has a file of its own for this number is another one.
        theirs = os.path.join(os.path.dirname(other), shard_name(said.stem, keys.no, keys.count))
        return "against" if os.path.exists(theirs) else ""
    alike = mine is not None and mine.count == said.count == 0 and mine.stem == said.stem and mine.no == keys.no
    return "name?" if alike else ""


def _add(found: Gathered, path: str, bond: str, read: Headers, *, free: bool, first: bool) -> None:
    keys = found.own.keys
    header = read.read(path, None if first else FEW_FIELDS)
    claim = split_keys(header) if header is not None else None
    said = naming(path)
    if bond == "name" and said is not None and header is None and found.lacks(said.no) and not is_gguf(path):
        found.broken[said.no] = path
    if header is None or claim is None or (claim.count, claim.tensors) != (keys.count, keys.tensors):
        return
    if bond == "name?":
        bond = "name" if said is not None and said.no == claim.no else "content"
    shard = Shard(path, claim, header, bond)
    # A file that has the name and cannot be read is a fault, no reason to look elsewhere.
    if bond == "name" or ((free or bond == "given") and claim.no not in found.broken):
        found.members.setdefault(claim.no, []).append(shard)
    elif 0 <= claim.no < keys.count:
        found.offers.append(shard)


def is_gguf(path: str) -> bool:
    """Whether a regular file begins as GGUF does; False also for what cannot be read."""
    try:
        if not os.path.isfile(path):
            return False
        with open(path, "rb") as f:
            return f.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def neighbours(path: str) -> Iterator[str]:
    """Other files of the folder that may be shards, by name."""
    folder, own = os.path.split(path)
    try:
        names = sorted(os.listdir(folder or "."))
    except OSError:
        return
    likely = [n for n in names if n != own and LIKELY.fullmatch(n)]
    for name in likely[:SEARCH_LIMIT]:
        other = os.path.join(folder, name)
        if os.path.isfile(other):
            yield other
