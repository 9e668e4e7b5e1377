"""The card and the list of hashes that `gguftool push-check --write` writes, and what it leaves alone."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

import pytest

import gguftool
from gguftool.errors import Refused, UsageError
from gguftool.model.card import read_card
from gguftool.run.cardlines import judged, taken
from tests.cli.test_push_check import REPO, put
from tests.lint.samples_publish import full


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


def test_one_model_named_of_several(tmp_path: Path) -> None:
    """Card and list stay those of the whole folder; and where one of them is refused, neither is written."""
    put(tmp_path, "Foo-F32.gguf", full())
    put(tmp_path, "Bar-F32.gguf", full())
    gguftool.push_check(tmp_path / "Foo-F32.gguf", repo=REPO, write=True)
    first = (tmp_path / "README.md").read_text(), (tmp_path / "SHA256SUMS").read_text()
    assert all("Bar-F32.gguf" in text and "Foo-F32.gguf" in text for text in first)
    put(tmp_path, "Bar-F32.gguf", full().kv("general.description", "changed"))
    with pytest.raises(Refused, match="another hash for Bar-F32"):
        gguftool.push_check(tmp_path / "Foo-F32.gguf", repo=REPO, write=True)
    assert ((tmp_path / "README.md").read_text(), (tmp_path / "SHA256SUMS").read_text()) == first


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
