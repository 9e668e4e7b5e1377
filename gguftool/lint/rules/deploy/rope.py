"""`{arch}.rope.freq_base` and the record `{arch}.rope.freq_scale`."""

from __future__ import annotations

import math

from gguftool.edit.ops import Set
from gguftool.facts.conversion import constants, unsaid
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.lint.rules.deploy.prefix import misplaced
from gguftool.model import Model

DEFAULT_BASE = 10000.0


@rule(Severity.WARNING, known_arch=True)
def rope_freq_base_missing(m: Model, ctx: Context) -> Drafts:
    """The RoPE base should be in the file.

    Why. Without `{arch}.rope.freq_base` llama.cpp silently takes 10000. A model trained with 1,000,000 then
    loads, starts well and talks nonsense. Silent for architectures that do not rope.
    Evidence. `llama-model.cpp:load_hparams` (b11434): default 10000; ollama issue 2379, llama.cpp issues 2768 and
    3090.
    Example. qwen2.rope.freq_base is missing: llama.cpp takes 10000
    Fix. `gguftool fix --rope-freq-base F` with rope_theta of `config.json`. Writing 10000 is a guess unless `lint
    --against FOLDER` confirms it; an error when that shows another value. Where the converter has a number of its own
    for an architecture, as for Gemma 3, that is offered.
    """
    key = f"{m.architecture}.rope.freq_base"
    if key in m or not m.arch.ropes:
        return
    told = _told(m, ctx)
    if any(right == key for _, right in misplaced(m)):
        # foreign-prefix holds the fix.
        severity = Severity.WARNING if _contradicting(ctx) is None else Severity.ERROR
        yield found(f"{key} is missing: llama.cpp takes 10000", where=f"field:{key}", severity=severity)
    elif told is None and (there := _contradicting(ctx)) is not None:
        yield found(
            f"{key} is missing: llama.cpp takes 10000, config.json has rope_theta {there:g}, but other sizes too",
            where=f"field:{key}",
            severity=Severity.ERROR,
            source=there,
        )
    elif told is None and (usual := unsaid(m.architecture, "rope.freq_base")) not in (None, DEFAULT_BASE):
        yield found(
            f"{key} is missing: llama.cpp takes 10000, the converter {usual:g} for every {m.architecture} whose "
            "config.json says nothing else",
            where=f"field:{key}",
            fix=Fix(f"write the {usual:g} of the converter (check rope_theta first)", (Set(key, usual, "f32"),)),
        )
    elif told is None and _always_written(m):
        yield found(
            f"{key} is missing: every conversion of {m.architecture} writes it, llama.cpp takes 10000",
            where=f"field:{key}",
            fix=to_choose("set it to rope_theta of config.json", "--set", key),
        )
    elif told is None:
        fix = Fix(
            "record the 10000 that llama.cpp takes anyway (check rope_theta first)", (Set(key, DEFAULT_BASE, "f32"),)
        )
        yield found(f"{key} is missing: llama.cpp takes 10000, right or wrong", where=f"field:{key}", fix=fix)
    elif math.isclose(told, DEFAULT_BASE, rel_tol=1e-6):
        yield found(
            f"{key} is missing: llama.cpp takes 10000, and config.json confirms it",
            where=f"field:{key}",
            fix=Fix("record the 10000 that config.json confirms", (Set(key, DEFAULT_BASE, "f32"),), safe=True),
        )
    else:
        yield found(
            f"{key} is missing: llama.cpp takes 10000, config.json has rope_theta {told:g}",
            where=f"field:{key}",
            severity=Severity.ERROR,
            fix=Fix(f"set the RoPE base to {told:g} as config.json says", (Set(key, told, "f32"),), safe=True),
            source=told,
        )


def _always_written(m: Model) -> bool:
    c = constants(m.architecture).get("rope.freq_base")
    return c is not None and c.lost and c.value is None and not c.since


def _contradicting(ctx: Context) -> float | None:
    """The RoPE base of the source folder where it is another than llama.cpp takes, whatever sizes the folder states."""
    there = None if ctx.against is None else ctx.against.rope_theta
    return None if there is None or math.isclose(there, DEFAULT_BASE, rel_tol=1e-6) else there


def _told(m: Model, ctx: Context) -> float | None:
    """The RoPE base of the source folder."""
    if ctx.against is None:
        return None
    from gguftool.lint.rules.source.numbers import same_model

    return ctx.against.rope_theta if same_model(m, ctx) else None


def says_scale(m: Model) -> bool:
    """llama.cpp's own keys tell the RoPE scale: a factor, or a scaling type that settles it."""
    hp = m.arch
    return (
        hp.raw("rope.scaling.factor") is not None
        or hp.raw("rope.scale_linear") is not None
        or hp.raw("rope.scaling.type") in ("none", "longrope")
    )


@rule(Severity.WARNING, known_arch=True, changes_run=False)
def rope_freq_scale_missing(m: Model, ctx: Context) -> Drafts:
    """The RoPE scale should be recorded.

    Why. `{arch}.rope.freq_scale` is gguftool's record, so that a file says "no scaling" instead of nothing.
    llama.cpp does not read this key: it computes the scale as 1 / `{arch}.rope.scaling.factor`, and takes 1 when
    there is none. Silent where llama.cpp's own keys tell the scale, and for architectures that do not rope.
    Evidence. No key string `rope.freq_scale` in the sources of b11434; `docs/myths.md`.
    Example. qwen2.rope.freq_scale is not recorded and no rope.scaling key is there: llama.cpp takes 1
    Fix. Records 1.0, which is what llama.cpp computes: nothing else changes.
    """
    key = f"{m.architecture}.rope.freq_scale"
    if key in m or not m.arch.ropes or says_scale(m):
        return
    if any(right == key for _, right in misplaced(m)):
        yield found(f"{key} is not recorded", where=f"field:{key}")
        return
    yield found(
        f"{key} is not recorded and no scaling factor is set: llama.cpp takes 1 (it does not read this key)",
        where=f"field:{key}",
        fix=Fix("record the scale llama.cpp computes: 1.0", (Set(key, 1.0, "f32"),), safe=True),
    )


@rule(Severity.ERROR, known_arch=True)
def rope_scale_contradiction(m: Model, ctx: Context) -> Drafts:
    """The recorded RoPE scale must agree with llama.cpp's own keys.

    Why. llama.cpp ignores `{arch}.rope.freq_scale` and follows `rope.scaling.factor` (or the old
    `rope.scale_linear`). A record of 0.5 beside no factor looks like scaling and does nothing.
    Evidence. `llama-model.cpp:load_hparams` (b11434): freq_scale = 1 / factor, 1 when there is no factor.
    Example. llama.rope.freq_scale records 0.5, llama.cpp computes 1 (no rope.scaling.factor)
    Fix. Sets the record to what llama.cpp computes. To really scale: `gguftool fix --rope-freq-scale S`, which
    writes llama.cpp's keys too.
    """
    key = f"{m.architecture}.rope.freq_scale"
    said = m.arch.raw("rope.freq_scale")
    if said is None:
        return
    real = m.arch.rope_freq_scale
    if isinstance(said, bool) or not isinstance(said, (int, float)) or m.fields[key].type_name != "f32":
        yield found(
            f"{key} is {m.fields[key].type_name}, must be f32",
            where=f"field:{key}",
            fix=Fix(f"record the scale llama.cpp computes: {real:g}", (Set(key, real, "f32"),), safe=True),
        )
        return
    if math.isclose(said, real, rel_tol=1e-5):
        return
    factor = m.arch.raw("rope.scaling.factor")
    basis = f"rope.scaling.factor is {factor:g}" if isinstance(factor, float) else "no rope.scaling.factor"
    if m.arch.rope_scaling_type == "none":
        basis = "rope.scaling.type is none"
    yield found(
        f"{key} records {said:g}, llama.cpp computes {real:g} ({basis}) and does not read the record",
        where=f"field:{key}",
        fix=Fix(f"record the scale llama.cpp computes: {real:g}", (Set(key, real, "f32"),), safe=True),
        recorded=said,
        computed=real,
    )
