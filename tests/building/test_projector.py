"""A model with eyes is converted whole: its projector is made, judged and named, unless that is declined."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.build.beside import judge
from gguftool.build.converter import Converter
from gguftool.build.folder.look import look
from gguftool.build.runs import PROJECTOR, is_encoder, runs
from gguftool.errors import ToolFailed
from gguftool.facts.converters import Registry
from gguftool.model import open_model
from gguftool.model.folder import projectors_beside
from gguftool.model.role import role
from tests.beside import projector
from tests.build import llama
from tests.building import hf, hf_whole
from tests.conftest import Result

Cli = Callable[..., Result]


def tool(*projectors: str, options: tuple[str, ...] = ()) -> Converter:
    """A converter that makes projectors of these."""
    registry = Registry(frozenset(["Gemma3ForCausalLM"]), frozenset(projectors))
    return Converter("python", None, "a converter", registry, frozenset(options))


@pytest.mark.oracle
def test_the_projector_is_made_beside_the_model(convert: Cli, tmp_path: Path):
    """C9, too: a snapshot in the Hub's cache is called by its repository, in both files."""
    source = hf_whole.vision(tmp_path / "hub" / "models--acme--Tiny-Eyes-2B" / "snapshots" / ("0123456789" * 4))
    (source / "README.md").write_text("---\nbase_model: acme/Eyes-2B\nlanguage: [en]\n---\n")
    (source / "LICENSE").write_text("Apache License\nVersion 2.0, January 2004\n")
    (source / "generation_config.json").write_text(
        json.dumps({"temperature": 0.6, "top_k": 20, "repetition_penalty": 1.05, "no_repeat_ngram_size": 3})
    )
    tokenizer = json.loads((source / "tokenizer_config.json").read_text())
    (source / "additional_chat_templates").mkdir()
    (source / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    (source / "chat_template.jinja").write_text(tokenizer["chat_template"])
    # As transformers 5 names them: the converter's class of this projector knows no `model.` before them.
    text = {f"model.language_model.{n.removeprefix('model.')}": s for n, s in hf.shapes("gemma3").items()}
    head = "model.vision_tower.vision_model.head.probe"
    tower = {f"model.{n}": s for n, s in hf_whole.tower().items()}
    hf_whole.weights(source, {**text, **tower, head: (1, 1, hf_whole.VISION)})
    done = convert(source, "-o", tmp_path / "E-bf16.gguf", "--outtype", "bf16", "--format", "json")
    assert done.code == 0, done.err
    made = tmp_path / "mmproj-E-BF16.gguf"
    assert done.json["files"] == [str(tmp_path / "E-bf16.gguf"), str(made)]
    assert done.json["projector"] == str(made)
    # `conversion/gemma.py:Gemma3VisionModel.filter_tensors` passes over the head of the encoder.
    left = {row["what"]: row["names"] for row in done.json["left"]}
    assert left.pop("an encoder of images") == [head]
    assert list(left) == ["of generation_config.json: no_repeat_ngram_size 3"]
    with open_model(made) as side, open_model(tmp_path / "E-bf16.gguf") as model:
        assert role(side) == "mmproj"
        # One for one: 23 tensors of the encoder and its projector.
        assert len(side.tensors) == len(hf_whole.tower())
        assert side["clip.projector_type"] == "gemma3"
        assert projectors_beside(model) == ([str(made)], True)
        # The converter of 2026-08 forgets the penalty, and every one the templates beside one in tokenizer_config.json.
        assert (model["general.sampling.top_k"], model["general.sampling.temp"]) == (20, pytest.approx(0.6))
        assert model["general.sampling.penalty_repeat"] == pytest.approx(1.05)
        assert model["tokenizer.chat_template.tool_use"] == "{{ tools }}"
        assert model["tokenizer.chat_templates"] == ["tool_use"]
        for one in (side, model):
            assert one["general.name"] == "Tiny Eyes 2B"
            assert one["general.basename"] == "Tiny-Eyes"
            assert one["general.organization"] == "Acme"
            assert one["general.license"] == "apache-2.0"
            assert one["general.source.huggingface.repository"] == "acme/Tiny-Eyes-2B"
            assert one["general.base_model.0.repo_url"] == "https://huggingface.co/acme/Eyes-2B"
            assert one["general.base_model.count"] == 1
            assert not [
                key for key in one.fields if "01234567" in str(one.get(key)) and key != "gguftool.convert.source"
            ]
    # A name that is taken is told before anything runs.
    again = convert(source, "-o", tmp_path / "E-f16.gguf", "--outtype", "bf16")
    assert (again.code, "mmproj-E-BF16.gguf" in again.err) == (4, True)
    assert not (tmp_path / "E-f16.gguf").exists()


@pytest.mark.oracle
def test_a_projector_without_a_tensor_is_no_success(convert: Cli, tmp_path: Path):
    """LC #22656: 1.18 kB in place of 860 MiB."""
    source = hf.folder(tmp_path / "blind", "gemma3")
    eyes = hf_whole.vision(tmp_path / "eyes")
    (source / "config.json").write_text((eyes / "config.json").read_text())
    (source / "preprocessor_config.json").write_text((eyes / "preprocessor_config.json").read_text())
    done = convert(source, "-o", tmp_path / "p.gguf", "--converter-arg=--mmproj")
    assert done.code == 6
    assert "holds no tensor" in done.err
    assert not [n for n in os.listdir(tmp_path) if n.endswith(".gguf")]


def test_what_is_run(tmp_path: Path):
    eyes, blind = look(str(hf_whole.vision(tmp_path / "eyes"))), look(str(hf.folder(tmp_path / "blind", "gemma3")))
    able = tool("Gemma3ForConditionalGeneration")
    first, last = runs(eyes, able, "q8_0", ("--no-lazy", "--split-max-size", "1G", "--metadata", "m"), projector=True)
    assert (first.what, first.file, first.outtype) == ("projector", PROJECTOR, "auto")
    # llama.cpp loads no projector in pieces.
    assert first.arguments == ("--mmproj", "--no-lazy", "--metadata", "m")
    assert (last.what, last.outtype, last.arguments[-4:]) == (
        "model", "q8_0", ("--split-max-size", "1G", "--metadata", "m")
    )  # fmt: skip
    for folder, converter, more, wanted in (
        (eyes, able, (), False),
        (eyes, tool("Other"), (), True),
        (eyes, able, ("--vocab-only",), True),
        (blind, able, (), True),
    ):
        assert [one.what for one in runs(folder, converter, "f16", more, projector=wanted)] == ["model"]


def test_names_of_encoders():
    """`conversion/base.py:TextModel.filter_tensors` (b11434) leaves out the first, takes the others."""
    seen = (
        "model.visual.blocks.0.attn.qkv.weight", "vision_tower.vision_model.embeddings.patch_embedding.weight",
        "multi_modal_projector.linear_1.weight", "audio_tower.layers.0.fc1.weight", "model.connector.x.weight",
        "mlp1.0.weight", "model.mm_projector.0.weight", "vpm.encoder.layers.0.mlp.fc1.weight",
        "resampler.kv_proj.weight",
    )  # fmt: skip
    assert all(map(is_encoder, seen))
    text = (
        *hf.shapes("gemma3"), "model.language_model.layers.0.mlp.gate_proj.weight", "transformer.h.0.mlp.c_fc.weight",
        "encoder.layer.0.attention.self.query.weight", "model.layers.0.block_sparse_moe.gate.weight",
    )  # fmt: skip
    assert not any(map(is_encoder, text))


def test_a_projector_of_another_model(tmp_path: Path):
    """Wide 96 beside a model that takes 64: `mtmd.cpp:mtmd_context` refuses it."""
    llama().write(tmp_path / "m.gguf")
    projector(width=96).write(tmp_path / "p.gguf")
    with pytest.raises(ToolFailed, match="of no use: it is of another model"):
        judge(str(tmp_path / "m.gguf"), str(tmp_path / "p.gguf"))


def test_without_what_says_how_pictures_are_prepared(tmp_path: Path):
    source = hf_whole.vision(tmp_path / "eyes")
    assert look(str(source)).problems == ()
    (source / "preprocessor_config.json").unlink()
    (found,) = look(str(source)).problems
    assert (found.kind, found.fatal) == ("no-preprocessor", False)
    # A model without eyes needs none.
    assert look(str(hf.folder(tmp_path / "blind", "gemma3"))).problems == ()
