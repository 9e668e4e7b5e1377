"""Builds of the wheel and the source archive, and what must not change them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from contents import tracked

BUILD = """\
import sys, time
now = {now}
if now:
    time.time = lambda: now
from hatchling.cli import hatchling
sys.argv = ["hatchling", "build", *sys.argv[1:]]
sys.exit(hatchling())
"""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What may be otherwise from build to build.

    Attributes:
        umask: of the copy and of the build.
        now: the clock as the build sees it; 0: as it is.
        mtime: of all files; 0: when they are copied.
        env: variables beside the usual ones.
    """

    umask: int = 0o022
    now: float = 0
    mtime: float = 0
    env: Mapping[str, str] = field(default_factory=dict)


PLAIN = Circumstances()
OTHERWISE = Circumstances(
    0o077,
    1_900_000_000.0,
    1_000_000_000.0,
    {
        "TZ": "Pacific/Kiritimati",
        "LC_ALL": "tr_TR.UTF-8",
        "LANG": "tr_TR.UTF-8",
        "HOME": "/nonexistent",
        "PYTHONHASHSEED": "7",
    },
)


@dataclass(frozen=True, slots=True)
class Made:
    """Two files of one build."""

    wheel: Path
    sdist: Path


def copy(root: Path, to: Path, how: Circumstances = PLAIN) -> Path:
    """The files of a tree that git knows or would take, as a checkout of another person has them.

    Raises:
        RuntimeError: it is no checkout.
    """
    names = tracked(root, new=True)
    if names is None:
        raise RuntimeError(f"{root}: is no checkout of git")
    before = os.umask(how.umask)
    try:
        for name in sorted(names, reverse=bool(how.umask & 0o007)):
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((root / name).read_bytes())
            if os.access(root / name, os.X_OK):
                target.chmod(0o777 & ~how.umask)
            if how.mtime:
                os.utime(target, (how.mtime, how.mtime))
    finally:
        os.umask(before)
    return to


def make(tree: Path, to: Path, how: Circumstances = PLAIN, targets: str = "", python: str = sys.executable) -> None:
    """Build with hatchling as it is installed, without a network.

    Raises:
        RuntimeError: it failed; what it said.
    """
    words = [python, "-c", BUILD.format(now=how.now), "-d", str(to), *(["-t", targets] if targets else [])]
    # A clock of others (SOURCE_DATE_EPOCH) would stand in the archives; hatchling's own is always the same.
    env = {k: v for k, v in os.environ.items() if k != "SOURCE_DATE_EPOCH"} | dict(how.env)
    done = subprocess.run(
        words, cwd=tree, env=env, capture_output=True, text=True, umask=how.umask, check=False, stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise RuntimeError(f"hatchling failed: {done.stdout}{done.stderr}")


def made_in(folder: Path) -> Made:
    """The two files of a build."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Made(wheel, sdist)


def build(root: Path, work: Path, python: str = sys.executable) -> tuple[Made, list[str]]:
    """Build three times: plainly, under other circumstances, and the wheel once more out of the source archive.

    Returns:
        The plain one, and what differs.

    Raises:
        RuntimeError: a build failed.
    """
    one, other = work / "one", work / "another folder" / "deeper"
    make(copy(root, one / "tree"), one / "out", python=python)
    make(copy(root, other / "tree", OTHERWISE), other / "out", OTHERWISE, python=python)
    first, second = made_in(one / "out"), made_in(other / "out")
    differs = [
        f"{a.name}: other bytes in another folder, at another time, with another umask, locale and zone"
        for a, b in ((first.wheel, second.wheel), (first.sdist, second.sdist))
        if a.read_bytes() != b.read_bytes()
    ]
    with tarfile.open(first.sdist) as t:
        t.extractall(work / "unpacked", filter="data")
    (tree,) = (work / "unpacked").iterdir()
    make(tree, work / "again", targets="wheel", python=python)
    (again,) = (work / "again").glob("*.whl")
    if again.read_bytes() != first.wheel.read_bytes():
        differs.append(f"{again.name}: other bytes out of the source archive than out of the tree")
    return first, differs


def built(root: Path, to: Path, python: str = sys.executable) -> tuple[Made, list[str]]:
    """`build` in a folder of its own; the two files are laid into ``to``, which holds nothing else afterwards."""
    with tempfile.TemporaryDirectory(prefix="gguftool-package-") as work:
        found, differs = build(root, Path(work), python)
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(parents=True)
        for file in (found.wheel, found.sdist):
            shutil.copy(file, to)
    return made_in(to), differs
