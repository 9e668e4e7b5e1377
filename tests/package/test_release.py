"""The release checklist: each word in brackets is a check, and each check sees what is wrong."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "package"))
import release  # noqa: E402

INSTALL = """gguftool-1.2.3-py3-none-any.whl
| 3.11.7 | lowest | 12 passed | x |
| 3.12.1 | lowest | 1 failed, 3 passed | x |
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One in which everything is done but what git and dist/ have."""
    files = {
        "gguftool/version.py": '__version__ = "1.2.3"\n',
        "CITATION.cff": "cff-version: 1.2.0\nversion: 1.2.3\n",
        "docs/hooks.md": "rev: v1.2.3\nuses: example/gguftool@v1.2.3\n",
        "docs/install.md": INSTALL,
        "fixtures/hooks/gitlab-ci.yml": "# git+https://HOST/gguftool@v1.2.3, or\n",
        "CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-12-01\n\n- All.\n",
        "pyproject.toml": '[project]\nclassifiers = ["Programming Language :: Python :: 3.11"]\n'
        'urls = {Repository = "https://example.org/x", Changelog = "https://example.org/y"}\n',
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_the_list_and_the_checks_are_one() -> None:
    page = (ROOT / "docs" / "releasing.md").read_text()
    assert set(re.findall(r"\[([a-z]+)\](?!\()", page)) == set(release.CHECKS)


@pytest.mark.parametrize("name", ["version", "citation", "examples", "changelog", "pythons", "urls"])
def test_what_is_done_is_silent(name: str, tree: Path) -> None:
    assert release.CHECKS[name](tree) == []


@pytest.mark.parametrize(
    ("name", "file", "old", "new"),
    [
        ("version", "gguftool/version.py", "1.2.3", "1.2.3.dev0"),
        ("citation", "CITATION.cff", "version: 1.2.3", "version: 1.2.2"),
        ("examples", "docs/hooks.md", "rev: v1.2.3", "rev: v1.2.2"),
        ("examples", "docs/install.md", "gguftool-1.2.3-py3", "gguftool-1.2.2-py3"),
        ("changelog", "CHANGELOG.md", " - 2026-12-01", ""),
        ("changelog", "CHANGELOG.md", "[Unreleased]\n", "[Unreleased]\n\n- More.\n"),
        ("pythons", "docs/install.md", "1 failed, 3 passed", "4 passed"),
        ("pythons", "docs/install.md", "12 passed", "1 failed, 11 passed"),
        ("urls", "pyproject.toml", "Repository", "Homepage"),
    ],
)
def test_what_is_left_is_told(name: str, file: str, old: str, new: str, tree: Path) -> None:
    text = (tree / file).read_text()
    assert old in text
    (tree / file).write_text(text.replace(old, new))
    assert release.CHECKS[name](tree) != []


def test_files_and_their_hashes(tree: Path) -> None:
    assert len(release.of_files(tree)) == 3
    (tree / "dist").mkdir()
    names = [f"gguftool-1.2.3{end}" for end in ("-py3-none-any.whl", ".tar.gz", ".cdx.json")]
    for name in names:
        (tree / "dist" / name).write_text(name)
    sums = subprocess.run(["sha256sum", *names], cwd=tree / "dist", capture_output=True, text=True, check=True).stdout
    (tree / "dist" / "SHA256SUMS").write_text(sums)
    assert release.of_files(tree) == []
    (tree / "dist" / names[0]).write_text("another")
    assert release.of_files(tree) == [f"dist/{names[0]}: is not what SHA256SUMS says"]
    assert release.of_signature(tree) != []
    (tree / "dist" / "SHA256SUMS.asc").write_text("-----BEGIN PGP SIGNATURE-----\n")
    assert release.of_signature(tree) == []


def test_git(tree: Path) -> None:
    def git(*words: str) -> None:
        named = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *named, *words], cwd=tree, check=True, capture_output=True)

    git("init", "-q", ".")
    assert release.of_clean(tree) != []
    git("add", "-A")
    git("commit", "-q", "-m", "x")
    assert release.of_clean(tree) == []
    assert release.of_tag(tree) == ["git: no tag v1.2.3 at this commit"]
    git("tag", "-a", "-m", "x", "v1.2.3")
    assert "not signed" in release.of_tag(tree)[0]
    git("commit", "-q", "--allow-empty", "-m", "y")
    assert release.of_tag(tree) == ["git: no tag v1.2.3 at this commit"]


def test_of_this_checkout() -> None:
    """What must always be so: the one version, its citation, the examples, the Pythons that were run."""
    for name in ("version", "citation", "examples", "pythons"):
        assert release.CHECKS[name](ROOT) == [], name
