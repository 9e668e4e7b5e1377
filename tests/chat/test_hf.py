"""Our prompts by the rules of transformers are its own, and where llama-server parts from them is said."""

from __future__ import annotations

import hashlib
import json

import pytest

from gguftool.chat.conversations import STANDARD
from gguftool.chat.engine.request import Asked
from gguftool.chat.hf import applied
from gguftool.chat.sandbox import Template
from gguftool.lint.against import from_files
from gguftool.lint.rule import Context
from gguftool.lint.tokenized import Compared
from tests.chat.test_engine import DATA
from tests.chat.test_server import corpus
from tests.lint.samples import report_of
from tests.lint.samples_tokenizer import CHATML, bpe

TRUTH = json.loads((DATA / "transformers.json").read_text(encoding="utf-8"))
SPECIALS = {"bos_token": "<|bos|>", "eos_token": "<|eos|>"}


def test_prompts_are_those_of_transformers() -> None:
    assert TRUTH["conversations"] == list(STANDARD)
    wrong = []
    for name, row in TRUTH["templates"].items():
        template = Template((corpus() / f"{name}.jinja").read_text(encoding="utf-8"))
        for talk, digest in zip(STANDARD, row.split(), strict=True):
            result = applied(template, Asked.of(STANDARD[talk]), SPECIALS)
            if (hashlib.sha256(result.text.encode()).hexdigest()[:12] if not result.kind else "-") != digest:
                wrong.append((name, talk))
    assert wrong == []


def found(file: str, source: str | None, *, asked: bool = True) -> list[tuple[str, str]]:
    files = {"config.json": b"{}"}
    if source is not None:
        files["chat_template.jinja"] = source.encode()
    context = Context(against=from_files("./hf", files), tokenized=(lambda m: Compared(why_not="x")) if asked else None)
    report = report_of(bpe(template=file), context=context, select=("chat-template-prompts-differ",))
    return [(f.severity.value, f.message) for f in report]


def test_the_same_prompts_are_silent() -> None:
    assert found(CHATML, CHATML) == []
    assert found(CHATML, None) == []


def test_another_template_is_a_warning() -> None:
    [(severity, message)] = found(CHATML, CHATML.replace("<|im_end|>", "<|pad|>"))
    assert severity == "warning"
    assert "transformers" in message
    assert "xuserx.<|pad|>" in message
    assert "xuserx.<|im_end|>" in message


@pytest.mark.parametrize(
    ("addition", "differs"),
    [
        ("{% if enable_thinking %}THINK{% endif %}", True),
        ("{{ nothing.at.all }}", True),
        ("{% if tools is none %}NONE{% endif %}", True),
        ("{% set x = 1 %}", False),
    ],
)
def test_what_the_engines_do_otherwise_is_an_info(addition: str, differs: bool) -> None:
    said = found(CHATML + addition, CHATML + addition)
    assert [severity for severity, _ in said] == (["info"] if differs else [])


def test_it_is_asked_for() -> None:
    assert found(CHATML, CHATML.replace("<|im_end|>", "<|pad|>"), asked=False) == []
