"""Rows of the tensor stage without those that do nothing for one file, so that builds can be seen to ask for the same.

Left out are branches that its hyperparameters do not take, and optional tensors that it does not have: of these the
stage keeps nothing that is looked at again (but see `context.APART`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import cache

from gguftool.facts.machine.ends import Abort, Unknown
from gguftool.facts.machine.expressions import Names, compiled
from gguftool.facts.machine.program import Row
from gguftool.predict.context import APART
from gguftool.regex import regex

_NAME = regex(r"(?<![\w.])[A-Za-z_]\w*")
_SIMPLE = regex(r"[\w.*+ ]*")
_BLOCK = "blk.%d."
_KINDS = frozenset({"tensor", "if", "for", "do", "fail", "assert", "warn", "abort", "unknown", "continue", "return"})
"""Rows that give nothing a name or a value."""
_DONE = ("qkv(", "gate_up_exps(")
_THEIRS = frozenset({"wqkv", "wqkv_b", "wq", "wk", "wv", "wq_b", "wk_b", "wv_b"}) | {
    f"ffn_{part}_exps" for part in ("gate_up", "gate", "up")
}
"""What a row may do, and the places that these give their tensors."""


class Stored:
    """The tensors of a file, as rows name them.

    Args:
        names: their names.
    """

    def __init__(self, names: Collection[str]) -> None:
        self._names = names
        self._in_blocks = {parts[2] for name in names if len(parts := name.split(".", 2)) == 3 and parts[0] == "blk"}

    def may_have(self, pattern: str) -> bool:
        """False where no tensor has that name, whatever the layer."""
        if "%d" not in pattern:
            return pattern in self._names
        if pattern.startswith(_BLOCK) and pattern.count("%d") == 1:
            return pattern.removeprefix(_BLOCK) in self._in_blocks
        return True


def without_idle(rows: list[Row], names: Names, stored: Stored) -> list[Row]:
    """The rows that do something.

    Args:
        rows: of the tensor stage.
        names: those the rows start with.
        stored: the tensors of the file.
    """
    every = list(_every(rows))
    if any(row[0] not in _KINDS or (row[0] == "do" and not row[1].startswith(_DONE)) for row in every):
        return rows
    places = Counter(row[5] for row in every if row[0] == "tensor")
    return _kept(rows, names, stored, {place for place, n in places.items() if n == 1} - _THEIRS, frozenset())


def _every(rows: list[Row]) -> Iterator[Row]:
    for row in rows:
        yield row
        if row[0] in ("if", "for"):
            for part in row[2:]:
                if isinstance(part, list):
                    yield from _every(part)


def _kept(rows: list[Row], names: Names, stored: Stored, alone: Collection[str], loops: frozenset[str]) -> list[Row]:
    out: list[Row] = []
    for row in rows:
        if row[0] == "tensor":
            if not _is_idle(row, names, stored, alone, loops):
                out.append(row)
        elif row[0] == "for":
            out.append([*row[:4], _kept(row[4], names, stored, alone, loops | {row[1]})])
        elif row[0] == "if":
            taken = _decided(row[1], names, loops)
            branches = [_kept(part, names, stored, alone, loops) for part in row[2:]]
            if taken is None:
                out.append(["if", row[1], *branches])
            elif taken or len(branches) > 1:
                out += branches[0 if taken else 1]
        else:
            out.append(row)
    return out


def _decided(condition: str, names: Names, loops: frozenset[str]) -> bool | None:
    """What a condition comes to; None where it calls something or is another one in each round."""
    if "(" in condition or not loops.isdisjoint(_names(condition)):
        return None
    try:
        return bool(compiled(condition)(names))
    except (Abort, Unknown):
        return None


def _is_idle(row: Row, names: Names, stored: Stored, alone: Collection[str], loops: frozenset[str]) -> bool:
    """Whether it asks for a tensor that may be absent, and is, in a place of its own; its sizes cannot end anything."""
    if row[4] != "optional" or row[1].endswith(APART) or row[5] not in alone or stored.may_have(row[1]):
        return False
    return all(_is_simple(text, names, loops) for text in (row[2], *row[3], *map(str, row[6:])))


def _is_simple(text: str, names: Iterable[str], loops: frozenset[str]) -> bool:
    return _SIMPLE.fullmatch(text) is not None and all(x == "h" or x in loops or x in names for x in _names(text))


@cache
def _names(text: str) -> frozenset[str]:
    return frozenset(_NAME.findall(text))
