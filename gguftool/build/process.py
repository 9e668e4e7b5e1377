"""Run another program: read its lines as they come, keep a log, leave nothing running behind."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from gguftool.endings import start
from gguftool.errors import ToolFailed
from gguftool.files.small import begin_log
from gguftool.records import dataclass
from gguftool.regex import regex

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LINE_END = regex(rb"\r\n|\n|\r")
_TAIL = 200
_LONGEST_LINE = 1 << 20
_PATIENCE = 5.0
"""Seconds a program gets to end by itself after SIGTERM."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended: exit code (negative: the signal), its last lines, seconds it ran."""

    code: int
    tail: tuple[str, ...]
    seconds: float

    @property
    def reason(self) -> str:
        """``exit code 1`` or ``signal 9``."""
        return f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"


def child_environment() -> dict[str, str]:
    """For a child that runs a module of ours with a library of ggml: no debugger is attached when that gives up."""
    paths = [_ROOT, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GGML_NO_BACKTRACE": "1"}


def run(
    argv: Sequence[str],
    *,
    log: str | None = None,
    on_line: Callable[[str], None] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    stdin: bytes | None = None,
    line_end: re.Pattern[bytes] = _LINE_END,
) -> Ended:
    """Run ``argv`` to its end, stdout and stderr together.

    Args:
        argv: program and arguments.
        log: file that gets the command and every line; an older log is replaced, nothing else.
        on_line: called with each line; a carriage return ends one, so progress bars come through.
        env: variables on top of our own.
        cwd: folder to run in.
        stdin: what it reads; nothing when None.
        line_end: what ends a line.

    Raises:
        ToolFailed: the program cannot be started.
        Refused, NoRoom: the log has the name of something else, or there is no room for it.
        KeyboardInterrupt: after the program was ended.
    """
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        sink = stack.enter_context(begin_log(log, argv)) if log else None
        try:
            child = start(
                argv,
                stdin=subprocess.PIPE if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                cwd=cwd,
            )
        except OSError as e:
            raise ToolFailed(f"{argv[0]}: cannot be started: {(e.strerror or str(e)).lower()}") from None
        tail: deque[str] = deque(maxlen=_TAIL)
        try:
            if stdin is not None and child.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    child.stdin.write(stdin)
                    child.stdin.close()
            _read(child, sink, tail, on_line, line_end)
            child.wait()
        except BaseException:
            end(child)
            raise
        finally:
            if child.stdout is not None:
                child.stdout.close()
    return Ended(child.returncode, tuple(tail), time.monotonic() - started)


def _read(
    child: subprocess.Popen[bytes],
    sink: BinaryIO | None,
    tail: deque[str],
    on_line: Callable[[str], None] | None,
    line_end: re.Pattern[bytes],
) -> None:
    if child.stdout is None:
        return
    rest = b""
    while chunk := os.read(child.stdout.fileno(), 1 << 16):
        if sink is not None:
            sink.write(chunk)
            sink.flush()
        *lines, rest = line_end.split(rest + chunk)
        if len(rest) > _LONGEST_LINE:
            lines, rest = [*lines, rest], b""
        for line in lines:
            _take(line, tail, on_line)
    if rest:
        _take(rest, tail, on_line)


def _take(line: bytes, tail: deque[str], on_line: Callable[[str], None] | None) -> None:
    text = line.decode("utf-8", "replace")
    if text.strip():
        tail.append(text)
        if on_line:
            on_line(text)


def end(child: subprocess.Popen[bytes]) -> None:
    """Ask a program to end, and end it when it does not."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
