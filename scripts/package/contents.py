"""What a wheel and a source archive of gguftool must hold, and what neither may."""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tarfile
import zipfile
from pathlib import Path

RUBBISH = re.compile(
    r"(^|/)(__pycache__|\.git|\.venv[^/]*|\.[a-z]+_cache|\.hypothesis|\.fuzz|\.DS_Store|node_modules)(/|$)"
    r"|^(build|dist|site)/"
    r"|\.(py[cod]|so|orig|rej|swp|bak|tmp|whl|egg-info)$|~$|\.gguftool-journal$"
)
"""Names of what nobody means to hand on."""
TOP = """
.ci/run .pre-commit-hooks.yaml CHANGELOG.md CITATION.cff CONTRIBUTING.md Dockerfile LICENSE LICENSES/*.txt Makefile
NOTICE.md PKG-INFO README.md REUSE.toml SECURITY.md action.yml dev docs/*.md fixtures/tiny-llama.gguf gguftool/py.typed
gguftool/facts/data/*.json gguftool/schemas/*.schema.json pyproject.toml scripts/package/*.py tests/*/test_*.py
""".split()
"""Patterns of which a source archive has at least one each."""
WHEEL = """
gguftool/py.typed gguftool/facts/data/*.json gguftool/facts/data/alice.txt gguftool/facts/data/builds/*.json*
gguftool/schemas/*.schema.json *.dist-info/METADATA *.dist-info/RECORD *.dist-info/WHEEL *.dist-info/entry_points.txt
*.dist-info/licenses/LICENSE *.dist-info/licenses/NOTICE.md *.dist-info/licenses/LICENSES/MIT.txt
*.dist-info/sboms/gguftool.cdx.json
""".split()
"""Patterns of which a wheel has at least one each."""
ALONE = re.compile(r"gguftool/|gguftool-[^/]+\.dist-info/|gguftool-[^/]+\.data/data/share/man/man1/gguftool[\w-]*\.1$")
"""What may stand in a wheel."""


def tracked(root: Path, *, new: bool = False) -> set[str] | None:
    """The files that git knows (``new``: or would take), None where there is no git; only such as are there."""
    words = ["git", "-C", str(root), "ls-files", "-z", *(["-co", "--exclude-standard"] if new else [])]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return None
    if done.returncode or not done.stdout:
        return None
    return {name for name in done.stdout.split("\0") if name and (root / name).is_file()}


def in_wheel(wheel: Path) -> set[str]:
    """The names in a wheel."""
    with zipfile.ZipFile(wheel) as z:
        return {name for name in z.namelist() if not name.endswith("/")}


def in_sdist(sdist: Path) -> set[str]:
    """The names in a source archive, without the folder that all of them lie in."""
    with tarfile.open(sdist) as t:
        return {name.partition("/")[2] for name in t.getnames()}


def faults_of_wheel(names: set[str], known: set[str] | None) -> list[str]:
    """What is wrong with the names in a wheel.

    Args:
        names: in it.
        known: files of the tree, see `tracked`; None: not known.
    """
    found = [f"not in the wheel: {p}" for p in WHEEL if not fnmatch.filter(names, p)]
    found += [f"rubbish in the wheel: {n}" for n in sorted(names) if RUBBISH.search(n)]
    found += [f"in the wheel, where it does not belong: {n}" for n in sorted(names) if not ALONE.match(n)]
    if known is not None:
        ours = {n for n in known if n.startswith("gguftool/")}
        has = {n for n in names if n.startswith("gguftool/")}
        found += [f"not in the wheel: {n}" for n in sorted(ours - has)]
        found += [f"in the wheel, but unknown to git: {n}" for n in sorted(has - ours)]
    return found


def faults_of_sdist(names: set[str], known: set[str] | None) -> list[str]:
    """What is wrong with the names in a source archive (see `faults_of_wheel`)."""
    found = [f"not in the source archive: {p}" for p in TOP if not fnmatch.filter(names, p)]
    found += [f"rubbish in the source archive: {n}" for n in sorted(names) if RUBBISH.search(n)]
    if known is not None:
        found += [f"not in the source archive: {n} (see [tool.hatch] in pyproject.toml)" for n in sorted(known - names)]
        found += [f"in the source archive, but unknown to git: {n}" for n in sorted(names - known - {"PKG-INFO"})]
    return found
