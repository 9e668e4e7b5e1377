"""A mixture as lines of ``NAME=TYPE`` that llama-quantize and ``gguftool quantize`` take."""

from __future__ import annotations

import re
from collections.abc import Mapping

from gguftool.regex import regex

_BLOCK = regex(r"blk\.(0|[1-9][0-9]{0,8})\.(.*)", re.DOTALL)
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_-/")


def lines(types: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    r"""Patterns with types, one for all layers that have a tensor alike: ``^blk\.(0|3)\.attn_q\.weight$``.

    llama-quantize puts names in lower case and parts a file at white space and at the first ``=``: whatever else stands
    in a name is matched by a dot.

    Args:
        types: tensor type by tensor name.
    """
    groups: dict[tuple[bool, str, str], list[str]] = {}
    having: dict[str, int] = {}
    for name, kind in types.items():
        match = _BLOCK.fullmatch(name)
        rest = match[2] if match else name
        layers = groups.setdefault((match is not None, rest, kind), [])
        if match:
            layers.append(match[1])
            having[rest] = having.get(rest, 0) + 1
    out = []
    for (in_block, rest, kind), layers in groups.items():
        which = "[0-9]+" if 1 < len(layers) == having.get(rest, 0) else "|".join(layers)
        head = f"blk\\.{which if len(layers) == 1 or which == '[0-9]+' else f'({which})'}\\." if in_block else ""
        out.append((f"^{head}{_quoted(rest)}$", kind))
    return tuple(out)


def _quoted(text: str) -> str:
    return "".join(c if c in _PLAIN else "\\." if c == "." else "." for c in text)
