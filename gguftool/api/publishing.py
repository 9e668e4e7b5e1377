"""What goes with a file that is published: its manifest, its line in SHA256SUMS, and what others will say of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from gguftool.api.sums import plan_lines
from gguftool.brief import short_repr
from gguftool.lint.publishing import Publishing
from gguftool.lint.rule import Context
from gguftool.lint.run import lint
from gguftool.model import open_model
from gguftool.records import dataclass
from gguftool.verify import deep
from gguftool.verify.manifest import write
from gguftool.verify.modelcheck import check


@dataclass(frozen=True, slots=True)
class Recorded:
    """What was written: the manifest, SHA256SUMS (None: its lines were right, or nobody asked), sha256 of the first."""

    manifest: str
    sums: str | None
    sha256: str | None

    __repr__ = short_repr


def record(
    paths: Sequence[str], manifest: str, told: Callable[[str, int, int], None], *, sums: bool = True
) -> Recorded:
    """Hash files of one folder, write their manifest, and their lines in the SHA256SUMS there.

    Args:
        paths: the files.
        manifest: where the manifest goes.
        told: called with (what is going on, bytes done, of all).
        sums: write the lines, too; those of other files stay as they are.

    Raises:
        Refused: something else has one of the names, or the list there cannot be read.
        NoRoom: the disk is full.
    """
    total, seen, lock = sum(map(os.path.getsize, paths)), 0, threading.Lock()

    def read(n: int) -> None:
        nonlocal seen
        with lock:
            seen += n
            told("hashing", seen, total)

    _, hashes = deep.with_hashes([check(path) for path in paths], {}, want=deep.MANIFEST, progress=read)
    folder = os.path.dirname(paths[0])
    lines = plan_lines(folder, {os.path.basename(h.path): h.file for h in hashes.values()}) if sums else None
    write(manifest, hashes.values())
    if lines is not None:
        lines.write()
    digest = next((h.file for h in hashes.values()), None)
    return Recorded(manifest, lines.path if lines is not None else None, digest)


def objections(path: str) -> list[str]:
    """What scanners in other people's gates will object to, one line each."""
    name = os.path.basename(path)
    context = Context(publishing=Publishing(os.path.dirname(path), path, {name: os.path.getsize(path)}, (name,)))
    with open_model(path, strict=False) as model:
        report = lint(model, context, select=["scanner-objects", "alignment-unusual"], load=False)
    return [f"scanners: {finding.message}" for finding in report.findings]
