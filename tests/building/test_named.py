"""What a model is called: never a commit, a folder of a trainer or of a cache; from where it is known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gguftool.api.prepare import _named_in_store
from gguftool.build import named
from gguftool.build.named import Named, called
from gguftool.facts.licences import names, of_text
from gguftool.lint.against import read_folder
from gguftool.lint.rule import Context
from gguftool.lint.run import lint
from gguftool.model import from_source
from gguftool.model.called import no_name, parts, place_of
from gguftool.model.card import Card, read_card
from gguftool.model.terms import terms_of
from gguftool.source import Memory
from tests.lint.samples import ready, zeroed
from tests.lint.samples_source import CONFIG
from tests.stores import ollama

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def source(path: Path, card: str = "", **config: object) -> tuple[str, Card | None]:
    """A folder with its config.json and card."""
    path.mkdir(parents=True, exist_ok=True)
    (path / "config.json").write_text(json.dumps(config))
    return str(path), read_card(card) if card else None


PLACES = [
    ("hub/models--acme--Tiny-Chat-7B/snapshots/" + COMMIT, "acme/Tiny-Chat-7B", COMMIT, True),
    ("hub/models--acme--Tiny--Chat/snapshots/main/sub", "acme/Tiny--Chat", "main", True),
    ("hub/models--gpt2/snapshots/" + COMMIT, "gpt2", COMMIT, True),
    (".lmstudio/models/acme/Tiny-Chat-7B", "acme/Tiny-Chat-7B", "", False),
    (".cache/lm-studio/models/acme/Tiny-Chat-7B/x.gguf", "acme/Tiny-Chat-7B", "", False),
    # ModelScope writes a dot as three underlines.
    (".cache/modelscope/hub/models/Qwen/Qwen2___5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct", "", False),
]


@pytest.mark.parametrize(("path", "repo", "commit", "hub"), PLACES)
def test_repositories_in_paths(path: str, repo: str, commit: str, hub: bool):
    place = place_of(f"/home/ann/{path}")
    assert place is not None
    assert (place.repo, place.commit, place.hub) == (repo, commit, hub)


def test_a_clone_and_a_plain_folder(tmp_path: Path):
    (tmp_path / ".git").mkdir()
    for url in ("https://huggingface.co/acme/Tiny-7B", "https://me:x@hf.co/acme/Tiny-7B.git", "git@hf.co:acme/Tiny-7B"):
        (tmp_path / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n\tfetch = +refs/heads/*\n')
        place = place_of(str(tmp_path))
        assert place is not None
        assert (place.repo, place.hub) == ("acme/Tiny-7B", True)
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\n\turl = https://example.org/acme/Tiny-7B\n')
    assert place_of(str(tmp_path)) is None
    assert place_of("/home/ann/models/Tiny-7B") is None


@pytest.mark.parametrize(
    ("manifest", "repo", "name"),
    [
        ("registry.ollama.ai/library/llama3.2/3b", "", "llama3.2-3b"),
        ("registry.ollama.ai/library/qwen2.5/latest", "", "qwen2.5"),
        ("hf.co/acme/Tiny-7B-GGUF/Q4_K_M", "acme/Tiny-7B-GGUF", ""),
        ("registry.ollama.ai/me/smollm2/135m-instruct-q8_0", "", "smollm2-135m-instruct"),
    ],
)
def test_a_blob_of_ollama_is_called_as_its_tag(manifest: str, repo: str, name: str, tmp_path: Path):
    blob = ollama(tmp_path, manifest, b"GGUF" + bytes(20))
    assert _named_in_store(str(blob), str(blob)) == (repo, name)
    assert _named_in_store(str(tmp_path / "x.gguf"), str(tmp_path / "x.gguf")) == ("", "")


def test_a_file_in_a_store_is_called_as_its_repository():
    assert _named_in_store("hf://acme/Tiny-GGUF:Q8_0", "/cache/x.gguf") == ("acme/Tiny-GGUF", "")
    cached = "/h/hub/models--acme--Tiny-GGUF/snapshots/x/Tiny.gguf"
    assert _named_in_store(cached, cached) == ("acme/Tiny-GGUF", "")
    plain = "/h/.lmstudio/models/acme/Tiny-7B-GGUF/x.gguf"
    assert _named_in_store(plain, plain) == ("", "Tiny-7B")


def test_words_of_folders():
    none = ("", ".", "snapshots", "model", "checkpoint-500", "merged_16bit", "tmpab12cd3e", "outputs", "Final", COMMIT,
            COMMIT.title(), f"sha256-{'0a' * 32}", "/x/y", "0b9f1a52-8a4c-4f0e-9d0e-8f6f5a1b2c3d")  # fmt: skip
    assert all(map(no_name, none))
    names_ = ("Final Fantasy", "Qwen3 8B", "0xdeadbeef model x", "Model Y 3B", "merged-mistral", "outlier", "135M")
    assert not any(map(no_name, names_))


CALLED = [
    # folder, config.json, card, output -> name, what tells it, whether the converter comes to it by itself
    ("hub/models--acme--Tiny-7B/snapshots/" + COMMIT, {}, "", "", ("Tiny-7B", "the Hub's cache", False)),
    (
        "hub/models--acme--T-7B-GGUF/snapshots/x",
        {"_name_or_path": "org/Base"},
        "",
        "",
        ("T-7B", "the Hub's cache", False),
    ),
    ("hub/models--acme--T/snapshots/x", {}, "---\nmodel_name: Tiny Best\n---\n", "", ("Tiny Best", "the card", True)),
    (
        "hub/models--acme--T-1B/snapshots/x",
        {},
        "---\nmodel_name: outputs\n---\n",
        "",
        ("T-1B", "the Hub's cache", False),
    ),
    ("My-Tune-2B", {}, "", "", ("My-Tune-2B", "the folder", True)),
    ("My-Tune-2B", {"_name_or_path": "./out"}, "", "", ("My-Tune-2B", "the folder", False)),
    ("model", {"_name_or_path": "acme/Tiny-7B"}, "", "", ("Tiny-7B", "config.json", True)),
    # A path and no repository: `out` made nothing.
    ("model", {"_name_or_path": "out/Tiny-7B"}, "", "", ("Tiny-7B", "config.json", False)),
    ("model", {"_name_or_path": "out/checkpoint-500"}, "", "", ("", "", False)),
    # What was trained is not called as what it was trained from.
    (
        "model",
        {"_name_or_path": "acme/B-7B"},
        "---\nbase_model: acme/B-7B\n---\n",
        "T-7B-Q8_0.gguf",
        ("T-7B", "the output", False),
    ),
    ("checkpoint-500", {}, "---\nmodel-index:\n- name: Tuned-7B\n---\n", "", ("Tuned-7B", "the card", False)),
    ("checkpoint-500", {}, "# Model Card for acme/Tuned-7B\n", "", ("Tuned-7B", "the card", False)),
    ("model", {}, "# Introduction\n", "/x/model-f16.gguf", ("", "", False)),
]


@pytest.mark.parametrize(("folder", "config", "card", "output", "expected"), CALLED)
def test_who_tells_the_name(folder: str, config: dict[str, object], card: str, output: str, expected, tmp_path: Path):
    path, read = source(tmp_path / folder, card, **config)
    found = called(path, read, output)
    assert (found.name, found.told_by, found.own) == expected
    assert called(path, read, output, "Mine").name == "Mine"


def test_a_tune_is_not_called_as_its_base(tmp_path: Path):
    path, _ = source(tmp_path / "final", _name_or_path="acme/Base-7B")
    assert called(path, None) == Named("Base-7B", "config.json", True)
    (tmp_path / "final" / "trainer_state.json").write_text("{}")
    assert called(path, None) == Named("", "")


def written(path: str, card: Card | None, given: str = "") -> dict[object, tuple[object, object]]:
    """Key -> value, whether it takes the converter's place."""
    found = called(path, card, given=given)
    return {one["key"]: (one["value"], one["over"]) for one in named.rows(found, named.told(path, found, card, 0))}


def test_what_the_converter_is_told(tmp_path: Path):
    place = f"hub/models--acme--Tiny-7B-Chat-v1.1/snapshots/{COMMIT}"
    path, _ = source(tmp_path / place)
    rows = written(path, None)
    assert rows["general.name"] == ("Tiny 7B Chat v1.1", True)
    # Of a name the converter reads these parts (gguf-py, get_model_id_components).
    assert rows["general.basename"] == ("Tiny", True)
    assert rows["general.finetune"] == ("Chat", True)
    assert rows["general.version"] == ("v1.1", True)
    assert rows["general.size_label"] == ("7B", False)
    assert rows["general.organization"] == ("Acme", True)
    assert rows["general.source.repo_url"] == ("https://huggingface.co/acme/Tiny-7B-Chat-v1.1", False)
    assert rows["general.base_model.0.repo_url"] == ("https://huggingface.co/acme/Tiny-7B-Chat-v1.1", False)
    assert written(path, None, "My own: name")["general.name"] == ("My own: name", True)
    # A folder with a name of its own: the converter's business, as before.
    assert written(source(tmp_path / "Tiny-7B")[0], None) == {}
    # Nothing tells it: the folder's word goes, and nothing takes its place.
    gone = written(source(tmp_path / "model")[0], None)
    assert gone["general.name"] == (None, True)
    assert "general.size_label" not in gone


def test_what_the_user_tells_the_converter_stays(tmp_path: Path):
    (tmp_path / "m.json").write_text('{"general.name": "Theirs", "general.version": "v9"}')
    assert named.asked(("--no-lazy", "--model-name", "Mine")) == ("Mine", frozenset())
    assert named.asked((f"--metadata={tmp_path}/m.json",)) == ("", {"general.name", "general.version"})
    assert named.asked(("--metadata", str(tmp_path / "gone.json"))) == ("", frozenset())


def test_a_link_to_a_snapshot(tmp_path: Path):
    path, _ = source(tmp_path / "models--acme--Tiny-7B" / "snapshots" / COMMIT)
    (tmp_path / "mine").symlink_to(path)
    assert called(str(tmp_path / "mine"), None).repo == "acme/Tiny-7B"


def test_parts_of_names():
    """As `gguf-py/tests/test_metadata.py` has them."""
    found = parts("Mistral/Mixtral-8x7B-Instruct-v0.1", 46_000_000_000)
    assert (found.basename, found.size_label, found.finetune, found.version) == ("Mixtral", "8x7B", "Instruct", "v0.1")
    # A number that is no number of parameters is none.
    assert parts("acme/Foo-128k", 7_000_000_000).size_label == ""


TEXTS = [
    ("                         Apache License\n                  Version 2.0, January 2004", "apache-2.0"),
    (
        "MIT License\n\nCopyright me\n\nPermission is hereby granted, free of charge, to any person obtaining a copy",
        "mit",
    ),
    ("Copyright 2026\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of this", "mit"),
    ("                    GNU GENERAL PUBLIC LICENSE\n                       Version 3, 29 June 2007", "gpl-3.0"),
    ("LLAMA 3.1 COMMUNITY LICENSE AGREEMENT\nLlama 3.1 Version Release Date: July 23, 2024", "llama3.1"),
    ("Gemma Terms of Use\n\nLast modified: April 1, 2024", "gemma"),
    ("Attribution-NonCommercial 4.0 International\n\n====", "cc-by-nc-4.0"),
    ("Qwen RESEARCH LICENSE AGREEMENT\nQwen RESEARCH LICENSE AGREEMENT Release Date", "qwen-research"),
    ("Our own terms\nyou may", ""),
]


@pytest.mark.parametrize(("text", "name"), TEXTS)
def test_texts_of_licences(text: str, name: str):
    assert of_text(text) == name


def test_the_licence_of_a_folder(tmp_path: Path):
    assert terms_of(str(tmp_path), None) is None
    (tmp_path / "LICENSE.pdf").write_text("Apache License Version 2.0")
    assert terms_of(str(tmp_path), None) is None
    (tmp_path / "LICENSE").write_text("Apache License\nVersion 2.0, January 2004")
    found = terms_of(str(tmp_path), None, "acme/Tiny")
    assert found is not None
    assert (found.license, found.name, found.link, found.told_by) == ("apache-2.0", "", "", "LICENSE")
    # One that the Hub's list does not have is `other`, with its name and where its text stands.
    (tmp_path / "LICENSE").write_text("  # Our Own Terms 1.0\n\nyou may")
    found = terms_of(str(tmp_path), None, "acme/Tiny")
    assert found is not None
    assert (found.license, found.name) == ("other", "Our Own Terms 1.0")
    assert found.link == "https://huggingface.co/acme/Tiny/blob/main/LICENSE"
    # The card goes before, and its `other` gets the name that the text has.
    said = terms_of(str(tmp_path), read_card("---\nlicense: mit\n---\n"), "acme/Tiny")
    assert said is not None
    assert (said.license, said.name, said.link) == ("mit", "", "")
    other = terms_of(str(tmp_path), read_card("---\nlicense: other\n---\n"))
    assert other is not None
    assert (other.license, other.name, other.link) == ("other", "Our Own Terms 1.0", "LICENSE")


def test_names_of_texts_are_on_the_list_or_told_as_other():
    from gguftool.facts.data import load

    listed = {name for _, name in load("licences.json")["texts"]} & set(names())
    assert {"apache-2.0", "mit", "llama3.1", "gemma", "cc-by-nc-4.0", "gpl-3.0"} <= listed


def test_the_licence_of_a_file_against_the_text_in_its_source(tmp_path: Path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "LICENSE").write_text("Apache License\nVersion 2.0, January 2004")
    context = Context(against=read_folder(tmp_path))
    for name, said in (("mit", ["general.license is mit, the source's LICENSE says apache-2.0"]), ("apache-2.0", [])):
        model = from_source(Memory(zeroed(ready().kv("general.license", name)).bytes(), "m.gguf"))
        found = lint(model, context, select=["source-licence"], load=False)
        assert [f.message for f in found.findings] == said
