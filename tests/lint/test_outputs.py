"""The formats of `gguftool lint`: text, JSON, JSON lines, SARIF, GitHub annotations."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from gguftool.lint.rules import catalogue
from tests.build import GGUF, llama
from tests.json_schemas import check_schema
from tests.lint.badfiles import files
from tests.lint.samples import ready
from tests.lint.samples_tokenizer import bpe

SARIF = json.loads((Path(__file__).parent.parent / "data" / "lint" / "sarif.schema.json").read_text())


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A healthy model that lacks two of the deploy fields and has a wrong number of blocks."""
    return llama().replace("llama.block_count", 2).write(tmp_path / "my model.gguf")


def test_text(cli, model: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli("lint", model, "--no-config")
    assert result.code == 1
    lines = result.out.splitlines()
    assert lines[0] == str(model)
    # the error first, its rule and its fix below it
    assert lines[1].startswith("  error    llama.block_count is 2, the tensors have blocks 0 to 0")
    assert lines[2].split("  ")[-2].strip() == "block-count-tensors"
    assert lines[2].endswith(f"fix: gguftool fix '{model}' --set llama.block_count=1")
    assert [line.split()[0] for line in lines if re.match("  (error|warning|info) ", line)] == [
        "error",
        "warning",
        "warning",
    ]
    assert "1 error, 2 warnings in 1 file." in lines
    assert f"2 can be fixed safely: gguftool lint --fix '{model}'" in lines
    assert lines[-1] == "What a rule means: gguftool rules block-count-tensors"
    assert "llama.cpp b11434 refuses it: " in result.out
    assert max(map(len, lines)) < 260


def test_text_of_a_ready_model(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = ready().write(tmp_path / "m.gguf")
    result = cli("lint", path, "--no-config", "--context-length", 2048, "--cache-type", "f16")
    assert result.code == 0
    assert "nothing found" in result.out
    assert "Nothing found in 1 file." in result.out


def test_colours_only_when_asked(cli, model: Path) -> None:  # type: ignore[no-untyped-def]
    assert "\x1b[" not in cli("lint", model, "--no-config").out
    assert "\x1b[31m" in cli("lint", model, "--no-config", "--color", "always").out


def test_json(cli, model: Path) -> None:  # type: ignore[no-untyped-def]
    result = cli("lint", model, "--no-config", "--format", "json")
    found = result.json
    assert found["format"] == "gguftool.lint/1"
    assert found["ok"] is False
    assert found["errors"] == []
    (file,) = found["files"]
    assert file["path"] == str(model)
    assert file["counts"] == {"error": 1, "warning": 2, "info": 0}
    first = file["findings"][0]
    assert first["rule"] == "block-count-tensors"
    assert first["severity"] == "error"
    assert first["where"] == "field:llama.block_count"
    assert first["fix"] == {
        "title": "set it to 1, as the tensors say",
        "safe": False,
        "command": f"gguftool fix '{model}' --set llama.block_count=1",
    }
    start, end = first["span"]
    assert b"llama.block_count" in model.read_bytes()[start:end]
    assert file["load"]["verdict"] == "refused"
    assert "tensor 'blk.1.attn_norm.weight' not found" in " ".join(file["load"]["messages"])


def test_json_is_whole_when_nothing_is_found(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = ready().write(tmp_path / "m.gguf")
    found = cli("lint", path, "--no-config", "--format", "json").json
    assert found["ok"] is True
    (file,) = found["files"]
    assert (file["findings"], file["counts"]) == ([], {"error": 0, "warning": 0, "info": 0})
    assert file["load"]["verdict"] in ("loads", "warns")


def test_json_says_what_llama_cpp_warns_of(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """Case 16: the words stand in ``messages`` whatever the verdict is."""
    path = bpe().drop("tokenizer.ggml.pre").write(tmp_path / "m.gguf")
    load = cli("lint", path, "--no-config", "--format", "json").json["files"][0]["load"]
    assert load["verdict"] == "warns"
    assert any("missing pre-tokenizer type, using: 'default'" in line for line in load["messages"])


def test_json_of_values_that_json_does_not_have(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    g = ready().kv("llama.logit_scale", float("nan")).kv("bad\udcff", 1).kv("general.author", b"\xff\xfe")
    found = cli("lint", g.write(tmp_path / "m.gguf"), "--no-config", "--format", "json").json
    rules = {f["rule"] for f in found["files"][0]["findings"]}
    assert {"float-not-finite", "key-not-utf8", "value-not-utf8"} <= rules


def test_json_lines(cli, model: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    good = ready().write(tmp_path / "good.gguf")
    result = cli("lint", model, good, "--no-config", "--format", "jsonl")
    rows = [json.loads(line) for line in result.out.splitlines()]
    for row in rows:
        check_schema(row)
    assert [row["files"][0]["path"] for row in rows] == [str(model), str(good)]
    assert [row["ok"] for row in rows] == [False, True]
    assert result.code == 1


def test_sarif(cli, model: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    pointer = tmp_path / "pointer.gguf"
    pointer.write_bytes(files()["02_lfs_pointer"])
    result = cli("lint", model, pointer, "--no-config", "--format", "sarif")
    log = json.loads(result.out)
    Draft7Validator(SARIF).validate(log)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [r["id"] for r in rules] == [r.id for r in catalogue()]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    first = run["results"][0]
    assert (first["ruleId"], first["level"]) == ("block-count-tensors", "error")
    location = first["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "file://" + str(model).replace(" ", "%20")
    region = location["physicalLocation"]["region"]
    assert b"llama.block_count" in model.read_bytes()[region["byteOffset"] :][: region["byteLength"]]
    assert location["logicalLocations"] == [{"fullyQualifiedName": "field:llama.block_count"}]
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    assert "Git LFS pointer" in invocation["toolExecutionNotifications"][0]["message"]["text"]


@pytest.mark.parametrize("name", sorted(files()))
def test_sarif_of_every_bad_file(name: str, cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "x.gguf"
    path.write_bytes(files()[name])
    log = json.loads(cli("lint", path, "--no-config", "--format", "sarif").out)
    Draft7Validator(SARIF).validate(log)


def test_sarif_without_findings(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = json.loads(cli("lint", ready().write(tmp_path / "m.gguf"), "--no-config", "--format", "sarif").out)
    Draft7Validator(SARIF).validate(log)
    assert log["runs"][0]["results"] == []
    assert log["runs"][0]["invocations"] == [{"executionSuccessful": True, "toolExecutionNotifications": []}]


def test_github(cli, model: Path) -> None:  # type: ignore[no-untyped-def]
    lines = cli("lint", model, "--no-config", "--format", "github").out.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"::error file={model},title=gguftool%3A block-count-tensors::llama.block_count is 2, ")
    assert [line.partition(" ")[0] for line in lines] == ["::error", "::warning", "::warning"]


def test_github_cannot_be_tricked(cli, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """A name in the file must not start a workflow command of its own."""
    g = GGUF("a\n::error file=x::owned%0A").kv("general.name", "\x1b[31m\n::set-output").tensor("w")
    out = cli("lint", g.write(tmp_path / "m,a:b.gguf"), "--no-config", "--format", "github").out
    assert all(line.startswith("::") and line.count("::") >= 2 for line in out.splitlines())
    assert all("title=gguftool%3A" in line.partition("::")[2].partition("::")[0] for line in out.splitlines())
    assert "file=" + str(tmp_path).replace(",", "%2C") + "/m%2Ca%3Ab.gguf," in out
    assert "\x1b" not in out


def test_severity_of_rules_is_told(cli) -> None:  # type: ignore[no-untyped-def]
    found = cli("rules", "--format", "json").json["rules"]
    assert [r["id"] for r in found] == [r.id for r in catalogue()]
    assert all(r["why"] and r["evidence"] and r["example"] and r["fix"] for r in found)
    text = cli("rules").out
    assert all(r.id in text for r in catalogue())
    one = cli("rules", "key-duplicate").out
    assert "duplicate key" in one
    assert "gguftool fix --dedupe" in one
    assert cli("rules", "deploy", "--format", "json").json["rules"][0]["family"] == "deploy"


def test_unknown_rule(cli) -> None:  # type: ignore[no-untyped-def]
    result = cli("rules", "key-duplicates")
    assert result.code == 2
    assert "did you mean key-duplicate" in result.err
