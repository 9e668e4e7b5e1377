"""Which weights lie where, and how many bytes they take there.

llama.cpp gives the last `-ngl` layers to the devices, the output layer counting as one more after the last; within
them it splits by free memory or `-ts`; the token embedding stays on the host; patterns (`-ot`, `-ncmoe`) move single
tensors (`llama-model.cpp:load_tensors`, `llama-model-loader.cpp:create_tensor`, b11434).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from gguftool.brief import named_repr, short_repr
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.layers import layers, nextn_layers
from gguftool.format.header import MOST
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.memory.devices import HOST, Device, row_padding
from gguftool.memory.settings import pad
from gguftool.records import dataclass, field, fields
from gguftool.regex import regex

INPUT = -1
"""Layer number of the input tensors."""
_SIDES = ("enc.", "dec.", "v.")
"""What may stand before the block of a tensor."""
_DIGITS = 18
_EXPERTS = regex(r"\.ffn_(up|down|gate|gate_up)_(ch|)exps")
"""What `-ncmoe` matches (`common.h:LLM_FFN_EXPS_REGEX`)."""
_INPUT_NAMES = frozenset({"token_embd", "position_embd", "token_types", "per_layer_token_embd"})
_FREQUENCY_NAMES = frozenset({"rope_freqs", "rope_factors_long", "rope_factors_short"})
"""One table in the file, one copy in the memory of every device that has layers."""
_FIRST_LAYER_NAMES = _FREQUENCY_NAMES | {"per_layer_model_proj", "per_layer_proj_norm", "conv1d"}
NEVER_TIED = frozenset(
    "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert wavtokenizer-dec".split()
)
"""Architectures without an output matrix; all others read the token embedding when `output.weight` is not there."""
REPACKED: dict[str, dict[str, int]] = {
    "none": {},
    "avx2": {"Q4_0": 8, "Q4_K": 8, "IQ4_NL": 8, "MXFP4": 8},
    "avx512": {"Q4_0": 8, "Q4_K": 8, "IQ4_NL": 8, "MXFP4": 8, "Q2_K": 8},
    "neon": {"Q4_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "IQ4_NL": 4, "MXFP4": 4, "Q8_0": 4},
}
"""By host processor: types the CPU rearranges for its kernels, when the rows are a multiple of this (`repack.cpp`)."""


@dataclass(frozen=True, slots=True)
class Weight:
    """One tensor as far as memory goes; ``offset``: of its data in file number ``part``."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    nbytes: int
    offset: int = 0
    part: int = 0

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Placement:
    """Where to put things.

    Attributes:
        gpu_layers: `-ngl`; None: all. Ignored without devices.
        cpu_moe: `-ncmoe`, experts of the first N layers stay on the host.
        overrides: `-ot`, (regular expression, device name); the first match wins.
        split: `-ts`; empty: by the devices' memory.
        kv_offload: caches follow their layers; else all are on the host (`-nkvo`).
        mmap: weights on the host are the mapped file, not a copy.
        repack: what the host processor rearranges, a name of `REPACKED`.
        op_offload: devices may compute what lies on the host.
        host_buffers: host weights go to memory pinned for a device that wants it.
    """

    gpu_layers: int | None = None
    cpu_moe: int = 0
    overrides: tuple[tuple[str, str], ...] = ()
    split: tuple[float, ...] = ()
    kv_offload: bool = True
    mmap: bool = True
    repack: str = "avx2"
    op_offload: bool = True
    host_buffers: bool = True

    __repr__ = short_repr


of_a_place = attrgetter(*sorted({f.name for f in fields(Placement)} - {"split", "gpu_layers"}))
"""What a graph depends on of a placement, the devices of its layers apart."""


@dataclass(slots=True)
class Group:
    """Tensors that go the same way: of one layer, all experts or none, under the same override.

    Sizes by where they may end: ``plain`` on the host, ``kept`` of them when others are repacked into ``repacked``,
    ``aligned`` by (alignment, pads rows) on a device. ``largest`` is the largest matrix, ``elements`` are those of all
    matrices. ``spans`` and ``kept_spans``: by file, from the first to the last byte of all tensors and of those not
    repacked.
    """

    layer: int
    experts: bool
    target: str | None
    data: int = 0
    plain: int = 0
    kept: int = 0
    repacked: int = 0
    largest: int = 0
    elements: int = 0
    aligned: dict[tuple[int, bool], int] = field(default_factory=dict)
    spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    kept_spans: dict[int, tuple[int, int]] = field(default_factory=dict)

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Placed:
    """Bytes of the weights by buffer, and what one should know about them.

    Attributes:
        buffers: bytes by device name; the host's are ``CPU`` and ``CPU_REPACK``.
        layer_device: device of each layer; the entry after the last is the output layer's.
        experts_on_host: bytes of expert tensors on the host.
        largest_on_host: bytes of the largest matrix on the host, which a device may borrow for large batches.
        copies: bytes that exist twice: a tied output matrix in another place, frequency tables.
        mapped: with mmap, bytes of the file that are mapped for the host: from its first to its last tensor.
    """

    buffers: dict[str, int]
    layer_device: tuple[str, ...]
    experts_on_host: int
    largest_on_host: int
    copies: int
    mapped: int

    __repr__ = short_repr

    @property
    def host(self) -> int:
        """Bytes on the host."""
        return self.buffers.get(HOST, 0) + self.buffers.get("CPU_REPACK", 0)


class Weights:
    """The tensors of a model, grouped so that a placement is worked out without going through them again.

    Args:
        hp: hyperparameters.
        tensors: all tensors of all shards.
        devices: the devices at hand.
        overrides: `-ot` patterns, which split the groups.
        repack: what the host repacks.
        nextn: layers that predict further tokens are loaded, too.

    Raises:
        UsageError: a pattern is not a regular expression or names an unknown device.
    """

    __repr__ = named_repr

    def __init__(
        self,
        hp: Hparams,
        tensors: Iterable[Weight],
        devices: Sequence[Device] = (),
        overrides: Sequence[tuple[str, str]] = (),
        repack: str = "avx2",
        *,
        nextn: bool = False,
    ) -> None:
        self.devices = tuple(devices)
        self.layer_count = len(layers(hp))
        self.trunk = (0 if nextn else hp.block_count - nextn_layers(hp)) or hp.block_count
        self.tensor_bytes = 0
        self.skipped = 0
        self.tied = False
        self._rules = _compiled(overrides, self.devices)
        self._repacked = REPACKED[repack]
        self._alignments = {(d.rules.alignment, d.backend.pads_rows) for d in self.devices}
        self.groups: dict[tuple[int, bool, str | None], Group] = {}
        self._ways: dict[str, tuple[Group, bool]] = {}
        self.frequencies = Group(0, False, None)
        embedding, output = None, False
        for w in tensors:
            self.tensor_bytes += w.nbytes
            layer = self._layer(w.name)
            if layer is None:
                self.skipped += w.nbytes
                continue
            self._add(w, layer)
            if w.name.rpartition(".")[0] in _FREQUENCY_NAMES:
                self._measure(self.frequencies, w, matrix=False, rearranged=False)
            if w.name == "token_embd.weight":
                embedding = w
            output = output or w.name == "output.weight"
        self.output_rows = embedding.shape[1] if embedding is not None and len(embedding.shape) > 1 else 0
        self.tied_copy = Group(self.layer_count, False, None)
        if embedding is not None and not output and hp.arch not in NEVER_TIED:
            self.tied = True
            rearranged = self._rearranged(embedding, experts=False)
            self._measure(self.tied_copy, embedding, matrix=True, rearranged=rearranged)

    def _layer(self, name: str) -> int | None:
        """Layer a tensor belongs to; None when llama.cpp leaves it out."""
        found = block_of(name[len(_side(name)) :])
        if found is not None:
            n = found[0]
            # Blocks for predicting further tokens are only loaded for a draft context.
            return n if n < self.trunk or n >= self.layer_count else None
        stem = name.rpartition(".")[0] or name
        if stem in _INPUT_NAMES:
            return INPUT
        return 0 if stem in _FIRST_LAYER_NAMES else self.layer_count

    def _add(self, w: Weight, layer: int) -> None:
        experts, target = self._way(w)
        key = (layer, experts, target)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = Group(layer, experts, target)
        rearranged = layer != INPUT and self._rearranged(w, experts=experts)
        self._ways[w.name] = group, rearranged
        self._measure(group, w, matrix=layer != INPUT, rearranged=rearranged)

    def _measure(self, group: Group, w: Weight, *, matrix: bool, rearranged: bool) -> None:
        group.data += w.nbytes
        size = pad(w.nbytes, 32)
        group.plain += size
        _stretch(group.spans, w)
        if rearranged:
            group.repacked += size
        else:
            group.kept += size
            _stretch(group.kept_spans, w)
        if matrix and _dimensions(w) > 1:
            group.largest = max(group.largest, w.nbytes)
            group.elements += min(math.prod(w.shape), MOST)
        t = TENSOR_TYPE_BY_NAME.get(w.type_name)
        for alignment, rows_padded in self._alignments:
            extra = row_padding(t.block_size, t.block_bytes, w.shape[0]) if t and rows_padded and w.shape else 0
            key = (alignment, rows_padded)
            group.aligned[key] = group.aligned.get(key, 0) + pad(w.nbytes + extra, alignment)

    def _rearranged(self, w: Weight, *, experts: bool) -> bool:
        """Whether a matrix on the host is kept in another order."""
        rows = self._repacked.get(w.type_name)
        return bool(rows and len(w.shape) > 1 and w.shape[1] % rows == 0 and _dimensions(w) == (3 if experts else 2))

    def lies(self, w: Weight, at: Sequence[str], p: Placement) -> str:
        """The buffer of one tensor: a device, `HOST`, or ``CPU_REPACK``; "": it is not loaded."""
        known = self._ways.get(w.name)
        if known is None:
            return ""
        group, rearranged = known
        name = self._where(group, at, p)
        return "CPU_REPACK" if rearranged and name == HOST and self._repacks(p) else name

    def _way(self, w: Weight) -> tuple[bool, str | None]:
        """Whether it is of the experts, and the device a pattern names for it."""
        target = next((device for pattern, device in self._rules if pattern.search(w.name)), None)
        return "exps" in w.name and _EXPERTS.search(w.name) is not None, target

    def _repacks(self, p: Placement) -> bool:
        pinned = p.host_buffers and any(d.backend.pinned_host for d in self.devices)
        return p.repack != "none" and not pinned

    def place(self, p: Placement) -> Placed:
        """Bytes by buffer under a placement."""
        at = layer_devices(self.layer_count, self.devices, p)
        by_name = {d.name: d for d in self.devices}
        repack = self._repacks(p)
        buffers: dict[str, int] = {}
        spans: dict[int, tuple[int, int]] = {}
        experts = largest = 0
        for group in self.groups.values():
            name = self._where(group, at, p)
            _book(buffers, group, by_name.get(name), repack and group.layer != INPUT)
            if name == HOST:
                for part, span in (group.kept_spans if repack and group.layer != INPUT else group.spans).items():
                    spans[part] = _joined(spans.get(part), span)
                experts += group.data if group.experts else 0
                # The output matrix is not lent: it is used for a few rows only.
                largest = max(largest, group.largest if group.layer < self.layer_count else 0)
        copies = self._copies(buffers, by_name.get(at[self.layer_count]), repack)
        for name in sorted(set(at[: self.layer_count]) - {at[0]}) if self.frequencies.data else ():
            _book(buffers, self.frequencies, by_name.get(name), False)
            copies += self.frequencies.data
        mapped = sum(last - first for first, last in spans.values()) if p.mmap else 0
        return Placed(buffers, at, experts, largest, copies, mapped)

    def _where(self, group: Group, at: Sequence[str], p: Placement) -> str:
        """Device a group goes to, with the layers where ``at`` says."""
        if group.target is not None:
            return group.target
        if group.layer == INPUT or (group.experts and group.layer < p.cpu_moe):
            return HOST
        return at[min(group.layer, self.layer_count)]

    def used(self, p: Placement, at: Sequence[str]) -> Iterator[tuple[str, Group]]:
        """What a token goes through, with its device: not the input tensors, of which a row is looked up.

        Args:
            p: placement.
            at: device of each layer, the output layer's last.
        """
        for group in self.groups.values():
            if group.layer != INPUT:
                yield self._where(group, at, p), group
        if self.tied:
            yield at[self.layer_count], self.tied_copy

    def layer_bytes(self, p: Placement) -> list[int]:
        """Bytes that go with each layer to its device, the output layer's last; what stays on the host is left out."""
        out = [0] * (self.layer_count + 1)
        for group in self.groups.values():
            stays = group.target is not None or (group.experts and group.layer < p.cpu_moe)
            if group.layer != INPUT and not stays:
                out[min(group.layer, self.layer_count)] += max(group.aligned.values(), default=group.plain)
        if self.tied:
            out[self.layer_count] += max(self.tied_copy.aligned.values(), default=self.tied_copy.plain)
        return out

    def _copies(self, buffers: dict[str, int], output: Device | None, repack: bool) -> int:
        """A tied output matrix exists twice when it does not lie where the embedding does."""
        if not self.tied:
            return 0
        moved = output is not None or (repack and self.tied_copy.repacked > 0)
        if not moved:
            return 0
        _book(buffers, self.tied_copy, output, repack)
        return self.tied_copy.data


def block_of(name: str) -> tuple[int, str] | None:
    """The number in the name of a tensor that begins with its block, and what stands behind it; None: it does not."""
    number, dot, rest = name[4:].partition(".")
    if dot and number.isdecimal() and len(number) <= _DIGITS and name.startswith("blk."):
        return int(number), rest
    return None


def _side(name: str) -> str:
    return next((x for x in _SIDES if name.startswith(x)), "") if name.startswith(_SIDES) else ""


def _dimensions(w: Weight) -> int:
    """Dimensions of more than one element."""
    return len(w.shape) - w.shape.count(1) - w.shape.count(0)


def _stretch(spans: dict[int, tuple[int, int]], w: Weight) -> None:
    spans[w.part] = _joined(spans.get(w.part), (w.offset, w.offset + w.nbytes))


def _joined(a: tuple[int, int] | None, b: tuple[int, int]) -> tuple[int, int]:
    return b if a is None else (min(a[0], b[0]), max(a[1], b[1]))


def _book(buffers: dict[str, int], group: Group, device: Device | None, repack: bool) -> None:
    if device is not None:
        key = (device.rules.alignment, device.backend.pads_rows)
        buffers[device.name] = buffers.get(device.name, 0) + group.aligned[key]
    elif repack:
        buffers[HOST] = buffers.get(HOST, 0) + group.kept
        if group.repacked:
            buffers["CPU_REPACK"] = buffers.get("CPU_REPACK", 0) + group.repacked
    else:
        buffers[HOST] = buffers.get(HOST, 0) + group.plain


def layer_devices(count: int, devices: Sequence[Device], p: Placement) -> tuple[str, ...]:
    """Device of each layer, the output layer's after the last (`llama-model.cpp:get_layer_buft_list`)."""
    if not devices:
        return (HOST,) * (count + 1)
    from gguftool.memory.dealt import dealt

    return dealt(count, devices, p.gpu_layers, p.split)


def _compiled(overrides: Sequence[tuple[str, str]], devices: Sequence[Device]) -> list[tuple[re.Pattern[str], str]]:
    names = {d.name for d in devices} | {HOST}
    out = []
    for pattern, device in overrides:
        if device not in names:
            raise UsageError(f"-ot {pattern}={device}: no such device", "one of " + ", ".join(sorted(names)))
        try:
            out.append((re.compile(pattern), device))
        except re.error as e:
            raise UsageError(f"-ot {pattern}: not a regular expression: {e}") from None
    return out
