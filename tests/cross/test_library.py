"""The public surface: every name is there, typed, and the same thing by every way to it."""

from __future__ import annotations

import ast
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gguftool
from gguftool.door import public_names
from tests.build import llama

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("edit", "lint", "memory", "predict", "report", "verify")


def test_the_lists_are_one() -> None:
    """`__all__` is literal, for every checker to read; what is imported for checkers is what is found at run time."""
    tree = ast.parse((ROOT / "gguftool" / "__init__.py").read_text())
    literal, typed = None, {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":  # type: ignore[attr-defined]
            literal = ast.literal_eval(node.value)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("gguftool."):
            for alias in node.names:
                if alias.asname is not None:
                    typed[alias.asname] = f"{node.module}:{alias.name}"
    assert literal is not None
    assert sorted(literal) == sorted(gguftool.__all__) == sorted(["__version__", *public_names()])
    del typed["__version__"]
    assert typed == public_names()
    assert dir(gguftool) == sorted(gguftool.__all__)


@pytest.mark.parametrize("name", sorted(public_names()))
def test_every_name_is_there_and_explains_itself(name: str) -> None:
    module, _, attribute = public_names()[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    public = getattr(gguftool, name)
    assert public is found or name in ROOMS
    if name not in ("BUILD", "Operation"):
        assert inspect.getdoc(found), name
    if inspect.isfunction(found):
        hints = inspect.signature(found)
        assert hints.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in hints.parameters.values())


def test_a_name_nobody_knows() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = gguftool.nothing


@pytest.mark.parametrize("name", ROOMS)
@pytest.mark.parametrize(
    "before", ["", "import gguftool.{}", "from gguftool import {} as room; import gguftool.cli.main"]
)
def test_a_room_is_also_the_function(name: str, before: str, tmp_path: Path) -> None:
    """Whatever was imported before it."""
    path = llama().write(tmp_path / "m.gguf")
    code = f"{before.format(name)}\nimport gguftool, inspect\nprint(type(gguftool.{name}({str(path)!r})).__name__)\n"
    code += f"print(next(iter(inspect.signature(gguftool.{name}).parameters)))\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    kinds = {"edit": "edit", "lint": "Report", "memory": "MemoryPlan", "predict": "Prediction"}
    kinds |= {"report": "Reported"}
    assert done.stdout.split() == [kinds.get(name, "Verification"), "path" if name == "edit" else "model"]


CLIENT = """
from __future__ import annotations

import os
from pathlib import Path

import gguftool
from gguftool import {names}

path: str | os.PathLike[str] = Path("m.gguf")
with gguftool.open(path) as m:
    keys: list[str] = list(m)
    values: dict[str, object] = dict(m)
    n: int = len(m)
    for name, tensor in m.tensors.items():
        shape: tuple[int, ...] = tensor.shape
        total: float = float(tensor.dequantized().sum())
checked: gguftool.Report = gguftool.lint(path, context_length=32768)
for finding in checked:
    line: str = finding.message
    fix: Fix | None = finding.fix
assert checked.load is not None
verdict: str = checked.load.verdict
with gguftool.edit(path) as e:
    e["general.name"] = "Foo"
    seen: object = e["general.name"]
    there: bool = "general.name" in e
    del e["general.name"]
assert e.result is not None
undo_path: str | None = e.result.undo
taken: MemoryPlan = gguftool.memory(path, context=4096, cache_type="q8_0")
fits: bool | None = taken.fits
searched: Planned = gguftool.plan(path, ctx=4096, vram="16GiB")
line_of: tuple[str, ...] = searched.command
argv: list[str] = gguftool.plan_launch(path, ctx=4096).argv
with gguftool.launch(path, ctx=4096, smoke=True) as server:
    address: str = server.url
said: Translation = gguftool.translate("./main -m m.gguf")
well: bool = gguftool.doctor(path).ok
p: Prediction = gguftool.predict(path)
d: Difference = gguftool.diff("a.gguf", "b.gguf", data=True)
o: Overview = gguftool.overview(m)
v: Verification = gguftool.verify(path, data=True)
ok: bool = v.ok and p.ok and gguftool.check_log("server.log", "plan.json").ok
made: Prepared = gguftool.prepare("folder", Path("ready.gguf"), quantize="Q4_K_M", ctx=32768, cache_type="q8_0")
good: list[str] = [row["path"] for row in gguftool.scan(["a", Path("b")]) if row["ok"]]
mended: list[Repaired] = gguftool.repair(path, "hf://owner/repo/m.gguf", against=[Path("m.manifest")])
h: dict[str, TensorHash] = gguftool.hash_tensors(path)
whole_page: str = gguftool.report_page(gguftool.report(path, ctx=4096, vram="16GiB"))
with gguftool.edit(path, harm="allow") as e:
    e.do(*gguftool.fixes(path).operations)
"""


def check_types(tmp_path: Path, source: str) -> str:
    """What a user's strict mypy says of a file that only imports the package."""
    client = tmp_path / "client.py"
    client.write_text(source)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        f"--cache-dir={ROOT / '.mypy_cache'}",
        client,
    ]
    environment = {"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, env=environment)
    return "\n".join(line for line in done.stdout.splitlines() if line.startswith("client.py")) + done.stderr


def test_strict_mypy_takes_every_public_name(tmp_path: Path) -> None:
    names = ", ".join(name for name in sorted(public_names()))
    assert check_types(tmp_path, CLIENT.format(names=names)) == ""


def test_the_check_of_types_sees_mistakes(tmp_path: Path) -> None:
    wrong = "import gguftool\nx: int = gguftool.lint('m.gguf')\ngguftool.nothing()\n"
    said = check_types(tmp_path, wrong)
    assert "Incompatible types in assignment" in said
    assert "nothing" in said
