"""Known findings: which are left out, which are new, which are gone, and reports that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.build import GGUF, llama

BASE = "llama.rope.freq_base"


def faulty(base: float = 1.0) -> GGUF:
    return llama().replace(BASE, base)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two folders, each with a model of the same name and the same faults; the working directory is above them."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        faulty().write(tmp_path / name / "m.gguf")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(cli: Any, *names: str, to: str = "known.json", form: str = "json") -> Path:
    path = Path(to)
    path.write_text(cli("lint", *names, "--format", form, "--exit-zero").out)
    return path


def found(cli: Any, name: str, known: Path | str, *more: str) -> dict[str, Any]:
    result = cli("lint", name, "--baseline", known, "--format", "json", "--exit-zero", *more)
    assert result.code == 0, result.err
    file: dict[str, Any] = result.json["files"][0]
    return file


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_known_findings_are_left_out(form: str, cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf", "b/m.gguf", form=form)
    n = len(
        json.loads(known.read_text().splitlines()[0] if form == "jsonl" else known.read_text())["files"][0]["findings"]
    )
    assert n > 1
    for name in ("a/m.gguf", "./a/../a/m.gguf", str(models / "b" / "m.gguf")):
        file = found(cli, name, known)
        assert (file["findings"], file["known"], file["gone"]) == ([], n, [])
    assert cli("lint", "a/m.gguf", "--baseline", known).code == 0


def test_a_warning_that_became_an_error_is_new(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf")
    faulty(-5.0).write(models / "a" / "m.gguf")
    result = cli("lint", "a/m.gguf", "--baseline", known, "--format", "json")
    assert result.code == 1
    new = [f for f in result.json["files"][0]["findings"] if f["where"] == f"field:{BASE}"]
    assert [f["severity"] for f in new] == ["error"]
    gone = [e for e in result.json["files"][0]["gone"] if e["where"] == f"field:{BASE}"]
    assert [e["severity"] for e in gone] == ["warning"]


def test_other_facts_are_new(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf")
    faulty(2.0).write(models / "a" / "m.gguf")
    file = found(cli, "a/m.gguf", known)
    assert [f["where"] for f in file["findings"]] == [f"field:{BASE}"]
    assert [e["where"] for e in file["gone"]] == [f"field:{BASE}"]


def test_another_file_of_that_name_is_new(cli, models: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf").resolve()
    assert found(cli, "b/m.gguf", known)["findings"]
    # nor where both were named without their folders
    monkeypatch.chdir(models / "a")
    inside = saved(cli, "m.gguf", to="../inside.json").resolve()
    assert found(cli, "m.gguf", inside)["findings"] == []
    monkeypatch.chdir(models / "b")
    assert found(cli, "m.gguf", inside)["known"] == 0
    assert found(cli, "../a/m.gguf", inside)["findings"] == []


def test_a_baseline_goes_along_with_its_folder(cli, models: Path, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    saved(cli, "a/m.gguf")
    there = tmp_path / "elsewhere"
    (there / "a").mkdir(parents=True)
    for name in ("a/m.gguf", "known.json"):
        (there / name).write_bytes((models / name).read_bytes())
    report = json.loads((there / "known.json").read_text())
    (there / "known.json").write_text(json.dumps(report | {"cwd": "/of/another/machine"}))
    monkeypatch.chdir(there / "a")
    assert found(cli, "m.gguf", "../known.json")["findings"] == []


def test_what_no_longer_occurs_is_told(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf", "b/m.gguf")
    llama().write(models / "a" / "m.gguf")
    file = found(cli, "a/m.gguf", known)
    assert [(e["where"], e["severity"]) for e in file["gone"]] == [(f"field:{BASE}", "warning")]
    text = cli("lint", "a/m.gguf", "--baseline", known, "--exit-zero").out
    assert f"field:{BASE}: no longer occurs" in text
    # nothing is said of rules that were not asked, nor of other files
    assert found(cli, "a/m.gguf", known, "--ignore", file["gone"][0]["rule"])["gone"] == []
    assert found(cli, "b/m.gguf", known)["gone"] == []
    (models / "b" / "m.gguf").unlink()
    assert "findings are of files that are no longer there" in cli("lint", "a/m.gguf", "--baseline", known).err


def test_an_entry_hides_one_finding(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf")
    report = json.loads(known.read_text())
    report["files"][0]["findings"] *= 2
    known.write_text(json.dumps(report))
    file = found(cli, "a/m.gguf", known)
    assert len(file["gone"]) == file["known"] > 0


def test_a_report_of_old_is_read_with_a_line_of_notice(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf")
    report = json.loads(known.read_text())
    del report["cwd"]
    for f in report["files"][0]["findings"]:
        del f["digest"]
    known.write_text(json.dumps(report))
    result = cli("lint", "a/m.gguf", "--baseline", known)
    assert result.code == 0
    assert [line for line in result.err.splitlines() if "earlier gguftool" in line] == [result.err.strip()]
    assert found(cli, "b/m.gguf", known)["findings"]
    faulty(2.0).write(models / "a" / "m.gguf")
    assert found(cli, "a/m.gguf", known)["findings"] == []
    faulty(-5.0).write(models / "a" / "m.gguf")
    assert found(cli, "a/m.gguf", known)["findings"]


def test_messages_are_not_compared(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    known = saved(cli, "a/m.gguf")
    report = json.loads(known.read_text())
    for f in report["files"][0]["findings"]:
        f["message"] = "said otherwise"
    known.write_text(json.dumps(report))
    assert found(cli, "a/m.gguf", known)["findings"] == []


FINDING = '{"format": "gguftool.lint/1", "files": [{"path": "m", "findings": [%s]}]}'
BAD = {
    "object": b"{}",
    "format": b'{"format": "gguftool.dump/1"}',
    "list": b"[1, 2]",
    "text": b"not json",
    "byte": b"\xff",
    "byte within": b'{"format": "gguftool.lint/1", "files": ["\xff"]}',
    "deep": b"[" * 100_000,
    "deep object": b'{"a":' * 100_000,
    "number": b"9" * 5000,
    "nul": b"\0",
    "utf-16": '{"format": 1}'.encode("utf-16"),
    "places": (FINDING % '{"rule": "a", "where": [1], "severity": "error"}').encode(),
    "no severity": (FINDING % '{"rule": "a", "where": "file"}').encode(),
    "path": (FINDING % '{"rule": "a", "where": "file", "severity": "error", "path": 7}').encode(),
    "digest": (FINDING % '{"rule": "a", "where": "file", "severity": "error", "digest": {}}').encode(),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_report_is_a_usage_error(name: str, cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    Path("bad.json").write_bytes(BAD[name])
    result = cli("lint", "a/m.gguf", "--baseline", "bad.json")
    assert result.code == 2, result.err
    assert "not a report of gguftool lint" in result.err
    assert "Traceback" not in result.err


def test_other_things_in_its_place(cli, models: Path) -> None:  # type: ignore[no-untyped-def]
    Path("empty").write_text("")
    assert cli("lint", "a/m.gguf", "--baseline", "empty", "--exit-zero").code == 0  # an empty report knows nothing
    assert cli("lint", "a/m.gguf", "--baseline", "none.json").code == 2
    folder = cli("lint", "a/m.gguf", "--baseline", "a")
    assert (folder.code, "cannot be read" in folder.err) == (2, True)
