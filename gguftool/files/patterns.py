"""Patterns of paths, as people know them from ruff and gitignore.

One without a slash is held against each single name: ``*.tmp``, ``old`` (a file, or a folder with all that is in it).
One with a slash starts at the folder that was named: ``archive/2023``, ``*/broken``, ``a/**/b``; ``**/`` in front lets
it start anywhere. A slash at its end means folders only. ``*`` and ``?`` never go past a slash; case counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.errors import MissingFile
from gguftool.records import dataclass

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
    from fnmatch import fnmatchcase

    if "/" not in bare:
        return fnmatchcase(parts[-1], bare)
    return _along([step for step in bare.split("/") if step not in ("", ".")], parts)


def _along(steps: Sequence[str], parts: Sequence[str]) -> bool:
    """Step by step, every set of places a step can lead to at once: no pattern takes long."""
    from fnmatch import fnmatchcase

    at = {0}
    for step in steps:
        if step == "**":
            at = set(range(min(at), len(parts) + 1)) if at else at
        else:
            at = {i + 1 for i in at if i < len(parts) and fnmatchcase(parts[i], step)}
    return len(parts) in at


def covers(pattern: str, parts: Sequence[str]) -> bool:
    """Whether a pattern takes a file, or a folder that it lies in.

    Args:
        pattern: see above.
        parts: the path of the file by names, from where a pattern with a slash starts.
    """
    return any(_takes(pattern, parts[:n], n < len(parts)) for n in range(1, len(parts) + 1))


def spread(names: Iterable[str]) -> list[str]:
    """Names as they are, a pattern (``models/*.gguf``, ``**/*-Q4_K_M.gguf``) as the files that it takes.

    For callers that no shell expands patterns for. As in a shell a pattern starts at the working directory and takes no
    hidden names; ``**`` goes through any number of folders, but not into those that are links. Of what it takes only
    files that end in ``.gguf`` are meant. What exists under the name itself is meant by it, whatever signs it has.

    Raises:
        MissingFile: no such file has a name like a pattern.
    """
    out: list[str] = []
    for name in names:
        if "://" in name or not _SIGNS & set(name) or os.path.lexists(name):
            out.append(name)
            continue
        found = sorted(_matching(name))
        if not found:
            from gguftool.elsewhere import meant

            raise MissingFile(f"{name}: no .gguf file has a name like this", meant(name))
        out.extend(found)
    return list(dict.fromkeys(out))


_SIGNS = frozenset("*?[")


def _matching(pattern: str) -> Iterator[str]:
    steps = pattern.split("/")
    first = next(i for i, step in enumerate(steps) if _SIGNS & set(step))
    root, rest = (
        "/".join(steps[:first]) + "/" if first else "",
        [step for step in steps[first:] if step not in ("", ".")],
    )
    deepest = None if "**" in rest else len(rest)
    for folder, folders, files in os.walk(root or os.curdir):
        here = [p for p in os.path.relpath(folder, root or os.curdir).split(os.sep) if p != os.curdir]
        folders[:] = [f for f in folders if f[0] != "." and (deepest is None or len(here) + 1 < deepest)]
        for name in files:
            if name[0] != "." and name.lower().endswith(".gguf") and _along(rest, [*here, name]):
                yield root + "/".join([*here, name])
