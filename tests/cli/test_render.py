"""`gguftool render`: prompts as llama-server makes them, marked for people and exact for programs."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

import gguftool
from gguftool.chat.conversations import STANDARD, USER
from gguftool.errors import ToolFailed
from gguftool.source import Memory
from tests.build import GGUF
from tests.lint.samples_tokenizer import CHATML, TEMPLATE, bpe

HELLO = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
EXAMPLE = (
    "<|im_start|>system\nYou are a helpful assistant<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
    "<|im_start|>assistant\nHi there<|im_end|>\n<|im_start|>user\nHow are you?<|im_end|>\n<|im_start|>assistant\n"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return bpe().write(tmp_path / "m.gguf")


def test_without_a_conversation_it_is_the_servers_own_example(cli, model: Path) -> None:
    assert cli("render", "--raw", model).stdout == EXAMPLE.encode()
    assert cli("render", model).out.startswith("⟦<|im_start|>⟧system\nYou are a helpful assistant⟦<|im_end|>⟧\n")
    coloured = cli("render", "--color", "always", model).out
    assert "\x1b[36m<|im_start|>\x1b[0m" in coloured
    assert "⟦" not in coloured


@pytest.mark.parametrize(
    "text",
    [
        "Hello",
        '[{"role": "user", "content": "Hello"}]',
        '{"messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}], "model": "x"}',
    ],
)
def test_conversations_come_as_text_messages_or_requests(cli, model: Path, tmp_path: Path, text: str) -> None:
    file = tmp_path / "chat.json"
    file.write_text(text, encoding="utf-8")
    assert cli("render", "--raw", "--messages", file, model).out == HELLO
    assert cli("render", "--raw", "--messages", "-", model, stdin=text).out == HELLO


def test_fields_that_change_no_prompt_are_named(cli, model: Path) -> None:
    body = '{"messages": [{"role": "user", "content": "Hello"}], "temperature": 1, "max_tokens": 5}'
    said = cli("render", "--raw", "--messages", "-", model, stdin=body)
    assert "temperature, max_tokens: changes no prompt" in said.err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1}', "JSON without messages"),
        ('{"messages": 5}', "JSON without messages"),
        ('[{"role": ', "begins like JSON"),
        ('{"messages": ["x"]}', "messages that are no objects"),
    ],
)
def test_what_is_no_conversation_is_said(cli, model: Path, text: str, why: str) -> None:
    result = cli("render", "--messages", "-", model, stdin=text)
    assert result.code == 2
    assert why in result.err
    assert "stdin" in result.err


def test_json_has_segments_that_make_the_prompt(cli, model: Path) -> None:
    body = cli("render", "--conversation", "user", "--format", "json", model).json
    assert body["ok"] is True
    assert "".join(s["text"] for s in body["segments"]) == body["prompt"]
    assert body["segments"][0] == {"text": "<|im_start|>", "token": 258, "kind": "control"}
    assert body["template"] == "default"
    assert USER in body["prompt"]


def test_tools_system_thinking_and_the_open_turn(cli, tmp_path: Path) -> None:
    template = (
        "{{ tools|tojson if tools }}|{{ messages[0].content }}|{{ enable_thinking }}|{{ lang }}"
        "|{{ add_generation_prompt }}"
    )
    model = bpe(template=template).write(tmp_path / "m.gguf")
    tools = tmp_path / "tools.json"
    tools.write_text('[{"name": "f", "parameters": {}}]', encoding="utf-8")
    shown = cli("render", "--raw", "--tools", tools, "--system", "x", "--thinking", model).out
    made = '[{"type": "function", "function": {"name": "f", "description": "", "parameters": {}}}]'
    assert shown == f"{made}|x|True||True"
    options = ("--no-thinking", "--no-generation-prompt", "--chat-template-kwargs", '{"lang": "de"}')
    assert cli("render", "--raw", *options, "--conversation", "user", model).out == f"|{USER}|False|de|"
    assert cli("render", "--chat-template-kwargs", "[1]", model).code == 2


def test_other_templates_and_named_ones(cli, tmp_path: Path) -> None:
    model = bpe().kv(f"{TEMPLATE}.tool_use", "TOOLS{{ bos_token }}").write(tmp_path / "m.gguf")
    assert cli("render", "--raw", "--template-name", "tool_use", model).out == "TOOLS<|bos|>"
    assert cli("render", "--raw", "--conversation", "tools", model).out == "TOOLS<|bos|>"
    missing = cli("render", "--template-name", "rag", model)
    assert (missing.code, "default, tool_use" in missing.err) == (2, True)
    for name, text in (
        ("a.jinja", "FILE {{ eos_token }}"),
        ("b.json", json.dumps({"chat_template": "FILE <|im_end|>"})),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert cli("render", "--raw", "--chat-template", tmp_path / name, model).out == "FILE <|im_end|>"


def test_a_model_without_template_gets_chatml_and_it_is_said(cli, tmp_path: Path) -> None:
    model = bpe(template=None).write(tmp_path / "m.gguf")
    result = cli("render", "--conversation", "user", model)
    assert result.out.startswith("⟦<|im_start|>⟧user\n")
    assert "takes ChatML" in result.err


def test_a_refusal_is_no_prompt_and_exit_code_1(cli, tmp_path: Path) -> None:
    model = bpe(template="{{ raise_exception('no \x1b[31m chat') }}").write(tmp_path / "m.gguf")
    result = cli("render", model)
    assert (result.code, result.out) == (1, "")
    assert "refuses this conversation: no \\x1b[31m chat" in result.err
    body = cli("render", "--format", "json", model).json
    assert (body["ok"], body["prompt"], body["failed"]["kind"]) == (False, None, "raised")
    broken = bpe(template="{{ x").write(tmp_path / "b.gguf")
    assert cli("render", broken).code == 2


def test_nothing_of_a_template_acts_on_the_terminal(cli, tmp_path: Path) -> None:
    model = bpe(template="\x1b[2J\u202e{{ messages[0].content }}").write(tmp_path / "m.gguf")
    result = cli("render", "--messages", "-", model, stdin="a\x1b]0;x\x07")
    assert "\x1b" not in result.out
    assert "\u202e" not in result.out
    assert cli("render", "--raw", "--messages", "-", model, stdin="a").stdout == "\x1b[2J\u202ea".encode()


def test_where_two_templates_part(cli, model: Path, tmp_path: Path) -> None:
    same = cli("render", "--diff", model, model)
    assert (same.code, same.out) == (0, f"the same prompts for all {len(STANDARD)} standard conversations\n")
    other = tmp_path / "other.jinja"
    other.write_text(CHATML.replace("<|im_end|>", "<|pad|>"), encoding="utf-8")
    result = cli("render", "--diff", other, model)
    assert result.code == 1
    assert "- " in result.out
    assert f"{USER}<|im_end|>\\n" in result.out
    assert f"{USER}<|pad|>\\n" in result.out
    body = cli("render", "--diff", other, "--format", "json", model).json
    assert body["ok"] is False
    first = next(d for d in body["differences"] if d["name"] == "user")
    assert first["ours"]["prompt"][first["at"] :].startswith("im_end|>")
    assert first["theirs"]["prompt"][first["at"] :].startswith("pad|>")
    assert cli("render", "--diff", other, "--raw", model).code == 2


def test_all_conversations_of_a_comparison_have_one_time(cli, model: Path, tmp_path: Path) -> None:
    """27 of them, each within its own bound, would take half a minute of the processor."""
    other = tmp_path / "slow.jinja"
    other.write_text("{% for i in range(9000) %}{% for j in range(90) %}{% set x = 1 %}{% endfor %}{% endfor %}{{ i }}")
    begun = time.process_time()
    done = cli("render", "--diff", other, model)
    assert (done.code, "not compared: the conversations take more than" in done.err) == (2, True), done.err
    assert f"hint: one conversation: gguftool render --conversation user {model}" in done.err
    assert time.process_time() - begun < 6


def test_two_models_write_their_own_tokens_and_a_folder_has_a_template(cli, model: Path, tmp_path: Path) -> None:
    folder = tmp_path / "hf"
    folder.mkdir()
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHATML}), encoding="utf-8")
    assert cli("render", "--diff", folder, model).code == 0
    (folder / "chat_template.jinja").write_text(CHATML + "x", encoding="utf-8")
    assert cli("render", "--diff", folder, model).code == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert cli("render", "--diff", empty, model).code == 2


def test_the_library_renders_too(model: Path) -> None:
    assert gguftool.render(model, "Hello").text == HELLO
    messages = [{"role": "user", "content": "Hello"}]
    assert gguftool.render(model, messages, generation_prompt=False).text == "<|im_start|>user\nHello<|im_end|>\n"
    assert gguftool.compare_templates(model, model) == ()


def test_tokens_are_those_of_the_real_tokenizer(cli, model: Path) -> None:
    pytest.importorskip("xllamacpp")
    body = cli("render", "--tokens", "--messages", "-", "--format", "json", model, stdin="ab").json
    # Merges make one token of "a b" only; special tokens are found before the text between them is cut.
    assert body["tokens"][0] == {"id": 258, "piece": "<|im_start|>"}
    assert "".join(t["piece"] for t in body["tokens"]) == body["prompt"]
    assert "'<|im_start|>'" in cli("render", "--tokens", model).out


def test_half_a_surrogate_pair_and_a_file_of_another_role_are_refused(cli, model: Path, tmp_path: Path) -> None:
    result = cli("render", "--messages", "-", model, stdin='[{"role": "user", "content": "a\\ud83d"}]')
    assert (result.code, "surrogate" in result.err) == (2, True)
    projector = GGUF("clip").kv("general.type", "mmproj").kv("clip.has_vision_encoder", True).write(tmp_path / "p.gguf")
    result = cli("render", projector)
    assert (result.code, "it has no chat template" in result.err) == (2, True)


def test_a_template_by_address_is_compared(cli, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def there(spec: str) -> Memory:
        asked.append(spec)
        if spec.endswith("chat_template.jinja"):
            raise ToolFailed("404")
        return Memory(json.dumps({"chat_template": CHATML}).encode(), spec)

    monkeypatch.setattr("gguftool.api.render.open_source", there)
    assert cli("render", "--diff", "hf://owner/repo", model).code == 0
    assert asked == ["hf://owner/repo/chat_template.jinja", "hf://owner/repo/tokenizer_config.json"]
