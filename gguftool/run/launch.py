"""From a model and wishes to a command line, and to what must be seen in the log afterwards.

The one module of this room that knows `gguftool.memory`: the sizes that the log is held against come from there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import CACHE_TYPES, flash_attn_used, recorded, refusals, shown, slow_pairs
from gguftool.memory.devices import Device
from gguftool.memory.kv import Cache
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.settings import Settings
from gguftool.memory.weights import Placement
from gguftool.model import Model
from gguftool.model.role import only_runnable, role
from gguftool.run import embedded
from gguftool.run.args import LOOPBACK, CommandLine, ServerOptions, server_command
from gguftool.run.capabilities import Capabilities, known
from gguftool.run.devices import FoundDevice, HostMemory
from gguftool.run.proof import Expected, ExpectedCache
from gguftool.run.tool import Tool
from gguftool.run.wishes import Obstacle, Wishes, unknown_extra
from gguftool.shell import gguftool, path_word

UBATCH, BATCH = 512, 2048
"""Defaults of `-ub` and `-b` (`common/common.h`, b11434)."""
EMBEDDINGS = {"--embedding", "--embeddings"}
CHANGES_ROPE = ("--rope-", "--yarn-", "--override-kv")


@dataclass(frozen=True, slots=True)
class Engine:
    """What will serve.

    Attributes:
        name: ``llama-server`` or ``library``.
        prefix: the words before the arguments.
        tool: the program, None for the library or when none was found.
        build: what it takes.
    """

    name: str
    prefix: tuple[str, ...]
    tool: Tool | None
    build: Capabilities


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch that has been thought through, but not started.

    Attributes:
        engine: what will serve.
        command: its arguments, with what could not be said.
        options: the same as data.
        memory: what it takes, by device.
        expected: what the log has to show.
        obstacles: reasons not to start.
        notes: what is worth knowing.
    """

    engine: Engine
    command: CommandLine
    options: ServerOptions
    memory: MemoryPlan
    expected: Expected
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]

    @property
    def argv(self) -> list[str]:
        """Program and arguments."""
        return [*self.engine.prefix, *self.command.args]


@dataclass(slots=True)
class _Thoughts:
    obstacles: list[Obstacle] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def stop(self, where: str, message: str, remedy: str = "", severity: str = "error") -> None:
        self.obstacles.append(Obstacle(where, message, remedy, severity))


def no_engine() -> Engine:
    """For a command that is only printed: spelled as the build we know takes it."""
    return Engine("llama-server", ("llama-server",), None, known())


def library_engine() -> Engine:
    """The server inside the xllamacpp wheel."""
    return Engine("library", (sys.executable, "-m", embedded.MODULE), None, embedded.capabilities())


def plan_launch(
    model: Model,
    wishes: Wishes,
    engine: Engine | None = None,
    devices: Sequence[FoundDevice] = (),
    host: HostMemory | None = None,
) -> LaunchPlan:
    """Work out the command line for this model, these wishes, this build and this machine.

    Args:
        model: open model; only its header is read.
        wishes: what the user asks.
        engine: what will serve; None for a command that is only printed.
        devices: accelerators of this machine.
        host: its memory, None when unknown.

    Raises:
        UsageError: the file is no language model, or the wishes make no sense.
    """
    engine = engine or no_engine()
    t = _Thoughts()
    only_runnable(model)
    _loads(model, t)
    hp = model.arch
    settings = _settings(hp, wishes, t)
    planned, machine = _memory(model, wishes, settings, devices, host)
    _context(planned, t)
    _room(planned, machine, t)
    options = _options(model, wishes, planned, machine)
    command = server_command(options, engine.build)
    for blocker in command.blockers:
        t.stop("build", blocker, "take another build, or leave the option out")
    for problem in unknown_extra(wishes.extra, engine.build):
        t.stop("build", problem, "llama-server --help lists what it takes")
    _network(wishes, t)
    if role(model) == "encoder" and not EMBEDDINGS & set(wishes.extra):
        t.notes.append("this model gives embeddings: the server wants `-- --embeddings` for them")
    if engine.build.assumed:
        t.notes.append(f"no llama-server was asked: the spellings are those of build {engine.build.build}")
    expected = expectations(model, planned, options)
    return LaunchPlan(engine, command, options, planned, expected, tuple(t.obstacles), (*t.notes, *command.notes))


def with_obstacles(plan: LaunchPlan, more: Sequence[Obstacle]) -> LaunchPlan:
    """The plan with what other checks (verify, lint) found."""
    return replace(plan, obstacles=(*plan.obstacles, *more))


def with_port(plan: LaunchPlan, port: int) -> LaunchPlan:
    """The same on another port."""
    options = replace(plan.options, port=port)
    return replace(plan, options=options, command=server_command(options, plan.engine.build))


def first_shard(model: Model) -> str:
    """The path to give to llama.cpp: it takes the first shard only, and finds the others by their names."""
    path = model.name
    return path if "://" in path else os.path.abspath(path)


def _loads(model: Model, t: _Thoughts) -> None:
    if model.missing_shards:
        numbers = ", ".join(str(n) for n in model.missing_shards)
        t.stop("model", f"shard {numbers} of {model.shard_count} is missing", gguftool("verify", path_word(model.name)))
    facts = model.arch.facts
    if facts is None:
        name = model.architecture
        t.stop("model", f"llama.cpp b11434 knows no architecture {name!r}", gguftool("lint", path_word(model.name)))
    elif facts.unsupported:
        t.stop("model", f"llama.cpp cannot run {model.architecture}: {facts.unsupported}")


def _settings(hp: Hparams, wishes: Wishes, t: _Thoughts) -> Settings:
    types = wishes.cache_type or recorded(hp)
    if types is None:
        types = ("f16", "f16")
        if isinstance(hp.raw("kv_cache_type"), str):
            t.notes.append(f"the file's kv_cache_type {hp.raw('kv_cache_type')!r} is no cache type; f16 is used")
    for reason in refusals(hp, *types, wishes.flash_attn):
        t.stop("cache", f"llama.cpp would refuse: {reason}", _way_out(reason, types))
    if flash_attn_used(hp, types[1], wishes.flash_attn):
        t.notes.extend(slow_pairs(*types))
    return Settings(
        ctx=wishes.ctx or hp.context_length,
        type_k=types[0],
        type_v=types[1],
        parallel=wishes.parallel,
        kv_unified=wishes.kv_unified,
        ubatch=UBATCH if wishes.ubatch is None else wishes.ubatch,
        batch=BATCH if wishes.batch is None else wishes.batch,
        flash_attn=wishes.flash_attn,
        swa_full=wishes.swa_full,
    )


def _way_out(reason: str, types: tuple[str, str]) -> str:
    if "different K" in reason:
        return f"--cache-type {types[0]}"
    if "requires flash_attn" in reason:
        return "leave --flash-attn at auto or on, or quantise K only: --cache-type " + shown(types[0], "f16")
    return "--cache-type f16"


def _memory(
    model: Model, wishes: Wishes, settings: Settings, devices: Sequence[FoundDevice], host: HostMemory | None
) -> tuple[MemoryPlan, Machine]:
    # RPC devices come before the local ones (`llama.cpp:llama_prepare_model_devices`).
    remote = [Device(f"RPC{i}", "rpc", r.memory, r.endpoint) for i, r in enumerate(wishes.rpc)]
    local = [] if wishes.device == "none" else [Device(d.name, d.kind or "cuda", d.free, d.about) for d in devices]
    on_cpu = wishes.gpu_layers == "0"
    machine = Machine((*remote, *local) if not on_cpu else (), host.free if host else None, reserve=0, ram_reserve=0)
    layers = int(wishes.gpu_layers) if wishes.gpu_layers and wishes.gpu_layers.isdigit() else None
    split = tuple(float(x) for x in (wishes.tensor_split or "").split(",") if _is_share(x))
    placement = Placement(
        gpu_layers=layers, split=split, cpu_moe=wishes.cpu_moe or 0, kv_offload=wishes.kv_offload,
        mmap=wishes.load_mode in (None, "auto", "mmap"),
    )  # fmt: skip
    planner = Planner(model.arch, weights_of(model), machine, wishes.overrides)
    return planner.plan(settings, placement), machine


def _is_share(text: str) -> bool:
    return text.replace(".", "", 1).isdigit()


def _room(plan: MemoryPlan, machine: Machine, t: _Thoughts) -> None:
    """llama.cpp moves layers between devices by itself, so only the sum over all devices is a reason to stop."""
    sizes = [d.memory for d in plan.devices]
    if None in sizes or machine.ram is None:
        return
    free, mib = sum(s for s in sizes if s is not None), 1 << 20
    if plan.total <= free:
        for d in plan.devices[:-1]:
            if d.missing:
                short = d.missing / mib
                t.notes.append(f"{d.name} is {short:.0f} MiB short: llama.cpp will keep some layers on the CPU")
        return
    message = f"{plan.total / mib:,.0f} MiB are needed and {free / mib:,.0f} MiB are free"
    only_disk = plan.placement.mmap and plan.total - plan.weights <= free
    if only_disk:
        message += "; the weights would be read from disk again and again"
    way = "a smaller --ctx, a smaller --cache-type, or a smaller quantisation: gguftool plan MODEL shows what fits"
    t.stop("room", message, way, "warning" if only_disk else "error")


def _context(plan: MemoryPlan, t: _Thoughts) -> None:
    c = plan.cache.context
    if c.trained and c.per_slot > -(-c.trained // 256) * 256:
        t.stop(
            "context",
            f"a slot of {c.per_slot} tokens is asked for, but llama-server lets no slot pass the context length of the "
            f"file, {c.trained}: memory would be taken for cells nobody can use",
            f"--ctx {c.trained * (1 if c.unified else c.slots)}; or raise it in the file: "
            "gguftool fix MODEL --context-length N --rope-scaling yarn",
            "warning",
        )
    if not c.unified and c.slots > 1:
        t.notes.append(f"the context of {c.total} tokens is divided: each of {c.slots} slots holds {c.per_slot}")


def _network(wishes: Wishes, t: _Thoughts) -> None:
    keys = wishes.api_key_file is not None or {"--api-key", "--api-key-file"} & set(wishes.extra)
    if wishes.host not in (LOOPBACK, "localhost", "::1") and not keys:
        t.notes.append(f"everybody who reaches {wishes.host} can use the server: there is no --api-key-file")


def _options(model: Model, w: Wishes, plan: MemoryPlan, machine: Machine) -> ServerOptions:
    split = w.tensor_split
    if split is None and w.rpc and all(d.memory for d in machine.devices):
        split = ",".join(str(round((d.memory or 0) / (1 << 20))) for d in machine.devices)
    return ServerOptions(
        model=first_shard(model), ctx=plan.cache.context.requested, type_k=plan.settings.type_k,
        type_v=plan.settings.type_v, flash_attn=w.flash_attn, parallel=w.parallel, kv_unified=w.kv_unified,
        ubatch=w.ubatch, batch=w.batch, swa_full=w.swa_full, gpu_layers=w.gpu_layers, tensor_split=split,
        device=w.device, rpc=tuple(r.endpoint for r in w.rpc), load_mode=w.load_mode, mmproj=w.mmproj, alias=w.alias,
        template=w.template, threads=w.threads, host=w.host, port=w.port, api_key_file=w.api_key_file, extra=w.extra,
        cpu_moe=None if w.cpu_moe is None else min(w.cpu_moe, model.arch.block_count),
        override_tensor=",".join(f"{pattern}={device}" for pattern, device in w.overrides) or None,
        no_kv_offload=not w.kv_offload,
    )  # fmt: skip


def expectations(model: Model, plan: MemoryPlan, options: ServerOptions) -> Expected:
    """What the log of this launch has to show."""
    c, s, hp = plan.cache.context, plan.settings, model.arch
    flash = "on" if CACHE_TYPES[s.type_v].quantized and s.flash_attn == "auto" else s.flash_attn
    ropes = hp.ropes and not any(word.startswith(CHANGES_ROPE) for word in options.extra)
    sizes = [t.nbytes for t in model.tensors.values()]
    return Expected(
        architecture=model.architecture or None,
        tensors=None if model.missing_shards else len(sizes),
        weights_bytes=None if None in sizes or model.missing_shards else sum(n for n in sizes if n is not None),
        context=c.total,
        slot_context=c.usable,
        slots=c.slots,
        unified=c.unified,
        type_k=s.type_k if plan.cache.caches else None,
        type_v=s.type_v if plan.cache.caches else None,
        flash_attn="off" if hp.arch == "grok" else flash,
        caches=tuple(_expected_cache(k) for k in plan.cache.caches),
        kv_bytes=plan.cache.kv_bytes,
        state_bytes=plan.cache.state_bytes,
        rope_freq_base=hp.rope_freq_base if ropes else None,
        rope_freq_scale=hp.rope_freq_scale if ropes else None,
        devices=_weighed(plan) if options.gpu_layers != "0" else (),
        rpc=options.rpc,
    )


def _weighed(plan: MemoryPlan) -> tuple[str, ...]:
    """Local devices that get weights in the plan: one that gets none in the end is not used at all."""
    return tuple(d.name for d in plan.devices if d.kind not in ("cpu", "rpc") and d.weights)


def _expected_cache(c: Cache) -> ExpectedCache:
    return ExpectedCache(c.name, c.cells, len(c.layers), c.streams, c.bytes, c.k_bytes, c.v_bytes)
