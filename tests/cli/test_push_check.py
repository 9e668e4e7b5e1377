"""`gguftool push-check`: what it finds, that what it prints mends it, and the card that it writes."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.errors import Refused, UsageError
from gguftool.model.card import read_card
from gguftool.run.cardlines import judged, taken
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


# -- the card


def written(folder: Path) -> str:
    put(folder, "Foo-F32.gguf", full())
    put(folder, "more/Zoo.gguf", full())
    done = gguftool.push_check(folder, repo=REPO, write=True)
    assert sorted(os.path.relpath(p, folder) for p in done.written) == ["README.md", "SHA256SUMS"]
    return (folder / "README.md").read_text()


def test_the_card(tmp_path: Path) -> None:
    text = written(tmp_path)
    card = read_card(text)
    assert not card.fault
    assert card.front == {
        "license": "apache-2.0", "base_model": "Org/Foo", "base_model_relation": "quantized",
        "pipeline_tag": "text-generation", "library_name": "gguf", "quantized_by": "me", "language": ["en"],
        "tags": ["gguf", "llama.cpp", "chat"],
    }  # fmt: skip
    from huggingface_hub import ModelCardData

    assert ModelCardData(**card.front).to_dict()["base_model_relation"] == "quantized"
    for name in ("Foo-F32.gguf", "more/Zoo.gguf"):
        digest = hashlib.sha256((tmp_path / name).read_bytes()).hexdigest()
        assert f"| `{name}` | `{digest}` |" in card.body
        assert f"{digest}  {name}\n" in (tmp_path / "SHA256SUMS").read_text()


def test_the_commands_of_the_card_are_those_that_were_planned(tmp_path: Path) -> None:
    text = written(tmp_path)
    block = re.search(r"## Run\n\n```sh\n(.*?)```", text, re.S)
    assert block is not None
    lines = block[1].splitlines()
    # Of the second one no label in the name leads to it.
    assert lines == [
        f"llama-server -hf {REPO}:F32 -c 2048 -np 1",
        f"llama-server -hf {REPO} -hff more/Zoo.gguf -c 2048 -np 1",
    ]
    files = ["Foo-F32.gguf", "more/Zoo.gguf"]
    assert [c.fault for c in judged(text, REPO, files)] == ["", ""]
    assert taken(files, "F32") == "Foo-F32.gguf"
    made = gguftool.plan_launch(str(tmp_path / "Foo-F32.gguf"), ctx=2048, parallel=1, vram=(), ram=1 << 50)
    planned = gguftool.plan(str(tmp_path / "Foo-F32.gguf"), ctx=2048, parallel=1, vram=(), ram=1 << 50, build=11434)
    assert not [x for x in made.obstacles if x.severity == "error" and x.where not in ("network", "room")]
    from gguftool.quantity import human

    assert f"| {human(planned.memory.total)} |" in text


def test_nothing_is_lost(tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())
    mine = "---\r\nlicense: apache-2.0   # as the source\r\ntags:\r\n- chat\r\n---\r\n# My words\r\n\r\nKept.\r\n"
    (tmp_path / "README.md").write_bytes(mine.encode())
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  notes.txt")
    gguftool.push_check(tmp_path, repo=REPO, write=True)
    first = (tmp_path / "README.md").read_bytes().decode()
    assert first.startswith(
        "---\r\nlicense: apache-2.0   # as the source\r\ntags:\r\n- chat\r\nbase_model: Org/Foo\r\n"
    )
    assert "# My words\r\n\r\nKept.\r\n\r\n<!-- gguftool:begin" in first
    assert "\n" not in first.replace("\r\n", "")
    assert (tmp_path / "SHA256SUMS").read_text().startswith(f"{'0' * 64}  notes.txt\n")
    assert gguftool.push_check(tmp_path, repo=REPO, write=True).written == ()
    # Words behind our part stay behind it, also when a file changes.
    (tmp_path / "README.md").write_bytes((first + "More.\r\n").encode())
    put(tmp_path, "Foo-F32.gguf", full().kv("general.description", "changed"))
    with pytest.raises(Refused, match="another hash for Foo-F32"):
        gguftool.push_check(tmp_path, repo=REPO, write=True, overwrite=False)
    done = gguftool.push_check(tmp_path, repo=REPO, write=True, overwrite=True)
    second = (tmp_path / "README.md").read_bytes().decode()
    assert second.endswith("<!-- gguftool:end -->\r\nMore.\r\n")
    assert second.split("<!-- gguftool")[0] == first.split("<!-- gguftool")[0]
    assert not [f for c in done.checks for f in c.findings if f.rule in ("card-hash", "sums-wrong")]
    # What somebody wrote into our part is not lost in silence.
    (tmp_path / "README.md").write_bytes(second.replace("## Files", "## My files").encode())
    with pytest.raises(Refused, match="changed by hand"):
        gguftool.push_check(tmp_path, repo=REPO, write=True)
    assert "## My files" in (tmp_path / "README.md").read_bytes().decode()


def test_metadata_that_cannot_be_read_is_not_touched(tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full())
    (tmp_path / "README.md").write_text("---\na: b: c\n---\nText\n")
    with pytest.raises(Refused, match="is no YAML"):
        gguftool.push_check(tmp_path, repo=REPO, write=True)
    assert (tmp_path / "README.md").read_text() == "---\na: b: c\n---\nText\n"


def test_hostile_words(tmp_path: Path) -> None:
    """Names and keys cannot leave their place in the card."""
    g = full().replace("general.name", "x](javascript:1) <b>\n---\n").replace("general.quantized_by", "no: |\n- `a`")
    put(tmp_path, "a|b`c`.gguf", g.replace("general.license", "other").kv("general.license.name", "Mine: # v1"))
    gguftool.push_check(tmp_path, write=True)
    card = read_card((tmp_path / "README.md").read_text())
    assert not card.fault
    assert card.front["quantized_by"] == "no: | - `a`"
    assert card.front["license_name"] == "mine-v1"
    rows = [line for line in card.body.splitlines() if line.startswith("| `a")]
    assert rows
    assert all(len(re.findall(r"(?<!\\)\|", row)) in (6, 3) for row in rows)
    assert "<b>" not in card.body


def test_without_a_repository_the_commands_name_files(tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full().drop("general.repo_url"))
    done = gguftool.push_check(tmp_path, write=True)
    assert "llama-server -m Foo-F32.gguf -c 2048" in (tmp_path / "README.md").read_text()
    assert any("--repo OWNER/NAME" in note for note in done.notes)


def test_what_does_not_load_gets_no_command(tmp_path: Path) -> None:
    put(tmp_path, "Foo-F32.gguf", full().drop("llama.attention.layer_norm_rms_epsilon"))
    done = gguftool.push_check(tmp_path, repo=REPO, write=True)
    assert "```sh\nllama-server" not in (tmp_path / "README.md").read_text()
    assert any("no command was written" in note for note in done.notes)


def test_addresses_are_refused() -> None:
    with pytest.raises(UsageError, match="not on this machine"):
        gguftool.push_check("https://127.0.0.1:1/x.gguf")


# -- commands of others' cards


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("llama-server -hf me/Foo-GGUF:Q4_K_M -c 8192", ""),
        ("llama-cli -hf me/Foo-GGUF:q4_k_m -p 'You are'", ""),
        ("llama-server -hf me/Foo-GGUF", ""),
        ("llama-server -hf me/Foo-GGUF:Q5_K_M", "no file here has Q5_K_M in its name"),
        ("llama-server -hf you/Foo-GGUF:Q4_K_M", "it names you/Foo-GGUF, this is me/Foo-GGUF"),
        ("./llama-server -m Foo-Q4_K_M.gguf --kv-cache-type q8_0", "llama-server has no option --kv-cache-type"),
        ("llama-server -m Foo-Q4_K_M.gguf --ctx-size 32k", "llama.cpp reads 32k as 32"),
        ("llama-server -m Foo-Q4_K_S.gguf", "there is no Foo-Q4_K_S.gguf here"),
        ("llama-server -m {model_file} -ngl $N", ""),
        ("llama serve -hf me/Foo-GGUF --jinja", ""),
        ("ollama run hf.co/me/Foo-GGUF:Q4_K_M", ""),
        ("ollama run hf.co/me/Foo-GGUF:Q2_K", "no file here has Q2_K in its name"),
        ("hf download me/Foo-GGUF Foo-Q4_K_M.gguf --local-dir .", ""),
        ('huggingface-cli download me/Foo-GGUF --include "*Q8_0*" --local-dir .', "no file here is *Q8_0*"),
        ("huggingface-cli download me/Foo-GGUF foo.gguf", "no file here is foo.gguf"),
        ("git clone https://github.com/ggml-org/llama.cpp", None),
    ],
)
def test_commands_of_a_card(line: str, fault: str | None) -> None:
    files = ["Foo-Q4_K_M.gguf", "mmproj-F16.gguf", "Q8/Foo-Q8_K-00001-of-00002.gguf", "Q8/Foo-Q8_K-00002-of-00002.gguf"]
    said = [c.fault for c in judged(f"# Use\n\n```bash\n{line}\n```\n", "me/Foo-GGUF", files)]
    if fault is None:
        assert said == []
    elif fault:
        assert len(said) == 1
        assert said[0].startswith(fault)
    else:
        assert said == [""]


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
