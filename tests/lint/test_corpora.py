"""No false alarms: the vocabularies and chat templates that come with llama.cpp, and two real models, file by file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool.lint.run import Report, lint
from gguftool.model import from_source, open_model
from gguftool.source import Memory
from tests.build import GGUF
from tests.chat.test_server import corpus
from tests.lint.samples_tokenizer import TOK, bpe, vocabulary

FAMILIES = ("tokenizer", "template")
VOCABULARIES = {
    # Converted before pre-tokenizers existed: llama.cpp itself prints "GENERATION QUALITY WILL BE DEGRADED!", and of
    # the first one "control-looking token: 0 '<|endoftext|>' was not control-type".
    "aquila": {"pre-tokenizer-missing", "control-token-typed-normal"},
    "gpt-neox": {"pre-tokenizer-missing"},
    **{
        name: set()
        for name in (
            "baichuan bert-bge command-r deepseek-coder deepseek-llm falcon gemma-4 gpt-2 llama-bpe llama-spm mpt "
            "nomic-bert-moe phi-3 qwen2 qwen35 refact starcoder"
        ).split()
    },
}
TEMPLATES: dict[str, set[str]] = {
    # Puts its markers together while it renders, so that the vocabulary made below cannot have them.
    "tencent-Hy3": {"chat-template-unknown-markers"},
}


def serious(report: Report) -> set[str]:
    """Rules with an error or a warning."""
    return {f.rule for f in report.findings if f.severity != "info"}


def test_all_files_are_named() -> None:
    assert {p.stem.removeprefix("ggml-vocab-") for p in corpus().glob("*.gguf")} == set(VOCABULARIES)
    assert len(list(corpus().glob("*.jinja"))) == 71


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabulary(name: str) -> None:
    with open_model(corpus() / f"ggml-vocab-{name}.gguf", strict=False) as model:
        report = lint(model, select=FAMILIES, load=False)
    assert serious(report) == VOCABULARIES[name], [(f.rule, f.message) for f in report.findings]
    # A vocabulary is no model; nothing else may be left unjudged.
    assert {n.rule for n in report.not_evaluated} <= {"tokenizer-model-missing", "chat-template-missing"}


def holding(template: str) -> GGUF:
    """The base file with that template, and with a token for every marker that stands in it."""
    words = vocabulary()
    markers = dict.fromkeys(re.findall(r"<[|｜]?[^<>\s'\"{}]{1,60}>", template))
    for i, marker in enumerate(m for m in markers if m not in words):
        words.append(marker) if 260 + i >= len(words) else words.__setitem__(260 + i, marker)
    g = bpe(template=template).replace(TOK + "tokens", words)
    g.replace(TOK + "token_type", [1] * 256 + [3] * (len(words) - 256), "[i32]")
    return g.retensor("token_embd.weight", shape=(64, len(words)))


def test_templates() -> None:
    wrong = {}
    for path in sorted(corpus().glob("*.jinja")):
        model = from_source(Memory(holding(path.read_text(encoding="utf-8")).bytes(), path.name))
        report = lint(model, select=("template",), load=False)
        if (found := serious(report)) != TEMPLATES.get(path.stem, set()):
            wrong[path.stem] = [(f.rule, f.message) for f in report.findings if f.rule in found]
        # What fails in jinja2 alone is an info, and then other rules say that they could not look.
        assert all("is undefined" in n.why for n in report.not_evaluated), (path, report.not_evaluated)
    assert wrong == {}


@pytest.mark.parametrize("which", ["gemma3", "smollm2"])
def test_real_models(which: str, request: pytest.FixtureRequest) -> None:
    path: Path = request.getfixturevalue(which)
    with open_model(path, strict=False) as model:
        report = lint(model, select=FAMILIES, load=False)
    assert report.findings == ()
    assert report.not_evaluated == ()
