"""What `dump` says of a file in its role: the facts, in text and in JSON, and nothing of another role."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gguftool.model import from_source, open_model
from gguftool.model.about import GENERAL, PAGES, about
from gguftool.model.role import ROLES
from gguftool.report.overview import value_text
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.projectors import SOUND
from tests.speculators import dflash, eagle3, glm, glm4


def _f32(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def _imatrix() -> GGUF:
    """As `imatrix.cpp:save_imatrix` writes it: a plain tensor, one of four experts, one never reached."""
    g = GGUF().kv("general.type", "imatrix").kv("imatrix.datasets", ["wiki.txt", "code.txt"])
    g.kv("imatrix.chunk_count", 128).kv("imatrix.chunk_size", 512)
    for layer in (0, 1, 3):
        name = f"blk.{layer}.attn_q.weight"
        g.tensor(f"{name}.in_sum2", (32,)).tensor(f"{name}.counts", (1,), data=_f32(65536))
    g.tensor("blk.3.ffn_up_exps.weight.in_sum2", (32, 4))
    g.tensor("blk.3.ffn_up_exps.weight.counts", (1, 4), data=_f32(9, 0, 7, 0))
    g.tensor("blk.1.ffn_up.weight.in_sum2", (32,)).tensor("blk.1.ffn_up.weight.counts", (1,), data=_f32(0))
    return g.tensor("output.weight.in_sum2", (32,))


def test_every_role_has_a_page() -> None:
    assert set(PAGES) == set(ROLES)
    assert all(set(page.keeps) <= set(GENERAL) for page in PAGES.values())


def test_imatrix(tmp_path: Path, cli) -> None:
    path = _imatrix().write(tmp_path / "m.gguf")
    wanted = {
        "data sets": ["wiki.txt", "code.txt"],
        "chunks": 128,
        "tokens a chunk": 512,
        "tensors measured": 6,
        "layers": "0–1, 3",
        "beside the layers": ["output.weight"],
        "without counts": ["output.weight"],
        "never reached": ["blk.1.ffn_up.weight"],
        "experts never reached": 2,
    }
    assert cli("dump", "--format", "json", str(path)).json["summary"]["about"] == wanted
    first, *lines = cli("dump", "--overview", str(path)).out.splitlines()
    assert "an importance matrix" in first
    assert any(line.split() == ["data", "sets", "wiki.txt,", "code.txt"] for line in lines)
    assert not any(word in line for line in lines for word in ("context", "rope", "tokenizer", "parameters"))


def test_imatrix_that_is_cut_off_is_told_as_far_as_it_goes(tmp_path: Path) -> None:
    path = _imatrix().truncate(-300).write(tmp_path / "m.gguf")
    with open_model(path, strict=False) as m:
        assert ("tensors measured", 6) in about(m)


def test_vocoder(tmp_path: Path, cli) -> None:
    """The keys of `convert_hf_to_gguf.py:WavTokenizerDecModel` (b11434)."""
    g = GGUF("wavtokenizer-dec").kv("wavtokenizer-dec.features_length", 512).kv("wavtokenizer-dec.vocab_size", 4096)
    g.kv("wavtokenizer-dec.posnet.block_count", 6).kv("wavtokenizer-dec.convnext.block_count", 12)
    g.kv("wavtokenizer-dec.embedding_length_out", 1282).tensor("token_embd.weight", (512, 4096), "f16")
    path = g.write(tmp_path / "v.gguf")
    found = cli("dump", "--format", "json", str(path)).json["summary"]["about"]
    assert (found["codes"], found["width of a code"], found["width of the output"]) == (4096, 512, 1282)
    assert (found["layers of the position net"], found["layers of convolution"]) == (6, 12)


def test_vocabulary_and_metadata(tmp_path: Path, cli) -> None:
    g = GGUF("llama").kv("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.tokens", ["a", "b"])
    path = g.kv("tokenizer.ggml.merges", ["a b"]).write(tmp_path / "v.gguf")
    found = cli("dump", "--format", "json", str(path)).json["summary"]["about"]
    assert (found["architecture"], found["scores"], found["merges"]) == ("llama", False, 1)
    screen = cli("dump", "--overview", str(path)).out
    assert "2 tokens (gpt2)" in screen
    assert "context" not in screen
    path = GGUF("llama").kv("llama.context_length", 64).write(tmp_path / "m.gguf")
    found = cli("dump", "--format", "json", str(path)).json["summary"]["about"]
    assert (found["tensors"], found["fields of the architecture"]) == (0, 1)


def test_a_model_keeps_all_its_lines(tmp_path: Path, cli) -> None:
    lines = cli("dump", "--overview", str(llama().write(tmp_path / "m.gguf"))).out.splitlines()
    assert "a language model" in lines[0]
    assert [line.split()[0] for line in lines[1:]] == [
        "model",
        "quant",
        "attention",
        "rope",
        "vocab",
        "memory",
        "check",
    ]


VALUES = [(True, "yes"), (0, "0"), (4096, "4,096"), (1.5, "1.5"), (("q", "k"), "q, k"), ("\x1b[31m", "\\x1b[31m")]


@pytest.mark.parametrize(("value", "text"), [*VALUES, (tuple(range(10)), "0, 1, 2, 3, 4, 5, 6, 7 … 2 more")])
def test_values_on_a_line(value: object, text: str) -> None:
    assert value_text(value) == text  # type: ignore[arg-type]


def test_drafts_and_models_that_draft_for_themselves() -> None:
    def told(g: GGUF) -> dict[str, object]:
        return dict(about(from_source(Memory(g.bytes(), "m.gguf"), strict=False)))

    assert told(eagle3(own=False)) == {
        "drafts with": "--spec-type draft-eagle3",
        "target width": 64,
        "target layers": (0, 1, 1),
        "takes from its target": ("token_embd.weight", "output.weight"),
    }
    assert told(dflash(markov=True)) == {
        "drafts with": "--spec-type draft-dspark, which llama.cpp finds out by itself",
        "target width": 64,
        "target layers": (0, 1),
        "tokens at once": 4,
    }
    assert told(glm(trunk=False))["prediction layers"] == 1
    assert told(glm()) == {"prediction layers": 1, "can draft for itself": "--spec-type draft-mtp"}
    assert told(glm4())["can draft for itself"] == "no: llama.cpp b11434 has no graph for these layers"
    assert told(glm(heads=False)) == told(llama()) == {}


def test_the_page_about_files_names_every_role() -> None:
    page = (Path(__file__).parents[2] / "docs" / "files.md").read_text("utf-8")
    assert not [role for role in ROLES if f"`{role}`" not in page]


def test_projectors() -> None:
    """56 pixels in patches of 14, of which 4 x 4 are merged: one token (`clip_n_output_tokens`)."""

    def told(kind: str) -> dict[str, object]:
        return dict(about(from_source(Memory(SOUND[kind]().gguf().bytes(), "m.gguf"), strict=False)))

    eyes = told("gemma3")
    assert (eyes["kind"], eyes["width for the language model"], eyes["for"]) == ("gemma3", 64, ("images",))
    assert (eyes["image size"], eyes["patch"]) == ("56 x 56 pixels", "14 x 14 pixels")
    assert (eyes["merged patches"], eyes["tokens an image"]) == ("4 x 4", 1)
    # 8 to 4,096 tokens of 28 x 28 pixels (`clip.cpp:load_hparams`)
    assert told("qwen2vl_merger")["image size"] == "any, 6,272 to 3,211,264 pixels"
    assert told("qwen2vl_merger")["tokens an image"] == "up to 4,096"
    both = told("qwen2.5o")
    assert both["for"] == ("images", "sound")
    assert both["kind"] == "qwen2.5o (as qwen2.5vl_merger), qwen2.5o (as qwen2a)"
    assert (both["layers of images"], both["layers of sound"], both["mel bins"]) == (2, 1, 16)
    broken = SOUND["gemma3"]().key("clip.projector_type", "nope")
    found = dict(about(from_source(Memory(broken.gguf().bytes(), "m.gguf"), strict=False)))
    assert found["kind"] == "nope (not known to llama.cpp)"
