"""What of a source is in no file that was made of it: told by the converter itself, listed, with the way on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gguftool.api.judged import put_back
from gguftool.build.converter import Converter
from gguftool.build.converter_driver import TOLD, Seen, add_fields
from gguftool.build.folder.look import Folder, look
from gguftool.build.left import Asked, Left, Told, left_out
from gguftool.edit.ops import Set
from gguftool.facts.converters import Registry
from gguftool.model import Model, from_source
from gguftool.model.hfconfig import HfConfig
from gguftool.source import Memory
from tests.build import GGUF
from tests.building import hf, hf_whole
from tests.lint.samples import zeroed
from tests.lint.samples_source import TOKENIZER, folder
from tests.lint.samples_tokenizer import CHATML, bpe


def seen(*names: str) -> Seen:
    """What the driver notes, each of these names taken as it is and read once."""
    found = Seen()
    for name in names:
        found.named(name, name)
        found.counted(name, lambda: None)()
    return found


def test_experts_that_become_one_tensor_are_used():
    """`conversion/*.py:modify_tensors`: nothing for each expert but the last, then three stacks of all."""
    found = seen()
    for expert in range(4):
        for part in ("down", "gate", "up"):
            name = f"layers.0.experts.{expert}.{part}.weight"
            found.named(name, name)
            found.counted(name, lambda: None)()
            last = expert == 3 and part == "up"
            found.modified(name, 0, 100, 1200 if last else 0)
    assert found.report() == {"filtered": [], "unwritten": [], "unread": []}


def test_what_is_merged_does_not_hide_what_is_dropped():
    found = seen("a.0.q", "a.0.k", "a.0.extra", "a.0.v")
    found.modified("a.0.q", 0, 10, 0)
    found.modified("a.0.k", 0, 20, 0)
    found.modified("a.0.extra", 0, 7, 0)
    found.modified("a.0.v", 0, 20, 50)  # the three of them, without the fourth
    assert found.report()["unwritten"] == ["a.0.extra"]


def test_where_it_is_not_certain_a_tensor_is_used():
    found = seen("a.0.x", "a.0.y")
    found.modified("a.0.x", 0, 10, 0)
    found.modified("a.0.y", 0, 10, 33)  # no sum of what was there before
    assert found.report()["unwritten"] == []
    # What was read a second time was read for something.
    again = seen("a.0.blocks")
    again.counted("a.0.blocks", lambda: None)()
    again.modified("a.0.blocks", 0, 10, 0)
    assert again.report()["unwritten"] == []


def test_not_taken_and_never_read():
    found = seen("kept")
    found.named("vision.x", None)
    found.named("model.k_scale", "k_scale")
    found.modified("kept", None, 5, 5)
    assert found.report() == {"filtered": ["vision.x"], "unwritten": [], "unread": ["model.k_scale"]}


class Writer:
    """As much of `gguf.GGUFWriter` as fields need."""

    def __init__(self, **fields: str) -> None:
        self.kv_data = [{key.replace("_", "."): Field(value) for key, value in fields.items()}]

    def write_header_to_file(self) -> None:
        pass

    def add_string(self, key: str, value: str) -> None:
        self.kv_data[0][key] = Field(value)


class Field:
    def __init__(self, value: object) -> None:
        self.value = value


def test_fields_beside_and_in_place_of_the_converters(monkeypatch: pytest.MonkeyPatch):
    import gguf

    monkeypatch.setattr(gguf, "GGUFWriter", type("Patched", (Writer,), dict.fromkeys(
        ("add_uint32", "add_int32", "add_float32", "add_bool", "add_array"), Writer.add_string)))  # fmt: skip
    row: dict[str, Any] = {"type": "str", "unless": "", "over": False}
    add_fields([
        {**row, "key": "general.name", "value": "Right", "over": True},
        {**row, "key": "general.basename", "value": None, "over": True},
        {**row, "key": "general.license", "value": "mit"},
        {**row, "key": "general.base.0.name", "value": "A", "unless": "general.base."},
        {**row, "key": "general.tags", "value": "mine"},
    ])  # fmt: skip
    writer = gguf.GGUFWriter(
        general_name="Aaaa", general_basename="Aaaa", general_base_count="0", general_tags="theirs"
    )
    writer.write_header_to_file()  # type: ignore[call-arg]
    assert {key: field.value for key, field in writer.kv_data[0].items()} == {
        "general.name": "Right", "general.base.count": "0", "general.tags": "theirs", "general.license": "mit",
    }  # fmt: skip


def told(*lines: object) -> Told:
    """What a run says."""
    found = Told()
    for line in lines:
        assert found.hear(f"{TOLD}{json.dumps(line)}")
    return found


def tool(*projectors: str) -> Converter:
    registry = Registry(frozenset(["Gemma3ForCausalLM"]), frozenset(projectors))
    return Converter("python", None, "a converter", registry)


@pytest.fixture(scope="module")
def eyes(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    path = hf_whole.vision(tmp_path_factory.mktemp("left") / "eyes")
    shapes = {f"language_model.{n}": s for n, s in hf.shapes("gemma3").items()} | hf_whole.tower()
    more = {"model.layers.2.eh_proj.weight": (8, 8), "mtp.fc.weight": (8, 8), "talker.x.weight": (4, 4)}
    more |= {"model.layers.0.self_attn.k_scale": (1,), "model.layers.0.rotary_emb.inv_freq": (8,)}
    hf_whole.weights(path, {**shapes, **more, "lm_head.weight": (8, 8), "model.odd.weight": (8, 8)})
    return look(str(path))


def lists(found: tuple[Left, ...]) -> dict[str, tuple[int, str]]:
    return {one.what: (len(one.names), one.way) for one in found if one.kind == "tensors"}


def test_groups_of_tensors(eyes: Folder):
    """Two runs: what both of them left is left."""
    extra = [e.name for e in eyes.tensors if not e.name.startswith(("language_model.", "vision", "multi"))]
    tower = list(hf_whole.tower())
    able = Asked(tool("Gemma3ForConditionalGeneration"))
    text = told({"filtered": tower}, {"unwritten": extra}, {"mtp": True})
    side = told({"filtered": [*extra, *(e.name for e in eyes.tensors if "language_model." in e.name)]}, {"mtp": False})
    found = lists(left_out(eyes, able, [side, text]))
    assert {what: n for what, (n, _) in found.items()} == {
        "MTP layers": 2, "a voice": 1, "scales of activations and cache": 1, "other tensors": 1,
    }  # fmt: skip
    # The buffer is worked out by every program, the head is the embedding (tied unless config.json says otherwise).
    assert found["MTP layers"][1].endswith("--converter-arg=--mtp")
    assert "an encoder of images" not in found
    # The projector was declined, cannot be made, or is not wanted of pickled weights.
    alone = lists(left_out(eyes, Asked(able.tool, projector=False), [text]))
    assert alone["an encoder of images"] == (23, "leave --no-mmproj away")
    unable = left_out(eyes, Asked(tool("Other")), [text])
    assert lists(unable)["an encoder of images"][1].endswith("does: --llama-cpp DIR")
    assert "a converter makes no projector of Gemma3ForConditionalGeneration" in unable[0].line


def test_an_untied_head_that_is_left_out_is_told(eyes: Folder):
    apart = {**eyes.config.raw, "text_config": {**eyes.config.part, "tie_word_embeddings": False}}
    said = [told({"unwritten": ["lm_head.weight"]}, {"mtp": False})]
    assert lists(left_out(replace(eyes, config=HfConfig(apart)), Asked(tool()), said)) == {"an output matrix": (1, "")}
    assert lists(left_out(eyes, Asked(tool()), said)) == {}


def test_before_the_run_names_tell(eyes: Folder):
    able = tool("Gemma3ForConditionalGeneration")
    assert set(lists(left_out(eyes, Asked(able), None))) == {"a voice"}
    assert set(lists(left_out(eyes, Asked(able, projector=False), None))) == {"a voice", "an encoder of images"}
    # Who asks for a part gets no list of the rest.
    part = Asked(able, more=("--mmproj",))
    assert lists(left_out(eyes, part, None)) == lists(left_out(eyes, part, [told({"filtered": ["x"]})])) == {}
    # A converter that does not say what it took: nothing is claimed.
    assert lists(left_out(eyes, Asked(able), [Told()])) == {}


def test_files_and_settings(tmp_path: Path):
    path = hf.folder(tmp_path / "m", "llama", quantization_config={"quant_method": "fp8"})
    assert [one.kind for one in left_out(look(str(hf.folder(tmp_path / "plain", "llama"))), Asked(tool()), None)] == []
    for name in ("pytorch_model.bin", "training_args.bin", "optimizer.pt", "adapter_model.safetensors", "NOTICE",
                 "modeling_x.py", "consolidated.00.pth"):  # fmt: skip
        (path / name).write_bytes(b"x" * 10)
    settings = {"temperature": 0.6, "num_beams": 1, "no_repeat_ngram_size": 3, "typical_p": 1.0, "stop_strings": ["x"]}
    (path / "generation_config.json").write_text(json.dumps(settings))
    prompts = {"prompts": {"query": "query: ", "document": ""}}
    (path / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    found = {one.what: one.names for one in left_out(look(str(path)), Asked(tool()), None)}
    assert found == {
        "an adapter": ("adapter_model.safetensors",),
        "further weights": ("consolidated.00.pth", "pytorch_model.bin"),
        "code of the model": ("modeling_x.py",),
        "terms that go with every copy": ("NOTICE",),
        "of generation_config.json: no_repeat_ngram_size 3, stop_strings ['x']": (
            "no_repeat_ngram_size",
            "stop_strings",
        ),
        "prompts of sentence-transformers (query)": ("query",),
        "quantization_config (fp8)": ("quantization_config",),
    }


def opened(g: GGUF) -> Model:
    return from_source(Memory(zeroed(g).bytes(), "m.gguf"))


def test_what_the_converter_lost_is_put_back():
    """Ends of generation, sampling and named templates of the folder; nothing where nothing is lost."""
    end = 7
    several = [{"name": "default", "template": CHATML}, {"name": "tool_use", "template": "{{ tools }}"}]
    source = folder(
        generation_config={"eos_token_id": [257, end], "temperature": 0.6, "repetition_penalty": 1.05},
        tokenizer_config={**TOKENIZER, "chat_template": several},
    )
    written = {op.key: op.value for op in put_back(opened(bpe()), source) if isinstance(op, Set)}
    assert written == {
        "tokenizer.ggml.eot_token_id": end, "general.sampling.temp": 0.6, "general.sampling.penalty_repeat": 1.05,
        "tokenizer.chat_template.tool_use": "{{ tools }}", "tokenizer.chat_templates": ["tool_use"],
    }  # fmt: skip
    assert put_back(opened(bpe()), folder(tokenizer_config=TOKENIZER)) == []


def test_dense_modules(tmp_path: Path):
    """LC #18677, #16367: EmbeddingGemma's are taken, others' are not, and that is told."""
    folder = look(str(hf_whole.embedder(tmp_path / "e", "Qwen2ForCausalLM")))
    made = Asked(tool(), made=frozenset({"token_embd.weight"}))
    (one,) = left_out(folder, made, None)
    assert (one.what, one.names) == ("dense modules", ("2_Dense/model.safetensors", "3_Dense/model.safetensors"))
    assert one.nbytes > 2 * hf.WIDTH * hf.FF * 2
    assert left_out(folder, Asked(tool(), made=frozenset({"dense_2.weight", "dense_3.weight"})), None) == ()
