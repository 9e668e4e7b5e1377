"""Command lines of llama-server, spelled as the build at hand takes them.

Pure: options in, ``list[str]`` out. Every option has its spellings in order of preference; one that the build does
not list is left out and named in a note, so an old or new build gets a smaller command, never a wrong one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from gguftool.run.capabilities import Capabilities

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 8080
TRACE = 4
"""Level at which the builds with six levels print sizes (`common/log.cpp`, b11434); the default 3 hides them."""

SPELLINGS = {
    "model": ("-m", "--model"),
    "ctx": ("-c", "--ctx-size"),
    "type_k": ("-ctk", "--cache-type-k"),
    "type_v": ("-ctv", "--cache-type-v"),
    "flash_attn": ("-fa", "--flash-attn"),
    "parallel": ("-np", "--parallel"),
    "kv_unified": ("-kvu", "--kv-unified"),
    "no_kv_unified": ("-no-kvu", "--no-kv-unified"),
    "ubatch": ("-ub", "--ubatch-size"),
    "batch": ("-b", "--batch-size"),
    "swa_full": ("--swa-full",),
    "gpu_layers": ("-ngl", "--gpu-layers", "--n-gpu-layers"),
    "tensor_split": ("-ts", "--tensor-split"),
    "device": ("-dev", "--device"),
    "cpu_moe": ("-ncmoe", "--n-cpu-moe"),
    "override_tensor": ("-ot", "--override-tensor"),
    "no_kv_offload": ("-nkvo", "--no-kv-offload"),
    "fit": ("-fit", "--fit"),
    "load_mode": ("-lm", "--load-mode"),
    "rpc": ("--rpc",),
    "mmproj": ("-mm", "--mmproj"),
    "alias": ("-a", "--alias"),
    "template": ("--chat-template-file",),
    "threads": ("-t", "--threads"),
    "host": ("--host",),
    "port": ("--port",),
    "api_key_file": ("--api-key-file",),
    "no_context_shift": ("--no-context-shift",),
    "verbosity": ("-lv", "--log-verbosity", "--verbosity"),
}
OLD_LOAD_MODES = {"none": ("--no-mmap",), "mlock": ("--mlock",), "mmap": ("--mmap",), "mmap+mlock": ("--mlock",)}
"""Switches that said the same before there was ``--load-mode``."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """What the server is to do; None leaves the decision to llama.cpp.

    Attributes:
        model: path of the model, of its first shard.
        ctx: tokens of all slots together.
        type_k, type_v: cache types.
        flash_attn: ``on``, ``off`` or ``auto``.
        parallel: slots; always said, because the default differs between builds and changes the context of a slot.
        kv_unified: all slots share one context.
        rpc: ``host:port`` of RPC servers.
        load_mode: ``mmap``, ``none``, ``mlock``, ``dio``, ``mmap+mlock``; None: the build's default.
        extra: further arguments, put last as they are.
    """

    model: str
    ctx: int
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attn: str = "auto"
    parallel: int = 1
    kv_unified: bool | None = None
    ubatch: int | None = None
    batch: int | None = None
    swa_full: bool = False
    gpu_layers: str | None = None
    tensor_split: str | None = None
    device: str | None = None
    cpu_moe: int | None = None
    override_tensor: str | None = None
    fit: str | None = None
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
    no_kv_offload: bool = False


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Arguments without the program, and what could not be said to this build.

    Attributes:
        args: ready to put behind the program's name.
        notes: one sentence for each thing that had to be left out or said in another way.
        blockers: wishes without which the server would do something else than planned.
    """

    args: tuple[str, ...]
    notes: tuple[str, ...] = ()
    blockers: tuple[str, ...] = ()


@dataclass(slots=True)
class _Draft:
    build: Capabilities
    args: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    blockers: list[str] = field(default_factory=list)

    def say(self, what: str, *value: str, must: bool = False) -> bool:
        """Add an option and its value; note it when the build has none of its spellings."""
        name = self.build.spelling(SPELLINGS[what])
        if name is None:
            wish = " ".join((SPELLINGS[what][-1], *value))
            (self.blockers if must else self.notes).append(f"this build has no {wish}")
            return False
        self.args += [name, *value]
        return True


def server_command(o: ServerOptions, build: Capabilities) -> CommandLine:
    """The arguments of llama-server for these options and this build."""
    d = _Draft(build)
    d.say("model", o.model, must=True)
    d.say("ctx", str(o.ctx), must=True)
    _cache_types(d, o)
    _flash_attention(d, o)
    d.say("parallel", str(o.parallel))
    _unified(d, o)
    for what, value in (("ubatch", o.ubatch), ("batch", o.batch)):
        if value is not None:
            d.say(what, str(value), must=True)
    if o.swa_full:
        d.say("swa_full", must=True)
    _placement(d, o)
    _load_mode(d, o.load_mode)
    for what, text in (("mmproj", o.mmproj), ("template", o.template)):
        if text is not None:
            d.say(what, text, must=True)
    for what, text in (("alias", o.alias), ("threads", None if o.threads is None else str(o.threads))):
        if text is not None:
            d.say(what, text)
    # Said even where it is the default: a configuration file or a variable may say otherwise.
    d.say("host", o.host, must=True)
    d.say("port", str(o.port), must=True)
    if o.api_key_file is not None:
        d.say("api_key_file", o.api_key_file, must=True)
    _verbosity(d, o)
    return CommandLine((*d.args, *o.extra), tuple(d.notes), tuple(d.blockers))


def _cache_types(d: _Draft, o: ServerOptions) -> None:
    # f16 is every build's default; said only when both options are there to say it.
    must = (o.type_k, o.type_v) != ("f16", "f16")
    for what, value in (("type_k", o.type_k), ("type_v", o.type_v)):
        if must or d.build.spelling(SPELLINGS[what]):
            d.say(what, value, must=must)


def _flash_attention(d: _Draft, o: ServerOptions) -> None:
    name = d.build.spelling(SPELLINGS["flash_attn"])
    quantized_v = o.type_v not in ("f32", "f16", "bf16")
    # llama.cpp switches it on for a quantised V by itself, but only since it knows "auto"; saying it is never wrong.
    wanted = "on" if quantized_v and o.flash_attn == "auto" else o.flash_attn
    if name is None:
        if wanted != "off":
            (d.blockers if quantized_v else d.notes).append("this build has no --flash-attn")
        return
    if d.build.by_name[name].value:
        d.args += [name, wanted]
    elif wanted == "on":
        d.args.append(name)
    elif wanted == "auto":
        d.notes.append("in this build flash attention is a switch that is off unless given; it was not given")


def _unified(d: _Draft, o: ServerOptions) -> None:
    if o.kv_unified is None or (o.parallel == 1 and not o.kv_unified):
        return
    if o.kv_unified:
        d.say("kv_unified", must=True)
    elif d.build.spelling(SPELLINGS["kv_unified"]):
        # With a number of slots given, separate contexts are the default of every build that has the choice.
        name = d.build.spelling(SPELLINGS["no_kv_unified"])
        if name:
            d.args.append(name)


def _placement(d: _Draft, o: ServerOptions) -> None:
    if o.rpc:
        d.say("rpc", ",".join(o.rpc), must=True)
    for what, value in (
        ("gpu_layers", o.gpu_layers),
        ("tensor_split", o.tensor_split),
        ("device", o.device),
        ("override_tensor", o.override_tensor),
        ("cpu_moe", None if o.cpu_moe is None else str(o.cpu_moe)),
    ):
        if value is not None:
            d.say(what, value, must=True)
    if o.no_kv_offload:
        d.say("no_kv_offload", must=True)
    if o.fit is not None and not d.say("fit", o.fit):
        d.notes[-1] += ": it never changes what was asked for"


def _load_mode(d: _Draft, mode: str | None) -> None:
    if mode is None:
        return
    if d.build.spelling(SPELLINGS["load_mode"]):
        d.say("load_mode", mode)
        return
    old = OLD_LOAD_MODES.get(mode)
    name = d.build.spelling(old) if old else None
    if name:
        d.args.append(name)
    elif mode != "mmap":
        d.notes.append(f"this build has no way to say --load-mode {mode}")


def _verbosity(d: _Draft, o: ServerOptions) -> None:
    if any(a in o.extra for a in (*SPELLINGS["verbosity"], "-v", "--verbose", "--log-verbose")):
        return
    name = d.build.spelling(SPELLINGS["verbosity"])
    default = d.build.by_name[name].default if name else ""
    # Builds whose default is 0 print sizes anyway, and 4 would mean debug output there.
    if name and default.isdigit() and int(default) >= 2:
        d.args += [name, str(TRACE)]
