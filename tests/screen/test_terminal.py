"""`gguftool edit` from outside: terminals, signals, colours, what is there without a terminal or without the extra."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COLOURS = re.compile(rb"\x1b\[[0-9;]*\b(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


class Terminal:
    """A program on a terminal of its own, typed to."""

    def __init__(self, *words: str, env: dict[str, str]) -> None:
        import fcntl
        import struct
        import termios

        self.master, self.slave = os.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        quiet = {"NO_COLOR": "", "TERM": "xterm-256color", "PYTHONPATH": str(Path(__file__).parents[2])}
        self.program = subprocess.Popen(
            [sys.executable, "-m", "gguftool", *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**os.environ, **quiet, **env},
            start_new_session=True,
        )
        self.out = b""

    def until(self, text: bytes, seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while text not in self.out:
            ready, _, _ = select.select([self.master], [], [], 0.2)
            if ready:
                self.out += os.read(self.master, 1 << 16)
            assert time.monotonic() < end, f"{text!r} did not come; there was {self.out[-2000:]!r}"

    def type(self, text: bytes) -> None:
        os.write(self.master, text)

    def end(self) -> int:
        import termios

        end = time.monotonic() + 120
        while self.program.poll() is None and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.out += os.read(self.master, 1 << 16)
        assert self.program.poll() is not None
        while select.select([self.master], [], [], 0.1)[0]:
            self.out += os.read(self.master, 1 << 16)
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not as it was"
        os.close(self.master)
        os.close(self.slave)
        return self.program.wait()


def test_a_signal_leaves_the_terminal_and_the_file_as_they_were(model: Path):
    pytest.importorskip("textual")
    before = model.read_bytes()
    terminal = Terminal("edit", str(model), env={"NO_COLOR": "1"})
    terminal.until(b"2 findings")
    terminal.type(b"nx")
    terminal.until(b"1 change not written")
    terminal.program.send_signal(signal.SIGTERM)
    assert terminal.end() == 143
    assert (model.read_bytes(), os.listdir(model.parent)) == (before, ["m.gguf"])
    last = terminal.out.rpartition(b"\x1b[?1049l")[2]
    assert b"1 change not written; to make the same: gguftool fix" in b" ".join(last.split())
    assert b"ended by SIGTERM" in last
    assert not COLOURS.findall(terminal.out)


def test_a_terminal_that_takes_nothing_keeps_nobody(model: Path):
    """Ctrl-S, or a program that does not read: the screen cannot be drawn to its end."""
    pytest.importorskip("textual")
    before = model.read_bytes()
    terminal = Terminal("edit", str(model), env={})
    terminal.until(b"findings")
    for _ in range(40):
        terminal.type(b"\x1b[B" * 10 + b"\x1b[A" * 10)
        time.sleep(0.02)
    terminal.program.send_signal(signal.SIGTERM)
    end = time.monotonic() + 60
    while terminal.program.poll() is None and time.monotonic() < end:
        time.sleep(0.1)
    assert terminal.program.poll() == 143
    assert model.read_bytes() == before
    os.close(terminal.master)
    os.close(terminal.slave)


def test_what_was_written_is_told_when_the_screen_has_gone(model: Path):
    pytest.importorskip("textual")
    terminal = Terminal("edit", str(model), env={})
    terminal.until(b"findings")
    terminal.type(b"nxw")
    terminal.until(b"enter writes it")
    assert COLOURS.search(terminal.out)
    terminal.type(b"\r")
    terminal.until(b"1 edit on record")
    terminal.type(b"\x03")
    assert terminal.end() == 0
    last = b" ".join(terminal.out.rpartition(b"\x1b[?1049l")[2].split())
    assert b"1 change in" in last
    assert b"undo: gguftool undo" in last
    assert sorted(os.listdir(model.parent)) == ["m.gguf", "m.gguf-undo-1"]


def test_without_a_terminal(program, model: Path):
    done = program("edit", str(model))
    assert done.code == 2
    assert "gguftool edit needs a terminal" in done.err
    assert f"without one: gguftool fix {model} --set 'KEY=…'" in done.err


def on_a_terminal(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    class Tty:
        def isatty(self) -> bool:
            return True

    for name in ("__stdin__", "__stderr__"):
        monkeypatch.setattr(sys, name, Tty())
    monkeypatch.setenv("TERM", term)


def test_a_terminal_that_cannot_be_drawn_on(cli, model: Path, monkeypatch: pytest.MonkeyPatch):
    on_a_terminal(monkeypatch, "dumb")
    done = cli("edit", model)
    assert (done.code, "TERM" in done.err, "gguftool fix" in done.err) == (2, True, True)


def test_without_the_extra(cli, model: Path, monkeypatch: pytest.MonkeyPatch):
    on_a_terminal(monkeypatch, "xterm")
    monkeypatch.setitem(sys.modules, "textual", None)
    done = cli("edit", model)
    assert done.code == 6
    assert "textual, which is not installed" in done.err
    assert "pip install 'gguftool[tui]'" in done.err


def test_what_is_no_model_is_told_as_by_every_command(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("textual")
    on_a_terminal(monkeypatch, "xterm")
    assert cli("edit", tmp_path / "none.gguf").code == 2
    (tmp_path / "page.gguf").write_bytes(b"<!DOCTYPE html>" * 20)
    assert cli("edit", tmp_path / "page.gguf").code == 3


def test_edit_with_options_of_fix_is_fix_as_before(cli, model: Path):
    done = cli("edit", model, "--set", "general.name=Foo", "-n", "--json")
    assert done.json["changes"] == cli("fix", model, "--set", "general.name=Foo", "-n", "--json").json["changes"]
    assert done.err == "note: with options this is `gguftool fix`\n"
    assert "gguftool edit MODEL" in cli("edit", "--help").out.replace("[OPTIONS] ", "")


def test_fix_says_that_there_is_a_screen(cli):
    assert "`gguftool edit`" in " ".join(cli("fix", "--help").out.split())
