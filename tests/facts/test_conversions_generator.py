"""The generator behind `conversions.json`, over a converter of a few lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "scripts" / "facts"
CONSTANTS = """
class Keys:
    class LLM:
        SCALE = "{arch}.scale"
        NORM = "{arch}.norm"
        GATE = "{arch}.gate"
        LIMITS = "{arch}.limits"
        BLOCK_COUNT = "{arch}.block_count"
    class General:
        NAME = "general.name"
MODEL_ARCH_NAMES: dict = {MODEL_ARCH.ONE: "one", MODEL_ARCH.TWO: "two"}
class Gate(IntEnum):
    SOFT = 1
    SHARP = 2
"""
WRITER = """
class GGUFWriter:
    def add_name(self, name):
        self.add_string(Keys.General.NAME, name)
    def add_scale(self, value):
        self.add_float32(Keys.LLM.SCALE.format(arch=self.arch), value)
    def add_norm(self, value):
        self.add_bool(Keys.LLM.NORM.format(arch=self.arch), value)
    def add_gate(self, value):
        self.add_uint32(Keys.LLM.GATE.format(arch=self.arch), value.value)
    def add_limits(self, values):
        key = Keys.LLM.LIMITS.format(arch=self.arch)
        self.add_array(key, values)
    def add_block_count(self, length):
        self.add_uint32(Keys.LLM.BLOCK_COUNT.format(arch=self.arch), length)
"""
MODELS = """
class TextModel:
    def set_gguf_parameters(self):
        self.gguf_writer.add_block_count(self.block_count)
        if (eps := self.find_hparam(["eps", "norm_eps"], optional=True)) is not None:
            self.gguf_writer.add_scale(eps)

@ModelBase.register("OneForCausalLM")
class One(TextModel):
    model_arch = gguf.MODEL_ARCH.ONE
    def set_gguf_parameters(self):
        self.hparams["eps"] = 1.0
        super().set_gguf_parameters()
        hparams = self.hparams
        width = hparams["width"] // 2 if self.model_arch == gguf.MODEL_ARCH.ONE else 0
        if hparams.get("odd"):
            raise ValueError("no")
        if not hparams.get("flag"):
            scale = 2.0
        else:
            scale = hparams["factor"]
        self.gguf_writer.add_scale(scale * width)
        self.gguf_writer.add_norm(self.own_attribute)
        self._more(gguf.Gate.SHARP)
        for limit in hparams["limits"]:
            width = limit
        self.gguf_writer.add_limits([float(x) for x in hparams["limits"][:self.block_count]])

    def _more(self, gate):
        self.gguf_writer.add_gate(gguf.Gate.SHARP)

@ModelBase.register("TwoForCausalLM")
class Two(One):
    model_arch = gguf.MODEL_ARCH.TWO
    def set_gguf_parameters(self):
        super().set_gguf_parameters()
        if self.no_mtp:
            return
        if self.model_arch == gguf.MODEL_ARCH.ONE:
            self.gguf_writer.add_norm(True)
        self.gguf_writer.add_gate(gguf.Gate.SOFT)
"""


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, list[list[Any]]]:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("conversions", "pyclasses", "pyvalues"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "conversion").mkdir()
    (tmp_path / "conversion" / "models.py").write_text(MODELS)
    (tmp_path / "gguf-py" / "gguf").mkdir(parents=True)
    (tmp_path / "gguf-py" / "gguf" / "constants.py").write_text(CONSTANTS)
    (tmp_path / "gguf-py" / "gguf" / "gguf_writer.py").write_text(WRITER)
    from conversions import conversions

    data, gaps = conversions(tmp_path, "b1")
    assert gaps == []
    assert {a: list(c) for a, c in data["classes"].items()} == {"one": ["One"], "two": ["Two"]}
    assert data["classes"]["one"]["One"]["names"] == ["OneForCausalLM"]
    return {a: [data["rows"][i] for c in k.values() for i in c["writes"]] for a, k in data["classes"].items()}


def test_one_class(rows: dict[str, list[list[Any]]]) -> None:
    scale = "2.0 if not config.get('flag') else config['factor']"
    assert rows["one"] == [
        ["scale", "f32", "1.0", ""],  # its own entry, which is there; the size is left to the tensors
        ["scale", "f32", f"({scale}) * (config['width'] // 2)", ""],
        ["norm", "bool", None, ""],
        ["gate", "u32", "2", ""],
        ["limits", "arr", "[float(x) for x in config['limits'][:layers]]", ""],
    ]


def test_what_a_child_adds(rows: dict[str, list[list[Any]]]) -> None:
    assert rows["two"][:-1][1][2].endswith("* 0")  # another architecture
    assert rows["two"][-1] == ["gate", "u32", "1", "(not unknown)"]
