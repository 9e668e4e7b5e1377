"""docs/library.md: its examples are run in order, and a strict checker of types takes them."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from gguftool.door import public_names
from tests.build import llama
from tests.cross.test_library import check_types

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "library.md"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    llama().write(tmp_path / "model.gguf")
    for name in ("other.gguf", "copy.gguf"):
        llama(general__url="u").write(tmp_path / name)
    (tmp_path / "server.log").write_text(
        "llama_model_load: error loading model: llama_model_loader: failed to load model from x.gguf\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_examples_do_what_they_show(place: Path) -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    said: list[str] = []
    runner.run(parser.get_doctest(PAGE.read_text(), {}, "library.md", str(PAGE), 0), out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 30


def test_the_examples_are_typed(tmp_path: Path) -> None:
    code = ["import gguftool"]
    for example in doctest.DocTestParser().get_examples(PAGE.read_text()):
        code.append(example.source.rstrip())
    code += [block.rstrip() for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)]
    assert check_types(tmp_path, "\n".join(code) + "\n") == ""


def _blocks() -> list[tuple[str, str]]:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = (
        (page.name, block) for page in pages for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    )
    return [(name, block) for name, block in found if "import gguftool" in block]


def test_examples_of_other_pages_are_typed(tmp_path: Path) -> None:
    assert len(_blocks()) >= 2
    for name, block in _blocks():
        assert check_types(tmp_path, block) == "", name


def test_every_function_is_named_on_the_page() -> None:
    text = PAGE.read_text()
    functions = {name for name in public_names() if name.islower()}
    # The page explains ways, not every name: these have a page of their own, or are said by another.
    elsewhere = {"rules", "explain_flag", "explain_error", "judge_log", "examine", "recover", "hash_tensors"}
    assert {name for name in functions if not re.search(rf"\b{name}\b", text)} <= elsewhere


def test_the_first_minute_of_a_library_user(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """docs/roles/library-user.md: its example runs as it stands, and leaves the file as it was."""
    before = (place / "model.gguf").read_bytes()
    page = (ROOT / "docs" / "roles" / "library-user.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "library-user.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "tiny llama 2048"
    assert said[1] == "(64, 64)"
    assert said[2].startswith("loads [")
    assert (place / "model.gguf").read_bytes() == before
