"""Who reads a metadata key, as which type, whether it must be there, and when: the one answer for every room.

Keys under an architecture are those that its loading function reads (`facts/reads.py`, from `data/load_maps.json`; of
all architectures at once `data/read_by.json`, made of it); all others, and what other programs read, stand in
`data/readers.json`. All are generated from one llama.cpp source tree.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gguftool.facts.data import INSTEAD, load, newest
from gguftool.facts.howread import ALWAYS, NEVER, SOMETIMES, Read
from gguftool.facts.known import by_known, mapped
from gguftool.format.header import Field
from gguftool.format.types import ARR, value_type_name
from gguftool.records import dataclass, replace

__all__ = [
    "ALWAYS",
    "NEVER",
    "SOMETIMES",
    "Read",
    "Reading",
    "covered",
    "fits",
    "named_keys",
    "read_keys",
    "read_suffixes",
    "read_under",
    "readers",
    "reading",
    "whole_readers",
]
ARCH = "{arch}."
LOADER = "L"
ELEMENTS = {"u32": ("u32", "i32", "bool"), "i32": ("i32", "u32", "bool")}
"""Element types an array may have where llama.cpp stores that type (`llama-model-loader.cpp:get_arr`)."""
_NAMESPACES = frozenset(
    "general tokenizer split adapter clip imatrix quantize xielu controlvector diffusion path_model".split()
)
"""First words of keys that belong to llama.cpp; the names of architectures are others."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Who of llama.cpp's programs reads a key, and how.

    Attributes:
        programs: codes of the programs: ``L`` the model loader, ``S`` llama-server and the others, ``M`` the projector
            loader, ``Q`` llama-quantize, ``A`` the adapter loader, ``I`` importance matrices, ``T`` llama-gguf-split.
        types: types the value may have as ``KEY:TYPE=VALUE`` spells them, the one to write first.
        required: ``always``, ``sometimes`` or "".
        condition: when the model loader reads it, in words; "": in every file.
    """

    programs: str
    types: tuple[str, ...]
    required: str = NEVER
    condition: str = ""


@cache
def _others() -> Mapping[str, Any]:
    found: Mapping[str, Any] = load("readers.json")["keys"]
    return found


@cache
def _patterns() -> tuple[str, ...]:
    """Keys of which a part between points may be anything."""
    return tuple(k for k in _others() if "{" in k.removeprefix(ARCH))


def _stands_for(pattern: str, key: str) -> bool:
    parts, given = pattern.split("."), key.split(".")
    return len(parts) == len(given) and all(
        there if part.startswith("{") else there == part for part, there in zip(parts, given, strict=True)
    )


@cache
def every_arch() -> tuple[str, ...]:
    """Architectures that have a loading function."""
    return tuple(newest("read_by.json")["archs"])


def read_suffixes() -> tuple[str, ...]:
    """Keys that some loading function reads: without the architecture, or whole behind ``=``."""
    return tuple(newest("read_by.json")["keys"])


@cache
def read_under(suffix: str) -> tuple[tuple[Read, tuple[str, ...]], ...]:
    """How loading functions read a key, as `read_suffixes` has it, and for which architectures."""
    rows = newest("read_by.json")["keys"].get(suffix, ())
    names = every_arch()
    return tuple((Read(suffix, *row[:4]), tuple(names[i] for i in row[4])) for row in rows)


def _by_loaders(suffix: str) -> frozenset[str]:
    """Architectures whose loading function reads it."""
    return frozenset(arch for _, archs in read_under(suffix) for arch in archs)


@by_known(mapped)
def read_keys(arch: str) -> Mapping[str, Read]:
    """Whole keys that the model loader reads in a file of that architecture."""
    from gguftool.facts.reads import reads

    out: dict[str, Read] = {}
    for key, entry in _others().items():
        if LOADER in entry["by"] and (not key.startswith(ARCH) or reads(arch)):
            whole = key.replace(ARCH, f"{arch}.", 1)
            kind = entry["type"]
            element = kind[1:-1] if kind.startswith("[") else ""
            out[whole] = Read(whole, "arr" if element else kind, element, NEVER, entry.get("when", ""))
    for suffix, r in reads(arch).items():
        whole = suffix[1:] if suffix.startswith("=") else f"{arch}.{suffix}"
        if whole not in out or not suffix.startswith("="):
            out[whole] = replace(r, key=whole)
    return out


def _read_as(key: str, arch: str) -> Read | None:
    """As `read_keys` has it, of one key: of the rows of an architecture only what was made of them is read."""
    if INSTEAD.get() is not None:
        return read_keys(arch).get(key)
    under = key[len(arch) + 1 :] if arch and key.startswith(f"{arch}.") else ""
    loaded = arch in every_arch()
    # "=" marks a whole key in the table, and is how no key begins there.
    read = _in_rows(under, arch) if loaded and under and not under.startswith("=") else None
    if read is None:
        entry = (_others().get(ARCH + under) if loaded and under else None) or _others().get(key)
        if entry is not None and LOADER in entry["by"]:
            kind = entry["type"]
            element = kind[1:-1] if kind.startswith("[") else ""
            return Read(key, "arr" if element else kind, element, NEVER, entry.get("when", ""))
        read = _in_rows(f"={key}", arch) if loaded else None
    return None if read is None else replace(read, key=key)


def _in_rows(suffix: str, arch: str) -> Read | None:
    """How the loading function of an architecture reads a key, as `read_suffixes` has it."""
    # What a stranger made up is no name to look for in a file, or to remember.
    if not suffix.isascii() or '"' in suffix or suffix not in newest("read_by.json")["keys"]:
        return None
    return next((r for r, archs in read_under(suffix) if arch in archs), None)


def _loaded(key: str) -> bool:
    """Whether the model loader reads a key of `readers.json`."""
    return LOADER in _others().get(key, {"by": ""})["by"]


def reading(key: str, arch: str) -> Reading | None:
    """Who reads a whole key in a file of that architecture; None: no program of llama.cpp.

    Args:
        key: whole key, with the architecture's prefix where it has one.
        arch: the file's architecture, "" when it names none.
    """
    found = _read_as(key, arch)
    template = ARCH + key[len(arch) + 1 :] if arch and key.startswith(f"{arch}.") else key
    other = _others().get(key) or _others().get(template)
    if other is None:
        name = next((k for k in _patterns() if _stands_for(k, template)), None)
        other = _others()[name] if name is not None else None
    if found is None and other is None:
        return None
    programs = other["by"] if other is not None else LOADER
    if found is None:
        # What stands under an architecture here is read by other programs; the loader has its own rows.
        programs = programs.replace(LOADER, "") if template.startswith(ARCH) else programs
        return Reading(programs, _types(other["type"])) if programs and other is not None else None
    programs = programs if LOADER in programs else LOADER + programs
    return Reading(programs, spelled(found), found.required, found.condition)


@cache
def _suffixes() -> frozenset[str]:
    """What stands behind the architecture in a key that a loading function reads."""
    whole = {*_whole(), *(key for key in _others() if _loaded(key))}
    under = {key.partition(".")[2] for key in whole if key.partition(".")[0] in every_arch()}
    plain = (key for key in read_suffixes() if not key.startswith("="))
    return frozenset({*under, *(key.removeprefix(ARCH) for key in whole), *plain})


@by_known(_suffixes)
def readers(suffix: str) -> tuple[str, ...]:
    """Architectures whose files the loader reads ``{arch}.suffix`` in; ``("*",)`` when all do."""
    if _loaded(f"{ARCH}{suffix}"):
        return ("*",)
    # A whole key may begin with the name of an architecture: ``dflash.sample_from_anchor``.
    whole = (a for a in every_arch() if _loaded(f"{a}.{suffix}") or a in _by_loaders(f"={a}.{suffix}"))
    said = tuple(sorted({*_by_loaders(suffix), *whole}))
    return ("*",) if len(said) == len(every_arch()) else said


@cache
def _whole() -> frozenset[str]:
    """Whole keys that a loading function reads."""
    return frozenset(key[1:] for key in read_suffixes() if key.startswith("="))


@by_known(_whole)
def whole_readers(key: str) -> tuple[str, ...]:
    """Architectures whose loading function reads a whole key: `xielu.beta` for apertus."""
    return tuple(sorted(_by_loaders(f"={key}")))


@cache
def named_keys() -> frozenset[str]:
    """Every key some program of llama.cpp reads or has a name for; ``{arch}`` stands for the architecture."""
    loader = {f"{ARCH}{k}" if not k.startswith("=") else k[1:] for k in read_suffixes()}
    return frozenset(loader | set(_others()) | set(load("readers.json")["names"]))


def covered(key: str) -> bool:
    """Whether a key stands where llama.cpp's keys do, so that the list of its readers settles it."""
    head = key.partition(".")[0]
    return head in _NAMESPACES or head in load("architectures.json")["architectures"] or key.startswith(ARCH)


def spelled(r: Read) -> tuple[str, ...]:
    """Types of a key as ``KEY:TYPE=VALUE`` takes them: ``u32 or arr`` is ``u32``, ``[u32]``, ``[i32]``, ``[bool]``."""
    out: list[str] = []
    for word in r.kind.split(" or "):
        elements = ELEMENTS.get(r.element or "u32", (r.element,)) if word == "arr" else ()
        out.extend(f"[{e}]" for e in elements) if word == "arr" else out.append(word)
    return tuple(dict.fromkeys(out))


def _types(kind: str) -> tuple[str, ...]:
    element = kind[1:-1] if kind.startswith("[") else ""
    return spelled(Read("", "arr" if element else kind, element)) if kind else ()


def fits(field: Field, r: Read) -> bool:
    """A field has a type that llama.cpp takes."""
    words = r.kind.split(" or ")
    if field.type != ARR:
        return field.type_name in words
    if "arr" not in words:
        return False
    element = value_type_name(field.element_type if field.element_type is not None else ARR)
    return not r.element or element in ELEMENTS.get(r.element, (r.element,))
