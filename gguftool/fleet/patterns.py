"""Patterns of paths, as people know them from ruff and gitignore.

One without a slash is held against each single name: ``*.tmp``, ``old`` (a file, or a folder with all that is in it).
One with a slash starts at the folder that was named: ``archive/2023``, ``*/broken``, ``a/**/b``; ``**/`` in front lets
it start anywhere. A slash at its end means folders only. ``*`` and ``?`` never go past a slash; case counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from gguftool.brief import short_repr

ALWAYS = (".git",)
"""What holds copies of what lies beside it."""


@dataclass(frozen=True, slots=True)
class Patterns:
    """Which files of a folder are looked at.

    Attributes:
        include: only files that one of these takes; empty: what ends in ``.gguf``.
        exclude: neither files nor folders that one of these takes.
    """

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    __repr__ = short_repr

    def takes(self, parts: Sequence[str], usual: bool) -> bool:
        """Whether a file is looked at.

        Args:
            parts: its path from the folder that was named, by names.
            usual: it is when nobody says otherwise.
        """
        wanted = any(_takes(pattern, parts, False) for pattern in self.include) if self.include else usual
        return wanted and not self.excludes(parts, folder=False)

    def excludes(self, parts: Sequence[str], *, folder: bool) -> bool:
        """Whether a file or a folder is left out."""
        return any(_takes(pattern, parts, folder) for pattern in (*ALWAYS, *self.exclude))


def _takes(pattern: str, parts: Sequence[str], folder: bool) -> bool:
    """Whether a pattern takes a path; folders above it were asked before."""
    bare = pattern.rstrip("/")
    if not bare or (bare != pattern and not folder):
        return False
    if "/" not in bare:
        return fnmatchcase(parts[-1], bare)
    return _along([step for step in bare.split("/") if step not in ("", ".")], parts)


def _along(steps: Sequence[str], parts: Sequence[str]) -> bool:
    """Step by step, every set of places a step can lead to at once: no pattern takes long."""
    at = {0}
    for step in steps:
        if step == "**":
            at = set(range(min(at), len(parts) + 1)) if at else at
        else:
            at = {i + 1 for i in at if i < len(parts) and fnmatchcase(parts[i], step)}
    return len(parts) in at
