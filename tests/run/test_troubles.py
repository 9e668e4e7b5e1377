"""What people with the commonest troubles type: their messages are known, and each gets its own answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.run.diagnose import explain_line
from tests.conftest import Result
from tests.lint.samples_tokenizer import END, bpe

Cli = Callable[..., Result]

SAID = {
    # gguf-py 0.19.0, as its programs print it
    "ERROR:gguf-set-metadata:! This tool only supports changing simple values, 'tokenizer.chat_template' has "
    "unsupported type [<GGUFValueType.STRING: 8>]": ("gguf-set-metadata", "--set-file tokenizer.chat_template=FILE"),
    "ERROR:gguf-set-metadata:! Field 'llama.rope.scaling.factor' not found": (
        "gguf-set-metadata",
        "--set llama.rope.scaling.factor=VALUE adds it",
    ),
    "ValueError: GGUF magic invalid": ("gguf-reader-magic", "gguftool verify MODEL"),
    "ValueError: cannot reshape array of size 419520 into shape (1536,360)": (
        "gguf-reader-short",
        "how much is missing",
    ),
    "AttributeError: `newbyteorder` was removed from the ndarray class in NumPy 2.0. Use ...": (
        "gguf-numpy",
        "pip install --upgrade gguf",
    ),
    # transformers, Jinja, the converter
    "ValueError: GGUF model with architecture minimax-m3 is not supported yet.": (
        "transformers-architecture",
        "gguftool compat MODEL",
    ),
    "jinja2.exceptions.TemplateSyntaxError: Encountered unknown tag 'generation'.": ("template-tag", "lint MODEL"),
    "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...": (
        "template-roles",
        "gguftool render MODEL",
    ),
    "jinja2.exceptions.TemplateError: After the optional system message, conversation roles must alternate "
    "user/assistant/user/assistant/...": ("template-roles", "join messages of one role"),
    "WARNING:hf-to-gguf:** WARNING: The BPE pre-tokenizer was not recognized!": (
        "convert-pretokenizer",
        "a newer converter",
    ),
    # llama.cpp: no fault
    "llama_context: n_ctx_seq (4096) < n_ctx_train (131072) -- the full capacity of the model will not be utilized": (
        "context-unused",
        "nothing;",
    ),
}


@pytest.mark.parametrize("said", SAID)
def test_a_message_has_its_own_answer(said: str) -> None:
    kind, way = SAID[said]
    found = explain_line(said)
    assert found is not None
    assert found.kind == kind
    assert way in found.remedy


def test_an_unused_context_is_no_notice() -> None:
    """llama.cpp prints it whenever less than the trained context is asked for: nothing to tell of a sound log."""
    from gguftool.run.messages import find

    line = next(said for said, (kind, _) in SAID.items() if kind == "context-unused")
    hit = find(line)
    assert hit is not None
    assert hit.row.quiet
    assert not hit.row.fatal


def test_the_end_of_a_turn_is_not_looked_for_behind_a_marker_that_is_no_token(cli: Cli, tmp_path: Path) -> None:
    """Another model's template: the start of the next turn, `<|im_start|>`, was proposed as eot."""
    path = bpe(template=END).write(tmp_path / "m.gguf")
    found = {f["rule"]: f for f in cli("lint", path, "--format", "json").json["files"][0]["findings"]}
    assert "<|fin|>" in found["chat-template-unknown-markers"]["message"]
    assert not {"end-of-turn-not-eog", "end-of-turn-by-name-only"} & set(found)


def test_a_template_that_does_not_parse_leads_to_lint(cli: Cli, tmp_path: Path) -> None:
    path = bpe(template="{% for m in messages %}{{ m.content }").write(tmp_path / "m.gguf")
    said = cli("render", path)
    assert said.code == 2
    assert f"hint: gguftool lint --select template {path}" in said.err
    assert "chat-template-syntax" in cli("lint", "--select", "template", path).out


PAGES = sorted(p for p in (Path(__file__).parents[2] / "docs" / "how-to").glob("*.md") if p.name != "README.md")


def test_there_are_twenty_pages_and_the_list_names_each() -> None:
    told = (PAGES[0].parent / "README.md").read_text()
    assert len(PAGES) == 20
    assert [p.name for p in PAGES if told.count(f"({p.name})") != 2] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_the_messages_of_a_page_are_known_to_doctor(page: Path) -> None:
    """Whoever has only the message gets to the same answer by `doctor --error`."""
    for block in re.findall(r"^```text\n(.*?)^```", page.read_text(), re.M | re.S):
        for line in block.splitlines():
            found = explain_line(line)
            assert found is not None, line
            assert found.kind not in ("python-end", "internal"), f"{line}: {found.kind}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_a_page_says_why_the_way_on_and_how_to_know(page: Path) -> None:
    text = page.read_text()
    parts = ("What people type: *", "**Why.** ", "## Mended when")
    assert [part for part in parts if part not in text] == []
    assert "\n$ gguftool " in text.partition("## Mended when")[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("diagnose", "m.gguf", "it", "never", "stops"), "`gguftool diagnose m.gguf --symptom 'it never stops'`"),
        (
            ("doctor", "unknown", "model", "architecture:", "'x'"),
            "`gguftool doctor --error 'unknown model architecture: '\"'\"'x'\"'\"''`",
        ),
        (("doctor", "--format", "json", "a", "b", "c"), "Words go behind --error, in quotes."),
        (("pull", "owner/repo"), "hint: of the Hub: gguftool pull hf://owner/repo"),
        (("tokenize", "m.gguf", "hello"), "`gguftool render MODEL --messages FILE --tokens`"),
        (("benchmark", "m.gguf"), "`gguftool plan MODEL` has the speed to be expected"),
    ],
)
def test_what_people_type_at_first_leads_on(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    """The first minute of a hobbyist: words without quotes, the name of a repository, commands of other programs."""
    monkeypatch.chdir(tmp_path)
    bpe().write(tmp_path / "m.gguf")
    done = cli(*words)
    assert done.code == 2
    assert said in done.err.replace("\n", " ") + done.out, done.err


def test_template_is_the_prompt(cli: Cli, tmp_path: Path) -> None:
    done = cli("template", bpe().write(tmp_path / "m.gguf"))
    assert done.code == 0
    assert "<|im_start|>" in done.out


def test_a_value_with_an_at_sign_is_no_file_and_says_so(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As curl and gh have it: the template became the text `@t.jinja`, without a word."""
    monkeypatch.chdir(tmp_path)
    path = bpe().write(tmp_path / "m.gguf")
    (tmp_path / "t.jinja").write_text("{% for m in messages %}{{ m.content }}{% endfor %}")
    said = cli("fix", path, "--set", "tokenizer.chat_template=@t.jinja", "--dry-run")
    assert said.code == 0
    assert "@t.jinja is written as it stands" in said.err
    way = "--set-file tokenizer.chat_template=t.jinja"
    assert way in said.err
    assert cli("fix", path, *way.split(), "--no-undo").code == 0
    assert "for m in messages" in cli("dump", path, "--raw", "tokenizer.chat_template").out
    assert "as it stands" not in cli("fix", path, "--set", "general.name=@ann", "--dry-run").err
