"""The graph of a whole model under given settings, and the compute buffers it needs on every device.

Layers that are alike need alike buffers, so of a long row of them only the first few are built.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

from gguftool.brief import named_repr
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES, flash_attn_used
from gguftool.facts.layers import layers
from gguftool.facts.shape import Layer
from gguftool.memory.again import Repeats, picked
from gguftool.memory.blocks import (
    Build,
    CacheOf,
    NotKnownHere,
    Tensors,
    attention,
    feed_forward,
    matrix,
    norm,
    project,
)
from gguftool.memory.builds import Formula
from gguftool.memory.compute import turns
from gguftool.memory.devices import HOST
from gguftool.memory.graph import F16, F32, I32, I64, Graph, Node, get_rows, given, like, made, mul_mat, stored, written
from gguftool.memory.kv import Cache, CachePlan
from gguftool.memory.reserve import Backends, Reserve, reserve
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Weight, block_of

if TYPE_CHECKING:
    from gguftool.memory.recurrent import StateOf

LATE = frozenset(
    "bailingmoe3 cohere2moe gemma4 hy-v3 nemotron_h nemotron_h_moe gpt-oss qwen35 qwen35moe qwen3next step35".split()
)
"""Architectures whose last layer goes on with all tokens: rows for the output are picked after it."""
ROWS_EARLY = frozenset({"qwen3next"})
"""Architectures whose prediction layer picks the rows of the output after attention, not at its end."""
FOUR_POSITIONS = frozenset(
    "qwen2vl paddleocr qwen3vl qwen3vlmoe qwen35 qwen35moe clef qwen4exp qwen3tts hunyuan_vl".split()
)
"""Architectures with four positions a token (M-RoPE)."""
NOT_MIXED = frozenset("cogvlm deepseek4 granite-switch eagle3 dflash gemma4-assistant".split())
"""Architectures whose batches hold either tokens or embeddings (`llm_arch_supports_mixed_batch`)."""
PARTS = frozenset("full window".split())
MEMORIES = frozenset("kv iswa iswa-if-window mla recurrent hybrid".split())
SCALED = ("gemma",)
UNUSED = frozenset({"rope_freqs.weight", "layer_output_scale.weight"})


class Layout:
    """A model's tensors, sorted once.

    Args:
        hp: hyperparameters.
        tensors: all tensors.
    """

    def __init__(self, hp: Hparams, tensors: Sequence[Weight]) -> None:
        self.hp = hp
        self.layers = [x for x in layers(hp) if x.trunk]
        self.heads = [x for x in layers(hp) if not x.trunk]
        self.blocks: dict[int, dict[str, Weight]] = {}
        self.rest: dict[str, Weight] = {}
        for w in tensors:
            found = block_of(w.name)
            # What llama.cpp looks for there is a name, of one line.
            if found is not None and found[1] and "\n" not in found[1]:
                self.blocks.setdefault(found[0], {})[found[1]] = w
            else:
                self.rest[w.name] = w

    __repr__ = named_repr

    @cached_property
    def shapes(self) -> dict[int, int]:
        """Of each layer, a number for the names and shapes of its tensors."""
        return self._numbers(lambda w: w.shape)

    @cached_property
    def kinds(self) -> dict[int, int]:
        """Of each layer, a number for the names, shapes and types of its tensors."""
        return self._numbers(lambda w: (w.shape, w.type_name))

    def _numbers(self, sign: Callable[[Weight], object]) -> dict[int, int]:
        """A number for each layer; those whose tensors have the same names and signs have the same."""
        numbers: dict[object, int] = {}
        kinds = {i: tuple((k, sign(w)) for k, w in sorted(t.items())) for i, t in self.blocks.items()}
        return {i: numbers.setdefault(kind, len(numbers)) for i, kind in kinds.items()}

    def reserve(
        self,
        s: Settings,
        plan: CachePlan,
        formula: Formula,
        at: Sequence[str],
        lies: Callable[[Weight], str],
        backends: Backends,
        *,
        kv_offload: bool = True,
        pins: bool = True,
        drafts: bool = False,
    ) -> Reserve:
        """What the compute buffers of every device and the host hold, for caches of any number of cells.

        Args:
            s: settings.
            plan: its caches.
            formula: what the build does otherwise.
            at: device of each layer, the output layer's last.
            lies: buffer of a tensor.
            backends: where the graph runs.
            kv_offload: caches follow their layers.
            pins: what llama.cpp keeps on a device of its choice stays there. A server does so; llama.cpp's own
                measuring (`no_alloc`) forgets it (`ggml_backend_sched_reserve_size`).
            drafts: the graph is that of the layer that predicts a further token.

        Raises:
            NotKnownHere: the graph of this model is not known.
        """
        hp, c = self.hp, plan.context
        if hp.facts is None or hp.facts.memory not in MEMORIES or any(x.name not in PARTS for x in plan.caches):
            raise NotKnownHere("its memory")
        n = -(-c.ubatch // c.slots) * c.slots
        flash = flash_attn_used(hp, s.type_v, s.flash_attn)
        b = Build(hp, Graph(), n, c.slots, c.streams, flash, given(I32, n * (4 if hp.arch in FOUR_POSITIONS else 1)))
        b.host_attention = HOST if pins and not kv_offload else ""
        full = pins and HOST not in at
        outputs = n if formula.all_logits else min(n, s.outputs if s.outputs is not None else c.slots)
        memory = _Memory(b, s, plan, at, kv_offload=kv_offload, wide=formula.wide_masks)
        out_ids = given(I32, outputs)
        t = self._globals(lies)
        if drafts:
            x = self._drafted(b, memory, lies, at if full else (), out_ids)
        else:
            x = self._input(b, lies, mixed=formula.mixed and hp.arch not in NOT_MIXED)
            if not self.layers:
                raise NotKnownHere
            last = self.layers[-1].index if hp.arch not in LATE else -1
            every = self._kept(at, lies, apart=bool(backends.devices))
            repeats = None
            if not backends.devices and not formula.wide_masks and not any(y.recurrent for y in every):
                repeats = Repeats(b.graph, [(y.index == last, *self.like(y, lies), memory.like(y)) for y in every])
            for i, layer in enumerate(every):
                b.pin, b.used, b.stems = at[layer.index] if full else "", set(), set()
                rows = out_ids if layer.index == last else None
                build = partial(self._layer, b, layer, memory=memory, lies=lies, out_ids=rows)
                x = build(x) if repeats is None else repeats.layer(i, x, build)
            x = _ended(b, t, x, out_ids)
        w = t.get("output.weight")
        if w is None:
            e = self.rest["token_embd.weight"]
            w = stored(at[-1], e.nbytes, *e.shape, weight=True)
        x = mul_mat(w, x)
        x.output = True
        b.graph.expand(x)
        return reserve(b.graph, backends, {x.name: x.cells for x in plan.caches})

    def _drafted(
        self, b: Build, memory: _Memory, lies: Callable[[Weight], str], at: Sequence[str], out_ids: Node
    ) -> Node:
        """`graph_mtp`: the embedding of a token and the state before it, joined, through one layer."""
        if len(self.heads) != 1:
            raise NotKnownHere("several layers that predict")
        layer = self.heads[0]
        weights = self.blocks.get(layer.index, {})
        t = {k: stored(lies(w), w.nbytes, *w.shape, weight=True) for k, w in weights.items()}
        embedding = weights.get("nextn.embed_tokens.weight") or self.rest.get("token_embd.weight")
        if embedding is None:
            raise NotKnownHere("no token embedding")
        b.pin, b.used = at[layer.index] if at else "", {k for k in t if k.startswith("nextn.")}
        table = stored(lies(embedding), embedding.nbytes, *embedding.shape, weight=True)
        token = norm(b, t, "nextn.enorm", get_rows(table, given(I32, b.tokens)))
        before = norm(b, t, "nextn.hnorm", given(F32, (*embedding.shape, 1)[0], b.tokens))
        joined = made("CONCAT", (2 * (*embedding.shape, 1)[0], b.tokens), token, before)
        late = b.hp.arch not in ROWS_EARLY
        x = project(b, t, "nextn.eh_proj", joined)
        x = self._layer(b, layer, x, memory, lies, None if late else out_ids)
        b.pin = ""
        own = "nextn.shared_head_norm"
        x = norm(b, t, own, x) if f"{own}.weight" in t else norm(b, self._globals(lies), "output_norm", x)
        x.output = True
        if late:
            x = get_rows(x, out_ids)
            x.output = True
        return x

    def _globals(self, lies: Callable[[Weight], str]) -> Tensors:
        return {k: stored(lies(w), w.nbytes, *w.shape, weight=True) for k, w in self.rest.items()}

    def _kept(self, at: Sequence[str], lies: Callable[[Weight], str], *, apart: bool) -> list[Layer]:
        """Layers that are built: of those between like neighbours the first few, and the last.

        Args:
            at: device of each layer.
            lies: buffer of a tensor.
            apart: there are devices beside the host. Without, nothing is copied, and the types of matrices, which lie
                where they are, decide nothing.
        """
        if any(x.index not in self.blocks for x in self.layers):
            raise NotKnownHere("a layer without tensors")
        numbered: dict[object, int] = {}
        signs = self.signs(at, lies) if apart else [(self.shapes[x.index], x.swa, x.recurrent) for x in self.layers]
        marks = [numbered.setdefault(sign, len(numbered)) for sign in signs]
        return [self.layers[i] for i in picked(marks, apart=HOST in at and len(set(at)) > 1)]

    def like(self, x: Layer, lies: Callable[[Weight], str]) -> tuple[object, ...]:
        """What of a layer on the host, beside its caches, decides about its part of the graph."""
        loaded = all(map(lies, self.blocks[x.index].values()))
        return self.shapes[x.index], loaded, x.heads_kv, x.key_length, x.value_length, x.swa

    def signs(self, at: Sequence[str], lies: Callable[[Weight], str]) -> list[object]:
        """Of each layer, what decides about its part of the graph: two with the same are built alike."""
        return [
            (self.kinds[x.index], x.swa, x.recurrent, at[x.index], tuple(map(lies, self.blocks[x.index].values())))
            for x in self.layers
        ]

    def _input(self, b: Build, lies: Callable[[Weight], str], *, mixed: bool) -> Node:
        """`build_inp_embd`: tokens, embeddings, or both, of which one is used."""
        w = self.rest.get("token_embd.weight")
        if w is None:
            raise NotKnownHere("no token embedding")
        rows, width, n = stored(lies(w), w.nbytes, *w.shape, weight=True), (*w.shape, 1)[0], b.tokens
        g = b.graph
        x = g.expand(get_rows(rows, given(I32, n)))
        g.expand(given(F32, width, n))
        if mixed:
            copy = like("DUP", given(F32, width, n))
            g.expand(written("SET_ROWS", copy, get_rows(rows, given(I32, n)), given(I64, n)))
        if b.hp.arch.startswith(SCALED):
            x = like("MUL", x, given(F32, 1, n))
        g.expand(x)
        t = self._globals(lies)
        if "position_embd.weight" in t:
            x = like("ADD", x, get_rows(t["position_embd.weight"], b.position))
        return norm(b, t, "token_embd_norm", x) if "token_embd_norm.weight" in t else x

    def _layer(
        self, b: Build, layer: Layer, x: Node, memory: _Memory, lies: Callable[[Weight], str], out_ids: Node | None
    ) -> Node:
        weights = self.blocks[layer.index]
        t = {k: stored(lies(w), w.nbytes, *w.shape, weight=True) for k, w in weights.items()}
        left = x
        if matrix(b, t, "attn_norm") is not None:
            x = norm(b, t, "attn_norm", x)
        normed = x
        if layer.recurrent:
            from gguftool.memory.recurrent import delta_net, mamba

            block = mamba if "ssm_x.weight" in t else delta_net
            x = block(b, t, x, memory.state(layer.index))
        elif matrix(b, t, "attn_kv_a_mqa") is not None:
            from gguftool.memory.absorbed import latent

            x = latent(b, t, x, layer, memory.cache(layer.index))
        else:
            x = attention(b, t, x, layer, memory.cache(layer.index))
        if out_ids is not None:
            x, left, normed = (get_rows(a, out_ids) for a in (x, left, normed))
        x = _onward(b, t, x, left, normed)
        if "layer_output_scale.weight" in t:
            x = like("MUL", x, t["layer_output_scale.weight"])
        strange = sorted(k for k in b.strange(t) if k not in UNUSED and not k.endswith(".input_scale"))
        if strange:
            raise NotKnownHere(strange[0])
        return x


def way(cache_type: str) -> tuple[bool, bool]:
    """What of a cache type decides about the graph: it is rotated, it is cast."""
    return CACHE_TYPES[cache_type].quantized, cache_type == "f32"


def _ended(b: Build, t: Tensors, x: Node, out_ids: Node) -> Node:
    """The last norm; where all tokens went on so far, the rows of the output are picked before or after it."""
    if b.hp.arch == "gpt-oss":
        x.output = True
        x = get_rows(x, out_ids)
    x = norm(b, t, "output_norm", x)
    x.output = True
    if b.hp.arch in LATE and b.hp.arch != "gpt-oss":
        x = get_rows(x, out_ids)
        x.output = True
    return x


def _onward(b: Build, t: Tensors, x: Node, left: Node, normed: Node) -> Node:
    """From attention's answer to the end of the layer."""
    before, after = matrix(b, t, "ffn_norm"), matrix(b, t, "post_attention_norm")
    last = matrix(b, t, "post_ffw_norm")
    further: Callable[[Build, Tensors, Node], Node] = feed_forward
    if matrix(b, t, "ffn_gate_inp") is not None:
        from gguftool.memory.experts import experts

        further = experts
    if before is None and after is None:
        if matrix(b, t, "ffn_up") is None:
            return like("ADD", x, left)
        # Attention and feed-forward work side by side.
        return like("ADD", like("ADD", further(b, t, normed), left), x)
    if after is not None and (before is not None or last is not None):
        x = norm(b, t, "post_attention_norm", x)
    x = left = like("ADD", x, left)
    if before is not None:
        x = norm(b, t, "ffn_norm", x)
    elif last is None:
        x = norm(b, t, "post_attention_norm", x)
    x = further(b, t, x)
    if last is not None:
        x = norm(b, t, "post_ffw_norm", x, pinned=False)
    return like("ADD", x, left)


class _Memory:
    """Caches and states of the layers, and the inputs that go with them."""

    def __init__(
        self, b: Build, s: Settings, plan: CachePlan, at: Sequence[str], *, kv_offload: bool, wide: bool
    ) -> None:
        self.b, self.plan, self.at, self.kv_offload = b, plan, at, kv_offload
        self.of = {x.index: (c, x) for c in plan.caches for x in c.layers}
        self.states = {x.index: x for x in plan.state}
        n, g = b.tokens, given
        k_side, v_side = turns(b.hp, s)
        self.inputs = {
            c.name: (
                g(I64, n),
                g(I64, n if b.flash else n * max(x.v_width for x in c.layers)),
                _mask(b, c, wide=wide),
                g(F32, k_side, k_side) if k_side else None,
                g(F32, v_side, v_side) if v_side else None,
            )
            for c in plan.caches
        }
        self.rows = given(I32, plan.context.slots)

    def like(self, layer: Layer) -> object:
        """What of a layer's cache decides about its part of the graph."""
        found = self.of.get(layer.index)
        return found and (found[0].name, found[1].k_width, found[1].v_width)

    def device(self, layer: int) -> str:
        return self.at[layer] if self.kv_offload else HOST

    def cache(self, layer: int) -> CacheOf:
        if layer not in self.of:
            raise NotKnownHere("a layer without a cache of its own")
        c, x = self.of[layer]
        k_row, v_row = CACHE_TYPES[c.type_k].row_bytes(x.k_width), CACHE_TYPES[c.type_v].row_bytes(x.v_width)
        numbers_k, numbers_v, mask, k_turn, v_turn = self.inputs[c.name]
        home = self.device(layer)
        all_cells = c.cells * c.streams
        k = stored(home, k_row * all_cells, x.k_width, c.cells, c.streams, grows=c.name)
        v = stored(home, v_row * all_cells, x.v_width, c.cells, c.streams, grows=c.name) if x.v_width else None
        return CacheOf(k, v, k_row, v_row, c.cells, c.type_k, c.type_v, numbers_k, numbers_v, mask, k_turn, v_turn)

    def state(self, layer: int) -> StateOf:
        from gguftool.memory.recurrent import StateOf

        x = self.states.get(layer)
        if x is None or len(x.tensors) != 2:
            raise NotKnownHere("a state of another kind")
        home = self.device(layer)
        window, state = (stored(home, n * x.rows * 4, n, x.rows) for n in x.tensors)
        slots = self.plan.context.slots
        return StateOf(window, state, self.rows, slots, x.rows // slots - 1)


def _mask(b: Build, c: Cache, *, wide: bool) -> Node:
    ne = (c.cells, b.tokens // b.streams, 1, b.streams)
    if b.flash and wide:
        return made("CPY", ne, given(F32, *ne, grows=c.name), kind=F16, grows=c.name)
    return given(F16 if b.flash else F32, *ne, grows=c.name)
