"""`gguftool plan --measure`: the real llama.cpp lays everything out, allocating nothing, and its sizes replace ours."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gguftool.errors import ToolFailed
from gguftool.memory.advice import Measure, refine
from gguftool.memory.devices import HOST
from gguftool.memory.fit import Fit
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.model import Model, Part
from gguftool.programs import Tool, named, run
from gguftool.records import replace
from gguftool.regex import regex
from gguftool.run.args import server_command
from gguftool.run.capabilities import known
from gguftool.run.deploy import Deployment, resolved
from gguftool.run.measure import Ask, Measured, measure
from gguftool.run.measurer import FIT_PARAMS, LIBRARY, fit_params
from gguftool.run.options.table import options

MIB = 1 << 20
_LINE = regex(r"^(?P<name>\S+) +(?P<model>\d+) +(?P<context>\d+) +(?P<compute>\d+) *$", re.MULTILINE)

_NOT_OF_A_CONTEXT = frozenset(
    ("verbosity", "slots", "cache_ram", "ctx_checkpoints", "slot_ctx", "spec_type", "embeddings", "rerank", "pooling")
)
"""Options of the server that `llama-fit-params` does not have, or that change no context."""

Sizes = dict[str, dict[str, int]]
Tell = Callable[[str], None]


def measured_fit(m: Model, d: Deployment, planner: Planner, fit: Fit, tell: Tell) -> tuple[Fit, str]:
    """The outcome of the search with measured compute buffers, and who measured them; ``tell`` hears what is odd.

    Without devices the library inside xllamacpp is asked, unless somebody names a llama.cpp that has the program; with
    devices only a `llama-fit-params` built for them knows.

    Raises:
        MissingFile: what is named as llama.cpp is not there.
        ToolFailed: nothing is there to ask, or it failed.
    """
    if fit.plan.refused:
        return fit, ""
    devices = bool(planner.machine.devices)
    tool = fit_params(d) if devices else named(FIT_PARAMS, d.wishes.server)
    if devices and tool is None:
        raise ToolFailed(
            f"measuring for {planner.machine.devices[0].name} needs {FIT_PARAMS} of a llama.cpp built for it",
            "name its folder with --llama-cpp or LLAMA_CPP_DIR, or plan without --measure",
        )
    with _file(m) as path:
        if tool is not None:
            measure_with, source = _program(tool, path, d, planner), FIT_PARAMS
        else:
            measure_with, source = _library(tell, path, d), LIBRARY
        movable = devices and d.free.gpu_layers
        found = refine(planner, fit, measure_with, may_move=movable)
    if found is None:
        raise ToolFailed(f"{source} refused a context that should have been taken", "plan without --measure")
    return found, source


def _library(tell: Tell, path: str, d: Deployment) -> Measure:
    def ask(p: MemoryPlan) -> Sizes | None:
        s, c = p.settings, p.cache.context
        outputs = c.slots if s.outputs is None else s.outputs
        asked = Ask(
            c.requested, s.type_k, s.type_v, c.slots, c.unified, s.batch, s.ubatch, s.flash_attn, s.swa_full, outputs
        )
        answer: Measured = measure(path, [asked], repack=d.wishes.repack)[0]
        if answer.buffers is None:
            return None
        if answer.total("context") != p.cache.bytes:
            kept = answer.total("context")
            tell(f"the library keeps {kept:,} bytes of cache, planned were {p.cache.bytes:,}")
        return {HOST: {part: answer.total(part) for part in ("model", "context", "compute")}}

    return ask


def _program(tool: Tool, path: str, d: Deployment, planner: Planner) -> Measure:
    def ask(p: MemoryPlan) -> Sizes | None:
        done = run(tool, *fit_params_arguments(path, d, p, planner), "-fitp", "on", seconds=120.0)
        return None if done.returncode else parse_fit_params(done.stdout, [x.name for x in planner.machine.devices])

    return ask


def fit_params_arguments(path: str, d: Deployment, p: MemoryPlan, planner: Planner) -> list[str]:
    """What `llama-fit-params` takes to look at exactly this plan: all that the plan rests on, of the model alone."""
    said = resolved(d, planner, p)
    left_out = (o for o in options() if not o.plan or o.path or o.field in _NOT_OF_A_CONTEXT)
    plain: dict[str, Any] = {o.field: o.default for o in left_out}
    layers = planner.weights.layer_count + 1
    placed: dict[str, Any] = {"gpu_layers": layers} if said.gpu_layers is None or said.gpu_layers < 0 else {}
    made = replace(said, **plain, **placed, extra=(), ubatch=p.settings.ubatch, batch=p.settings.batch)
    arguments = list(server_command(path, made, known()).args)
    for name in ("--host", "--port", "-lv"):
        at = arguments.index(name)
        del arguments[at : at + 2]
    return arguments


def parse_fit_params(text: str, devices: list[str]) -> Sizes | None:
    """The lines of ``llama-fit-params -fitp on``: device, then model, context and compute in MiB; the host last.

    Devices are taken in order, because another build may call them by other names.
    """
    found = [
        (x["name"], {part: int(x[part]) * MIB for part in ("model", "context", "compute")})
        for x in _LINE.finditer(text)
    ]
    if not found:
        return None
    out: Sizes = {}
    names = iter(devices)
    for name, sizes in found:
        out[HOST if name == "Host" else next(names, name)] = sizes
    return out


@contextmanager
def _file(m: Model) -> Iterator[str]:
    """The model as a path whose tensor data is there, or a hole of the right size."""
    whole = all(os.path.isfile(p.name) and _end(p) <= p.size for p in m.parts) and not m.missing_shards
    if whole:
        yield m.name
        return
    if m.shard_count > 1:
        raise ToolFailed("measuring a split model needs its files here", "plan without --measure")
    from gguftool.files.draft import Draft
    from gguftool.files.small import scratch_folder

    with scratch_folder() as folder:
        path = os.path.join(folder, "model.gguf")
        part = m.parts[0]
        with Draft(path) as file:
            file.write(part.source.read_at(0, part.header.data_offset))
            # The data becomes a hole: nothing of it is read.
            os.ftruncate(file.fd, _end(part))
            file.publish()
        yield path


def _end(part: Part) -> int:
    """Where the last tensor of a file ends."""
    h = part.header
    return h.data_offset + max((t.offset + (t.nbytes or 0) for t in h.tensors), default=0)
