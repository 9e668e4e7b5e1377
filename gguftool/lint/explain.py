"""What a metadata key means, its type, and who reads it."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.arch import facts, names
from gguftool.facts.data import load
from gguftool.facts.keys import measured, read_keys, readers

ARCH = "{arch}"
_LLAMA_CPP = {
    "L": "the loader of llama.cpp",
    "S": "llama-server and the other programs of llama.cpp",
    "M": "the multimodal loader of llama.cpp (--mmproj)",
    "Q": "llama-quantize",
}
_OTHERS = {"G": "gguftool", "H": "hubs, file listings and people"}
ALL = ("context_length", "embedding_length", "block_count")
"""Keys every architecture requires."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is known of a key.

    Attributes:
        key: as it stands in files; ``{arch}`` for the architecture when none was named.
        type: value type as ``KEY:TYPE=VALUE`` takes it, alternatives joined by "or".
        meaning: one or two sentences.
        llama_cpp: who of llama.cpp reads it, in words; "" when nobody does.
        architectures: those that read it, when not all do; empty otherwise.
        required: who cannot load without it, in words; "" when nobody.
        others: further readers.
    """

    key: str
    type: str
    meaning: str
    llama_cpp: str
    architectures: tuple[str, ...]
    required: str
    others: tuple[str, ...]

    __repr__ = short_repr


def explain(key: str) -> Explanation:
    """What is known of a key, also one without its architecture prefix.

    Args:
        key: ``general.name``, ``qwen2.context_length``, ``context_length``, ``{arch}.rope.freq_base``.

    Raises:
        UsageError: nobody knows the key; the hint names those like it.
    """
    key = key.strip()
    table = load("keys.json")["keys"]
    whole = _pattern(key)
    if whole in table and not whole.startswith(ARCH):
        entry = table[whole]
        codes = entry["readers"]
        who = " and ".join(text for code, text in _LLAMA_CPP.items() if code in codes)
        others = tuple(text for code, text in _OTHERS.items() if code in codes)
        required = "every model" if key in ("general.architecture", "tokenizer.ggml.model") else ""
        return Explanation(key, entry["type"], entry["meaning"], who, (), required, others)
    arch, suffix = _split(key)
    if f"{ARCH}.{suffix}" in table or readers(suffix):
        return _of_architecture(arch, suffix)
    raise UsageError(f"no program is known to read a key {key!r}", _guess(key))


def known_keys() -> tuple[str, ...]:
    """Keys that `explain` knows, those of an architecture without their prefix; not those with a variable part."""
    short = (key.removeprefix(f"{ARCH}.") for key in load("keys.json")["keys"])
    return tuple(sorted(key for key in short if "{" not in key))


def _of_architecture(arch: str | None, suffix: str) -> Explanation:
    entry = load("keys.json")["keys"].get(f"{ARCH}.{suffix}", {})
    who, listed = _who_reads(arch, suffix)
    return Explanation(
        key=f"{arch or ARCH}.{suffix}",
        type=entry.get("type") or _measured_type(arch, suffix),
        meaning=entry.get("meaning", "Not in the GGUF specification; a few architectures of llama.cpp read it."),
        llama_cpp=who,
        architectures=listed,
        required=_who_requires(arch, suffix),
        others=tuple(text for code, text in _OTHERS.items() if code in entry.get("readers", "")),
    )


def _who_reads(arch: str | None, suffix: str) -> tuple[str, tuple[str, ...]]:
    reading = readers(suffix)
    everywhere = reading == ("*",)
    # Keys that all but the recurrent architectures read are in the table one by one.
    if arch is not None:
        if everywhere or f"{arch}.{suffix}" in read_keys(arch):
            return f"llama.cpp, for {arch}", ()
        known = facts(arch)
        if known is not None and suffix in (*known.required, *known.required_if, *known.optional):
            return f"llama.cpp, for {arch}", ()
        if reading and not measured(arch):
            return f"llama.cpp, for other architectures; {arch} was not measured", reading
        return "", reading
    if everywhere:
        return "llama.cpp, for every architecture", ()
    if len(reading) > 100:
        return f"llama.cpp, for {len(reading)} of the 133 architectures measured", reading
    if reading:
        return (
            f"llama.cpp, for {', '.join(reading[:8])}{f' and {len(reading) - 8} more' if reading[8:] else ''}",
            reading,
        )
    asked = tuple(a for a in names() if _asks(a, suffix))
    return (f"llama.cpp, for {', '.join(asked)}", asked) if asked else ("", ())


def _asks(arch: str, suffix: str) -> bool:
    known = facts(arch)
    return known is not None and suffix in (*known.required, *known.optional)


def _who_requires(arch: str | None, suffix: str) -> str:
    if suffix in ALL:
        return "every architecture"
    asking = [a for a in names() if (known := facts(a)) is not None and suffix in known.required]
    if arch is not None:
        return arch if arch in asking else ""
    if len(asking) > 8:
        return f"{len(asking)} architectures, among them {', '.join(asking[:4])}"
    return ", ".join(asking)


def _measured_type(arch: str | None, suffix: str) -> str:
    tables = load("keytypes.json")["arch"]
    kinds = {keys[f"%s.{suffix}"] for a, keys in tables.items() if f"%s.{suffix}" in keys and arch in (None, a)}
    kinds = kinds or {keys[f"%s.{suffix}"] for keys in tables.values() if f"%s.{suffix}" in keys}
    return " or ".join(sorted(kinds)).replace("arr", "array")


def _pattern(key: str) -> str:
    """The key as the table spells it, with its variable parts replaced."""
    key = re.sub(r"^(general\.(?:base_model|dataset))\.\d+\.", r"\1.{id}.", key)
    if key.startswith("tokenizer.chat_template."):
        return "tokenizer.chat_template.{name}"
    return key


def _split(key: str) -> tuple[str | None, str]:
    """Architecture and the rest; None where no architecture is named."""
    head, _, rest = key.partition(".")
    if head == ARCH or head == "arch":
        return None, rest
    if rest and facts(head) is not None:
        return head, rest
    # clip., general. and the like are no architectures; an unknown prefix may be a new one.
    known = f"{ARCH}.{key}" in load("keys.json")["keys"] or readers(key)
    if not known and rest and (f"{ARCH}.{rest}" in load("keys.json")["keys"]):
        return None, rest
    return None, key


def _guess(key: str) -> str:
    table = list(load("keys.json")["keys"])
    short = {k.removeprefix(f"{ARCH}."): k for k in table}
    head, _, rest = key.partition(".")
    tried = [key, rest] if facts(head) is not None or head == ARCH else [key]
    near = [short[n] for t in tried if t for n in difflib.get_close_matches(t.lower(), short, 3, 0.6)]
    near = list(dict.fromkeys(near))[:3]
    return f"did you mean {' or '.join(near)}?" if near else "`gguftool dump MODEL` lists the keys of a file"
