"""Named pipes under the names of files that are looked for beside a model: nobody waits for the other end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.build import llama

NAMES = (
    "mmproj.gguf", "mmproj-m.gguf", "m-00002-of-00002.gguf", "SHA256SUMS", "checksums.txt", "m.gguf.sha256",
    "m.gguf.manifest", "m.gguf-undo-1", "config.json", "tokenizer_config.json", "tokenizer.json", "README.md",
    "other.gguf", "m.gguf.aria2", "gguftool.toml", "pyproject.toml", "chat_template.jinja", "LICENSE",
)  # fmt: skip
CALLS = (
    "lint m.gguf", "lint .", "verify --hash m.gguf", "verify --hash .", "scan .", "report -o - m.gguf",
    "launch --print m.gguf", "dump m.gguf", "dump m-00001-of-00002.gguf", "undo --list m.gguf", "push-check .",
)  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("call", CALLS)
def test_nobody_waits(tmp_path: Path, call: str) -> None:
    llama().write(tmp_path / "m.gguf")
    shutil.copy(tmp_path / "m.gguf", tmp_path / "m-00001-of-00002.gguf")
    for name in NAMES:
        os.mkfifo(tmp_path / name)
    words = [sys.executable, "-m", "gguftool", *call.split()]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    # A wait for the other end has no end: any time would tell.
    done = subprocess.run(words, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=300)
    assert 0 <= done.returncode < 8, done.stderr
