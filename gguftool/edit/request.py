"""What a person types of keys - ``KEY[:TYPE]=VALUE``, ``OLD=NEW`` - as operations."""

from __future__ import annotations

from gguftool.edit.ops import Delete, Operation, Rename, Set, SetElement
from gguftool.edit.schema import ELEMENT, TYPED, key_types, resolve_type, spell_type, type_text
from gguftool.errors import UsageError
from gguftool.format.types import VALUE_TYPE_BY_NAME
from gguftool.format.values import parse_text
from gguftool.model import Model
from gguftool.shell import ELLIPSIS, gguftool, path_word


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
    return value_operation(model, *typed(model, left), value)


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


def typed(model: Model, left: str) -> tuple[str, str | None]:
    """Key and type of ``KEY[:TYPE]``; a colon that is followed by no type belongs to the key."""
    name, colon, kind = left.rpartition(":")
    if name and kind in VALUE_TYPE_BY_NAME and left not in model.fields:
        return model.full_key(name), spell_type(kind)
    m = TYPED.match(left) if colon else None
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
