"""From wishes to what they mean for memory: settings, placement, machine, files beside the model.

The one way from options to numbers: ``plan``, ``launch``, ``plan --measure``, the emitted files and the proof all come
here, so the same words mean the same everywhere. `resolved` goes the other way: from a plan to wishes that say it.
"""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.brief import short_repr
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import DEFAULT, recorded
from gguftool.memory.devices import HOST, Device
from gguftool.memory.fit import Fit, Free, Step, as_asked, largest_context
from gguftool.memory.limit import Bounds, bounded
from gguftool.memory.plan import Machine, MemoryPlan, Planner, weights_of
from gguftool.memory.settings import BATCH, PROMPT_CACHE, SERVER_SLOTS, UBATCH, Settings
from gguftool.memory.settings import CHECKPOINTS as CHECKPOINT_COUNT
from gguftool.memory.use import Side
from gguftool.memory.weights import Placement
from gguftool.model import Model
from gguftool.model.drafting import MTP
from gguftool.model.embedder import Embedder
from gguftool.programs import Tool
from gguftool.records import dataclass, field, replace
from gguftool.run import devices as hardware
from gguftool.run import speculative
from gguftool.run.aged import flash, slots
from gguftool.run.beside import Unfit, beside
from gguftool.run.capabilities import Capabilities
from gguftool.run.devices import FoundDevice, HostMemory
from gguftool.run.embedding import chosen, graph, served
from gguftool.run.options.extra import Taken
from gguftool.run.options.ours import BACKENDS
from gguftool.run.options.table import by_field, options
from gguftool.run.sidefiles import checked
from gguftool.run.target import number_of, older, remarks
from gguftool.run.wishes import Wishes

MIB = 1 << 20
MAPPED = (None, "auto", "mmap", "mmap+mlock")
_FFN = r"blk\.{}\.ffn_(up|down|gate)\."
"""`common.h:LLM_FFN_DENSE_REGEX` and the number of a layer before it."""


@dataclass(frozen=True, slots=True)
class Found:
    """This machine as it is.

    Attributes:
        devices: accelerators the program sees.
        host: memory of the host, None when unknown.
        repack: what the processor rearranges.
        asked: a program was asked for its devices, so there are no others.
    """

    devices: tuple[FoundDevice, ...] = ()
    host: HostMemory | None = None
    repack: str = "avx2"
    asked: bool = False

    __repr__ = short_repr


@dataclass(slots=True)
class Deployment:
    """What wishes mean for one model on one machine.

    Attributes:
        wishes: as asked, with what stood behind ``--`` taken in.
        settings, placement, machine, overrides, sides, drafts: for the memory plan.
        named: the user said how much memory there is: whether it fits is what was asked for.
        unfit: files beside the model that do not go with it.
        problems: why llama.cpp would refuse, or do something that is not planned.
        doubts: what it would do, though hardly as meant: what is wrong, and what helps.
        notes: what is worth knowing.
        build: number of the build that will serve, of a range the oldest; None: not known.
    """

    wishes: Wishes
    settings: Settings
    placement: Placement
    machine: Machine
    overrides: tuple[tuple[str, str], ...] = ()
    sides: tuple[Side, ...] = ()
    drafts: tuple[speculative.Draw, ...] = ()
    named: bool = False
    unfit: tuple[Unfit, ...] = ()
    problems: list[str] = field(default_factory=list)
    doubts: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    build: int | None = None

    __repr__ = short_repr

    def planner(self, model: Model) -> Planner:
        """The model on this machine."""
        layers = "loaded" if MTP in speculative.asked(self.wishes) else ""
        return Planner(
            model.arch, weights_of(model), self.machine, self.overrides, self.sides, layers, self.drafts, self.build
        )  # fmt: skip

    @property
    def bounds(self) -> Bounds:
        """What may be bounded, so that what grows after the start has room: what nobody named."""
        return Bounds(self.wishes.cache_ram is None, self.wishes.ctx_checkpoints is None)

    @property
    def free(self) -> Free:
        """What the search may change: what nobody named."""
        w = self.wishes
        return Free(
            ctx=w.ctx is None and w.slot_ctx is None,
            cache_type=w.cache_type is None,
            ubatch=w.ubatch is None,
            cpu_moe=w.cpu_moe is None and not w.overrides,
            gpu_layers=w.gpu_layers is None or w.gpu_layers == -1,
        )


def look(wishes: Wishes, program: Tool | None) -> Found:
    """This machine, as far as the wishes leave it open."""
    named = wishes.vram not in (None, "auto")
    found = () if named else tuple(hardware.devices(program))
    return Found(found, hardware.host_memory(), hardware.repacked(), asked=program is not None and not named)


def deploy(model: Model, wishes: Wishes, found: Found, build: Capabilities | None = None) -> Deployment:
    """What these wishes mean for this model on this machine.

    Args:
        model: open model; only its header is read.
        wishes: what the user asks, with what stands behind ``--``.
        found: the machine.
        build: what will serve.

    Raises:
        UsageError: the wishes make no sense: a side file that is not there, no such device in a pattern.
    """
    taken = _taken(wishes, build)
    problems, notes = taken.problems, taken.notes
    number = number_of(build)
    notes += remarks(number)
    w, told = chosen(model, checked(slots(taken.wishes, number)))
    notes += told
    machine = _machine(w, found, problems, notes)
    w = speculative.chosen(model, w, notes)
    settings = _settings(model.arch, w, served(model, w), build)
    if w.api_key is not None:
        notes.append("--api-key stands in the list of processes for everybody to read: --api-key-file FILE does not")
    doubts = _useless(w)
    others = beside(model, w, machine, older(build))
    named = w.vram is not None or w.ram is not None
    return Deployment(
        w, settings, _placement(w, machine), machine, _overrides(w), tuple(others.sides), tuple(others.drafts), named,
        tuple(others.unfit), problems, [*doubts, *others.doubts], [*notes, *others.notes],
        number,
    )  # fmt: skip


def _taken(wishes: Wishes, build: Capabilities | None) -> Taken:
    """What came of the words behind ``--``; most commands have none."""
    if not wishes.extra:
        return Taken(wishes)
    from gguftool.run.options.behind import take_in

    return take_in(wishes, build)


def settings_for(model: Model, wishes: Wishes, build: Capabilities | None = None) -> Settings:
    """The settings of a deployment, as `deploy` has them, without looking at a machine or at files beside the model.

    Args:
        model: open model; only its header is read.
        wishes: what is asked for.
        build: what will serve.
    """
    w, _ = chosen(model, checked(slots(_taken(wishes, build).wishes, number_of(build))))
    w = speculative.chosen(model, w, [])
    return _settings(model.arch, w, served(model, w), build)


def outcome(d: Deployment, planner: Planner) -> Fit:
    """The plan that these wishes lead to: what was asked, or what fits when that does not.

    On a bare host whose memory nobody named, what was asked for stays, and the search is a proposal.
    """
    found = as_asked(planner, d.settings, d.placement)
    if found.fits is False:
        # What nobody named is changed only where it does not fit as it is.
        from gguftool.memory.search import search

        found = search(planner, d.settings, d.placement, d.free)
    if d.named or planner.machine.devices or found.plan.settings == d.settings:
        return replace(found, plan=bounded(planner, found.plan, d.bounds))
    steps = tuple(replace(x, kept=i == 0) for i, x in enumerate(found.steps))
    offer = Step("to get this", "name the memory there is with --ram", True, kept=False)
    return Fit(bounded(planner, planner.plan(d.settings, d.placement), d.bounds), (*steps, offer))


def with_largest_context(d: Deployment, planner: Planner) -> Deployment:
    """The same with the largest context that fits, which counts as named.

    Raises:
        UsageError: it is not known how much memory there is.
    """
    tokens = largest_context(planner, d.settings, d.placement)
    if tokens is None:
        raise UsageError("--max-context needs to know how much memory there is", "name --vram and --ram")
    ctx = tokens or 256
    return replace(d, settings=replace(d.settings, ctx=ctx), wishes=replace(d.wishes, ctx=ctx), named=True)


def resolved(d: Deployment, planner: Planner, plan: MemoryPlan) -> Wishes:
    """Wishes that say everything a plan rests on, also what nobody asked for.

    llama.cpp's own fit is switched off when layers are placed, because it gives up as soon as one of its choices is
    taken.
    """
    w, s, p, c = d.wishes, plan.settings, plan.placement, plan.cache.context
    layers = planner.weights.layer_count
    local = bool(planner.machine.devices)
    placed = local and bool(p.gpu_layers is not None or p.split or p.cpu_moe or w.overrides or w.cpu_ffn)
    reserve = planner.machine.reserve
    margin = () if reserve == Machine().reserve or placed or not local else (reserve // MIB,)
    whole = layers + 1 if w.gpu_layers is None else w.gpu_layers
    return replace(
        w,
        ctx=c.requested,
        cache_type=(s.type_k, s.type_v),
        parallel=c.slots,
        cache_ram=w.cache_ram if s.cache_ram == d.settings.cache_ram else s.cache_ram,
        ctx_checkpoints=w.ctx_checkpoints if s.checkpoints == d.settings.checkpoints else s.checkpoints,
        kv_unified=s.unified if c.slots > 1 else w.kv_unified,
        ubatch=s.ubatch if s.ubatch != UBATCH or w.ubatch is not None else None,
        batch=s.batch if s.batch != BATCH or w.batch is not None else None,
        gpu_layers=(whole if p.gpu_layers is None else p.gpu_layers) if placed else w.gpu_layers,
        tensor_split=(p.split or _by_memory(planner.machine.devices)) if placed else w.tensor_split,
        cpu_moe=min(p.cpu_moe, layers) if p.cpu_moe else w.cpu_moe and min(w.cpu_moe, layers),
        fit=w.fit or ("off" if placed else None),
        fit_target=w.fit_target or margin,
    )


def _by_memory(devices: Sequence[Device]) -> tuple[float, ...]:
    """Shares as large as the memory, in MiB; none with one device, or where a memory is unknown."""
    if len(devices) < 2 or any(d.memory is None for d in devices):
        return ()
    return tuple(float((d.memory or 0) // MIB) for d in devices)


def _settings(hp: Hparams, w: Wishes, e: Embedder | None, build: Capabilities | None) -> Settings:
    types = w.cache_type or recorded(hp) or (DEFAULT, DEFAULT)
    ubatch, batch = graph(e, w)
    if build is not None and e is None:
        ubatch = _default(build, "ubatch", w.ubatch, ubatch)
        batch = _default(build, "batch", w.batch, batch)
    pooled = w.embeddings or w.rerank or w.pooling not in (None, "none")
    slots = SERVER_SLOTS if w.parallel is None else w.parallel
    ctx = slots * w.slot_ctx if w.ctx is None and w.slot_ctx else w.ctx
    keeps = hp.facts is not None and "rs_rollback" in hp.facts.flags
    drafted = speculative.most(w)

    def grown(field: str, said: int | None, default: int) -> int:
        # A build of before they were there keeps none.
        if build is not None and build.spelling(by_field()[field].names) is None:
            return 0
        return (default if said is None else said) if build is None else _default(build, field, said, default)

    return Settings(
        ctx=ctx,
        type_k=types[0],
        type_v=types[1],
        parallel=w.parallel,
        kv_unified=w.kv_unified,
        ubatch=ubatch,
        batch=batch,
        flash_attn=flash(w, types[1], build),
        swa_full=w.swa_full,
        snapshots=speculative.snapshots(w) if keeps else 0,
        outputs=batch if pooled else min(batch, slots * (1 + drafted)) if drafted else None,
        cache_ram=grown("cache_ram", w.cache_ram, PROMPT_CACHE),
        checkpoints=grown("ctx_checkpoints", w.ctx_checkpoints, CHECKPOINT_COUNT),
        drafting=drafted > 0,
    )


def _default(build: Capabilities, field: str, said: int | None, default: int) -> int:
    """What was said, else the default of this build, else that of the build we know."""
    if said is not None:
        return said
    own = build.number(by_field()[field].names)
    return default if own is None else own


def _placement(w: Wishes, machine: Machine) -> Placement:
    return Placement(
        gpu_layers=None if w.gpu_layers is None or w.gpu_layers < 0 else w.gpu_layers,
        cpu_moe=w.cpu_moe or 0,
        split=w.tensor_split or (_by_memory(machine.devices) if w.rpc else ()),
        kv_offload=w.kv_offload,
        mmap=w.load_mode in MAPPED,
        op_offload=w.op_offload,
        host_buffers=w.host_buffers,
    )


def _overrides(w: Wishes) -> tuple[tuple[str, str], ...]:
    return (*w.overrides, *((_FFN.format(n), HOST) for n in range(w.cpu_ffn or 0)))


def _machine(w: Wishes, found: Found, problems: list[str], notes: list[str]) -> Machine:
    # llama.cpp puts RPC hosts before the devices of its own machine (`llama.cpp:llama_prepare_model_devices`).
    # What is named for an RPC host is what may be used of it.
    remote = [
        Device(f"RPC{i}", "rpc", r.memory, r.endpoint, None if r.memory is None else 0) for i, r in enumerate(w.rpc)
    ]
    for r in w.rpc:
        if r.endpoint.startswith("["):
            # `ggml-rpc.cpp:parse_endpoint` ends the host at the first colon, and aborts; `connect` asks for IPv4 alone.
            problems.append(f"--rpc {r.endpoint}: llama.cpp takes no IPv6 address there; an IPv4 address, or a name")
    every = [*remote, *_local(w, found)]
    chosen = _split_mode(w, _named_only(w.device, every, found, problems, notes), problems)
    ram = w.ram if isinstance(w.ram, int) else found.host.free if found.host else None
    if w.ram == "auto" and found.host is None:
        raise UsageError("this system does not say how much memory is free", "name it, for example --ram 32GiB")
    reserve = max(w.fit_target) * MIB if w.fit_target and w.reserve == Wishes().reserve else w.reserve
    return Machine(tuple(chosen), ram, reserve, reserve, found.repack if w.repack else "none")


def _local(w: Wishes, found: Found) -> list[Device]:
    if w.vram is None or isinstance(w.vram, str):
        return [Device(d.name, d.kind or "cuda", d.free, d.about) for d in found.devices]
    return [Device(f"{BACKENDS[w.backend]}{i}", w.backend, n) for i, n in enumerate(w.vram)]


def _named_only(
    names: Sequence[str], every: list[Device], found: Found, problems: list[str], notes: list[str]
) -> list[Device]:
    """Those of ``--device``, in its order; llama.cpp compares names without their case."""
    if not names:
        return every
    if "none" in names:
        return []
    by_name = {d.name.lower(): d for d in every}
    out = []
    for name in names:
        device = by_name.get(name.lower())
        if device is not None:
            out.append(device)
        elif every or found.asked:
            there = ", ".join(d.name for d in every) or "none"
            problems.append(f"--device {name}: there is no such device; there are: {there}")
        else:
            notes.append(f"nothing is known of the device {name} here: --vram names its memory")
    return out


def _split_mode(w: Wishes, devices: list[Device], problems: list[str]) -> list[Device]:
    main = w.main_gpu or 0
    if w.split_mode == "none" and devices:
        if main >= len(devices):
            problems.append(f"--main-gpu {main}: there are {len(devices)} devices")
            return devices
        return devices[main : main + 1] if main >= 0 else []
    if w.split_mode in ("row", "tensor") and len(devices) > 1:
        problems.append(
            f"--split-mode {w.split_mode} is not planned for {len(devices)} devices: --split-mode layer, or one device"
            " with --device NAME"
        )
    return devices


def _useless(w: Wishes) -> list[tuple[str, str]]:
    """Options that do nothing without another one."""
    out = []
    for o in options():
        needed = by_field().get(o.needs)
        if needed and getattr(w, o.field) != o.default and getattr(w, needed.field) == needed.default:
            out.append((f"{o.ours} does nothing without {needed.ours}", f"add {needed.ours}, or leave {o.ours} out"))
    return out
