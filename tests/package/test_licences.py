"""Whose each file is stands in REUSE.toml, and no file of data is without an entry of its own."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "package"))
import contents  # noqa: E402

ROWS: list[dict[str, Any]] = tomllib.loads((ROOT / "REUSE.toml").read_text())["annotations"]
WITH_DATA = ("gguftool/", "tests/", "fixtures/", "scripts/", "benchmarks/")
CODE = (".py", ".sh")
ALL = "**"


def files() -> set[str]:
    found = contents.tracked(ROOT, new=True)
    return found if found is not None else {p.relative_to(ROOT).as_posix() for p in ROOT.rglob("*") if p.is_file()}


def patterns(row: dict[str, Any]) -> list[str]:
    return [row["path"]] if isinstance(row["path"], str) else row["path"]


def fits(pattern: str, name: str) -> bool:
    """As REUSE has it: ``**`` goes through folders, ``*`` does not."""
    parts = re.split(r"(\*\*|\*)", pattern)
    words = {"**": ".*", "*": "[^/]*"}
    return re.fullmatch("".join(words.get(part, re.escape(part)) for part in parts), name) is not None


def entry(name: str) -> dict[str, Any]:
    """The last that fits counts."""
    return [row for row in ROWS if any(fits(p, name) for p in patterns(row))][-1]


def data() -> list[str]:
    return sorted(n for n in files() if n.startswith(WITH_DATA) and not n.endswith(CODE) and n.count("/") > 1)


def test_every_file_of_data_has_an_entry() -> None:
    lacking = [n for n in data() if patterns(entry(n)) == [ALL] and "__pycache__" not in n]
    assert lacking == [], "say in REUSE.toml whose they are, then ./dev docs"
    assert len(data()) > 300


def test_every_entry_has_a_file() -> None:
    names = files()
    for row in ROWS:
        for pattern in patterns(row):
            assert any(fits(pattern, n) for n in names), f"REUSE.toml: {pattern}"


@pytest.mark.parametrize(
    ("name", "licence", "whose"),
    [
        ("gguftool/facts/data/alice.txt", "LicenseRef-Public-Domain", "NONE"),
        ("gguftool/facts/data/messages.json", "MIT", "The ggml authors"),
        ("gguftool/facts/data/builds/maps.jsonl", "MIT", "The ggml authors"),
        ("gguftool/facts/data/licences.json", "MIT AND CC0-1.0", "SPDX"),
        ("tests/data/logs/server.default.log.gz", "MIT", "The ggml authors"),
        ("tests/data/lint/junit.xsd", "MIT", "Gregory Boissinot"),
        ("gguftool/cli/main.py", "MIT", "gguftool authors"),
    ],
)
def test_whose(name: str, licence: str, whose: str) -> None:
    row = entry(name)
    assert row["SPDX-License-Identifier"] == licence
    assert whose in str(row["SPDX-FileCopyrightText"])


def test_every_licence_has_its_text() -> None:
    said = {word for row in ROWS for word in row["SPDX-License-Identifier"].split() if word not in ("AND", "OR")}
    assert said == {p.stem for p in (ROOT / "LICENSES").glob("*.txt")}


@pytest.mark.parametrize("page", ["notice.py", "package/sbom.py"])
def test_what_is_made_of_it_is_in_step(page: str) -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / page, "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_every_origin_is_told() -> None:
    """`tests/data/README.md` names every file of its folder, as the one of the facts does."""
    text = (ROOT / "tests" / "data" / "README.md").read_text()
    named = [
        n for row in text.splitlines() if row.startswith("| `") for n in re.findall(r"`([^`]+)`", row.split("|")[1])
    ]
    for name in sorted(n.removeprefix("tests/data/") for n in files() if n.startswith("tests/data/")):
        assert name == "README.md" or any(fnmatchcase(name, n) or name.startswith(f"{n}/") for n in named), name
