"""``gguftool launch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import Session, command, format_option, pass_session
from gguftool.cli.values import CACHE_TYPES, LOG, MODEL, RAM, SIZE

if TYPE_CHECKING:
    from gguftool.run.devices import FoundDevice
    from gguftool.run.launch import Engine, LaunchPlan
    from gguftool.run.wishes import Wishes

BACKENDS = ("cuda", "rocm", "vulkan", "metal", "sycl")
AUTO_SLOTS, MOST_SLOTS = 4, 256
KINDS = ("systemd", "docker-compose", "k8s", "llama-swap")


@command(
    examples="""
    gguftool launch model.gguf --print                     the command, spelled for the llama-server found
    gguftool launch model.gguf --ctx 32768 --cache-type q8_0 --smoke
    gguftool launch model.gguf --check-only                start, prove, stop
    gguftool launch model.gguf --watch -- --metrics        arguments behind -- go to llama-server
    gguftool launch model.gguf --rpc 10.0.0.7:50052=24GiB,10.0.0.8:50052=24GiB
    gguftool launch model.gguf --emit systemd > llama.service
    gguftool launch --translate "./main -m m.gguf --ctk q4_0 --rope-scale 4 --no-rope-shift"
    """
)
@click.argument("model", type=MODEL, metavar="MODEL", required=False)
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- LLAMA-SERVER ARGS]")
@click.option("--ctx", type=click.IntRange(min=1), metavar="N", help="Tokens of all slots together (or the file's).")
@click.option("--cache-type", type=CACHE_TYPES, help="KV cache types (default: the file's record, else f16).")
@click.option(
    "--parallel", metavar="N|auto", default="1", show_default=True, help="Slots; auto: 4 that share the context."
)
@click.option("--kv-unified/--no-kv-unified", default=None, help="Slots share one context, or each has its part.")
@click.option("--ubatch", type=click.IntRange(min=1), metavar="N", help="Physical batch (llama.cpp: 512).")
@click.option("--batch", type=click.IntRange(min=1), metavar="N", help="Logical batch (llama.cpp: 2048).")
@click.option(
    "--flash-attn", type=click.Choice(["on", "off", "auto"]), default="auto", show_default=True, help="Flash attention."
)
@click.option("--no-flash-attn", is_flag=True, help="The same as --flash-attn off.")
@click.option("--swa-full", is_flag=True, help="Sliding windows as large as the context.")
@click.option("--vram", metavar="SIZE[,SIZE…]|auto|none", help="Memory of each device; default: what is free.")
@click.option("--ram", type=RAM, metavar="SIZE|auto", help="Memory of the host; default: what is free.")
@click.option("--backend", type=click.Choice(BACKENDS), default="cuda", help="What the devices of --vram are.")
@click.option("--gpu-layers", "-ngl", metavar="N|all", help="Layers on the GPU; else llama.cpp decides.")
@click.option("--n-cpu-moe", type=click.IntRange(min=0), help="Experts of the first N layers stay on the host.")
@click.option("--cpu-moe", is_flag=True, help="All experts stay on the host.")
@click.option("--override-tensor", multiple=True, metavar="REGEX=DEVICE", help="Where single tensors go.")
@click.option("--no-kv-offload", is_flag=True, help="Caches stay on the host.")
@click.option("--tensor-split", metavar="N,N", help="Shares of the devices.")
@click.option("--device", metavar="NAMES", help="Devices to use; `none` for the CPU.")
@click.option("--rpc", metavar="HOST:PORT=MEM,...", help="Machines that run ggml-rpc-server, and their memory.")
@click.option(
    "--load-mode",
    type=click.Choice(["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]),
    help="How the file is read.",
)
@click.option("--mmproj", type=click.Path(), help="Multimodal projector.")
@click.option("--alias", metavar="NAME", help="Name of the model in the API.")
@click.option("--chat-template-file", type=click.Path(), help="Chat template instead of the file's own.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads for computing.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: a free one.")
@click.option("--api-key-file", type=click.Path(), help="Keys that clients must send, one a line.")
@click.option("--server", metavar="PATH", help="The llama-server to use.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "llama-server", "library"]),
    default="auto",
    show_default=True,
    help="The program, or the server inside the xllamacpp package (extra `server`).",
)
@click.option("--print", "action", flag_value="print", help="Print the command; start nothing.")
@click.option("--exec", "action", flag_value="exec", help="Become the server (for service managers and containers).")
@click.option("--check-only", "action", flag_value="check", help="Start, prove, stop.")
@click.option("--emit", type=click.Choice(KINDS), help="Print a ready file for a service manager.")
@click.option("--smoke", is_flag=True, help="Also ask for a short completion and judge it.")
@click.option("--watch", is_flag=True, help="Keep a status line: slots, speed, fill, memory.")
@click.option("--strict", is_flag=True, help="Stop the server when it is not what was planned.")
@click.option("--timeout", type=click.FloatRange(min=1), default=600, show_default=True, help="Seconds it may load.")
@click.option("--log", type=LOG, metavar="FILE", help="Where the server's log goes.")
@click.option("--force", is_flag=True, help="Go on in spite of what was found; says what it ignores.")
@click.option("--translate", metavar="COMMAND", help="Turn a command out of an article into one that works.")
@format_option("text", "json")
@pass_session
def launch(session: Session, /, model: str | None, extra: tuple[str, ...], **options: Any) -> int:
    """Start llama-server for MODEL with the right flags, and prove from its log that it does what was planned.

    Exit code 1 when something stands in the way or the server does not do what was planned, 5 when memory is short.
    """
    from gguftool.cli import launch_run as act

    engine = _engine(options)
    if options["translate"] is not None:
        return act.translate(session, options["translate"], engine)
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    plan = _plan(model, _wishes(options, extra), engine, options)
    action = options["action"] or ("print" if plan.engine.build.assumed else "run")
    if options["emit"]:
        return act.emit(session, plan, options["emit"], force=options["force"])
    if action == "print":
        return act.show(session, plan, force=options["force"])
    if action == "exec":
        return act.become(session, plan, force=options["force"])
    return act.run(session, plan, options, keep=action == "run")


def _plan(model: str, wishes: Wishes, engine: Engine, options: dict[str, Any]) -> LaunchPlan:
    from gguftool.cli.preflight import obstacles
    from gguftool.errors import UsageError
    from gguftool.hub import local_path, open_any
    from gguftool.run.devices import HostMemory, host_memory
    from gguftool.run.launch import plan_launch, with_obstacles

    path = local_path(model)
    if path is None:
        raise UsageError(f"{model}: is not on this machine", "download it first: llama.cpp reads local files")
    with open_any(path, strict=False) as m:
        host = host_memory() if options["ram"] is None else HostMemory(options["ram"], options["ram"])
        plan = plan_launch(m, wishes, engine, _devices(options, engine), host)
        return with_obstacles(plan, obstacles(path, m, wishes))


def _devices(options: dict[str, Any], engine: Engine) -> list[FoundDevice]:
    """Those named with --vram, else those the program sees."""
    from gguftool.cli.plan_machine import named_devices
    from gguftool.run.devices import FoundDevice, devices

    if options["vram"] in (None, "auto"):
        return devices(engine.tool)
    named = named_devices(options["vram"], options["backend"])
    return [FoundDevice(d.name, d.kind, "as named", d.memory or 0, d.memory or 0, "--vram") for d in named]


def _engine(options: dict[str, Any]) -> Engine:
    from gguftool.errors import ToolFailed
    from gguftool.run import embedded
    from gguftool.run.launch import Engine, library_engine, no_engine
    from gguftool.run.tool import SERVER, capabilities, find

    choice = options["engine"]
    if choice != "library" and (tool := find(SERVER, options["server"])):
        return Engine(SERVER, (tool.path,), tool, capabilities(tool))
    # A command to print is for a llama-server, here or elsewhere, unless the library was asked for by name.
    printed = options["action"] == "print" and choice == "auto"
    if choice != SERVER and not printed and embedded.available():
        return library_engine()
    if choice == "library":
        raise ToolFailed("the package xllamacpp is not installed", "pip install 'gguftool[server]'")
    if choice == SERVER and options["action"] != "print":
        raise ToolFailed("there is no llama-server on this machine", "gguftool doctor; or --server PATH")
    return no_engine()


def _wishes(options: dict[str, Any], extra: tuple[str, ...]) -> Wishes:
    from gguftool.cli.plan_machine import overrides
    from gguftool.facts.cachetypes import parse
    from gguftool.run.wishes import Wishes, rpc_servers

    pair, parallel = options["cache_type"], _slots(options["parallel"])
    unified = options["kv_unified"]
    if options["parallel"] == "auto" and unified is None:
        unified = True
    moe = 1 << 20 if options["cpu_moe"] else options["n_cpu_moe"]
    rpc = rpc_servers(options["rpc"], lambda text: SIZE.convert(text, None, None)) if options["rpc"] else ()
    return Wishes(
        ctx=options["ctx"], cache_type=parse("/".join(pair)) if pair else None,
        flash_attn="off" if options["no_flash_attn"] else options["flash_attn"], parallel=parallel,
        kv_unified=unified, ubatch=options["ubatch"], batch=options["batch"],
        swa_full=options["swa_full"], gpu_layers=options["gpu_layers"], tensor_split=options["tensor_split"],
        device=options["device"], rpc=rpc, load_mode=options["load_mode"], mmproj=options["mmproj"],
        alias=options["alias"], template=options["chat_template_file"], threads=options["threads"],
        host=options["host"], port=options["port"], api_key_file=options["api_key_file"],
        cpu_moe=moe, overrides=overrides(options), kv_offload=not options["no_kv_offload"], extra=extra,
    )  # fmt: skip


def _slots(text: str) -> int:
    if text == "auto":
        return AUTO_SLOTS
    if not text.isdigit() or not 1 <= int(text) <= MOST_SLOTS:
        raise click.BadParameter(
            f"{text!r} is neither auto nor a number from 1 to {MOST_SLOTS}", param_hint="--parallel"
        )
    return int(text)
