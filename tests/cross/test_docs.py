"""Documentation that is made from the program is in step with it, and links lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_cli_reference_is_in_step() -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "cli_reference.py", "--check"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_in_the_docs_exist(page: Path) -> None:
    from gguftool.cli.group import TABLE

    known = {entry.name for entry in TABLE}
    for line in re.findall(r"^\s*(?:\$ )?gguftool ([a-z][a-z-]*)\b", page.read_text(), re.M):
        assert line in known, f"{page.name}: gguftool {line}"
