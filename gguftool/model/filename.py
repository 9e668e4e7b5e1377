"""What the name of a file says of the model in it (quantisation, number of parameters), and what the file holds."""

from __future__ import annotations

import os
import re

from gguftool.format.types import FILE_TYPES, file_type_name
from gguftool.model.model import Model
from gguftool.model.shards import NAME
from gguftool.regex import regex

_QUANT = regex(
    r"(?<![A-Za-z0-9])(?P<label>IQ\d_(?:XXS|XS|NL|S|M|L)|Q\d_(?:K(?:_(?:XXL|XL|S|M|L))?|0|1)|TQ[12]_0|MXFP4(?:_MOE)?"
    r"|NVFP4|BF16|FP?16|FP?32)(?![A-Za-z0-9])",
    re.I,
)
_SIZE = regex(r"(?<![A-Za-z0-9.])(?:(?P<times>\d{1,3})x)?(?P<n>\d{1,4}(?:\.\d{1,3})?)(?P<unit>[KMBTbm])(?![A-Za-z0-9])")
_UNIT = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}
_MIXED = regex(r"(?<![A-Za-z0-9])UD(?![A-Za-z0-9])")
"""Mark of a mixture of one's own beside a known label."""


def stem(path: str) -> str:
    """The name without its ending and without the number of a shard."""
    name = os.path.basename(path)
    shard = NAME.match(name)
    return shard["prefix"] if shard else name[:-5] if name.lower().endswith(".gguf") else name


def label(path: str) -> str:
    """The quantisation that a name speaks of, in capitals as llama.cpp writes it; "" for none."""
    found = list(_QUANT.finditer(stem(path)))
    return found[-1]["label"].upper().replace("FP16", "F16").replace("FP32", "F32") if found else ""


def relabelled(path: str, right: str) -> str:
    """The name (of the first shard, of a set) with another quantisation in it."""
    name = stem(path)
    found = list(_QUANT.finditer(name))
    if not found:
        return f"{name}-{right}"
    at = found[-1]
    return name[: at.start("label")] + right + name[at.end("label") :]


def unlabelled(path: str) -> str:
    """The name without the quantisation in it."""
    name = stem(path)
    found = list(_QUANT.finditer(name))
    if not found:
        return name
    at = found[-1]
    return (name[: at.start("label")].rstrip("-_. ") + name[at.end("label") :]).strip("-_. ")


def sizes(path: str) -> tuple[int, ...]:
    """The numbers of parameters that a name speaks of: ``8x7B`` is 56 thousand million."""
    found = _SIZE.finditer(stem(path))
    return tuple(round(int(m["times"] or 1) * float(m["n"]) * _UNIT[m["unit"].upper()]) for m in found)


def resized(path: str, right: str) -> str:
    """The name with another number of parameters in the place of the largest."""
    name = stem(path)
    found = list(_SIZE.finditer(name))
    if not found:
        return name
    at = max(found, key=lambda m: float(m["n"]) * _UNIT[m["unit"].upper()])
    return name[: at.start()] + right + name[at.end() :]


def holds(m: Model) -> tuple[str, str, float]:
    """What the tensors are.

    Returns:
        the label of the file's own key ("" without one), the type of most weights and their share of the bytes.
    """
    weights: dict[str, int] = {}
    for t in m.all_tensors():
        if len(t.shape) > 1 and t.info.type is not None and t.nbytes:
            weights[t.type_name] = weights.get(t.type_name, 0) + t.nbytes
    most = max(weights, key=lambda name: weights[name], default="")
    share = weights[most] / sum(weights.values()) if most else 0.0
    ftype = m.get("general.file_type")
    known = isinstance(ftype, int) and not isinstance(ftype, bool) and (ftype & ~1024) in FILE_TYPES
    return file_type_name(ftype) if known and isinstance(ftype, int) else "", most, share


def agrees(m: Model, said: str) -> bool:
    """Whether the tensors are what a name says; a mixture of one's own under a known label is."""
    own, most, _ = holds(m)
    if not most or said == own:
        return True
    types = {t.type_name for t in m.all_tensors() if len(t.shape) > 1}
    kind = _kind(said)
    if _MIXED.search(stem(m.name)) and any(_kind(t) == kind or _bits(t) == _bits(said) for t in types):
        return True
    if own and _kind(own) == kind:
        # Two recipes of one type are told apart where both are llama.cpp's own.
        return said not in FILE_TYPES.values() or own not in FILE_TYPES.values()
    if said not in FILE_TYPES.values():
        return _bits(most) == _bits(said) or _bits(own) == _bits(said)
    return (not own or not _true(own, types)) and (
        _kind(most) == kind or (said.startswith("IQ") and _bits(most) == _bits(said))
    )


def _true(own: str, types: set[str]) -> bool:
    """Whether the file's own label is one of its tensors'."""
    return own in types or _kind(own) in {_kind(t) for t in types} or own.startswith("IQ")


def _kind(name: str) -> str:
    """Q4_K of Q4_K_M."""
    return re.sub(r"_(?:XXL|XL|S|M|L|MOE)\Z", "", name) if name.startswith(("Q", "MXFP4")) else name


def _bits(name: str) -> str:
    digits = re.search(r"\d+", name)
    return digits[0] if digits else name
