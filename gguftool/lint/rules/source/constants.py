"""Constants of the graph against what the converter makes of config.json."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gguftool.edit.ops import Set
from gguftool.facts.conversion import Written, default, same
from gguftool.facts.enums import numbers
from gguftool.facts.howread import ALWAYS
from gguftool.facts.reads import reads
from gguftool.lint.converted import converted
from gguftool.lint.rule import Context, Draft, Drafts, Fix, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.rules.constants.lost import ELSEWHERE, GATING, chooses_with_bias, said
from gguftool.lint.rules.source.numbers import not_same, own, same_model, source
from gguftool.model import Model


@rule(Severity.WARNING, scope=Scope.SOURCE, known_arch=True)
def source_constants(m: Model, ctx: Context) -> Drafts:
    """Constants of the graph should be those that the converter makes of config.json.

    Why. Epsilons, scales, soft caps, gating functions, YaRN parameters, rotated dimensions and the number of experts
    in use change every answer; llama.cpp loads any value in silence, and most of them not at all.
    Evidence. `conversion/*.py:set_gguf_parameters` (b11434), executed on this config.json with names in place of what
    it does not say; what `models/*.cpp:load_arch_hparams` takes without the key.
    Example. granite.embedding_scale is missing (llama.cpp takes 0), config.json has embedding_multiplier 12
    Fix. Writes the value of config.json.
    """
    folder, arch = source(ctx), m.architecture
    if not same_model(m, ctx):
        yield not_evaluated(not_same(ctx))
        return
    known = reads(arch)
    for key, there in converted(m, ctx).items():
        if key not in known or key == "rope.scaling.type" or (key.startswith("rope.") and not m.arch.ropes):
            continue
        if f"{arch}.{key}" not in m.arch.shape.asked and m.arch.shape.complete:
            continue
        if f"{arch}.{key}" not in m:
            if key == GATING and there.value == numbers(GATING)["sigmoid"] and chooses_with_bias(m):
                continue  # expert-gating-bias says so without the folder
            # required-key-missing takes what llama.cpp refuses to go without.
            if key not in ELSEWHERE and known[key].required != ALWAYS:
                yield from _missing(m, key, there, folder.text)
        elif (key not in ELSEWHERE or key == "expert_used_count") and not _agree(m, key, there.value):
            yield _told(m, key, there, folder.text, said(m.arch.raw(key)), file=m.arch.raw(key))


def _missing(m: Model, key: str, there: Written, config: Mapping[str, Any]) -> Drafts:
    taken = m.arch.key_length if key == "rope.dimension_count" else default(m.architecture, key)
    if taken is not None and _close(key, taken, there.value):
        return
    # A number that llama.cpp works out may well be the same.
    works_out = taken is None
    state = f"missing (llama.cpp {'works it out' if works_out else f'takes {said(taken)}'})"
    yield _told(m, key, there, config, state, Severity.INFO if works_out else None)


def _told(
    m: Model,
    key: str,
    there: Written,
    config: Mapping[str, Any],
    state: str,
    severity: Severity | None = None,
    file: object = None,
) -> Draft:
    full, value = f"{m.architecture}.{key}", there.value
    shown = said(value) if not isinstance(value, list) else "another array"
    here = state if not isinstance(file, Sequence) or isinstance(file, str) else "an array"
    return found(
        f"{full} is {here}, config.json {basis(there, config, shown)}",
        where=f"field:{full}",
        fix=Fix(f"write {shown if not isinstance(value, list) else 'it'}", (Set(full, value, there.type),)),
        severity=severity,
        file=file,
        source=value,
    )


def basis(there: Written, config: Mapping[str, Any], shown: str) -> str:
    """Where in config.json a value comes from: ``has rms_norm_eps 1e-05``, ``comes to 0.1 (mscale_all_dim)``."""
    names = [n for n in there.names if _named(n, config)]
    if len(names) == 1 and config.get(names[0]) == there.value:
        return f"has {names[0]} {shown}"
    return f"comes to {shown}" + (f" ({', '.join(names[:2])})" if names else "")


def _named(name: str, config: Mapping[str, Any]) -> bool:
    return name in config or any(name in v for v in config.values() if isinstance(v, Mapping))


def _agree(m: Model, key: str, there: object) -> bool:
    """Whether file and source say the same, as far as the two can be compared."""
    here = m.arch.raw(key)
    if isinstance(there, list):
        if not isinstance(here, Sequence) or isinstance(here, str) or len(here) != len(there):
            return True  # a number for all layers, or one a layer: per-layer-length looks at that
        return all(_close(key, a, b) for a, b in zip(here, there, strict=True))
    one = own(m, key) if not isinstance(here, bool | str) else here
    return one is None or _close(key, one, there)


def _close(key: str, a: Any, b: Any) -> bool:
    """The same as far as f32 can tell, or to the same effect."""
    if same(key, a, b):
        return True
    plain = all(isinstance(v, int | float) and not isinstance(v, bool) for v in (a, b))
    return plain and math.isclose(a, b, rel_tol=1e-6)
