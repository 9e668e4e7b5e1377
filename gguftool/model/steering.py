"""A control vector as llama.cpp takes it: one direction a layer, added to the state behind that layer.

The tensors are ``direction.N``, f32, one size: the width of the model (`common.cpp:common_control_vector_load_one`,
b11434). Layers count from 1: the state behind the embedding has no direction.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.format.header import TensorInfo
from gguftool.format.types import MAX_NAME
from gguftool.model.adapter import c_names
from gguftool.model.model import Model
from gguftool.records import dataclass
from gguftool.regex import regex

ARCHITECTURE = "controlvector"
HINT, COUNT = "controlvector.model_hint", "controlvector.layer_count"
HEAD = "direction."
# What `std::stoi` reads: blanks, a sign, digits, and whatever follows.
_NUMBER = regex(r"[ \t\n\v\f\r]*([+-]?[0-9]+)")
INT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Direction:
    """One tensor.

    Attributes:
        name: its name, as C reads it.
        layer: the layer that llama.cpp reads out of the name; -1 when it reads none.
        info: the tensor.
    """

    name: str
    layer: int
    info: TensorInfo

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class ControlVector:
    """One control vector, as its header describes it.

    Attributes:
        hint: the model it was made for, as its maker wrote it; "" when absent.
        stated: number of layers that the file states; None when absent.
        directions: the tensors, in file order.
    """

    hint: str
    stated: int | None
    directions: tuple[Direction, ...]

    __repr__ = short_repr

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers that have a direction, ascending."""
        return tuple(sorted({d.layer for d in self.directions if d.layer > 0}))

    @property
    def width(self) -> int | None:
        """Numbers of the first direction: the width of the model it is for; None without one."""
        return self.directions[0].info.elements if self.directions else None


def control_vector(m: Model) -> ControlVector:
    """The control vector that a file holds; whatever is broken in it is left as it is, for the rules to tell."""
    hint, stated = m.get(HINT), m.get(COUNT)
    directions = tuple(Direction(name, layer_of(name), info) for name, info in c_names(m))
    return ControlVector(hint if isinstance(hint, str) else "", stated if isinstance(stated, int) else None, directions)


def layer_of(name: str) -> int:
    """The layer that llama.cpp reads out of a tensor's name; -1 for a name that is not ``direction.N``."""
    head, dot, rest = name[:MAX_NAME].partition(".")
    match = _NUMBER.match(rest) if dot and head + dot == HEAD else None
    n = int(match[1]) if match else -1
    return n if 0 <= n <= INT_MAX else -1
