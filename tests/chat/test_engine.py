"""Our walk through a template is that of llama.cpp's own engine, and so are the prompts of the server around it."""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

import jinja2
import pytest

from gguftool.chat.conversations import STANDARD, THOUGHT, USER, calls, says
from gguftool.chat.engine.program import Program
from gguftool.chat.engine.request import MEDIA, Asked
from gguftool.chat.engine.server import Server
from gguftool.chat.meter import LimitReached
from tests.chat.test_sandbox import BOMBS, SOON
from tests.chat.test_server import corpus
from tests.pace import within

DATA = Path(__file__).parents[1] / "data" / "chat"
NOW = datetime(2026, 3, 17, 12)
ENGINE = json.loads((DATA / "engine.b11434.json").read_text(encoding="utf-8"))
PROMPTS = json.loads((DATA / "prompts.b11434.json").read_text(encoding="utf-8"))


def engine(template: str, variables: dict[str, Any]) -> str | None:
    try:
        result = Program(template).render(json.loads(json.dumps(variables)), NOW)
    except (jinja2.TemplateSyntaxError, LimitReached):
        return None
    return None if result.kind else result.text


@pytest.mark.parametrize(("template", "text"), ENGINE["cases"], ids=range(len(ENGINE["cases"])))
def test_templates_come_to_what_the_real_engine_makes_of_them(template: str, text: str | None) -> None:
    assert engine(template, ENGINE["variables"]) == text


def asked(name: str) -> Asked:
    return Asked.of(STANDARD[name])


def test_all_templates_render_all_conversations_as_the_real_server_does() -> None:
    """1,917 prompts, what the templates can do, whether thinking is on, and how thoughts are written."""
    assert PROMPTS["conversations"] == list(STANDARD)
    paths = sorted(corpus().glob("*.jinja"))
    assert {p.stem for p in paths} == set(PROMPTS["templates"])
    wrong = []
    for path in paths:
        real = PROMPTS["templates"][path.stem]
        server = Server(path.read_text(encoding="utf-8"), bos="<|bos|>", eos="<|eos|>", now=NOW)
        caps = server.main.caps
        ours = [name for name in type(caps).__dataclass_fields__ if getattr(caps, name)]
        if sorted(ours) != real["caps"] or server.thinks != real["thinking"]:
            wrong.append((path.stem, "capabilities"))
        if list(server.reasoning(server.main)[:2]) != real["reasoning"]:
            wrong.append((path.stem, "reasoning"))
        for name, digest in zip(STANDARD, real["prompts"].split(), strict=True):
            result = server.prompt(asked(name))
            if (hashlib.sha256(result.text.encode()).hexdigest()[:12] if not result.kind else "-") != digest:
                wrong.append((path.stem, name))
    assert wrong == []


CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_model_without_template_gets_chatml() -> None:
    for none in (None, "", "chatml"):
        assert Server(none).prompt(asked("user")).text == (
            f"<|im_start|>user\n{USER}<|im_end|>\n<|im_start|>assistant\n"
        )


def test_one_bos_is_left_to_the_tokenizer() -> None:
    template = "{{ bos_token }}" + CHATML + "{{ eos_token }}"
    assert Server(template, bos="<s>", eos="</s>").prompt(asked("user")).text.startswith("<s><|im_start|>")
    bare = Server(template, bos="<s>", eos="</s>", add_bos=True, add_eos=True).prompt(asked("user")).text
    assert bare.startswith("<|im_start|>")
    assert bare.endswith("assistant\n")


def test_requests_with_tools_take_the_template_made_for_them() -> None:
    server = Server(CHATML, "TOOLS {{ tools|length }}")
    assert server.prompt(asked("tools-declared")).text == "TOOLS 2"
    assert server.prompt(asked("user")).text.startswith("<|im_start|>")
    broken = Server(CHATML, "{{ x")
    assert broken.prompt(asked("tools-declared")).text.startswith("<|im_start|>")
    assert Server(None, "TOOLS").prompt(asked("user")).text == "TOOLS"


def test_a_picture_is_a_marker_in_the_text() -> None:
    assert MEDIA in Server(CHATML).prompt(asked("image")).text


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([{"content": "x"}], "role"),
        ([{"role": "user"}], "content"),
        ([{"role": "assistant"}], "content"),
        ([says("user", 5)], "string or an array"),
        ([says("user", [{"type": "thinking", "text": "x"}])], "unsupported content"),
        ([says("user", USER), calls(("weather", {}))], "tool calls"),
        ([says("user", USER), says("assistant", "a"), says("assistant", "b")], "2 or more"),
        ([says("assistant", "", tool_calls=[{"id": "1", "function": {"name": "x"}}]), says("user", "")], "tool call"),
    ],
)
def test_what_the_server_answers_with_an_error_has_no_prompt(messages: list[dict[str, Any]], why: str) -> None:
    result = Server(CHATML).prompt(Asked(messages))
    assert result.kind == "request"
    assert why in result.error


def test_an_answer_can_be_continued_behind_its_thoughts() -> None:
    messages = [says("user", USER), says("assistant", "", reasoning_content=THOUGHT)]
    qwen = Server((corpus() / "Qwen-Qwen3-0.6B.jinja").read_text(encoding="utf-8"))
    assert qwen.prompt(Asked(messages)).text.endswith(f"<|im_start|>assistant\n<think>\n{THOUGHT}")
    asked_for = Asked(messages, open=False, resume="content")
    assert qwen.prompt(asked_for).text.endswith(f"<think>\n{THOUGHT}\n</think>\n\n")


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_templates_end_soon(name: str) -> None:
    with within(SOON):
        engine(BOMBS[name], {"messages": [says("user", "x" * 100)]})


GROWING = {
    "a list in itself": "{% set l = [] %}{% set _ = l.append(l) %}{{ l|tojson }}",
    "shown in itself": "{% set l = [] %}{% set _ = l.append(l) %}{{ l }}",
    "as text in itself": "{% set l = [] %}{% set _ = l.append(l) %}{{ l|string }}",
    "doubling": "{% set l = [1] %}{% for i in range(60) %}{% set l = [l, l] %}{% endfor %}",
    "doubled and shown": "{% set ns = namespace(l=[1]) %}{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}"
    "{% endfor %}{{ ns.l }}",
    "doubled and compared": "{% set ns = namespace(a=(1,2), b=(1,2)) %}{% for i in range(60) %}"
    "{% set ns.a = (ns.a, ns.a) %}{% set ns.b = (ns.b, ns.b) %}{% endfor %}{{ ns.a == ns.b }}",
    "appending": "{% set l = [1] %}{% for i in l %}{% for j in range(40000) %}{% set _ = l.append(j) %}{% endfor %}"
    "{% endfor %}",
    "names in macros": "{% macro f(n) %}{% set a = n %}{% for i in range(9) %}{{ f(n) }}{% endfor %}{% endmacro %}"
    "{{ f(1) }}",
    "an object in itself": "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns|tojson }}{{ ns|string }}",
}


@pytest.mark.parametrize("name", GROWING)
def test_values_that_hold_themselves_end_soon(name: str) -> None:
    with within(SOON):
        engine(GROWING[name], {})


def test_nothing_of_python_is_reached() -> None:
    for attempt in (
        "{{ ''.__class__ }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ [].append.__globals__ }}",
        "{{ namespace.__init__ }}",
        "{{ messages.__class__ }}",
        "{{ range.call }}",
        "{{ 'x'.encode() }}",
    ):
        assert engine(attempt, {"messages": []}) in (None, "")


def test_long_conversations_have_their_room() -> None:
    long = "word " * 60_000
    result = Server(CHATML).prompt(Asked([says("user", long)]))
    assert long in result.text
