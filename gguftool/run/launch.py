"""From a model and wishes to a command line, and to what must be seen in the log afterwards."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.errors import MissingFile, UsageError
from gguftool.facts import NUMBER, llama_cpp
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import flash_attn_used, recorded, refusals, shown, slow_pairs
from gguftool.memory.fit import Fit
from gguftool.memory.plan import MemoryPlan
from gguftool.memory.speed.estimate import Estimate
from gguftool.memory.use import Side
from gguftool.model import Model
from gguftool.model.embedder import Embedder
from gguftool.model.positions import learnt_positions
from gguftool.model.role import only_runnable
from gguftool.records import dataclass, field, replace
from gguftool.run import devices as hardware
from gguftool.run.args import CommandLine, quiet, server_command
from gguftool.run.capabilities import known
from gguftool.run.deploy import Deployment, Found, deploy, outcome, resolved
from gguftool.run.devices import FoundDevice, HostMemory
from gguftool.run.embedding import served
from gguftool.run.engine import Engine, no_engine
from gguftool.run.grown import growth_notes
from gguftool.run.options.extra import changes_rope
from gguftool.run.options.serving import LOOPBACK
from gguftool.run.sidefiles import side_files
from gguftool.run.silent import names_template
from gguftool.run.speed import speed
from gguftool.run.wishes import Obstacle, Wishes
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.run.known import Subject
    from gguftool.run.proof import Expected
    from gguftool.run.ways import Way

MIB = 1 << 20


class ToProve:
    """What a proof needs of a model: read when it is asked for, once, since a command that is printed needs none."""

    def __init__(self, model: Model, memory: MemoryPlan, said: Wishes, sides: Sequence[Side]) -> None:
        self._asked: tuple[Model, MemoryPlan, Wishes, Sequence[Side]] | None = model, memory, said, sides

    @cached_property
    def expected(self) -> Expected:
        """What the log has to show."""
        from gguftool.run.expected import expectations

        model, memory, said, sides = self._open()
        return expectations(model, memory, said, sides)

    @cached_property
    def about(self) -> Subject:
        """What is known of the model before it is asked what it knows."""
        from gguftool.run.known import subject

        model, _, said, _ = self._open()
        return subject(model, said.template, asked=said.smoke)

    def read(self) -> None:
        """Read all of it: the model may be closed afterwards, and is let go."""
        _ = self.expected, self.about
        self._asked = None

    def _open(self) -> tuple[Model, MemoryPlan, Wishes, Sequence[Side]]:
        if self._asked is None:
            raise ValueError("all of it has been read, and the model was let go")
        return self._asked


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A launch that has been thought through, but not started.

    Attributes:
        engine: what will serve.
        command: its arguments, with what could not be said.
        model: path of the model, of its first shard.
        files: paths of all its shards.
        wishes: what the command says, also what nobody asked for.
        memory: what it takes, by device.
        obstacles: reasons not to start.
        notes: what is worth knowing.
        asked: the wishes as they were, with what stood behind ``--`` taken in.
        gives: how it gives embeddings or scores; None: it writes.
        speed: how fast it can be.
        ways: what fits where the wish does not, the recommended one first.
    """

    engine: Engine
    command: CommandLine
    model: str
    wishes: Wishes
    memory: MemoryPlan
    obstacles: tuple[Obstacle, ...]
    notes: tuple[str, ...]
    asked: Wishes
    files: tuple[str, ...] = ()
    gives: Embedder | None = None
    speed: Estimate | None = None
    ways: tuple[Way, ...] = ()
    _proof: ToProve | None = field(default=None, repr=False, compare=False)

    __repr__ = short_repr

    @property
    def argv(self) -> list[str]:
        """Program and arguments."""
        return [*self.engine.prefix, *self.command.args]

    @property
    def expected(self) -> Expected:
        """What the log has to show."""
        return self._to_prove.expected

    @property
    def about(self) -> Subject:
        """What is known of the model before it is asked what it knows."""
        return self._to_prove.about

    @property
    def _to_prove(self) -> ToProve:
        if self._proof is None:
            raise ValueError("the plan was not made of a model")
        return self._proof


@dataclass(slots=True)
class _Thoughts:
    obstacles: list[Obstacle] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def stop(self, where: str, message: str, remedy: str = "", severity: str = "error") -> None:
        self.obstacles.append(Obstacle(where, message, remedy, severity))


def plan_launch(
    model: Model,
    wishes: Wishes,
    engine: Engine | None = None,
    devices: Sequence[FoundDevice] = (),
    host: HostMemory | None = None,
) -> LaunchPlan:
    """Work out the command line for this model, these wishes, this build and this machine.

    All of it is worked out at once, so the model may be closed afterwards.

    Args:
        model: open model; only its header is read.
        wishes: what the user asks.
        engine: what will serve; None for a command that is only printed.
        devices: accelerators of this machine.
        host: its memory, None when unknown.

    Raises:
        UsageError: the file is no language model, or the wishes make no sense.
    """
    return read_out(plan_open(model, wishes, engine, devices, host))


def plan_open(
    model: Model,
    wishes: Wishes,
    engine: Engine | None = None,
    devices: Sequence[FoundDevice] = (),
    host: HostMemory | None = None,
) -> LaunchPlan:
    """As `plan_launch`, for a model that stays open: what a proof needs is read when it is asked for."""
    engine = engine or no_engine()
    t = _Thoughts()
    only_runnable(model)
    _loads(model, engine.build.build, t)
    found = Found(tuple(devices), host, hardware.repacked(), asked=engine.tool is not None)
    d = deploy(model, wishes, found, engine.build)
    if d.wishes.against is not None and not os.path.exists(d.wishes.against):
        raise MissingFile(f"--against {d.wishes.against}: no such file or folder")
    for file in side_files(d.wishes):
        if "://" in file.path:
            raise UsageError(f"{file.option} {file.path}: is not on this machine", "download it first")
    _cache(model.arch, d, t)
    planner = d.planner(model)
    fit = outcome(d, planner)
    said = resolved(d, planner, fit.plan)
    _context(model, fit.plan, said, t)
    for line in (line for draft in fit.plan.drafts for line in draft.refused):
        t.stop("cache", f"llama.cpp would refuse the context that drafts: {line}", "-ctkd f16 -ctvd f16")
    _room(model.name, fit, d, t)
    path = first_shard(model)
    command = server_command(path, said, engine.build)
    for blocker in command.blockers:
        t.stop("build", blocker, "take another build, or leave the option out")
    for problem in d.problems:
        t.stop("build", problem, "llama-server --help lists what it takes" if "no option" in problem else "")
    for one in d.unfit:
        if one.misfit.doubtful:
            t.notes.append(one.text)
        else:
            t.stop("pair", one.text, one.remedy, "error" if one.misfit.stops else "warning")
    for doubt, remedy in d.doubts:
        t.stop("build", doubt, remedy, "warning")
    _network(said, t)
    if why := quiet(said):
        t.notes.append(f"{why}: little can be proven, and only by its endpoints")
    if engine.build.assumed:
        t.notes.append(f"no llama-server was asked: the spellings are those of build {engine.build.build}")
    proof = ToProve(model, fit.plan, said, d.sides)
    if said.mmproj is not None or said.template is not None or names_template(os.environ, known()):
        # A file that is read for the proof alone stops the plan when it cannot be read.
        _ = proof.expected
    notes = (*t.notes, *d.notes, *growth_notes(d, fit.plan), *command.notes)
    files = tuple(part.name if "://" in part.name else os.path.abspath(part.name) for part in model.parts)
    gives = served(model, said)
    others: tuple[Way, ...] = ()
    if fit.lacking:
        from gguftool.run.ways import ways

        others = ways(model, d, planner, fit, path)
    return LaunchPlan(
        engine, command, path, said, fit.plan, tuple(t.obstacles), notes, d.wishes, files, gives,
        speed(d, planner, fit.plan), others, proof,
    )  # fmt: skip


def read_out(plan: LaunchPlan) -> LaunchPlan:
    """The plan once all that a proof needs is read from the model, which may be closed afterwards."""
    plan._to_prove.read()
    return plan


def with_findings(plan: LaunchPlan, obstacles: Sequence[Obstacle], notes: Sequence[str]) -> LaunchPlan:
    """The plan with what other checks (verify, lint) found."""
    return replace(plan, obstacles=(*plan.obstacles, *obstacles), notes=(*plan.notes, *notes))


def with_port(plan: LaunchPlan, port: int) -> LaunchPlan:
    """The same on another port."""
    wishes = replace(plan.wishes, port=port)
    return replace(plan, wishes=wishes, command=server_command(plan.model, wishes, plan.engine.build))


def first_shard(model: Model) -> str:
    """The path to give to llama.cpp: it takes the first shard only, and finds the others by their names."""
    path = model.name
    return path if "://" in path else os.path.abspath(path)


def _loads(model: Model, build: int | None, t: _Thoughts) -> None:
    if model.missing_shards:
        numbers = ", ".join(str(n) for n in model.missing_shards)
        t.stop("model", f"shard {numbers} of {model.shard_count} is missing", gguftool("verify", path_word(model.name)))
    facts = model.arch.facts
    if facts is None:
        name = model.architecture
        text = f"{llama_cpp()} knows no architecture {name!r}"
        if build is not None and build > NUMBER:
            t.stop("model", f"{text}; {llama_cpp(build)} is newer, and may know it", severity="warning")
        else:
            t.stop("model", text, gguftool("compat", path_word(model.name)))
    elif facts.unsupported:
        t.stop("model", f"llama.cpp cannot run {model.architecture}: {facts.unsupported}")


def _cache(hp: Hparams, d: Deployment, t: _Thoughts) -> None:
    s = d.settings
    types = (s.type_k, s.type_v)
    if d.wishes.cache_type is None and isinstance(hp.raw("kv_cache_type"), str) and recorded(hp) is None:
        t.notes.append(f"the file's kv_cache_type {hp.raw('kv_cache_type')!r} is no cache type; f16 is used")
    for reason in refusals(hp, *types, s.flash_attn):
        t.stop("cache", f"llama.cpp would refuse: {reason}", _way_out(reason, types))
    if flash_attn_used(hp, s.type_v, s.flash_attn):
        t.notes.extend(slow_pairs(*types))


def _way_out(reason: str, types: tuple[str, str]) -> str:
    if "different K" in reason:
        return f"--cache-type {types[0]}"
    if "requires flash_attn" in reason:
        return "leave --flash-attn at auto or on, or quantise K only: --cache-type " + shown(types[0], "f16")
    return "--cache-type f16"


def _room(path: str, fit: Fit, d: Deployment, t: _Thoughts) -> None:
    """Whether it fits, as `gguftool plan` has it; what was changed so that it does is told."""
    plan = fit.plan
    changed = [x.what for x in fit.steps[1:] if x.kept]
    if plan.fits and changed:
        t.notes.append("changed, so that it fits: " + "; ".join(changed))
    if plan.fits is not False:
        return
    sizes = [x.memory for x in plan.devices]
    there = sum(n for n in sizes if n is not None)
    over = ", ".join(f"{x.name} by {x.missing / MIB:,.0f} MiB" for x in plan.devices if x.missing)
    message = f"{plan.total / MIB:,.0f} MiB are needed and {there / MIB:,.0f} MiB are there; over on {over}"
    kept = min((x.reserve for x in plan.devices if x.missing), default=0)
    if kept:
        message += f", {kept / MIB:,.0f} MiB kept free (--reserve)"
    if plan.placement.mmap and plan.total - plan.weights + kept <= there:
        message += "; the weights would be read from disk again and again"
    look = gguftool("plan", path_word(path))
    way = f"a smaller --ctx, a smaller --cache-type, or a smaller quantisation; what fits: {look}"
    # As for `gguftool plan`: an error when somebody said how much memory there is.
    t.stop("room", message, way, "error" if d.named else "warning")


def _longer(model: Model, tokens: int) -> str:
    """How the file can be made to hold a longer context; "" where it cannot."""
    rows = learnt_positions(model)
    if rows is not None:
        return f"; its table of positions has {rows} rows, and cannot be made longer"
    if not model.arch.ropes:
        return ""
    words = gguftool("fix", path_word(model.name), "--ctx", str(tokens), "--rope-scaling", "yarn")
    return f"; or raise it in the file: {words}"


def _context(model: Model, plan: MemoryPlan, said: Wishes, t: _Thoughts) -> None:
    c = plan.cache.context
    if c.trained and c.per_slot > -(-c.trained // 256) * 256 and not changes_rope(said.extra):
        t.stop(
            "context",
            f"a slot of {c.per_slot} tokens is asked for, but llama-server lets no slot pass the context length of the "
            f"file, {c.trained}: memory would be taken for cells nobody can use",
            f"--ctx {c.trained * (1 if c.unified else c.slots)}{_longer(model, c.per_slot)}",
            "warning",
        )
    if not c.unified and c.slots > 1:
        t.notes.append(f"the context of {c.total} tokens is divided: each of {c.slots} slots holds {c.per_slot}")
    if plan.cache.doubt:
        t.notes.append(plan.cache.doubt)


def open_to_others(w: Wishes) -> bool:
    """Whether others can reach the server without a key."""
    hosts = [part.strip() for part in w.host.split(",")]
    here = all(h in (LOOPBACK, "localhost", "::1") or h.endswith(".sock") for h in hosts)
    return not here and w.api_key_file is None and w.api_key is None


def _network(w: Wishes, t: _Thoughts) -> None:
    if open_to_others(w):
        t.notes.append(f"everybody who reaches {w.host} can use the server: there is no --api-key-file")
