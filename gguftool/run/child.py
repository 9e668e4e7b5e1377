"""Talk to a child of ours that uses the real library: requests, notes while it works, answers."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

from gguftool.endings import start
from gguftool.errors import NoRoom, ToolFailed, UsageError
from gguftool.files.small import scratch_file
from gguftool.run.measurer import PACKAGE

# Waiting threads must not spin: that costs more than it gains as soon as anything else runs here.
QUIET = {"GGML_NO_BACKTRACE": "1", "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
"""Of the environment of a child that uses the library."""


class Talk:
    """A child that lives as long as `talking` lasts."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[bytes], ends: float | None) -> None:
        self._process, self._errors, self._ends = process, errors, ends

    def say(self, request: dict[str, Any], *, more: bool = True) -> None:
        """One line of JSON; without ``more`` it is the last."""
        # Of one that has gone, `hear` tells why.
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin is not None:
                self._process.stdin.write(json.dumps(request) + "\n")
                self._process.stdin.flush()
                if not more:
                    self._process.stdin.close()

    def hear(self) -> dict[str, Any]:
        """What it says next.

        Raises:
            UsageError, NoRoom, ToolFailed: it says that it cannot, or it ended without a word, or took too long.
        """
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise self._gone()
        found: dict[str, Any] = json.loads(line)
        if "error" in found:
            kind = UsageError if found.get("usage") else NoRoom if found.get("room") else ToolFailed
            raise kind(str(found["error"]))
        return found

    def _gone(self) -> ToolFailed:
        if self._ends is not None and time.monotonic() >= self._ends:
            return ToolFailed("the measurement took longer than it was given", "--timeout SECONDS")
        self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
        return ToolFailed(f"{PACKAGE} ended with code {self._process.returncode} while it measured: {said[0][:300]}")


@contextlib.contextmanager
def talking(module: str, timeout: float | None = None) -> Iterator[Talk]:
    """A child, started; it is ended when this ends.

    Args:
        module: run as ``python -m``; it reads JSON from stdin and writes lines of JSON.
        timeout: seconds it gets; None for as long as it takes.
    """
    with scratch_file() as errors:
        process = start(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, **QUIET},
        )  # fmt: skip
        ends = None if timeout is None else time.monotonic() + timeout
        clock = None if timeout is None else threading.Timer(max(0.0, timeout), process.kill)
        if clock:
            clock.start()
        try:
            yield Talk(process, errors, ends)
        finally:
            if clock:
                clock.cancel()
            if process.poll() is None:
                process.kill()
            process.wait()


def converse(
    module: str, request: dict[str, Any], hear: Callable[[Any], None], timeout: float | None = None
) -> dict[str, Any]:
    """The answer of a child to one request.

    Args:
        module: see `talking`.
        request: what it reads.
        hear: called with each ``note``.
        timeout: see `talking`.

    Raises:
        UsageError, NoRoom, ToolFailed: what it says, or that it ended without an answer.
        KeyboardInterrupt: after the child was ended.
    """
    with talking(module, timeout) as talk:
        talk.say(request, more=False)
        while "note" in (answer := talk.hear()):
            hear(answer["note"])
        return answer
