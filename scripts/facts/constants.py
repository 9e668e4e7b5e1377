"""`constants.json`: keys that every official conversion of an architecture writes though llama.cpp loads without them.

For each: what llama.cpp takes instead, and what the converter writes: a constant, or a value of `config.json`. Whether
a file without it computes something else follows from both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from defaults import Defaults

from gguftool.facts.conversion import names_in, same
from gguftool.facts.formula import NotTold, Scope, evaluate


def always(classes: dict[str, Any], rows: list[list[Any]]) -> dict[str, list[str | None]]:
    """Keys that all classes of an architecture write under no condition, with the expressions they write last."""
    keys: list[dict[str, str | None]] = []
    for one in classes.values():
        mine: dict[str, str | None] = {}
        conditions: dict[str, set[str]] = {}
        for i in one["writes"]:
            key, _, value, when = rows[i]
            conditions.setdefault(key, set()).add(when)
            either = any(
                f"(not {c})" in conditions[key] or f"not {c}" in conditions[key] for c in _bare(conditions[key])
            )
            if when == "":
                mine[key] = value
            elif key in mine or either:
                mine[key] = None  # written again under a condition, or either way
        keys.append(mine)
    shared = set.intersection(*(set(k) for k in keys)) if keys else set()
    return {key: list(dict.fromkeys(k[key] for k in keys)) for key in sorted(shared)}


def _bare(conditions: set[str]) -> list[str]:
    return [c[1:-1] if c.startswith("(") else c for c in conditions]


def constants(conversions: dict[str, Any], defaults: Defaults, measured: dict[str, Any]) -> dict[str, Any]:
    """The whole data file.

    Args:
        conversions: `conversions.json`.
        defaults: what llama.cpp starts from.
        measured: of `measured.json` what was found in older releases and in published models.
    """
    out: dict[str, dict[str, Any]] = {}
    for arch, classes in conversions["classes"].items():
        known = defaults.of.get(arch, {})
        found = always(classes, conversions["rows"])
        for key in measured["practice"].get(arch, {}):
            found.setdefault(key, [None])
        for key, values in sorted(found.items()):
            if key not in known or key in defaults.required.get(arch, ()):
                continue
            default, chosen = known[key]
            value = values[0] if len(values) == 1 else None
            entry: dict[str, Any] = {"default": default}
            if value is not None:
                entry["value"] = value
            if names := list(dict.fromkeys(n for v in values if v for n in names_in(v))):
                entry["names"] = names
            if _harmless(key, value, default, chosen):
                entry["harmless"] = True
            if since := measured["later"].get(arch, {}).get(key):
                entry["since"] = since
            if (more := measured["practice"].get(arch, {}).get(key)) is not None:
                entry = {k: v for k, v in entry.items() if k != "harmless"} | more
            out.setdefault(arch, {})[key] = entry
    # What is taken in place of the others, for those whose configuration is at hand.
    common = {key: value for key, (value, _) in defaults.common.items()}
    others = {
        arch: {
            key: known[key][0]
            for key in sorted({conversions["rows"][i][0] for c in classes.values() for i in c["writes"]})
            if key in known and key not in defaults.required.get(arch, ()) and key not in out.get(arch, {})
            if key not in common or known[key][0] != common[key]
        }
        for arch, classes in conversions["classes"].items()
        if (known := defaults.of.get(arch, {}))
    }
    return {"build": conversions["build"], "constants": out, "defaults": {"": common} | others}


def _harmless(key: str, value: str | None, default: Any, chosen: bool) -> bool:
    """Whether a file that lost the key computes the same, as far as the sources tell."""
    if key == "rope.dimension_count":
        return plain(value)
    if default is None or value is None:
        # What llama.cpp works out is right for the models of an architecture.
        return default is None or chosen or key.startswith("rope.scaling.")
    if chosen or (isinstance(default, float) and default not in (0.0, 1.0, 10000.0)):
        return True
    return any(same(key, default, told) for told in _without(value))


def _without(value: str) -> Iterator[Any]:
    """What an expression comes to where the configuration says nothing."""
    with suppress(NotTold):
        yield evaluate(value, Scope({"config": {}, "rope": {}, "layers": 1}))


def plain(value: str | None) -> bool:
    """Whether an expression for the rotated dimensions comes to whole heads, which llama.cpp takes anyway."""
    sizes = {"hidden_size": 128, "n_embd": 128, "d_model": 128, "num_attention_heads": 4, "n_head": 4, "n_heads": 4}
    turned = {"partial_rotary_factor": 0.5, "rotary_pct": 0.5, "rotary_dim": 16, "qk_rope_head_dim": 16}
    try:
        return value is None or bool(
            evaluate(value, Scope({"config": {**sizes, **turned, "head_dim": 32}, "rope": turned, "layers": 1})) == 32
        )
    except NotTold:
        return False
