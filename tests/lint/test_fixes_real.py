"""Fixes of the tokenizer's faults, judged by the real llama.cpp library: what it said before it no longer says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.build import GGUF
from tests.lint.samples import ready
from tests.lint.samples_tokenizer import MERGES, PRE, SCORES, TOK, TYPES, bpe, renamed, spm
from tests.oracle import llama as oracle
from tests.oracle.llama import Answer

FAULTS: dict[str, tuple[GGUF, str]] = {
    "vocabulary-size-mismatch": (bpe().retensor("token_embd.weight", shape=(64, 299)), "has wrong shape"),
    "vocabulary-size-mismatch (more rows)": (bpe().retensor("token_embd.weight", shape=(64, 310)), "has wrong shape"),
    "vocabulary-size-mismatch (with scores)": (
        ready().retensor("token_embd.weight", shape=(64, 300)),
        "has wrong shape",
    ),
    "token-array-too-short": (
        bpe().replace(TYPES, [1] * 256 + [3] * 4, "[i32]"),
        "Index out of array bounds for toktypes",
    ),
    "token-array-too-short (scores)": (ready().replace(SCORES, [0.0] * 290), "Index out of array bounds for scores"),
    "tokenizer-array-type": (bpe().replace(TYPES, [1] * 256 + [3] * 4 + [1] * 40, "[u8]"), "invalid gguf type for"),
    "tokenizer-model-missing": (bpe().drop(TOK + "model"), "key not found in model: tokenizer.ggml.model"),
    "tokenizer-model-unknown": (bpe().replace(TOK + "model", "bpe"), "unknown tokenizer: 'bpe'"),
    "duplicate-tokens": (renamed((299, "<|im_end|>")), "id_to_token.size() == token_to_id.size()"),
    "byte-token-malformed": (spm(_5="a"), "basic_string::substr: __pos (which is 3)"),
    "control-token-typed-normal": (renamed(types={257: 1}), "control-looking token"),
    "pre-tokenizer-unknown": (bpe().replace(PRE, "smaug-xyz"), "unknown pre-tokenizer type: 'smaug-xyz'"),
    "special-id-out-of-range": (bpe(eos=99999), "bad special token: 'tokenizer.ggml.eos_token_id' = 99999"),
    "eos-is-start-marker": (bpe(eos=256), "special_eos_id is not in special_eog_ids"),
}


def said(answer: Answer) -> str:
    return "\n".join((*answer.errors, *answer.warnings, answer.stderr))


@pytest.mark.parametrize("name", FAULTS)
def test_fix_silences_the_library(name: str, tmp_path: Path, cli) -> None:  # type: ignore[no-untyped-def]
    g, complaint = FAULTS[name]
    rule = name.partition(" ")[0]
    path = g.write(tmp_path / "m.gguf")
    assert complaint in said(oracle.load(path))
    assert cli("lint", "--select", rule, path).code == 1
    assert cli("lint", "--select", rule, "--fix-unsafe", path).code == 0
    answer = oracle.load(path)
    assert answer.ok, said(answer)
    assert complaint not in said(answer)


@pytest.mark.parametrize(
    ("g", "complaint"),
    [
        (bpe().drop(MERGES), "cannot find tokenizer merges in model file"),
        (bpe().drop(PRE), "GENERATION QUALITY WILL BE DEGRADED"),
        (bpe().drop(TOK + "tokens"), "cannot find tokenizer vocab in model file"),
        (bpe().replace("general.name", "Phi-3 tiny"), "error loading model vocabulary: _Map_base::at"),
        (spm(_13="newline"), "SPM vocabulary, but newline token not found"),
        (renamed((298, "")), "empty token at index 298"),
    ],
)
def test_faults_without_a_fix_are_what_the_library_says(g: GGUF, complaint: str, tmp_path: Path) -> None:
    assert complaint in said(oracle.load(g.write(tmp_path / "m.gguf")))
