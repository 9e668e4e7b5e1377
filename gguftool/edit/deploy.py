"""The deploy fields as operations: context length, RoPE, KV cache type - checked against the model, and told truly.

llama.cpp reads `context_length`, `rope.freq_base` and the `rope.scaling.*` keys. It reads neither `rope.freq_scale` nor
`kv_cache_type`: these two are the file's own record of how it is meant to be launched, which `gguftool launch` honours.
What is written for llama.cpp and what is recorded always agree.
"""

from __future__ import annotations

import math
import struct

from gguftool.brief import short_repr
from gguftool.edit.ops import Operation, Set
from gguftool.errors import Refused, UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES, has_cache, possible, refusals, shown, slow_pairs
from gguftool.model import Model
from gguftool.model.biases import LARGE, largest_k_bias
from gguftool.model.positions import learnt_positions
from gguftool.model.role import ROLES, role
from gguftool.records import dataclass

SCALINGS = ("none", "linear", "yarn")
GLM_DSA_LIMIT = 1 << 20
"""From this context length on llama.cpp takes another layer pattern for glm-dsa (`glm-dsa.cpp:load_arch_hparams`)."""
CONTEXTLESS = frozenset({"mmproj", "adapter", "control-vector", "imatrix", "image", "audio", "nothing"})
"""Roles of files that these fields say nothing of."""
LESS = "less is asked for at the launch: gguftool launch --ctx N"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Deploy fields as asked for; None: leave as it is."""

    context_length: int | None = None
    rope_freq_base: float | None = None
    rope_freq_scale: float | None = None
    rope_scaling: str | None = None
    rope_scale_factor: float | None = None
    kv_cache_type: tuple[str, str] | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Advice:
    """Operations, and what the user should know about them."""

    operations: tuple[Operation, ...]
    notes: tuple[str, ...]

    __repr__ = short_repr


def deploy(model: Model, wanted: Wanted, *, yes: bool = False) -> Advice:
    """Operations for the deploy fields.

    Args:
        model: the model as it is.
        wanted: what to set.
        yes: go on where a question would be asked.

    Raises:
        UsageError: a value that makes no sense, options that contradict each other, or a file without a context.
        Refused: possible, but bad for quality or not possible for this model; the hint says the way on.
    """
    if wanted == Wanted():
        return Advice((), ())
    own = role(model)
    if own in CONTEXTLESS:
        what = ROLES[own].what.partition(" (")[0]
        raise UsageError(f"{model.name} is {what}: it has no context, no RoPE and no KV cache", "name the model itself")
    arch = model.architecture
    if not arch:
        raise UsageError(
            f"{model.name}: has no general.architecture, so its keys have no prefix", "--set general.architecture=…"
        )
    notes: list[str] = []
    values: dict[str, object] = {}
    _scaling(model, wanted, values, notes, yes)
    _context(model, wanted, values, notes, yes)
    _base(model, wanted, values, notes)
    if wanted.kv_cache_type is not None:
        values["kv_cache_type"] = _cache(model, wanted.kv_cache_type, notes, yes)
    return Advice(tuple(Set(f"{arch}.{key}", value) for key, value in values.items()), tuple(notes))


def trained_length(model: Model) -> int | None:
    """Tokens the model was trained with: the original length when one is recorded, else the context length."""
    return model.arch.int("rope.scaling.original_context_length") or model.arch.context_length


def _scaling(model: Model, wanted: Wanted, values: dict[str, object], notes: list[str], yes: bool) -> None:
    scale, kind, factor = wanted.rope_freq_scale, wanted.rope_scaling, wanted.rope_scale_factor
    if scale is None and kind is None and factor is None:
        return
    if not model.arch.ropes:
        rows = learnt_positions(model)
        why = f": its positions are a table of {rows:,} rows" if rows else ""
        raise Refused(f"{model.name}: {model.architecture} never applies RoPE{why}; scaling keys would do nothing")
    if kind is not None and kind not in SCALINGS:
        raise UsageError(f"--rope-scaling {kind}: must be one of {', '.join(SCALINGS)}")
    if scale is not None:
        if not (math.isfinite(scale) and scale > 0):
            raise UsageError(f"--rope-freq-scale {scale:g}: must be above 0")
        if factor is not None and not math.isclose(factor * scale, 1, rel_tol=1e-6):
            raise UsageError(f"--rope-freq-scale {scale:g} and --rope-scale-factor {factor:g} are not inverse")
        factor = 1 / scale
    trained = trained_length(model)
    if kind in ("linear", "yarn") and factor is None:
        if wanted.context_length is None or not trained:
            raise UsageError(f"--rope-scaling {kind} needs --rope-scale-factor or --context-length")
        factor = wanted.context_length / trained
        if factor <= 1:
            raise UsageError(
                f"{wanted.context_length:,} tokens need no scaling: the model was trained with {trained:,}"
            )
    factor = 1.0 if kind == "none" else (factor or 1.0)
    if not (math.isfinite(factor) and factor > 0):
        raise UsageError(f"--rope-scale-factor {factor:g}: must be above 0")
    if factor < 1 and not yes:
        raise Refused(f"a RoPE factor of {factor:g} shortens the context; usual factors are 1 and more", "--yes")
    current = model.arch.raw("rope.scaling.type")
    if current == "longrope" and kind != "none" and not yes:
        raise Refused("this model has LongRoPE factors of its own; another scaling would throw them away", "--yes")
    # Not "none" for a factor of 1: llama.cpp would then ignore a --rope-scale given later.
    values["rope.scaling.type"] = kind or ("yarn" if current == "yarn" and factor != 1 else "linear")
    values["rope.scaling.factor"] = _f32(factor)
    values["rope.freq_scale"] = _f32(1 / factor)
    if factor != 1:
        if not trained:
            raise UsageError("the trained context length is not in the file", "give it too: --context-length N")
        values["rope.scaling.original_context_length"] = trained
        if wanted.context_length is None:
            values["context_length"] = round(trained * factor)
            notes.append(f"context_length becomes {round(trained * factor):,}: llama-server caps every slot at it")
        if kind == "yarn":
            notes.append("YaRN changes the answers on short texts too, a little; keep it only if you need the length")
    else:
        original = model.arch.int("rope.scaling.original_context_length")
        now = model.arch.context_length
        if original and now and now > original and wanted.context_length is None:
            notes.append(f"context_length stays {now:,}, but the model was trained with {original:,}")


def _context(model: Model, wanted: Wanted, values: dict[str, object], notes: list[str], yes: bool) -> None:
    n = wanted.context_length
    if n is None:
        return
    if not 0 < n < 1 << 32:
        raise UsageError(f"--context-length {n}: must be from 1 to 4,294,967,295")
    rows = learnt_positions(model)
    if rows is not None and n != rows:
        raise Refused(
            f"{model.name}: its positions are a table of {rows:,} rows, and llama.cpp refuses the file with another "
            "context_length",
            f"a longer context is not possible with this model; {LESS}" if n > rows else LESS,
        )
    hp, trained = model.arch, trained_length(model)
    factor = values.get("rope.scaling.factor")
    if factor is None:
        factor = hp.float("rope.scaling.factor", 1.0) if hp.raw("rope.scaling.type") != "none" else 1.0
    reach = round(trained * max(1.0, float(factor))) if trained and isinstance(factor, (int, float)) else None
    recurrent = hp.facts is not None and hp.facts.memory == "recurrent"
    if reach and n > reach + 1 and not recurrent and not yes:
        if "rope.scaling.factor" in values:
            raise UsageError(
                f"a factor of {factor:g} reaches {reach:,} tokens, --context-length asks for {n:,}",
                f"--rope-scale-factor {n / (trained or n):g}",
            )
        stretch = f"--rope-scaling yarn --context-length {n} stretches its RoPE (some loss); " if hp.ropes else ""
        raise Refused(
            f"by its own keys the model was trained with {trained:,} tokens; behind them it has never seen a position, "
            f"and at {n:,} its answers fall apart",
            f"{stretch}--yes writes the number alone, right when it had only been lowered before",
        )
    if hp.arch == "glm-dsa" and hp.raw("attention.indexer.types") is None and not yes:
        now = hp.context_length or 0
        if (now < GLM_DSA_LIMIT) != (n < GLM_DSA_LIMIT):
            raise Refused(
                f"glm-dsa without attention.indexer.types: crossing {GLM_DSA_LIMIT:,} tokens makes llama.cpp take "
                "another layer pattern for the cache, which the weights may not fit",
                "--yes writes it anyway",
            )
    values["context_length"] = n


def _base(model: Model, wanted: Wanted, values: dict[str, object], notes: list[str]) -> None:
    base = wanted.rope_freq_base
    if base is None:
        return
    if not (math.isfinite(base) and base > 0):
        raise UsageError(f"--rope-freq-base {base:g}: must be above 0")
    values["rope.freq_base"] = _f32(base)
    if not model.arch.ropes:
        notes.append(f"{model.architecture} never applies RoPE: llama.cpp reads the base and does nothing with it")
    elif (left := _own_base(model, base)) is not None:
        notes.append(
            f"only the full-attention layers use it: sliding-window layers of {model.architecture} keep "
            f"{left:g} ({model.architecture}.rope.freq_base_swa)"
        )


def _own_base(model: Model, base: float) -> float | None:
    """The base that sliding-window layers keep when the common one changes; None: they follow, or there are none."""
    key = f"{model.architecture}.rope.freq_base"
    shape = Hparams(model.architecture, lambda k: base if k == key else model.get(k)).shape
    if not shape.windowed or shape.rope_base_swa == base or model.arch.raw("rope.freq_base_swa") is not None:
        return None
    return shape.rope_base_swa


def _cache(model: Model, pair: tuple[str, str], notes: list[str], yes: bool) -> str:
    k, v = pair
    for name in pair:
        if name not in CACHE_TYPES:
            raise UsageError(f"{name!r} is not a cache type", "one of " + ", ".join(CACHE_TYPES) + "; or K/V")
    if not has_cache(model.arch):
        if not yes:
            raise Refused(
                f"{model.name}: {model.architecture} has no KV cache, so there is no type to record",
                "--yes records it all the same; it does nothing",
            )
        notes.append(f"{model.architecture} has no KV cache, so the type does nothing")
    for reason in refusals(model.arch, k, v):
        if not yes:
            raise Refused(
                f"{model.name}: llama.cpp would refuse a {shown(k, v)} cache for this model: {reason}",
                f"--cache-type with {', '.join(possible(model.arch))}; or --yes to record it all the same",
            )
        notes.append(f"llama.cpp will refuse it: {reason}")
    notes.extend(slow_pairs(k, v))
    if CACHE_TYPES[k].bytes_per_element < CACHE_TYPES["q8_0"].bytes_per_element:
        bias = largest_k_bias(model) or 0.0
        if bias > LARGE:
            notes.append(
                f"the keys of this model have biases up to {bias:.0f}: {k} for K is known to break such models, "
                "q8_0 or f16 for K does not"
            )
    notes.append(f"kv_cache_type is read by gguftool, not by llama.cpp: `gguftool launch` makes it -ctk {k} -ctv {v}")
    return shown(k, v)


def _f32(x: float) -> float:
    """The nearest number that an f32 holds, so that a plan shows what will stand in the file."""
    return float(struct.unpack("<f", struct.pack("<f", x))[0])
