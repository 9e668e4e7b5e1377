"""Bills of materials of gguftool itself (CycloneDX 1.6): of what the package holds, and of an installation of it.

    python scripts/package/sbom.py          write sbom/gguftool.cdx.json, which the wheel carries (PEP 770)
    python scripts/package/sbom.py --check  only compare

The wheel's own names what it declares to need, without versions; that of an installation (`./dev package`) has
the versions that pip chose, their licences, and the hashes of wheel and source archive. The same input gives the
same bytes.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tomllib
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "sbom" / "gguftool.cdx.json"
sys.path.append(str(ROOT / "scripts"))
from notice import entries, several  # noqa: E402

INSTALLED = """\
import json, importlib.metadata as m
print(json.dumps([{"name": d.metadata["Name"], "version": d.version, "expression": d.metadata.get("License-Expression"),
    "licence": d.metadata.get("License"), "requires": d.requires or [],
    "classifiers": [c for c in d.metadata.get_all("Classifier") or () if c.startswith("License :: ")]}
    for d in m.distributions()]))
"""
FOR_DEVELOPERS = ("test", "dev", "docs")
"""Extras that no user installs."""


def canonical(name: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def project() -> dict[str, Any]:
    """The table ``[project]``, with the version."""
    table: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    said = re.search(r'__version__ = "([^"]+)"', (ROOT / "gguftool" / "version.py").read_text(encoding="utf-8"))
    if said is None:
        raise SystemExit("gguftool/version.py says no version")
    return {**table, "version": said[1]}


def requirements(table: Mapping[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """By package that users may need: what is declared, and the extra it is for ("" for all)."""
    found: dict[str, list[tuple[str, str]]] = {}
    sets = {"": table["dependencies"], **table["optional-dependencies"]}
    for extra, lines in sets.items():
        if extra in FOR_DEVELOPERS:
            continue
        for line in lines:
            name = re.match(r"[\w.-]+", line)
            if name is not None and canonical(name[0]) != "gguftool":
                found.setdefault(canonical(name[0]), []).append((line, extra))
    return found


def _component(table: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
    ours: dict[str, Any] = {
        "type": "application", "bom-ref": "gguftool", "name": "gguftool", "version": table["version"],
        "description": table["description"], "licenses": [{"license": {"id": table["license"]}}],
    }  # fmt: skip
    if hashes:
        ours["components"] = [
            {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}
            for name, digest in sorted(hashes.items())
        ]
    return ours


def _data() -> Iterable[dict[str, Any]]:
    """What others gave, of what the wheel holds."""
    build = re.search(r'BUILD = "(b\d+)"', (ROOT / "gguftool" / "facts" / "__init__.py").read_text(encoding="utf-8"))
    for number, entry in enumerate(e for e in entries() if "SPDX-FileComment" in e):
        paths = [path for path in several(entry["path"]) if path.startswith("gguftool/")]
        if not paths:
            continue
        whose = [c for c in several(entry["SPDX-FileCopyrightText"]) if c != "NONE"]
        made: dict[str, Any] = {
            "type": "data", "bom-ref": f"data-{number}",
            "name": Path(paths[0]).name if len(paths) == 1 else "gguftool/facts/data",
            "description": entry["SPDX-FileComment"], "data": [{"type": "dataset", "contents": {"properties": [
                {"name": "gguftool:file", "value": path} for path in paths]}}],
        }  # fmt: skip
        said = entry["SPDX-License-Identifier"]
        if said.startswith("LicenseRef-") and " " not in said:
            made["licenses"] = [{"license": {"name": said}}]
        else:
            made["licenses"] = [{"expression": said}]
        if whose:
            made["copyright"] = "; ".join(f"Copyright (c) {c}" for c in whose)
        if build is not None and "The ggml authors" in made.get("copyright", ""):
            made["pedigree"] = {"ancestors": [{
                "type": "application", "bom-ref": f"llama.cpp-{number}", "name": "llama.cpp", "version": build[1],
                "purl": f"pkg:github/ggml-org/llama.cpp@{build[1]}", "licenses": [{"license": {"id": "MIT"}}],
            }]}  # fmt: skip
        yield made


def _declared(table: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    for name, said in sorted(requirements(table).items()):
        needed = any(not extra for _, extra in said)
        yield {
            "type": "library", "bom-ref": f"pypi-{name}", "name": name, "purl": f"pkg:pypi/{name}",
            "scope": "required" if needed else "optional",
            "properties": [
                {"name": f"gguftool:requires{f'[{extra}]' if extra else ''}", "value": line} for line, extra in said
            ],
        }  # fmt: skip


def _installed(row: Mapping[str, Any]) -> dict[str, Any]:
    name = canonical(row["name"])
    made: dict[str, Any] = {
        "type": "library", "bom-ref": f"pypi-{name}", "name": name, "version": row["version"],
        "purl": f"pkg:pypi/{name}@{row['version']}", "scope": "required",
    }  # fmt: skip
    said = row["expression"] or (row["licence"] or "").strip().splitlines()[:1]
    if isinstance(said, str):
        made["licenses"] = [{"expression": said}]
    elif said and len(said[0]) < 80:
        made["licenses"] = [{"license": {"name": said[0]}}]
    elif row["classifiers"]:
        made["licenses"] = [{"license": {"name": c.rpartition(" :: ")[2]}} for c in row["classifiers"]]
    return made


def bill(installed: Sequence[Mapping[str, Any]] = (), hashes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """One bill of materials.

    Args:
        installed: packages of an environment, as `in_environment` has them; none: what is declared.
        hashes: SHA-256 of the files of the release by name.
    """
    table = project()
    others = [row for row in installed if canonical(row["name"]) not in ("gguftool", "pip", "setuptools")]
    libraries = sorted(map(_installed, others), key=lambda c: str(c["name"])) if installed else list(_declared(table))
    there = {c["name"] for c in libraries}
    needs = {"gguftool": sorted(there & set(requirements(table)))}
    for row in others:
        # What a marker leaves out is not there; what is there through another extra is at worst named twice.
        names = (re.match(r"[\w.-]+", line) for line in row["requires"] if "extra ==" not in line)
        needs[canonical(row["name"])] = sorted({canonical(n[0]) for n in names if n} & there)
    data = list(_data())
    graph = [{"ref": f"pypi-{name}", "dependsOn": [f"pypi-{n}" for n in on]} for name, on in sorted(needs.items())]
    ours = next(row for row in graph if row["ref"] == "pypi-gguftool")
    ours["ref"] = "gguftool"
    ours["dependsOn"] = [*(c["bom-ref"] for c in data), *ours["dependsOn"]]
    made: dict[str, Any] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.6",
        "version": 1, "metadata": {"component": _component(table, hashes or {})},
        "components": data + libraries, "dependencies": graph,
    }  # fmt: skip
    serial = uuid.uuid5(
        uuid.NAMESPACE_URL, "gguftool:" + hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    )
    return {**made, "serialNumber": f"urn:uuid:{serial}"}


def in_environment(python: str) -> list[dict[str, Any]]:
    """The packages that a Python has beside its own modules."""
    done = subprocess.run([python, "-I", "-c", INSTALLED], capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def text(made: Mapping[str, Any]) -> str:
    """A bill as it is written."""
    return json.dumps(made, indent=1, sort_keys=True) + "\n"


def main() -> None:
    """Write the wheel's, or with ``--check`` exit 1 when it is out of step."""
    now = text(bill())
    if "--check" in sys.argv[1:]:
        there = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == now
        sys.exit(0 if there else f"{PAGE.name} is out of step: ./dev docs")
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(now, encoding="utf-8")


if __name__ == "__main__":
    main()
