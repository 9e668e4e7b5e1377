"""The floors of docs/architecture.md, and the house rules a machine can check."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PACKAGE = sorted((ROOT / "gguftool").rglob("*.py"))
SOURCES = sorted(
    path for folder in ("gguftool", "tests", "scripts", "benchmarks") for path in (ROOT / folder).rglob("*.py")
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_imports_go_down_only():
    lint_imports = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint_imports, "--no-logo", "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_file_is_too_long(path: Path):
    assert len(path.read_text().splitlines()) <= 400


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_house_rules(path: Path):
    assert path.stem not in {"utils", "util", "common", "helpers", "misc"}
    floor = path.relative_to(ROOT / "gguftool").parts[0]
    for node in ast.walk(ast.parse(path.read_text())):
        where = f"{name(path)}:{getattr(node, 'lineno', 0)}"
        assert not isinstance(node, ast.Assert), f"{where}: assert; raise one of gguftool.errors"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id != "print" or floor in {"cli", "report"}, f"{where}: print outside cli/ and report/"
        if isinstance(node, ast.Raise):
            raised = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
            assert not (isinstance(raised, ast.Name) and raised.id == "NotImplementedError"), f"{where}: a stub"
