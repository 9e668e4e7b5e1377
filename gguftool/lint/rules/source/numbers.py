"""Sizes and constants of the model against config.json."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gguftool.edit.ops import Set
from gguftool.facts.reads import reads
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, not_evaluated, rule
from gguftool.model import Model
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.lint.against import HfFolder


@dataclass(frozen=True, slots=True)
class Pair:
    """A key of the file and what config.json calls it.

    Attributes:
        key: without the architecture prefix.
        names: in config.json, the first that is there counts.
    """

    key: str
    names: tuple[str, ...]


SHAPE = (
    Pair("embedding_length", ("hidden_size", "n_embd", "dim", "d_model")),
    Pair("block_count", ("num_hidden_layers", "n_layers", "n_layer", "num_layers")),
    Pair("attention.head_count", ("num_attention_heads", "n_head", "n_heads")),
    Pair("attention.head_count_kv", ("num_key_value_heads", "n_kv_heads")),
    Pair("expert_count", ("num_local_experts", "num_experts", "n_routed_experts")),
)
"""What tells one model from another."""


def source(ctx: Context) -> HfFolder:
    """The folder; rules of scope SOURCE run only when there is one."""
    if ctx.against is None:
        raise ValueError("no folder to compare with")
    return ctx.against


def equal(a: float, b: float) -> bool:
    """Equal as far as f32 can tell."""
    return a == b or math.isclose(a, b, rel_tol=1e-6)


def own(m: Model, key: str) -> int | float | None:
    """A number of the file under its architecture's prefix; of an array the value all layers share, else None."""
    value = m.arch.raw(key)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    if value is not None and not isinstance(value, (str, bool)):
        items = set(value)  # type: ignore[call-overload]
        if len(items) == 1:
            only = items.pop()
            return only if isinstance(only, (int, float)) and not isinstance(only, bool) else None
    return None


def shown(value: float) -> str:
    """A number for messages."""
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"


@rule(Severity.ERROR, scope=Scope.SOURCE, known_arch=True)
def source_other_model(m: Model, ctx: Context) -> Drafts:
    """The folder must describe the model of the file.

    Why. Other layers, widths or heads mean another model, or another size of it: then nothing else the folder says
    can be used, and the rules that propose fixes from it would do harm.
    Evidence. hidden_size, num_hidden_layers, heads and experts of config.json.
    Example. ./qwen describes another model: embedding_length 896, there 1,024
    Fix. Name the right folder.
    """
    differing = different_shape(m, source(ctx))
    if differing:
        listed = ", ".join(f"{key} {shown(a)}, there {shown(b)}" for key, a, b in differing)
        yield found(
            f"{source(ctx).name} describes another model: {listed}",
            where=f"field:{m.architecture}.{differing[0][0]}",
            differing=[key for key, _, _ in differing],
        )


def different_shape(m: Model, folder: HfFolder) -> list[tuple[str, int | float, int | float]]:
    """Keys of `SHAPE` in which file and folder differ, with both values."""
    out = []
    for pair in SHAPE:
        here, there = own(m, pair.key), folder.number(*pair.names)
        if here is None or there is None or here == there:
            continue
        if pair.key == "block_count" and here - there in (0, folder.number("num_nextn_predict_layers") or 0):
            continue  # the layers that predict further tokens are counted in the file
        if pair.key == "attention.head_count_kv" and _shares_heads(m):
            continue
        out.append((pair.key, here, there))
    return out


def _shares_heads(m: Model) -> bool:
    """MLA files state one KV head whatever config.json says."""
    return m.arch.raw("attention.kv_lora_rank") is not None


def same_model(m: Model, ctx: Context) -> bool:
    """True when fixes may be drawn from the folder."""
    answer: bool = ctx.once("source same model", lambda: not different_shape(m, source(ctx)))
    return answer


def not_same(ctx: Context) -> str:
    """Why a rule does not compare."""
    return f"{source(ctx).name} describes another model"


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_context_length(m: Model, ctx: Context) -> Drafts:
    """The context length should be the one the model was trained with.

    Why. llama-server caps every slot at it and warns beyond it; some converters write a constant. A lower value may be
    meant: lowering is harmless. RoPE scaling that is written into the file explains a larger one. A missing key is the
    rule context-length-missing.
    Evidence. llama.cpp issue 8330: Falcon files say 2,048 where the model has 8,192.
    Example. falcon.context_length is 2,048, config.json has max_position_embeddings 8,192
    Fix. Writes the value of config.json.
    """
    from gguftool.lint.against import CONTEXT

    folder = source(ctx)
    if not same_model(m, ctx):
        yield not_evaluated(not_same(ctx))
        return
    there = folder.context_length
    if there is None:
        yield not_evaluated("config.json names no context length")
        return
    key, here = f"{m.architecture}.context_length", own(m, "context_length")
    factor, original = own(m, "rope.scaling.factor"), own(m, "rope.scaling.original_context_length")
    if here in (None, there) or (here and factor and original and equal(here, factor * original)):
        return
    name = next(n for n in CONTEXT if folder.number(n) is not None)
    yield found(
        f"{key} is {shown(here or 0)}, config.json has {name} {there:,}",
        where=f"field:{key}",
        fix=Fix(f"write {there:,}", (Set(key, there, "u32"),)),
        file=here,
        source=there,
    )


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_sliding_window(m: Model, ctx: Context) -> Drafts:
    """The sliding window should be the one of the raw config.json.

    Why. Configuration classes change it while they load it (EmbeddingGemma: half and one), and a wrong window makes the
    model blind for tokens it learnt to see.
    Evidence. llama.cpp issue 15867; b11434 reads the raw file for this reason.
    Example. gemma3.attention.sliding_window is 257, config.json has 512
    Fix. Writes the value of config.json.
    """
    folder = source(ctx)
    if not same_model(m, ctx):
        yield not_evaluated(not_same(ctx))
        return
    there = folder.number("sliding_window", "sliding_window_size", "local_attention")
    key, here = f"{m.architecture}.attention.sliding_window", own(m, "attention.sliding_window")
    off = folder.text.get("use_sliding_window") is False or not there
    if off or there is None or here == there:
        return
    if here is None and "attention.sliding_window" not in reads(m.architecture):
        return
    yield found(
        f"{key} is {'missing' if here is None else shown(here)}, config.json has {there:,}",
        where=f"field:{key}",
        fix=Fix(f"write {there:,}", (Set(key, int(there), "u32"),)),
        file=here,
        source=there,
    )


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_untied_output(m: Model, ctx: Context) -> Drafts:
    """A model with its own output matrix should have it in the file.

    Why. Without `output.weight` llama.cpp uses the token embedding in its place, in silence. Right for tied
    models, wrong where config.json says they are not.
    Evidence. Measured: a deleted output.weight loads on 85 of 87 models.
    Example. config.json has tie_word_embeddings false, but there is no output.weight
    Fix. None: convert the model again.
    """
    if source(ctx).text.get("tie_word_embeddings") is False and "token_embd.weight" in m.tensors:
        if m.missing_shards:
            yield not_evaluated("shards are missing")
        elif "output.weight" not in m.tensors:
            yield found(
                "config.json has tie_word_embeddings false, but there is no output.weight",
                where="tensor:token_embd.weight",
            )
