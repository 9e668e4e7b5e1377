"""A small terminal: runs the command lines of the documentation in a folder of its own, gguftool in this process.

It knows what pages need of a shell: words and quotes, pipes, redirections, ``&&`` and ``;``, ``NAME=value``, ``~``,
``$HOME``, ``$?`` and file patterns. The world it shows has its root in a temporary folder: the home is ``/home/ann``,
the machine has 16 GiB of memory and no GPU, whatever the real one has.
"""

from __future__ import annotations

import contextlib
import glob
import io
import os
import re
import shlex
import socket
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.called import call

HOME = "/home/ann"
OURS = ("/home/ann", "/srv", "/mnt", "/opt")
"""Folders of the world that commands may name; what a command says of them is shown without the world's real place."""
COLUMNS = 100
PROGRAMS = frozenset(
    "cat head tail ls cp mv rm mkdir touch grep sort uniq wc cut tr sed truncate dd sha256sum printf diff tee "
    "gguf-dump gguf-set-metadata gguf-new-metadata".split()
)
"""What runs beside gguftool: every system has it, or the environment of the tests."""
_GIB = 1 << 30
_CLEARED = re.compile(r"^(HF|HUGGING|OLLAMA|LLAMA|GGUFTOOL|LMSTUDIO|XDG|GITHUB|CI$|AWS|.*_proxy$|.*_PROXY$|.*COLOR)")
_SERVES = frozenset("--check-only --emit --print --dry-run -n --translate --help".split())
_ENDS = ("|", "&&", ";", "||")


class Unknown(Exception):
    """A command line that this terminal cannot run."""


@dataclass(slots=True)
class _Piece:
    """One command of a line: its words and where its streams go."""

    words: list[str] = field(default_factory=list)
    stdin: str = ""
    stdout: str = ""
    append: bool = False
    stderr: str = ""
    joined: bool = False
    then: str = ""


def pieces(line: str) -> list[_Piece]:
    """A command line, cut where a shell cuts it.

    Raises:
        Unknown: quotes that do not end, a redirection to nowhere.
    """
    lexer = shlex.shlex(_without_comment(line), posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise Unknown(f"{line}: {error}") from error
    out = [_Piece()]
    rest = iter(words)
    for word in rest:
        if word in _ENDS:
            out[-1].then = word
            out.append(_Piece())
        elif word in (">", ">>", "<", ">&"):
            target = next(rest, "")
            two = word != "<" and out[-1].words[-1:] == ["2"] and f"2{word}" in line
            if two:
                out[-1].words.pop()
            if not target:
                raise Unknown(f"{line}: {word} to nowhere")
            if word == ">&":
                out[-1].joined = True
            elif word == "<":
                out[-1].stdin = target
            elif two:
                out[-1].stderr = target
            else:
                out[-1].stdout, out[-1].append = target, word == ">>"
        else:
            out[-1].words.append(word)
    return [piece for piece in out if piece.words]


def _without_comment(line: str) -> str:
    """The line up to a ``#`` that begins a word outside of quotes."""
    quote = ""
    for i, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (i == 0 or line[i - 1].isspace()):
            return line[:i]
    return line


@dataclass(slots=True)
class Terminal:
    """Runs command lines in a world.

    Attributes:
        root: the real folder that is ``/`` of the world.
        said: texts to show instead of others: addresses of servers that stand for real ones.
        code: exit code of the last command.
        env: what ``NAME=value`` and ``export`` have set.
    """

    root: Path
    said: dict[str, str] = field(default_factory=dict)
    code: int = 0

    def real(self, word: str) -> str:
        """A word of a command, its paths led into the world."""
        word = word.replace("$?", str(self.code)).replace("$HOME", HOME)
        word = re.sub(r"^~(?=/|$)", HOME, word)
        folders = "|".join(map(re.escape, OURS))
        return re.sub(rf"(^|[=,])(?=(?:{folders})(?:/|$|[,:]))", lambda m: m[1] + str(self.root), word)

    def shown(self, text: str) -> list[str]:
        """What people see of it, in lines."""
        for real, told in {**self.said, str(self.root): ""}.items():
            text = text.replace(real, told)
        return [line.rstrip() for line in text.splitlines()]

    def run(self, line: str) -> list[str]:
        """Run one command line; gives what it prints, stderr and stdout as they come, and sets ``code``.

        Raises:
            Unknown: there is something in it that this terminal does not do.
        """
        screen = io.BytesIO()
        stdin = b""
        skip = False
        for piece in pieces(line):
            if not skip:
                stdin = self._piece(piece, stdin, screen)
            skip = (piece.then == "&&" and self.code != 0) or (piece.then == "||" and self.code == 0)
            if piece.then != "|":
                stdin = b""
        return self.shown(screen.getvalue().decode(errors="replace"))

    def _piece(self, piece: _Piece, stdin: bytes, screen: io.BytesIO) -> bytes:
        """Run one command; gives what goes down the pipe."""
        words = [other for word in piece.words for other in self._spread(self.real(word))]
        env: dict[str, str] = {}
        while words and re.match(r"[A-Za-z_]\w*=", words[0]):
            name, _, env[name] = words.pop(0).partition("=")
        if piece.stdin:
            stdin = Path(self.real(piece.stdin)).read_bytes()
        pipe = io.BytesIO()
        with contextlib.ExitStack() as stack:
            out: io.BytesIO | io.BufferedWriter = pipe if piece.then == "|" else screen
            if piece.stdout:
                out = stack.enter_context(_opened(self.real(piece.stdout), append=piece.append))
            err: io.BytesIO | io.BufferedWriter = out if piece.joined else screen
            if piece.stderr:
                err = stack.enter_context(_opened(self.real(piece.stderr)))
            patch = stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in env.items():
                patch.setenv(name, value)
            if words:
                self.code = self._command(words, stdin, out, err)
        return pipe.getvalue()

    def _spread(self, word: str) -> list[str]:
        if not re.search(r"[*?\[]", word) or "://" in word:
            return [word]
        return sorted(glob.glob(word)) or [word]

    def _command(
        self,
        words: list[str],
        stdin: bytes,
        out: io.BytesIO | io.BufferedWriter,
        err: io.BytesIO | io.BufferedWriter,
    ) -> int:
        name, rest = words[0], words[1:]
        if name == "gguftool":
            if rest[:1] == ["launch"] and _SERVES.isdisjoint(rest):
                raise Unknown("it would serve until Ctrl-C: --check-only, or mark the block `not run:`")
            if "--check-only" in rest and "--port" not in rest:
                # Another page may be starting a server at this moment.
                port = _free_port()
                self.said[f"127.0.0.1:{port}"] = "127.0.0.1:8080"
                rest = ["launch", "--port", str(port), *rest[1:]]
            return call(rest, out, err, stdin)
        if name == "cd":
            os.chdir(rest[0])
            return 0
        if name == "echo":
            out.write((" ".join(rest) + "\n").encode())
            return 0
        if name not in PROGRAMS:
            raise Unknown(f"{name} is no program of these pages: mark the block `not run:`, or see {__name__}")
        done = subprocess.run(words, input=stdin, capture_output=True, timeout=60)
        out.write(done.stdout)
        err.write(done.stderr)
        return done.returncode


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _opened(path: str, *, append: bool = False) -> io.BufferedWriter:
    if path == "/dev/null":
        return open(os.devnull, "wb")
    return open(path, "ab" if append else "wb")


@contextlib.contextmanager
def world() -> Iterator[Terminal]:
    """A terminal in ``/home/ann/work`` of an empty world, which is gone afterwards."""
    from gguftool.run import devices

    before = os.getcwd()
    with tempfile.TemporaryDirectory(prefix="w") as folder, pytest.MonkeyPatch.context() as patch:
        root = Path(folder).resolve()
        (root / HOME[1:] / "work").mkdir(parents=True)
        for name in list(os.environ):
            if _CLEARED.match(name):
                patch.delenv(name)
        patch.setenv("HOME", str(root / HOME[1:]))
        patch.setenv("COLUMNS", str(COLUMNS))
        patch.setenv("TERM", "dumb")
        patch.setenv("LC_ALL", "C.UTF-8")
        patch.setenv("GGUFTOOL_CACHE", "off")
        patch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
        patch.setenv("PATH", os.pathsep.join([sysconfig.get_path("scripts"), "/usr/bin", "/bin"]))
        patch.setattr(devices, "_meminfo", lambda path: (16 * _GIB, 12 * _GIB))
        patch.setattr(devices, "_limits", lambda root: iter(()))
        os.chdir(root / HOME[1:] / "work")
        try:
            yield Terminal(root, {sys.prefix: f"{HOME}/venv"})
        finally:
            os.chdir(before)
            _forget_connections()


def _forget_connections() -> None:
    """The next world's server may get the port of this one's."""
    if "huggingface_hub" in sys.modules:
        from huggingface_hub.utils import close_session

        close_session()
