"""Names of files as publishers give them, against what is in the files: nobody is told of a name that is right."""

from __future__ import annotations

import pytest

from gguftool.model import Model, from_source
from gguftool.model.filename import agrees, label, relabelled, sizes
from gguftool.source import Memory
from tests.build import GGUF
from tests.lint.samples import zeroed


def of(name: str, ftype: int | None, *types: str) -> Model:
    """A file of that name with most weights of the first type."""
    g = GGUF("llama")
    if ftype is not None:
        g.kv("general.file_type", ftype)
    for i, kind in enumerate(types):
        g.tensor(f"blk.{i}.ffn_up.weight", (256, 64 >> i), kind)
    return from_source(Memory(zeroed(g).bytes(), name), strict=False)


RIGHT = [
    ("SmolLM2-135M-Instruct.Q4_1.gguf", 3, "q4_1", "q6_k"),
    ("gemma-3-4b-it-q4_0.gguf", 2, "q4_0", "f16"),
    ("Qwen3-30B-A3B-UD-Q4_K_XL.gguf", 15, "q4_k", "q5_k", "q6_k"),
    ("Llama-3.3-70B-Instruct-Q4_K_L.gguf", 15, "q4_k", "q8_0"),
    ("gpt-oss-20b-mxfp4.gguf", 38, "mxfp4", "q8_0"),
    ("gpt-oss-20b-Q4_K_M.gguf", 15, "mxfp4", "q8_0"),
    ("Foo.i1-IQ3_XXS.gguf", 23, "q3_k", "iq4_nl"),
    ("Foo-bf16.gguf", 32, "bf16", "f32"),
    ("Foo-FP16.gguf", 1, "f16"),
    ("foo_q4_k_m.gguf", 15, "q4_k", "q6_k"),
    ("Foo-Q8_0.gguf", None, "q8_0"),
    ("Foo-Q4_K_M-imat.gguf", 15, "q4_k"),
    ("Foo-UD-Q8_K_XL.gguf", 7, "q8_0", "bf16"),
    ("Foo-UD-IQ1_S.gguf", 24, "q4_k", "iq4_xs"),
    ("Foo-Q4_K.gguf", 14, "q4_k"),
    ("BF16/Foo-BF16-00001-of-00003.gguf", 32, "bf16"),
    ("mmproj-F16.gguf", 1, "f16"),
    ("Foo-7B.gguf", 15, "q4_k"),
    ("Foo-Q6_K_P.gguf", 18, "q6_k"),
]
WRONG = [
    ("SmolLM2-135M-Instruct-Q8_0.gguf", 3, "q4_1", "q6_k"),
    ("Foo-Q4_K_M.gguf", 14, "q4_k"),
    ("Foo-Q4_K_M.gguf", 1, "f16"),
    ("Foo-F16.gguf", 32, "bf16"),
    ("Foo-Q8_0.gguf", None, "f16"),
    ("Foo-Q2_K.gguf", 18, "q6_k"),
    ("Foo-UD-Q2_K_XL.gguf", 7, "q8_0"),
    ("Foo-IQ4_XS.gguf", 25, "iq4_nl"),
    ("Foo-Q4_0.gguf", 3, "q4_1"),
]


@pytest.mark.parametrize("case", RIGHT, ids=lambda c: c[0])
def test_right(case: tuple[str, int | None, str]) -> None:
    m = of(*case)
    assert not label(m.name) or agrees(m, label(m.name))


@pytest.mark.parametrize("case", WRONG, ids=lambda c: f"{c[0]}-{c[2]}")
def test_wrong(case: tuple[str, int | None, str]) -> None:
    m = of(*case)
    assert not agrees(m, label(m.name))


def test_labels() -> None:
    said = {
        "Foo-F16-Q4_K_M.gguf": "Q4_K_M", "Foo-Q4.gguf": "", "Foo-bf16.gguf": "BF16", "Foo-fp16.gguf": "F16",
        "Foo-Q4_K_P.gguf": "Q4_K", "Foo.iq2_xxs.gguf": "IQ2_XXS", "TQ1_0.gguf": "TQ1_0", "Q4/Foo.gguf": "",
    }  # fmt: skip
    assert {name: label(name) for name in said} == said
    assert relabelled("x/Foo-Q8_0-00001-of-00002.gguf", "Q4_1") == "Foo-Q4_1"
    assert relabelled("Foo.gguf", "Q4_1") == "Foo-Q4_1"


def test_sizes() -> None:
    said: dict[str, tuple[int, ...]] = {
        "Llama-3.2-1B-Instruct": (10**9,), "gemma-3-270m-it": (270 * 10**6,), "Mixtral-8x7B": (56 * 10**9,),
        "deepseek-coder-6.7b-base": (67 * 10**8,), "Phi-3-mini-4k-instruct": (), "gemma-3n-E4B-it": (),
        "Yi-34B-200K": (34 * 10**9, 200_000), "stablelm-3b-4e1t": (3 * 10**9,), "bge-m3": (), "Foo-v2B": (),
        "bitnet-b1.58-2B-4T": (2 * 10**9, 4 * 10**12), "Foo-Q4_K_M": (), "Foo-IQ2_M": (), "Qwen2.5-0.5B": (5 * 10**8,),
    }  # fmt: skip
    assert {name: sizes(f"{name}.gguf") for name in said} == said
