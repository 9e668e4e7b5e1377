"""`fix --chat-template`: what it takes, and what it refuses."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from gguftool.model import open_model
from tests.build import llama

ONE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
TWO = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
KEY = "tokenizer.chat_template"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return llama().kv(KEY, "old {{ messages }}").write(tmp_path / "m.gguf")


def fixed(cli: Any, path: Path, given: Path | str) -> dict[str, object]:
    result = cli("fix", path, "--chat-template", given, "--no-undo")
    assert result.code == 0, result.err
    with open_model(path) as m:
        return {k.removeprefix("tokenizer."): m.get(k) for k in m.fields if k.startswith(KEY)}


NAMED = [{"name": "default", "template": ONE}, {"name": "tool_use", "template": TWO}]
TAKEN: dict[str, tuple[str, dict[str, object]]] = {
    "chat.jinja": (ONE, {"chat_template": ONE}),
    "tokenizer_config.json": (
        json.dumps({"add_bos_token": False, "chat_template": ONE}, indent=2),
        {"chat_template": ONE},
    ),
    "chat_template.json": (json.dumps({"chat_template": ONE}), {"chat_template": ONE}),
    "named.json": (
        json.dumps({"chat_template": NAMED}),
        {"chat_template": ONE, "chat_template.tool_use": TWO, "chat_templates": ["tool_use"]},
    ),
    "object.json": (
        json.dumps({"chat_template": {"default": ONE, "rag-2": TWO}}),
        {"chat_template": ONE, "chat_template.rag_2": TWO, "chat_templates": ["rag_2"]},
    ),
    "list.json": (
        json.dumps(NAMED),
        {"chat_template": ONE, "chat_template.tool_use": TWO, "chat_templates": ["tool_use"]},
    ),
    "no name for it": ("\ufeff" + json.dumps({"chat_template": ONE}), {"chat_template": ONE}),
    "brace.jinja": ('{ "role": {{ messages[0].role }} }', {"chat_template": '{ "role": {{ messages[0].role }} }'}),
    "list.jinja": ("[{{ messages }}]", {"chat_template": "[{{ messages }}]"}),
    "chatml": ("chatml", {"chat_template": "chatml"}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str, path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    text, expected = TAKEN[name]
    given = tmp_path / name
    given.write_text(text, encoding="utf-8")
    assert fixed(cli, path, given) == expected


def test_another_model(path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    other = llama().kv(KEY, ONE).kv(f"{KEY}.tool_use", TWO).kv("tokenizer.chat_templates", ["tool_use"])
    named = other.write(tmp_path / "other.bin")  # known by its bytes, not its name
    assert fixed(cli, path, named) == {
        "chat_template": ONE, "chat_template.tool_use": TWO, "chat_templates": ["tool_use"]
    }  # fmt: skip
    # and back: named templates of before do not stay with the ones of another list, and are told otherwise
    result = cli("fix", path, "--chat-template", llama().kv(KEY, TWO).write(tmp_path / "one.gguf"), "--no-undo")
    assert result.code == 0
    assert f"{KEY}.tool_use stays" in result.err + result.out


def test_a_pipe_is_read_once(path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_text(json.dumps({"chat_template": ONE})))
    writer.start()
    assert fixed(cli, path, pipe) == {"chat_template": ONE}
    writer.join()


REFUSED: dict[str, tuple[bytes, str]] = {
    "config.json": (b'{"model_type": "llama", "hidden_size": 64}', "JSON without a chat_template; it has model_type"),
    "empty.json": (b"{}", "JSON without a chat_template"),
    "list.json": (b"[1, 2]", "neither text nor a list"),
    "text.json": (json.dumps(ONE).encode(), "JSON without a chat_template"),
    "null.json": (b'{"chat_template": null}', "neither text nor a list"),
    "blank.json": (b'{"chat_template": "  "}', "empty chat_template"),
    "number.json": (b'{"chat_template": 7}', "neither text nor a list"),
    "nothing.json": (b'{"chat_template": []}', "holds no chat_template"),
    "odd.json": (b'{"chat_template": [{"name": "default"}]}', "neither text nor a list"),
    "twice.json": (json.dumps({"chat_template": [NAMED[0], NAMED[0]]}).encode(), "names a template twice"),
    "nested.json": (json.dumps({"chat_template": json.dumps({"a": ONE})}).encode(), "JSON itself"),
    "cut.json": (json.dumps({"chat_template": ONE}).encode()[:-9], "begins like JSON, and is not"),
    "deep.json": (b'[{"a":' * 50_000, "nested too deeply"),
    "empty": (b"", "is empty"),
    "blanks": (b" \n\t", "is empty"),
    "zero bytes": (b"{{ messages }}\0", "zero bytes"),
    "safetensors": (b"\x40\0\0\0\0\0\0\0" + b'{"a":{}}', "zero bytes"),
    "latin1.jinja": ("{{ messages }} \xe9".encode("latin-1"), "not UTF-8"),
    "picture.png": (b"\x89PNG\r\n\x1a\n", "not UTF-8"),
    "utf-16.jinja": ("{{ messages }}".encode("utf-16-le"), "zero bytes"),
    "README.md": (b"# A model\n\nIt is good.\n", "no Jinja template"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "no Jinja template"),
    "page.html": (b"<!DOCTYPE html><html>{{ x }}</html>", "page of the web"),
    "broken.gguf": (b"GGUF\x03\0", "broken.gguf"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    data, words = REFUSED[name]
    given = tmp_path / name
    given.write_bytes(data)
    before = path.read_bytes()
    result = cli("fix", path, "--chat-template", given)
    assert result.code == 2, (result.out, result.err)
    assert words in result.err
    assert "Traceback" not in result.err
    assert path.read_bytes() == before


def test_other_places_are_refused(path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": ONE}))
    result = cli("fix", path, "--chat-template", folder)
    assert result.code == 2
    assert "is a folder" in result.err
    assert "tokenizer_config.json" in result.err
    bare = llama().write(tmp_path / "bare.gguf")
    result = cli("fix", path, "--chat-template", bare)
    assert (result.code, f"has no {KEY}" in result.err) == (2, True)
    wrong = llama().kv(KEY, json.dumps({"chat_template": ONE})).write(tmp_path / "wrong.gguf")
    assert cli("fix", path, "--chat-template", wrong).code == 2
    assert cli("fix", path, "--chat-template", "/dev/null").code == 2


def test_a_refused_text_can_still_be_written_as_it_is(path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    plain = tmp_path / "plain.txt"
    plain.write_text("plain words")
    result = cli("fix", path, "--set-file", f"{KEY}={plain}", "--no-undo")
    assert result.code == 0
    with open_model(path) as m:
        assert m.get(KEY) == "plain words"


def test_lint_takes_the_template_out_of_a_document(path: Path, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    wrong = llama().kv(KEY, json.dumps({"chat_template": ONE}, indent=1)).write(tmp_path / "w.gguf")
    found = list(cli("lint", wrong, "--format", "json").json["files"][0]["findings"])
    assert "chat-template-is-json" in {f["rule"] for f in found}
    assert cli("lint", wrong, "--select", "chat-template-is-json", "--fix-unsafe").code == 0
    with open_model(wrong) as m:
        assert m.get(KEY) == ONE
