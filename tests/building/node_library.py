"""The real llama library with its quantiser, out of an npm package, kept in the user's cache (11 MB)."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.real_models import cache_dir

PACKAGE = "@node-llama-cpp/linux-x64@3.22.1"


def fetch() -> Path | str:
    """Folder with libllama v0.5.0, as ``--llama-cpp`` takes it; or why it cannot be had."""
    if os.uname().sysname != "Linux" or os.uname().machine != "x86_64":
        return "the ready-made library is for Linux on x86-64"
    target = cache_dir().parent / "node-llama-cpp-3.22.1"
    target.parent.mkdir(parents=True, exist_ok=True)
    with open(target.parent / f"{target.name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():
            return target
        npm = shutil.which("npm")
        if npm is None:
            return "npm is not installed"
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            command = [npm, "pack", "--silent", PACKAGE]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
            archives = list(Path(folder).glob("*.tgz"))
            if done.returncode or not archives:
                return f"npm pack {PACKAGE} failed: {done.stderr[-300:]}"
            with tarfile.open(archives[0]) as archive:
                archive.extractall(Path(folder) / "x", filter="data")
            os.replace(Path(folder) / "x", target)
    return target
