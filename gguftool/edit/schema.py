"""Value types of known metadata keys: the GGUF specification, and what llama.cpp b11434 reads.

llama.cpp refuses a scalar of another type than it expects (`llama-model-loader.cpp:get_key`, b11434), so an edit that
writes one must know. Types are written as in ``KEY:TYPE=VALUE``: ``u32``, ``[str]``.
"""

from __future__ import annotations

import re
from functools import cache
from types import MappingProxyType

from gguftool.errors import UsageError
from gguftool.facts.data import load
from gguftool.format.header import Field, Header
from gguftool.format.types import ARR, STR, value_type_name
from gguftool.format.values import parse_type
from gguftool.near import near_names


def _table(text: str) -> dict[str, str]:
    """``type key key …`` lines as a mapping."""
    out: dict[str, str] = {}
    for line in text.strip().splitlines():
        type_name, *keys = line.split()
        out.update(dict.fromkeys(keys, type_name))
    return out


_MODEL_CARD = "name author version organization description url doi uuid repo_url"

# Keys of the GGUF specification and of gguf-py's writer that are whole (no architecture prefix).
WHOLE = MappingProxyType(
    _table("""
str general.architecture general.type general.name general.author general.version general.organization
str general.basename general.finetune general.description general.quantized_by general.size_label general.license
str general.license.name general.license.link general.url general.doi general.uuid general.repo_url
str general.source.url general.source.doi general.source.uuid general.source.repo_url
str general.source.huggingface.repository
u32 general.quantization_version general.alignment general.file_type general.base_model.count general.dataset.count
[str] general.tags general.languages general.datasets
str general.sampling.sequence
i32 general.sampling.top_k general.sampling.penalty_last_n general.sampling.mirostat
f32 general.sampling.top_p general.sampling.min_p general.sampling.xtc_probability general.sampling.xtc_threshold
f32 general.sampling.temp general.sampling.penalty_repeat general.sampling.mirostat_tau general.sampling.mirostat_eta
u16 split.no split.count
i32 split.tensors.count
str tokenizer.ggml.model tokenizer.ggml.pre tokenizer.chat_template tokenizer.huggingface.json tokenizer.rwkv.world
[str] tokenizer.ggml.tokens tokenizer.ggml.merges tokenizer.ggml.added_tokens tokenizer.chat_templates
[f32] tokenizer.ggml.scores
[i32] tokenizer.ggml.token_type
u32 tokenizer.ggml.cls_token_id tokenizer.ggml.sep_token_id tokenizer.ggml.separator_token_id
[u8] tokenizer.ggml.precompiled_charsmap
str adapter.type
f32 adapter.lora.alpha
str gguftool.pad
str quantize.imatrix.file quantize.imatrix.dataset
u32 quantize.imatrix.entries_count quantize.imatrix.chunks_count
""")
)

# Keys under an architecture that the specification or gguftool knows beyond those llama.cpp reads everywhere.
UNDER_ARCH = MappingProxyType(
    _table("""
f32 rope.freq_scale rope.scale_linear rope.scaling.yarn_log_multiplier
str kv_cache_type tensor_data_layout
bool use_parallel_residual
f32 attention.max_alibi_bias attention.clamp_kqv attention.layer_norm_epsilon attention.layer_norm_rms_epsilon
u32 vocab_size attention.key_length attention.value_length attention.sliding_window rope.dimension_count
""")
)

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

_PATTERNS = (
    (re.compile(rf"general\.(base_model|dataset)\.\d+\.({_MODEL_CARD.replace(' ', '|')})"), "str"),
    (re.compile(r"tokenizer\.chat_template\.[^.]+"), "str"),
    (re.compile(r"tokenizer\.ggml\.add_\w+"), "bool"),
    (re.compile(r"tokenizer\.ggml\.\w+_token_id"), "u32"),
)
# "arr" in the data file names no element type: numbers per layer, of the same kind as the scalar it stands beside.
_ELEMENTS = {"f32": ("[f32]",), "i32": ("[i32]", "[u32]")}
_PER_LAYER = ("[u32]", "[i32]", "[bool]")


def key_types(key: str, arch: str) -> tuple[str, ...]:
    """All types a key may have, the preferred one first; empty for a key nobody knows.

    Args:
        key: whole key, with the architecture prefix.
        arch: the file's architecture, "" when it names none.
    """
    if key in ALSO:
        return ALSO[key]
    if key in WHOLE:
        return (WHOLE[key],)
    for pattern, type_name in _PATTERNS:
        if pattern.fullmatch(key):
            return (type_name,)
    read = load("keytypes.json")
    template = key
    if arch and key.startswith(arch + "."):
        template = "%s." + key[len(arch) + 1 :]
    said = read["arch"].get(arch, {}).get(template) or read["every_arch"].get(template)
    if said is None and template != key:
        suffix = template[3:]
        said = UNDER_ARCH.get(suffix) or _anywhere().get(template)
    return _spelled(said) if said else ()


def key_type(key: str, arch: str) -> str | None:
    """The type gguftool writes for a known key (``u32``, ``[str]``); None for a key nobody knows.

    Args:
        key: whole key, with the architecture prefix.
        arch: the file's architecture, "" when it names none.
    """
    types = key_types(key, arch)
    return types[0] if types else None


def _spelled(said: str) -> tuple[str, ...]:
    """``u32 or arr`` as type names."""
    out: list[str] = []
    for word in said.split(" or "):
        out.extend(_ELEMENTS.get(out[0] if out else "", _PER_LAYER) if word == "arr" else (word,))
    return tuple(dict.fromkeys(out))


_SERVER = re.compile(r"general\.sampling\..*|tokenizer\.chat_template(\..*)?|general\.(name|tags|license)")
_OURS = ("rope.freq_scale", "kv_cache_type")
_ALWAYS = frozenset(
    {"general.architecture", "general.alignment", "split.no", "split.tensors.count", "tokenizer.ggml.model"}
)


def read_by(key: str, arch: str) -> str:
    """Who reads a key: ``llama.cpp`` (its loader), ``llama-server`` and the tools beside it, ``gguftool``, or ``-``."""
    template = "%s." + key[len(arch) + 1 :] if arch and key.startswith(arch + ".") else key
    if key == "gguftool.pad" or template.removeprefix("%s.") in _OURS:
        return "gguftool"
    read = load("keytypes.json")
    if key in _ALWAYS or template in read["arch"].get(arch, {}) or template in read["every_arch"]:
        return "llama.cpp"
    return "llama-server" if _SERVER.fullmatch(key) else "-"


@cache
def _anywhere() -> dict[str, str]:
    """Type of each templated key where all architectures that read it agree."""
    seen: dict[str, set[str]] = {}
    for keys in load("keytypes.json")["arch"].values():
        for template, said in keys.items():
            seen.setdefault(template, set()).add(said)
    return {template: said.pop() for template, said in seen.items() if len(said) == 1}


def known_keys(arch: str) -> list[str]:
    """Whole names of all keys with a known type, for near matches."""
    read = load("keytypes.json")
    templates = {*read["every_arch"], *read["arch"].get(arch, {}), *(f"%s.{k}" for k in UNDER_ARCH)}
    return sorted({t.replace("%s", arch) for t in templates} | set(WHOLE))


def architecture(header: Header) -> str:
    """`general.architecture`, "" when it is absent or not a string."""
    f = header.get("general.architecture")
    return str(f.value) if f is not None and f.type == STR else ""


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
