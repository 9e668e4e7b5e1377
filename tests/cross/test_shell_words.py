"""A printed command, read by a shell, is exactly the words that were meant, whatever keys, names and paths hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from gguftool import shell as house
from gguftool.cli.group import TABLE
from tests.shell_words import NASTY, SHELLS, calls, shell_words

COMMAND = re.compile(
    rf"gguftool (?:{'|'.join(e.name for e in TABLE)})( -\S+| [\w.+-]+)* $"
    r"|(?:^|[:;] )(?:mv|rm|cp|ln|cat|tail|head|chmod|mkdir|truncate|pip|git)( [\w.+-]+)* $"
)
PACKAGE = Path(house.__file__).parent
WORDS = [
    "", " ", ";", "$(touch PWNED)", "`touch PWNED`", "'", '"', "\\", "a\nb", "a\n", "\n\n", "%s%d%%", "\x1b[31m", "-x",
    "-x\n", "--\t",
    "{path}", "\\n\n\\", "\u202e\u2066\ufeff", "\udcff\udc80", "!x", "*", "~", "#", "a\tb\r", "\xa0",
    "…'\n$(touch PWNED)\n",
    "\x07%'\\x", "a=b", "$HOME", "é", NASTY,
]  # fmt: skip


@pytest.mark.parametrize("name", SHELLS)
def test_every_shell_reads_the_words_back(tmp_path: Path, name: str) -> None:
    line = house.shell(("gguftool", *WORDS))
    assert line.isprintable()
    assert calls(line, tmp_path, shell=name) == [["gguftool", *WORDS]]


@pytest.mark.parametrize("name", SHELLS)
def test_marks_are_the_shells_and_text_is_not(tmp_path: Path, name: str) -> None:
    words = ("gguftool", "&&", ">", "|", house.FILE, house.AND, "gguftool", house.FILE, house.PIPE, "cat")
    line = house.shell(words, "-{path} && >")
    read = calls(line, tmp_path, shell=name)
    assert read == [["gguftool", "&&", ">", "|", "./-{path} && >"], ["gguftool", "./-{path} && >"]]


def test_the_environment_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "show").write_text('#!/bin/sh\nprintf "%s" "$X"\n')
    (tmp_path / "bin" / "show").chmod(0o755)
    import subprocess

    for name in SHELLS:
        line = house.shell((str(tmp_path / "bin" / "show"),), environment=[f"X={NASTY}"])
        done = subprocess.run([name, "-c", line], capture_output=True, cwd=tmp_path, check=True)
        assert done.stdout.decode() == NASTY
        assert not (tmp_path / "PWNED").exists()


def test_a_path_is_no_option(tmp_path: Path) -> None:
    assert shell_words(house.gguftool("recover", house.path_word("-rf.gguf")), tmp_path)[1:] == [
        "recover",
        "./-rf.gguf",
    ]


def test_nobody_else_quotes_or_pastes() -> None:
    """`shlex.quote` and `shlex.join` stand in shell.py only, and no text pastes a value into a command of ours."""
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_text()
        if path.name != "shell.py":
            assert "shlex.quote" not in text, path
            assert "shlex.join" not in text, path
        assert list(pasted(text)) == [], path


def pasted(text: str) -> Iterator[tuple[int, str]]:
    """Values that stand behind the text of a command: line and command."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.JoinedStr):
            for before, after in pairwise(node.values):
                said = before.value if isinstance(before, ast.Constant) else ""
                if isinstance(after, ast.FormattedValue) and COMMAND.search(str(said)):
                    yield node.lineno, str(said)
