"""`gguftool push-check`: what it finds, that what it prints mends it, and the card that it writes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.model.card import read_card
from tests.build import GGUF
from tests.json_schemas import check_schema
from tests.lint.samples import ready, zeroed
from tests.lint.samples_publish import full

REPO = "me/Foo-GGUF"


def put(folder: Path, name: str, g: GGUF) -> Path:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(zeroed(g).bytes())
    return folder / name


def found(cli: Any, *words: str) -> list[dict[str, Any]]:
    said = cli("push-check", ".", "--repo", REPO, "--format", "json", *words).json
    check_schema(said)
    assert not said["errors"], said
    return [f for one in said["files"] for f in one["findings"]]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_is_printed_mends_it(cli: Any, tmp_path: Path) -> None:
    """Every command that needs no value runs as it stands, until nothing is left that a gate stops at."""
    g = ready().replace("general.name", "Foo").kv("general.license", "Apache 2.0").kv("gguftool.pad", "   ")
    g.kv("general.base_model.0.repo_url", "https://huggingface.co/Org/Foo").kv("general.base_model.0.name", "Foo")
    g.kv("general.tags", ["chat"]).kv("general.size_label", "7B").kv("general.alignment", 32)
    put(tmp_path, "My Foo-Q8_0.gguf", g)
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  notes.txt\n")
    rules: set[str] = set()
    for _ in range(12):
        findings = [f for f in found(cli, "--no-load") if f["fix"] and "fill_in" not in f["fix"]]
        if not findings:
            break
        rules |= {f["rule"] for f in findings}
        # One at a time: a new name makes the other commands those of a file that is gone.
        one = next((f for f in findings if f["rule"].startswith("name-")), None)
        for f in [one] if one else findings:
            words = shlex.split(f["fix"]["command"])
            if words[0] == "gguftool":
                done = cli(*words[1:])
                assert done.code in (0, 1), (words, done.err)
                assert "error:" not in done.err, (words, done.err)
            else:
                subprocess.run(["sh", "-c", f["fix"]["command"]], check=True)
            if "push-check" in words:
                break
    wanted = "name-quantisation name-odd licence-unknown filler-present card-missing sums-wrong base-model-keys"
    assert {*wanted.split(), "name-size", "credit-missing", "leftover-files", "alignment-unusual"} <= rules
    done = cli("push-check", ".", "--repo", REPO)
    assert done.code == 0, done.out
    assert subprocess.run(["sha256sum", "--quiet", "--check", "--ignore-missing", "SHA256SUMS"]).returncode == 0
    assert "notes.txt" in (tmp_path / "SHA256SUMS").read_text()


def test_exit_codes(cli: Any, tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())

    def code(*words: str) -> int:
        code: int = cli("push-check", *words).code
        return code

    assert code(".", "--repo", REPO) == 1
    assert code(".", "--repo", REPO, "--exit-zero") == 0
    assert code(".", "--repo", REPO, "--fail-on", "error") == 0
    assert code(".", "--repo", REPO, "--write") == 0
    assert code("Foo-F32.gguf", "--repo", REPO, "--fail-on", "info") == 0
    assert code("nothing.gguf") == 2
    assert code(".", "--repo", "no repository") == 2
    assert code(".", "--overwrite") == 2
    (tmp_path / "cut.gguf").write_bytes((tmp_path / "Foo-F32.gguf").read_bytes()[:100])
    assert code(".", "--repo", REPO) == 3


def test_formats(cli: Any, tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())
    github = cli("push-check", ".", "--format", "github", "--no-load").out
    assert "::warning file=./README.md" in github
    sarif = json.loads(cli("push-check", ".", "--format", "sarif", "--no-load").out)
    assert "card-missing" in {r["ruleId"] for r in sarif["runs"][0]["results"]}
    rows = cli("push-check", ".", "--format", "jsonl", "--no-load").out.splitlines()
    assert [len(json.loads(row)["files"]) for row in rows] == [1]


def test_lint_is_silent(cli: Any, tmp_path: Path) -> None:
    """What is only for publishers is never said of a private file."""
    put(tmp_path, "My Foo-Q8_0.gguf", ready())
    done = cli("lint", "My Foo-Q8_0.gguf", "--no-config")
    assert done.code == 0, done.out
    assert "nothing found" in done.out


def test_one_command_for_all_keys(cli: Any, tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", ready().kv("gguftool.pad", " "))
    text = cli("push-check", "Foo-F32.gguf", "--no-load", "--no-hash", "--repo", REPO).out
    (line,) = (x.partition("all keys ")[2] for x in text.splitlines() if x.startswith("  all keys "))
    words = shlex.split(line.replace("\u2026", "Foo"))
    assert words[:3] == ["gguftool", "fix", "Foo-F32.gguf"]
    assert cli(*words[1:], "--no-undo").code == 0
    with gguftool.open(tmp_path / "Foo-F32.gguf") as m:
        assert m.fields["general.tags"].type_name == "arr[str]"
        assert m["general.tags"] == ["text-generation"]
        assert (m["general.license"], m["general.base_model.count"]) == ("Foo", 1)
        assert m["general.repo_url"] == f"https://huggingface.co/{REPO}"
    # One thing to do needs no other line.
    put(tmp_path, "Bar-F32.gguf", full().drop("general.languages"))
    assert "all keys" not in cli("push-check", "Bar-F32.gguf", "--no-load", "--no-hash", "--repo", REPO).out


def test_one_that_cannot_be_read_is_left_out_of_the_card(tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())
    (tmp_path / "A-cut.gguf").write_bytes((tmp_path / "Foo-F32.gguf").read_bytes()[:100])
    (tmp_path / "B-page.gguf").write_bytes(b"<html>")
    done = gguftool.push_check(tmp_path, repo=REPO, write=True)
    text = (tmp_path / "README.md").read_text()
    assert "license: apache-2.0" in text
    assert "`Foo-F32.gguf`" in text
    assert "B-page" not in text
    assert any("B-page.gguf: left out of the card" in note for note in done.notes)
    assert {os.path.basename(c.path) for c in done.checks if c.error is not None} == {"A-cut.gguf", "B-page.gguf"}


def test_a_card_that_contradicts_the_files_is_mended(cli: Any, tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())
    wrong = (
        "---\n# kept\ninference: false\nlicense: mit\nlicense_link: LICENSE\nbase_model:\n- Other/Bar\n- Other/Baz\n"
        "base_model_relation: finetune\nlanguage:\n  - en\npipeline_tag: feature-extraction\n"
        "'library_name': transformers\n"
        "quantized_by: you\ntags: [a]\n---\n# Mine\n"
    )
    (tmp_path / "README.md").write_text(wrong)
    rules = {"card-licence", "card-base-model", "card-fields"}
    first = [f for f in found(cli, "--no-load") if f["rule"] in rules]
    assert len(first) == 6
    assert {f["fix"]["command"] for f in first} == {f"gguftool push-check . --write --overwrite --repo {REPO}"}
    # Without being told, nothing that is there is written over.
    assert cli("push-check", ".", "--write", "--repo", REPO, "--no-load").code == 1
    assert "license: mit\n" in (tmp_path / "README.md").read_text()
    cli(*shlex.split(first[0]["fix"]["command"])[1:])
    assert [f for f in found(cli, "--no-load") if f["rule"] in rules] == []
    text = (tmp_path / "README.md").read_text()
    assert text.startswith("---\n# kept\ninference: false\nlanguage:\n  - en\ntags: [a]\nlicense: apache-2.0\n")
    assert read_card(text).front["base_model"] == "Org/Foo"
    assert "\n# Mine\n" in text


def test_what_is_wrong_in_our_part_is_written_anew(cli: Any, tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())
    assert cli("push-check", ".", "--write", "--repo", REPO).code == 0
    (tmp_path / "Foo-F32.gguf").rename(tmp_path / "Bar-F32.gguf")
    put(tmp_path, "Bar-F32.gguf", full().kv("general.description", "another"))
    said = {f["rule"]: f["fix"]["command"] for f in found(cli, "--no-load") if f["fix"]}
    assert said["card-file"] == f"gguftool push-check . --write --repo {REPO}"
    assert said["sums-wrong"] == f"gguftool push-check . --write --overwrite --repo {REPO}"
    cli(*shlex.split(said["sums-wrong"])[1:])
    assert [f for f in found(cli, "--no-load") if f["rule"].startswith(("card-", "sums-"))] == []
    (tmp_path / "SHA256SUMS").write_bytes(b"nothing that is a hash")
    (bad,) = [f for f in found(cli, "--no-load") if f["rule"] == "sums-wrong"]
    first, _, second = bad["fix"]["command"].partition(" && ")
    subprocess.run(["sh", "-c", first], check=True)
    assert cli(*shlex.split(second)[1:]).code == 0
    assert (tmp_path / "SHA256SUMS.old").read_bytes() == b"nothing that is a hash"


def test_records_of_ones_own_are_not_asked_for(cli: Any, tmp_path: Path) -> None:
    """What is published need not say how somebody deploys it; who asks for the rule gets it."""
    put(tmp_path, "Foo-F32.gguf", full().drop("llama.kv_cache_type", "llama.rope.freq_scale"))
    records = {"kv-cache-type-missing", "rope-freq-scale-missing"}
    assert not records & {f["rule"] for f in found(cli, "--no-load", "--no-hash")}
    asked = {f["rule"] for f in found(cli, "--no-load", "--no-hash", "--select", "kv-cache-type-missing")}
    assert asked == {"kv-cache-type-missing"}


def test_a_set_is_renamed_by_the_command_that_is_printed(cli: Any, tmp_path: Path) -> None:
    put(tmp_path, "whole.gguf", full())
    (tmp_path / "a set").mkdir()
    gguftool.split(tmp_path / "whole.gguf", str(tmp_path / "a set" / "Foo-Q8_0"), max_tensors=6)
    (tmp_path / "whole.gguf").unlink()
    (one,) = [f for f in found(cli, "--no-load", "--no-hash") if f["rule"] == "name-quantisation"]
    assert cli(*shlex.split(one["fix"]["command"])[1:]).code == 0
    assert all(p.name.startswith("Foo-F32-0000") for p in (tmp_path / "a set").iterdir())
    assert "name-quantisation" not in {f["rule"] for f in found(cli, "--no-load", "--no-hash")}
    done = gguftool.push_check(tmp_path, repo=REPO, write=True)
    text = (tmp_path / "README.md").read_text()
    n = len(list((tmp_path / "a set").iterdir()))
    assert f"| `a set/Foo-F32-00001-of-0000{n}.gguf` and {n - 1} more |" in text
    assert text.count("` | `") == n
    assert f"llama-server -hf {REPO}:F32 -c 2048" in text
    assert not [f for c in done.checks for f in c.findings if f.rule.startswith(("card-", "sums-"))]


@pytest.mark.parametrize(
    "piece",
    [
        "```a\n",
        "<!-- gguftool:begin 0123456789abcdef x -->\n",
        "`llama-server` ",
        "a+",
        "-",
        "x.gguf ",
        "a" * 64 + " ",
        "[",
        "~~~\n",
    ],
)
def test_a_card_of_one_thing_over_and_over(piece: str, tmp_path: Path) -> None:
    """What it costs grows with its length alone: a megabyte is looked at in a few seconds of CPU."""
    put(tmp_path, "Foo-F32.gguf", full())
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n" + piece * ((1 << 20) // len(piece)))
    begun = time.process_time()
    gguftool.push_check(tmp_path, repo=REPO, hashes=False, load=False, select=["publish"])
    assert time.process_time() - begun < 5
