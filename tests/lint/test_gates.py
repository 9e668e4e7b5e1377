"""What gates want of lint: their formats, a file for the report, ignores for some files, counts, settings."""

from __future__ import annotations

import json
import os
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from gguftool.files.patterns import spread
from gguftool.report.kinds import is_report
from tests.build import GGUF, llama
from tests.json_schemas import check_schema
from tests.lint.badfiles import files
from tests.lint.samples import all_samples, open_content, ready, report_of

XSD = Path(__file__).parent.parent / "data" / "lint" / "junit.xsd"


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: models with an error, with warnings, without anything, and one that is none."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    for name, content in (
        ("my bad", llama().replace("llama.block_count", 2)),
        ("old/warn", llama()),
        ("good", ready()),
    ):
        (tmp_path / "models" / name).parent.mkdir(parents=True, exist_ok=True)
        content.write(tmp_path / "models" / f"{name}.gguf")
    (tmp_path / "models" / "pointer.gguf").write_bytes(files()["02_lfs_pointer"])
    return tmp_path


def lint(cli, *args: str):  # type: ignore[no-untyped-def]
    return cli("lint", "models/**", "--no-config", *args)


def test_gitlab(cli, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    """The fields that GitLab's documentation names, each finding known again by its fingerprint."""
    done = lint(cli, "--format", "gitlab")
    rows = json.loads(done.out)
    assert done.code == 3
    for row in rows:
        assert set(row) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert row["severity"] in ("info", "minor", "major", "critical", "blocker")
        assert row["location"]["lines"] == {"begin": 1}
        assert not row["location"]["path"].startswith(("/", "./"))
    prints = [row["fingerprint"] for row in rows]
    assert len(set(prints)) == len(prints) == 6
    said = {(row["location"]["path"], row["severity"]) for row in rows}
    assert said == {
        ("models/my bad.gguf", "critical"), ("models/my bad.gguf", "major"), ("models/old/warn.gguf", "major"),
        ("models/pointer.gguf", "blocker"),
    }  # fmt: skip
    # The same from another folder of the checkout; another number in the message is the same finding.
    llama().replace("llama.block_count", 3).write(there / "models" / "my bad.gguf")
    monkeypatch.setenv("CI_PROJECT_DIR", str(there))
    monkeypatch.chdir(there / "models")
    again = json.loads(cli("lint", "**", "--no-config", "--format", "gitlab").out)
    assert [(row["fingerprint"], row["location"]) for row in again] == [
        (row["fingerprint"], row["location"]) for row in rows
    ]


def test_junit(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    """What the schema of Jenkins' plugin takes; fails is what --fail-on says."""
    text = lint(cli, "--format", "junit", "--fail-on", "error").out
    root = ET.fromstring(text)
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["7", "1", "1"]
    suites = {suite.get("name"): suite for suite in root}
    (bad, *warned) = suites["models/my bad.gguf"]
    assert bad.get("name") == "block-count-tensors (field:llama.block_count)"
    assert [child.tag for child in bad] == ["failure"]
    assert bad[0].get("type") == "error"
    assert "llama.block_count is 2" in bad[0].get("message", "")
    assert [[c.tag for c in case] for case in warned] == [["system-out"], ["system-out"]]
    assert [len(case) for case in suites["models/good.gguf"]] == [0]
    assert [case[0].tag for case in suites["models/pointer.gguf"]] == ["error"]
    assert ET.fromstring(lint(cli, "--format", "junit").out).get("failures") == "5"
    schema = pytest.importorskip("xmlschema").XMLSchema(XSD)
    schema.validate(text)
    for name, raw in sorted(files().items()):
        (there / "x.gguf").write_bytes(raw)
        shown = cli("lint", "x.gguf", "--no-config", "--format", "junit").out
        assert schema.is_valid(shown), name


def test_hostile_names_stay_inside(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    """Nothing in a name ends an attribute, a list or a line."""
    key = 'a"><failure message="x"/>\x01\ufffe\n::error::owned'
    name = "q\"'<&>\udcff.gguf"
    with open(os.fsencode(there / name), "wb") as f:
        f.write(GGUF("llama").kv(key, 1).kv("general.name", "]]>\x00").bytes())
    root = ET.fromstring(cli("lint", name, "--no-config", "--format", "junit").out)
    assert {e.tag for e in root.iter()} <= {"testsuites", "testsuite", "testcase", "failure", "error", "system-out"}
    assert json.loads(cli("lint", name, "--no-config", "--format", "gitlab").out)


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "sarif", "github", "gitlab", "junit"])
def test_output_file(cli, there: Path, form: str) -> None:  # type: ignore[no-untyped-def]
    """The file holds what stdout would, replaces an older report of whatever format, and nothing else."""
    plain = lint(cli, "--format", form)
    done = lint(cli, "--format", form, "--output-file", "r")
    assert (done.code, done.out) == (plain.code, "1 error, 4 warnings, 1 not readable in 4 files.\nwritten to r\n")
    assert (there / "r").read_text() == plain.out
    assert is_report(plain.out.encode())
    assert lint(cli, "--statistics", "--output-file", "r").code == 3
    assert "block-count-tensors" in (there / "r").read_text()
    assert lint(cli, "--format", form, "--output-file", "r").code == 3
    (there / "mine").write_text("seen in 3 files.\n")
    refused = lint(cli, "--format", form, "--output-file", "mine")
    assert refused.code == 4
    assert "no report of gguftool" in refused.err + refused.out
    assert (there / "mine").read_text() == "seen in 3 files.\n"


def test_only_reports_are_replaced() -> None:
    for text in ('{"format": "gguftool.manifest/1", "tool": {"name": "gguftool"}}', "[1]", "<?xml?><a/>", "x\n", "{}"):
        assert not is_report(text.encode()), text


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown", "html", "cyclonedx", "spdx"])
def test_output_file_of_scan(cli, there: Path, form: str) -> None:  # type: ignore[no-untyped-def]
    for _ in range(2):
        done = cli("scan", "models", "--jobs", "1", "--no-config", "--format", form, "--output-file", "r")
        assert done.code == 1
        assert done.out.endswith("written to r\n")
        assert "4 models" in done.out
    assert "warn.gguf" in (there / "r").read_text()
    same = cli("scan", "models", "--no-config", "--resume", "r", "--output-file", "./r")
    assert same.code == 2


def test_per_file_ignores(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    config = there / "gguftool.toml"

    def found(*args: str) -> dict[str, set[str]]:
        rows = cli("lint", "models/**", "--format", "json", *args).json["files"]
        return {row["path"].removeprefix("models/"): {f["rule"] for f in row["findings"]} for row in rows}

    both = {"kv-cache-type-missing", "rope-freq-scale-missing"}
    assert found()["old/warn.gguf"] == both
    for pattern, hits in (
        ("old", {"old/warn.gguf"}), ("models/old/*", {"old/warn.gguf"}), ("*.gguf", {"old/warn.gguf", "my bad.gguf"}),
        ("my*", {"my bad.gguf"}), ("old/*", set()), ("**/old/*", {"old/warn.gguf"}),
    ):  # fmt: skip
        config.write_text(
            f'[lint.per-file-ignores]\n"{pattern}" = ["kv-cache-type-missing", "rope-freq-scale-missing"]\n'
        )
        assert {name for name, rules in found().items() if both & rules} == {"old/warn.gguf", "my bad.gguf"} - hits
        assert found("--no-config")["old/warn.gguf"] == both
        row = cli("scan", "models/old", "--format", "json").json["models"][0]
        assert (not row["findings"]) is ("old/warn.gguf" in hits)
    config.write_text('[per-file-ignores]\nold = "deploy"\n')
    assert "kv-cache-type-missing" not in found()["old/warn.gguf"]
    fixed = cli("lint", "models/old", "--fix", "--dry-run", "--format", "json").json
    assert [f["changes"] for f in fixed.get("fixed", [])] == []
    for text, said in (('"x" = ["rop"]', "no rule or family 'rop'"), ('"x" = 3', "must be a list")):
        config.write_text(f"[lint.per-file-ignores]\n{text}\n")
        for command in ("lint", "scan"):
            done = cli(command, "models/old")
            assert done.code == 2, (command, text)
            assert said in done.err


def test_statistics(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    text = lint(cli, "--statistics").out.splitlines()
    assert [line.split()[:3] for line in text[1:4]] == [
        ["2", "warning", "kv-cache-type-missing"], ["2", "warning", "rope-freq-scale-missing"],
        ["1", "error", "block-count-tensors"],
    ]  # fmt: skip
    assert text[-1] == "1 error, 4 warnings, 1 not readable in 4 files."
    found = lint(cli, "--statistics", "--format", "json").json
    check_schema(found)
    first = found["statistics"][0]
    assert (first["rule"], first["count"]) == ("kv-cache-type-missing", 2)
    assert len(found["files"]) == 4
    scanned = cli("scan", "models", "--no-config", "--statistics", "--format", "json").json
    check_schema(scanned)
    assert {row["rule"]: row["count"] for row in scanned["statistics"]} == {
        row["rule"]: row["count"] for row in found["statistics"]
    }
    assert "kv-cache-type-missing" in cli("scan", "models", "--no-config", "--statistics").out
    for command in ("lint", "scan"):
        assert cli(command, "models", "--statistics", "--format", "jsonl").code == 2


def test_show_settings(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    import tomllib

    config = there / "gguftool.toml"
    config.write_text(
        '[lint]\nignore = ["deploy"]\nctx = 4096\npolicy = "p.toml"\n[lint.per-file-ignores]\n"a b" = ["rope"]\n'
        '[scan]\nexclude = ["old"]\n'
    )
    done = cli("lint", "--show-settings", "--ignore", "rope", "--cache-type", "q8_0/f16")
    assert done.code == 0
    assert done.out.startswith(f"# {config}\n")
    shown = tomllib.loads(done.out)
    assert shown == {
        "lint": {
            "select": [], "ignore": ["rope", "deploy"], "fail-on": "warning", "ctx": 4096, "cache-type": "q8_0/f16",
            "policy": str(there / "p.toml"), "per-file-ignores": {"a b": ["rope"]},
        }
    }  # fmt: skip
    # What is shown can be the configuration.
    (there / "again.toml").write_text(done.out)
    assert tomllib.loads(cli("lint", "--show-settings", "--config", "again.toml").out) == shown
    found = cli("scan", "--show-settings", "--fail-on", "error", "--exclude", "*.tmp", "--format", "json").json
    check_schema(found)
    assert {(s["table"], s["name"]): (s["value"], s["from"]) for s in found["settings"]}.items() >= {
        ("lint", "ctx"): (4096, "configuration file"), ("scan", "fail-on"): ("error", "command line"),
        ("scan", "exclude"): (["*.tmp", "old"], "command line and configuration file"),
        ("scan", "include"): ([], "default"),
    }.items()  # fmt: skip
    check_schema(cli("lint", "--show-settings", "--format", "json").json)
    assert cli("lint", "--no-config", "--show-settings").out.startswith("# no configuration file\n")
    assert cli("lint").code == 2


def test_patterns_are_taken_by_the_tool(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    (there / "models" / ".hidden.gguf").write_bytes(b"")
    (there / "models" / "readme.md").write_text("x")
    (there / "models" / "loop").symlink_to(there / "models")
    literal = there / "models" / "x[1].gguf"
    ready().write(literal)
    every = ["models/good.gguf", "models/my bad.gguf", "models/old/warn.gguf", "models/pointer.gguf"]
    assert spread(["models/**"]) == [*every, "models/x[1].gguf"]
    assert spread(["models/*.gguf"]) == [every[0], every[1], every[3], "models/x[1].gguf"]
    assert spread(["**/o*/*.gguf", "models/o*/w?rn.gguf"]) == [every[2]]
    assert spread([f"{there}/models/my*"]) == [f"{there}/models/my bad.gguf"]
    assert spread(["models/x[1].gguf", "hf://o/r/*.gguf", "none.gguf"]) == [
        "models/x[1].gguf", "hf://o/r/*.gguf", "none.gguf",
    ]  # fmt: skip
    for command in ("lint", "verify", "scan"):
        assert cli(command, "models/q*").code == 2
        assert cli(command, "models/g*.gguf").code == 0


# -- which findings have a place


SAMPLES = [s for s in all_samples() if isinstance(s.fires, GGUF) and not s.rule.startswith("load-")]


def test_a_record_that_is_there_is_a_region() -> None:
    """Of every tenth sample: a finding about a key or a tensor of the file has its bytes, any other says so."""
    with_span = 0
    for sample in SAMPLES[::10]:
        with open_content(sample.fires) as model:
            raw = model.parts[0].source.read_at(0, model.parts[0].size)
            header = model.parts[0].header
            names = {f"field:{f.key}" for f in header.fields} | {f"tensor:{t.name}" for t in header.tensors}
        for f in report_of(sample.fires, context=sample.context):
            if f.path == "m.gguf" and f.where in names:
                assert f.span is not None, (f.rule, f.where)
            if f.span is None:
                continue
            begin, end = f.span
            assert 0 <= begin <= end <= len(raw), f
            with_span += 1
            if f.where in names and f.family not in ("data", "layout"):
                assert f.where.partition(":")[2].encode("utf-8", "surrogateescape") in raw[begin:end], f
    assert with_span > 20


def test_a_line_for_github_alone(cli, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    schema = Draft7Validator(json.loads((XSD.parent / "sarif.schema.json").read_text()))

    def regions() -> list[dict[str, int]]:
        log = json.loads(lint(cli, "--format", "sarif").out)
        schema.validate(log)
        places = [r["locations"][0]["physicalLocation"] for r in log["runs"][0]["results"]]
        return [place.get("region", {}) for place in places]

    plain = regions()
    assert [set(region) for region in plain] == [{"byteOffset", "byteLength"}, set(), set(), set(), set()]
    monkeypatch.setenv("GITHUB_WORKSPACE", str(there))
    assert regions() == [{**region, "startLine": 1} for region in plain]


def test_a_region_in_a_file_beside_the_model(cli, there: Path) -> None:  # type: ignore[no-untyped-def]
    side = GGUF("llama").kv("general.type", "adapter").kv("adapter.type", "lora").kv("adapter.lora.alpha", 8.0)
    side.replace("general.architecture", "qwen2").tensor("blk.0.attn_q.weight.lora_a", (64, 8), "f32")
    side.tensor("blk.0.attn_q.weight.lora_b", (8, 64), "f32").write(there / "side.gguf")
    args = ("models/good.gguf", "--with", "side.gguf", "--no-config", "--format", "sarif")
    results = json.loads(cli("lint", *args).out)["runs"][0]["results"]
    places = [r["locations"][0] for r in results if r["ruleId"] == "pair-architecture"]
    (place,) = places
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "side.gguf"
    region = place["physicalLocation"]["region"]
    cut = (there / "side.gguf").read_bytes()[region["byteOffset"] :][: region["byteLength"]]
    assert b"general.architecture" in cut
    assert b"qwen2" in cut
