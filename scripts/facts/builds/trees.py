"""One llama.cpp tree as texts: a folder, or a commit of a clone."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol


class Unread(Exception):
    """A tree has the thing, but written in a way that the reader does not know."""


class Tree(Protocol):
    """What the readers need of a tree."""

    def read(self, path: str) -> str | None:
        """Text of a file, None where it is not there."""

    def files(self, pattern: str) -> list[str]:
        """Paths that match from the top."""


@dataclass
class Folder:
    """Unpacked sources."""

    top: Path

    def read(self, path: str) -> str | None:
        """Text of a file, None where it is not there."""
        file = self.top / path
        return file.read_text(encoding="utf-8", errors="replace") if file.is_file() else None

    @cached_property
    def _all(self) -> list[str]:
        return sorted(p.relative_to(self.top).as_posix() for p in self.top.rglob("*") if p.is_file())

    def files(self, pattern: str) -> list[str]:
        """Paths that match from the top."""
        return [path for path in self._all if re.match(pattern, path)]


@dataclass
class Clone:
    """A git clone of llama.cpp with its history, read through one child."""

    git: Path
    _child: subprocess.Popen[bytes] | None = None

    def run(self, *words: str) -> str:
        """What git says."""
        done = subprocess.run(
            ["git", "--no-replace-objects", "-C", str(self.git), *words], capture_output=True, text=True, check=True
        )
        return done.stdout

    def blob(self, name: str) -> bytes | None:
        """Content of ``commit:path``."""
        if self._child is None:
            words = ["git", "-C", str(self.git), "cat-file", "--batch"]
            self._child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._child.stdin is None or self._child.stdout is None:
            raise OSError("git has no streams")
        self._child.stdin.write(name.encode() + b"\n")
        self._child.stdin.flush()
        head = self._child.stdout.readline().split()
        if head[-1] == b"missing":
            return None
        content = self._child.stdout.read(int(head[2]) + 1)[:-1]
        return content if head[1] == b"blob" else None

    def close(self) -> None:
        """End the child."""
        if self._child is not None and self._child.stdin is not None:
            self._child.stdin.close()
            self._child.wait()
            self._child = None

    def numbers(self, tip: str) -> list[tuple[int, str]]:
        """Build number and commit of every commit on the main line, oldest first.

        The number of a build is the count of commits behind it; on a straight line it grows by one.
        """
        rows = self.run("log", "--first-parent", "--reverse", "--format=%H %P", tip).splitlines()
        out: list[tuple[int, str]] = []
        for row in rows:
            commit, *parents = row.split()
            straight = len(parents) == 1 and out
            out.append((out[-1][0] + 1 if straight else int(self.run("rev-list", "--count", commit)), commit))
        return out

    def touching(self, tip: str, pattern: str) -> set[str]:
        """Commits of the main line that touch a path that matches."""
        text = self.run("log", "--first-parent", "-m", "--name-only", "--no-renames", "--format=%x00%H", tip)
        found = set()
        for part in text.split("\0")[1:]:
            commit, *paths = part.split("\n")
            if any(re.match(pattern, path) for path in paths):
                found.add(commit)
        return found


@dataclass
class Commit:
    """One commit of a clone."""

    clone: Clone
    commit: str
    _paths: list[str] = field(default_factory=list)

    def read(self, path: str) -> str | None:
        """Text of a file, None where it is not there."""
        content = self.clone.blob(f"{self.commit}:{path}")
        return None if content is None else content.decode("utf-8", errors="replace")

    def files(self, pattern: str) -> list[str]:
        """Paths that match from the top."""
        if not self._paths:
            self._paths = self.clone.run("ls-tree", "-r", "--name-only", self.commit).split("\n")
        return [path for path in self._paths if re.match(pattern, path)]
