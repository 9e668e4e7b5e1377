"""What a metadata key means, its type, and who reads it."""

from __future__ import annotations

import re

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts import llama_cpp
from gguftool.facts.arch import facts
from gguftool.facts.data import load
from gguftool.facts.keys import (
    ALWAYS,
    ARCH,
    covered,
    every_arch,
    named_keys,
    read_keys,
    read_under,
    readers,
    reading,
    spelled,
    whole_readers,
)
from gguftool.facts.reads import reads
from gguftool.format.filler import FILLER_KEY, is_filler
from gguftool.near import near_names
from gguftool.records import dataclass
from gguftool.shell import gguftool

_LLAMA_CPP = {
    "L": "the loader of llama.cpp",
    "S": "llama-server and the other programs of llama.cpp",
    "M": "the multimodal loader of llama.cpp (--mmproj)",
    "A": "the adapter loader of llama.cpp (--lora)",
    "Q": "llama-quantize",
    "I": "llama-imatrix and llama-quantize",
    "T": "llama-gguf-split",
}
_OTHERS = {"G": "gguftool", "H": "hubs, file listings and people"}
_BARE = ARCH.rstrip(".")


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
        condition: when the model loader reads it, in words; "" when always, or never.
    """

    key: str
    type: str
    meaning: str
    llama_cpp: str
    architectures: tuple[str, ...]
    required: str
    others: tuple[str, ...]
    condition: str = ""

    __repr__ = short_repr


def explain(key: str) -> Explanation:
    """What is known of a key, also one without its architecture prefix.

    Args:
        key: ``general.name``, ``qwen2.context_length``, ``context_length``, ``{arch}.rope.freq_base``.

    Raises:
        UsageError: nobody knows the key; the hint names those like it.
    """
    key = key.strip()
    whole = _pattern(key)
    table = load("keys.json")["keys"]
    own = whole in table or (whole in named_keys() and not reads(whole.partition(".")[0]))
    if own and not whole.startswith(ARCH):
        return _whole(key, whole)
    arch, suffix = _split(key)
    if _known(suffix) or reading(f"{arch or _BARE}.{suffix}", arch or "") is not None:
        return _of_architecture(arch, suffix)
    if covered(key if arch is None or key.startswith(f"{arch}.") else f"{arch}.{key}"):
        raise UsageError(f"no program of {llama_cpp()} reads a key {key!r}", _guess(key))
    from gguftool.lint.catalogue import described

    if key in described():
        raise UsageError(f"{key!r} is not a key but a rule of lint", gguftool("rules", key))
    raise UsageError(f"{key!r} is not a key that gguftool knows", _guess(key))


def _whole(key: str, whole: str) -> Explanation:
    """A key without an architecture."""
    entry = load("keys.json")["keys"].get(whole, {})
    found = reading(key, "") or reading(whole, "")
    archs = whole_readers(whole) if found is None else ()
    if archs:
        found = reading(whole, archs[0])
    codes = found.programs if found is not None else ""
    return Explanation(
        key,
        _type(found.types if found is not None else ()) or entry.get("type", ""),
        entry.get("meaning") or _unwritten(whole, codes),
        f"llama.cpp, for {', '.join(archs)}" if archs else _programs(codes),
        archs,
        "every model" if key in ("general.architecture", "tokenizer.ggml.model") else "",
        tuple(text for code, text in _OTHERS.items() if code in entry.get("readers", "")),
    )


def _programs(codes: str) -> str:
    return " and ".join(text for code, text in _LLAMA_CPP.items() if code in codes)


def _unwritten(key: str, codes: str) -> str:
    """What can be said of a key without a text of its own."""
    if key.startswith("clip."):
        return "A hyperparameter of a multimodal projector; which ones a projector needs depends on its projector_type."
    if not codes:
        return "A name that llama.cpp has and does not read."
    who = "a few architectures of llama.cpp read it" if "L" in codes else "a program of llama.cpp reads it"
    return f"Not in the GGUF specification; {who}."


def _type(types: tuple[str, ...]) -> str:
    """Types in a few words: a scalar, or arrays of it as well."""
    arrays = [t for t in types if t.startswith("[")]
    return " or ".join([t for t in types if not t.startswith("[")] + arrays[:1])


def _known(suffix: str) -> bool:
    """A key under an architecture that somebody reads, names or describes."""
    return f"{ARCH}{suffix}" in load("keys.json")["keys"] or f"{ARCH}{suffix}" in named_keys() or bool(readers(suffix))


def known_keys() -> tuple[str, ...]:
    """Keys that `explain` knows, those of an architecture without their prefix; not those with a variable part."""
    short = {key.removeprefix(ARCH) for key in (*load("keys.json")["keys"], *named_keys())}
    return tuple(sorted(key for key in short if "{" not in key))


def _of_architecture(arch: str | None, suffix: str) -> Explanation:
    entry = load("keys.json")["keys"].get(f"{ARCH}{suffix}", {})
    who, listed = _who_reads(arch, suffix)
    found = reading(f"{arch}.{suffix}", arch) if arch is not None else reading(f"{ARCH}{suffix}", "")
    codes = found.programs if found is not None else "L" * bool(readers(suffix))
    text = entry.get("meaning") or _unwritten(f"{arch or _BARE}.{suffix}", codes)
    return Explanation(
        key=f"{arch or _BARE}.{suffix}",
        type=_type_under(arch, suffix) or entry.get("type", ""),
        meaning=text,
        llama_cpp=who,
        architectures=listed,
        required=_who_requires(arch, suffix),
        others=tuple(text for code, text in _OTHERS.items() if code in entry.get("readers", "")),
        condition=found.condition if found is not None and arch is not None else "",
    )


def _who_reads(arch: str | None, suffix: str) -> tuple[str, tuple[str, ...]]:
    reading_archs = readers(suffix)
    everywhere = reading_archs == ("*",)
    found = reading(f"{arch}.{suffix}", arch) if arch is not None else reading(f"{ARCH}{suffix}", "")
    others = _programs(found.programs.replace("L", "") if found is not None else "")
    if arch is not None:
        loader = f"llama.cpp, for {arch}" if f"{arch}.{suffix}" in read_keys(arch) else ""
        listed = () if loader or everywhere else reading_archs
        return "; ".join(x for x in (loader, others) if x), listed
    if everywhere:
        loader = "llama.cpp, for every architecture"
    elif len(reading_archs) > 100:
        loader = f"llama.cpp, for {len(reading_archs)} of {len(every_arch())} architectures"
    elif reading_archs:
        more = f" and {len(reading_archs) - 8} more" if reading_archs[8:] else ""
        loader = f"llama.cpp, for {', '.join(reading_archs[:8])}{more}"
    else:
        loader = ""
    return "; ".join(x for x in (loader, others) if x), () if everywhere else reading_archs


def _who_requires(arch: str | None, suffix: str) -> str:
    found = {arch for r, archs in read_under(suffix) if r.required == ALWAYS for arch in archs}
    asking = [arch for arch in every_arch() if arch in found]
    if len(asking) == len(every_arch()):
        return "every architecture"
    if arch is not None:
        return arch if arch in asking else ""
    if len(asking) > 8:
        return f"{len(asking)} architectures, among them {', '.join(asking[:4])}"
    return ", ".join(asking)


def _type_under(arch: str | None, suffix: str) -> str:
    """Type under one architecture, or under all that read it."""
    if arch is not None and (found := reading(f"{arch}.{suffix}", arch)) is not None:
        return _type(found.types)
    kinds = {_type(spelled(r)) for r, _ in read_under(suffix)}
    if not kinds and (found := reading(f"{ARCH}{suffix}", "")) is not None:
        return _type(found.types)
    words = {w for kind in kinds for w in kind.split(" or ")}
    return " or ".join(sorted(words, key=lambda w: (w.startswith("["), w)))


def _pattern(key: str) -> str:
    """The key as the table spells it, with its variable parts replaced."""
    key = re.sub(r"^(general\.(?:base_model|dataset))\.\d+\.", r"\1.{id}.", key)
    if key.startswith("tokenizer.chat_template."):
        return "tokenizer.chat_template.{name}"
    return FILLER_KEY if is_filler(key) else key


def _split(key: str) -> tuple[str | None, str]:
    """Architecture and the rest; None where no architecture is named."""
    head, _, rest = key.partition(".")
    if head in (_BARE, "arch"):
        return None, rest
    if rest and facts(head) is not None:
        return head, rest
    # clip., general. and the like are no architectures; an unknown prefix may be a new one.
    if rest and not _known(key) and _known(rest) and not covered(key):
        return None, rest
    return None, key


def _guess(key: str) -> str:
    table = [*load("keys.json")["keys"], *named_keys()]
    short = {k.removeprefix(ARCH): k for k in table}
    head, _, rest = key.partition(".")
    tried = [key, rest] if facts(head) is not None or head == _BARE else [key]
    near = [short[n] for t in tried if t for n in near_names(t.lower(), short)]
    near = list(dict.fromkeys(near))[:3]
    return f"did you mean {' or '.join(near)}?" if near else "`gguftool dump` lists the keys of a file"
