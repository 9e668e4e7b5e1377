"""What prepare publishes: nothing that was for the work is left in it, and its name says what it holds."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from gguftool.model import open_model
from tests.build import llama
from tests.building.test_prepare import WISH, Cli

pytestmark = pytest.mark.usefixtures("built_in")


def test_what_is_published_carries_no_room(cli: Cli, tmp_path: Path):
    """Room for edits, a default that is written down: what the source had is gone, too."""
    built = llama(layers=2).kv("gguftool.pad", " " * 5000).kv("general.alignment", 32).write(tmp_path / "in.gguf")
    assert cli("prepare", built, "-o", tmp_path / "out.gguf", "--fail-on", "never").code == 0
    with open_model(tmp_path / "out.gguf") as made:
        assert not [key for key in made.fields if key.startswith("gguftool.pad")]
        assert "general.alignment" not in made


def test_a_repository_that_is_none(cli: Cli, source: Path, tmp_path: Path):
    assert cli("prepare", source, "-o", tmp_path / "out.gguf", "--repo", "no repository").code == 2
    assert not (tmp_path / "out.gguf.prepare").exists()


def test_a_name_that_says_another_quantisation(cli: Cli, source: Path, tmp_path: Path):
    wrong = cli("prepare", source, "-o", tmp_path / "Foo-Q4_K_M.gguf", *WISH)
    assert wrong.code == 0
    assert "Foo-Q4_K_M.gguf says Q4_K_M by its name, it will hold Q8_0" in wrong.err
    for name in ("Foo-q8_0.gguf", "Foo.gguf", "Foo-UD-Q8_K_XL.gguf"):
        assert "by its name" not in cli("prepare", source, "-o", tmp_path / name, *WISH).err


def test_for_an_upload_it_holds_no_records_and_is_listed(cli: Cli, source: Path, tmp_path: Path):
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  other.gguf\n")
    out = tmp_path / "out.gguf"
    done = cli("prepare", source, "-o", out, "--publish", *WISH, "--format", "json")
    assert done.code == 0
    with open_model(out) as made:
        assert not [key for key in made.fields if key.startswith("gguftool.")]
    digest = hashlib.sha256(out.read_bytes()).hexdigest()
    listed = (tmp_path / "SHA256SUMS").read_text().splitlines()
    assert sorted(listed) == sorted([f"{'0' * 64}  other.gguf", f"{digest}  out.gguf"])
    step = next(s for s in done.json["steps"] if s["name"] == "manifest")
    assert step["data"]["sums"] == str(tmp_path / "SHA256SUMS")
    # Asked for later, it is done then.
    again = cli("prepare", source, "-o", tmp_path / "two.gguf", *WISH)
    assert again.code == 0
    assert "two.gguf" not in (tmp_path / "SHA256SUMS").read_text()
    with open_model(tmp_path / "two.gguf") as made:
        assert "gguftool.version" in made
