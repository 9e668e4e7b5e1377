"""Whatever text stands in a file as its chat template, lint says something sensible and soon."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gguftool.lint.run import lint
from gguftool.model import from_source
from gguftool.source import Memory
from tests.lint.samples_tokenizer import CHATML, TEMPLATE, bpe
from tests.pace import within

BITS = [
    "{{", "}}", "{%", "%}", "{#", "#}", "'", '"', "\\x", "9" * 5000, "1e999", "\udcff", "\x00", "|", "(", ")", "[", "]",
    "{", "}", "for", "in", "if", "endif", "endfor", "set", "macro", "endmacro", "messages", "loop", "ns", "~", "+", "*",
    "**", "%", ".", "__class__", "|attr", "not", "is", "none", "-", "tojson", "join", "format", "range(10)", "caller()",
    "{% call", "{%- raw %}", "{% block x %}", "{% endblock %}", "self", "super()", "{% extends 'x' %}", "namespace()",
    "\n", " ", "=", "0x1F", "1_000", "é", "{% filter upper %}", "recursive", "loop(messages)", "joiner(',')", "[::2]",
    "|map('upper')", "|sort", "|groupby('role')", "**{}", "*[]", "{{ messages[0].content }}", CHATML, "<|im_end|>",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.lists(st.sampled_from(BITS), max_size=30).map(" ".join) | st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    model = from_source(Memory(bpe(template=text).bytes(), "m.gguf"), strict=False)
    with within(10):
        report = lint(model, select=("template", "tokenizer"), load=False)
    assert [n for n in report.not_evaluated if "itself failed" in n.why] == []
    assert model[TEMPLATE] == text
