"""`lint --against FOLDER --tokenizer`: both real libraries over the corpus, and what is said of where they part."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import gguftool
from gguftool.api.tokenizer import compare_tokenizers
from gguftool.model import Model, from_source
from gguftool.model.corpus import EVERYDAY, corpus, of_vocabulary
from gguftool.source import Memory
from tests import hf_tokenizers
from tests.build import GGUF
from tests.chat.test_server import corpus as vocabularies
from tests.lint.samples_tokenizer import MERGES, PRE, TOKENS, TYPES, bpe, vocabulary

pytest.importorskip("tokenizers", reason="the extra tokenizer is not installed")
pytest.importorskip("xllamacpp", reason="the extra server is not installed")


def counting(pre: str | None) -> GGUF:
    """A vocabulary in which digits merge up to four: pre-tokenizers that cut numbers otherwise part."""
    g = bpe()
    words = [*vocabulary()[:260], "12", "34", "123", "1234", "77", "7777", "Ġa", "ĠĠ", "ĠĠĠĠ"]
    words += [f"t{i}" for i in range(300 - len(words))]
    merges = ["1 2", "3 4", "12 3", "12 34", "7 7", "77 77", "Ġ a", "Ġ Ġ", "ĠĠ ĠĠ"]
    g = g.replace(TOKENS, words).replace(MERGES, merges).replace(TYPES, [1] * 256 + [3] * 4 + [1] * 40, "[i32]")
    return g.replace(PRE, pre) if pre is not None else g


def opened(g: GGUF) -> Model:
    return from_source(Memory(g.bytes(), "m.gguf"))


def test_the_corpus_is_always_the_same_and_has_every_class() -> None:
    texts = corpus()
    kinds = {s.kind for s in texts}
    assert {k for k in EVERYDAY if k not in ("special tokens", "chat turns")} <= kinds
    assert {"emoji", "combining marks", "right to left", "long words", "control characters", "punctuation"} <= kinds
    # One class for every block of Unicode that has characters since 2002; the long ranges of ideographs by samples.
    blocks = {k for k in kinds if k.startswith("unicode: ")}
    assert {f"unicode: U+{n:04X}" for n in (0x0100, 0x0400, 0x0600, 0x0900, 0x3000, 0xB000, 0xFF00, 0x1D400)} <= blocks
    assert 2_000 < len(texts) < 4_000
    assert sum(len(s.text) for s in texts) < 400_000
    assert {s.kind for s in of_vocabulary(["<a>", "<b>"])} == {"special tokens", "chat turns"}


@pytest.mark.parametrize("name", ["gpt-2", "starcoder"])
def test_sound_files_agree_on_every_text(name: str, tmp_path: Path) -> None:
    with gguftool.open(vocabularies() / f"ggml-vocab-{name}.gguf") as m:
        found = compare_tokenizers(m, hf_tokenizers.write(m, tmp_path / "hf", *hf_tokenizers.FAMILIES[name]))
    assert (found.why_not, found.differs, found.ends) == ("", (), None)
    assert found.texts > 2_000


def test_sentencepiece_agrees_on_every_text(tmp_path: Path) -> None:
    with gguftool.open(vocabularies() / "ggml-vocab-llama-spm.gguf") as m:
        found = compare_tokenizers(m, hf_tokenizers.write_spm(m, tmp_path / "hf"))
    assert (found.why_not, found.differs) == ("", ())
    # The file here has no post-processor; llama.cpp puts <s> in front, which is told as such.
    assert found.ends is not None
    assert [c.ids for c in found.ends] == [(), (1,)]


@pytest.mark.parametrize(
    ("name", "write"),
    [("bert-bge", hf_tokenizers.write_wordpiece), ("nomic-bert-moe", hf_tokenizers.write_unigram)],
)
def test_wordpiece_and_unigram_agree_on_everyday_texts(
    name: str, write: Callable[[Model, Path], Path], tmp_path: Path
) -> None:
    with gguftool.open(vocabularies() / f"ggml-vocab-{name}.gguf") as m:
        found = compare_tokenizers(m, write(m, tmp_path / "hf"))
    # llama.cpp takes some controls, combining marks and Hangul otherwise than the normalizers: known, and not everyday.
    assert (found.why_not, bool(found.differs)) == ("", True)
    assert not found.everyday


def test_a_normal_form_is_named(tmp_path: Path) -> None:
    with gguftool.open(vocabularies() / "ggml-vocab-qwen2.gguf") as m:
        found = compare_tokenizers(m, hf_tokenizers.write(m, tmp_path / "hf", *hf_tokenizers.FAMILIES["qwen2"]))
    assert found.form == "NFC"
    assert not found.everyday


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The source: numbers in groups of three, as Llama 3."""
    pre = hf_tokenizers.split(hf_tokenizers.LLAMA3)
    made = hf_tokenizers.write(opened(counting("llama-bpe")), tmp_path / "hf", pre, None)
    (made / "tokenizer_config.json").write_text(json.dumps({"add_bos_token": False}), encoding="utf-8")
    return made


def test_the_pretokenizer_that_agrees_is_named_and_offered(cli, folder: Path, tmp_path: Path) -> None:
    model = counting("qwen2").write(tmp_path / "m.gguf")
    args = ("--against", folder, "--tokenizer", "--select", "tokenizer-texts-differ", "--no-config")
    body = cli("lint", *args, "--format", "json", model)
    assert body.code == 1
    [finding] = body.json["files"][0]["findings"]
    assert finding["severity"] == "error"
    data = finding["data"]
    assert "llama-bpe" in data["agrees"]
    assert "qwen2" not in data["agrees"]
    assert data["classes"]["numbers"] > 5
    first = data["first"][0]
    assert first["source"]["pieces"] != first["file"]["pieces"]
    assert "with the pre-tokenizer" in finding["message"]
    assert cli("lint", *args, "--fix-unsafe", model).code == 0
    with gguftool.open(model) as m:
        assert m[PRE] in data["agrees"]


def test_a_sound_file_is_silent(cli, folder: Path, tmp_path: Path) -> None:
    model = counting("llama-bpe").write(tmp_path / "m.gguf")
    args = ("--against", folder, "--tokenizer", "--select", "tokenizer", "--no-config", "--format", "json")
    report = cli("lint", *args, model).json["files"][0]
    assert [f for f in report["findings"] if f["rule"].startswith("tokenizer-")] == []


def test_without_the_option_nothing_is_compared(cli, folder: Path, tmp_path: Path) -> None:
    model = counting("qwen2").write(tmp_path / "m.gguf")
    args = ("--against", folder, "--select", "tokenizer-texts-differ", "--no-config")
    assert cli("lint", *args, model).code == 0
    assert cli("lint", "--tokenizer", model).code == 2


def test_what_cannot_be_compared_is_said(folder: Path, tmp_path: Path) -> None:
    refused = counting("nosuch").write(tmp_path / "m.gguf")
    assert "unknown pre-tokenizer type: 'nosuch'" in compare_tokenizers(refused, folder).why_not
    sound = counting("llama-bpe").write(tmp_path / "s.gguf")
    assert "no such file" in compare_tokenizers(sound, tmp_path).why_not
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    assert "does not take" in compare_tokenizers(sound, folder).why_not


def test_begin_and_end_are_told_as_such(folder: Path, tmp_path: Path) -> None:
    g = counting("llama-bpe").replace("tokenizer.ggml.add_bos_token", True)
    found = compare_tokenizers(g.write(tmp_path / "m.gguf"), folder)
    assert found.differs == ()
    assert found.ends is not None
    assert [c.pieces for c in found.ends] == [(), ("<|bos|>",)]
