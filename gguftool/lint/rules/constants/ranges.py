"""Values that no model has."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gguftool.facts.conversion import default
from gguftool.facts.reads import reads
from gguftool.lint.rule import Context, Drafts, Severity, found, rule, to_choose
from gguftool.lint.rules.constants.lost import OFF, said
from gguftool.model import Model
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Range:
    """What values of a key models have, with room on both sides.

    Attributes:
        low, high: the least and the greatest.
        zero: 0 is a value, too: it stands for none.
    """

    low: float
    high: float
    zero: bool = False


RANGES = {
    "logit_scale": Range(1e-4, 1e3),
    "embedding_scale": Range(1e-4, 1e4),
    "residual_scale": Range(1e-4, 1e2),
    "attention.scale": Range(1e-5, 1e2),
    "attention.output_scale": Range(1e-5, 1e2),
    "attention.value_scale": Range(1e-4, 1e2),
    "expert_weights_scale": Range(1e-3, 1e2),
    "expert_group_scale": Range(1e-4, 1e2),
    "attn_logit_softcapping": Range(1, 1e4),
    "router_logit_softcapping": Range(1, 1e4),
    "final_logit_softcapping": Range(1, 1e4, zero=True),
    "attention.clamp_kqv": Range(0.1, 1e4, zero=True),
    "attention.max_alibi_bias": Range(0.1, 64, zero=True),
    "attention.temperature_scale": Range(1e-4, 10, zero=True),
    "rope.scaling.attn_factor": Range(0.1, 10),
    "rope.scaling.yarn_attn_factor": Range(0.1, 10),
    "rope.scaling.yarn_ext_factor": Range(1e-3, 10, zero=True),
    "rope.scaling.yarn_beta_fast": Range(1, 1e3),
    "rope.scaling.yarn_beta_slow": Range(1e-3, 1e2),
    "rope.scaling.yarn_log_multiplier": Range(1e-3, 10, zero=True),
    "rope.scaling.alpha": Range(1, 1e5, zero=True),
    "hyper_connection.epsilon": Range(1e-12, 1e-2),
    "swiglu_clamp_exp": Range(0.1, 1e3, zero=True),
    "swiglu_clamp_shexp": Range(0.1, 1e3, zero=True),
}
"""By key, without the architecture; values of the models that llama.cpp converts lie well inside."""


@rule(Severity.WARNING, known_arch=True)
def constant_odd(m: Model, ctx: Context) -> Drafts:
    """A scale, cap or clamp must have a value that models have.

    Why. llama.cpp multiplies and divides by whatever stands there: a negative scale turns answers upside down, a
    scale of 0 takes a part of the model away or divides by 0, a cap of 0.3 leaves nothing of the logits.
    Evidence. `llama-graph.cpp`, `models/*.cpp` (b11434); values of the models that the converter knows.
    Example. granite.logit_scale is 0, models have 0.0001 to 1,000
    Fix. The value of `config.json`; `lint --against FOLDER` tells it.
    """
    known = reads(m.architecture)
    for name, within in RANGES.items():
        if name not in known:
            continue
        key = f"{m.architecture}.{name}"
        for value in _values(m, name):
            if _sound(m, name, within, value):
                continue
            yield found(
                f"{key} is {value:g}, models have {said(float(within.low))} to {within.high:,g}",
                where=f"field:{key}",
                fix=to_choose("write the value of config.json", "--set", key),
                value=value,
            )
            break


def _values(m: Model, name: str) -> Iterator[float]:
    """Finite numbers of a key; others have the rule float-not-finite."""
    value = m.arch.raw(name)
    for v in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(v, float) and math.isfinite(v):
            yield v


def _divides(m: Model, name: str) -> bool:
    """Granite divides by its scale of logits."""
    return name == "logit_scale" and m.architecture.startswith("granite")


def _sound(m: Model, name: str, within: Range, value: float) -> bool:
    if within.low <= value <= within.high or (value == 0 and (within.zero or (name in OFF and not _divides(m, name)))):
        return True  # 0 for a scale that must be there is told as missing
    # -1 is how llama.cpp says that nothing is said; what it takes itself is nobody's fault.
    return (name == "rope.scaling.yarn_ext_factor" and value == -1) or (
        value != 0 and value == default(m.architecture, name)
    )


@rule(Severity.WARNING, known_arch=True)
def yarn_betas(m: Model, ctx: Context) -> Drafts:
    """YaRN's fast end must turn faster than its slow end.

    Why. Between the two llama.cpp blends old and new frequencies; with the ends exchanged the blend runs the wrong
    way, and dimensions in between are scaled that should not be.
    Evidence. `ggml.c:ggml_rope_yarn_corr_dims` (b11434), read for grok and mistral3.
    Example. mistral3.rope.scaling.yarn_beta_fast is 1 and yarn_beta_slow is 32: the ends are exchanged
    Fix. The values of `config.json`: 32 and 1 for most models.
    """
    fast, slow = m.arch.raw("rope.scaling.yarn_beta_fast"), m.arch.raw("rope.scaling.yarn_beta_slow")
    if "rope.scaling.yarn_beta_fast" not in reads(m.architecture) or not m.arch.ropes:
        return
    if isinstance(fast, float) and isinstance(slow, float) and slow >= fast:
        key = f"{m.architecture}.rope.scaling.yarn_beta_fast"
        yield found(
            f"{key} is {fast:g} and yarn_beta_slow is {slow:g}: the ends are exchanged",
            where=f"field:{key}",
            fix=to_choose("write beta_fast of config.json", "--set", key),
        )
