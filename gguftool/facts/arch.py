"""What llama.cpp b11434 knows of each architecture, and a typed view of one model's hyperparameters.

The facts are data (`data/architectures.json`, `data/keytypes.json`), read from llama.cpp's sources and corrected by
measurement; this module only looks them up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gguftool.brief import line, shown
from gguftool.facts.data import load
from gguftool.near import near_names

NOT_ROPED_UNLESS_FINETUNED = frozenset({"granite", "granitemoe", "granitehybrid", "graniteswitch"})
"""`rope.scaling.finetuned` = false switches RoPE off here (`models/granite.cpp`, b11434)."""


@dataclass(frozen=True, slots=True)
class ArchFacts:
    """One architecture name of llama.cpp.

    Attributes:
        name: as in `general.architecture`.
        rope: ``norm``, ``neox``, ``mrope``, ``imrope``, ``mrope-or-norm``, ``mrope-or-neox`` or ``none``.
        ropes: False when the graph never applies RoPE, whatever the label says.
        memory: memory class: ``kv``, ``iswa``, ``iswa-if-window``, ``mla``, ``dsa``, ``hybrid`` …, ``none``.
        unsupported: why llama.cpp cannot load it as a main model, else "".
        required, required_if, optional: keys without the architecture prefix (a whole key starts with ``=``).
        flags: ``hybrid``, ``recurrent``, ``diffusion``, ``rs_rollback``, ``no-sm-tensor``.
        swa_period: default period of the sliding-window pattern, 0 when there is none.
        swa_dense_first: the full-attention layer comes first in a period.
        swa_array_required: the pattern must be in the file, layer by layer.
        rope_base_swa: RoPE base of sliding-window layers when the file has none; None: as the other layers.
    """

    name: str
    rope: str
    ropes: bool
    memory: str
    unsupported: str
    required: tuple[str, ...]
    required_if: tuple[str, ...]
    optional: tuple[str, ...]
    flags: tuple[str, ...]
    swa_period: int
    swa_dense_first: bool
    swa_array_required: bool
    rope_base_swa: float | None


def names() -> tuple[str, ...]:
    """All architecture names, in llama.cpp's order."""
    return tuple(load("architectures.json")["architectures"])


def facts(name: str) -> ArchFacts | None:
    """Facts of an architecture; None for a name llama.cpp b11434 does not know."""
    e = load("architectures.json")["architectures"].get(name)
    if e is None:
        return None
    return ArchFacts(
        name=name,
        rope=e["rope"],
        ropes=e["rope"] != "none" and not e.get("unroped", False),
        memory=e["memory"],
        unsupported=e.get("unsupported", ""),
        required=tuple(e.get("required", ())),
        required_if=tuple(e.get("required_if", ())),
        optional=tuple(e.get("optional", ())),
        flags=tuple(e.get("flags", ())),
        swa_period=e.get("swa_period", 0),
        swa_dense_first=e.get("swa_dense_first", False),
        swa_array_required=e.get("swa_array_required", False),
        rope_base_swa=e.get("rope_base_swa"),
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
    """

    def __init__(self, arch: str, get: Callable[[str], object]) -> None:
        self.arch = arch
        self._get = get
        self.facts = facts(arch)

    def __repr__(self) -> str:
        return line("Hparams", [shown(self.arch)])

    def raw(self, key: str) -> object:
        """Value of ``{arch}.{key}`` as decoded, or None."""
        return self._get(f"{self.arch}.{key}")

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
    def is_mla(self) -> bool:
        """Multi-head latent attention: both `*_length_mla` keys are there and not zero."""
        return bool(self.int("attention.key_length_mla") and self.int("attention.value_length_mla"))

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
        if self.arch in NOT_ROPED_UNLESS_FINETUNED and self.raw("rope.scaling.finetuned") is False:
            return False
        return self.facts.ropes
