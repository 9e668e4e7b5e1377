"""Which of several templates counts: held against what transformers and the converter took of real folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gguftool.build.folder.look import look
from gguftool.chat.infolder import order, templates
from gguftool.lint.against import read_folder
from tests.building import hf
from tests.chat.template_files_run import CONFIGS, FILES

ROWS: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "data" / "chat" / "template_files.json").read_text()
)


def made(row: dict[str, Any], path: Path) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(hf.CONFIGS["qwen2"]))
    if row["config"] != "none":
        (path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "X", **CONFIGS[row["config"]]}))
    for kind in row["files"]:
        for name, text in FILES[kind].items():
            (path / name).parent.mkdir(exist_ok=True)
            (path / name).write_text(text)
    return path


@pytest.mark.parametrize("row", ROWS, ids=lambda r: "-".join((r["config"], *r["files"])))
def test_as_the_programs_take_them(row: dict[str, Any], tmp_path: Path) -> None:
    source = read_folder(made(row, tmp_path / "m")).templates
    assert (source.converted.text if source.converted else None) == row["converter"]
    theirs = row["processor"] or row["tokenizer"] if "processor" in row["files"] else row["tokenizer"]
    if theirs is not None and not theirs.startswith("!"):
        assert source.used is not None
        assert source.used.text == theirs
    kinds = {p.kind for p in look(str(tmp_path / "m")).problems}
    apart = source.used is not None and source.used.text != row["converter"]
    assert bool(kinds & {"two-templates", "template-lost"}) == apart


def test_rows_are_of_every_kind() -> None:
    assert len(ROWS) == len(CONFIGS) * 2 ** len(FILES)
    assert sum(r["tokenizer"] != r["converter"] for r in ROWS) > 20


def test_the_look_says_which_and_how(tmp_path: Path) -> None:
    path = hf.folder(tmp_path / "m", "qwen2")
    assert "two-templates" not in {p.kind for p in look(str(path)).problems}
    (path / "chat_template.jinja").write_text(hf.CHATML)  # the same text twice is one template
    assert "two-templates" not in {p.kind for p in look(str(path)).problems}
    (path / "chat_template.jinja").write_text(hf.PLAIN)
    (problem,) = [p for p in look(str(path)).problems if p.kind == "two-templates"]
    assert not problem.fatal
    assert "take the one in chat_template.jinja, the converter that of tokenizer_config.json" in problem.message
    assert f"--chat-template {path}/chat_template.jinja" in str(problem.hint)


def test_named_templates_are_those_of_the_file_that_counts() -> None:
    named = [{"name": "default", "template": "d"}, {"name": "tool_use", "template": "t"}]
    assert templates((), {"chat_template": named}, None).named == {"tool_use": "t"}
    assert templates((), {"chat_template": named}, "j", None, {"rag": "r"}).named == {"rag": "r"}
    assert templates((), None, None).used is None
    assert order(("processor_config.json",))[0] == "chat_template.json"
