"""Errors become the exit codes of docs/cli.md, a message, a hint and, where asked for, JSON; never a traceback."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

from gguftool import errors
from gguftool.cli.boundary import failure
from gguftool.cli.group import LazyGroup
from gguftool.cli.options import command, format_option
from gguftool.report.text import safe


@pytest.fixture
def raising(monkeypatch: pytest.MonkeyPatch, cli) -> Callable[..., object]:
    """Run a command that raises the given error: the boundary's own behaviour, whatever the commands do."""

    def run(error: BaseException, *args: str):
        @command(examples="gguftool dump")
        @format_option("text", "json", "jsonl")
        def dump() -> None:
            """Raise."""
            raise error

        monkeypatch.setattr(LazyGroup, "get_command", lambda self, ctx, name: dump)
        return cli("dump", *args)

    return run


EXPECTED = [
    (errors.UsageError("m"), 2, "usage"),
    (errors.MissingFile("m"), 2, "missing-file"),
    (errors.FormatError("m"), 3, "not-readable"),
    (errors.NotGguf("m", kind="html"), 3, "not-gguf"),
    (errors.Unreadable("m"), 3, "unreadable"),
    (errors.Refused("m"), 4, "refused"),
    (errors.ChangedMeanwhile("m"), 4, "changed-meanwhile"),
    (errors.NoRoom("m"), 5, "no-room"),
    (errors.ToolFailed("m"), 6, "tool-failed"),
    (errors.InterruptedEdit("m"), 7, "interrupted-edit"),
    (errors.EditInProgress("m"), 7, "edit-in-progress"),
    (errors.DamagedJournal("m"), 7, "damaged-journal"),
    (click.UsageError("m"), 2, "usage"),
    (FileNotFoundError(errno.ENOENT, "No such file", "x.gguf"), 2, "missing-file"),
    (PermissionError(errno.EACCES, "Permission denied", "x.gguf"), 3, "unreadable"),
    (IsADirectoryError(errno.EISDIR, "Is a directory", "x"), 3, "unreadable"),
    (OSError(errno.EIO, "Input/output error", "x.gguf"), 3, "unreadable"),
    (OSError(errno.ENOSPC, "No space left on device", "x.gguf"), 5, "no-room"),
    (OSError(errno.EROFS, "Read-only file system", "x.gguf"), 4, "refused"),
    (MemoryError(), 5, "no-room"),
    (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), 6, "tool-failed"),
    (errors.Bug("m"), 70, "internal"),
    (KeyError("x"), 70, "internal"),
]


@pytest.mark.parametrize(("error", "exit_code", "code"), EXPECTED, ids=lambda value: type(value).__name__)
def test_every_error_has_its_exit_code(raising, error, exit_code: int, code: str):
    found = failure(error)
    assert (found.exit_code, found.code) == (exit_code, code)
    text = raising(error)
    assert (text.code, text.out) == (exit_code, "")
    assert text.err.startswith("error: ")
    assert "Traceback" not in text.err
    json = raising(error, "--format", "json")
    assert json.code == exit_code
    assert json.json["ok"] is False
    assert [row["code"] for row in json.json["errors"]] == [code]


def test_every_error_class_is_in_the_table():
    def below(kind: type) -> set[type]:
        return {kind}.union(*(below(sub) for sub in kind.__subclasses__()))

    ours = {kind for kind in below(errors.GgufToolError) if kind.__module__ == "gguftool.errors"}
    assert ours - {type(error) for error, *_ in EXPECTED} == {errors.GgufToolError, errors.EditPending}


def test_message_and_hint(raising):
    result = raising(errors.Refused("x.gguf: has 2 hard links", "gguftool fix --hard-links x.gguf"))
    assert result.err == "error: x.gguf: has 2 hard links\nhint: gguftool fix --hard-links x.gguf\n"


def test_message_cannot_drive_the_terminal(raising):
    result = raising(errors.FormatError("key \x1b[2J\u202e\udcff is bad"))
    assert result.err == "error: key \\x1b[2J\\u202e\\xff is bad\n"
    assert result.err.rstrip("\n") == safe(result.err.rstrip("\n"))


def test_jsonl_is_one_line(raising):
    result = raising(errors.NoRoom("m"), "--format=jsonl")
    assert result.out.count("\n") == 1
    assert result.json["format"] == "gguftool.dump/1"


def test_usage_error_in_json(cli):
    result = cli("completion", "--format", "json")
    assert result.code == 2
    assert result.json["format"] == "gguftool.completion/1"
    assert result.json["errors"][0]["code"] == "usage"


def test_a_bug_says_so_and_shows_the_traceback_only_when_asked(raising, monkeypatch):
    quiet = raising(ZeroDivisionError("boom"))
    assert quiet.code == 70
    assert "this is a bug in gguftool: ZeroDivisionError: boom" in quiet.err
    assert "GGUFTOOL_DEBUG=1" in quiet.err
    assert "Traceback" not in quiet.err
    assert "Traceback" in raising(ZeroDivisionError("boom"), "-v").err
    monkeypatch.setenv("GGUFTOOL_DEBUG", "1")
    assert "Traceback" in raising(ZeroDivisionError("boom")).err


@pytest.mark.parametrize("error", [KeyboardInterrupt(), click.Abort()])
def test_interrupt(raising, error: BaseException):
    result = raising(error)
    assert result.code == 130
    assert result.err.strip() == "error: interrupted"


def test_closed_pipe_is_quiet():
    command_line = [sys.executable, "-m", "gguftool", "completion", "zsh"]
    with subprocess.Popen(command_line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


def test_broken_pipe_to_another_program_is_not_taken_for_ours(raising):
    result = raising(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert result.code == 6


def test_terminal_that_cannot_show_a_character(program):
    result = program("nämé", env={"PYTHONIOENCODING": "ascii"})
    assert result.code == 2
    assert "\\xe4" in result.err


@pytest.mark.parametrize(
    ("args", "env", "coloured"),
    [
        (["--color", "always"], {}, True),
        ([], {}, False),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"CLICOLOR_FORCE": "1"}, True),
        ([], {"FORCE_COLOR": "1", "TERM": "dumb"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "0", "CLICOLOR_FORCE": "0"}, False),
        ([], {"FORCE_COLOR": "", "NO_COLOR": ""}, False),
    ],
)
def test_color(program, args: list[str], env: dict[str, str], coloured: bool):
    quiet = {"NO_COLOR": "", "FORCE_COLOR": "", "CLICOLOR_FORCE": ""}
    result = program(*args, "completion", "tcsh", env=quiet | env)
    assert result.code == 2
    assert ("\x1b[31merror:\x1b[0m" in result.err) is coloured
