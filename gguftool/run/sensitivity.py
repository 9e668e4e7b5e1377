"""How much a model minds errors in its tensors: groups of them are made worse in turn, and a text is read each time.

A group is one kind of tensor (``attn_v.weight``) in neighbouring layers. A copy of the model has the group's weights
sent through a coarse type and back; the real library, in a child (`gguftool.run.sensechild`), says how far that moves
what the model would say next. Small errors add up, and the divergence grows with their squares: the divergence divided
by the group's relative error is what an error of 1 would cost.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

from gguftool.build.distance import Job, distances
from gguftool.build.kernels import Kernels
from gguftool.errors import Refused, ToolFailed
from gguftool.facts import data
from gguftool.files.disk import check_room, write_at
from gguftool.files.draft import Draft
from gguftool.files.small import scratch_folder
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import Model, Tensor
from gguftool.model.role import only_runnable
from gguftool.processors import processors
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.run.child import talking
from gguftool.run.measurer import PACKAGE, VERSION, available
from gguftool.shell import gguftool, path_word

CHILD = "gguftool.run.sensechild"
PROBE = "Q4_0"
"""The coarse type: its error is that of four bits, and its blocks divide nearly every row."""
BANDS = 6
"""Stretches of layers that are told apart; the first and the last layer are one each."""
TOKENS, CHUNK = 1024, 512
_LAYER = regex(r"blk\.([0-9]{1,9})\.(.+)", re.DOTALL)
_SLAB = 1 << 20


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors that are taken to be alike.

    Attributes:
        kind: what is left of their names behind the layer.
        layers: first and last; None for a tensor of no layer.
        tensors: in any order.
    """

    kind: str
    layers: tuple[int, int] | None
    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class Sense:
    """What was measured of one group.

    Attributes:
        kind, layers, names: which tensors.
        error: sum of their relative squared errors.
        divergence, deviation: mean Kullback-Leibler divergence in nats that it made, and its standard error.
    """

    kind: str
    layers: tuple[int, int] | None
    names: tuple[str, ...]
    error: float
    divergence: float
    deviation: float

    @property
    def sensitivity(self) -> float:
        """Divergence for a relative error of 1 of one of the tensors."""
        return max(0.0, self.divergence) / self.error if self.error > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Sensed:
    """A measurement.

    Attributes:
        senses: one a group.
        tokens: tokens read each time; the divergence is the mean over most of them.
        perplexity: of the text, for the model as it is.
        text: where the text is from.
    """

    senses: tuple[Sense, ...]
    tokens: int
    perplexity: float
    text: str

    @property
    def by_tensor(self) -> dict[str, float]:
        """Sensitivity by tensor name."""
        return {name: s.sensitivity for s in self.senses for name in s.names}


def groups(tensors: Sequence[Tensor], bands: int = BANDS) -> tuple[Group, ...]:
    """Tensors by kind and stretch of layers."""
    told = [(t, _LAYER.fullmatch(t.name)) for t in tensors]
    last = max((int(m[1]) for _, m in told if m), default=0)
    found: dict[tuple[str, tuple[int, int] | None], list[Tensor]] = {}
    stretches = list(_stretches(last + 1, bands))
    for t, match in told:
        if match is None:
            found.setdefault((t.name, None), []).append(t)
            continue
        layer = int(match[1])
        stretch = next(s for s in stretches if s[0] <= layer <= s[1])
        found.setdefault((match[2], stretch), []).append(t)
    return tuple(Group(kind, layers, tuple(ts)) for (kind, layers), ts in found.items())


def _stretches(layers: int, bands: int) -> Iterator[tuple[int, int]]:
    """``bands`` stretches of layers, the first and the last layer alone."""
    if layers <= bands or bands < 3:
        edges = [round(i * layers / min(bands, layers)) for i in range(min(bands, layers) + 1)]
    else:
        inner = bands - 2
        edges = [0, *(1 + round(i * (layers - 2) / inner) for i in range(inner + 1)), layers]
    yield from ((a, b - 1) for a, b in pairwise(edges))


def measure(
    model: Model,
    tensors: Sequence[Tensor],
    kernels: Kernels,
    *,
    imatrix: Mapping[str, bytes] | None = None,
    text: str | None = None,
    tokens: int = TOKENS,
    bands: int = BANDS,
    threads: int = 0,
    timeout: float = 3600.0,
    tell: Callable[[str], None] = lambda _: None,
) -> Sensed:
    """Measure.

    Args:
        model: the source, in one file.
        tensors: those to be told of.
        kernels: what quantises.
        imatrix: f32 importances by tensor name; errors are weighted with them.
        text: path of a text; None: the first pages of Alice's Adventures in Wonderland.
        tokens: how many tokens to read for each group.
        bands: stretches of layers to tell apart.
        threads: 0 for one per core.
        timeout: seconds for all of it.
        tell: called with a line about progress.

    Raises:
        UsageError: no model that runs, or the text is too short.
        Refused: the model is in several files, or not on this machine.
        ToolFailed: the library is not there, or fails.
        NoRoom: there is no room for a copy.
    """
    only_runnable(model)
    if not available():
        raise ToolFailed(f"{PACKAGE} {VERSION} is not installed", "pip install 'gguftool[server]'")
    part = model.parts[0]
    if len(model.parts) > 1:
        raise Refused(
            f"{model.name}: is in {len(model.parts)} files, and one is changed here to and fro",
            gguftool("merge", path_word(model.name)),
        )
    if part.header.big_endian:
        raise Refused(f"{model.name}: is big-endian, which the library does not load")
    fits = [t for t in tensors if t.shape[0] % TENSOR_TYPE_BY_NAME[PROBE].block_size == 0]
    found = groups(fits, bands)
    errors = _errors(fits, kernels, imatrix or {}, threads)
    senses = []
    with scratch_folder() as folder, Draft(os.path.join(folder, "model.gguf"), named=True) as draft:
        # It is never published, and gone at the end.
        check_room(folder, part.size)
        _copy(model, draft.fd)
        order = {
            "path": draft.reading, "text": os.path.abspath(text or data.path("alice.txt")), "tokens": tokens,
            "chunk": min(CHUNK, tokens), "threads": threads or processors(),
        }  # fmt: skip
        with talking(CHILD, timeout) as child:
            child.say(order)
            base = child.hear()
            for number, group in enumerate(found, 1):
                tell(f"{number} of {len(found)}: {group.kind}")
                for t in group.tensors:
                    _write(draft.fd, t, kernels, worse=True)
                child.say({})
                said = child.hear()
                for t in group.tensors:
                    _write(draft.fd, t, kernels, worse=False)
                error = sum(errors[t.name] for t in group.tensors)
                names = tuple(t.name for t in group.tensors)
                senses.append(Sense(group.kind, group.layers, names, error, said["divergence"], said["deviation"]))
    return Sensed(tuple(senses), base["tokens"], base["perplexity"], text or "Alice's Adventures in Wonderland")


def _errors(
    tensors: Sequence[Tensor], kernels: Kernels, imatrix: Mapping[str, bytes], threads: int
) -> dict[str, float]:
    """Relative squared error of the probe by tensor name."""
    jobs = [Job(t, None, PROBE, imatrix.get(t.name)) for t in tensors]
    out = {}
    for job, found in zip(jobs, distances(jobs, kernels, threads=threads), strict=True):
        if isinstance(found, Exception):
            raise found
        out[job.tensor.name] = (found.weighted if found.weighted is not None else found.relative) or 0.0
    return out


def _copy(model: Model, fd: int) -> None:
    part = model.parts[0]
    at = 0
    while at < part.size:
        piece = part.source.read_at(at, min(_SLAB << 2, part.size - at))
        if not piece:
            break
        write_at(fd, at, piece)
        at += len(piece)


def _write(fd: int, tensor: Tensor, kernels: Kernels, *, worse: bool) -> None:
    """The data of a tensor into the copy: sent through the probe and back, or as it was."""
    kind = TENSOR_TYPE_BY_NAME[tensor.type_name]
    width = tensor.shape[0]
    row = width // kind.block_size * kind.block_bytes
    rows = tensor.info.elements // max(1, width)
    step = max(1, _SLAB // max(1, width))
    for first in range(0, rows, step):
        count = min(step, rows - first)
        at = tensor.offset + first * row
        piece = tensor.part.source.read_at(at, count * row)
        if worse:
            made = bytes(kernels.convert(piece, tensor.type_name, PROBE, count, width, None))
            plain = bytes(kernels.convert(made, PROBE, "F32", count, width, None))
            piece = bytes(kernels.convert(plain, "F32", tensor.type_name, count, width, None))
        write_at(fd, at, piece)
