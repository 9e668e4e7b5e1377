"""Compute buffers, estimated.

llama.cpp reserves one buffer a backend for the largest graph it will run: `-ub` tokens at the full context. What lives
in it at its peak is regular enough to be added up: the attention masks (every cell of every cache, for every token),
a handful of rows as wide as the embedding, and the widest moment of a layer (feed-forward, experts, or attention) or
the logits. The terms were fitted to what real llama.cpp libraries reserved; `docs/memory.md` states the errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.backends import COPIES, backend
from gguftool.facts.cachetypes import CACHE_TYPES, flash_attn_used
from gguftool.facts.layers import is_mla, layers
from gguftool.memory.builds import formula
from gguftool.memory.devices import HOST, Device
from gguftool.memory.kv import CachePlan
from gguftool.memory.settings import Settings
from gguftool.memory.state import conv_width, recurrent_width
from gguftool.memory.weights import Placed, Placement
from gguftool.records import dataclass

F32, F16 = 4, 2
ROWS = 5
"""Rows of embedding width alive at the peak: residual, normed, input, and two the allocator cannot reuse in time."""
HOST_ROWS = 4
"""Of them on the host when all layers are on a device: two inputs for embeddings, and what is looked up for each."""
HOST_INPUT_ROWS = 2
"""Of those, the inputs: a pipeline keeps them once a copy."""
DEVICE_ROWS = 4
FIRST_ROWS = 3
"""Rows that come from the host to the first device of a pipeline, once a copy; the next ones get one row each."""
INPUT_BYTES = 16
"""Token, position and output number of one token."""
START = 32
"""Nothing starts at the first byte of a buffer."""
CELL_BYTES = 20
"""Numbers of its cells in one cache."""
ROW_NUMBER = 8
"""The number of a row that is written to, as `ggml_set_rows` takes it."""
TWO_MASKS = frozenset({"modern-bert", "gemma-embedding"})
"""Encoders with one mask for full and one for windowed layers."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The parts of a compute buffer, in bytes.

    Attributes:
        masks: attention masks.
        row: one row of embedding width for every token of a batch.
        layer: widest moment of a layer.
        feed: of that, the feed-forward or the experts alone.
        logits: rows of logits.
        tables: rotation matrices of quantised caches.
        host_rows: rows on the host when all layers are on a device; how many depends on the build.
    """

    masks: int
    row: int
    layer: int
    feed: int
    logits: int
    tables: int
    host_rows: int = HOST_ROWS

    __repr__ = short_repr

    @property
    def whole(self) -> int:
        """All on one backend."""
        return self.masks + ROWS * self.row + max(self.layer, self.logits) + self.tables + START

    def host_inputs(self, copies: int = 1) -> int:
        """On the host when all layers are elsewhere; inputs of a pipeline exist once a copy."""
        rows = self.host_rows + (copies - 1) * HOST_INPUT_ROWS
        return (self.masks + self.tables) * copies + rows * self.row + START

    def host_experts(self, copies: int = 1) -> int:
        """On the host when it has experts, and the devices all the rest."""
        return self.host_inputs(copies) + self.feed

    def device(
        self, *, borrowed: int = 0, cache: int = 0, copies: int = 1, first: bool = True, output_only: bool = False
    ) -> int:
        """On a device.

        Args:
            borrowed: bytes of a host matrix that is copied over for large batches.
            cache: bytes of one layer's cache on the host, copied over likewise.
            copies: how often the inputs exist.
            first: it has the first layers.
            output_only: it has the output layer and no other.
        """
        if output_only:
            return self.logits + self.row
        feed = self.layer + DEVICE_ROWS * self.row + borrowed
        attend = max(cache * 3 // 2, cache + borrowed) + ROWS * self.row if cache else 0
        crossing = 0 if copies == 1 else FIRST_ROWS * copies if first else copies - 1
        return (self.masks + self.tables) * copies + crossing * self.row + max(feed, attend, self.logits)


def terms(hp: Hparams, s: Settings, plan: CachePlan, vocabulary: int, build: int | None = None) -> Terms:
    """Parts of the compute buffer of a model under these settings.

    Args:
        hp: hyperparameters.
        s: settings.
        plan: its caches.
        vocabulary: rows of the output matrix; 0 when there is none.
        build: number of the build that will run it; None: as the newest.
    """
    c, f = plan.context, formula(build)
    flash = flash_attn_used(hp, s.type_v, s.flash_attn)
    cells = sum(x.cells for x in plan.caches)
    if hp.facts is not None and hp.facts.memory == "none":
        cells = c.ubatch * (2 if hp.arch in TWO_MASKS else 1)
    per_token = cells * (F16 if flash and not f.wide_masks else F32) + INPUT_BYTES + CELL_BYTES * len(plan.caches)
    if not flash:
        # V lies transposed, and every element of it has a number of its own.
        per_token += ROW_NUMBER * sum(max((x.v_width for x in c.layers), default=0) for c in plan.caches)
    outputs = c.ubatch if f.all_logits else min(c.ubatch, s.outputs if s.outputs is not None else c.slots)
    return Terms(
        masks=per_token * c.ubatch,
        row=hp.embedding_length * F32 * c.ubatch,
        layer=max(
            max(_feed_forward(hp), _attention(hp, plan, flash)) * c.ubatch,
            _casts(hp, s, plan) if flash else 0,
            (_recurrent(hp) * c.ubatch + _state(hp, plan)) if plan.state else 0,
        )
        + _extra(hp, plan) * c.ubatch,
        feed=_feed_forward(hp) * c.ubatch,
        logits=vocabulary * F32 * outputs,
        tables=_tables(hp, s, plan),
        host_rows=f.host_rows,
    )


def by_formula(
    t: Terms, devices: Sequence[Device], p: Placement, placed: Placed, *, first: int, copies: int, cache: int
) -> dict[str, int]:
    """Bytes by device of a model whose graph is not known.

    Args:
        t: the parts.
        devices: the accelerators.
        p: placement.
        placed: where the weights are.
        first: the layer the graph begins with.
        copies: how often inputs exist.
        cache: bytes of the largest layer's cache on the host.
    """
    if not devices:
        return {HOST: t.whole}
    repeating = set(placed.layer_device[first:-1])
    everything = HOST not in repeating and not placed.experts_on_host
    lends = p.op_offload and any(d.backend.offloads and d.backend.pinned_host for d in devices)
    apart = not p.kv_offload and HOST not in repeating
    host = t.host_inputs(copies) if everything or lends else t.whole
    if HOST not in repeating and not everything and not lends:
        host = t.host_experts(copies)
    out: dict[str, int] = {HOST: host}
    for i, d in enumerate(devices):
        # The first device does the large batches of what lies on the host.
        borrows = lends and i == 0 and not everything
        if d.name in repeating or borrows:
            out[d.name] = t.device(
                borrowed=placed.largest_on_host if borrows else 0,
                cache=cache if borrows and not apart else 0,
                copies=copies,
                first=i == 0,
            ) + (cache if apart else 0)
        elif d.name == placed.layer_device[-1]:
            out[d.name] = t.device(output_only=True)
    return out


def _feed_forward(hp: Hparams) -> int:
    """Gate, up and their product; with experts each of them once an expert used, and every expert's answer."""
    dense = 3 * max(hp.per_layer("feed_forward_length"), default=0) * F32
    used = max(hp.per_layer("expert_used_count"), default=0)
    if not used:
        return dense
    from gguftool.facts.reads import reads

    width = max(hp.per_layer("feed_forward_length"), default=0)
    if "expert_feed_forward_length" in reads(hp.arch):
        width = max(hp.per_layer("expert_feed_forward_length"), default=0) or width
    # The answers take the place of the gates when they are no larger.
    answers = hp.embedding_length if hp.embedding_length > width else 0
    return max(dense, used * (answers + 3 * width) * F32)


def _attention(hp: Hparams, plan: CachePlan, flash: bool) -> int:
    """Q, K, V and the answer; without FlashAttention also the scores of every head for every cell."""
    heads = max(hp.head_count, default=0)
    encoder = hp.facts is not None and hp.facts.memory == "none"
    if not heads or not (plan.caches or encoder):
        return 0
    every = layers(hp)
    q = heads * max((x.key_length for x in every), default=0)
    k = max((x.k_width for x in every), default=0)
    v = max((x.v_width for x in every), default=0)
    if is_mla(hp):
        # The absorbed query, the latent answer, the query before, and its rotated part.
        q += heads * (hp.value_length + hp.int("attention.key_length_mla") + hp.int("rope.dimension_count"))
        v = 0
    if flash:
        return (q + k + v) * F32
    scores = heads * max((x.cells for x in plan.caches), default=plan.context.ubatch)
    return (scores + 2 * (q + k + v)) * F32


def _casts(hp: Hparams, s: Settings, plan: CachePlan) -> int:
    """K and V of one layer as FlashAttention wants them where they are kept as 32-bit floats, and Q beside them."""
    if "f32" not in (s.type_k, s.type_v):
        return 0
    widths = (
        ((x.k_width if s.type_k == "f32" else 0) + (x.v_width if s.type_v == "f32" else 0)) * c.cells * c.streams
        for c in plan.caches
        for x in c.layers
    )
    q = max(hp.head_count, default=0) * max((x.key_length for x in layers(hp)), default=0) * F32
    return max(widths, default=0) * F16 + q * plan.context.ubatch


def _recurrent(hp: Hparams) -> int:
    """Projections of a recurrent layer for one token."""
    memory = hp.facts.memory if hp.facts else "kv"
    if memory not in ("recurrent", "hybrid", "hybrid-iswa", "hybrid-indexer"):
        return 0
    if hp.shape.number("wkv_head_size"):
        rows = 9 if hp.arch in ("rwkv7", "arwkv7") else 5
        return (3 * max(hp.per_layer("feed_forward_length"), default=0) + rows * hp.embedding_length) * F32
    inner = hp.int("ssm.inner_size")
    groups = 2 * hp.int("ssm.group_count") * hp.int("ssm.state_size")
    return (5 * inner + 2 * groups) * F32


def _extra(hp: Hparams, plan: CachePlan) -> int:
    """What a few architectures keep beside the widest moment, bytes a token."""
    e, memory = hp.embedding_length, hp.facts.memory if hp.facts else "kv"
    if hp.arch == "gemma3n":
        # Four streams of every layer's input stay alive.
        return hp.block_count * 16 * e * F32
    if memory == "dsv4":
        return 7 * hp.int("hyper_connection.count") * e * F32
    extra = 3 * hp.block_count * hp.int("embedding_length_per_layer_input") * F32 if hp.arch == "gemma4" else 0
    indexer = next((x for x in plan.caches if x.name == "indexer"), None)
    if indexer is not None and memory != "msa":
        heads, width = hp.int("attention.indexer.head_count"), hp.int("attention.indexer.key_length")
        if memory == "hybrid-indexer":
            return extra + 3 * heads * indexer.cells // 2
        extra += 8 * indexer.cells + 2 * heads * width * F32
    if hp.arch in ("t5", "t5encoder"):
        extra += 3 * max(hp.head_count, default=0) * max((x.cells for x in plan.caches), default=0) * F32
    return extra


def _state(hp: Hparams, plan: CachePlan) -> int:
    """States of one layer, as read and as written."""
    if not plan.state:
        return 0
    return 2 * plan.context.slots * (conv_width(hp) + recurrent_width(hp)) * F32


def turns(hp: Hparams, s: Settings) -> tuple[int, int]:
    """Sides of the Hadamard matrices that rotate quantised K and V (`llama-kv-cache.cpp`); 0: there is none."""
    sizes = {x.key_length for x in layers(hp) if x.trunk and not x.recurrent and x.heads_kv}
    if len(sizes) != 1:
        return 0, 0
    key, k, v = sizes.pop(), 0, 0
    if CACHE_TYPES[s.type_k].quantized and key and key % 64 == 0:
        k = 64
        while key % (2 * k) == 0:
            k *= 2
    if CACHE_TYPES[s.type_v].quantized and hp.value_length % 64 == 0 and not is_mla(hp):
        v = 64
    return k, v


def _tables(hp: Hparams, s: Settings, plan: CachePlan) -> int:
    """Those matrices, one set a cache."""
    return sum(n * n * F32 for n in turns(hp, s)) * len(plan.caches)


def pipeline_copies(kinds: Sequence[str], *, all_layers: bool, overrides: bool, kv_offload: bool) -> int:
    """How often inputs exist: several devices that can work in a pipeline each get their own (`llama-context.cpp`)."""
    able = len(kinds) > 1 and all(backend(kind).pipelines for kind in kinds)
    return COPIES if able and all_layers and not overrides and kv_offload else 1
