"""Shards that do not belong to the others: of another quantisation, or of another model.

llama.cpp loads such mixtures without a word as long as names and shapes fit. What shows them is that a tensor's role
(its name without the layer number) has the same type and shape all over a model, but for a few roles that quantisers
treat by layer.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from gguftool.format.header import Header, TensorInfo
from gguftool.format.types import file_type_name
from gguftool.regex import regex
from gguftool.verify.result import Fault

STRONG = 0.6
"""Share of the roles in common that must disagree before a shard counts as foreign."""
LEAST_ROLES = 2
_NUMBER = regex(r"\d+")

Roles = Mapping[str, set[object]]


def foreign(headers: Mapping[int, Header]) -> tuple[list[Fault], list[Fault]]:
    """Faults and notes about shards that do not fit the others.

    Args:
        headers: header by shard number (from 1).
    """
    faults: list[Fault] = []
    notes: list[Fault] = []
    types = {no: _roles(h, lambda t: t.type_name) for no, h in headers.items()}
    shapes = {no: _roles(h, lambda t: t.shape) for no, h in headers.items()}
    width = _width(headers)
    for no, (share, known) in _odd(shapes).items():
        if share < STRONG or width is None:
            continue
        # Layers of one model may differ in nearly every shape (deci, openelm), but never in their width.
        wide = _as_wide([headers[no]], width)
        if wide < _as_wide([h for n, h in headers.items() if n != no], width) / 2:
            message = (
                f"shard {no} is of another model: {_percent(share, known)} have shapes that no other shard has, and "
                f"{wide:.0%} of its matrices have the embedding length of the first shard ({width:,})"
            )
            hint = "fetch this shard again from the same set"
            faults.append(Fault("foreign-shard", message, f"shard:{no}", hint))
    label = _label(headers)
    odd_type = _odd(types)
    strong = [no for no, (share, _) in odd_type.items() if share >= STRONG]
    if len(strong) > 1 and label:
        # Each of two looks foreign to the other: the label of the first shard says which one is.
        fitting = [no for no in strong if _main_type(headers[no]) == label[1]]
        if fitting and len(fitting) < len(strong):
            strong = [no for no in strong if no not in fitting]
    for no, (share, known) in odd_type.items():
        mine, others = _main_type(headers[no]), _main_of_others(headers, no)
        if no in strong:
            named = f", and the first shard is labelled {label[0]}" if label else ""
            message = (
                f"shard {no} is of another quantisation: it is {mine}, the others are {others}{named} "
                f"({_percent(share, known)} have types that no other shard has); llama.cpp would load it silently"
            )
            faults.append(Fault("foreign-shard", message, f"shard:{no}", "fetch this shard again from the same set"))
        elif share >= STRONG / 2 and share < STRONG:
            message = f"{_percent(share, known)} in shard {no} have types no other shard has: a mixed quantisation?"
            notes.append(Fault("shard-types-differ", message, f"shard:{no}"))
    return faults, notes


def _width(headers: Mapping[int, Header]) -> int | None:
    """Embedding length, by the metadata of the first shard."""
    first = headers.get(1)
    arch = first.get("general.architecture") if first else None
    field = first.get(f"{arch.told}.embedding_length") if first and arch else None
    value = field.told if field else None
    return value if isinstance(value, int) else None


def _as_wide(headers: Iterable[Header], width: int) -> float:
    """Share of the matrices of the layers that have the embedding length as a dimension."""
    matrices = [t for h in headers for t in h.tensors if len(t.shape) > 1 and _NUMBER.search(t.name)]
    return sum(width in t.shape for t in matrices) / max(len(matrices), 1)


def _roles(header: Header, what: object) -> Roles:
    found: dict[str, set[object]] = {}
    for t in header.tensors:
        # Vectors are F32 in every quantisation.
        if len(t.shape) > 1 and _NUMBER.search(t.name):
            found.setdefault(_NUMBER.sub("N", t.name), set()).add(what(t))  # type: ignore[operator]
    return found


def _odd(roles: Mapping[int, Roles]) -> dict[int, tuple[float, int]]:
    """By shard: share of the roles in common with other shards whose values no other shard has, and their number."""
    found: dict[int, tuple[float, int]] = {}
    # Shards that have a role, and those that have a value in it: a set may have hundreds of shards.
    holders = Counter(role for mine in roles.values() for role in mine)
    having = Counter((role, value) for mine in roles.values() for role, values in mine.items() for value in values)
    for no, mine in roles.items():
        known = apart = 0
        for role, values in mine.items():
            if holders[role] > 1:
                known += 1
                apart += all(having[role, value] == 1 for value in values)
        if known >= LEAST_ROLES and apart:
            found[no] = (apart / known, known)
    return found


def _main_type(header: Header) -> str:
    """Tensor type with the most bytes among matrices."""
    weight: Counter[str] = Counter()
    for t in header.tensors:
        if len(t.shape) > 1 and _NUMBER.search(t.name):
            weight[t.type_name] += t.nbytes or 0
    return weight.most_common(1)[0][0] if weight else "?"


def _main_of_others(headers: Mapping[int, Header], no: int) -> str:
    names = Counter(_main_type(h) for n, h in headers.items() if n != no)
    names.pop("?", None)
    return " or ".join(name for name, _ in names.most_common(2)) or "?"


def _label(headers: Mapping[int, Header]) -> tuple[str, str] | None:
    """`general.file_type` of the first shard as a label, and the tensor type most of such a file has."""
    first = headers.get(1)
    field = first.get("general.file_type") if first else None
    value = field.told if field else None
    if not isinstance(value, int):
        return None
    name = file_type_name(value)
    return name, re.sub(r"_(S|M|L|XS)$", "", name) if "_K_" in name else name


def _percent(share: float, known: int) -> str:
    return f"{round(share * known)} of {known} kinds of tensors"


def duplicates(headers: Mapping[int, Header]) -> list[Fault]:
    """Tensors that two shards hold."""
    seen: dict[str, int] = {}
    twice: list[tuple[TensorInfo, int, int]] = []
    for no, header in headers.items():
        for t in header.tensors:
            if t.name in seen and seen[t.name] != no:
                twice.append((t, seen[t.name], no))
            seen.setdefault(t.name, no)
    if not twice:
        return []
    t, a, b = twice[0]
    more = f" and {len(twice) - 1:,} more" if len(twice) > 1 else ""
    message = f"shards {a} and {b} both hold {t.name}{more}: they are not from the same split"
    return [Fault("duplicate-tensor", message, f"shard:{b}")]
