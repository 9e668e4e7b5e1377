"""`gguftool plan --measure`: the real llama.cpp lays everything out, allocating nothing, and its sizes replace ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from gguftool.cli.options import Session
from gguftool.errors import ToolFailed
from gguftool.files.draft import Draft
from gguftool.files.small import scratch_folder
from gguftool.memory.advice import refine
from gguftool.memory.devices import HOST
from gguftool.memory.fit import Fit
from gguftool.memory.plan import MemoryPlan, Planner
from gguftool.model import Model, Part
from gguftool.run.args import ServerOptions, server_command
from gguftool.run.capabilities import known
from gguftool.run.measure import VERSION, Ask, Measured, measure

MIB = 1 << 20
LIBRARY = f"llama.cpp library b11549 (xllamacpp {VERSION})"
FIT_PARAMS = "llama-fit-params"
_LINE = re.compile(r"^(?P<name>\S+) +(?P<model>\d+) +(?P<context>\d+) +(?P<compute>\d+) *$", re.MULTILINE)

Sizes = dict[str, dict[str, int]]


def measured_fit(session: Session, m: Model, planner: Planner, fit: Fit, *, may_move: bool) -> tuple[Fit, str]:
    """The outcome of the search with measured compute buffers, and who measured them.

    Without devices the library inside xllamacpp is asked; with devices only a `llama-fit-params` built for them knows.

    Raises:
        ToolFailed: nothing is there to ask, or it failed.
    """
    if fit.plan.refused:
        return fit, ""
    with _file(m) as path:
        if planner.machine.devices:
            found, source = refine(planner, fit, lambda p: _program(path, p, planner), may_move=may_move), FIT_PARAMS
        else:
            found, source = refine(planner, fit, lambda p: _library(session, path, p), may_move=False), LIBRARY
    if found is None:
        raise ToolFailed(f"{source} refused a context that should have been taken", "plan without --measure")
    return found, source


def _library(session: Session, path: str, p: MemoryPlan) -> Sizes | None:
    s, c = p.settings, p.cache.context
    ask = Ask(c.requested, s.type_k, s.type_v, c.slots, c.unified, s.batch, s.ubatch, s.flash_attn, s.swa_full, c.slots)
    answer: Measured = measure(path, [ask])[0]
    if answer.buffers is None:
        return None
    if answer.total("context") != p.cache.bytes:
        session.warn(f"the library keeps {answer.total('context'):,} bytes of cache, planned were {p.cache.bytes:,}")
    return {HOST: {part: answer.total(part) for part in ("model", "context", "compute")}}


def _program(path: str, p: MemoryPlan, planner: Planner) -> Sizes | None:
    from gguftool.run.tool import find, run

    tool = find(FIT_PARAMS)
    if tool is None:
        raise ToolFailed(
            f"measuring for {planner.machine.devices[0].name} needs {FIT_PARAMS} of a llama.cpp built for it",
            "build llama.cpp and put its programs on PATH, or plan without --measure",
        )
    done = run(tool, *fit_params_arguments(path, p, planner), "-fitp", "on", seconds=120.0)
    if done.returncode:
        return None
    return parse_fit_params(done.stdout, [d.name for d in planner.machine.devices])


def fit_params_arguments(path: str, p: MemoryPlan, planner: Planner) -> list[str]:
    """What `llama-fit-params` takes to look at exactly this plan."""
    s, c = p.settings, p.cache.context
    layers = planner.weights.layer_count + 1
    o = ServerOptions(
        path,
        c.requested,
        s.type_k,
        s.type_v,
        flash_attn=s.flash_attn,
        parallel=c.slots,
        kv_unified=s.unified if c.slots > 1 else None,
        ubatch=s.ubatch,
        batch=s.batch,
        swa_full=s.swa_full,
        gpu_layers=str(layers if p.placement.gpu_layers is None else p.placement.gpu_layers),
        cpu_moe=p.placement.cpu_moe or None,
    )
    arguments = list(server_command(o, known()).args)
    for name in ("--host", "--port", "-lv"):
        if name in arguments:
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
