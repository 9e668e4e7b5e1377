"""Commands in cards: which file `-hf OWNER/NAME:LABEL` takes, as llama-server does, and what is wrong with others."""

from __future__ import annotations

import pytest

from gguftool.run.cardlines import judged, taken

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


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("llama-server -hf me/Foo-GGUF:Q4_K_M -c 8192", ""),
        ("llama-cli -hf me/Foo-GGUF:q4_k_m -p 'You are'", ""),
        ("llama-server -hf me/Foo-GGUF", ""),
        ("llama-server -hf me/Foo-GGUF:Q5_K_M", "no file here has Q5_K_M in its name"),
        ("llama-server -hf you/Foo-GGUF:Q4_K_M", "it names you/Foo-GGUF, this is me/Foo-GGUF"),
        ("./llama-server -m Foo-Q4_K_M.gguf --kv-cache-type q8_0", "llama-server has no option --kv-cache-type"),
        ("llama-server -m Foo-Q4_K_M.gguf --ctx-size 32k", "llama.cpp reads 32k as 32"),
        ("llama-server -m Foo-Q4_K_S.gguf", "there is no Foo-Q4_K_S.gguf here"),
        ("llama-server -m {model_file} -ngl $N", ""),
        ("llama serve -hf me/Foo-GGUF --jinja", ""),
        ("ollama run hf.co/me/Foo-GGUF:Q4_K_M", ""),
        ("ollama run hf.co/me/Foo-GGUF:Q2_K", "no file here has Q2_K in its name"),
        ("hf download me/Foo-GGUF Foo-Q4_K_M.gguf --local-dir .", ""),
        ('huggingface-cli download me/Foo-GGUF --include "*Q8_0*" --local-dir .', "no file here is *Q8_0*"),
        ("huggingface-cli download me/Foo-GGUF foo.gguf", "no file here is foo.gguf"),
        ("git clone https://github.com/ggml-org/llama.cpp", None),
    ],
)
def test_commands_of_a_card(line: str, fault: str | None) -> None:
    files = ["Foo-Q4_K_M.gguf", "mmproj-F16.gguf", "Q8/Foo-Q8_K-00001-of-00002.gguf", "Q8/Foo-Q8_K-00002-of-00002.gguf"]
    said = [c.fault for c in judged(f"# Use\n\n```bash\n{line}\n```\n", "me/Foo-GGUF", files)]
    if fault is None:
        assert said == []
    elif fault:
        assert len(said) == 1
        assert said[0].startswith(fault)
    else:
        assert said == [""]
