"""The public surface: every name is there, typed, and the same thing by every way to it."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gguftool
from gguftool.door import PUBLIC
from gguftool.predict import Prediction
from tests.build import GGUF, llama

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("edit", "lint", "memory", "predict", "verify")


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
    assert sorted(literal) == sorted(gguftool.__all__) == sorted(["__version__", *PUBLIC])
    del typed["__version__"]
    assert typed == PUBLIC
    assert dir(gguftool) == sorted(gguftool.__all__)


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_name_is_there_and_explains_itself(name: str) -> None:
    module, _, attribute = PUBLIC[name].partition(":")
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
report: gguftool.Report = gguftool.lint(path, context_length=32768)
for finding in report:
    line: str = finding.message
    fix: Fix | None = finding.fix
assert report.load is not None
verdict: str = report.load.verdict
with gguftool.edit(path) as e:
    e["general.name"] = "Foo"
    seen: object = e["general.name"]
    there: bool = "general.name" in e
    del e["general.name"]
assert e.result is not None
undo_path: str | None = e.result.undo
plan: MemoryPlan = gguftool.memory(path, context=4096, cache_type="q8_0")
fits: bool | None = plan.fits
p: Prediction = gguftool.predict(path)
d: Difference = gguftool.diff("a.gguf", "b.gguf", data=True)
o: Overview = gguftool.overview(m)
v: Verification = gguftool.verify(path, data=True)
ok: bool = v.ok and p.ok and gguftool.check_log("server.log", "plan.json").ok
good: list[str] = [row["path"] for row in gguftool.scan(["a", Path("b")]) if row["ok"]]
mended: list[Repaired] = gguftool.repair(path, "hf://owner/repo/m.gguf", against=[Path("m.manifest")])
h: dict[str, TensorHash] = gguftool.hash_tensors(path)
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
    names = ", ".join(name for name in sorted(PUBLIC))
    assert check_types(tmp_path, CLIENT.format(names=names)) == ""


def test_the_check_of_types_sees_mistakes(tmp_path: Path) -> None:
    wrong = "import gguftool\nx: int = gguftool.lint('m.gguf')\ngguftool.nothing()\n"
    said = check_types(tmp_path, wrong)
    assert "Incompatible types in assignment" in said
    assert "nothing" in said


# -- paths everywhere


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")


def test_paths_and_open_models_are_the_same_question(path: Path, tmp_path: Path) -> None:
    other = llama().kv("my.key", 1).write(tmp_path / "other.gguf")
    with gguftool.open(path) as m, gguftool.open(other) as n:
        for given in (path, str(path)):
            assert gguftool.memory(given, 1024, "q8_0") == gguftool.memory(m, 1024, ("q8_0", "q8_0"))
            assert gguftool.overview(given) == gguftool.overview(m)
            assert gguftool.predict(given) == gguftool.predict(m)
            assert len(gguftool.diff(given, other).keys) == len(gguftool.diff(m, n).keys) == 1
            assert gguftool.lint(given).findings == gguftool.lint(m).findings
            assert gguftool.verify(given).ok
            assert gguftool.fixes(given) == gguftool.fixes(m)
            assert gguftool.hash_tensors(given) == gguftool.hash_tensors(m)
        assert m.read("output_norm.weight")  # still open


def test_predict_takes_what_is_no_gguf(tmp_path: Path) -> None:
    wrong = tmp_path / "m.gguf"
    wrong.write_bytes(b"<html>not found</html>")
    p: Prediction = gguftool.predict(wrong)
    assert p.verdict == "refused"
    assert "invalid magic characters: '<htm'" in p.first_error
    assert gguftool.predict(b"<html>").verdict == "refused"
    with pytest.raises(gguftool.MissingFile):
        gguftool.predict(tmp_path / "nothing.gguf")


def test_hash_tensors_is_that_of_the_data(path: Path) -> None:
    import hashlib

    found = gguftool.hash_tensors(path)
    with gguftool.open(path) as m:
        assert {n: h.digests["sha256"] for n, h in found.items()} == {
            n: hashlib.sha256(m.read(n)).hexdigest() for n in m.tensors
        }


def test_fixes_are_done_by_edit(tmp_path: Path) -> None:
    path = llama(tokenizer__ggml__eos_token_id="2").write(tmp_path / "m.gguf")
    found = gguftool.fixes(path)
    assert found.operations
    with gguftool.edit(path) as e:
        e.do(*found.operations)
    assert not gguftool.fixes(path).operations


def test_check_log(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        textwrap.dedent("""
        gguf_init_from_file: failed to open GGUF file 'x.gguf' (No such file or directory)
        llama_model_load: error loading model: llama_model_loader: failed to load model from x.gguf
    """)
    )
    found = gguftool.check_log(log)
    assert not found.ok
    assert found.judgement.error is not None
    assert gguftool.check_log(log.read_bytes()).judgement == found.judgement
    assert gguftool.judge_log(log.read_text()) == found.judgement


def test_scan(path: Path, tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_bytes(b"<html>")
    rows = {Path(row["path"]).name: row for row in gguftool.scan(tmp_path, resume=tmp_path / "rows.jsonl")}
    assert {name: row["ok"] for name, row in rows.items()} == {"m.gguf": True, "page.gguf": False}
    assert rows["m.gguf"]["load"] == "loads"
    assert rows["page.gguf"]["error"]["code"] == "not-gguf"
    again = {Path(row["path"]).name: row for row in gguftool.scan([path], resume=tmp_path / "rows.jsonl")}
    assert again == {"m.gguf": rows["m.gguf"]}


def test_repair_and_manifest(path: Path, tmp_path: Path) -> None:
    good = path.read_bytes()
    gguftool.write_manifest(path, tmp_path / "m.manifest")
    donor = tmp_path / "donor.gguf"
    donor.write_bytes(good)
    bad = bytearray(good)
    bad[-100] ^= 0xFF
    path.write_bytes(bad)
    assert not gguftool.verify(path, against=[tmp_path / "m.manifest"]).ok
    with gguftool.open(donor) as m:
        (done,) = gguftool.repair(path, m, against=[tmp_path / "m.manifest"])
    assert done.proven
    assert path.read_bytes() == good
    assert gguftool.repair(path, donor, against=[tmp_path / "m.manifest"]) == []


def test_names_of_shards_and_raw_pieces(path: Path, tmp_path: Path) -> None:
    whole = path.read_bytes()
    gguftool.split(path, str(tmp_path / "s"), max_tensors=4)
    parts = sorted(tmp_path.glob("s-*.gguf"))
    os.rename(parts[0], tmp_path / "first.gguf")
    planned = gguftool.rename_shards(tmp_path / "first.gguf", prefix="s", dry_run=True)
    assert planned.pairs == ((str(tmp_path / "first.gguf"), str(parts[0])),)
    assert not parts[0].exists()
    gguftool.rename_shards(tmp_path / "first.gguf", prefix="s")
    assert gguftool.verify(parts[0]).ok
    gguftool.merge(parts[1], output=tmp_path / "joined.gguf")
    assert gguftool.diff(tmp_path / "joined.gguf", path, data=True).same
    (tmp_path / "raw.gguf.part1of2").write_bytes(whole[:5000])
    (tmp_path / "raw.gguf.part2of2").write_bytes(whole[5000:])
    assert gguftool.join(tmp_path / "raw.gguf.part2of2", tmp_path / "raw.gguf") == len(whole)
    assert (tmp_path / "raw.gguf").read_bytes() == whole
    with pytest.raises(gguftool.UsageError):
        gguftool.join(path, tmp_path / "x.gguf")


# -- how objects show themselves


def objects(path: Path) -> list[object]:
    log = b"llama_model_load: error loading model: llama_model_loader: failed to load model from x.gguf\n"
    plan = gguftool.plan_edit(path, [gguftool.Set("general.name", "x" * 9999)])
    return [
        gguftool.lint(path),
        gguftool.memory(path),
        gguftool.overview(path),
        gguftool.predict(path),
        gguftool.predict(GGUF("llama").kv("llama.block_count", 1).bytes()),
        gguftool.diff(path, path),
        gguftool.verify(path, hash=True, data=True),
        gguftool.fixes(path),
        gguftool.hash_file(path),
        gguftool.hash_tensors(path)["token_embd.weight"],
        plan,
        plan.forecast,
        gguftool.explain("context_length"),
        gguftool.explain_flag("--ctx-size"),
        gguftool.explain_error("error loading model"),
        gguftool.check_log(log),
        gguftool.examine(),
        gguftool.rules()[0],
        gguftool.open(path),
        gguftool.edit(path),
    ]


def within(value: object, depth: int = 0, seen: set[int] | None = None) -> list[object]:
    """An object of the package and all of them that can be reached from it."""
    seen = set() if seen is None else seen
    if id(value) in seen or depth > 6:
        return []
    seen.add(id(value))
    found: list[object] = []
    if type(value).__module__.startswith("gguftool."):
        found.append(value)
        names = getattr(type(value), "__dataclass_fields__", {}) or vars(value) if hasattr(value, "__dict__") else {}
        names = names or getattr(type(value), "__dataclass_fields__", {})
        for name in names:
            if not name.startswith("_"):
                found += within(getattr(value, name, None), depth + 1, seen)
    elif isinstance(value, dict):
        for one in list(value.values())[:3]:
            found += within(one, depth + 1, seen)
    elif isinstance(value, (tuple, list)):
        for one in value[:3]:
            found += within(one, depth + 1, seen)
    return found


def test_every_object_shows_itself_in_one_line(path: Path) -> None:
    kinds = set()
    for top in objects(path):
        for one in within(top):
            if type(one).__module__.startswith("gguftool.run."):
                continue
            kinds.add(type(one).__name__)
            shown = repr(one)
            assert len(shown) <= 200, type(one)
            assert "\n" not in shown
            assert " object at 0x" not in shown, type(one)
    assert len(kinds) > 25


def test_tables_for_notebooks(path: Path) -> None:
    for one in objects(path):
        if type(one).__name__ in (
            "Model",
            "Report",
            "MemoryPlan",
            "EditPlan",
            "Prediction",
            "Difference",
            "Verification",
        ):
            html = one._repr_html_()  # type: ignore[attr-defined]
            assert html.startswith("<table>"), type(one)
            assert len(html) < 50_000
