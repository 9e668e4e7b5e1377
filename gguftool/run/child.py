"""Talk to a child of ours that uses the real library: one request, notes while it works, one answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from gguftool.endings import start
from gguftool.errors import NoRoom, ToolFailed, UsageError
from gguftool.files.small import scratch_file
from gguftool.run.measure import PACKAGE

# Waiting threads must not spin: that costs more than it gains as soon as anything else runs here.
QUIET = {"GGML_NO_BACKTRACE": "1", "OMP_WAIT_POLICY": "passive", "OPENBLAS_NUM_THREADS": "1"}
"""Of the environment of a child that uses the library."""


def converse(
    module: str, request: dict[str, Any], hear: Callable[[Any], None], timeout: float | None = None
) -> dict[str, Any]:
    """The answer of a child.

    Args:
        module: run as ``python -m``; it reads JSON from stdin to its end and writes lines of JSON.
        request: what it reads.
        hear: called with each ``note``.
        timeout: seconds it gets; None for as long as it takes.

    Raises:
        UsageError, NoRoom, ToolFailed: what it says, or that it ended without an answer.
        KeyboardInterrupt: after the child was ended.
    """
    with scratch_file() as errors:
        process = start(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            env={**os.environ, **QUIET},
        )  # fmt: skip
        try:
            answer = _listen(process, request, hear, timeout)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        if answer is None:
            errors.seek(0)
            said = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:] or ["no message"]
            raise ToolFailed(f"{PACKAGE} ended with code {process.returncode} while it measured: {said[0][:300]}")
    if "error" in answer:
        kind = UsageError if answer.get("usage") else NoRoom if answer.get("room") else ToolFailed
        raise kind(str(answer["error"]))
    return answer


def _listen(
    process: subprocess.Popen[str], request: dict[str, Any], hear: Callable[[Any], None], timeout: float | None
) -> dict[str, Any] | None:
    """Lines of the child: ``note`` as it goes on, and the answer."""
    if process.stdin is None or process.stdout is None:
        return None
    ends = None if timeout is None else time.monotonic() + timeout
    clock = None if timeout is None else threading.Timer(max(0.0, timeout), process.kill)
    if clock:
        clock.start()
    try:
        json.dump(request, process.stdin)
        process.stdin.close()
        for line in process.stdout:
            found: dict[str, Any] = json.loads(line)
            if "note" not in found:
                return found
            hear(found["note"])
        if ends is not None and time.monotonic() >= ends:
            return {"error": "the measurement took longer than it was given (--timeout)"}
        return None
    except BrokenPipeError:
        return None
    finally:
        if clock:
            clock.cancel()
