"""Read the log of a llama.cpp program: what was loaded, what was allocated, how far it came.

The lines are those of `docs/launch.md`; their wording is llama.cpp's (b11434, and older where it differs). Everything
is taken from the last complete load: at high verbosity llama-server loads a model twice, the first time without
allocating anything (`common/fit.cpp:common_fit_params`), and prints every line of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from gguftool.brief import short_repr
from gguftool.programs import SERVER
from gguftool.records import dataclass, field, replace
from gguftool.run.capabilities import parse_version
from gguftool.run.lines import Line, lines_of
from gguftool.run.loglines import PATTERNS, Dull
from gguftool.run.logprograms import Told


@dataclass(frozen=True, slots=True)
class Buffer:
    """A buffer on one device: ``kind`` is model, KV, RS, compute, output, or projector (its graph)."""

    kind: str
    device: str
    mib: float

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class LoggedCache:
    """A KV cache as logged; sizes of K, of V and of both in MiB, each rounded to two digits by llama.cpp."""

    cells: int
    layers: int
    sequences: int
    streams: int
    type_k: str
    k_mib: float
    type_v: str
    v_mib: float
    mib: float

    __repr__ = short_repr


@dataclass(slots=True)
class _Load:
    """What was printed between two beginnings of a model."""

    facts: dict[str, str] = field(default_factory=dict)
    counts: tuple[int, int] | None = None
    path: str = ""
    buffers: list[Buffer] = field(default_factory=list)
    contexts: list[_Context] = field(default_factory=list)
    draft: bool = False

    @property
    def real(self) -> bool:
        return self.facts.get("no_alloc", "0") != "1"


@dataclass(slots=True)
class _Context:
    facts: dict[str, str] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    caches: list[LoggedCache] = field(default_factory=list)
    states_mib: float | None = None
    flash: str = ""
    draft: bool = False

    @property
    def real(self) -> bool:
        kv = [b.mib for b in self.buffers if b.kind == "KV"]
        return not kv or any(kv) or not any(c.mib for c in self.caches)


@dataclass(frozen=True, slots=True)
class LoggedDraft:
    """A context that drafts; of a model of its own, or of the prediction layers of the model.

    Attributes:
        model: path of the draft model, "" without one.
        caches: its KV caches.
        state_mib: recurrent state, None without one.
        buffers: its buffers, with those of its own weights.
    """

    model: str
    caches: tuple[LoggedCache, ...]
    state_mib: float | None
    buffers: tuple[Buffer, ...]

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log says.

    Attributes:
        program: name of the program, as far as it can be told.
        build: build number or None; ``commit`` with it.
        verbosity: level the program printed at, None when it does not say.
        config_files: configuration files that were applied.
        devices: name to free MiB of the devices it uses.
        model: path of the model.
        hparams: the ``print_info`` lines, by name.
        keys, tensors: numbers of metadata keys and tensors.
        context: the ``llama_context`` lines, by name.
        flash_attn: ``enabled``, ``disabled`` or "" as it came out in the end.
        buffers: all buffers of the last load.
        caches: KV caches, in the order of their setting up.
        state_mib: recurrent state, None without one; a small one is logged as 0.00.
        slots, slot_context, slots_unified: of llama-server.
        address: what it listens on, "" before that.
        loaded: the model is loaded.
        ready_line, end_line: the lines that say it is ready (a server), or did what it was started for (another).
        fit: what became of fitting to the free memory.
        offloaded: layers on devices, and of how many.
        drafts: contexts that draft, in the order of their setting up.
        speculating: kinds of speculative decoding that were set up.
        drafted, accepted: tokens of all requests so far; None where none was drafted.
    """

    program: str = ""
    build: int | None = None
    commit: str = ""
    verbosity: int | None = None
    config_files: tuple[str, ...] = ()
    devices: tuple[tuple[str, int], ...] = ()
    model: str = ""
    hparams: Mapping[str, str] = field(default_factory=dict)
    keys: int | None = None
    tensors: int | None = None
    context: Mapping[str, str] = field(default_factory=dict)
    flash_attn: str = ""
    buffers: tuple[Buffer, ...] = ()
    caches: tuple[LoggedCache, ...] = ()
    state_mib: float | None = None
    slots: int | None = None
    slot_context: int | None = None
    slots_unified: bool | None = None
    address: str = ""
    loaded: bool = False
    fit: str = ""
    offloaded: tuple[int, int] | None = None
    ready_line: int | None = None
    end_line: int | None = None
    drafts: tuple[LoggedDraft, ...] = ()
    speculating: tuple[str, ...] = ()
    drafted: int | None = None
    accepted: int | None = None

    __repr__ = short_repr

    @property
    def ready(self) -> bool:
        """It served, or was about to."""
        return bool(self.address) or self.loaded

    @property
    def from_llama_cpp(self) -> bool:
        """Something in it is llama.cpp's."""
        return bool(self.hparams or self.tensors or self.buffers or self.caches or self.context or self.fit)


class _Reader:
    """Collects facts line by line."""

    def __init__(self) -> None:
        self.loads: list[_Load] = []
        self.spare = _Load()
        self.out: dict[str, Any] = {"devices": {}, "config_files": [], "speculating": []}
        self.draft = False
        self.dull = Dull()

    @property
    def load(self) -> _Load:
        return self.loads[-1] if self.loads else self.spare

    @property
    def ctx(self) -> _Context:
        if not self.load.contexts:
            self.load.contexts.append(_Context())
        return self.load.contexts[-1]

    def take(self, line: Line) -> None:
        text = line.text
        shape = self.dull.shape(text)
        if shape is None:
            return
        for name, pattern in PATTERNS:
            match = pattern.search(text)
            if match:
                handler = getattr(self, "_" + name, None)
                if handler is None:
                    self.out[name] = match.groupdict()
                else:
                    handler(match, line)
                return
        self.dull.add(shape)

    def _hparam(self, m: re.Match[str], line: Line) -> None:
        self.load.facts[m["name"].strip()] = m["value"]

    def _context(self, m: re.Match[str], line: Line) -> None:
        self.ctx.facts[m["name"]] = m["value"]

    def _cache(self, m: re.Match[str], line: Line) -> None:
        self.ctx.caches.append(
            LoggedCache(
                int(m["cells"]), int(m["layers"]), int(m["seqs"]), int(m["streams"] or 1), m["type_k"], float(m["k"]),
                m["type_v"], float(m["v"]), float(m["mib"]),
            )
        )  # fmt: skip

    def _self_size(self, m: re.Match[str], line: Line) -> None:
        """Builds before mid-2025 print one sum without cells."""
        cells = int(self.ctx.facts.get("n_ctx", "0"))
        k, v, both = (float(m[name]) for name in ("k", "v", "mib"))
        self.ctx.caches = [LoggedCache(cells, 0, 0, 1, m["type_k"], k, m["type_v"], v, both)]

    def _state(self, m: re.Match[str], line: Line) -> None:
        self.ctx.states_mib = (self.ctx.states_mib or 0.0) + float(m["mib"])

    def _dsv4_state(self, m: re.Match[str], line: Line) -> None:
        self.ctx.states_mib = (self.ctx.states_mib or 0.0) + float(m["mib"])

    def _buffer(self, m: re.Match[str], line: Line) -> None:
        # A projector says of its graph what a context says of its own, in a function of `clip.cpp`.
        kind = "projector" if m["projector"] else m["kind"]
        buffer = Buffer(kind, m["device"], float(m["mib"]))
        (self.load.buffers if buffer.kind == "model" else self.ctx.buffers).append(buffer)

    def _weights_old(self, m: re.Match[str], line: Line) -> None:
        self.load.buffers.append(Buffer("model", m["device"], float(m["mib"])))

    def _constructing(self, m: re.Match[str], line: Line) -> None:
        self.load.contexts.append(_Context(draft=self.draft))

    def _meta(self, m: re.Match[str], line: Line) -> None:
        self.loads.append(_Load(counts=(int(m["keys"]), int(m["tensors"])), path=m["path"], draft=self.draft))

    def _drafting(self, m: re.Match[str], line: Line) -> None:
        self.draft = True

    def _speculating(self, m: re.Match[str], line: Line) -> None:
        self.out["speculating"].append(m["kind"])

    def _nothing_drafts(self, m: re.Match[str], line: Line) -> None:
        self.out["speculating"] = []

    def _accepted(self, m: re.Match[str], line: Line) -> None:
        for name in ("drafted", "accepted"):
            self.out[name] = self.out.get(name, 0) + int(m[name])

    def _flash(self, m: re.Match[str], line: Line) -> None:
        self.ctx.flash = m["on"] or m["off"]

    def _flash_old(self, m: re.Match[str], line: Line) -> None:
        self.ctx.flash = m["on"]

    def _device(self, m: re.Match[str], line: Line) -> None:
        self.out["devices"][m["name"]] = int(m["mib"])

    def _config(self, m: re.Match[str], line: Line) -> None:
        self.out["config_files"].append(m["path"])

    def _loaded(self, m: re.Match[str], line: Line) -> None:
        self.out["loaded"] = True
        self.out.setdefault("ready_line", line.number)

    def _listening(self, m: re.Match[str], line: Line) -> None:
        self.out["address"] = m["url"]
        self.out.setdefault("ready_line", line.number)


def read_log(text: str | Iterable[Line]) -> LogFacts:
    """What the log says; nothing of it is taken for granted, a log of another program gives empty facts."""
    reader = _Reader()
    told = Told()
    for line in lines_of(text) if isinstance(text, str) else text:
        if line.text:
            told.take(line)
            reader.take(line)
    facts = _facts(reader, told.program)
    return replace(facts, end_line=told.end) if told.end and facts.program != SERVER else facts


def _facts(r: _Reader, program: str) -> LogFacts:
    out = r.out
    own = [x for x in r.loads if not x.draft] or r.loads
    load = next((x for x in own if x.real), own[-1] if own else r.spare)
    # A load without allocation only says what would be; its sizes prove nothing.
    contexts = [c for c in load.contexts or r.spare.contexts if not c.draft] if load.real else []
    ctx = next((c for c in contexts if c.real), contexts[-1] if contexts else _Context())
    build, commit = parse_version(_build_text(out))
    slots, slot = out.get("slots") or out.get("slots_old") or {}, out.get("slot") or {}
    slot_context = slots.get("ctx") or slot.get("ctx")
    unified = slots.get("unified") or ctx.facts.get("kv_unified")
    flash = ctx.flash or {"enabled": "enabled", "disabled": "disabled", "1": "enabled", "0": "disabled"}.get(
        ctx.facts.get("flash_attn", ""), ""
    )
    offloaded = out.get("offloaded")
    return LogFacts(
        program=program,
        build=build,
        commit=commit,
        verbosity=int(out["verbosity"]["level"]) if "verbosity" in out else None,
        config_files=tuple(out["config_files"]),
        devices=tuple(out["devices"].items()),
        model=(out.get("loading") or {}).get("path") or load.path,
        hparams=load.facts,
        keys=load.counts[0] if load.counts else None,
        tensors=load.counts[1] if load.counts else None,
        context=ctx.facts,
        flash_attn=flash,
        buffers=(*load.buffers, *ctx.buffers) if load.real else (),
        caches=tuple(ctx.caches),
        state_mib=ctx.states_mib,
        slots=int(slots["n"]) if slots.get("n") else None,
        slot_context=int(slot_context) if slot_context else None,
        slots_unified=None if unified is None else unified == "true",
        address=out.get("address", ""),
        loaded=out.get("loaded", False),
        fit=(out.get("fit") or {}).get("what", ""),
        offloaded=(int(offloaded["n"]), int(offloaded["of"])) if offloaded else None,
        ready_line=out.get("ready_line"),
        drafts=tuple(_draft(x, c) for x in (*r.loads, r.spare) for c in x.contexts if c.draft and x.real and c.real),
        speculating=tuple(dict.fromkeys(out["speculating"])),
        drafted=out.get("drafted"),
        accepted=out.get("accepted"),
    )


def _draft(load: _Load, c: _Context) -> LoggedDraft:
    weights = load.buffers if load.draft else []
    last = {(b.kind, b.device): b for b in c.buffers}  # reserved anew, a buffer is told again
    return LoggedDraft(load.path if load.draft else "", tuple(c.caches), c.states_mib, (*weights, *last.values()))


def _build_text(out: Mapping[str, Any]) -> str:
    found = (out.get("build") or {}).get("text", "")
    match = re.match(r"build:? (\d+) \((\w+)\)", found)
    return f"version: {match[1]} ({match[2]})" if match else found
