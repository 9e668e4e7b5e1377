"""What a person types - ``KEY[:TYPE]=VALUE``, token texts, sampler settings - as operations."""

from __future__ import annotations

import contextlib
import json
import math

from gguftool.edit.ops import Delete, Operation, Rename, Set, SetElement
from gguftool.edit.schema import key_types, resolve_type, spell_type, type_text
from gguftool.edit.spelled import ELEMENT, TYPED
from gguftool.errors import UsageError
from gguftool.format.header import Field
from gguftool.format.values import parse_text
from gguftool.model import Model
from gguftool.near import near_names
from gguftool.quantity import whole
from gguftool.reading import from_json
from gguftool.shell import ELLIPSIS, gguftool, path_word, shell

_SAMPLING = "general.sampling."
SAMPLING: dict[str, tuple[float | None, float | None]] = {
    "temp": (0, None), "top_k": (0, None), "top_p": (0, 1), "min_p": (0, 1), "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1), "penalty_last_n": (-1, None), "penalty_repeat": (0, None), "mirostat": (0, 2),
    "mirostat_tau": (0, None), "mirostat_eta": (0, None), "sequence": (None, None),
}  # fmt: skip
"""Sampler settings and the bounds that llama.cpp's samplers make sense in; None: no bound."""
_ALIASES = {"temperature": "temp", "repeat_penalty": "penalty_repeat", "repeat_last_n": "penalty_last_n"}
SPECIAL = {
    name: f"tokenizer.ggml.{word}_token_id"
    for name, word in {
        "bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "unk": "unknown", "sep": "seperator", "pad": "padding",
        "mask": "mask", "fim_pre": "fim_pre", "fim_suf": "fim_suf", "fim_mid": "fim_mid", "fim_pad": "fim_pad",
        "fim_rep": "fim_rep", "fim_sep": "fim_sep",
    }.items()
}  # fmt: skip
"""Short names of special tokens -> keys, as llama.cpp spells them."""
CONTROL = 3
"""Token type of control tokens (`llama.h:LLAMA_TOKEN_TYPE_CONTROL`)."""


def set_operation(model: Model, text: str) -> Operation:
    """``KEY[:TYPE]=VALUE`` or ``KEY[5]=VALUE`` as an operation.

    Raises:
        UsageError: no ``=``, an unknown key without a type, a value that is not of the type.
    """
    left, equals, value = text.partition("=")
    if not equals or not left:
        raise UsageError(
            f"--set {text}: must be KEY=VALUE or KEY:TYPE=VALUE", "for example --set general.name='My model'"
        )
    if value == ELLIPSIS:
        raise UsageError(f"--set {text}: put the value in place of {ELLIPSIS}")
    element = ELEMENT.match(left) if left.endswith("]") else None
    if element is not None:
        return element_operation(model, model.full_key(element["key"]), int(element["index"]), value)
    return value_operation(model, *_typed(model, left), value)


def value_operation(model: Model, key: str, named: str | None, value: str, *, force: bool = False) -> Set:
    """A whole key, the type asked for (None: the known one) and a value as text, as an operation.

    Raises:
        UsageError: an unknown key without a type, or a value that is not of the type.
    """
    type_name = resolve_type(key, _looks_like_list(model, key, value), named, model.header, force=force)
    return Set(key, parse_text(type_name, value, key), type_name)


def element_operation(model: Model, key: str, index: int, value: str) -> SetElement:
    """A value as text for one element of an array, as an operation.

    Raises:
        UsageError: no such key, or a value that is not of the type.
    """
    return SetElement(key, index, _element_value(model, key, value))


def set_file_operation(model: Model, text: str) -> Operation:
    """``KEY[:TYPE]=PATH``: the content of a file as the value (str: as it is; [u8]: its bytes; [str]: its lines)."""
    left, equals, path = text.partition("=")
    if not equals or not left or not path:
        raise UsageError(f"--set-file {text}: must be KEY=PATH")
    key, named = _typed(model, left)
    data = read_file(path)
    type_name = resolve_type(key, False, named, model.header)
    if type_name == "[u8]":
        return Set(key, list(data), type_name)
    content = decode_text(data, path)
    if type_name == "str":
        return Set(key, content, type_name)
    if type_name == "[str]":
        return Set(key, _strings(content), type_name)
    return Set(key, parse_text(type_name, content.strip(), key), type_name)


def _strings(content: str) -> list[str]:
    """A JSON list of strings, or else one string a line.

    A vocabulary may begin with ``[PAD]``, and has tokens that Python takes for the end of a line: only a newline ends
    one, with the carriage return in front of it.
    """
    if content.lstrip().startswith("["):
        with contextlib.suppress(ValueError):
            return [one if isinstance(one, str) else json.dumps(one) for one in from_json(content)]
    lines = content.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def delete_operation(model: Model, text: str) -> Operation:
    """``KEY`` as an operation."""
    return Delete(model.full_key(text))


def rename_operations(model: Model, text: str) -> list[Operation]:
    """``OLD=NEW`` as operations; a new name without a prefix gets the architecture's, ``OLD.*=NEW.*`` is all of a kind.

    Raises:
        UsageError: not of that form, or no key begins like that.
    """
    old, equals, new = text.rpartition("=")
    if not equals or not old or not new:
        raise UsageError(f"--rename {text}: must be OLD=NEW")
    if not (old.endswith(".*") and new.endswith(".*")):
        return [Rename(model.full_key(old), model.full_key(new))]
    keys = [key for key in model.fields if key.startswith(old[:-1])]
    if not keys:
        hint = gguftool("dump", "--no-tensors", path_word(model.name))
        raise UsageError(f"--rename {text}: no key begins with {old[:-1]}", hint)
    return [Rename(key, new[:-1] + key[len(old) - 1 :]) for key in keys]


def sampling_operations(text: str) -> list[Operation]:
    """``temp=0.3,top_k=40`` as operations on `general.sampling.*`, which llama.cpp takes where no flag is given."""
    out: list[Operation] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        name = name.strip().lower().replace("-", "_")
        name = _ALIASES.get(name, name)
        if name not in SAMPLING or not equals:
            near = near_names(name, SAMPLING, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"--sampling {part}: unknown setting", f"{hint}settings: {', '.join(SAMPLING)}")
        key = _SAMPLING + name
        (kind,) = key_types(key, "")
        number = parse_text(kind, value.strip(), f"--sampling {name}")
        low, high = SAMPLING[name]
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            bad = (
                not math.isfinite(number) or (low is not None and number < low) or (high is not None and number > high)
            )
            if bad:
                bounds = f"from {low} to {high}" if high is not None else f"{low} or more"
                raise UsageError(f"--sampling {name}={value}: must be {bounds}")
        out.append(Set(key, number, kind))
    if not out:
        raise UsageError("--sampling: name at least one setting", "for example --sampling temp=0.3,top_k=40")
    return out


def special_operation(model: Model, text: str) -> tuple[Operation, str | None]:
    """``eos=<|im_end|>`` as an operation on the token id, and a note when the token is not a control token.

    Raises:
        UsageError: an unknown name, or a text that is no token; the message names near ones.
    """
    name, equals, token = text.partition("=")
    key = SPECIAL.get(name.strip().lower())
    if key is None or not equals or not token:
        raise UsageError(f"--special {text}: must be NAME=TOKEN", "names: " + ", ".join(SPECIAL))
    if token == ELLIPSIS:
        raise UsageError(f"--special {text}: put the token in place of {ELLIPSIS}")
    field = model.fields.get("tokenizer.ggml.tokens")
    if field is None or type_text(field) != "[str]":
        raise UsageError(f"{model.name}: has no list of tokens", "give the id: --set " + key + "=ID")
    tokens = field.value
    if not isinstance(tokens, list):
        raise UsageError(f"{model.name}: tokenizer.ggml.tokens is not a list")
    index = _index(tokens, token)
    types = model.fields.get("tokenizer.ggml.token_type")
    if index is None:
        near = [repr(t) for t in _near_tokens(tokens, types, token)]
        raise UsageError(
            f"--special {name}: {token!r} is no token of this model", f"near: {', '.join(near)}" if near else None
        )
    note = None
    kind = types.head(1, index) if types is not None else []
    if kind and kind[0] != CONTROL and name not in ("unk",):
        note = (
            f"token {index} ({token}) is not marked as a control token, so llama.cpp would print it as text; "
            f"marked by {shell(('--set', f'tokenizer.ggml.token_type[{index}]={CONTROL}'))}"
        )
    return Set(key, index, "u32"), note


def _index(tokens: list[object], token: str) -> int | None:
    if token in tokens:
        return tokens.index(token)
    index = whole(token)
    return index if index is not None and index < len(tokens) else None


def _near_tokens(tokens: list[object], types: Field | None, token: str) -> list[str]:
    """Tokens that resemble the text; control and user-defined ones where types are known, as special ones are."""
    texts = [str(t) for t in tokens]
    if types is not None:
        kinds = types.head(len(texts))
        texts = [t for t, kind in zip(texts, kinds, strict=False) if kind in (CONTROL, 4)]
    texts = [t for t in texts if abs(len(t) - len(token)) <= 4][:20000]
    return near_names(token, texts)


def read_file(path: str, unless: bytes = b"") -> bytes:
    """The bytes of a file named by the user.

    Raises:
        UsageError: it cannot be read, or is larger than 64 MiB.
    """
    try:
        with open(path, "rb") as f:
            data = f.read(len(unless))
            if unless and data == unless:
                return data
            data += f.read((64 << 20) + 1 - len(data))
    except OSError as e:
        raise UsageError(f"{path}: {(e.strerror or str(e)).lower()}") from None
    if len(data) > 64 << 20:
        raise UsageError(f"{path}: larger than 64 MiB")
    return data


def decode_text(data: bytes, path: str) -> str:
    """Text of a file; it must be UTF-8."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise UsageError(f"{path}: is not UTF-8 (byte {e.start:,})") from None


def _typed(model: Model, left: str) -> tuple[str, str | None]:
    """Key and type of ``KEY[:TYPE]``; a colon that is followed by no type belongs to the key."""
    m = TYPED.match(left) if ":" in left else None
    if m is not None and left not in model.fields:
        return model.full_key(m["key"]), spell_type(m["type"])
    return model.full_key(left), None


def _looks_like_list(model: Model, key: str, text: str) -> bool:
    allowed = key_types(key, model.architecture)
    field = model.fields.get(key)
    names = allowed or ((type_text(field),) if field is not None else ())
    if names and all(n.startswith("[") for n in names):
        return True
    return any(n.startswith("[") for n in names) and ("," in text or text.lstrip().startswith("["))


def _element_value(model: Model, key: str, text: str) -> object:
    field = model.fields.get(key)
    if field is None:
        raise UsageError(f"there is no key {key} in this file")
    name = type_text(field)
    return parse_text(name[1:-1], text, key) if name.startswith("[") else text
