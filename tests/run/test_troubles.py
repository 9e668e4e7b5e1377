"""What people with the commonest troubles type: their messages are known, and each gets its own answer."""

from __future__ import annotations

import pytest

from gguftool.run.diagnose import explain_line

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
