"""KV cache and recurrent state, to the byte.

Every memory class of `llama-model.cpp:create_memory` (b11434) comes down to a list of caches: which layers, how
wide a row of K and of V, how many cells, how many streams. `docs/memory.md` derives the formula.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES, flash_attn_used
from gguftool.facts.layers import is_mla, layers, window, windowed
from gguftool.memory.settings import CELL_PAD, Context, Settings, context, pad
from gguftool.memory.state import StateLayer, state_layers
from gguftool.records import dataclass

if TYPE_CHECKING:
    from gguftool.facts.shape import Layer

CPU_ALIGNMENT = 32
"""A tensor in a host buffer starts at a multiple of this (`ggml-impl.h:TENSOR_ALIGNMENT`)."""
CUDA_ALIGNMENT = 128
CUDA_ROW = 512
"""CUDA pads the last row of a quantised tensor to this many elements (`ggml-cuda.cu:get_alloc_size`)."""


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """K and V of one layer in one cache, widths in elements; ``v_width`` 0: there is no V."""

    index: int
    k_width: int
    v_width: int

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Cache:
    """One KV cache of llama.cpp.

    Attributes:
        name: ``full``, ``window``, ``indexer``, ``csa``, ``hca``.
        cells: tokens it holds, in each stream.
        streams: how many side by side.
        type_k, type_v: cache types.
        layers: what each layer keeps in it.
    """

    name: str
    cells: int
    streams: int
    type_k: str
    type_v: str
    layers: tuple[CacheLayer, ...]

    __repr__ = short_repr

    @property
    def k_bytes(self) -> int:
        """Bytes of K, all layers."""
        return sum(self._tensor(self.type_k, x.k_width) for x in self.layers)

    @property
    def v_bytes(self) -> int:
        """Bytes of V, all layers."""
        return sum(self._tensor(self.type_v, x.v_width) for x in self.layers)

    @property
    def bytes(self) -> int:
        """Bytes of the tensors, which is also the size of a host buffer."""
        return sum(self.layer_bytes(x, CPU_ALIGNMENT) for x in self.layers)

    def layer_bytes(self, x: CacheLayer, alignment: int) -> int:
        """Bytes one layer takes in a buffer of this alignment; CUDA's (128) also pads quantised rows."""
        return sum(self.parts(x, alignment))

    def parts(self, x: CacheLayer, alignment: int) -> tuple[int, int]:
        """Of those, K's and V's."""
        return self._aligned(self.type_k, x.k_width, alignment), self._aligned(self.type_v, x.v_width, alignment)

    def _aligned(self, type_name: str, width: int, alignment: int) -> int:
        size = self._tensor(type_name, width)
        t = CACHE_TYPES[type_name]
        if alignment == CUDA_ALIGNMENT and t.quantized and width % CUDA_ROW:
            size += t.row_bytes(CUDA_ROW - width % CUDA_ROW)
        return pad(size, alignment)

    def _tensor(self, type_name: str, width: int) -> int:
        return CACHE_TYPES[type_name].row_bytes(width) * self.cells * self.streams


@dataclass(frozen=True, slots=True)
class CachePlan:
    """All caches of one context.

    Attributes:
        context: what llama.cpp made of the settings.
        caches: KV caches; empty for models that keep none.
        state: recurrent and compressor states, which depend on slots and not on the context length.
        doubt: why the sizes may be others than llama.cpp's; "": they are exact.
    """

    context: Context
    caches: tuple[Cache, ...]
    state: tuple[StateLayer, ...]
    doubt: str = ""

    @property
    def basis(self) -> str:
        """``exact``, or ``unknown`` where how the model keeps its context is not known."""
        return "unknown" if self.doubt else "exact"

    __repr__ = short_repr

    @property
    def kv_bytes(self) -> int:
        """Bytes of all KV caches."""
        return sum(c.bytes for c in self.caches)

    @property
    def state_bytes(self) -> int:
        """Bytes of all states."""
        return sum(s.bytes(CPU_ALIGNMENT) for s in self.state)

    @property
    def bytes(self) -> int:
        """What llama.cpp reports as context memory: KV caches and states."""
        return self.kv_bytes + self.state_bytes

    def layer_bytes(self, alignment: int = CPU_ALIGNMENT) -> dict[int, int]:
        """Bytes of caches and state by layer, in buffers of this alignment."""
        out: dict[int, int] = {}
        for c in self.caches:
            for x in c.layers:
                out[x.index] = out.get(x.index, 0) + c.layer_bytes(x, alignment)
        for s in self.state:
            out[s.index] = out.get(s.index, 0) + s.bytes(alignment)
        return out


def kv_cache(hp: Hparams, s: Settings) -> CachePlan:
    """Caches and states of a model under these settings.

    Raises:
        UsageError: neither the file nor the settings name a context length.
    """
    ctx = context(hp, s)
    make = _Make(hp, s, ctx)
    write = _CLASSES.get(hp.facts.memory) if hp.facts else None
    # A plain cache is what most models have; where it is a guess, `doubt` says so.
    caches = tuple(c for c in (write or _plain)(make) if c.layers)
    state = state_layers(hp, make.layers, ctx.slots * (1 + s.snapshots), ctx.slots)
    return CachePlan(ctx, caches, state, _doubt(hp, write is not None))


def layer_cache(hp: Hparams, s: Settings) -> CachePlan:
    """Caches of a context that drafts with the layers of a model that predict further tokens.

    It holds those layers alone, in a plain cache, and no state (`create_memory` with `LLAMA_CONTEXT_TYPE_MTP`).

    Raises:
        UsageError: neither the file nor the settings name a context length.
    """
    make = _Make(hp, s, context(hp, s))
    memory = hp.facts.memory if hp.facts else ""
    if hp.arch == "gemma4-assistant":
        found: list[Cache] = []  # its tensors are those of the model it assists
    elif memory == "hybrid-indexer":
        rows = hp.shape.number("indexer_kpool_row") if hp.shape.number("indexer_kpool") else 1
        found = [
            make.cache("full", make.ctx.per_slot, make.rows(_predicts)),
            make.indexer(_predicts, rows, k_only=True),
        ]
    elif windowed(hp):
        found = make.full_and_window(_predicts)
    else:
        found = [make.cache("full", make.ctx.per_slot, make.rows(_predicts))]
    return CachePlan(
        make.ctx, tuple(c for c in found if c.layers), (), _doubt(hp, memory in _CLASSES and memory != "dsv4")
    )


def _predicts(x: Layer) -> bool:
    return not x.trunk


def _doubt(hp: Hparams, known: bool) -> str:
    """Why the caches of this model may be others than those written down."""
    if hp.facts is None:
        return f"{hp.arch or 'a file without an architecture'} is not known here: these are the sizes of a plain cache"
    if not known:
        kind = hp.facts.memory
        return f"how {hp.arch} keeps its context ({kind}) is not known here: these are the sizes of a plain cache"
    if not hp.facts.unsupported and not hp.shape.complete:
        return f"the keys of this file do not add up to a {hp.arch} model: its layers may be others"
    return ""


def bytes_per_token(hp: Hparams, s: Settings) -> float:
    """KV bytes that one more token costs: of the caches that grow with the context, windows left out."""

    # Every cache is linear in its cells once the context is past the windows, so two large contexts tell the slope.
    def at(tokens: int) -> int:
        probe = Settings(tokens, s.type_k, s.type_v, 1, False, s.ubatch, s.batch, s.flash_attn, s.swa_full)
        return sum(c.bytes for c in kv_cache(hp, probe).caches)

    low, step = 1 << 24, 1 << 20
    return (at(low + step) - at(low)) / step


class _Make:
    """What the memory classes need to write down their caches."""

    def __init__(self, hp: Hparams, s: Settings, ctx: Context) -> None:
        self.hp, self.s, self.ctx = hp, s, ctx
        self.layers = layers(hp)
        self.mla = is_mla(hp)
        self.padded_v = 0
        if not flash_attn_used(hp, s.type_v, s.flash_attn):
            # Without FlashAttention V lies transposed, every layer as wide as the widest.
            self.padded_v = max((x.v_width for x in self.layers), default=0)

    def cache(self, name: str, cells: int, chosen: Iterable[CacheLayer], streams: int | None = None) -> Cache:
        return Cache(name, cells, streams or self.ctx.streams, self.s.type_k, self.s.type_v, tuple(chosen))

    def rows(self, want: Callable[[Layer], bool], *, k_only: bool = False) -> list[CacheLayer]:
        """K and V as wide as the layers' own heads."""
        return [
            CacheLayer(x.index, x.k_width, 0 if k_only or self.mla else self.padded_v or x.v_width)
            for x in self.layers
            if want(x)
        ]

    def window_cells(self, sequences: int) -> int:
        """Cells of a sliding-window cache (`llama-kv-cache-iswa.cpp`)."""
        if self.s.swa_full:
            return self.ctx.per_slot
        # The sum is 32 bits wide there: a window that is no number of tokens wraps round.
        wanted = window(self.hp) * sequences + self.ctx.ubatch & 0xFFFFFFFF
        return pad(min(self.ctx.per_slot, wanted), CELL_PAD)

    @property
    def window_sequences(self) -> int:
        return self.ctx.slots if self.ctx.unified else 1

    def full_and_window(self, want: Callable[[Layer], bool]) -> list[Cache]:
        return [
            self.cache("full", self.ctx.per_slot, self.rows(lambda x: want(x) and not x.swa)),
            self.cache("window", self.window_cells(self.window_sequences), self.rows(lambda x: want(x) and x.swa)),
        ]

    def indexer(self, want: Callable[[Layer], bool], rows: int = 1, *, k_only: bool) -> Cache:
        """One key head of the indexer; where V is not left out, it is as wide as one head of V."""
        width = self.hp.shape.number("indexer_head_size") * rows
        v_max = max((x.value_length for x in self.layers), default=0) if self.padded_v else 0
        chosen = [
            CacheLayer(x.index, x.key_length if x.swa else width, 0 if k_only else v_max or x.value_length)
            for x in self.layers
            if want(x)
        ]
        return self.cache("indexer", self.ctx.per_slot, chosen)


ATTENDS: dict[str, Callable[[Layer], bool]] = {
    "": lambda x: not x.recurrent,
    "all": lambda x: True,
    "no-ff": lambda x: not x.recurrent and x.feed_forward == 0,
    "trunk": lambda x: x.trunk and not x.recurrent,
}
"""Layers of a hybrid with a KV cache, by `ArchFacts.attends`."""


def _plain(m: _Make) -> list[Cache]:
    if m.hp.arch == "gemma4-assistant":
        return []  # its tensors are those of the model it assists
    kept = _kept_layers(m.hp)
    router = m.hp.shape.machine.h.get("router_layer", -1) >= 0
    skip_nextn = not router and any(x.trunk for x in m.layers)

    def want(x: Layer) -> bool:
        return x.index < kept and (x.trunk or not skip_nextn)

    if windowed(m.hp):
        return m.full_and_window(want)
    return [m.cache("full", m.ctx.per_slot, m.rows(want))]


def _kept_layers(hp: Hparams) -> int:
    """Layers that own a cache: the last ones of some architectures read those of others."""
    first: int = hp.shape.machine.h.get("n_layer_kv_from_start", -1)
    return first if first >= 0 and hp.facts is not None and hp.facts.reuses_kv else 1 << 30


def _hybrid(m: _Make) -> list[Cache]:
    want = _attends(m.hp)
    if windowed(m.hp):
        return m.full_and_window(want)
    return [m.cache("full", m.ctx.per_slot, m.rows(want))]


def _attends(hp: Hparams) -> Callable[[Layer], bool]:
    """Which layers of a hybrid attend (the filters of `create_memory`)."""
    return ATTENDS[hp.facts.attends if hp.facts else ""]


def _hybrid_indexer(m: _Make) -> list[Cache]:
    attends = _attends(m.hp)
    owns = _owns_indexer(m.hp)
    # Where keys are pooled a row holds more than the key: the pooled one, and glm5-next's gate.
    rows = m.hp.shape.number("indexer_kpool_row") if m.hp.shape.number("indexer_kpool") else 1
    return [
        m.cache("full", m.ctx.per_slot, m.rows(attends)),
        m.indexer(lambda x: attends(x) and owns(x), rows, k_only=True),
    ]


def _dsa(m: _Make) -> list[Cache]:
    owns = _owns_indexer(m.hp)
    plain = m.hp.facts is not None and m.hp.facts.memory == "mla-indexer"
    caches = [m.cache("full", m.ctx.per_slot, m.rows(lambda x: plain or x.trunk))]
    if not plain or m.hp.shape.number("indexer_top_k"):
        caches.append(m.indexer(lambda x: x.trunk and owns(x), k_only=m.mla))
    return caches


def _dsa_iswa(m: _Make) -> list[Cache]:
    owns = _owns_indexer(m.hp)
    return [*m.full_and_window(lambda x: x.trunk), m.indexer(lambda x: x.trunk and owns(x), k_only=m.mla)]


EVERY_INDEXER = frozenset({"deepseek32", "qwen4exp"})
"""Architectures whose layers all have an indexer (`create_memory`: its filter does not ask `is_indexer_full`)."""


def _owns_indexer(hp: Hparams) -> Callable[[Layer], bool]:
    """Layers with an indexer of their own; the others use that of a layer before."""
    if hp.arch in EVERY_INDEXER:
        return lambda x: True
    return lambda x: bool(hp.shape.at("is_indexer_full_impl", x.index))


def _msa(m: _Make) -> list[Cache]:
    dense = m.hp.shape.number("n_layer_dense_lead")
    return [
        m.cache("full", m.ctx.per_slot, m.rows(lambda x: True)),
        m.indexer(lambda x: x.index >= dense, k_only=False),
    ]


def _dsv4(m: _Make) -> list[Cache]:
    """Raw window, compressed by 4 and by 128, and the indexer's keys; one stream a slot even when unified."""
    streams, per_slot = m.ctx.slots, m.ctx.per_slot
    ratios = m.hp.per_layer("attention.compress_ratios")
    indexer = m.hp.shape.number("indexer_head_size")

    def compressed(name: str, ratio: int, width: int) -> Cache:
        cells = pad(max(1, -(-per_slot // ratio)), CELL_PAD)
        chosen = [CacheLayer(x.index, width or x.k_width, 0) for x in m.layers if ratios[x.index] == ratio]
        return m.cache(name, cells, chosen, streams)

    return [
        m.cache("window", m.window_cells(1), m.rows(lambda x: True, k_only=True), streams),
        compressed("csa", 4, 0),
        compressed("hca", 128, 0),
        compressed("indexer", 4, indexer),
    ]


def _none(m: _Make) -> list[Cache]:
    return []


_CLASSES: dict[str, Callable[[_Make], list[Cache]]] = {
    "kv": _plain,
    "iswa": _plain,
    "iswa-if-window": _plain,
    "mla": _plain,
    "none": _none,
    "unsupported": _none,
    "recurrent": _none,
    "hybrid": _hybrid,
    "hybrid-iswa": _hybrid,
    "hybrid-indexer": _hybrid_indexer,
    "dsa": _dsa,
    "mla-indexer": _dsa,
    "dsa-iswa": _dsa_iswa,
    "dsv4": _dsv4,
    "msa": _msa,
}
