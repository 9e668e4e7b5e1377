"""What is generated is in step with the program, names all of it, and is what its readers take."""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gguftool
from gguftool.cli.group import TABLE
from gguftool.door import public_names
from tests.docs.blocks import ROOT

REFERENCE = ROOT / "docs" / "reference"
MAN = ROOT / "man"
_ASKED = re.compile(r"(?:environ(?:\.get|\.pop)?[\[(]|\bhome\.said\(|\buser\.said\(|\bsaid\()\"([A-Z][A-Z0-9_]+)\"")
_NAMED = re.compile(r"^(?:VARIABLE|P2P|GITHUB) = \"([A-Z][A-Z0-9_]+)\"", re.M)
INSIDE = {"GGUFTOOL_FIELDS", "PYTHONPATH"}
"""Between gguftool and a process that it starts."""


def test_what_is_generated_is_in_step() -> None:
    script = ROOT / "scripts" / "docs.py"
    done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_every_public_name_is_told() -> None:
    page = (REFERENCE / "python.md").read_text()
    sections = dict(re.findall(r"^### (\w+)\n(.*?)(?=^###? |\Z)", page, re.S | re.M))
    assert set(sections) == set(public_names())
    for name, text in sections.items():
        words = re.sub(r"```.*?```", "", text, flags=re.S).split()
        assert len(words) >= 3 or name == "BUILD", name


def test_every_argument_of_a_public_function_is_told() -> None:
    """But what says itself: a model, and what the text above speaks of by name."""
    for name in public_names():
        value = getattr(gguftool, name)
        if not inspect.isfunction(value):
            continue
        told = inspect.getdoc(value) or ""
        for argument in inspect.signature(value).parameters:
            assert re.search(rf"\b{argument}\b", told), f"{name}: {argument}"


def test_every_variable_of_the_environment_is_told() -> None:
    page = (REFERENCE / "environment.md").read_text()
    told = set(re.findall(r"`([A-Z][A-Z0-9_]+)`", page))
    source = "\n".join(path.read_text() for path in (ROOT / "gguftool").rglob("*.py"))
    asked = set(_ASKED.findall(source)) | set(_NAMED.findall(source)) - {"_GGUFTOOL_COMPLETE"}
    assert asked - told - INSIDE == set()
    # The programs' own are put together of their names, the proxies asked for by the standard library.
    elsewhere = {"GGUFTOOL_LLAMA_SERVER", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"}
    assert {name for name in told - elsewhere if not re.search(rf"\b{name}\b", source)} == set()


def test_every_schema_is_told() -> None:
    page = (REFERENCE / "schemas.md").read_text()
    names = {path.name.removesuffix(".schema.json") for path in (ROOT / "gguftool" / "schemas").glob("*.json")}
    assert set(re.findall(r"^## (\S+)$", page, re.M)) == names


def test_exit_codes_of_the_readme_are_those_of_the_page() -> None:
    page = (REFERENCE / "exit-codes.md").read_text()
    codes = {code for code, _ in re.findall(r"^\| ([\d, ]+) \| (.*?) \|$", page, re.M)}
    assert codes == {"0", "1", "2", "3", "4", "5", "6", "7", "70", "129, 130, 143"}
    for line in re.findall(r"^\| `\w+` \| `[\w-]+` \| (\d+) \|", page, re.M):
        assert line in codes


def test_every_command_has_a_manual_page() -> None:
    assert {page.name for page in MAN.iterdir()} == {"gguftool.1", *(f"gguftool-{entry.name}.1" for entry in TABLE)}
    root = (MAN / "gguftool.1").read_text()
    for entry in TABLE:
        assert f"gguftool\\-{entry.name.replace('-', chr(92) + '-')}\\fR(1)" in root


@pytest.mark.skipif(shutil.which("man") is None, reason="no man on this machine")
def test_manual_pages_have_no_warning(tmp_path: Path) -> None:
    (tmp_path / "man1").mkdir()
    for page in MAN.iterdir():
        shutil.copy(page, tmp_path / "man1")
    env = {**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANROFFSEQ": ""}
    for page in sorted(MAN.iterdir()):
        done = subprocess.run(
            ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", str(page)],
            capture_output=True,
            text=True,
            env=env,
        )
        assert (done.returncode, done.stderr) == (0, ""), page.name
    found = subprocess.run(
        ["man", "-M", str(tmp_path), "gguftool-lint"], capture_output=True, text=True, env={**env, "MANPAGER": "cat"}
    )
    assert found.returncode == 0, found.stderr
    text = re.sub(r".\x08", "", found.stdout)
    assert "gguftool lint [OPTIONS] MODEL..." in text
    assert "--cache-type K[/V]" in text
    assert "gguftool lint --fix model.gguf" in text
