"""What a child that calls ggml's kernels says to its parent: lines of JSON on what was its stdout.

`gguftool.build.failed` makes errors of them again.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping

from gguftool.errors import FormatError, GgufToolError

_parent = 1
"""Where `say` writes."""


def begin() -> None:
    """Before anything else: only lines of `say` reach the parent, and a signal ends the child while C runs."""
    # Where C runs, only the default action of a signal stops it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    global _parent
    # What C prints is none of our lines.
    _parent = os.dup(1)
    os.dup2(2, 1)


def say(words: Mapping[str, object]) -> None:
    """One line to the parent, in one write, so that threads do not mix theirs."""
    os.write(_parent, json.dumps(words).encode() + b"\n")


def failure(error: BaseException) -> dict[str, object]:
    """An error as JSON, for `gguftool.build.failed.again`."""
    words: dict[str, object] = {"class": type(error).__name__, "text": str(error)}
    if isinstance(error, OSError):
        words |= {"class": "OSError", "errno": error.errno, "text": error.strerror or str(error)}
    if isinstance(error, GgufToolError):
        words["hint"] = error.hint
    if isinstance(error, FormatError):
        words |= {"key": error.key, "kind": error.kind}
    return words
