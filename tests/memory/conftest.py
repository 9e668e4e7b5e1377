"""What the tests of memory share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.giants import whole


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return whole("llama-3.1-8b", tmp_path)
