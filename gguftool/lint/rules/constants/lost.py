"""Keys that every official conversion of an architecture writes though llama.cpp loads a file without them."""

from __future__ import annotations

import math
from collections.abc import Callable

from gguftool.edit.ops import Set
from gguftool.facts.conversion import UNSCALED, Constant, constants, same
from gguftool.facts.reads import Read, reads
from gguftool.lint.converted import converted
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model

ELSEWHERE = frozenset(
    "rope.freq_base rope.freq_base_swa rope.scaling.factor rope.scaling.original_context_length expert_used_count "
    "attention.sliding_window attention.causal".split()
)
"""Keys that a rule of their own asks for."""
GATING = "expert_gating_func"
"""Has rules that look at the tensors as well; with a source folder it is compared like the others."""
OFF = UNSCALED | {"attention.scale", "attention.output_scale"}
"""Scales that llama.cpp passes over when they are 0."""
_EVERY_ZERO = (
    *("attention.clamp_kqv", "attention.max_alibi_bias", "attention.scale", "logit_scale", "residual_scale"),
    *("embedding_scale", "attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"),
)
"""Numbers that llama.cpp's own writer writes for every architecture."""


def saved_by_library(m: Model) -> bool:
    """llama.cpp itself wrote the file (`llama-model-saver.cpp`): all its numbers stand there, 0 for those it lacks."""
    known = reads(m.architecture)
    return sum(m.arch.raw(name) == 0 for name in _EVERY_ZERO if name not in known) >= 3


@rule(Severity.WARNING, known_arch=True)
def constant_missing(m: Model, ctx: Context) -> Drafts:
    """A constant of the graph that every conversion writes should be in the file.

    Why. Scales, gating functions, YaRN multipliers, rotated dimensions and the like are optional for llama.cpp, because
    some architectures do without. A file that lost one loads, computes with another number and answers badly.
    Evidence. What `conversion/*.py:set_gguf_parameters` (b11434) writes under no condition, against what
    `models/*.cpp:load_arch_hparams` takes without the key; eleven trees of 2024 to 2026 for when that began. Keys for
    which llama.cpp takes the value that the models have anyway are not told; llama.cpp issue 7118.
    Example. command-r.logit_scale is missing: every conversion writes it (logit_scale of config.json), llama.cpp
    scales nothing
    Fix. Writes the value where the converter writes the same into every file; otherwise that of `config.json`: `lint
    --against FOLDER` tells it and writes it.
    """
    known = reads(m.architecture)
    for c in constants(m.architecture).values():
        key = f"{m.architecture}.{c.key}"
        off = c.key in OFF and m.arch.raw(c.key) == 0 and not saved_by_library(m)
        if (key in m and not off) or not c.lost or c.since or c.key not in known or c.key in (GATING, *ELSEWHERE):
            continue
        if not _asked(m, c):
            continue
        if c.key in converted(m, ctx):
            continue  # source-constants tells it, with the value
        state = "0, as if it were missing" if off else "missing"
        yield found(
            f"{key} is {state}: every conversion writes {_source(c)}, llama.cpp {_taken(c)}"
            + (f"; {c.known}" if c.known else ""),
            where=f"field:{key}",
            severity=Severity.INFO if c.unsure else None,
            fix=_fix(key, c, known[c.key]),
            default=c.default,
            value=c.value,
            names=list(c.names) or None,
        )


def _source(c: Constant) -> str:
    """What the converter writes."""
    if c.value is not None:
        return f"{said(c.value)} there"
    return f"it ({' or '.join(c.names[:2])} of config.json)" if c.names else "it"


def _taken(c: Constant) -> str:
    """What llama.cpp does without the key."""
    if c.key == "attention.scale":
        return "takes 1/√(head size)"
    if c.key in OFF and c.default == 0:
        return "scales nothing"
    if c.key == "rope.dimension_count":
        return "rotates whole heads"
    return "works a number out" if c.default is None else f"takes {said(c.default)}"


def _fix(key: str, c: Constant, r: Read) -> Fix | None:
    kind = r.kind.split(" or ")[0]
    if c.value is not None and kind != "arr":
        value = float(c.value) if kind == "f32" else c.value
        return Fix(f"write {said(c.value)}, as the converter does", (Set(key, value, kind),))
    name = " or ".join(c.names[:2])
    return to_choose(f"set it to {name} of config.json" if name else "set the value the converter writes", "--set", key)


CHOICE = "exp_probs_b"
"""The tensor that corrects which experts are chosen, without counting in their weights."""


def chooses_with_bias(m: Model) -> str | None:
    """A tensor that corrects the choice of experts; None without one."""
    return next((name for name in m.tensors if name.rpartition("blk.")[2].partition(".")[2].startswith(CHOICE)), None)


def _asked(m: Model, c: Constant) -> bool:
    """The key counts in this very file."""
    if c.key.startswith("rope.") and not m.arch.ropes:
        return False
    if m.arch.shape.complete and f"{m.architecture}.{c.key}" not in m.arch.shape.asked:
        return False
    for word in c.when.split():
        if word in _SEEN:
            if not _SEEN[word](m):
                return False
            continue
        name, _, value = word.partition("=")
        here = m.arch.raw(name)
        if not here or (value and here != value):
            return False
    return True


_SEEN: dict[str, Callable[[Model], object]] = {
    "(recurrent)": lambda m: any(layer.recurrent for layer in m.arch.shape.layers),
    "(biased)": chooses_with_bias,
    # DeepSeek V2 chooses without a bias, and multiplies by 16; its Lite version has 64 experts and multiplies by 1.
    "(scaled)": lambda m: chooses_with_bias(m) or m.arch.int("expert_count") == 160,
}
"""What the tensors and layers show."""


@rule(Severity.WARNING, known_arch=True)
def constant_other(m: Model, ctx: Context) -> Drafts:
    """A constant that the converter writes into every file of an architecture should have its value.

    Why. It is part of the architecture, not of one model: DeepSeek's first MoE scales nothing, Laguna normalises the
    weights of its experts, ARWKV-7 shifts one token. Another value loads in silence and computes another model.
    Evidence. Constants that `conversion/*.py:set_gguf_parameters` (b11434) writes under no condition.
    Example. arwkv7.token_shift_count is 2, every conversion writes 1
    Fix. Writes the value of the converter.
    """
    known = reads(m.architecture)
    if saved_by_library(m):
        return  # what it does not have is told as 0 or false there
    for c in constants(m.architecture).values():
        told = c.since or c.key in (GATING, *ELSEWHERE) or c.key.startswith("rope.scaling.")
        if c.value is None or told or c.key not in known or not _asked(m, c):
            continue
        key, here = f"{m.architecture}.{c.key}", m.arch.raw(c.key)
        if here is None or not isinstance(here, (bool, int, float, str)) or same(c.key, here, c.value):
            continue
        if isinstance(here, float) and math.isclose(here, float(c.value), rel_tol=1e-5):
            continue
        yield found(
            f"{key} is {said(here)}, every conversion writes {said(c.value)}",
            where=f"field:{key}",
            fix=_fix(key, c, known[c.key]),
            file=here,
            value=c.value,
        )


def said(value: object) -> str:
    """A value for messages."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else str(value)
