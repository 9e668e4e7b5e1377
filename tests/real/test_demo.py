"""The README's first promise: the demo goes the whole way on a real model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.real
def test_the_demo_ends_well(smollm2: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "demo.py"], capture_output=True, text=True, cwd=ROOT, timeout=280
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "the same before and after: True" in done.stdout
    assert "llama-server" in done.stdout
