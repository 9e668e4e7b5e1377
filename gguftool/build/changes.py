"""What quantising changes besides the types of tensors: keys that get other values, layers that are left out.

With the syntax and the meaning that llama-quantize gives them (`common.cpp:string_parse_kv_override`,
`quantize.cpp:parse_layer_prune`, `llama-quant.cpp:remap_layer`, b11434).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Sequence

from gguftool.errors import Refused, UsageError
from gguftool.format.header import Field
from gguftool.format.types import Layout
from gguftool.format.values import make_field
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.shell import gguftool

LONGEST = 127
"""Bytes that llama.cpp holds of a key and of a text (`llama.h:llama_model_kv_override`)."""
_NUMBER = regex(r"[+-]?[0-9]{1,20}")
_BLOCK = regex(r"blk\.([0-9]{1,9})\.")
_STORED = {"int": "u32", "float": "f32", "bool": "bool", "str": "str"}
_OWN = {
    "general.alignment": "the data is not laid out by it: llama-quantize writes a file that does not load",
    "general.quantization_version": "it says how the result is made",
}


@dataclass(frozen=True, slots=True)
class Override:
    """A key that gets another value; ``kind`` is ``int``, ``float``, ``bool`` or ``str``."""

    key: str
    kind: str
    value: int | float | bool | str

    @property
    def text(self) -> str:
        """As on a command line of llama-quantize."""
        value = str(self.value).lower() if self.kind == "bool" else str(self.value)
        return f"{self.key}={self.kind}:{value}"

    @property
    def stored(self) -> int | float | bool | str:
        """What the result holds: whole numbers are written as u32, without their sign."""
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return abs(self.value) & 0xFFFFFFFF
        return struct.unpack("<f", struct.pack("<f", self.value))[0] if isinstance(self.value, float) else self.value

    def field(self, layout: Layout) -> Field:
        """The same as a field of a header."""
        return make_field(self.key, _STORED[self.kind], self.stored, layout)


@dataclass(frozen=True, slots=True)
class Changes:
    """What is changed besides the types of tensors.

    Attributes:
        keys: overrides, in order.
        prune: numbers of the layers to leave out, ascending.
        keep_split: as many files as the source has.
    """

    keys: tuple[Override, ...] = ()
    prune: tuple[int, ...] = ()
    keep_split: bool = False

    def __bool__(self) -> bool:
        return bool(self.keys or self.prune)


def override(text: str) -> Override:
    """``KEY=TYPE:VALUE``, where TYPE is int, float, bool or str.

    Raises:
        UsageError: it is none, or llama-quantize could not hold it.
    """
    said = f"--override-kv {text}"
    key, equals, rest = text.partition("=")
    kind, colon, value = rest.partition(":")
    if not equals or not key or not colon or kind not in _STORED:
        example = "for example llama.context_length=int:8192, general.name=str:Tiny"
        raise UsageError(f"{said}: expected KEY=TYPE:VALUE, TYPE one of {', '.join(_STORED)}", example)
    if len(key.encode("utf-8", "surrogateescape")) > LONGEST:
        raise UsageError(f"{said}: the key is longer than the {LONGEST} bytes that llama.cpp holds")
    if key in _OWN or key.startswith("split."):
        why = _OWN.get(key, "it belongs to the files of a set")
        raise UsageError(f"{said}: cannot be overridden here: {why}", gguftool("split", "--help"))
    return Override(key, kind, _value(said, kind, value))


def _value(said: str, kind: str, value: str) -> int | float | bool | str:
    if kind == "bool":
        if value not in ("true", "false"):
            raise UsageError(f"{said}: a bool is true or false")
        return value == "true"
    if kind == "str":
        if len(value.encode("utf-8", "surrogateescape")) > LONGEST:
            way = "gguftool fix --set KEY=VALUE writes longer texts"
            raise UsageError(f"{said}: the text is longer than the {LONGEST} bytes that llama.cpp holds", way)
        return value
    if kind == "int":
        if not _NUMBER.fullmatch(value) or abs(int(value)) > 0xFFFFFFFF:
            raise UsageError(f"{said}: expected a whole number below 4,294,967,296: it is written as u32")
        return int(value)
    try:
        number = float("" if "_" in value else value)
        struct.pack("<f", number)
    except (ValueError, OverflowError):
        raise UsageError(f"{said}: expected a number that an f32 holds") from None
    if not math.isfinite(number):
        raise UsageError(f"{said}: NaN and infinity are no values of a key")
    return number


def overrides_of(texts: Iterable[str]) -> tuple[Override, ...]:
    """Several of `override`.

    Raises:
        UsageError: one is none, or a key is named twice, of which llama.cpp reads the first and writes the last.
    """
    made = tuple(map(override, texts))
    keys = [o.key for o in made]
    twice = next((key for i, key in enumerate(keys) if key in keys[:i]), None)
    if twice is not None:
        raise UsageError(f"--override-kv: {twice} is named twice", "llama.cpp would read one and write the other")
    return made


def layers(texts: Iterable[str]) -> tuple[int, ...]:
    """Layers out of ``0,3,17``, ascending, each once.

    Raises:
        UsageError: a part is no number.
    """
    found = set()
    for text in texts:
        for part in text.split(","):
            if not re.fullmatch(r"\s*\+?[0-9]{1,9}", part):
                raise UsageError(f"--prune-layers {text}: {part!r} is no number of a layer", "for example 3,4,5")
            found.add(int(part))
    return tuple(sorted(found))


@dataclass(frozen=True, slots=True)
class Pruned:
    """What is left of the tensors.

    Attributes:
        names: the new name of each tensor in order; None for those that are left out.
        count: what `block_count` becomes.
    """

    names: tuple[str | None, ...]
    count: int


def pruned(names: Sequence[str], prune: Sequence[int]) -> Pruned:
    """Leave layers out, and number those behind them anew.

    Args:
        names: of the tensors, in llama.cpp's order: the numbers are given along it.
        prune: layers, ascending.

    Raises:
        UsageError: there is no such layer.
        Refused: all layers would go, or two tensors would get one name.
    """
    new: dict[int, int | None] = {}
    count = 0
    out: list[str | None] = []
    for name in names:
        found = _BLOCK.search(name)
        if found is None:
            out.append(name)
            continue
        layer = int(found[1])
        if layer not in new:
            if layer in prune:
                new[layer] = None
            else:
                new[layer] = layer if layer < prune[0] else count
                count = (new[layer] or 0) + 1
        number = new[layer]
        out.append(None if number is None else f"{name[: found.start(1)]}{number}{name[found.end(1) :]}")
    absent = [n for n in prune if n not in new]
    if absent:
        have = f"its layers are {min(new)} to {max(new)}" if new else "it has no layers"
        raise UsageError(f"--prune-layers: there is no layer {', '.join(map(str, absent[:5]))} in this model", have)
    kept = [name for name in out if name is not None]
    if not count:
        raise Refused("--prune-layers: no layer would be left", "name fewer of them")
    if len(set(kept)) < len(kept):
        raise Refused("--prune-layers: two tensors would get one name: its layers do not stand in order")
    return Pruned(tuple(out), count)
