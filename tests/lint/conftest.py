"""Fixtures of this room."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import llama
from tests.lint.samples import ready


@pytest.fixture
def where(tmp_path: Path) -> Path:
    """A folder with a model that is ready for 2,048 tokens at f16, and one that is not."""
    ready().write(tmp_path / "good.gguf")
    llama().replace("llama.block_count", 2).write(tmp_path / "bad.gguf")
    return tmp_path
