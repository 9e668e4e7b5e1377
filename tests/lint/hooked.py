"""What the tests of hooks share: where the examples lie, and programs run as a hook runs them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HOOKS = ROOT / "fixtures" / "hooks"
BIN = Path(sys.executable).parent


def run(*args: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A program in a folder, what is installed here and the folder's own `bin` first on its PATH."""
    path = f"{cwd / 'bin'}{os.pathsep}{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(a) for a in args],
        cwd=cwd,
        env={**os.environ, "PATH": path, **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
