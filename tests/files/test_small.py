"""Pictures, lists, logs: an older one of ours is replaced or goes on, anything else stays as it is."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gguftool.errors import Refused
from gguftool.files.small import append, begin_log, write_file
from tests.files.writers import writer


class TestSmall:
    @staticmethod
    def mine(begin: bytes) -> bool:
        return begin.startswith(b"mine")

    def test_only_an_older_one_of_ours_is_replaced(self, tmp_path: Path):
        path = tmp_path / "x"
        for text in ("mine 1", "mine 2"):
            write_file(str(path), text, mine=self.mine, what="list")
            assert path.read_text() == text
        path.write_text("yours")
        with pytest.raises(Refused, match="no list"):
            write_file(str(path), "mine 3", mine=self.mine, what="list")
        assert path.read_text() == "yours"

    def test_it_hands_on_what_the_older_one_had(self, tmp_path: Path):
        path, link = tmp_path / "x", tmp_path / "link"
        path.write_text("mine")
        path.chmod(0o600)
        link.symlink_to(path)
        write_file(str(link), "mine too", mine=self.mine, what="list")
        assert link.is_symlink()
        assert (path.read_text(), stat.S_IMODE(path.stat().st_mode)) == ("mine too", 0o600)

    def test_a_device_is_written_to(self):
        write_file(os.devnull, "x", mine=self.mine, what="list")

    def test_half_a_line_is_ended(self, tmp_path: Path):
        path = tmp_path / "rows"
        append(str(path), ["a"])
        with path.open("a") as f:
            f.write('{"half')
        append(str(path), ["b", "c"])
        assert path.read_text() == 'a\n{"half\nb\nc\n'

    def test_a_log_replaces_a_log_and_nothing_else(self, tmp_path: Path):
        path = tmp_path / "x"
        for word in ("one", "two"):
            with begin_log(str(path), ["server", word]) as log:
                log.write(b"said\n")
            assert path.read_text() == f"$ server {word}\nsaid\n"
        path.write_bytes(b"GGUF")
        with pytest.raises(Refused, match="no log"):
            begin_log(str(path), ["server"])
        assert path.read_bytes() == b"GGUF"


@pytest.mark.parametrize("name", ["plan", "kv-test"])
def test_a_picture_never_takes_the_place_of_another_file(name: str, tmp_path: Path, cli):
    """And that is said before the work begins."""
    made = writer("quantize", tmp_path)
    picture = tmp_path / "p.svg"
    picture.write_text("<svg>of somebody else's</svg>")
    result = cli(name, made.sources[0], "--plot", picture)
    assert result.code == 4, result.err
    assert str(picture) in result.err
    assert picture.read_text() == "<svg>of somebody else's</svg>"


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_a_picture_of_ours_is_drawn_anew(suffix: str, tmp_path: Path, cli):
    pytest.importorskip("matplotlib")
    made = writer("quantize", tmp_path)
    picture = tmp_path / f"p.{suffix}"
    for ctx in (256, 512):
        assert cli("plan", made.sources[0], "--ctx", ctx, "--plot", picture).code == 0
    assert sorted(os.listdir(tmp_path)) == ["m.gguf", picture.name]


@pytest.mark.parametrize("command", [["quantize", "{}", "out.gguf", "Q8_0"], ["launch", "{}", "--check-only"]], ids=str)
def test_a_log_never_takes_the_place_of_a_model(command: list[str], tmp_path: Path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made = writer("quantize", tmp_path)
    before = made.sources[0].read_bytes()
    log = tmp_path / "precious.gguf"
    log.write_bytes(before)
    result = cli(*(word.format(made.sources[0]) for word in command), "--log", log)
    assert result.code == 2, result.err
    assert "is a model" in result.err
    assert log.read_bytes() == before


@pytest.mark.real
def test_nor_of_anything_else(smollm2: Path, tmp_path: Path, cli):
    pytest.importorskip("xllamacpp")
    log = tmp_path / "notes.txt"
    log.write_text("precious")
    result = cli("launch", smollm2, "--ctx", 512, "--check-only", "--port", 0, "--force", "--log", log)
    assert result.code == 4, result.err
    assert str(log) in result.err
    assert log.read_text() == "precious"


def test_links_of_a_killed_run_are_no_obstacle(tmp_path: Path, cli):
    made = writer("merge", tmp_path)
    shard, folder = made.sources[0], tmp_path / "links"
    folder.mkdir()
    (folder / shard.name).symlink_to(shard)
    for _ in range(2):
        assert cli("verify", "--repair-names", "--link-to", folder, "--yes", shard).code == 0
        assert sorted(os.listdir(folder)) == sorted(p.name for p in made.sources)


def test_a_scan_goes_on_behind_half_a_row(tmp_path: Path, cli):
    made = writer("quantize", tmp_path)
    rows = tmp_path / "rows"
    rows.write_text('{"path": "x", "sta')
    assert cli("scan", made.sources[0], "--resume", rows).code == 0
    again = cli("scan", made.sources[0], "--resume", rows, "--format", "json")
    assert again.code == 0
    assert len(rows.read_text().splitlines()) == 2
