"""Which release of llama.cpp a source tree is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

NAME = re.compile(r"(?:^|[-_.])b(\d{3,6})$")
PACKAGE = re.compile(r"^Version: (\d{3,6})(?:\.\d+)*$", re.M)


class NoBuild(Exception):
    """The tree does not say which release it is, or two places disagree."""


def _of_git(source: Path) -> str | None:
    """The count of commits, as `cmake/build-info.cmake` takes it; None outside a whole clone."""
    if not (source / ".git").exists():
        return None
    git = ["git", "-C", str(source)]
    try:
        shallow = subprocess.run(
            [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, timeout=60, check=False
        )
        count = subprocess.run(
            [*git, "rev-list", "--count", "HEAD"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    whole = shallow.returncode == 0 and shallow.stdout.strip() == "false" and count.returncode == 0
    return count.stdout.strip() if whole else None


def _of_package(source: Path) -> str | None:
    """A source package that carries the tree has the release as its version."""
    for folder in (source, source.resolve().parent):
        try:
            hit = PACKAGE.search((folder / "PKG-INFO").read_text(encoding="utf-8", errors="replace"))
        except OSError:
            continue
        if hit:
            return hit[1]
    return None


def _of_name(source: Path) -> str | None:
    """The folder that a release's archive unpacks to is called llama.cpp-bN."""
    hit = NAME.search(source.resolve().name)
    return hit[1] if hit else None


def build_number(source: Path, named: str | None = None, server: int | None = None) -> str:
    """``b11434``: as the tree says, or as named where it says nothing.

    Args:
        source: top folder of the tree.
        named: what the caller says it is.
        server: build of the server whose options are read with it.

    Raises:
        NoBuild: nobody says it, or two say different things.
    """
    said = {
        "git": _of_git(source),
        "PKG-INFO": _of_package(source),
        "the folder's name": _of_name(source),
        "--build": named.removeprefix("b") if named else None,
        "the server": str(server) if server else None,
    }
    there = {who: number for who, number in said.items() if number}
    if not there or set(there) == {"the server"}:
        raise NoBuild(f"{source} does not say which release it is: name it with --build bN")
    if len(set(there.values())) > 1:
        raise NoBuild("; ".join(f"{who} says b{number}" for who, number in there.items()))
    return f"b{next(iter(there.values()))}"
