"""Keys that say how a file was made; docs/build.md describes them.

They are text except where llama-quantize writes numbers, short enough for llama-quantize's own ``--override-kv``
(127 bytes), and hold no folder names of the machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from gguftool.build.imatrix import Imatrix
from gguftool.build.step import FLOATS
from gguftool.format.header import Field
from gguftool.format.types import Layout
from gguftool.format.values import make_field
from gguftool.model import Model
from gguftool.model.called import place_of
from gguftool.version import __version__

LONGEST = 127
"""Bytes that llama.cpp's overrides hold (`llama.h:llama_model_kv_override`)."""


def short(text: str) -> str:
    """``text`` cut to what an override holds, at a whole character."""
    return text.encode("utf-8", "replace")[:LONGEST].decode("utf-8", "ignore")


def quantized(model: Model, engine: str, target: str) -> dict[str, str | int]:
    """Keys for a file that ``engine`` quantised to ``target`` from ``model``."""
    types: dict[str, int] = {}
    for t in model.all_tensors():
        if len(t.shape) > 1:
            types[t.type_name] = types.get(t.type_name, 0) + (t.nbytes or 0)
    source = max(types, key=lambda name: types[name], default="F32")
    rows: dict[str, str | int] = {
        "gguftool.version": __version__,
        "gguftool.quantize.engine": short(engine),
        "gguftool.quantize.type": target,
        "gguftool.quantize.source_type": source,
    }
    if source not in FLOATS:
        rows["gguftool.quantize.requantized"] = "yes"
    return rows


def converted(converter: str, source: str, pre: str | None) -> dict[str, str]:
    """Keys for a file that ``converter`` made from the folder ``source``; of the folder only its name is kept."""
    rows = {
        "gguftool.version": __version__,
        "gguftool.convert.converter": short(converter),
        "gguftool.convert.source": short(source_name(source)),
    }
    return rows | ({"gguftool.convert.pre": pre} if pre else {})


def source_name(source: str) -> str:
    """``owner/repo@commit`` for a snapshot in the Hugging Face cache, else the folder's name."""
    place = place_of(source)
    if place is not None and place.commit:
        return f"{place.repo}@{place.commit}"
    return os.path.basename(os.path.abspath(source))


def with_imatrix(imatrix: Imatrix | None) -> dict[str, str | int]:
    """The keys llama-quantize writes when an importance matrix was used (`quantize.cpp`, b11434)."""
    if imatrix is None:
        return {}
    rows: dict[str, str | int] = {"quantize.imatrix.file": short(imatrix.path)}
    if imatrix.dataset:
        rows["quantize.imatrix.dataset"] = short(imatrix.dataset)
    rows["quantize.imatrix.entries_count"] = len(imatrix.entries)
    if imatrix.chunks > 0:
        rows["quantize.imatrix.chunks_count"] = imatrix.chunks
    return rows


def fields(rows: Mapping[str, str | int]) -> tuple[Field, ...]:
    """The same as fields of a header: text as str, numbers as u32."""
    layout = Layout()
    return tuple(make_field(k, "str" if isinstance(v, str) else "u32", v, layout) for k, v in rows.items())
