"""The floors of docs/architecture.md, and the house rules a machine can check."""

from __future__ import annotations

import ast
import re
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


def _imports() -> dict[str, set[str]]:
    """Every import of a module of the package by another, also inside functions and for type checkers alone."""
    modules = {}
    for path in PACKAGE:
        parts = path.relative_to(ROOT).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    out: dict[str, set[str]] = {}
    for module, path in modules.items():
        found = set()
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                found |= {name if name in modules else node.module for name in names}
            elif isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
        out[module] = (found & set(modules)) - {module}
    # The root names the public functions of every room: that is its work, nothing is read before it is used.
    return {module: found - {"gguftool"} for module, found in out.items() if module != "gguftool"}


def test_no_module_is_in_a_circle_with_another():
    """A lazy import would only hide it."""
    left = _imports()
    while free := [module for module, found in left.items() if not found & set(left)]:
        for module in free:
            del left[module]
    known = set(left)
    while loose := [m for m in left if not any(m in found for found in left.values())]:
        for module in loose:
            del left[module]
    assert not left, f"in a circle: {sorted(left)} (or between them: {sorted(known)})"


WRITERS = {"gguftool/edit/oslayer.py"}
MAKES = {
    "os": "link symlink rename renames replace mkdir makedirs mkfifo mknod truncate chmod chown".split(),
    "shutil": "copy copy2 copyfile copyfileobj copytree move make_archive unpack_archive".split(),
}


def creates(node: ast.AST) -> str | None:
    """How a call makes a file or a name, as far as a look at it can tell."""
    if not isinstance(node, ast.Call):
        return None
    func = node.func
    if isinstance(func, ast.Name) and func.id == "open":
        mode = node.args[1] if len(node.args) > 1 else next((k.value for k in node.keywords if k.arg == "mode"), None)
        reads = mode is None or (isinstance(mode, ast.Constant) and mode.value in ("r", "rb"))
        return None if reads else "open for writing"
    if not isinstance(func, ast.Attribute):
        return None
    room = func.value.id if isinstance(func.value, ast.Name) else ""
    if room == "os" and func.attr == "open":
        flags = "" if "devnull" in ast.dump(node.args[0]) else ast.dump(node)
        return "os.open" if re.search(r"O_(CREAT|TMPFILE|WRONLY|RDWR|TRUNC|APPEND)", flags) else None
    if room == "tempfile" and func.attr != "gettempdir":
        return f"tempfile.{func.attr}"
    if func.attr in MAKES.get(room, ()):
        return f"{room}.{func.attr}"
    if func.attr in ("write_text", "write_bytes", "touch", "symlink_to", "hardlink_to"):
        return func.attr
    if func.attr == "savefig" and not (isinstance(node.args[0], ast.Name) and node.args[0].id == "out"):
        return "savefig"
    return None


@pytest.mark.parametrize("path", PACKAGE, ids=name)
def test_only_one_writer_makes_files(path: Path):
    """New files come from `gguftool.files`; into existing ones writes `edit.oslayer` alone."""
    if name(path) in WRITERS or path.parent == ROOT / "gguftool" / "files":
        return
    found = [f"{name(path)}:{n.lineno}: {what}" for n in ast.walk(ast.parse(path.read_text())) if (what := creates(n))]
    assert not found


@pytest.mark.parametrize(
    "text",
    ["open(p, 'w')", "open(p, mode='xb')", "open(p, m)", "os.open(p, os.O_RDWR | os.O_CREAT)", "tempfile.mkstemp()",
     "os.replace(a, b)", "os.mkdir(a)", "shutil.copyfile(a, b)", "Path(a).write_text(b)", "figure.savefig(path)"],
)  # fmt: skip
def test_making_a_file_is_noticed(text: str):
    assert creates(ast.parse(text).body[0].value)
    assert not creates(ast.parse("open(p, 'rb')").body[0].value)
