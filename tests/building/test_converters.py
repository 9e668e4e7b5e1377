"""What converters take: read out of their source, held against what their own functions answer."""

from __future__ import annotations

import gzip
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gguftool.build.folder.look import look
from gguftool.facts.converters import Registry, known, packaged, read
from gguftool.facts.data import load
from gguftool.model.hfconfig import HfConfig

RECORDED = Path(__file__).parents[1] / "data" / "building" / "architectures.json.gz"
REGISTRIES = {"release": known, "packaged": packaged}
INIT = """
TEXT_MODEL_MAP: dict[str, str] = {
    "LlamaForCausalLM": "llama",
    "modeling_x.XForCausalLM": "x",
    "SpeechForConditionalGeneration": "llama",
    "YForCausalLM": "y",
    "ZForCausalLM": "z",
}
MMPROJ_MODEL_MAP: dict[str, str] = {
    "SpeechForConditionalGeneration": "llama",
}
"""
BASE = """
class ModelBase: ...
class TextModel(ModelBase): ...
class MmprojModel(ModelBase): ...
    def dequant_model(self):
        if quant_method == "fp8":
            pass

def get_model_architecture(hparams, model_type):
    if model_type == ModelType.TEXT and arch in ("AForX", "BForX"):
        return arch
    if arch == "CForX":
        return arch
"""
LLAMA = """
from .base import TextModel, MmprojModel, ModelBase, gguf

@ModelBase.register("LlamaForCausalLM", "Other")
@ModelBase.register("Third")
@ModelBase.example("a/b")
class LlamaModel(TextModel):
    model_arch = gguf.MODEL_ARCH.LLAMA

    def set_gguf_parameters(self):
        self.x(gguf.MODEL_ARCH.NEVER)

@ModelBase.register("SpeechForConditionalGeneration")
class SpeechModel(MmprojModel):
    model_arch = gguf.MODEL_ARCH.LLAMA
"""
X = """
from .llama import LlamaModel

@ModelBase.register(
    "modeling_x.XForCausalLM",
)
class XModel(LlamaModel):
    model_arch = gguf.MODEL_ARCH.LLAMA
"""
Y = '@ModelBase.register("YForCausalLM")\nclass YModel(TextModel):\n    model_arch = gguf.MODEL_ARCH.YARN\n'
Z = 'from .y import YModel\n@ModelBase.register("ZForCausalLM")\nclass ZModel(YModel):\n    pass\n'
CONSTANTS = "class MODEL_ARCH(IntEnum):\n    LLAMA = auto()\n    QWEN = auto()\n\nclass Other:\n    YARN = 1\n"


def recorded() -> dict[str, Any]:
    return json.loads(gzip.decompress(RECORDED.read_bytes()))


def test_a_tree(tmp_path: Path) -> None:
    conversion = tmp_path / "conversion"
    conversion.mkdir()
    texts = {"__init__": INIT, "base": BASE, "llama": LLAMA, "x": X, "y": Y, "z": Z}
    for name, text in texts.items():
        (conversion / f"{name}.py").write_text(text)
    (tmp_path / "gguf").mkdir()
    (tmp_path / "gguf" / "constants.py").write_text(CONSTANTS)
    found = read(tmp_path)
    assert found is not None
    assert found == Registry(
        # a name that only the projector has is none of a model; what a function names is looked up when it runs
        text=frozenset({"LlamaForCausalLM", "modeling_x.XForCausalLM"}),
        projector=frozenset({"SpeechForConditionalGeneration"}),
        # the gguf package beside it has no YARN, and z needs y
        broken=frozenset({"YForCausalLM", "ZForCausalLM"}),
        top_level=frozenset({"AForX", "BForX", "CForX"}),
        methods=frozenset({"fp8"}),
        # a package without another one that some models need
        lacks=frozenset({"mistral_common"}),
    )
    (tmp_path / "mistral_common").mkdir()
    assert read(tmp_path) == replace(found, lacks=frozenset())


def test_an_older_tree_of_one_file(tmp_path: Path) -> None:
    text = (
        '@Model.register("FalconForCausalLM", "RWForCausalLM")\nclass FalconModel(Model):\n    pass\n'
        '@ModelBase.register("V")\nclass V(VisionModel):\n    pass\n'
    )
    (tmp_path / "convert_hf_to_gguf.py").write_text(text)
    found = read(tmp_path)
    assert found is not None
    assert (found.text, found.projector) == ({"FalconForCausalLM", "RWForCausalLM"}, {"V"})


def test_no_converter(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "conversion").mkdir()
    (tmp_path / "conversion" / "__init__.py").write_text("TEXT_MODEL_MAP = {1: 2, **x}\n\0")
    assert read(tmp_path) is None


@pytest.mark.parametrize("which", REGISTRIES)
def test_the_names_whose_class_there_is(which: str) -> None:
    text, projector = recorded()[which]["taken"]
    registry = REGISTRIES[which]()
    assert registry.text == set(text)
    assert registry.projector == set(projector)
    assert len(text) >= 200


@pytest.mark.parametrize("which", REGISTRIES)
def test_the_name_it_goes_by(which: str) -> None:
    registry, rows = REGISTRIES[which](), recorded()[which]["rows"]
    wrong = [
        (config, text, projector)
        for config, text, projector in rows
        if (HfConfig(config).named(registry), HfConfig(config).projector_architecture) != (text, projector)
    ]
    assert not wrong
    assert len(rows) > 2500


@pytest.mark.parametrize("which", REGISTRIES)
def test_nothing_that_it_takes_is_refused(which: str, tmp_path: Path) -> None:
    registry = REGISTRIES[which]()
    taken = refused = 0
    for config, text, projector in random.Random(19).sample(recorded()[which]["rows"], 150):
        (tmp_path / "config.json").write_text(json.dumps(config))
        for arguments, name, names in (((), text, registry.text), (("--mmproj",), projector, registry.projector)):
            found = look(str(tmp_path), registry, arguments=arguments)
            # a draft model wants one more argument; a class that only says that it makes no model counts as none
            fatal = {p.kind for p in found.fatal} - {"no-tokenizer", "no-weights", "draft-model"}
            if name == "UltravoxModel" and not arguments:
                assert fatal == {"projector-only"}
                continue
            assert bool(fatal) == (name not in names), (config, fatal)
            taken, refused = taken + (not fatal), refused + bool(fatal)
    assert taken > 100
    assert refused > 50


@pytest.mark.real
def test_the_data_is_what_the_sources_say(converter_cache: Path) -> None:
    from tests.llama_cpp_source import CannotFetch, source_tree

    try:
        assert read(source_tree()) == known()
    except CannotFetch as why:
        pytest.skip(str(why))
    (site,) = converter_cache.glob("gguftool/*/lib/python3*/site-packages")
    assert read(site) == packaged()


def test_whose_data_it_is() -> None:
    from gguftool.build.converter import PACKAGE

    assert load("converters.json")["package"] == PACKAGE
    # what the packaged one lists and its own gguf has no numbers for
    assert {"DeepseekV3ForCausalLM", "Glm4MoeForCausalLM", "MiniMaxM2ForCausalLM"} <= packaged().broken
    assert not known().broken
