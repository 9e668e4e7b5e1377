"""Every data file says where it comes from, and the generated ones are of one release and what the generator writes."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.facts import BUILD
from gguftool.facts.data import load, parsed

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "gguftool" / "facts" / "data"
HELP = ROOT / "tests" / "data" / "llamacpp" / f"help.{BUILD}.txt.gz"
GENERATED = (
    *("load_maps.json", "architectures.json", "readers.json", "vocabulary.json", "projectors.json", "flags.json"),
    *("conversions.json", "converters.json", "constants.json", "messages.json", "backends.json"),
    "tensor_names.json",
)


def named(folder: Path) -> list[str]:
    """What the first column of a README's table names."""
    rows = [line.split("|")[1] for line in (folder / "README.md").read_text().splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("folder", [DATA, ROOT / "tests" / "data"])
def test_every_data_file_says_where_it_comes_from(folder: Path) -> None:
    names = named(folder)
    files = [
        f.relative_to(folder).as_posix() for f in folder.rglob("*") if f.is_file() and "__pycache__" not in f.parts
    ]
    for file in files:
        if file in ("README.md", "__init__.py"):
            continue
        assert any(fnmatch.fnmatch(file, name) or file.startswith(name + "/") for name in names), file
    for name in names:
        assert any(fnmatch.fnmatch(file, name) or file.startswith(name + "/") for file in files), name


def test_one_build() -> None:
    assert re.fullmatch(r"b\d{5,}", BUILD)
    for name in GENERATED:
        data = load(name)
        assert str(data.get("build", data.get("source"))).removeprefix("b") == BUILD[1:] or BUILD in data["source"], (
            name
        )


def test_no_message_to_users_spells_the_build() -> None:
    """Evidence in docstrings and comments may; what is shown takes it from `BUILD`."""
    import ast

    for path in sorted((ROOT / "gguftool").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {
            node.body[0].value
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
            if isinstance(node.body[0], ast.Expr)
        }
        # Strings that stand alone are the docstrings of what is above them.
        docs |= {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        for node in ast.walk(tree):
            text = isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in docs
            if text and path.relative_to(ROOT).as_posix() != "gguftool/facts/__init__.py":
                assert BUILD not in node.value, f"{path.relative_to(ROOT)}:{node.lineno}"  # type: ignore[attr-defined]


def test_words_of_a_tree_without_a_number(tmp_path: Path) -> None:
    (tmp_path / "llama.cpp").mkdir()
    done = run(tmp_path / "llama.cpp", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "does not say which release it is" in done.stderr


def test_a_tree_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "llama.cpp-b99999").mkdir()
    done = run(tmp_path / "llama.cpp-b99999", "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("name", "package", "asked", "number"),
    [
        ("llama.cpp-b10434", None, None, "b10434"),
        ("llama.cpp", "Version: 11321.0.0", None, "b11321"),
        ("tree", None, "b12000", "b12000"),
        ("llama.cpp-b10434", "Version: 11321.0.0", None, None),
        ("llama.cpp-b10434", None, "b10435", None),
        ("tree", None, None, None),
    ],
)
def test_the_number_is_the_trees(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    package: str | None,
    asked: str | None,
    number: str | None,
) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "facts"))
    monkeypatch.delitem(sys.modules, "build", raising=False)
    from build import NoBuild, build_number

    tree = tmp_path / "package" / name
    tree.mkdir(parents=True)
    if package:
        (tmp_path / "package" / "PKG-INFO").write_text(f"Metadata-Version: 2.4\nName: x\n{package}\n")
    if number is None:
        with pytest.raises(NoBuild):
            build_number(tree, asked)
    else:
        assert build_number(tree, asked) == number
    monkeypatch.delitem(sys.modules, "build", raising=False)


def test_a_server_of_another_build_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "llama.cpp-b11434"
    (tree / "src").mkdir(parents=True)
    server = tmp_path / "llama-server"
    server.write_text(
        '#!/bin/sh\ncase $1 in --help) echo "-c, --ctx-size N   size";; *) echo "version: 10434 (abc1234)";; esac\n'
    )
    server.chmod(0o755)
    done = run(tree, server, "--output", tmp_path / "out")
    assert done.returncode == 2
    assert "the folder's name says b11434; the server says b10434" in done.stderr


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "facts"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=ROOT)


@pytest.fixture(scope="module")
def tree() -> Path:
    """The source tree the facts are of, as a source package holds it."""
    from tests.llama_cpp_source import CannotFetch, source_tree

    try:
        return source_tree()
    except CannotFetch as why:
        pytest.skip(str(why))


@pytest.mark.real
def test_the_generator_writes_what_is_there(tree: Path, tmp_path: Path) -> None:
    done = run(tree, HELP, "--output", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    for name in GENERATED:
        assert (tmp_path / name).read_bytes() == (DATA / name).read_bytes(), name
    # Nothing differs, and it says so by silence. That the packaged converter is not on this machine (other tests bring
    # it, before or after) is said, too.
    said = [line for line in done.stdout.splitlines() if not line.startswith("taken over: what convert-hf-to-gguf")]
    assert len(said) == 1


@pytest.mark.real
def test_what_cannot_be_read_is_an_error(tree: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / tree.name
    shutil.copytree(tree, copy)
    model = copy / "src" / "models" / "qwen2.cpp"
    model.write_text(
        model.read_text().replace("hparams.f_norm_rms_eps)", "hparams.f_norm_rms_eps, odd::thing<3>{})", 1)
    )
    arch = copy / "src" / "llama-arch.cpp"
    new = '    { LLM_KV_VOCAB_SIZE,                        "%s.vocab_size"'
    assert new in arch.read_text()
    arch.write_text(arch.read_text().replace(new, '    { LLM_KV_NEW_ONE, "%s.new_one" },\n' + new))
    done = run(copy, HELP, "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "not read: qwen2/hparams" in done.stderr
    assert "load_maps.json: qwen2: hparams" in done.stdout
    # the source has one name more than the table in use
    assert "readers.json: names new: {arch}.new_one" in done.stdout
    written = json.loads((tmp_path / "out" / "load_maps.json").read_text())
    assert written["build"] == BUILD


@pytest.mark.parametrize("path", sorted(DATA.rglob("*.json")), ids=lambda path: path.stem)
def test_data_of_the_package_is_read_as_json_reads_it(path: Path) -> None:
    text = path.read_bytes()
    assert repr(parsed(text)) == repr(json.loads(text))


def test_what_is_read_entry_by_entry_is_what_stands_in_the_file() -> None:
    whole = json.loads((DATA / "load_maps.json").read_text(encoding="utf-8"))
    read = load("load_maps.json")
    classes = read["classes"]
    assert not isinstance(classes, dict)
    assert list(read) == list(whole)
    assert (list(classes), len(classes)) == (list(whole["classes"]), len(whole["classes"]))
    apart = {part: read[part] for part in ("classes", "graph", "unused")}
    assert not any(isinstance(entries, dict) for entries in apart.values())
    assert {**read, **{part: dict(entries) for part, entries in apart.items()}} == whole
    assert classes.get("lama") is None
    assert '"' not in classes


@pytest.mark.parametrize("file", ["architectures", "constants"])
def test_what_is_read_by_architecture_is_what_stands_in_the_file(file: str) -> None:
    whole = json.loads((DATA / f"{file}.json").read_text(encoding="utf-8"))[file]
    read = load(f"{file}.json")[file]
    assert not isinstance(read, dict)
    assert dict(read) == whole
    # Names of strangers' files: with bytes that are no text, and with what would lead on in the file.
    beginning = json.dumps(whole["afmoe"], separators=(",", ":")).rpartition('":')[0]
    for name in ("", "\udcff", "lama", "afmoe\n", f'afmoe":{beginning}'):
        assert name not in read
