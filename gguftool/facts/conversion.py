"""What the official converter writes: from a configuration the keys it comes to, and what every file has.

`data/conversions.json` holds the writes of each model class of llama.cpp's converter as expressions over `config.json`;
`data/constants.json` the keys that every conversion of an architecture writes though llama.cpp loads a file without
them. Both are generated (`scripts/facts/conversions.py`, `scripts/facts/constants.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.data import load, newest
from gguftool.facts.formula import NotTold, Scope, evaluate
from gguftool.facts.known import by_known
from gguftool.records import dataclass

_TYPES: dict[str, tuple[type, ...]] = {
    "u32": (int,),
    "i32": (int,),
    "f32": (int, float),
    "bool": (bool,),
    "str": (str,),
}
_THETA = ("global_rope_theta", "rope_global_theta", "rope_theta_global", "rope_theta", "rotary_emb_base")
_LOCAL = ("local_rope_theta", "rope_local_theta", "rope_theta_local", "swa_rope_theta", "rope_local_base_freq")
_PARTIAL = ("partial_rotary_factor", "rope_pct", "rope_percent")
_ORIGINAL = "original_max_position_embeddings"
UNSCALED = frozenset(
    "logit_scale embedding_scale residual_scale expert_weights_scale attention.value_scale rope.scaling.factor".split()
)
"""Scales that llama.cpp passes over when they are 0, so that 0 comes to the same as 1."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A key that every official conversion of an architecture writes though llama.cpp loads a file without it.

    Attributes:
        key: without the architecture.
        names: names in `config.json` that the value comes from.
        value: the one value that the converter writes in every file, else None.
        default: what llama.cpp takes where the key is absent; None for a number it computes.
        lost: a file without it computes something else, as far as the tables tell.
        when: only in files that have these keys, some with ``=VALUE``, parted by blanks; ``(recurrent)``: layers with a
            state; ``(biased)``: tensors that correct the choice of experts; ``(scaled)``: those, or the experts of
            DeepSeek V2.
        since: date of a release from which on it was written, "" for one that was always written.
        known: values of published models, for the message.
        unsure: some published models have what llama.cpp takes.
    """

    key: str
    names: tuple[str, ...]
    value: Any
    default: Any
    lost: bool
    when: str = ""
    since: str = ""
    known: str = ""
    unsure: bool = False

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Written:
    """A key as the converter writes it for a configuration.

    Attributes:
        value: the value.
        type: as ``KEY:TYPE=VALUE`` spells it.
        names: names in `config.json` that it comes from.
    """

    value: Any
    type: str
    names: tuple[str, ...]

    __repr__ = short_repr


@by_known(lambda: newest("constants.json")["constants"])
def constants(arch: str) -> Mapping[str, Constant]:
    """The keys every conversion of that architecture has, by key without the architecture."""
    out = {}
    for key, e in load("constants.json")["constants"].get(arch, {}).items():
        value = _settled(e.get("value"))
        out[key] = Constant(
            key,
            tuple(e.get("names", ())),
            value,
            e["default"],
            not e.get("harmless", False),
            e.get("when", ""),
            e.get("since", ""),
            e.get("known", ""),
            e.get("unsure", False),
        )
    return out


def default(arch: str, key: str) -> Any:
    """What llama.cpp takes where an optional key is absent; None for a number it computes, or for a key it needs."""
    known = constants(arch).get(key)
    if known is not None:
        return known.default
    tables = load("constants.json")["defaults"]
    return tables.get(arch, {}).get(key, tables[""].get(key))


def unsaid(arch: str, key: str) -> Any:
    """What the converter writes into every file whose configuration says nothing of it; None where it demands it."""
    text = load("constants.json")["constants"].get(arch, {}).get(key, {}).get("value")
    if text is None:
        return None
    try:
        return evaluate(text, Scope({"config": {}, "rope": {}, "layers": 1}))
    except NotTold:
        return None


def _settled(text: str | None) -> Any:
    """Value of an expression that no configuration changes."""
    if text is None:
        return None
    try:
        return evaluate(text, Scope({}))
    except NotTold:
        return None


def same(key: str, a: Any, b: Any) -> bool:
    """Whether two values of a key come to the same computation."""
    if key in UNSCALED and not isinstance(a, bool | str) and not isinstance(b, bool | str):
        return (a or 1) == (b or 1)
    # Without a factor, which has its own key, `linear` scales nothing.
    return bool(a == b) or (key == "rope.scaling.type" and {a, b} == {"none", "linear"})


def rope_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """RoPE parameters as the converter completes them (`conversion/base.py:TextModel.__init__`, b11434)."""
    found = config.get("rope_parameters", config.get("rope_scaling"))
    rope = dict(found) if isinstance(found, Mapping) else {}
    if "full_attention" in rope or "sliding_attention" in rope:
        return rope
    first = {n: config[n] for n in (*_THETA, *_LOCAL, *_PARTIAL, _ORIGINAL) if n in config}
    local = next((first[n] for n in _LOCAL if n in first), None)
    if local is not None:
        rope["sliding_attention"] = {"rope_theta": local}
    for name, sources in (("rope_theta", _THETA), ("partial_rotary_factor", _PARTIAL), (_ORIGINAL, (_ORIGINAL,))):
        value = next((first[n] for n in sources if n in first), None)
        if name not in rope and value is not None:
            rope[name] = value
    if "rope_type" not in rope and rope.get("type") is not None:
        rope["rope_type"] = rope["type"]
    return rope


def written(arch: str, name: str, config: Mapping[str, Any], layers: int) -> dict[str, Written]:
    """The keys that the converter writes for a configuration, without the architecture.

    What the configuration does not tell, or tells differently for the classes that may have written the file, is left
    out.

    Args:
        arch: the file's architecture.
        name: what `config.json` calls its architecture: picks the class where several write this one.
        config: the language model's part of `config.json` laid over the rest.
        layers: the number of layers of the file.
    """
    data = load("conversions.json")
    # Those without a name convert what has no `config.json`.
    classes = [c for c in data["classes"].get(arch, {}).values() if c["names"]]
    chosen = [c for c in classes if name in c["names"]] or classes
    scope = {"config": config, "rope": rope_of(config), "layers": layers}
    found = [_run([data["rows"][i] for i in c["writes"]], scope) for c in chosen]
    if not found:
        return {}
    return {k: w for k, w in found[0].items() if w is not None and all(f.get(k) == w for f in found)}


def _run(rows: Sequence[Sequence[Any]], names: Mapping[str, Any]) -> dict[str, Written | None]:
    out: dict[str, Written | None] = {}
    for key, kind, value, when in rows:
        try:
            if when and not evaluate(when, Scope(names)):
                continue
            scope = Scope(names)
            found = evaluate(value, scope) if value is not None else None
            out[key] = _typed(found, kind, str(value)) if scope.told else None
        except NotTold:
            out[key] = None
    return out


def _typed(value: Any, kind: str, text: str) -> Written | None:
    """The value in the type of its key; None for one that the writer would refuse."""
    names = names_in(text)
    for word in kind.split(" or "):
        if word == "arr":
            if isinstance(value, list) and value and all(type(v) is type(value[0]) for v in value):
                element = {bool: "bool", int: "i32", float: "f32", str: "str"}.get(type(value[0]))
                return Written(value, f"[{element}]", names) if element else None
        elif word == "f32" and isinstance(value, int | float) and not isinstance(value, bool):
            return Written(float(value), word, names)
        elif word in ("u32", "i32") and isinstance(value, int) and not isinstance(value, bool):
            return Written(value, word, names) if 0 <= value + (word == "i32") * (1 << 31) < 1 << 32 else None
        elif (word == "bool" and isinstance(value, bool)) or (word == "str" and isinstance(value, str)):
            return Written(value, word, names)
    return None


@cache
def names_in(text: str) -> tuple[str, ...]:
    """Names of `config.json` in an expression."""
    import ast

    out: list[str] = []
    for node in ast.walk(ast.parse(text, mode="eval")):
        found: list[ast.expr] = []
        if isinstance(node, ast.Subscript):
            found = [node.slice]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            found = node.args[:1]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("first", "need"):
            found = node.args
        out += [n.value for n in found if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return tuple(dict.fromkeys(n for n in out if n not in ("full_attention", "sliding_attention", "dflash_config")))
