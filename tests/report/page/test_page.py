"""`gguftool report`: the record, its JSON, and the page that is made of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import gguftool
from gguftool.report.page.data import body
from tests.build import llama
from tests.json_schemas import check_schema


def run(*args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gguftool", "report", *args]
    return subprocess.run(line, cwd=cwd, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)


def test_the_page_has_the_models_name_and_is_never_replaced_unasked(tmp_path: Path) -> None:
    llama().write(tmp_path / "m.gguf")
    done = run("m.gguf", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "wrote m.html\n"), done.stderr
    page = (tmp_path / "m.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    again = run("m.gguf", cwd=tmp_path)
    assert again.returncode == 4
    assert "--overwrite" in again.stderr
    assert (tmp_path / "m.html").read_text() == page
    assert run("m.gguf", "--overwrite", cwd=tmp_path).returncode == 0
    assert run("m.gguf", "-o", "-", cwd=tmp_path).stdout == page


def test_json_is_the_data_of_the_page(tmp_path: Path) -> None:
    path = llama().write(tmp_path / "m.gguf")
    done = run("m.gguf", "--format", "json", cwd=tmp_path)
    found = json.loads(done.stdout)
    check_schema(found)
    assert not list(tmp_path.glob("*.html"))
    made = json.loads(json.dumps(body(gguftool.report(path))))
    assert found["model"]["tensors"] == made["model"]["tensors"]
    assert found["model"]["identity"]["architecture"] == "llama"
