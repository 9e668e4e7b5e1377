"""What llama.cpp knows of each architecture, and a typed view of one model's hyperparameters.

The facts are data (`data/architectures.json`), generated from llama.cpp's sources; which keys an architecture reads and
what it makes of them is in the load maps (`facts/keys.py`, `facts/shape.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import cache
from typing import TYPE_CHECKING, Any

from gguftool.brief import line, shown
from gguftool.facts.data import INSTEAD, load, newest
from gguftool.near import near_names
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.facts.shape import Shape, Stored


@dataclass(frozen=True, slots=True)
class ArchFacts:
    """One architecture name of llama.cpp.

    Attributes:
        name: as in `general.architecture`.
        rope: ``norm``, ``neox``, ``mrope``, ``imrope``, ``mrope-or-norm``, ``mrope-or-neox`` or ``none``.
        ropes: False when the graph never applies RoPE, whatever the label says.
        memory: memory class: ``kv``, ``iswa``, ``iswa-if-window``, ``mla``, ``dsa``, ``hybrid`` …, ``none``.
        attends: which layers of a hybrid have a KV cache: ``all``, ``trunk``, ``no-ff``; "": those without a state.
        reuses_kv: the last layers read the caches of earlier ones.
        unsupported: why llama.cpp cannot load it as a main model, else "".
        flags: ``hybrid``, ``recurrent``, ``diffusion``, ``rs_rollback``, ``no-sm-tensor``; ``mtp``: it can draft with
            its own prediction layers, ``mtp-one``: with one of them only; ``layer-inputs``, ``head-input``: its graph
            gives a draft what goes into its layers, and into its output layer.
        nodes: most nodes of its graph for each token of a batch, and for each tensor (`graph_max_nodes`).
    """

    name: str
    rope: str
    ropes: bool
    memory: str
    attends: str
    reuses_kv: bool
    unsupported: str
    flags: tuple[str, ...]
    nodes: tuple[int, int]


def names() -> tuple[str, ...]:
    """All architecture names, in llama.cpp's order."""
    return tuple(load("architectures.json")["architectures"])


def is_known(name: str) -> bool:
    """Whether llama.cpp knows an architecture of that name."""
    return name in load("architectures.json")["architectures"]


def facts(name: str) -> ArchFacts | None:
    """Facts of an architecture; None for a name llama.cpp does not know."""
    e = load("architectures.json")["architectures"].get(name)
    return None if e is None else _newest(name) if INSTEAD.get() is None else _facts(name, e)


@cache
def _newest(name: str) -> ArchFacts:
    return _facts(name, newest("architectures.json")["architectures"][name])


def _facts(name: str, e: Mapping[str, Any]) -> ArchFacts:
    return ArchFacts(
        name=name,
        rope=e["rope"],
        ropes=e["rope"] != "none" and not e.get("unroped", False),
        memory=e["memory"],
        attends=e.get("attends", ""),
        reuses_kv=e.get("reuses_kv", False),
        unsupported=e.get("unsupported", ""),
        flags=tuple(e.get("flags", ())),
        nodes=tuple(e.get("nodes", (0, 8))),
    )


def nearest(name: str) -> list[str]:
    """Known architecture names that resemble ``name``, best first."""
    return near_names(name.lower(), names())


# The class has methods of these names.
_int = int
_float = float


class Hparams:
    """Hyperparameters by name, with llama.cpp's defaults (`llama-model.cpp:load_hparams`, b11434).

    Args:
        arch: architecture name, the prefix of the keys.
        get: returns the decoded value of a whole key, or None.
        stored: returns the shape of a tensor of the file, or None; None: tensors are not at hand.
        count: returns the length of the array of a whole key, 0 for none; None: arrays are decoded to be counted.
    """

    def __init__(
        self,
        arch: str,
        get: Callable[[str], object],
        stored: Stored | None = None,
        count: Callable[[str], _int] | None = None,
    ) -> None:
        self.arch = arch
        self._get = get
        self._stored = stored
        self._count = count
        self.facts = facts(arch)
        self._shape: Shape | None = None

    @property
    def shape(self) -> Shape:
        """What llama.cpp makes of all keys; worked out once."""
        if self._shape is None:
            from gguftool.facts.shape import Shape

            self._shape = Shape(self.arch, self._get, self._stored, self._count)
        return self._shape

    def __repr__(self) -> str:
        return line("Hparams", [shown(self.arch)])

    def changed(self, values: Mapping[str, object]) -> Hparams:
        """The same keys but for some, named without the architecture; what the tensors say is left out."""
        prefixed = {f"{self.arch}.{key}": value for key, value in values.items()}
        return Hparams(self.arch, lambda key: prefixed[key] if key in prefixed else self._get(key))

    def raw(self, key: str) -> object:
        """Value of ``{arch}.{key}`` as decoded, or None."""
        return self._get(f"{self.arch}.{key}")

    def text(self, key: str) -> str:
        """Text of a whole key, "" when it is absent or of another type."""
        v = self._get(key)
        return v if isinstance(v, str) else ""

    def entries(self, key: str) -> _int:
        """Length of the array of a whole key, 0 when it is absent or no array."""
        if self._count is not None:
            return self._count(key)
        v = self._get(key)
        return 0 if isinstance(v, str | bytes) or not isinstance(v, Sized) else len(v)

    def int(self, key: str, default: _int = 0) -> _int:
        """A whole number; ``default`` when absent, an array or of another type."""
        v = self.raw(key)
        return v if isinstance(v, _int) and not isinstance(v, bool) else default

    def float(self, key: str, default: _float) -> _float:
        """A number; ``default`` when absent or of another type."""
        v = self.raw(key)
        return _float(v) if isinstance(v, _int | _float) and not isinstance(v, bool) else default

    def per_layer(self, key: str, default: _int = 0) -> list[_int]:
        """One number a layer: a scalar is repeated, an array taken as it is."""
        v, n = self.raw(key), self.block_count
        if v is None or isinstance(v, bool | str | _float):
            return [default] * n
        if isinstance(v, _int):
            return [v] * n
        # Text and fractions in the place of counts are a fault of the file, with a lint rule of its own: 0 here.
        items = [_int(x) if isinstance(x, _int) else 0 for x in v] if isinstance(v, Sequence) else []
        return items[:n] + [default] * (n - len(items))

    @property
    def context_length(self) -> _int | None:
        """Trained context in tokens; None when the key is missing or of a wrong type."""
        return self.int("context_length") or None

    @property
    def embedding_length(self) -> _int:
        """Width of the residual stream."""
        return self.int("embedding_length")

    @property
    def block_count(self) -> _int:
        """Number of layers, at most 512 (`LLAMA_MAX_LAYERS`) so that a broken file cannot make us allocate."""
        return min(self.int("block_count"), 512)

    @property
    def head_count(self) -> list[_int]:
        """Attention heads of each layer."""
        return self.per_layer("attention.head_count")

    @property
    def head_count_kv(self) -> list[_int]:
        """KV heads of each layer; as many as heads when the key is absent."""
        if self.raw("attention.head_count_kv") is None:
            return self.head_count
        return self.per_layer("attention.head_count_kv")

    @property
    def key_length(self) -> _int:
        """Head size of K: the key, else embedding_length / head_count of the first layer."""
        heads = self.head_count
        default = self.embedding_length // heads[0] if heads and heads[0] else 0
        return self.int("attention.key_length", default)

    @property
    def value_length(self) -> _int:
        """Head size of V."""
        heads = self.head_count
        default = self.embedding_length // heads[0] if heads and heads[0] else 0
        return self.int("attention.value_length", default)

    @property
    def sliding_window(self) -> _int:
        """Window in tokens as the key says; 0 when absent."""
        return self.int("attention.sliding_window")

    @property
    def rope_freq_base(self) -> _float:
        """RoPE base; llama.cpp takes 10000 when the key is absent."""
        return self.float("rope.freq_base", 10000.0)

    @property
    def rope_freq_scale(self) -> _float:
        """What llama.cpp computes: 1 / `rope.scaling.factor` (old: `rope.scale_linear`), 1 when neither is set."""
        factor = self.float("rope.scaling.factor", 0.0) or self.float("rope.scale_linear", 0.0)
        if self.rope_scaling_type == "none" or not factor or not math.isfinite(factor):
            return 1.0
        return 1.0 / factor

    @property
    def rope_scaling_type(self) -> str:
        """``none``, ``linear``, ``yarn``, ``longrope``; llama.cpp takes linear when the key is absent."""
        v = self.raw("rope.scaling.type")
        return v if isinstance(v, str) else "linear"

    @property
    def ropes(self) -> bool:
        """True when this model applies RoPE at all (unknown architectures are taken to)."""
        if self.facts is None:
            return True
        return self.facts.ropes and any(self.shape.machine.h.get("rope_pattern", (1,)))
