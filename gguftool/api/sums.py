"""Files that are written beside models once everything is known: SHA256SUMS, and what has to be done to write any."""

from __future__ import annotations

import os
from collections.abc import Mapping

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError, Refused
from gguftool.files.small import BEGIN, write_file
from gguftool.lint.publishing import Publishing
from gguftool.reading import file_bytes
from gguftool.records import dataclass
from gguftool.verify.expect import SUMS
from gguftool.verify.manifest import HashList, parse, read, sum_line


@dataclass(frozen=True, slots=True)
class Planned:
    """A file that is to be written; ``old`` is what it has now, None where there is none."""

    path: str
    data: bytes
    old: bytes | None

    __repr__ = short_repr

    def write(self) -> None:
        """Write it; what somebody else put there meanwhile is not written over."""
        old = self.old
        mine = (lambda begin: not begin) if old is None else (lambda begin: begin == old[:BEGIN])
        write_file(self.path, self.data, mine=mine, what="file as it was read")


def plan_sums(p: Publishing, *, overwrite: bool) -> Planned | None:
    """SHA256SUMS as it is to be, with the lines it lacks; ``overwrite``: put lines right, and drop those of files gone.

    Raises:
        Refused: the list cannot be read, or a line in it is wrong and ``overwrite`` is not given.
    """
    there = next((name for name in SUMS if os.path.isfile(os.path.join(p.folder, name))), SUMS[0])
    path = os.path.join(p.folder, there)
    new = dict(sorted(p.hashes.items()))
    if p.sums is None and not p.sums_fault:
        text = "".join(f"{sum_line(digest, name)}\n" for name, digest in new.items())
        return Planned(path, text.encode("utf-8", "surrogateescape"), None) if text else None
    old = file_bytes(path)
    if p.sums is None:
        raise Refused(f"{path}: cannot be read: {p.sums_fault}; nothing was written", "move it away")
    if not all(_named(line) for line in old.decode("utf-8", "surrogateescape").splitlines() if _says(line)):
        raise Refused(f"{path}: is no list as sha256sum writes it; nothing was written", "move it away")
    listed = {entry.name.removeprefix("./"): entry.sha256 for entry in p.sums.entries}
    wrong = [name for name, digest in new.items() if listed.get(name) not in (None, digest)]
    gone = [name for name in listed if name.endswith(".gguf") and name not in p.sizes]
    text = old.decode("utf-8", "surrogateescape")
    if overwrite and (wrong or gone):
        drop = {*wrong, *gone}
        text = "".join(line for line in text.splitlines(keepends=True) if not (_named(line) & drop))
    elif wrong:
        raise Refused(
            f"{path}: has another hash for {wrong[0]}; nothing was written", "say --overwrite to put it right"
        )
    add = [name for name in new if name not in listed or (overwrite and name in wrong)]
    if text and not text.endswith("\n"):
        text += "\n"
    text += "".join(f"{sum_line(new[name], name)}\n" for name in add)
    data = text.encode("utf-8", "surrogateescape")
    return Planned(path, data, old) if data != old else None


def sums_of(folder: str) -> tuple[HashList | None, str]:
    """The SHA256SUMS of a folder; None where there is none, or it cannot be read: then also why."""
    for name in SUMS:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            try:
                return read(path), ""
            except GgufToolError as e:
                return None, str(e).removeprefix(f"{path}: ")
    return None, ""


def plan_lines(folder: str, hashes: Mapping[str, str]) -> Planned | None:
    """SHA256SUMS with the right lines for these very files; all others stay as they are.

    Args:
        folder: where the files lie.
        hashes: sha256 of each, by its name there.

    Raises:
        Refused: the list cannot be read.
    """
    sums, fault = sums_of(folder)
    listed = [entry.name.removeprefix("./") for entry in sums.entries] if sums is not None else []
    sizes = dict.fromkeys((*listed, *hashes), 0)
    return plan_sums(Publishing(folder, "", sizes, sums=sums, sums_fault=fault, hashes=hashes), overwrite=True)


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#")


def _named(line: str) -> set[str]:
    """The file that a line of a list is about."""
    try:
        return {entry.name.removeprefix("./") for entry in parse(line, "").entries}
    except GgufToolError:
        return set()
