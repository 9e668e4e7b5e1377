"""The wheel and the source archive as they are built: complete, without rubbish, always the same bytes."""

from __future__ import annotations

import email
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "package"))
import contents  # noqa: E402
import making  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> tuple[making.Made, list[str]]:
    pytest.importorskip("hatchling")
    if contents.tracked(ROOT) is None:
        pytest.skip("no checkout of git: what belongs to the package is not known")
    return making.build(ROOT, tmp_path_factory.mktemp("package"))


def test_every_build_has_the_same_bytes(package: tuple[making.Made, list[str]]) -> None:
    """Another folder, clock, dates of files, umask, locale, zone, home, hash seed; and out of the source archive."""
    assert package[1] == []


def test_the_circumstances_are_other_ones(tmp_path: Path) -> None:
    """The copy that the second build starts from has other modes and dates."""
    for how in (making.PLAIN, making.OTHERWISE):
        making.copy(ROOT, tmp_path / str(how.umask), how)
    plain, other = (tmp_path / str(how.umask) / "dev" for how in (making.PLAIN, making.OTHERWISE))
    assert (plain.stat().st_mode & 0o777, other.stat().st_mode & 0o777) == (0o755, 0o700)
    assert other.stat().st_mtime == making.OTHERWISE.mtime != plain.stat().st_mtime


def test_the_wheel_holds_what_it_must(package: tuple[making.Made, list[str]]) -> None:
    names = contents.in_wheel(package[0].wheel)
    assert contents.faults_of_wheel(names, contents.tracked(ROOT, new=True)) == []


def test_the_source_archive_holds_all_that_is_tracked(package: tuple[making.Made, list[str]]) -> None:
    names = contents.in_sdist(package[0].sdist)
    assert contents.faults_of_sdist(names, contents.tracked(ROOT, new=True)) == []
    for name in ("CONTRIBUTING.md", "SECURITY.md", "Makefile", "action.yml", ".pre-commit-hooks.yaml", "CITATION.cff"):
        assert name in names


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gguftool/__pycache__/x.pyc", "rubbish"),
        ("gguftool/x.py.orig", "rubbish"),
        ("gguftool/a model.gguf.gguftool-journal", "rubbish"),
        ("tests/test_x.py", "does not belong"),
        ("gguftool-0.1.0.data/scripts/x", "does not belong"),
        ("gguftool/new.json", "unknown to git"),
    ],
)
def test_faults_of_a_wheel_are_seen(name: str, said: str) -> None:
    assert any(said in fault for fault in contents.faults_of_wheel({name}, {"gguftool/py.typed"}))
    assert "not in the wheel: gguftool/py.typed" in contents.faults_of_wheel({name}, {"gguftool/py.typed"})


def test_man_pages_may_stand_in_the_wheel() -> None:
    assert contents.ALONE.match("gguftool-0.1.0.data/data/share/man/man1/gguftool-lint.1")


def test_metadata(package: tuple[making.Made, list[str]]) -> None:
    with zipfile.ZipFile(package[0].wheel) as z:
        (name,) = (n for n in z.namelist() if n.endswith("/METADATA"))
        said = email.message_from_bytes(z.read(name))
    from gguftool import __version__

    assert said["Version"] == __version__
    assert said["License-Expression"] == "MIT"
    files = said.get_all("License-File")
    assert files is not None
    assert {"LICENSE", "NOTICE.md", "LICENSES/MIT.txt"} <= set(files)
    assert said["Description-Content-Type"] == "text/markdown"
    assert set(said.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    # What was run, and only that (docs/versions.md).
    pythons = [c for c in said.get_all("Classifier") or () if c.startswith("Programming Language :: Python :: 3.")]
    assert pythons[0].endswith("3.11")
    assert said["Requires-Python"] == ">=3.11"


def test_no_address_of_a_registry() -> None:
    """Nobody's index has gguftool, and none is named."""
    text = (ROOT / "pyproject.toml").read_text()
    assert not any(host in text for host in ("pypi.org", "pythonhosted.org", "registry.npmjs"))
