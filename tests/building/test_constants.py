"""Constants in files that the real converter made: all there, and each is missed when it is lost."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from gguftool.edit.ops import Delete, apply
from gguftool.facts.conversion import Written, names_in, written
from gguftool.facts.data import load
from gguftool.lint.against import read_folder
from gguftool.lint.rule import Context, Severity
from gguftool.lint.run import Report, lint
from gguftool.model import from_source, open_model, with_header
from gguftool.source import Memory
from tests.build import GGUF
from tests.building import hf
from tests.building.converter_values import value
from tests.conftest import Result
from tests.llama_cpp_source import CannotFetch, source_tree

MADE: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "granite": (
        "llama",
        {
            "architectures": ["GraniteForCausalLM"], "model_type": "granite", "attention_multiplier": 0.015625,
            "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0,
        },
        ("embedding_scale", "residual_scale", "attention.scale"),
    ),
    "dots1": (
        "qwen3",
        {
            "architectures": ["Dots1ForCausalLM"], "model_type": "dots1", "first_k_dense_replace": hf.LAYERS,
            "moe_intermediate_size": 64, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
            "routed_scaling_factor": 2.5, "norm_topk_prob": True, "scoring_func": "sigmoid",
        },
        ("expert_weights_scale", "expert_weights_norm"),
    ),
    "minicpm": (
        "llama",
        {
            "architectures": ["MiniCPMForCausalLM"], "model_type": "minicpm", "scale_emb": 10, "scale_depth": 1.2,
            "dim_model_base": 128,
        },
        (),
    ),
}  # fmt: skip
"""By architecture: the folder it is like, what config.json has, the keys without which it computes something else."""


def about(report: Report) -> list[tuple[str, str]]:
    """Rule and place of what is said of constants."""
    rules = ("constants", "source")
    return [(f.rule, f.where) for f in report if f.family in rules and f.severity is not Severity.INFO]


@pytest.mark.oracle
@pytest.mark.parametrize("arch", MADE)
def test_a_conversion_has_its_constants(arch: str, convert: Callable[..., Result], tmp_path: Path) -> None:
    like, config, lost = MADE[arch]
    source = hf.folder(tmp_path / arch, like, **config)
    pre = ("--pre", "qwen2") if like not in hf.SPM else ()
    done = convert(source, "-o", tmp_path / "f16.gguf", "--outtype", "f16", "--yes", *pre)
    assert done.code in (0, 1), done.err  # 1: written in spite of it, but without experts it cannot be loaded
    folder = read_folder(source)
    with open_model(tmp_path / "f16.gguf") as m:
        assert m.architecture == arch
        assert about(lint(m, select=("constants",))) == []
        assert about(lint(m, Context(against=folder), select=("constants", "source-constants"))) == []
        for key in lost:
            without = with_header(m, apply((Delete(f"{arch}.{key}"),), m.header))
            where = f"field:{arch}.{key}"
            assert about(lint(without, select=("constants",))) == [("constant-missing", where)]
            report = lint(without, Context(against=folder), select=("constants", "source-constants"))
            assert about(report) == [("source-constants", where)]
            (found,) = report.findings
            assert found.fix is not None
            # the very value that the converter wrote
            again = with_header(without, apply(found.fix.operations, without.header))
            assert again[f"{arch}.{key}"] == m[f"{arch}.{key}"]


@pytest.mark.oracle
def test_other_values_than_the_default_are_told_with_the_folder(convert: Callable[..., Result], tmp_path: Path) -> None:
    """MiniCPM's own numbers llama.cpp knows; this model has others."""
    like, config, _ = MADE["minicpm"]
    source = hf.folder(tmp_path / "minicpm", like, **config)
    assert convert(source, "-o", tmp_path / "f16.gguf", "--outtype", "f16").code == 0
    with open_model(tmp_path / "f16.gguf") as m:
        assert m["minicpm.logit_scale"] == hf.WIDTH / 128
        without = with_header(m, apply((Delete("minicpm.embedding_scale"),), m.header))
    context = Context(against=read_folder(source))
    (found,) = lint(without, context, select=("source-constants",)).findings
    assert "is missing (llama.cpp takes 12), config.json has scale_emb 10" in found.message


def cases() -> list[tuple[str, str, dict[str, Any]]]:
    """Every class of the table by a name it converts, with and without scaling of RoPE."""
    data = load("conversions.json")
    out: list[tuple[str, str, dict[str, Any]]] = []
    for arch, classes in data["classes"].items():
        for one in (c for c in classes.values() if c["names"]):
            texts = [t for i in one["writes"] for t in data["rows"][i][2:] if t]
            names = {n for t in texts for n in names_in(t)} | {
                "hidden_size",
                "num_attention_heads",
                "num_hidden_layers",
            }
            names |= {"n_embd", "n_head", "n_layer", "head_dim", "vocab_size", "max_position_embeddings"}
            inside = {n for t in texts for n in ROPE.findall(t)} | {"factor", "original_max_position_embeddings"}
            for kind in ("yarn", "longrope", ""):
                config = {n: v for n in sorted(names) if (v := value(n)) is not None}
                config["architectures"] = one["names"][:1]
                if kind:
                    rope = {n: v for n in sorted(inside) if (v := value(n)) is not None}
                    config["rope_scaling"] = {**rope, "type": kind}
                out.append((arch, one["names"][0], config))
    return out


def header(arch: str, keys: dict[str, Any], types: Mapping[str, Written]) -> GGUF:
    """What the converter wrote, in the types of its writer where we know them."""
    g = GGUF(arch)
    for key, there in keys.items():
        short = key.removeprefix(f"{arch}.")
        if short == key or isinstance(there, dict) or (isinstance(there, list) and not there):
            continue
        g.kv(key, float(there) if short in types and types[short].type == "f32" else there)
    return g.tensor("token_embd.weight", (32, 4))


ROPE = re.compile(r"rope(?:\.get\('full_attention', rope\))?(?:\.get\(|\[)'(\w+)'")


@pytest.mark.slow
@pytest.mark.oracle
@pytest.mark.real
def test_the_formulas_are_the_converters_own(converter_cache: Path, tmp_path: Path) -> None:
    """Its code and our expressions over the same configurations: what ours tell it writes, and lint misses nothing."""
    try:
        tree = source_tree()
    except CannotFetch as why:
        pytest.skip(str(why))
    (python,) = converter_cache.glob("gguftool/converter-*/bin/python")
    (tmp_path / "cases.json").write_text(json.dumps(cases()))
    files = [tmp_path / "cases.json", tmp_path / "out.json"]
    run = Path(__file__).with_name("converter_run.py")
    subprocess.run([python, run, tree, *files], check=True, capture_output=True, timeout=600)
    done = json.loads(files[1].read_text())
    compared = 0
    for arch, name, config, keys in done:
        ours = written(arch, name, config, keys[f"{arch}.block_count"])
        for key, there in ours.items():
            assert keys[f"{arch}.{key}"] == pytest.approx(there.value), (arch, name, key)
            compared += 1
        # Without scaling nothing stands for gpt-oss, whose models all have it.
        if "rope_scaling" in config:
            m = from_source(Memory(header(arch, keys, ours).bytes(), f"{name}.gguf"), strict=False)
            assert about(lint(m, select=("constants",), load=False)) == [], name
    assert len({name for _, name, _, _ in done}) >= 110
    assert compared >= 3000
    assert {a for a, *_ in done} >= {
        "deepseek2",
        "granite",
        "gemma3",
        "phi3",
        "command-r",
        "minicpm",
        "bert",
        "glm4moe",
    }
