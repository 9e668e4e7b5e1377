"""What is the same in every execution is done once: what programs say of themselves, and which packages are there."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from collections.abc import Sequence
from functools import cache
from typing import Any


def begin() -> None:
    """For this process, which does nothing but fuzz: the disk is not waited for either."""
    from gguftool import endings

    whole = endings.run

    @cache
    def asked(*words: str) -> subprocess.CompletedProcess[str]:
        return whole(words, 60.0)

    def run(argv: Sequence[str], timeout: float | None, **more: Any) -> subprocess.CompletedProcess[str]:
        words = list(argv)
        return asked(*words) if words[1:] in (["--help"], ["--version"]) else whole(words, timeout, **more)

    endings.run = run
    importlib.metadata.packages_distributions = cache(importlib.metadata.packages_distributions)
    os.fsync = lambda fd: None
