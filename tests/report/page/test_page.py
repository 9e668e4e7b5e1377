"""`gguftool report`: the record, its JSON, and the page that is made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.cli.report import _name
from gguftool.report.page.data import body
from tests.build import llama
from tests.json_schemas import check_schema


def test_the_page_has_the_models_name_and_is_never_replaced_unasked(
    cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    llama().write(tmp_path / "m.gguf")
    monkeypatch.chdir(tmp_path)
    done = cli("report", "m.gguf", "--ram", "4GiB")
    assert (done.code, done.out) == (0, "wrote m.html\n"), done.err
    page = (tmp_path / "m.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    again = cli("report", "m.gguf")
    assert again.code == 4
    assert "--overwrite" in again.err
    assert (tmp_path / "m.html").read_text() == page
    assert cli("report", "m.gguf", "--ram", "4GiB", "--overwrite").code == 0
    assert cli("report", "m.gguf", "--ram", "4GiB", "-o", "-").out == page


def test_json_is_the_data_of_the_page(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = llama().write(tmp_path / "m.gguf")
    monkeypatch.chdir(tmp_path)
    found = cli("report", "m.gguf", "--ram", "4GiB", "--format", "json").json
    check_schema(found)
    assert not list(tmp_path.glob("*.html"))
    made = json.loads(json.dumps(body(gguftool.report("m.gguf", ram="4GiB"))))
    for name in ("verdict", "model"):
        assert found[name] == made[name]
    assert found["model"]["identity"]["architecture"] == "llama"
    # With -o both.
    assert cli("report", path, "--format", "json", "-o", "both.html").json["written"] == "both.html"
    assert (tmp_path / "both.html").exists()


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("m.gguf", "m.html"),
        ("a/b.GGUF", "b.html"),
        ("/models/", "models.html"),
        ("hf://owner/repo", "repo.html"),
        ("hf://owner/repo/m.gguf", "m.html"),
        ("hf://owner/repo:Q4_K_M", "repo-Q4_K_M.html"),
        ("https://host/a/m.gguf?download=true", "m.html"),
        ("ollama://gemma3:270m", "gemma3-270m.html"),
        ("model", "model.html"),
    ],
)
def test_names(spec: str, name: str) -> None:
    assert _name(spec) == name
