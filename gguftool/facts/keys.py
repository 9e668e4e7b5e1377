"""Which keys llama.cpp b11434 reads under which architecture, and with which type (`data/keytypes.json`)."""

from __future__ import annotations

from functools import cache

from gguftool.facts.data import load
from gguftool.format.header import Field
from gguftool.format.types import ARR, value_type_name

ARRAY_ELEMENTS = {"u32": ("u32", "i32", "bool"), "i32": ("i32", "u32", "bool"), "f32": ("f32",)}
"""Element types that a per-layer array may have beside the scalar's (`llama-model-loader.cpp:get_key_or_arr`)."""


@cache
def read_keys(arch: str) -> dict[str, str]:
    """Whole keys that llama.cpp reads in a file of that architecture, with the type it demands: ``u32 or arr``."""
    read = load("keytypes.json")
    templates = {**read["every_arch"], **read["arch"].get(arch, {})}
    return {k.replace("%s", arch, 1): kind for k, kind in templates.items()}


@cache
def measured(arch: str) -> bool:
    """True when all keys of that architecture were probed; of others only the common ones are known."""
    return arch in load("keytypes.json")["arch"]


@cache
def readers(suffix: str) -> tuple[str, ...]:
    """Architectures that read ``{arch}.suffix``; ``("*",)`` when all do."""
    read, template = load("keytypes.json"), f"%s.{suffix}"
    if template in read["every_arch"]:
        return ("*",)
    return tuple(sorted(a for a, keys in read["arch"].items() if template in keys))


def fits(field: Field, kind: str) -> bool:
    """A field has the type that llama.cpp demands."""
    words = kind.split(" or ")
    if field.type == ARR:
        if "arr" not in words:
            return False
        scalar = next((w for w in words if w != "arr"), None)
        element = value_type_name(field.element_type if field.element_type is not None else ARR)
        return scalar is None or element in ARRAY_ELEMENTS.get(scalar, (scalar,))
    return field.type_name in words
