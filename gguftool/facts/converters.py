"""What llama.cpp's converter takes: names of models and ways of quantising, read out of its Python source.

`read` reads the converter at hand; `data/converters.json` holds the same of one build and of the packaged converter
(`scripts/facts/converters.py`), for machines without one. Nothing of the source is run.

A name that the converter lists is not yet one that it takes: the class may make a projector alone, and a module may
name something that the ``gguf`` package beside it does not have, so that it cannot be imported at all.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from functools import cache

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.records import dataclass
from gguftool.regex import regex

SCRIPT = "convert_hf_to_gguf.py"
MODULES = "conversion"
CONSTANTS = ("gguf-py/gguf/constants.py", "gguf/constants.py")
"""Where a source tree and the package have the names of the ``gguf`` package."""
NEEDED_BY_SOME = ("mistral_common",)
"""Packages that the converter imports for some models alone."""
PROJECTOR_BASES = frozenset({"MmprojModel", "VisionModel"})
"""Classes that make the file beside a model."""
_DECORATED = regex(r"^@Model(?:Base)?\.register\((?:.*\n)*?class (\w+)\(", re.M)
_REGISTERED = regex(r"^@Model(?:Base)?\.register\(([^)]*)\)", re.M)
_CLASS = regex(r"^class (\w+)\(([^)]*)\)", re.M)
_IMPORT = regex(r"^from \.(\w+) import", re.M)
_USED = regex(r"\bgguf\.([A-Z]\w*)\.([A-Z]\w*)")
_ENUM = regex(r"^class (\w+)\(\w*Enum\):\n((?:[ \t]+[^\n]*\n|\n)*)", re.M)
_CHECKED = regex(r"^ +chktxt = ('(?:[^'\\\n]|\\.)*')$", re.M)
_HASH = regex(r"chkhsh == \"([0-9a-f]{64})\"")
_MEMBER = regex(r"^    ([A-Z]\w*) *(?::[^=\n]*)?=", re.M)


@dataclass(frozen=True, slots=True)
class Registry:
    """What a converter takes.

    Attributes:
        text: names in ``architectures`` of config.json that it makes a model of.
        projector: names that it makes a projector of, with ``--mmproj``.
        broken: names that it lists but cannot convert: its own parts do not fit together.
        top_level: names that count although the part of the language model has another one.
        methods: ``quant_method`` of weights it can read; empty when the source does not tell.
        lacks: packages that some models need and that are not in its environment.
    """

    text: frozenset[str]
    projector: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()
    top_level: frozenset[str] = frozenset()
    methods: frozenset[str] = frozenset()
    lacks: frozenset[str] = frozenset()

    __repr__ = short_repr


def lacking(site: str | os.PathLike[str]) -> frozenset[str]:
    """What is not among the packages installed there.

    Args:
        site: a folder ``site-packages``.
    """
    return frozenset(name for name in NEEDED_BY_SOME if not os.path.isdir(os.path.join(site, name)))


def read(root: str | os.PathLike[str]) -> Registry | None:
    """What the converter takes whose source lies there; None when no name is found in it.

    Args:
        root: top of a llama.cpp tree, or the folder with the package ``conversion``.
    """
    top = os.fspath(root)
    modules = _modules(os.path.join(top, MODULES)) or {"": _text(os.path.join(top, SCRIPT))}
    all_text = "\n".join(modules.values())
    bases = {m[1]: re.findall(r"\w+", m[2]) for m in _CLASS.finditer(all_text)}
    made: dict[bool, set[str]] = {False: set(), True: set()}
    for m in _DECORATED.finditer(all_text):
        for names in _REGISTERED.findall(m[0]):
            made[_descends(m[1], bases)].update(re.findall(r"[\"']([^\"']+)[\"']", names))
    text, projector, broken = made[False], made[True], set[str]()
    if listed := _table(modules.get("__init__", ""), "TEXT_MODEL_MAP"):
        beside = _table(modules.get("__init__", ""), "MMPROJ_MODEL_MAP")
        lame = _not_importable(modules, _text(*(os.path.join(top, *n.split("/")) for n in CONSTANTS)))
        broken = {name for table in (listed, beside) for name, module in table.items() if module in lame}
        text = {name for name, module in listed.items() if name in text and module not in lame}
        projector = {name for name, module in beside.items() if name in projector and module not in lame}
    if not text:
        return None
    return Registry(
        frozenset(text),
        frozenset(projector),
        frozenset(broken - text - projector),
        frozenset(_exceptions(all_text)),
        frozenset(re.findall(r'quant_method == "([\w-]+)"', all_text)),
        # The package lies among those it runs with.
        lacking(top) if os.path.isdir(os.path.join(top, "gguf")) else frozenset(),
    )


def _modules(folder: str) -> dict[str, str]:
    """Text of every module by its name."""
    try:
        names = sorted(n for n in os.listdir(folder) if n.endswith(".py"))
    except OSError:
        return {}
    return {n.removesuffix(".py"): _text(os.path.join(folder, n)) for n in names}


def _text(*paths: str) -> str:
    """The first of these files; "" when there is none."""
    for path in paths:
        try:
            with open(path, encoding="utf-8", errors="replace") as f:
                return f.read()
        except OSError:
            continue
    return ""


def _table(text: str, name: str) -> dict[str, str]:
    """A dictionary of texts at the top of a module."""
    found = re.search(rf"^{name}\b[^={{]*= *(\{{.*?^\}})", text, re.S | re.M)
    try:
        value = ast.literal_eval(found[1]) if found else {}
    except (ValueError, SyntaxError):
        return {}
    return {str(k): str(v) for k, v in value.items()} if isinstance(value, dict) else {}


def _descends(name: str, bases: Mapping[str, list[str]]) -> bool:
    """Whether a class makes a projector; its first base decides where there are several."""
    for _ in range(20):
        if name in PROJECTOR_BASES:
            return True
        above = bases.get(name, [])
        if PROJECTOR_BASES & set(above):
            return True
        name = next((b for b in reversed(above) if b in bases), "")
    return False


def _not_importable(modules: Mapping[str, str], constants: str) -> set[str]:
    """Modules that name a constant at their top level which the ``gguf`` package does not have, and who needs them."""
    members = {m[1]: set(_MEMBER.findall(m[2])) for m in _ENUM.finditer(constants)}
    lame = {
        name
        for name, text in modules.items()
        if any(enum in members and member not in members[enum] for enum, member in _at_import(text))
    }
    needs = {name: set(_IMPORT.findall(text)) for name, text in modules.items()}
    while more := {n for n in modules if n not in lame and needs[n] & lame}:
        lame |= more
    return lame


def _at_import(text: str) -> Iterator[tuple[str, str]]:
    """Constants of ``gguf`` that are looked up while the module is imported: outside of functions."""
    inside = False
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if line.strip() and indent <= 4:
            inside = line.lstrip().startswith(("def ", "async def ")) or (inside and indent == 4 and line[4] == ")")
        if not inside and "gguf." in line:
            yield from _USED.findall(line)


def _exceptions(text: str) -> Iterator[str]:
    """Names that `get_model_architecture` returns before it looks at the part of the language model."""
    found = re.search(r"^def get_model_architecture\(.*?(?=^\S|\Z)", text, re.S | re.M)
    for line in found[0].splitlines() if found else ():
        if re.search(r"\barch (?:in|==) ", line):
            yield from re.findall(r"\"(\w+)\"", line.partition("arch ")[2])


@cache
def known() -> Registry:
    """What the converter of `gguftool.facts.BUILD` takes."""
    return _entry("release")


def fingerprints(root: str | os.PathLike[str]) -> tuple[str, frozenset[str]] | None:
    """The text by which a converter knows a BPE pre-tokenizer, and the hashes of its token ids that it knows.

    Args:
        root: as for `read`.

    Returns:
        None where its source does not tell.
    """
    top = os.fspath(root)
    modules = _modules(os.path.join(top, MODULES)) or {"": _text(os.path.join(top, SCRIPT))}
    for source in modules.values():
        said = _CHECKED.search(source)
        if said is not None:
            return str(ast.literal_eval(said[1])), frozenset(_HASH.findall(source))
    return None


@cache
def packaged() -> Registry:
    """What the converter takes that ``gguftool convert --setup`` installs."""
    return _entry("packaged")


def _entry(which: str) -> Registry:
    found = load("converters.json")[which]
    return Registry(*(frozenset(found[part]) for part in Registry.__slots__))


@cache
def _vocabularies() -> dict[str, frozenset[str]]:
    rows = load("converters.json")["vocabularies"]
    return {name: frozenset(way.split()) for way, names in rows.items() for name in names}


def vocabulary(architecture: str) -> frozenset[str]:
    """How the converter of `gguftool.facts.BUILD` reads the vocabulary of a model; empty when that is not known.

    ``sentencepiece`` wants tokenizer.model, ``transformers`` what AutoTokenizer loads, ``llama-hf`` the same of a
    tokenizer that falls back to bytes, ``code`` runs code of the folder, ``mistral`` needs mistral-common, ``target``
    takes it of another model (``--target-model-dir``); a file of that name; several are tried.
    """
    return _vocabularies().get(architecture, frozenset())
