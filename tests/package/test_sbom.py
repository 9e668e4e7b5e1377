"""The bill of materials that the wheel carries, and the one of an installation."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "package"))
import sbom  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def valid(text: str) -> None:
    validation = pytest.importorskip("cyclonedx.validation.json")
    from cyclonedx.schema import SchemaVersion

    assert validation.JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


@pytest.fixture(scope="module")
def installed() -> dict[str, Any]:
    return sbom.bill(sbom.in_environment(sys.executable), {"gguftool-0.1.0.tar.gz": "0" * 64})


def test_the_wheels_own() -> None:
    text = sbom.PAGE.read_text()
    valid(text)
    bill = json.loads(text)
    from gguftool import __version__
    from gguftool.facts import BUILD

    assert bill["metadata"]["component"]["version"] == __version__
    libraries = {c["name"]: c for c in bill["components"] if c["type"] == "library"}
    for line in PROJECT["dependencies"]:
        said = libraries[sbom.canonical(line.partition(">")[0])]
        assert (said["scope"], {"name": "gguftool:requires", "value": line} in said["properties"]) == ("required", True)
    assert libraries["xxhash"]["scope"] == "optional"
    assert "pytest" not in libraries
    made = [c for c in bill["components"] if "pedigree" in c]
    assert {(a["name"], a["version"]) for c in made for a in c["pedigree"]["ancestors"]} == {("llama.cpp", BUILD)}


def test_of_an_installation(installed: dict[str, Any]) -> None:
    from importlib.metadata import version

    valid(sbom.text(installed))
    there = {c["name"]: c for c in installed["components"] if c["type"] == "library"}
    assert there["click"]["version"] == version("click")
    assert there["click"]["licenses"] == [{"expression": "BSD-3-Clause"}]
    assert "gguftool" not in there
    on = {d["ref"]: d["dependsOn"] for d in installed["dependencies"]}
    assert {"pypi-click", "pypi-numpy", "pypi-gguf", "pypi-huggingface-hub"} <= set(on["gguftool"])
    assert "pypi-numpy" in on["pypi-gguf"]
    (file,) = installed["metadata"]["component"]["components"]
    assert file["hashes"] == [{"alg": "SHA-256", "content": "0" * 64}]


def test_the_same_twice(installed: dict[str, Any]) -> None:
    again = sbom.bill(sbom.in_environment(sys.executable), {"gguftool-0.1.0.tar.gz": "0" * 64})
    assert sbom.text(again) == sbom.text(installed)
