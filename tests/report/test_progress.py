"""Progress: rate and time left, on a terminal only, and gone when it is done."""

from __future__ import annotations

import io
import os
import pty
import sys
from pathlib import Path

import pytest

from gguftool.report import progress as module
from gguftool.report.progress import Progress, clock


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (7.4, "0:07"), (59.6, "1:00"), (754, "12:34"), (3723, "1:02:03"), (90000, "25:00:00")],
)
def test_clock(seconds: float, shown: str):
    assert clock(seconds) == shown


def test_line():
    progress = Progress(1 << 30, None, "hashing")
    progress(1 << 28)
    assert progress.line(0.5) == "hashing  25%  256.0 MiB of 1.0 GiB  512.0 MiB/s  0:02 left"
    # How much there is is not known: no part of it, and no time.
    assert Progress(0, None).line(0.0) == "hashing 0 B  0 B/s"


def test_shown_late_overwritten_and_taken_away(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    stream = io.StringIO()
    with Progress(1000, stream) as progress:
        progress(100)
        assert stream.getvalue() == ""
        now[0] += 1
        progress(100)
        now[0] += 0.01
        progress(100)
        now[0] += 1
        progress(700)
    lines = stream.getvalue().split("\r")
    assert [line.strip()[:12] for line in lines[1:3]] == ["hashing  20%", "hashing 100%"]
    assert lines[-1] == ""
    assert lines[-2].strip() == ""


def test_on_a_terminal_and_not_in_a_pipe(program, tmp_path: Path):
    path = tmp_path / "big"
    with open(path, "wb") as f:
        f.truncate(1 << 31)
    small = tmp_path / "small"
    small.write_bytes(b"x")
    assert program("hash", small).err == ""
    pid, terminal = pty.fork()
    if pid == 0:
        out = os.open(os.devnull, os.O_WRONLY)
        os.dup2(out, 1)
        os.execv(sys.executable, [sys.executable, "-m", "gguftool", "hash", str(path)])
    shown = b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert b"hashing" in shown
    assert b"MiB/s" in shown or b"GiB/s" in shown
    assert b"left" in shown


class _Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_wider_than_the_terminal_and_gone_before_a_note(monkeypatch):
    from gguftool.cli.options import Session

    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setattr(module, "DELAY", 0)
    monkeypatch.setattr(module, "EVERY", 0)
    screen = _Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(1 << 30, screen) as progress:
        progress(1 << 28)
        shown = screen.getvalue()
        assert len(shown.removeprefix("\r")) == 29
        Session().note("a note")
        assert screen.getvalue() == f"{shown}\r{' ' * 29}\ra note\n"
        progress(1 << 28)
    assert screen.getvalue().endswith(f"\r{' ' * 29}\r")


def test_no_command_writes_escapes_of_its_own():
    """A line that is written over needs none (TERM=dumb), colours come from `Style`, which knows when there are any."""
    import gguftool

    found = {
        path.name
        for path in (Path(gguftool.__file__).parent / "cli").rglob("*.py")
        if "\\x1b" in path.read_text(encoding="utf-8") or "\\033" in path.read_text(encoding="utf-8")
    }
    assert found == set()
