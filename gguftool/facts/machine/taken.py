"""Values as the readers of side files take them: straight from the record (`gguf.cpp:gguf_get_val_*`, b11434).

They do not ask for the type first, so another one is no error message but the end of the process.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gguftool.facts.machine.ends import Abort
from gguftool.format.header import LONG, Field
from gguftool.format.types import ARR, value_type_name

_COUNT = "GGML_ASSERT(ctx->kv[key_id].get_ne() == 1) failed"
_TYPE = "GGML_ASSERT(type_to_gguf_type<T>::value == type) failed"


def taken(fields: Mapping[str, Field], key: str, type_name: str) -> Any:
    """The value of a key, None when it is absent; an array of one element is taken for its element.

    Args:
        fields: of one file, by key.
        key: the whole key.
        type_name: ``str``, ``u32``, ``f32``, …: the type of the getter.

    Raises:
        Abort: it has another type, or is an array of another length.
    """
    f = fields.get(key)
    if f is None:
        return None
    if f.type == ARR and f.count != 1:
        raise Abort(_COUNT, f"field:{key}", got=f.type_name)
    element = f.type if f.element_type is None else f.element_type
    if value_type_name(element) != type_name:
        raise Abort(_TYPE, f"field:{key}", expected=type_name, got=f.type_name)
    value = f.head(1, most=LONG)[0] if f.type == ARR else f.told
    return value.partition("\0")[0] if isinstance(value, str) else value
