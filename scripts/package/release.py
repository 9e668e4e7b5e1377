"""`./dev release-check`: of docs/releasing.md what a program can look at. Exit code 1 while anything is left to do."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(rc[1-9]\d*)?")
EXAMPLES = {
    "docs/hooks.md": r"(?:rev: v|gguftool@v)([\w.]+)",
    "docs/install.md": r"gguftool-(\d[\w.]*?)-py3",
    "fixtures/hooks/gitlab-ci.yml": r"gguftool@v([\w.]+)",
}
"""Files that name a version, and how."""


def version(root: Path) -> str:
    """The version as its one home has it, or "" where that is none to release."""
    said = re.search(r'__version__ = "([^"]+)"', (root / "gguftool" / "version.py").read_text(encoding="utf-8"))
    return said[1] if said and VERSION.fullmatch(said[1]) else ""


def of_version(root: Path) -> list[str]:
    """It can be released."""
    return [] if version(root) else ["gguftool/version.py: no version of the form 1.2.3 or 1.2.3rc1"]


def of_citation(root: Path) -> list[str]:
    """CITATION.cff says the same."""
    said = re.search(r"^version: *\"?([^\s\"]+)", (root / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    return (
        [] if said and said[1] == version(root) else [f"CITATION.cff: version {said and said[1]}, not {version(root)}"]
    )


def of_examples(root: Path) -> list[str]:
    """What people copy names this version."""
    found = []
    for name, pattern in EXAMPLES.items():
        said = set(re.findall(pattern, (root / name).read_text(encoding="utf-8")))
        if said != {version(root)}:
            found.append(f"{name}: names {', '.join(sorted(said)) or 'none'}, not {version(root)}")
    return found


def of_changelog(root: Path) -> list[str]:
    """The changelog has it with its day, and nothing above."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = []
    if not re.search(rf"^## \[{re.escape(version(root))}\] - \d{{4}}-\d\d-\d\d$", text, re.M):
        found.append(f"CHANGELOG.md: no '## [{version(root)}] - YYYY-MM-DD'")
    waiting = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## \[|\Z)", text, re.M | re.S)
    if waiting and waiting[1].strip():
        found.append("CHANGELOG.md: something stands under Unreleased")
    return found


def of_pages(root: Path) -> list[str]:
    """What is made of the code is in step."""
    words = [_python(root), "scripts/docs.py", "--check"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
    return [(done.stderr.strip().splitlines() or ["scripts/docs.py failed"])[-1]] if done.returncode else []


def of_pythons(root: Path) -> list[str]:
    """The classifiers name the Pythons that the table of docs/install.md has."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = {c.rpartition(" :: ")[2] for c in project["classifiers"] if re.search(r"Python :: 3\.\d+$", c)}
    rows = re.findall(
        r"^\| (3\.\d+)\.\d+ \| [\w.-]+ \| \d+ passed", (root / "docs/install.md").read_text("utf-8"), re.M
    )
    return [] if said == set(rows) else [f"classifiers: {sorted(said)}, run: {sorted(set(rows))} (docs/install.md)"]


def of_clean(root: Path) -> list[str]:
    """Nothing is uncommitted."""
    said = _git(root, "status", "--porcelain")
    return [f"git: uncommitted: {line[3:]}" for line in said.splitlines()[:5]]


def of_files(root: Path) -> list[str]:
    """The files of the release are there, and are what SHA256SUMS says."""
    dist, now = root / "dist", version(root)
    wanted = [f"gguftool-{now}-py3-none-any.whl", f"gguftool-{now}.tar.gz", f"gguftool-{now}.cdx.json"]
    sums = dist / "SHA256SUMS"
    lines = sums.read_text(encoding="utf-8").splitlines() if sums.is_file() else []
    said = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    found = []
    for name in wanted:
        if not (dist / name).is_file():
            found.append(f"dist/{name}: is not there (./dev package)")
        elif said.get(name) != hashlib.sha256((dist / name).read_bytes()).hexdigest():
            found.append(f"dist/{name}: is not what SHA256SUMS says")
    return found


def of_urls(root: Path) -> list[str]:
    """Where it lives is said."""
    urls = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"].get("urls", {})
    return [f"pyproject.toml: [project.urls] has no {name}" for name in ("Repository", "Changelog") if name not in urls]


def of_tag(root: Path) -> list[str]:
    """A signed tag at this commit."""
    name = f"v{version(root)}"
    at = _git(root, "rev-parse", "-q", "--verify", f"{name}^{{commit}}")
    if not at or at != _git(root, "rev-parse", "HEAD"):
        return [f"git: no tag {name} at this commit"]
    signed = "-----BEGIN" in _git(root, "cat-file", "tag", name)
    return [] if signed else [f"git: the tag {name} is not signed (git tag -s {name})"]


def of_signature(root: Path) -> list[str]:
    """The hashes are signed."""
    there = (root / "dist" / "SHA256SUMS.asc").is_file()
    return [] if there else ["dist/SHA256SUMS: no signature (gpg --armor --detach-sign dist/SHA256SUMS)"]


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=False)
    return done.stdout.strip() if not done.returncode else ""


def _python(root: Path) -> str:
    own = root / ".venv" / "bin" / "python"
    return str(own) if own.is_file() else sys.executable


CHECKS: dict[str, Callable[[Path], list[str]]] = {
    "version": of_version, "citation": of_citation, "examples": of_examples, "changelog": of_changelog,
    "pages": of_pages, "pythons": of_pythons, "clean": of_clean, "files": of_files, "urls": of_urls, "tag": of_tag,
    "signature": of_signature,
}  # fmt: skip
"""By the words of docs/releasing.md."""


def main() -> None:
    """Say of each whether it is done, and what is left."""
    root, left = Path(__file__).resolve().parents[2], 0
    for name, check in CHECKS.items():
        found = check(root)
        left += bool(found)
        print(f"{'to do' if found else 'ok':7}{name}")
        for line in found:
            print(f"       {line}")
    sys.exit(1 if left else 0)


if __name__ == "__main__":
    main()
