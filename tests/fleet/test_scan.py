"""Many models: one row each, whatever is wrong with one of them; parallel and resumable."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from tests.build import llama
from tests.json_schemas import validator
from tests.verify.sets import three


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    root = tmp_path / "zoo"
    (root / "sub" / "deep").mkdir(parents=True)
    llama().write(root / "a.gguf")
    llama(layers=2).truncate(-500).write(root / "sub" / "cut.gguf")
    three(root / "sub" / "deep")
    (root / "page.gguf").write_bytes(b"<!DOCTYPE html><title>Sign in</title>")
    (root / "README.md").write_text("x")
    return root


def by_name(result) -> dict[str, dict]:
    return {os.path.basename(row["path"]): row for row in result.json["models"]}


def test_one_row_for_each_model(cli, zoo: Path):
    result = cli("scan", zoo, "--format", "json")
    assert result.code == 1
    rows = by_name(result)
    assert set(rows) == {"a.gguf", "cut.gguf", "m-00001-of-00003.gguf", "page.gguf"}
    assert {name for name, row in rows.items() if row["ok"]} == {"a.gguf", "m-00001-of-00003.gguf"}
    assert rows["m-00001-of-00003.gguf"]["set"] == {"count": 3, "present": 3, "ok": True}
    assert rows["a.gguf"]["facts"]["architecture"] == "llama"
    assert rows["a.gguf"]["facts"]["context_length"] == 2048
    assert [p["kind"] for p in rows["cut.gguf"]["problems"]] == ["truncated"]
    assert rows["page.gguf"]["error"]["code"] == "not-gguf"
    assert result.json["counts"] == {"models": 4, "whole": 2, "broken": 2}


def test_other_formats(cli, zoo: Path):
    text = cli("scan", zoo)
    assert text.code == 1
    assert "4 models, 2 whole, 2 not" in text.out
    assert "HTML page" in text.out
    lines = cli("scan", zoo, "--format", "jsonl").out.splitlines()
    assert {json.loads(line)["format"] for line in lines} == {"gguftool.scan-row/1"}
    assert len(lines) == 4
    for line in lines:
        validator("scan-row").validate(json.loads(line))
    table = cli("scan", zoo, "--format", "markdown").out
    assert table.startswith("| model ")
    assert table.partition("\n\n")[0].count("\n") == 5
    assert "4 models, " in table


@pytest.mark.parametrize(
    ("fail_on", "whole", "broken"), [("never", 0, 0), ("broken", 0, 1), ("error", 0, 1), ("warning", 1, 1)]
)
def test_fail_on(cli, zoo: Path, fail_on: str, whole: int, broken: int):
    assert cli("scan", "--fail-on", fail_on, zoo / "a.gguf").code == whole
    assert cli("scan", "--fail-on", fail_on, zoo / "sub" / "cut.gguf").code == broken


def test_parallel_gives_the_same(cli, zoo: Path):
    for i in range(4):
        llama(layers=1 + i).write(zoo / f"more{i}.gguf")
    one, two = (cli("scan", "--jobs", n, zoo, "--format", "json").json["models"] for n in (1, 2))
    assert one == two
    assert len(one) == 8


def test_resume_takes_what_did_not_change(cli, zoo: Path, tmp_path: Path):
    kept = tmp_path / "rows.jsonl"
    cli("scan", zoo, "--resume", kept, "--format", "json")
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    assert len(rows) == 4
    # A row that only the file can have brought shows that the model was not read again.
    marked = [row | {"load": "from the file"} if row["path"].endswith("a.gguf") else row for row in rows]
    kept.write_text("".join(json.dumps(row) + "\n" for row in marked) + '{"path": "cut off')
    again = by_name(cli("scan", zoo, "--resume", kept, "--format", "json"))
    assert again["a.gguf"]["load"] == "from the file"
    llama(layers=3).write(zoo / "a.gguf")
    assert by_name(cli("scan", zoo, "--resume", kept, "--format", "json"))["a.gguf"]["load"] != "from the file"


def test_what_a_disk_said_once_is_asked_again(cli, zoo: Path, tmp_path: Path):
    kept = tmp_path / "rows.jsonl"
    cli("scan", zoo, "--resume", kept, "--format", "json")
    rows = [json.loads(line) for line in kept.read_text().splitlines()]
    failed = {"code": "unreadable", "message": "Input/output error", "hint": None}
    kept.write_text("".join(json.dumps(row | {"ok": False, "error": failed}) + "\n" for row in rows))
    assert by_name(cli("scan", zoo, "--resume", kept, "--format", "json"))["a.gguf"]["error"] is None


def test_nothing_there(cli, zoo: Path, tmp_path: Path):
    """A disk that is not mounted is an empty folder."""
    empty = tmp_path / "mnt"
    (empty / "below").mkdir(parents=True)
    found = cli("scan", empty)
    assert (found.code, "no model in it or below it" in found.out) == (1, True)
    both = cli("scan", zoo, empty, "--format", "json")
    assert both.code == 1
    assert by_name(both)["mnt"]["error"]["code"] == "missing-file"
    for form in ("jsonl", "markdown", "html", "cyclonedx", "spdx"):
        assert cli("scan", empty, "--format", form).code == 1
    assert cli("scan", zoo, "--exclude", "*").code == 1
    assert cli("scan", zoo, zoo / "a.gguf").code == cli("scan", zoo).code
    assert cli("scan", tmp_path / "none").code == 2


@pytest.mark.parametrize("name", ["a.gguf", "README.md"])
def test_resume_file_of_another_kind_stays_as_it_is(cli, zoo: Path, name: str):
    before = (zoo / name).read_bytes()
    result = cli("scan", zoo, "--resume", zoo / name)
    assert result.code == 4
    assert "holds no rows of a scan" in result.err
    assert (zoo / name).read_bytes() == before


def test_every_row_is_written_when_it_is_done(tmp_path: Path) -> None:
    for i in range(6):
        llama().write(tmp_path / f"m{i}.gguf")
    for form in ("text", "markdown", "jsonl"):
        seen: list[int] = []
        command = [sys.executable, "-c", SLOW, "scan", "--no-lint", "--jobs", "1", "--format", form, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if ".gguf" in line:
                    running.poll()
                    seen.append(1 if running.returncode is None else 0)
                    break
            # The first row is here while the second waits for a word that never comes.
            running.kill()
        assert seen == [1], form


SLOW = """
import sys, time
from gguftool.fleet import want
real = want.beginning
done = []
def beginning(path):
    if done:
        time.sleep(600)
    done.append(path)
    return real(path)
want.beginning = beginning
from gguftool.cli.main import main
sys.exit(main())
"""


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown"])
def test_memory_does_not_grow_with_the_rows(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    from gguftool.cli import scan_rows
    from gguftool.fleet.want import Want, look

    row = look(str(llama().write(tmp_path / "m.gguf")), Want(lint=False))
    peaks = []
    for n in (300, 3000):

        def many(*given: object, n: int = n, **named: object):
            return ({**row, "path": f"/models/{i}.gguf"} for i in range(n))

        monkeypatch.setattr(scan_rows, "rows", many)
        out = open(tmp_path / "out", "w")  # noqa: SIM115
        monkeypatch.setattr(sys, "stdout", out)
        tracemalloc.start()
        from gguftool.cli.boundary import run

        assert run(["scan", "--format", form, str(tmp_path)]) == 0
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        out.close()
        monkeypatch.undo()
    # A path and a place for each row of JSON, which is sorted.
    assert peaks[1] - peaks[0] < 2700 * (400 if form == "json" else 40)


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown"])
def test_a_row_that_cannot_be_written_says_so(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """A bug of ours in the writing of one row hides no other."""
    from gguftool.cli import scan_rows

    shape = scan_rows.format_named(form)

    def row(row: dict, shown: object) -> str:
        if row["path"].endswith("b.gguf") and row["error"] is None:
            raise ZeroDivisionError("twice")
        return shape.row(row, shown)

    monkeypatch.setattr(scan_rows, "format_named", lambda name: replace(shape, row=row))
    for name in "abc":
        llama().write(tmp_path / f"{name}.gguf")
    done = cli("scan", "--no-lint", "--jobs", "1", tmp_path, "--format", form)
    assert done.code == 70
    assert all(f"{name}.gguf" in done.out for name in "abc")
    assert "ZeroDivisionError" in done.out
