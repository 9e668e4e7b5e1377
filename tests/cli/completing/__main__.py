"""Every probe in every shell: ``python -m tests.cli.completing``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.cli.completing.test_shells import EVERY

os.environ[EVERY] = "1"
sys.exit(pytest.main(["-q", str(Path(__file__).parent)]))
