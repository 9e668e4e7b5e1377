"""`gguftool diagnose`: what is wrong with a model, ranked, with a next command that runs as it stands."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.run.symptoms import match, symptoms
from tests.build import llama


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("talks nonsense", "nonsense"),
        ("my model talks total gibberish", "nonsense"),
        ("GGGG", "one-sign"),
        ("@@@@@@@@", "one-sign"),
        ("it only prints !!!!!!", "one-sign"),
        ("repeats itself", "repeats"),
        ("it keeps repeating the same sentence", "repeats"),
        ("never stops", "never-stops"),
        ("it doesn't stop", "never-stops"),
        ("stops in the middle", "stops-early"),
        ("the answer is cut off", "stops-early"),
        ("answers with tags", "tags"),
        ("I see <|im_end|> in the text", "tags"),
        ("slow", "slow"),
        ("very low tokens per second", "slow"),
        ("out of memory later", "memory-later"),
        ("gets OOM killed after an hour", "memory-later"),
        ("wrong language", "wrong-letters"),
        ("garbled characters", "wrong-letters"),
        ("forgets the beginning", "forgets"),
        ("refuses to load", "refuses"),
        ("won't load", "refuses"),
        ("gibberisch", "nonsense"),
    ],
)
def test_what_people_say_leads_to_the_symptom(text: str, name: str) -> None:
    found = match(text)
    assert found is not None
    assert found.name == name


def test_what_is_like_nothing_is_said_to_be_unknown(cli: Any) -> None:
    assert match("qqqzzz xxyy") is None
    failed = cli("doctor", "--symptom", "qqqzzz xxyy")
    assert failed.code == 2
    assert "it never stops" in failed.err


def test_the_table_names_rules_and_commands_that_are_there(cli: Any) -> None:
    from gguftool.cli.group import TABLE
    from gguftool.lint.rules import catalogue

    rules = catalogue()
    names = {r.id for r in rules} | {r.family for r in rules}
    for s in symptoms():
        assert set(s.rules) <= names, s.name
        for u in s.common:
            assert u.next[0] in {entry.name for entry in TABLE}
            shown = cli(u.next[0], "--help").out
            for word in u.next[1:]:
                name = word.partition("=")[0]
                assert not name.startswith("-") or name in shown or name == "-ngl", (u.name, word)


def broken(smollm2: Path, path: Path, **keys: object) -> Path:
    shutil.copyfile(smollm2, path)
    with gguftool.edit(path) as e:
        for name, value in keys.items():
            e[name.replace("__", ".")] = value
    return path


def test_nonsense_is_traced_to_the_epsilon(smollm2: Path, server: str, cli: Any, tmp_path: Path) -> None:
    """The rule that explains it stands first, and what the model does not know is the evidence."""
    path = broken(smollm2, tmp_path / "m.gguf", llama__attention__layer_norm_rms_epsilon=0.1)
    result = cli("diagnose", path, "--symptom", "talks nonsense", "--format", "json")
    assert result.code == 1
    assert [c["name"] for c in result.json["causes"]][:2] == ["epsilon-odd", "not-known"]
    checks = {c["what"]: c["ok"] for c in result.json["checks"]}
    assert checks["known text"] is False
    assert checks["integrity"] is True


def test_an_answer_that_stops_is_traced_to_the_end_token(smollm2: Path, cli: Any, tmp_path: Path) -> None:
    path = broken(smollm2, tmp_path / "m.gguf", tokenizer__ggml__eos_token_id=260)
    result = cli("diagnose", path, "--symptom", "stops in the middle", "--no-run", "--format", "json")
    assert result.code == 1
    first = result.json["causes"][0]
    assert first["name"] == "eos-not-control"
    # The command it prints mends it.
    words = shlex.split(first["next"])
    assert cli(*words[1:], "--yes").code == 0
    again = cli("diagnose", path, "--symptom", "stops in the middle", "--no-run", "--format", "json")
    assert again.code == 0
    assert again.json["causes"] == []
    assert {c["name"] for c in again.json["common"]} >= {"token-limit"}


def test_a_file_that_is_cut_is_traced_to_that(smollm2: Path, cli: Any, tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(smollm2.read_bytes()[:60_000_000])
    result = cli("diagnose", path, "--symptom", "refuses to load", "--format", "json")
    assert result.code == 1
    assert result.json["causes"][0]["name"] == "truncated"
    assert len({c["name"] for c in result.json["causes"]}) == len(result.json["causes"])


def test_a_hash_that_differs_comes_first(cli: Any, tmp_path: Path) -> None:
    """What lies beside the file says what it must be."""
    path = llama().write(tmp_path / "m.gguf")
    (tmp_path / "SHA256SUMS").write_text(f"{'0' * 64}  m.gguf\n")
    result = cli("diagnose", path, "--no-run", "--format", "json")
    assert result.code == 1
    assert result.json["causes"][0]["evidence"].startswith("verify:")
    assert cli("diagnose", path, "--no-run", "--no-hash", "--format", "json").json["causes"] != result.json["causes"]


def test_nothing_is_found_in_a_sound_model(smollm2: Path, cli: Any) -> None:
    result = cli("diagnose", smollm2, "--no-run", "--no-hash", "--format", "json")
    assert result.code == 0
    assert result.json["causes"] == []


def test_peer_copies_count_when_the_variable_is_set(smollm2: Path, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever its value: llama.cpp only asks whether it is there."""
    monkeypatch.setenv("GGML_CUDA_P2P", "0")
    result = cli("diagnose", smollm2, "--symptom", "GGGG", "--no-run", "--no-hash", "--format", "json")
    assert [c["name"] for c in result.json["causes"]] == ["peer-copies"]


def test_a_symptom_without_a_model(cli: Any) -> None:
    result = cli("doctor", "--symptom", "GGGG", "--format", "json")
    assert result.code == 0
    assert result.json["symptom"]["name"] == "one-sign"
    assert {c["name"] for c in result.json["common"]} >= {"overflow", "peer-copies", "flash-attention"}
    assert "ggml-org/llama.cpp#8412" in cli("doctor", "--symptom", "GGGG").out


def test_room_for_edits_is_nothing_that_matters(cli: Any, tmp_path: Path) -> None:
    """A file that gguftool itself edited was said to have "1 finding that matters when it runs"."""
    path = llama().write(tmp_path / "m.gguf")
    assert cli("fix", path, "--auto", "--reserve", "8KiB", "--no-undo", "--yes").code == 0
    assert "filler-present" in cli("lint", path).out
    assert "no findings that matter when it runs" in cli("diagnose", path, "--no-run").out
