"""A LoRA adapter as llama.cpp takes it: pairs of tensors beside the weights of a base model.

Of a weight ``W`` with sizes ``[in, out]`` the adapter holds ``NAME.lora_a`` ``[in, rank]`` and ``NAME.lora_b``
``[rank, out]``; of the token embedding, whose rows are looked up, ``[rank, tokens]`` and ``[rank, width]``. Weights of
experts have a third size. What is added is ``scale * alpha / rank`` times their product (`llama-adapter.h`, b11434).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from gguftool.brief import short_repr
from gguftool.format.header import TensorInfo
from gguftool.model.model import Model
from gguftool.records import dataclass
from gguftool.regex import regex

TYPE, ALPHA, INVOCATION = "adapter.type", "adapter.lora.alpha", "adapter.alora.invocation_tokens"
TASK, PREFIX = "adapter.lora.task_name", "adapter.lora.prompt_prefix"
A, B = ".lora_a", ".lora_b"
NORM = "_norm.weight"
"""End of the names of tensors that may stand beside the pairs; llama.cpp does not look at them."""
EMBEDDING = "token_embd.weight"
MOST_TOKENS = 1024
_LAYER = regex(r"(?:enc\.|dec\.)?blk\.(\d{1,9})\.(.*)", re.S)


@dataclass(frozen=True, slots=True)
class Pair:
    """What an adapter holds for one weight.

    Attributes:
        name: the weight's name in the base model.
        a, b: the two tensors; None for one that is not there.
    """

    name: str
    a: TensorInfo | None
    b: TensorInfo | None

    __repr__ = short_repr

    @property
    def whole(self) -> bool:
        """Both are there."""
        return self.a is not None and self.b is not None

    @property
    def embedding(self) -> bool:
        """It is for a table whose rows are looked up: ``lora_a`` lies the other way round."""
        return self.name.endswith(EMBEDDING)

    @property
    def rank(self) -> int | None:
        """The rank that llama.cpp divides alpha by: the first size of ``lora_b``; None without it."""
        return None if self.b is None else size(self.b, 0)

    @property
    def rank_of_a(self) -> int | None:
        """The rank as ``lora_a`` has it; None without it."""
        return None if self.a is None else size(self.a, 0 if self.embedding else 1)

    @property
    def base_shape(self) -> tuple[int, int] | None:
        """First two sizes of the weight it is for; None when a half is missing."""
        if self.a is None or self.b is None:
            return None
        return (size(self.b, 1), size(self.a, 1)) if self.embedding else (size(self.a, 0), size(self.b, 1))

    @property
    def layer(self) -> int | None:
        """The layer it is for; None for a weight outside the layers."""
        match = _LAYER.fullmatch(self.name)
        return int(match[1]) if match else None

    @property
    def target(self) -> str:
        """The weight without its layer: ``attn_q``, ``ffn_up_exps``, ``token_embd``."""
        match = _LAYER.fullmatch(self.name)
        return (match[2] if match else self.name).removesuffix(".weight")


@dataclass(frozen=True, slots=True)
class Adapter:
    """One adapter, as its header describes it.

    Attributes:
        kind: `adapter.type`; "" when it is absent or no string.
        architecture: of the base model.
        alpha: None when the key is absent or no f32.
        pairs: in llama.cpp's order: by the bytes of the name.
        norms: norms beside the pairs, which llama.cpp leaves aside.
        strangers: tensors whose names llama.cpp refuses.
        invocation: tokens that switch an activated LoRA (aLoRA) on, at most the first `MOST_TOKENS`; empty for a
            plain one.
        task: `adapter.lora.task_name`, "" when absent.
        prefix: `adapter.lora.prompt_prefix`, "" when absent.
        base: names of the base models that the file states.
        nbytes: bytes of the pairs.
    """

    kind: str
    architecture: str
    alpha: float | None
    pairs: tuple[Pair, ...]
    norms: tuple[str, ...]
    strangers: tuple[str, ...]
    invocation: tuple[int, ...]
    task: str
    prefix: str
    base: tuple[str, ...]
    nbytes: int

    __repr__ = short_repr

    @property
    def ranks(self) -> dict[int, int]:
        """Rank -> number of whole pairs with it, the most frequent first."""
        return dict(Counter(p.rank for p in self.pairs if p.whole and p.rank is not None).most_common())

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers it changes, ascending."""
        return tuple(sorted({p.layer for p in self.pairs if p.layer is not None}))

    def scale(self, pair: Pair, wish: float = 1.0) -> float | None:
        """What the product of a pair is multiplied with; None when the rank is unknown or 0.

        Args:
            pair: one of ``pairs``.
            wish: the scale that was asked for (``--lora-scaled``).
        """
        if not self.alpha:
            # Without alpha the rank does not count (`llama-adapter.h:get_scale`, b11434).
            return wish
        return wish * self.alpha / pair.rank if pair.rank else None


def adapter(m: Model) -> Adapter:
    """The adapter that a file holds; whatever is broken in it is left as it is, for the rules to tell."""
    halves: dict[str, dict[str, TensorInfo]] = {}
    norms: list[str] = []
    strangers: list[str] = []
    for name, info in c_names(m):
        end = next((end for end in (A, B) if name.endswith(end)), "")
        if end:
            halves.setdefault(name.replace(end, ""), {})[end] = info
        elif name.endswith(NORM):
            norms.append(name)
        else:
            strangers.append(name)
    ordered = sorted(halves, key=lambda name: name.encode("utf-8", "surrogateescape"))
    pairs = tuple(Pair(name, halves[name].get(A), halves[name].get(B)) for name in ordered)
    return Adapter(
        _text(m, TYPE),
        m.architecture,
        _alpha(m),
        pairs,
        tuple(norms),
        tuple(strangers),
        _invocation(m),
        _text(m, TASK),
        _text(m, PREFIX),
        _base(m),
        sum(half.nbytes or 0 for p in pairs for half in (p.a, p.b) if half is not None),
    )


def c_names(m: Model) -> Iterator[tuple[str, TensorInfo]]:
    """Tensors in file order under the names that C reads: cut at a NUL."""
    for t in m.all_tensors():
        yield t.name.partition("\0")[0], t.info


def size(info: TensorInfo, axis: int) -> int:
    """One of the four sizes that ggml keeps of a tensor."""
    return info.shape[axis] if axis < len(info.shape) else 1


def _text(m: Model, key: str) -> str:
    value = m.get(key)
    return value if isinstance(value, str) else ""


def _alpha(m: Model) -> float | None:
    f = m.fields.get(ALPHA)
    value = f.told if f is not None and f.type_name == "f32" else None
    return value if isinstance(value, float) else None


def _invocation(m: Model) -> tuple[int, ...]:
    f = m.fields.get(INVOCATION)
    if f is None or f.type_name != "arr[u32]":
        return ()
    return tuple(v for v in f.head(MOST_TOKENS) if isinstance(v, int))


def _base(m: Model) -> tuple[str, ...]:
    count = m.get("general.base_model.count")
    found = []
    for i in range(min(count, 16) if isinstance(count, int) else 1):
        organization, name = (_text(m, f"general.base_model.{i}.{part}") for part in ("organization", "name"))
        if name:
            found.append(f"{organization} {name}".strip())
    return tuple(found)
