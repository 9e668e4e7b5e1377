"""A small model for the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import llama


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")
