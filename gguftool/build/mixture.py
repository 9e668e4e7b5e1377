"""Which tensor gets which type: the choice of llama.cpp, without llama.cpp.

A target such as Q4_K_M is a mixture: sensitive tensors get more bits. Where a row does not divide into blocks, another
type takes its place. All of it follows `llama-quant.cpp` (b11434): `tensor_allows_quantization`,
`llama_tensor_get_type`, `llama_tensor_get_type_impl`, `tensor_type_fallback`, `tensor_requires_imatrix`; the tests
compare every tensor of every known architecture with the real library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gguftool.build.category import Category, allowed, category, is_embedding
from gguftool.build.ftypes import Target
from gguftool.build.patterns import compiled, first
from gguftool.errors import Refused
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.records import dataclass, field

FALLBACK = {
    **dict.fromkeys("IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_XS".split(), "IQ4_NL"),
    **dict.fromkeys("Q2_0 Q2_K Q3_K TQ1_0 TQ2_0".split(), "Q4_0"),
    "Q4_K": "Q5_0",
    "Q5_K": "Q5_1",
    "Q6_K": "Q8_0",
}
"""What a tensor gets whose rows do not divide into blocks of the type on the left."""
_BLOCKS_OF_70B = {"llama": 80, "qwen2": 80, "deci": 80, "olmo": 80, "jais2": 68}
NEEDS_IMATRIX = frozenset("IQ3_XXS IQ2_XXS IQ2_XS IQ2_S IQ1_M IQ1_S".split())
_IQ2_GROUP = frozenset("IQ2_XXS IQ2_XS IQ1_S IQ2_S IQ2_M IQ1_M".split())


@dataclass(frozen=True, slots=True)
class Shape:
    """What the choice needs to know of one tensor; ``dims`` fastest running first."""

    name: str
    dims: tuple[int, ...]
    type: str


@dataclass(frozen=True, slots=True)
class Facts:
    """What the choice needs to know of the model: heads of the first layer, experts, layers."""

    arch: str
    heads: int
    kv_heads: int
    experts: int
    blocks: int

    @property
    def gqa(self) -> int:
        """Heads that share one KV head; 0 when the first layer has none."""
        return self.heads // self.kv_heads if self.kv_heads else 0

    @property
    def is_70b(self) -> bool:
        """A shape that llama.cpp takes for a 70B model, whose values get more bits."""
        if _BLOCKS_OF_70B.get(self.arch) != self.blocks:
            return False
        return self.arch != "llama" or (self.heads != self.kv_heads and self.experts != 8)


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the user wants different.

    Attributes:
        tensor_types: (pattern, tensor type) pairs; the first pattern found in a tensor's name decides
            (`gguftool.build.patterns`).
        output_type: type of `output.weight`.
        embedding_type: type of the token embeddings.
        pure: one type for all, no mixture.
        leave_output: do not touch `output.weight`.
    """

    tensor_types: tuple[tuple[str, str], ...] = ()
    output_type: str | None = None
    embedding_type: str | None = None
    pure: bool = False
    leave_output: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """The type one tensor gets; ``wanted`` differs when rows do not divide into its blocks."""

    type: str
    wanted: str
    needs_imatrix: bool = False

    @property
    def fell_back(self) -> bool:
        """Whether another type had to take the place of the wanted one."""
        return self.type != self.wanted


@dataclass(slots=True)
class _Walk:
    """Counters that run along the tensors, as llama.cpp's do."""

    facts: Facts
    ftype: str
    tied: bool
    has_imatrix: bool
    output_type: str | None
    embedding_type: str | None
    values: int = 0
    seen: dict[str, int] = field(default_factory=lambda: {"value": 0, "down": 0, "gate": 0, "up": 0})

    def next(self, what: str) -> int:
        i = self.seen[what]
        self.seen[what] = i + 1
        return i

    def layer(self, what: str, name: str) -> int:
        """The layer of a feed-forward tensor: counted, but read from the name where experts stand out of order."""
        i = self.next(what)
        if self.facts.experts <= 1:
            return i
        match = re.match(r"blk\.(\d{1,18})\.", name)
        if match is None or int(match[1]) >= self.facts.blocks:
            raise Refused(
                f"{name}: its layer cannot be told, and the mixture {self.ftype} depends on it",
                "use --pure or name the types with --tensor-type",
            )
        return int(match[1])


def choose(
    target: Target,
    tensors: Sequence[Shape],
    facts: Facts,
    overrides: Overrides | None = None,
    *,
    has_imatrix: bool = False,
) -> list[Choice]:
    """The type of every tensor.

    Args:
        target: what to quantise to.
        tensors: in llama.cpp's order (`gguftool.build.plan.in_order`): the mixture counts along it.
        facts: of the model.
        overrides: wishes of the user.
        has_imatrix: whether an importance matrix is given; some mixtures depend on it.

    Raises:
        Refused: llama.cpp would refuse this mixture for this model.
    """
    wish = overrides or Overrides()
    patterns = [(compiled(p), t) for p, t in wish.tensor_types]
    categories = [category(t.name) for t in tensors]
    walk = _Walk(
        facts=facts,
        ftype=target.name,
        tied=Category.OUTPUT not in categories,
        has_imatrix=has_imatrix,
        output_type=wish.output_type,
        embedding_type=wish.embedding_type,
        values=sum(c.is_value for c in categories),
    )
    return [_choose(target, t, c, walk, wish, patterns) for t, c in zip(tensors, categories, strict=True)]


def _choose(
    target: Target,
    tensor: Shape,
    kind: Category,
    walk: _Walk,
    wish: Overrides,
    patterns: Sequence[tuple[re.Pattern[str], str]],
) -> Choice:
    if (
        target.copies
        or not allowed(tensor.name, tensor.dims, walk.facts.arch)
        or (wish.leave_output and tensor.name == "output.weight")
    ):
        return Choice(tensor.type, tensor.type)
    named = first(patterns, tensor.name)
    own_embedding = named and tensor.name == "per_layer_token_embd.weight"
    if wish.embedding_type and kind is Category.TOKEN_EMBD and not own_embedding:
        return _with_imatrix(tensor, wish.embedding_type, wish.embedding_type, target)
    if wish.output_type and kind is Category.OUTPUT:
        return _with_imatrix(tensor, wish.output_type, wish.output_type, target)
    if not target.quantized:
        return Choice(target.default, target.default)
    wanted = named or (target.default if wish.pure else _mixture(target.default, tensor, kind, walk))
    return _with_imatrix(tensor, fallback(wanted, tensor.dims[0]), wanted, target)


def _with_imatrix(tensor: Shape, type_name: str, wanted: str, target: Target) -> Choice:
    low = type_name in NEEDS_IMATRIX or (type_name == "Q2_K" and target.name == "Q2_K_S")
    needs = low and not is_embedding(tensor.name) and tensor.name != "output.weight"
    return Choice(type_name, wanted, needs)


def fallback(type_name: str, row: int) -> str:
    """The type that takes its place when ``row`` elements do not divide into its blocks; F16 when none fits.

    Raises:
        Refused: llama.cpp has no fallback for that type.
    """
    size = TENSOR_TYPE_BY_NAME[type_name].block_size
    if row % size == 0:
        return type_name
    other = FALLBACK.get(type_name)
    if other is None:
        if size > 32:
            raise Refused(f"rows of {row} do not divide into blocks of {size}, and {type_name} has no fallback")
        return "F16"
    return "F16" if row % TENSOR_TYPE_BY_NAME[other].block_size else other


def _more_bits(i: int, n: int) -> bool:
    return i < n // 8 or i >= 7 * n // 8 or (i - n // 8) % 3 == 2


def _mixture(default: str, tensor: Shape, kind: Category, walk: _Walk) -> str:
    facts, f = walk.facts, walk.ftype
    if facts.arch == "glm5-next" and any(s in tensor.name for s in ("attn_q_a", "attn_q_b", "nextn.eh_proj")):
        return "Q8_0"
    if kind is Category.OUTPUT or (walk.tied and kind is Category.TOKEN_EMBD):
        return _output(default, tensor, walk)
    if f == "MXFP4_MOE":
        experts = len(tensor.dims) > 2 and tensor.dims[2] > 1
        feed_forward = kind in (Category.FFN_UP, Category.FFN_GATE, Category.FFN_DOWN)
        return "MXFP4" if experts and (facts.arch != "bailingmoe3" or feed_forward) else "Q8_0"
    if kind is Category.TOKEN_EMBD:
        return walk.embedding_type or _EMBEDDING.get(f, default)
    if f in _IQ2_GROUP:
        return _very_low(default, kind, walk)
    if kind.is_value:
        return _value(default, kind, walk)
    if kind is Category.ATTENTION_K:
        return "Q8_0" if facts.experts == 8 else {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(f, default)
    if kind is Category.ATTENTION_Q:
        return {"IQ3_XS": "IQ3_XXS", "IQ3_XXS": "IQ2_S"}.get(f, default)
    if kind is Category.FFN_DOWN:
        return _ffn_down(default, tensor, walk)
    if kind is Category.ATTENTION_OUTPUT:
        return _attention_output(default, walk)
    if kind in (Category.FFN_GATE, Category.FFN_UP):
        i, n = walk.layer("gate" if kind is Category.FFN_GATE else "up", tensor.name), facts.blocks
        return "IQ3_XXS" if f == "IQ3_XS" and n // 8 <= i < 7 * n // 8 else default
    return default


_EMBEDDING = {
    **dict.fromkeys("IQ2_XXS IQ2_XS IQ1_S IQ1_M".split(), "Q2_K"),
    **dict.fromkeys("IQ2_S IQ2_M IQ3_XXS".split(), "IQ3_S"),
    **dict.fromkeys("TQ1_0 TQ2_0 Q2_0".split(), "Q4_K"),
}


def _output(default: str, tensor: Shape, walk: _Walk) -> str:
    if walk.output_type:
        return walk.output_type
    if walk.ftype == "MXFP4_MOE" or walk.facts.arch == "falcon":
        return "Q8_0"
    if tensor.dims[0] % TENSOR_TYPE_BY_NAME[default].block_size:
        return "Q8_0"
    if walk.ftype in _IQ2_GROUP or walk.ftype == "IQ3_XXS":
        return "Q5_K"
    return default if default == "Q8_0" else "Q6_K"


def _very_low(default: str, kind: Category, walk: _Walk) -> str:
    facts, f = walk.facts, walk.ftype
    better = f in ("IQ2_S", "IQ2_M")
    if kind.is_value:
        walk.next("value")
        return "Q4_K" if facts.gqa >= 4 or facts.experts >= 4 else "IQ3_S" if better else "Q2_K"
    if kind is Category.ATTENTION_K and facts.experts == 8:
        return "Q4_K"
    if kind is Category.FFN_DOWN:
        return ("IQ3_S" if better else "Q2_K") if walk.next("down") < facts.blocks // 8 else default
    if kind is Category.ATTENTION_OUTPUT:
        if facts.experts == 8:
            return "Q5_K"
        return "IQ2_XXS" if f in ("IQ1_S", "IQ1_M") else "IQ3_S" if better else default
    return default


def _value(default: str, kind: Category, walk: _Walk) -> str:
    facts, f = walk.facts, walk.ftype
    i, grouped = walk.next("value"), facts.gqa >= 4
    new = default
    if f == "Q2_K":
        new = "Q4_K" if grouped else "Q3_K"
    elif f == "IQ3_XXS":
        new = "Q4_K" if grouped else "IQ3_XXS" if walk.has_imatrix else "IQ3_S"
    elif f in ("Q2_K_S", "IQ3_XS", "IQ3_S"):
        new = "Q4_K" if grouped else default
    elif f == "IQ3_M":
        new = "Q4_K"
    elif f == "Q3_K_M":
        new = "Q5_K" if i < 2 else "Q4_K"
    elif f == "Q3_K_L":
        new = "Q5_K"
    elif f in ("IQ4_NL", "IQ4_XS"):
        new = "Q5_K" if grouped else default
    elif f in ("Q4_K_M", "Q5_K_M"):
        new = "Q6_K" if _more_bits(i, walk.values) else default
    elif f == "Q4_K_S":
        new = "Q5_K" if i < 4 else default
    if facts.is_70b and new in ("Q3_K", "Q4_K"):
        new = "Q5_K"
    return "Q8_0" if facts.experts == 8 else new


def _ffn_down(default: str, tensor: Shape, walk: _Walk) -> str:
    facts, f = walk.facts, walk.ftype
    i, n, falcon = walk.layer("down", tensor.name), facts.blocks, facts.arch == "falcon"
    first, more = i < n // 8, _more_bits(i, n)
    if f == "Q2_K":
        return "Q3_K"
    if f == "Q2_K_S":
        return "Q4_K" if first else default
    if f == "IQ3_XXS":
        return default if walk.has_imatrix else "Q4_K" if first else "Q3_K"
    if f == "Q3_K_M":
        return "Q5_K" if i < n // 16 else "Q4_K" if not falcon or more else "Q3_K"
    if f == "IQ3_M":
        return "Q4_K" if first or (facts.experts == 8 and more) else default
    if f == "Q3_K_L":
        return "Q4_K" if falcon else "Q5_K"
    if f == "Q4_K_M":
        if falcon:
            return "Q6_K" if i < n // 16 else "Q5_K" if more else "Q4_K"
        return "Q6_K" if more else default
    if f in ("IQ4_NL", "IQ4_XS"):
        return "Q5_K" if first and not walk.has_imatrix else default
    if f == "Q5_K_M":
        return "Q6_K" if more else default
    if f == "Q4_K_S":
        return "Q5_K" if first and not falcon else default
    if f in ("Q4_0", "Q5_0") and walk.has_imatrix and first:
        return "Q4_1" if f == "Q4_0" else "Q5_1"
    return default


_OUTPUT_OF_8_EXPERTS = frozenset("Q2_K IQ3_XS IQ3_XXS Q3_K_S Q3_K_M IQ4_NL Q4_K_S Q4_K_M IQ3_S IQ3_M IQ4_XS".split())
_ATTENTION_OUTPUT = {"Q2_K": "Q3_K", "IQ3_XXS": "IQ3_S", "Q3_K_M": "Q4_K", "Q3_K_L": "Q5_K", "IQ3_M": "Q4_K"}


def _attention_output(default: str, walk: _Walk) -> str:
    if walk.facts.arch == "falcon":
        return "Q4_K" if walk.ftype == "Q3_K_L" else default
    if walk.facts.experts == 8:
        return "Q5_K" if walk.ftype in _OUTPUT_OF_8_EXPERTS else default
    return _ATTENTION_OUTPUT.get(walk.ftype, default)
