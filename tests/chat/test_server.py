"""Our prompts are those of the real llama-server, and what we say it does at start it does."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path

import pytest

import gguftool
from gguftool.chat import sandbox
from gguftool.chat.conversations import STANDARD
from gguftool.chat.engine.request import Asked
from gguftool.chat.engine.server import Server
from gguftool.chat.talk import TALKS, Chat
from gguftool.model import from_source
from gguftool.model.vocab import Vocabulary
from gguftool.source import Memory
from tests.chat.real_server import answers
from tests.lint.samples import report_of
from tests.lint.samples_tokenizer import CHATML, TEMPLATE, bpe
from tests.llama_cpp_source import ensure
from tests.real_models import CannotFetch

FEW = ("Qwen-Qwen3-0.6B", "meta-llama-Llama-3.2-3B-Instruct", "google-gemma-2-2b-it", "openai-gpt-oss-120b")
DIFFERENT = {
    # Deliberation follows enable_thinking, which the server takes away where it cannot parse the thoughts.
    "Apertus-8B-Instruct": set(TALKS),
    # jinja2's immutable sandbox, as in transformers, does not let a template append to a list.
    "Kimi-K2-Instruct": {"tools"},
    "Kimi-K2-Thinking": {"tools"},
    # The template needs a variable of its own; the server takes what is undefined for empty.
    "fireworks-ai-llama-3-firefunction-v2": set(TALKS),
    # The template refuses system messages; the server puts them into the first user message.
    "google-gemma-2-2b-it": {"system"},
    # The server translates tool results into the shape of Gemma 4.
    "google-gemma-4-31B-it-interleaved": {"tools"},
    # A generator handed to tojson; arguments as an object where the template wants text; HTML escapes behind |safe.
    "llama-cpp-deepseek-r1": {"tools"},
    "meetkai-functionary-medium-v3.2": {"tools"},
    "meetkai-functionary-medium-v3.1": {"tools"},
}


def corpus() -> Path:
    try:
        return ensure()
    except CannotFetch as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the templates of llama.cpp are not in the cache and cannot be fetched: {error}")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bpe(template=None).write(tmp_path_factory.mktemp("server") / "m.gguf")


def compare(name: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "TODAY", datetime.now())
    path = corpus() / f"{name}.jinja"
    theirs = answers(model, path)
    assert theirs is not None, "llama-server exited"
    chat = Chat(path.read_text(encoding="utf-8"), Vocabulary(from_source(Memory(model.read_bytes(), "m.gguf"))))
    ours = {talk: (r.text if not (r := chat.render(talk)).kind else None) for talk in TALKS}
    assert {t for t in TALKS if ours[t] != theirs[t]} == DIFFERENT.get(name, set())


@pytest.mark.parametrize("name", FEW)
def test_prompts_are_those_of_the_server(name: str, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(name, model, monkeypatch)


@pytest.mark.parametrize("name", FEW)
def test_the_engine_gives_the_prompts_of_the_running_server(name: str, model: Path) -> None:
    path = corpus() / f"{name}.jinja"
    # A picture needs a projector, and the marker of a picture is another one each time.
    names = [n for n in STANDARD if n != "image"]
    theirs = answers(model, path, names)
    assert theirs is not None
    vocab = Vocabulary(from_source(Memory(model.read_bytes(), "m.gguf")))
    bos, eos = (vocab.text(i) if (i := vocab.special(role)) is not None else "" for role in ("bos", "eos"))
    server = Server(path.read_text(encoding="utf-8"), bos=bos, eos=eos)
    ours = {}
    for n in names:
        result = server.prompt(Asked.of(STANDARD[n]))
        ours[n] = None if result.kind else result.text
    assert ours == theirs


@pytest.mark.parametrize("add_bos", [True, False])
def test_prompts_of_a_file_with_its_own_templates(add_bos: bool, tmp_path: Path) -> None:
    """BOS is the tokenizer's or the template's, requests with tools have a template of their own."""
    g = bpe(template="{{ bos_token }}" + CHATML + "{{ eos_token }}", add_bos=add_bos)
    g.kv(f"{TEMPLATE}.tool_use", "{{ bos_token }}TOOLS {{ tools|length }} {{ messages[0].content }}")
    path, names = g.write(tmp_path / "m.gguf"), ["user", "turns", "tools-declared", "prefill", "thinking"]
    theirs = answers(path, None, names)
    assert theirs is not None
    assert {name: gguftool.render(path, Asked.of(STANDARD[name])).text for name in names} == theirs


@pytest.mark.slow
def test_prompts_of_all_templates_are_those_of_the_server(model: Path) -> None:
    names = [p.stem for p in sorted(corpus().glob("*.jinja"))]
    assert len(names) == 71
    wrong = {}
    for name in names:
        with pytest.MonkeyPatch.context() as patch:
            try:
                compare(name, model, patch)
            except AssertionError as e:
                wrong[name] = str(e)
    assert wrong == {}


@pytest.mark.parametrize(
    ("head", "exits"),
    [
        ("{% with a = 1 %}{{ a }}{% endwith %}", True),
        ("{% include 'x' %}", True),
        ("{{ nosuch(1) }}", True),
        ("{{ 1.5|round }}", True),
        ("{{ functions|tojson }}", True),
        ("{% if messages|length == 3 %}{{ 1 // 0 }}{% endif %}", True),
        ("{% if messages[0].role == 'system' %}{{ 1 // 0 }}{% endif %}", True),
        ("{{ messages[0].content.nosuch() }}", True),
        ("{{ x", True),
        ("{{ '\\u0041' }}", True),
        ("{% if false %}{{ 2 ** 3 }}{% endif %}", True),
        ("{% if messages[0].role == 'system' %}{{ raise_exception('no') }}{% endif %}", False),
        ("{{ functions.x }}", False),
        ("{% if tools %}{{ tools|from_json }}{% endif %}", False),
        ("{% generation %}{% endgeneration %}", False),
        ("{{ ''.__class__ }}", False),
    ],
)
def test_errors_are_what_makes_the_server_exit(head: str, exits: bool, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.jinja"
    path.write_text(head + CHATML)
    assert (answers(model, path, ["user"]) is None) == exits
    report = report_of(bpe(template=head + CHATML), select=("template",))
    said = [f for f in report.findings if f.severity == "error" and f.rule != "chat-template-code"]
    assert bool(said) == exits, [(f.severity.value, f.message) for f in report.findings]


CHATML_PROMPT = "<|im_start|>user\nHello, said xuserx.<|im_end|>\n<|im_start|>assistant\n"


@pytest.mark.parametrize(
    ("fields", "prompt", "rule"),
    [
        ({TEMPLATE: 7}, "7", "chat-template-not-text"),
        ({TEMPLATE: True}, "true", "chat-template-not-text"),
        ({TEMPLATE: ["a"]}, CHATML_PROMPT, "chat-template-not-text"),
        ({TEMPLATE: ""}, CHATML_PROMPT, "chat-template-empty"),
        ({TEMPLATE: "chatml"}, CHATML_PROMPT, None),
        ({TEMPLATE: "plain text"}, "plain text", "chat-template-ignores-messages"),
        ({TEMPLATE: CHATML, f"{TEMPLATE}.tool_use": "{{ x"}, CHATML_PROMPT, "chat-template-variants"),
        ({f"{TEMPLATE}.tool_use": "{{ x"}, None, "chat-template-variants"),
    ],
)
def test_what_the_server_makes_of_odd_values(
    fields: dict[str, object], prompt: str | None, rule: str | None, tmp_path: Path
) -> None:
    g = bpe(template=None)
    for key, value in fields.items():
        g.kv(key, value)
    theirs = answers(g.write(tmp_path / "m.gguf"), None, ["user"])
    assert (None if theirs is None else theirs["user"]) == prompt
    assert {f.rule for f in report_of(g, select=("template",)).findings if f.severity != "info"} == ({rule} - {None})


@pytest.mark.parametrize(
    ("head", "add_bos", "starts", "severity"),
    [
        # The server takes one BOS away when it will add one itself.
        ("{{ bos_token }}", True, "<|im_start|>", "info"),
        ("{{ bos_token }}", False, "<|bos|><|im_start|>", None),
        ("{{ bos_token }}{{ bos_token }}", True, "<|bos|><|im_start|>", "warning"),
        (" {{ bos_token }}", True, " <|bos|>", "warning"),
        ("", True, "<|im_start|>", None),
    ],
)
def test_double_bos_is_what_the_server_does(
    head: str, add_bos: bool, starts: str, severity: str | None, tmp_path: Path
) -> None:
    g = bpe(template=head + CHATML, add_bos=add_bos)
    theirs = answers(g.write(tmp_path / "m.gguf"), None, ["user"])
    assert theirs is not None
    assert (theirs["user"] or "").startswith(starts)
    said = [f.severity.value for f in report_of(g, select=("double-bos",)).findings]
    assert said == ([severity] if severity else [])
