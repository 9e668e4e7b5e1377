"""Constants in files that the real converter made: all there, and each is missed when it is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gguftool.edit.ops import Delete, apply
from gguftool.lint.against import read_folder
from gguftool.lint.rule import Context, Severity
from gguftool.lint.run import Report, lint
from gguftool.model import open_model, with_header
from tests.building import hf
from tests.conftest import Result

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
    done = convert(source, "-o", tmp_path / "f16.gguf", "--outtype", "f16", *pre)
    assert done.code in (0, 1), done.err  # 1: written, but without experts it cannot be loaded
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
