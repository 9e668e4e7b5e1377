"""Types and spelling of keys."""

from __future__ import annotations

from gguftool.edit.ops import Operation, Rename, Set
from gguftool.facts.keys import fits, read_keys, readers, reading
from gguftool.format.header import Field
from gguftool.format.types import ARR, VALUE_TYPES
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.model import Model
from gguftool.near import near_names
from gguftool.quantity import whole

OURS = ("rope.freq_scale", "kv_cache_type")
"""Keys that gguftool itself reads, without the architecture."""
NO_TOKENIZER = ("none", "no_vocab")
"""Values of `tokenizer.ggml.model` with which llama.cpp reads no other tokenizer key."""
_OWN_RULES = frozenset(
    "general.architecture general.alignment tokenizer.ggml.model tokenizer.ggml.tokens tokenizer.ggml.scores "
    "tokenizer.ggml.token_type tokenizer.ggml.merges tokenizer.ggml.precompiled_charsmap tokenizer.chat_template "
    "general.tensor_extra.name general.tensor_extra.prec_a4".split()
)
"""Keys with rules of their own, or whose type llama.cpp never asks for."""
_SCALAR_IGNORED = ("attention.rope_pattern", "classifier.output_labels")
"""Arrays for which llama.cpp ignores a scalar instead of refusing it (measured), without the architecture."""
_WHOLE = {4: (0, 1 << 32), 2: (0, 1 << 16), 5: (-(1 << 31), 1 << 31)}
_SHORT = {"u32": 4, "u16": 2, "i32": 5}


@rule(Severity.ERROR, known_arch=True)
def key_type_wrong(m: Model, ctx: Context) -> Drafts:
    """A key must have exactly the type that llama.cpp reads it with.

    Why. There is no conversion: an i32 or u64 where a u32 is expected is refused, as is f64 for f32. Editors that
    guess the type from the value write such files.
    Evidence. `llama-model-loader.cpp:get_key` (b11434): "key … has wrong type … but expected type …"; of 7,472
    retyped keys 7,130 are refused, the others are never read.
    Example. qwen2.context_length is i32, llama.cpp reads u32
    Fix. Writes the same value with the right type, where that is possible.
    """
    for key, r in read_keys(m.architecture).items():
        f, kind = m.fields.get(key), r.kind
        if f is None or key in _OWN_RULES or key.startswith("split.") or fits(f, r):
            continue
        if f.type != ARR and key.partition(".")[2] in _SCALAR_IGNORED:
            continue
        if key.startswith("tokenizer.") and m.get("tokenizer.ggml.model") in NO_TOKENIZER:
            continue
        if r.condition and not _reached(m, key):
            continue
        wanted = kind.split(" or ")[0]
        yield found(
            f"{key} is {f.type_name}, llama.cpp reads {kind.replace('arr', 'an array')}",
            where=f"field:{key}",
            fix=_retyped(f, wanted),
            llama_cpp=_said(f, kind),
            type=f.type_name,
            expected=kind,
        )


def _reached(m: Model, key: str) -> bool:
    """llama.cpp looks for the key in this very file."""
    return key in m.arch.shape.asked or not m.arch.shape.complete or not key.startswith(f"{m.architecture}.")


_NAMED_ELEMENTS = ("u32", "i32", "f32", "str", "u64")


def _said(f: Field, kind: str) -> str:
    """llama.cpp's words for a field of a wrong type; they differ for arrays."""
    if f.type == ARR and "arr" in kind.split(" or "):
        element = f.type_name[4:-1]
        if element in _NAMED_ELEMENTS:
            return f"{f.key} has wrong array element type {element}"
        return f"{f.key} is not a string/float32/uint32/int32/uint64 array"
    own = "arr" if f.type == ARR else f.type_name
    return f"key {f.key} has wrong type {own} but expected type {kind.split(' or ')[0]}"


def _retyped(f: Field, wanted: str) -> Fix | None:
    """The same value with the wanted type, when nothing is lost."""
    if f.type == ARR:
        items = list(f.head(2))
        if f.count != 1 or wanted == "arr":
            return None
        value: object = items[0]
    else:
        value = f.told
    title = f"write the same value as {wanted}"
    ops: tuple[Operation, ...]
    if wanted in _SHORT:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, str):
            value = whole(value.strip())
        low, high = _WHOLE[_SHORT[wanted]]
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value < high:
            return None
        ops = (Set(f.key, value, wanted),)
    elif wanted == "f32":
        try:
            number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None:
            return None
        ops = (Set(f.key, number, wanted),)
    elif wanted == "bool":
        if value not in (0, 1, "true", "false"):
            return None
        ops = (Set(f.key, value in (1, "true"), wanted),)
    else:
        return None
    return Fix(title, ops, safe=True)


@rule(Severity.WARNING, known_arch=True)
def key_misspelt(m: Model, ctx: Context) -> Drafts:
    """A key that looks like a known one but is not.

    Why. llama.cpp ignores unknown keys without a word. A key that differs by a letter or two from one it reads,
    and that one missing, is a slip.
    Evidence. `llama-model-loader.cpp` (b11434) looks keys up by exact name; the specification's own
    `tokenizer.ggml.seperator_token_id` is spelt that way on purpose.
    Example. llama.context_lenght: did you mean llama.context_length?
    Fix. `gguftool fix --rename OLD=NEW`.
    """
    known = read_keys(m.architecture)
    for key, f in m.fields.items():
        head, _, rest = key.partition(".")
        if key in known or rest in OURS or not (head == m.architecture or key.startswith("tokenizer.ggml.")):
            continue
        if head == m.architecture and readers(rest):
            continue
        alike = [k for k in near_names(key, (k for k in known if k not in m), 3, 0.9) if fits(f, known[k])]
        alike = [k for k in alike if not _grown(key, k)]
        if alike:
            yield found(
                f"{key}: no program reads it; did you mean {alike[0]}?",
                where=f"field:{key}",
                fix=Fix(f"rename {key} to {alike[0]}", (Rename(key, alike[0]),)),
                near=alike[0],
            )


def _grown(key: str, known: str) -> bool:
    """The key is the known one with a part added or changed as a word: `_swa`, `_mla`, `scale`/`norm`."""
    a, b = set(key.replace(".", "_").split("_")), set(known.replace(".", "_").split("_"))
    return (bool(a - b) and all(len(near_names(w, b - a, 1, 0.7)) == 0 for w in a - b)) or a < b or b < a


@rule(Severity.INFO, known_arch=True)
def key_unread(m: Model, ctx: Context) -> Drafts:
    """Keys that llama.cpp reads for other architectures, but not for this one.

    Why. They do nothing here. The converter writes the YaRN details (`yarn_beta_fast` and so on) for every model,
    and llama.cpp reads them for grok and mistral3 only: changing them changes nothing.
    Evidence. The loading functions of all architectures (`models/*.cpp:load_arch_hparams`, b11434); every key of 133
    of them was also probed with a wrong type: a key that is not refused is not read.
    Example. llama.rope.scaling.yarn_beta_fast is not read by llama.cpp for llama (for grok, mistral3 it is)
    Fix. None needed.
    """
    arch = m.architecture
    known = read_keys(arch)
    dead = []
    for key in m.fields:
        head, _, rest = key.partition(".")
        if head == arch and key not in known and rest not in OURS and readers(rest):
            dead.append(key)
    if not dead:
        return
    first = dead[0].partition(".")[2]
    others = readers(first)
    listed = ", ".join(others[:3]) + (" …" if len(others) > 3 else "")
    more = f"; so are {len(dead) - 1} more: {', '.join(dead[1:4])}{' …' if len(dead) > 4 else ''}" if dead[1:] else ""
    yield found(
        f"{dead[0]} is not read by llama.cpp for {arch} (for {listed} it is){more}", where=f"field:{dead[0]}", keys=dead
    )


@rule(Severity.WARNING, whole=False, changes_run=False)
def spec_type_odd(m: Model, ctx: Context) -> Drafts:
    """Keys of the specification should have its types, also where llama.cpp does not read them.

    Why. Hubs, user interfaces and converters read `general.license`, `general.tags` and the sampling defaults; a
    number where they expect text makes them stop or ignore it.
    Evidence. GGUF specification, standard key table; llama.cpp b11434 loads such files silently.
    Example. general.license is [str], the specification says str
    Fix. `gguftool fix --set KEY=VALUE`.
    """
    from gguftool.facts.data import load

    entries = load("keys.json")["keys"]
    known = read_keys(m.architecture) if m.architecture else {}
    for key, f in m.fields.items():
        if key not in entries or key in known or key.startswith(("tokenizer.", "split.")):
            continue
        read = reading(key, m.architecture)
        types = read.types if read is not None else tuple(entries[key].get("type", "").split(" or "))
        if types == ("",):
            continue
        own = (
            f"[{VALUE_TYPES[f.element_type].name}]" if f.element_type in VALUE_TYPES and f.type == ARR else f.type_name
        )
        if own in types or (key == "general.alignment"):
            continue
        if f.count == 0 and types[0].startswith("["):
            continue
        yield found(
            f"{key} is {own}, the specification says {' or '.join(types)}",
            where=f"field:{key}",
            type=own,
            expected=" or ".join(types),
        )
