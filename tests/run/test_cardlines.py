"""Which file `-hf OWNER/NAME:LABEL` takes: what the real llama-server does."""

from __future__ import annotations

import pytest

from gguftool.run.cardlines import taken

TAKEN: list[tuple[tuple[str, ...], dict[str, str]]] = [
    (
        ("Foo-Q4_K_M.gguf", "Foo-Q8_0.gguf", "mmproj-F16.gguf"),
        {"Q4_K_M": "Foo-Q4_K_M.gguf", "q8_0": "Foo-Q8_0.gguf", "": "Foo-Q4_K_M.gguf", "Q5_K_M": "", "F16": ""},
    ),
    (
        ("Foo-UD-Q4_K_M.gguf", "Foo-Q4_K_M.gguf"),
        {"Q4_K_M": "Foo-Q4_K_M.gguf", "UD-Q4_K_M": "Foo-UD-Q4_K_M.gguf", "": "Foo-Q4_K_M.gguf"},
    ),
    (("foo_q4_0.gguf", "foo_q4_0_4_4.gguf"), {"Q4_0": "foo_q4_0.gguf", "": "foo_q4_0.gguf"}),
    (
        ("Foo-IQ4_XS.gguf", "Foo-Q4_K_S.gguf"),
        {"": "Foo-IQ4_XS.gguf", "XS": "Foo-IQ4_XS.gguf", "Q4_K_S": "Foo-Q4_K_S.gguf"},
    ),
    (
        ("Q8/Foo-Q8_K-00001-of-00002.gguf", "Q8/Foo-Q8_K-00002-of-00002.gguf", "Foo.gguf"),
        {"Q8_K": "Q8/Foo-Q8_K-00001-of-00002.gguf", "": "Foo.gguf", "Q8": ""},
    ),
    (("Foo.Q8_0.gguf", "imatrix.gguf", "mtp-Foo.gguf"), {"Q8_0": "Foo.Q8_0.gguf", "": "Foo.Q8_0.gguf"}),
    (("BF16/model.gguf", "Foo-BF16.gguf"), {"BF16": "Foo-BF16.gguf", "": "BF16/model.gguf"}),
    (("Zoo.gguf", "Foo-F32.gguf", "more/a.gguf"), {"F32": "Foo-F32.gguf", "": "Foo-F32.gguf", "Zoo": "Zoo.gguf"}),
    (("FooQ4_K_M.gguf",), {"Q4_K_M": "FooQ4_K_M.gguf", "K_M": "FooQ4_K_M.gguf"}),
]
"""Files of a repository -> label -> the file that llama-server b11434 asked a server for that stood in for the Hub (its
`/api/models/…/refs` and `/tree`, files in order of their names); "" where it ended without asking for any."""


@pytest.mark.parametrize(("files", "said"), TAKEN, ids=lambda x: x[0] if isinstance(x, tuple) else "")
def test_as_llama_server_does(files: tuple[str, ...], said: dict[str, str]) -> None:
    assert {label: taken(files, label) for label in said} == said
