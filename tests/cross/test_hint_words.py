"""Every command that a hint, a note or a next step prints, on files with hostile names, as a shell reads it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gguftool.shell import quote
from tests.build import GGUF, llama
from tests.lint.badfiles import files
from tests.shell_words import SHELLS, calls

NAME = "-QZ a;$(touch PWNED)`touch PWNED`'\"\\ %s\x1b[31m\n{path}!x #&|<>QZ"
"""Everything a shell, a terminal or a format string might act on, between marks: a word with half of it is torn."""
MARK = "QZ"
PROGRAMS = ("gguftool", "tail", "head", "truncate", "chmod", "chattr", "mkdir", "rm", "mv", "cp", "git", "llama-server")
ENDS = (".gguf", "-00001-of-00003.gguf")
MADE = frozenset(
    {"whole.gguf", "second.gguf", "part1.gguf"} | {NAME + e + more for e in ENDS for more in ("", ".json")}
)
_LINE = re.compile(rf"(?:^|: |; |-> )((?:{'|'.join(PROGRAMS)}) .*)$")

COMMANDS = [
    line.split()
    for line in """
        dump -- {}
        dump --get nothing.like.it -- {}
        diff -- {} {}
        lint -- {}
        lint --baseline {} -- {}
        lint --baseline {}.json -- {}
        verify -- {}
        verify --hash -- {}
        verify --data -- {}
        verify --against {} -- {}
        verify --join {}.out -- {}
        hash --tensors -- {}
        plan -- {}
        launch --print -- {}
        fix --dry-run --set general.name=x -- {}
        fix --dry-run --auto -- {}
        fix -- {}
        fix --set general.name=x -- {}
        undo --list -- {}
        undo -- {}
        recover -- {}
        split --max-tensors 1 --dry-run -- {}
        merge -o {}.whole --dry-run -- {}
        quantize --dry-run -- {} Q8_0
        quantize -- {} {}/no/folder.gguf Q8_0
        convert --check -- {}
        scan -- {}
        prepare -o {}/no/ready.gguf -- {}
        check-log -- {}
        doctor -- {}
    """.strip().splitlines()
]


def broken(folder: Path) -> Iterator[Path]:
    """Files with hostile names, each broken in another way."""
    for name, data in files().items():
        place = folder / name
        place.mkdir()
        path = place / f"{NAME}.gguf"
        path.write_bytes(data)
        yield path
    for name, made in {
        "shard": llama().shard(0, 3, 99),
        "left": llama().shard(0, 2, len(llama()._tensors)),
        "old": GGUF("llama").kv("general.split", 1).kv("general.split_count", 2),
        "whole": llama(),
        "joined": llama().trailing(llama().bytes()),
    }.items():
        place = folder / name
        place.mkdir()
        yield made.write(place / f"{NAME}.gguf")
    place = folder / "named"
    place.mkdir()
    yield llama().shard(0, 3, 99).write(place / f"{NAME}-00001-of-00003.gguf")
    place = folder / "edited"
    place.mkdir()
    path = llama().write(place / f"{NAME}.gguf")
    Path(f"{path}-journal").write_bytes(b"GGUFTOOL")
    yield path
    place = folder / "read-only"
    place.mkdir()
    path = llama().write(place / f"{NAME}.gguf")
    path.chmod(0o444)
    yield path
    place = folder / "missing"
    place.mkdir()
    yield place / f"{NAME}.gguf"


def said(result: object) -> Iterator[str]:
    """All texts of an answer: lines of both streams, and strings of its JSON."""
    out, err = result.out, result.err  # type: ignore[attr-defined]
    yield from err.splitlines()
    try:
        stack = [json.loads(out)]
    except ValueError:
        yield from out.splitlines()
        return
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)


@pytest.mark.parametrize("form", ["text", "json"])
def test_every_printed_command_is_read_as_it_was_meant(cli, tmp_path: Path, monkeypatch, form: str) -> None:  # type: ignore[no-untyped-def]
    lines: dict[str, list[str]] = {}
    kinds: set[tuple[str, ...]] = set()
    models = tmp_path / "models"
    models.mkdir()
    for path in broken(models):
        monkeypatch.chdir(path.parent)
        for command in COMMANDS:
            words = [word.replace("{}", path.name) for word in command]
            result = cli(words[0], *(("--format", "json") if form == "json" else ()), *words[1:])
            assert result.code in range(8), (command, result.err)
            assert "\x1b" not in result.out + result.err, command
            for text in said(result):
                found = _LINE.search(text.removeprefix("hint: "))
                if found is not None and MARK in found[1]:
                    lines.setdefault(found[1], command)
                else:
                    assert not re.search(rf"gguftool [a-z-]+ [^:;]*{MARK}", text), text
    assert len(lines) > 15
    run = tmp_path / "shells"
    run.mkdir()
    for name in SHELLS:
        for line, command in lines.items():
            assert line.isprintable(), (command, line)
            read = calls(line, run, shell=name, programs=PROGRAMS, made=MADE)
            words = [word for call in read for word in call]
            ended = words.index("--") if "--" in words else len(words)
            kinds.add(tuple(w for w in words if MARK not in w)[:3])
            for i, word in enumerate(words):
                if MARK in word:
                    assert NAME in word, (command, line, words)
                    assert i > ended or not word.startswith(NAME), f"{line}: {word} is an option"
            made = os.listdir(run / "run")
            assert any(MARK in word for word in (*words, *made)), (command, line, words)
            for left in made:
                (run / "run" / left).unlink()
    assert len(kinds) > 8, kinds


def test_the_names_can_be_made(tmp_path: Path) -> None:
    (tmp_path / NAME).touch()
    assert os.listdir(tmp_path) == [NAME]


@pytest.mark.parametrize("shell", SHELLS)
def test_the_server_command_is_read_as_it_was_planned(cli, tmp_path: Path, monkeypatch, shell: str) -> None:  # type: ignore[no-untyped-def]
    model = llama().write(tmp_path / f"{NAME}.gguf")
    monkeypatch.chdir(tmp_path)
    for words in (["plan", "--ctx", "512"], ["launch", "--print", "--force", "--ctx", "512", "--alias", NAME]):
        answer = cli(*words, "--format", "json", "--", model.name).json
        argv = answer["command"]
        text = cli(*words, "--", model.name).out
        line = next(line.strip() for line in text.splitlines() if " -m " in line and quote(argv[0]) in line)
        assert line.isprintable()
        for said in (line, answer.get("shell", line)):
            program, _, rest = said.partition(" ")
            assert program == quote(argv[0])
            assert calls(f"gguftool {rest}", tmp_path, shell=shell) == [["gguftool", *argv[1:]]]
        assert any(NAME in word for word in argv)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_translated_command_is_read_as_it_was_written(cli, tmp_path: Path, shell: str) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "bin").mkdir()
    show = tmp_path / "bin" / "llama-server"
    show.write_text('#!/bin/sh\nprintf "%s\\0" "$X" "$MODEL" "$@"\n')
    show.chmod(0o755)
    line = f"X={shlex.quote(NAME)} MODEL='/my models/x.gguf' llama-server -m {shlex.quote(NAME)} -c 4096"
    found = cli("launch", "--translate", line, "--format", "json").json
    text = cli("launch", "--translate", line)
    assert "\x1b" not in text.out + text.err
    assert found["environment"] == [f"X={NAME}", "MODEL=/my models/x.gguf"]
    for said in (text.out.strip(), found["shell"]):
        runnable = said.replace(f" {quote(found['command'][0])} ", f" {show} ", 1)
        done = subprocess.run([shell, "-c", runnable], capture_output=True, cwd=tmp_path / "bin", check=True)
        words = [os.fsdecode(w) for w in done.stdout.split(b"\0")[:-1]]
        assert words == [NAME, "/my models/x.gguf", *found["command"][1:]]
        assert words[words.index("-m") + 1] == NAME
    assert os.listdir(tmp_path / "bin") == ["llama-server"]
