"""What a projector's keys must be: there, of their type, in bounds, and as the tensors say."""

from __future__ import annotations

import math
from typing import Any

from gguftool.edit.ops import Operation, Set
from gguftool.facts.machine.clip import VISION
from gguftool.format.types import ARR
from gguftool.lint.rule import Context, Draft, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.lint.rules.projector.encoders import surveyed, taken_apart
from gguftool.model import Model
from gguftool.predict.projector.survey import Fault, loads_with, mended, witnesses

MEAN, STD = "clip.vision.image_mean", "clip.vision.image_std"
_TYPES = "type_to_gguf_type", "get_ne() == 1", "is not an array", "has type"
_KNOWN = {
    "CLIP": ("0.48145466,0.4578275,0.40821073", "0.26862954,0.26130258,0.27577711"),
    "SigLIP": ("0.5,0.5,0.5", "0.5,0.5,0.5"),
}
"""What most encoders were trained with (`preprocessor_config.json` of the original models)."""


def _key(fault: Fault) -> str:
    return fault.where.removeprefix("field:") if fault.where.startswith("field:") else ""


def _is_type(fault: Fault) -> bool:
    return any(words in fault.line for words in _TYPES)


def _is_missing(fault: Fault) -> bool:
    return fault.line.startswith("Key not found: ")


def mend_of(m: Model, ctx: Context) -> tuple[str, int] | None:
    """The one key that alone makes the file load, worked out once a run."""
    return ctx.once("projector mended", lambda: mended(m))


def _set(key: str, value: Any, type: str, safe: bool = True) -> Fix:
    operations: tuple[Operation, ...] = (Set(key, value, type),)
    return Fix(f"set {key} to {value}", operations, safe=safe)


def _by_tensors(m: Model, ctx: Context, key: str) -> Fix | None:
    """The value that the tensors tell, where the file loads with it alone; else one that a person must find."""
    mend = mend_of(m, ctx)
    if mend is not None and mend[0] == key:
        return _set(key, mend[1], "u32")
    values = [value for name, value in witnesses(m) if name == key]
    if len(values) == 1:
        return _set(key, values[0], "u32", safe=key not in m.fields)
    return to_choose("give it the value of the original model", "--set", key)


@rule(Severity.ERROR, role="mmproj")
def projector_key_missing(m: Model, ctx: Context) -> Drafts:
    """Every key that a projector of this type must have must be there.

    Why. llama.cpp reads the keys by name and refuses the file at the first that is missing; there is no default.
    Evidence. `clip.cpp:load_hparams` (b11434): "Key not found: "; which keys a type needs is generated from it.
    Example. clip.vision.patch_size is missing, which llama.cpp needs of a projector of type gemma3
    Fix. `gguftool fix --set KEY=VALUE`: what the tensors tell is named, the rest stands in the original model's
    `config.json`.
    """
    for fault in surveyed(m, ctx).faults:
        if _is_missing(fault) and (key := _key(fault)):
            text = f"{key} is missing, which llama.cpp needs of a projector of type {fault.kind}"
            yield found(text, where=fault.where, fix=_by_tensors(m, ctx, key), llama_cpp=fault.line)


@rule(Severity.ERROR, role="mmproj")
def projector_key_type(m: Model, ctx: Context) -> Drafts:
    """Keys of a projector must have the very type that llama.cpp reads.

    Why. It takes the value out of the record without asking for its type: another one is a failed assertion, which ends
    the whole server. Arrays of another element type are refused.
    Evidence. `clip.cpp:get_u32`, `gguf.cpp:gguf_get_val_u32` (b11434):
    "GGML_ASSERT(type_to_gguf_type<T>::value == type) failed".
    Example. clip.vision.block_count is u64, must be u32: llama.cpp aborts
    Fix. `gguftool fix --set KEY:TYPE=VALUE`.
    """
    for fault in surveyed(m, ctx).faults:
        if _is_type(fault) and (key := _key(fault)):
            yield _wrong_type(m, fault, key)
    for key in ("general.name", "general.description"):
        f = m.fields.get(key)
        if f is not None and not isinstance(m.get(key), str) and f.type != ARR:
            fix = _set(key, str(m.get(key)), "str")
            yield found(f"{key} is {f.type_name}, must be str: llama.cpp aborts", where=f"field:{key}", fix=fix)


def _wrong_type(m: Model, fault: Fault, key: str) -> Draft:
    wanted = str(fault.data.get("expected", "")).removeprefix("arr ")
    wanted = f"arr[{wanted}]" if str(fault.data.get("expected", "")).startswith("arr ") else wanted
    got = m.fields[key].type_name
    end = "aborts" if fault.aborts else "refuses the file"
    value = _as(m.get(key), wanted)
    fix = None if value is None else _set(key, value, wanted)
    fix = fix or to_choose(f"give it a value of type {wanted}", "--set", key)
    return found(f"{key} is {got}, must be {wanted}: llama.cpp {end}", where=fault.where, fix=fix, llama_cpp=fault.line)


def _as(value: object, wanted: str) -> object | None:
    """The same value in another type, where it is the same."""
    if isinstance(value, bool) and wanted == "u32":
        return int(value)
    if wanted in ("u32", "i32") and isinstance(value, int | float) and float(value).is_integer():
        return int(value) if 0 <= value < 1 << 31 else None
    if wanted == "f32" and isinstance(value, int | float):
        return float(value)
    if wanted == "bool" and value in (0, 1):
        return bool(value)
    if wanted == "arr[f32]" and not isinstance(value, str | int | float) and value is not None:
        items: Any = value
        return [float(v) for v in items] if all(isinstance(v, int | float) for v in items) else None
    return None


@rule(Severity.ERROR, role="mmproj")
def projector_image_mean(m: Model, ctx: Context) -> Drafts:
    """The means and deviations of the colours must be three numbers each.

    Why. Every image is brought to them before the encoder sees it; with fewer than three the file is refused. A
    deviation of 0 loads, and makes every pixel infinite.
    Evidence. `clip.cpp:load_hparams` (b11434): "image_mean/image_std arrays must have at least 3 elements".
    Example. clip.vision.image_mean has 2 values, 3 are needed (red, green, blue)
    Fix. `gguftool fix --set` with the numbers of the original model's `preprocessor_config.json`.
    """
    if m.get("clip.has_vision_encoder") is not True:
        return
    for i, key in enumerate((MEAN, STD)):
        f = m.fields.get(key)
        value: Any = m.get(key)
        n = f.count if f is not None and f.type == ARR else None
        usual = " or ".join(f"{v[i]} ({k})" for k, v in _KNOWN.items())
        choose = to_choose(f"give it three numbers: {usual}", "--set", key)
        if f is None:
            text = f"{key} is missing: three numbers are needed (red, green, blue)"
            yield found(text, where=f"field:{key}", fix=choose)
        elif n is not None and n < 3:
            text = f"{key} has {n} value{'s' * (n != 1)}, 3 are needed (red, green, blue)"
            yield found(text, where=f"field:{key}", fix=choose)
        elif n is not None and key == STD and any(map(_no_divisor, value)):
            text = f"{key} holds a number that nothing can be divided by: {list(value)[:3]}"
            yield found(text, where=f"field:{key}", fix=choose, severity=Severity.WARNING)


def _no_divisor(value: object) -> bool:
    return isinstance(value, int | float) and (value == 0 or not math.isfinite(value))


@rule(Severity.ERROR, role="mmproj")
def projector_value(m: Model, ctx: Context) -> Drafts:
    """Sizes and other numbers of a projector must be ones that llama.cpp can work with.

    Why. Sizes of images and patches, merges, tiles and windows are checked while they are read; some of what is out of
    bounds is refused, some is a failed assertion or a division by zero that ends the server.
    Evidence. `clip.cpp:load_hparams` (b11434), whose checks are run as they stand.
    Example. clip.vision.image_size is 9000: image_size (9000) is too large (max 8192)
    Fix. `gguftool fix --set KEY=VALUE`; where the tensors tell the value, it is named.
    """
    for fault in surveyed(m, ctx).faults:
        if fault.stage != "hyperparameters" or _is_missing(fault) or _is_type(fault):
            continue
        if "unknown projector type" in fault.line or "image_mean" in fault.line:
            continue
        key = _key(fault)
        said = fault.line.removeprefix("load_hparams: ")
        end = "llama.cpp aborts: " if fault.aborts else ""
        have = f"{key} is {_short(m, key)}: " if key in m.fields else ""
        fix = _both(m) if "use_gelu and use_silu" in fault.line else _by_tensors(m, ctx, key) if key else None
        yield found(f"{have}{end}{said}", where=fault.where, fix=fix, llama_cpp=fault.line)


def _short(m: Model, key: str) -> str:
    f = m.fields[key]
    return f"an array of {f.count}" if f.type == ARR else str(m.get(key))[:60]


def _both(m: Model) -> Fix | None:
    """Of two activations the one without which the file loads."""
    keys = ("clip.use_gelu", "clip.use_silu")
    good = [key for key in keys if loads_with(m, key, False, "bool")]
    return (
        _set(good[0], False, "bool", safe=False)
        if len(good) == 1
        else to_choose("keep one of the two", "--set", keys[0])
    )


_FIXED = frozenset("mlp ldp ldpv2 adapter cogvlm gemma3 idefics3 internvl janus_pro llama4 nemotron_v2_vl".split())
"""Types whose positions are taken from their table as they are; others are stretched to the size of an image."""


@rule(Severity.ERROR, role="mmproj")
def projector_positions(m: Model, ctx: Context) -> Drafts:
    """The table of positions must have a row for every patch of an image.

    Why. These encoders take images of one size only. With another size than the table was trained for the file may
    load all the same: rows are then taken twice or from beyond the end, so images are misread, or the first one ends
    the server.
    Evidence. `models/siglip.cpp`, `llava.cpp`, `internvl.cpp` (b11434): the table is added as it is, and `ggml_add`
    repeats it where the number of patches is a multiple of its rows.
    Example. clip.vision.image_size 112 makes 64 patches of 14, v.position_embd.weight has 16 rows
    Fix. `gguftool fix --set clip.vision.image_size=N`, the size that the table says.
    """
    encoder = taken_apart(m, ctx).encoder(VISION)
    table = m.tensors.get("v.position_embd.weight")
    if (
        encoder is None
        or encoder.kind not in _FIXED
        or table is None
        or not encoder.image_size
        or not encoder.patch_size
    ):
        return
    patches = (encoder.image_size // encoder.patch_size) ** 2
    rows = table.shape[-1] - ("v.class_embd" in m.tensors and encoder.kind != "nemotron_v2_vl")
    if rows != patches:
        key = f"clip.{VISION}.image_size"
        had = f"{table.shape[-1]:,} rows" + (" (one of them for the whole image)" if rows != table.shape[-1] else "")
        size = f"{key} {encoder.image_size} makes {patches:,} patches of {encoder.patch_size}"
        yield found(f"{size}, {table.name} has {had}", where=f"field:{key}", fix=_by_tensors(m, ctx, key))
