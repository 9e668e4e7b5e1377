"""How far a scan has come: on a terminal only, with the rate at once and the time left as soon as all are counted."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from gguftool.cli.options import Session
from gguftool.cli.scan_progress import Watched
from gguftool.files.patterns import Patterns
from gguftool.fleet.row import blank
from gguftool.report import progress
from gguftool.report.progress import Progress
from tests.build import llama


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_words():
    shown = Progress(0, None, "scanned", lambda n: f"{n:,.0f} files")
    shown(1000)
    assert shown.line(10) == "scanned 1,000 files  100 files/s"
    shown.total = 7000
    assert shown.line(10) == "scanned  14%  1,000 files of 7,000 files  100 files/s  1:00 left"
    assert Progress(1 << 30, None).line(1).startswith("hashing   0%  0 B of 1.0 GiB")


@pytest.mark.parametrize("kind", ["terminal", "quiet", "file"])
def test_where_it_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str):
    for i in range(4):
        llama().write(tmp_path / f"m{i}.gguf")
    monkeypatch.setattr(progress, "DELAY", 0)
    monkeypatch.setattr(progress, "EVERY", 0)
    screen = io.StringIO() if kind == "file" else Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(sys, "stdout", Terminal())
    with Watched(Session(quiet=kind == "quiet"), [str(tmp_path)], Patterns((), ("m3*",))) as watched:
        watched.done(blank("a"))
        if kind == "terminal":
            watched._counter.join()
        watched.done(blank("b"))
        # What is written now must not stand behind it.
        watched.put_aside()
        said = screen.getvalue()
    if kind == "terminal":
        # The first before all are counted or after it, as it comes.
        assert "scanned" in said.partition("files")[0]
        assert "2 files of 3 files" in said
        assert said.endswith("\r")
        assert said.rstrip("\r").endswith(" ")
    else:
        assert said == ""


def test_a_scan_that_is_not_watched_says_nothing(cli, tmp_path: Path):
    llama().write(tmp_path / "m.gguf")
    assert cli("scan", "--no-lint", tmp_path).err == ""
