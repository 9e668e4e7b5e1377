"""The ways in which a wish that does not fit can be had, each with its command and what speed it can have.

`gguftool.memory.choices` has those of one file; here come smaller weights of the same model: files beside it, in its
folder or its repository, else what llama-quantize would make.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.errors import GgufToolError
from gguftool.hub import is_remote, opened
from gguftool.memory.choices import MOST, Choice, choices, distinct, on_devices
from gguftool.memory.fit import Fit, Free
from gguftool.memory.plan import Planner, weights_of
from gguftool.memory.search import search
from gguftool.memory.speed.estimate import Estimate
from gguftool.memory.speed.touched import is_plain
from gguftool.memory.weights import Weight
from gguftool.model import Model
from gguftool.model.kin import kin
from gguftool.records import dataclass, replace
from gguftool.run.args import masked, own_words
from gguftool.run.deploy import Deployment
from gguftool.run.speed import speed
from gguftool.shell import path_word

CANDIDATES = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "Q2_K")
WORTH = 0.97
"""Weights that are not smaller than this part are no smaller weights."""
LOOKED_AT = 4
"""Headers of files beside the model that are read, at most."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way.

    Attributes:
        choice: what it keeps and takes.
        commands: what to run, one after another; words.
        speed: how fast it can be.
    """

    choice: Choice
    commands: tuple[tuple[str, ...], ...]
    speed: Estimate

    __repr__ = short_repr


def ways(m: Model, d: Deployment, planner: Planner, found: Fit, named: str) -> tuple[Way, ...]:
    """What fits where the wish does not, the recommended one first; empty when it fits or nothing is known.

    Args:
        m: the model; its header is enough.
        d: what was wished for.
        planner: the model on its machine.
        found: the outcome of the search.
        named: what a command calls the model.
    """
    mine = list(choices(planner, d.settings, d.placement, d.free, found))
    if mine or (found.fits is False and not found.plan.refused):
        mine = list(distinct([*mine[: MOST - 1], *_smaller(m, d, planner, named)]))
    return _told(mine, d, planner, named)


def ways_of_weights(d: Deployment, planner: Planner, found: Fit, named: str) -> tuple[Way, ...]:
    """As `ways`, with the weights as they are.

    Args:
        d: what was wished for.
        planner: the model on its machine.
        found: the outcome of the search.
        named: what a command calls the model.
    """
    return _told(choices(planner, d.settings, d.placement, d.free, found), d, planner, named)


def _told(mine: Sequence[Choice], d: Deployment, planner: Planner, named: str) -> tuple[Way, ...]:
    asked = on_devices(planner.plan(d.settings, d.placement)) if mine else 0
    mine = [replace(x, asked=asked) for x in mine]
    return tuple(Way(x, _commands(x, d, planner, named), speed(d, x.planner, x.plan)) for x in mine)


def _commands(x: Choice, d: Deployment, planner: Planner, named: str) -> tuple[tuple[str, ...], ...]:
    s, p, c = x.plan.settings, x.plan.placement, x.plan.cache.context
    asked = replace(
        d.wishes,
        ctx=c.requested,
        slot_ctx=None,
        cache_type=(s.type_k, s.type_v) if x.plan.cache.caches else d.wishes.cache_type,
        ubatch=s.ubatch if s.ubatch != d.settings.ubatch else d.wishes.ubatch,
        cpu_moe=p.cpu_moe if p.cpu_moe != d.placement.cpu_moe else d.wishes.cpu_moe,
        gpu_layers=p.gpu_layers if p.gpu_layers != d.placement.gpu_layers else d.wishes.gpu_layers,
    )
    file = x.path or named
    first: list[tuple[str, ...]] = []
    if x.ftype and not x.path:
        stem = os.path.splitext(os.path.basename(named))[0] if not is_remote(named) else "model"
        file = f"{stem}.{x.ftype}.gguf"
        again = () if is_plain(planner) else ("--allow-requantize",)
        first.append(("gguftool", "quantize", path_word(named), path_word(file), x.ftype, *again))
    verb = "plan" if is_remote(file) else "launch"
    return (*first, tuple(masked(["gguftool", verb, path_word(file), *own_words(asked)])))


def _requantized(m: Model, ftype: str) -> list[Weight] | None:
    """The tensors llama-quantize would write, from the same mixture; None: it would not."""
    from gguftool.build.ftypes import target
    from gguftool.build.plan import plan_quantize

    try:
        steps = plan_quantize(m, target(ftype), allow_requantize=True).steps
    except GgufToolError:
        return None
    return [Weight(x.name, x.choice.type, x.tensor.shape, x.new_bytes) for x in steps]


def _smaller(m: Model, d: Deployment, planner: Planner, named: str) -> Iterator[Choice]:
    """The largest weights that fit whole with everything else as asked; else those that fit with what moves."""
    still = Free(False, False, False, False, False)
    moves = replace(d.free, ctx=False, cache_type=False)
    there = list(_beside(m, planner, named))
    rows = there or [(ftype, "", other) for ftype, other in made(m, planner)]
    for free in (still, moves):
        for ftype, path, other in rows:
            fit = search(other, d.settings, d.placement, free)
            if fit.fits:
                keeps = "all but the weights" if free is still else "cache, smaller weights"
                yield Choice(keeps, other, fit.plan, ftype, path)
                return


def made(m: Model, planner: Planner) -> Iterator[tuple[str, Planner]]:
    """Smaller quantisations of the weights, as llama-quantize would make them, largest first."""
    for ftype in CANDIDATES:
        tensors = _requantized(m, ftype)
        if tensors and sum(w.nbytes for w in tensors) < planner.weights.tensor_bytes * WORTH:
            yield ftype, replace(planner, tensors=tensors)


def _beside(m: Model, planner: Planner, named: str) -> Iterator[tuple[str, str, Planner]]:
    """Smaller files of the same model, largest first."""
    found = _in_repository(named) if is_remote(named) else _in_folder(m.name)
    smaller = sorted((x for x in found if x[1] < planner.weights.tensor_bytes * WORTH), key=lambda x: -x[1])
    for spec, _ in smaller[:LOOKED_AT]:
        try:
            with opened(spec) as other:
                if kin(m) == kin(other):
                    label = _label(other)
                    yield label, spec, replace(planner, hp=other.arch, tensors=weights_of(other))
        except (GgufToolError, OSError):
            continue


def _label(m: Model) -> str:
    from gguftool.format.types import file_type_name

    ftype = m.get("general.file_type")
    return file_type_name(ftype) if isinstance(ftype, int) and not isinstance(ftype, bool) else "smaller"


def _in_folder(path: str) -> list[tuple[str, int]]:
    folder = os.path.dirname(path)
    try:
        with os.scandir(folder or ".") as entries:
            return [
                (os.path.join(folder, e.name), e.stat().st_size)
                for e in entries
                if e.name.lower().endswith(".gguf") and "mmproj" not in e.name.lower() and e.is_file()
            ]
    except OSError:
        return []


def _in_repository(named: str) -> list[tuple[str, int]]:
    from gguftool.hub.address import HubAddress, parse
    from gguftool.hub.api import endpoint, listing

    try:
        address = parse(named, endpoint())
        if not isinstance(address, HubAddress):
            return []
        files = [x for x in listing(address) if x.path.lower().endswith(".gguf") and "-of-" not in x.path]
    except GgufToolError:
        return []
    return [(f"hf://{address.repo}/{x.path}", x.size or 0) for x in files if "mmproj" not in x.path.lower() and x.size]
