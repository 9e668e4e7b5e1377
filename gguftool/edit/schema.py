"""Value types of known metadata keys: the GGUF specification, and what llama.cpp reads (`facts/keys.py`).

llama.cpp refuses a scalar of another type than it expects (`llama-model-loader.cpp:get_key`, b11434), so an edit that
writes one must know. Types are written as in ``KEY:TYPE=VALUE``: ``u32``, ``[str]``.
"""

from __future__ import annotations

import re
from types import MappingProxyType

from gguftool.errors import UsageError
from gguftool.facts import keys
from gguftool.facts.keys import read_keys, read_under, reading, spelled
from gguftool.format.filler import is_filler
from gguftool.format.header import Field, Header
from gguftool.format.types import ARR, STR, value_type_name
from gguftool.format.values import parse_type
from gguftool.near import near_names
from gguftool.regex import regex


def _table(text: str) -> dict[str, str]:
    """``type key key …`` lines as a mapping."""
    out: dict[str, str] = {}
    for line in text.strip().splitlines():
        type_name, *keys = line.split()
        out.update(dict.fromkeys(keys, type_name))
    return out


_MODEL_CARD = "name author version organization description url doi uuid repo_url"

WHOLE = MappingProxyType(
    _table("""
str general.author general.version general.organization general.basename general.finetune general.quantized_by
str general.size_label general.license general.license.name general.license.link general.url general.doi general.uuid
str general.repo_url general.source.url general.source.doi general.source.uuid general.source.repo_url
str general.source.huggingface.repository
u32 general.quantization_version general.base_model.count general.dataset.count
[str] general.tags general.languages general.datasets
str tokenizer.huggingface.json tokenizer.rwkv.world
[str] tokenizer.ggml.added_tokens tokenizer.chat_templates
u32 tokenizer.ggml.cls_token_id tokenizer.ggml.sep_token_id tokenizer.ggml.separator_token_id
str gguftool.pad
str quantize.imatrix.file quantize.imatrix.dataset
u32 quantize.imatrix.entries_count quantize.imatrix.chunks_count
""")
)
"""Keys of the specification and of its writers that no program of llama.cpp reads."""

UNDER_ARCH = MappingProxyType(
    _table("""
f32 rope.freq_scale
str kv_cache_type tensor_data_layout
""")
)
"""Keys under an architecture that llama.cpp reads for none."""

ALSO = MappingProxyType(
    {
        "tokenizer.ggml.token_type": ("[i32]", "[u32]"),
        "tokenizer.ggml.precompiled_charsmap": ("[u8]", "[i8]"),
        "tokenizer.ggml.suppress_tokens": ("[i32]", "[u32]"),
        "quantize.imatrix.entries_count": ("u32", "i32"),
        "quantize.imatrix.chunks_count": ("u32", "i32"),
    }
)
"""Keys that may have several types; the first is what gguftool writes."""

TYPED = regex(r"(?P<key>.+?):(?P<type>\[?[a-z]+\d*\]?|arr\[[a-z]+\d*\])\Z", re.DOTALL)
"""``KEY:TYPE``."""
ELEMENT = regex(r"(?P<key>.+)\[(?P<index>[0-9]+)\]\Z", re.DOTALL)
"""``KEY[5]``."""
_PATTERNED = ("general.", "tokenizer.")
"""How all keys begin that a pattern stands for."""
_PATTERNS = (
    (regex(rf"general\.(base_model|dataset)\.\d+\.({_MODEL_CARD.replace(' ', '|')})"), "str"),
    (regex(r"tokenizer\.chat_template\.[^.]+"), "str"),
    (regex(r"tokenizer\.ggml\.add_\w+"), "bool"),
    (regex(r"tokenizer\.ggml\.\w+_token_id"), "u32"),
)


def key_types(key: str, arch: str) -> tuple[str, ...]:
    """All types a key may have, the preferred one first; empty for a key nobody knows.

    Args:
        key: whole key, with the architecture prefix.
        arch: the file's architecture, "" when it names none.
    """
    if key in ALSO:
        return ALSO[key]
    found = reading(key, arch)
    if found is not None:
        return found.types
    if key in WHOLE:
        return (WHOLE[key],)
    if key.startswith(_PATTERNED):
        for pattern, type_name in _PATTERNS:
            if pattern.fullmatch(key):
                return (type_name,)
    suffix = key[len(arch) + 1 :] if arch and key.startswith(f"{arch}.") else ""
    said = UNDER_ARCH.get(suffix)
    return (said,) if said else _anywhere(suffix)


_OURS = ("rope.freq_scale", "kv_cache_type")


def read_by(key: str, arch: str) -> str:
    """Who reads a key: ``llama.cpp`` (a loader), ``llama-server`` and tools beside it, ``gguftool``, or ``-``."""
    suffix = key[len(arch) + 1 :] if arch and key.startswith(f"{arch}.") else ""
    if is_filler(key) or suffix in _OURS:
        return "gguftool"
    found = reading(key, arch)
    # What the loader of projectors reads, it reads in projectors.
    projector = arch == "clip" or key.startswith("clip.")
    programs = set(found.programs) - (set() if projector else {"M"}) if found is not None else set()
    if not programs:
        return "llama-server" if key.startswith(_PATTERNED) and _SERVER.fullmatch(key) else "-"
    return "llama.cpp" if programs & set("LM") or key.startswith("adapter.") else "llama-server"


_SERVER = regex(r"general\.(tags|license)|tokenizer\.chat_template\..*")
"""What llama-server hands on as it is."""


def _anywhere(suffix: str) -> tuple[str, ...]:
    """Types of a key under an architecture where all that read it agree."""
    said = {spelled(r) for r, _ in read_under(suffix)} if suffix else set()
    return said.pop() if len(said) == 1 else ()


def known_keys(arch: str) -> list[str]:
    """Whole names of all keys with a known type, for near matches."""
    whole = {k for k in keys.named_keys() if "{" not in k and (arch == "clip" or not k.startswith("clip."))}
    return sorted({*read_keys(arch), *(f"{arch}.{k}" for k in UNDER_ARCH), *WHOLE, *whole})


def architecture(header: Header) -> str:
    """`general.architecture`, "" when it is absent or not a string."""
    f = header.get("general.architecture")
    return str(f.told) if f is not None and f.type == STR else ""


def type_text(field: Field) -> str:
    """Type of a field as ``KEY:TYPE=VALUE`` spells it: ``u32``, ``[str]``."""
    if field.type == ARR and field.element_type is not None:
        return f"[{value_type_name(field.element_type)}]"
    return value_type_name(field.type)


def spell_type(named: str) -> str:
    """A type name as this module writes it: ``string`` as ``str``, ``arr[u32]`` as ``[u32]``.

    Raises:
        UsageError: no such type.
    """
    type_id, element = parse_type(named)
    return f"[{value_type_name(element)}]" if element is not None else value_type_name(type_id)


def resolve_type(key: str, is_list: bool, named: str | None, header: Header, *, force: bool = False) -> str:
    """The type a value is written with: the one named, else the schema's, else the one the field has.

    Args:
        key: whole key.
        is_list: whether the value is a list.
        named: the type asked for, or None.
        header: the file's header, for its architecture and the field as it is.
        force: take the type named also when it is not the known one.

    Raises:
        UsageError: the type named is not the known one, or none is known and none was named.
    """
    arch = architecture(header)
    allowed = key_types(key, arch)
    if named is not None:
        spelled = spell_type(named)
        if allowed and spelled not in allowed and not force:
            right = " or ".join(allowed)
            raise UsageError(f"{key} is {right}, not {spelled}: readers expect that type", "leave the type out")
        return spelled
    field = header.get(key)
    present = type_text(field) if field is not None else None
    if allowed:
        fitting = [t for t in allowed if t.startswith("[") == is_list] or list(allowed)
        return present if present in fitting else fitting[0]
    if present is not None:
        return present
    near = _meant(key, arch)
    guess = f"did you mean {near}? Else name it" if near else "name it"
    example = f"{key}:[u32]=1,2" if is_list else f"{key}:u32=1 or {key}:str=text"
    raise UsageError(f"{key} is not a known key, so its type must be named", f"{guess}: {example}")


def _meant(key: str, arch: str) -> str | None:
    """The known key somebody may have meant: a slip, another architecture's prefix, or the prefix left out."""
    known = known_keys(arch)
    bare = key.removeprefix(f"{arch}.")
    for tried in (key, f"{arch}.{bare}", f"{arch}.{key.partition('.')[2]}"):
        if near := near_names(tried, known, 1, 0.8):
            return near[0]
    return min((k for k in known if k.endswith(f".{bare}")), key=len, default=None)


def brief(value: object, limit: int = 60) -> str:
    """A value in a few words, for messages (not yet safe for terminals)."""
    if isinstance(value, str):
        return value if len(value) <= limit else f"{value[: limit - 1]}…"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        n = len(value)
        head = ", ".join(brief(value[i], 16) for i in range(min(3, n)))
        return f"[{head}{f', … {n:,} in all' if n > 3 else ''}]"
    return str(value)
