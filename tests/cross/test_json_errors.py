"""Whatever ends a command, with --format json there is one object, and it is what the schema of the command says."""

from __future__ import annotations

import errno
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from gguftool import errors
from gguftool.cli.group import TABLE, gguftool
from gguftool.cli.options import Session
from gguftool.endings import Ended
from gguftool.source import LocalFile
from tests.build import llama
from tests.json_schemas import check_schema

KINDS: dict[str, tuple[BaseException, int, str]] = {
    "missing file": (errors.MissingFile("m"), 2, "missing-file"),
    "a bad option": (click.UsageError("m"), 2, "usage"),
    "a bad value": (errors.UsageError("m \ud800 \x1b"), 2, "usage"),
    "no GGUF": (errors.NotGguf("m", kind="html"), 3, "not-gguf"),
    "truncated": (errors.FormatError("m", offset=1), 3, "not-readable"),
    "no permission": (PermissionError(errno.EACCES, "Permission denied", "x.gguf"), 3, "unreadable"),
    "bad disk": (OSError(errno.EIO, "Input/output error"), 3, "unreadable"),
    "full disk": (OSError(errno.ENOSPC, "No space left on device", "x.gguf"), 5, "no-room"),
    "quota": (OSError(errno.EDQUOT, "Quota exceeded", "x.gguf"), 5, "no-room"),
    "read only": (OSError(errno.EROFS, "Read-only file system", "x.gguf"), 4, "refused"),
    "no memory": (MemoryError(), 5, "no-room"),
    "no network": (ConnectionResetError(errno.ECONNRESET, "Connection reset"), 6, "tool-failed"),
    "another program went": (BrokenPipeError(errno.EPIPE, "Broken pipe"), 6, "tool-failed"),
    "a journal": (errors.InterruptedEdit("m", "h"), 7, "interrupted-edit"),
    "Ctrl-C": (KeyboardInterrupt(), 130, "interrupted"),
    "SIGTERM": (Ended(signal.SIGTERM), 143, "interrupted"),
    "SIGHUP": (Ended(signal.SIGHUP), 129, "interrupted"),
    "a bug": (RecursionError("maximum recursion depth exceeded"), 70, "internal"),
    "our bug": (errors.Bug("KeyError: x", "m.gguf"), 70, "internal"),
}


def _commands() -> Iterator[tuple[str, str, click.Command]]:
    with gguftool.make_context("gguftool", ["--version"], resilient_parsing=True) as ctx:
        for entry in TABLE:
            command = gguftool.get_command(ctx, entry.name)
            assert command is not None
            option = next((p for p in command.params if p.name == "format"), None)
            for form in getattr(getattr(option, "type", None), "choices", ()):
                if form in ("json", "jsonl"):
                    yield entry.name, form, command


COMMANDS = list(_commands())


def _words(name: str, command: click.Command) -> list[str]:
    """What must be there for the command to begin."""
    if name == "quantize":
        return ["x.gguf", "y.gguf", "Q8_0"]
    needed = [p for p in command.params if isinstance(p, click.Argument) and p.required]
    more = ["-o", "y.gguf"] if name in ("merge", "prepare") else []
    return [*("x.gguf" for p in needed for _ in range(max(1, p.nargs))), *more]


@pytest.mark.parametrize(("name", "form", "command"), COMMANDS, ids=[f"{n}-{f}" for n, f, _ in COMMANDS])
def test_every_kind_of_failure(name: str, form: str, command: click.Command, cli, monkeypatch) -> None:
    words = _words(name, command)
    for kind, (error, code, said) in KINDS.items():

        def fails(*args: object, error: BaseException = error, **kwargs: object) -> None:
            raise error

        monkeypatch.setattr(command, "callback", fails)
        done = cli(name, *words, "--format", form)
        assert done.code == code, (kind, done.err)
        found = json.loads(done.out)
        check_schema(found)
        assert found["format"] == f"gguftool.{name}/1"
        assert (found["ok"], [row["code"] for row in found["errors"]]) == (False, [said]), kind
        assert "\x1b" not in done.out + done.err


@pytest.mark.parametrize("name", sorted({n for n, form, _ in COMMANDS if form == "json"}))
def test_a_failure_behind_the_object_makes_no_second_one(name: str, cli, monkeypatch) -> None:
    """What reads it would take two objects for none."""
    command = next(c for n, form, c in COMMANDS if n == name)

    def late(*args: object, **kwargs: object) -> None:
        click.get_current_context().find_object(Session).write_json(ok=True, body={"x": 1})  # type: ignore[union-attr]
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "callback", late)
    done = cli(name, *_words(name, command), "--format", "json")
    assert (done.code, json.loads(done.out)["x"]) == (130, 1)


def test_a_file_that_may_not_be_read(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for anybody who is not root: the real way through each reading command."""
    path = llama().write(tmp_path / "m.gguf")

    def refused(self: LocalFile, *args: object, **kwargs: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(LocalFile, "__init__", refused)
    for name in ("dump", "lint", "verify", "hash", "plan", "compat", "scan", "launch"):
        done = cli(name, str(path), "--format", "json")
        assert done.code in (1, 3), (name, done.err)
        assert done.json["ok"] is False
