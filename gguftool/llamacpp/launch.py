"""From a model and wishes to a command line and what to expect of it.

The one module of this room that knows `gguftool.memory`: the sizes that the log is held against come from there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gguftool.arch import Hparams
from gguftool.cachetypes import recorded, refusals, shown, slow_pairs
from gguftool.llamacpp.args import DEFAULT_PORT, LOOPBACK, CommandLine, ServerOptions, server_command
from gguftool.llamacpp.capabilities import Capabilities, known
from gguftool.llamacpp.tool import Tool
from gguftool.memory.kv import CachePlan, kv_cache
from gguftool.memory.settings import Settings
from gguftool.model import Model

UBATCH, BATCH = 512, 2048
"""Defaults of `-ub` and `-b` (`common/common.h`, b11434)."""
NOT_A_MODEL = {
    "clip": "it is a multimodal projector: name the language model, and give this file with --mmproj",
    "adapter": "it is a LoRA adapter: name the base model, and give this file behind `-- --lora`",
    "imatrix": "it is an importance matrix, which only quantisation uses",
    "vocab": "it holds a vocabulary and no tensors",
}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user asks of a launch; None: the file's record, else llama.cpp's default."""

    ctx: int | None = None
    cache_type: tuple[str, str] | None = None
    flash_attn: str = "auto"
    parallel: int = 1
    kv_unified: bool | None = None
    ubatch: int | None = None
    batch: int | None = None
    swa_full: bool = False
    gpu_layers: str | None = None
    tensor_split: str | None = None
    device: str | None = None
    rpc: tuple[str, ...] = ()
    load_mode: str | None = None
    mmproj: str | None = None
    alias: str | None = None
    template: str | None = None
    threads: int | None = None
    host: str = LOOPBACK
    port: int = DEFAULT_PORT
    api_key_file: str | None = None
    extra: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A reason not to start.

    Attributes:
        where: ``model``, ``memory``, ``build``, ``lint``, ``verify``, ``port``.
        message: what is wrong.
        remedy: what helps, a command where there is one.
        severity: ``error``: llama.cpp would refuse or do something else; ``warning``: it would start.
    """

    where: str
    message: str
    remedy: str = ""
    severity: str = "error"


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch that has been thought through, but not started.

    Attributes:
        program: the program to run, ``llama-server`` when none was found.
        command: its arguments, with what could not be said.
        options: the same as data.
        settings: as the memory plan has them.
        cache: KV caches and states, to the byte.
        obstacles: reasons not to start.
        notes: what is worth knowing.
        tool, build: the program found and what it takes; build is a table of ours when there is none.
    """

    program: str
    command: CommandLine
    options: ServerOptions
    settings: Settings
    cache: CachePlan
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]
    tool: Tool | None
    build: Capabilities

    @property
    def argv(self) -> list[str]:
        """Program and arguments."""
        return [self.program, *self.command.args]


@dataclass(slots=True)
class _Thoughts:
    obstacles: list[Obstacle] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def stop(self, where: str, message: str, remedy: str = "", severity: str = "error") -> None:
        self.obstacles.append(Obstacle(where, message, remedy, severity))


def plan_launch(
    model: Model, wishes: Wishes, tool: Tool | None = None, build: Capabilities | None = None
) -> LaunchPlan:
    """Work out the command line for this model, these wishes and this build.

    Args:
        model: open model; only its header is read.
        wishes: what the user asks.
        tool: the llama-server found, None for a command that is only printed.
        build: what it takes; None: what b11434 takes.

    Raises:
        UsageError: the wishes cannot be expressed (a cache type that does not exist, no context length anywhere).
    """
    t = _Thoughts()
    _role(model, t)
    hp = model.arch
    types = wishes.cache_type or recorded(hp)
    if types is None:
        types = ("f16", "f16")
        if isinstance(hp.raw("kv_cache_type"), str):
            t.notes.append(
                f"the file records kv_cache_type {hp.raw('kv_cache_type')!r}, which is not a cache type; f16 is used"
            )
    _cache_types(hp, types, wishes.flash_attn, t)
    settings = Settings(
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
    cache = kv_cache(hp, settings)
    _context(hp, cache, wishes, t)
    build = build or known()
    options = ServerOptions(
        model=first_shard(model), ctx=cache.context.requested, type_k=types[0], type_v=types[1],
        flash_attn=wishes.flash_attn, parallel=wishes.parallel, kv_unified=wishes.kv_unified, ubatch=wishes.ubatch,
        batch=wishes.batch, swa_full=wishes.swa_full, gpu_layers=wishes.gpu_layers, tensor_split=wishes.tensor_split,
        device=wishes.device, rpc=wishes.rpc, load_mode=wishes.load_mode, mmproj=wishes.mmproj, alias=wishes.alias,
        template=wishes.template, threads=wishes.threads, host=wishes.host, port=wishes.port,
        api_key_file=wishes.api_key_file, extra=wishes.extra,
    )  # fmt: skip
    command = server_command(options, build)
    for blocker in command.blockers:
        t.stop("build", blocker, "take a newer llama.cpp, or leave the option out")
    for problem in unknown_extra(wishes.extra, build):
        t.stop("build", problem)
    if build.assumed and tool is None:
        t.notes.append(f"no llama-server was asked: the spellings are those of build {build.build}")
    return LaunchPlan(
        tool.path if tool else "llama-server", command, options, settings, cache, tuple(t.obstacles),
        (*t.notes, *command.notes), tool, build,
    )  # fmt: skip


def with_obstacles(plan: LaunchPlan, more: Sequence[Obstacle]) -> LaunchPlan:
    """The plan with what other checks (verify, lint, memory) found."""
    return replace(plan, obstacles=(*plan.obstacles, *more))


def first_shard(model: Model) -> str:
    """The path to give to llama.cpp: it takes the first shard only, and finds the others by their names."""
    path = model.name
    return path if "://" in path else os.path.abspath(path)


def _role(model: Model, t: _Thoughts) -> None:
    kind = model.get("general.type")
    role = kind if isinstance(kind, str) and kind in NOT_A_MODEL else ""
    if model.architecture == "clip":
        role = "clip"
    elif not role and not model.tensors:
        role = "vocab"
    if role or kind == "mmproj":
        t.stop("model", f"{model.name} is not a language model: {NOT_A_MODEL[role or 'clip']}")
    if model.missing_shards:
        numbers = ", ".join(str(n) for n in model.missing_shards)
        t.stop("model", f"shard {numbers} of {model.shard_count} is missing", f"gguftool verify {model.name}")
    facts = model.arch.facts
    if facts is None:
        t.stop("model", f"llama.cpp knows no architecture {model.architecture!r}", f"gguftool lint {model.name}")
    elif facts.unsupported and role != "clip":
        t.stop("model", f"llama.cpp cannot run {model.architecture}: {facts.unsupported}")


def _cache_types(hp: Hparams, types: tuple[str, str], flash_attn: str, t: _Thoughts) -> None:
    for reason in refusals(hp, *types, flash_attn):
        t.stop("memory", f"llama.cpp would refuse: {reason}", _way_out(reason, types))
    t.notes.extend(slow_pairs(*types))


def _way_out(reason: str, types: tuple[str, str]) -> str:
    if "different K" in reason:
        return f"--cache-type {types[0]}"
    if "requires flash_attn" in reason:
        return "leave --flash-attn at auto or on, or quantise K only: --cache-type " + shown(types[0], "f16")
    return "--cache-type f16"


def _context(hp: Hparams, cache: CachePlan, wishes: Wishes, t: _Thoughts) -> None:
    c = cache.context
    if c.trained and c.per_slot > -(-c.trained // 256) * 256:
        t.stop(
            "memory",
            f"a slot of {c.per_slot} tokens is asked for, but llama-server lets no slot pass the context length of the "
            f"file, {c.trained}: memory would be allocated for cells nobody can use",
            f"--ctx {c.trained * (1 if c.unified else c.slots)}; or raise it in the file: "
            "gguftool fix --context-length",
            "warning",
        )
    if not c.unified and c.slots > 1:
        t.notes.append(f"the context of {c.total} tokens is divided: each of {c.slots} slots holds {c.per_slot}")


def unknown_extra(extra: Sequence[str], build: Capabilities) -> list[str]:
    """Arguments behind ``--`` that this build would not parse."""
    out = []
    skip = 0
    for word in extra:
        if skip:
            skip -= 1
            continue
        if not word.startswith("-") or _is_number(word):
            out.append(f"{word!r} stands alone: llama-server takes no arguments without an option")
            continue
        name = word.replace("_", "-") if word.startswith("--") else word
        option = build.by_name.get(name)
        if option is None:
            near = build.nearest(name)
            out.append(f"this build has no option {word}" + (f"; did you mean {' or '.join(near)}?" if near else ""))
            skip = 1
            continue
        if option.removed:
            out.append(f"the option {word} has been removed from this build")
        skip = 2 if option.value == "START END" else 1 if option.value else 0
    return out


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
