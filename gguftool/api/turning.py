"""What a model takes under many settings, planned beforehand: the picture in a report that can be turned."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from gguftool.api.plan import Planned
from gguftool.brief import short_repr
from gguftool.facts import NUMBER
from gguftool.facts.layers import layers
from gguftool.hub import is_remote
from gguftool.memory.plan import Planner
from gguftool.memory.settings import Settings
from gguftool.memory.turning import BUDGET, MOST_DEVICES, SLOTS, TYPES, Spot, Turned, stops, turned
from gguftool.records import dataclass, replace
from gguftool.run.args import masked, own_words
from gguftool.run.capabilities import Capabilities
from gguftool.run.deploy import deploy, look, settings_for
from gguftool.run.engine import engine_of
from gguftool.run.options.ours import BACKENDS
from gguftool.run.options.table import by_field
from gguftool.run.wishes import Wishes
from gguftool.shell import path_word, shell

if TYPE_CHECKING:
    from gguftool.model import Model

GIB = 1 << 30
VRAM = (2, 3, 4, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 141, 192)
RAM = (4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
MOST_LAYERS = 256
"""Layers of a model that is turned; the deepest known ones have 126, and the work grows with the square."""
"""GiB that a device and a host are offered with; one device's memory is a limit and changes no other figure."""
TURNS = ("ctx", "cache_type", "parallel", "gpu_layers", "cpu_moe", "tensor_split", "vram", "ram", "device")
"""Fields of `Wishes` that the picture turns, and so says itself in its commands."""


@dataclass(frozen=True, slots=True)
class Start:
    """The setting that is shown first: that of the plan.

    Attributes:
        context, slots, type_k, type_v: in tokens, and by name.
        spot: where the layers are.
        vram: bytes of each device.
        ram: bytes of the host; None: nobody named them.
    """

    context: int
    slots: int
    type_k: str
    type_v: str
    spot: Spot
    vram: tuple[int, ...]
    ram: int | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Turning:
    """A picture that can be turned.

    Attributes:
        grid: the numbers.
        start: the first setting.
        vram, ram: what is offered, in bytes.
        reserve: bytes that are kept free on each device, the host among them.
        build: number of the build of llama.cpp that all of it is for.
        plan: the beginning of the line that plans a setting, for a shell.
        launch: of the line that starts a server; "": the model is not on this machine, or would not be loaded.
        options: what an option of `TURNS` is called.
        experts: the model has experts, which may stay on the host.
    """

    grid: Turned
    start: Start
    vram: tuple[int, ...]
    ram: tuple[int, ...]
    reserve: int
    build: int
    plan: str
    launch: str
    options: dict[str, str]
    experts: bool

    __repr__ = short_repr


def turning(m: Model, spec: str, said: Wishes, planned: Planned, *, budget: int = BUDGET) -> Turning | None:
    """The numbers of the planner over a grid of settings, around a plan.

    Every figure is for the build of the plan, where that is known, else for the newest; the commands name it, so that
    they say the same on any machine with such a processor.

    Args:
        m: open model; only its header is read.
        spec: what a command calls it.
        said: the wishes that were planned.
        planned: their plan.
        budget: bounds how much is laid out, see `turned`.

    Returns:
        the picture; None where the devices are not alike, too many, or chosen in a way that it does not turn, and for
        more layers than any model has.

    Raises:
        UsageError: the wishes make no sense with other devices.
    """
    plan, machine = planned.memory, planned.advice.planner.machine
    if planned.advice.planner.weights.layer_count > MOST_LAYERS:
        return None
    kinds = {d.kind for d in machine.devices} or {said.backend}
    odd = said.rpc or said.split_mode or said.main_gpu is not None or set(said.device) - {"none"}
    if odd or len(kinds) > 1 or not kinds <= set(BACKENDS) or len(machine.devices) > MOST_DEVICES:
        return None
    number = planned.deployment.build or NUMBER
    build = engine_of(number).build
    s, p, c = plan.settings, plan.placement, plan.cache.context
    base = replace(
        said, ctx=c.requested, slot_ctx=None, cache_type=(s.type_k, s.type_v), parallel=c.slots, ubatch=s.ubatch,
        cpu_moe=p.cpu_moe, gpu_layers=None, tensor_split=(), vram=None, ram=None, device=(), backend=kinds.pop(),
        server=None, engine="auto",
    )  # fmt: skip

    @cache
    def settings(slots: int, type_k: str, type_v: str) -> Settings:
        return settings_for(m, replace(base, parallel=slots, cache_type=(type_k, type_v)), build)

    boards = [_planner(m, base, build, n) for n in range(MOST_DEVICES + 1)]
    every = planned.advice.planner.weights.layer_count + 1
    types = (s.type_k, s.type_v) if plan.cache.caches else ("f16", "f16")
    split = tuple(plan.placed.layer_device.count(d.name) for d in machine.devices)
    spot = Spot(every - sum(split), p.cpu_moe, split)
    grid = turned(
        boards,
        settings,
        replace(p, gpu_layers=None, split=()),
        stops(c.trained, c.requested, halves=_plain(m)),
        tuple(sorted({*SLOTS, c.slots})),
        tuple(dict.fromkeys((*TYPES, *types))) if plan.cache.caches else ("f16",),
        budget,
        (spot, c.slots, *types) if all(split) else None,
    )
    vram = tuple(d.memory or 0 for d in machine.devices)
    start = Start(c.requested, c.slots, *types, spot, vram, said.ram if isinstance(said.ram, int) else None)
    words = own_words(replace(base, **{name: by_field()[name].default for name in TURNS}))
    runs = not (is_remote(spec) or planned.not_loaded or planned.refused)
    return Turning(
        grid=grid,
        start=start,
        vram=tuple(sorted({*(n * GIB for n in VRAM), *vram} - {0})),
        ram=tuple(sorted({*(n * GIB for n in RAM), *([start.ram] if start.ram else [])})),
        reserve=machine.reserve,
        build=number,
        plan=_line(["plan", path_word(spec), "--build", f"b{number}", *words]),
        launch=_line(["launch", path_word(spec), *words]) if runs else "",
        options={name: by_field()[name].ours for name in TURNS},
        experts=bool(m.arch.int("expert_count")),
    )


def _plain(m: Model) -> bool:
    """All layers keep their context in one way: placements are soon laid out, and so also for contexts in between."""
    return len({(x.swa, x.recurrent) for x in layers(m.arch) if x.trunk}) < 2


def _planner(m: Model, base: Wishes, build: Capabilities, devices: int) -> Planner:
    """The model with so many devices, as it is planned when they are named."""
    w = replace(base, vram=(GIB,) * devices) if devices else replace(base, device=("none",))
    return deploy(m, w, look(w, None), build).planner(m)


def _line(words: list[str]) -> str:
    return shell(masked(["gguftool", *words]))
