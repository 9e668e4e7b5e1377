"""``gguftool launch``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from gguftool.cli.options import CACHE_TYPES, Session, command, format_option, model_argument, pass_session

if TYPE_CHECKING:
    from gguftool.llamacpp.launch import LaunchPlan, Wishes


@command(
    examples="""
    gguftool launch model.gguf --print
    gguftool launch model.gguf --ctx 32768 --cache-type q8_0 --smoke
    gguftool launch model.gguf --check-only
    gguftool launch model.gguf --ctx 16384 --parallel 4 -- --metrics
    """
)
@model_argument
@click.option("--ctx", type=click.IntRange(min=1), help="Tokens of all slots together (default: the file's).")
@click.option("--cache-type", type=CACHE_TYPES, help="KV cache types (default: the file's record, else f16).")
@click.option("--parallel", type=click.IntRange(1, 256), default=1, show_default=True, help="Slots.")
@click.option("--kv-unified/--no-kv-unified", default=None, help="All slots share one context.")
@click.option("--ubatch", type=click.IntRange(min=1), help="Physical batch (llama.cpp: 512).")
@click.option("--batch", type=click.IntRange(min=1), help="Logical batch (llama.cpp: 2048).")
@click.option("--flash-attn", type=click.Choice(["on", "off", "auto"]), default="auto", show_default=True)
@click.option("--swa-full", is_flag=True, help="Sliding windows as large as the context.")
@click.option("--gpu-layers", metavar="N", help="Layers on the GPU; llama.cpp decides when it is not given.")
@click.option("--tensor-split", metavar="N,N", help="Shares of the devices.")
@click.option("--device", metavar="NAMES", help="Devices to use; `none` for the CPU.")
@click.option("--load-mode", type=click.Choice(["auto", "none", "mmap", "mlock", "mmap+mlock", "dio"]))
@click.option("--mmproj", type=click.Path(), help="Multimodal projector.")
@click.option("--alias", metavar="NAME", help="Name of the model in the API.")
@click.option("--chat-template-file", type=click.Path(), help="Chat template instead of the file's own.")
@click.option("--threads", type=click.IntRange(min=1))
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: a free one.")
@click.option("--server", metavar="PATH", help="The llama-server to use.")
@click.option("--print", "only_print", is_flag=True, help="Print the command and do not start it.")
@click.option("--force", is_flag=True, help="Go on in spite of findings; says what it ignores.")
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- LLAMA-SERVER ARGS]")
@format_option("text", "json")
@pass_session
def launch(session: Session, /, model: str, extra: tuple[str, ...], **options: Any) -> int:
    """Start llama-server for MODEL and prove that it does what was planned."""
    from gguftool.llamacpp.launch import plan_launch
    from gguftool.llamacpp.tool import capabilities, find
    from gguftool.model import open_model

    tool = find("llama-server", options["server"])
    build = capabilities(tool) if tool else None
    with open_model(model) as m:
        plan = plan_launch(m, _wishes(options, extra), tool, build)
    return _print(session, plan, force=options["force"])


def _wishes(options: dict[str, Any], extra: tuple[str, ...]) -> Wishes:
    from gguftool.cachetypes import parse
    from gguftool.llamacpp.launch import Wishes

    pair = options["cache_type"]
    return Wishes(
        ctx=options["ctx"], cache_type=parse("/".join(pair)) if pair else None, flash_attn=options["flash_attn"],
        parallel=options["parallel"], kv_unified=options["kv_unified"], ubatch=options["ubatch"],
        batch=options["batch"], swa_full=options["swa_full"], gpu_layers=options["gpu_layers"],
        tensor_split=options["tensor_split"], device=options["device"], load_mode=options["load_mode"],
        mmproj=options["mmproj"], alias=options["alias"], template=options["chat_template_file"],
        threads=options["threads"], host=options["host"], port=options["port"], extra=extra,
    )  # fmt: skip


def _print(session: Session, plan: LaunchPlan, *, force: bool) -> int:
    from gguftool.llamacpp.silent import silent_settings
    from gguftool.report import launch as report

    silent = silent_settings(os.environ, plan.build, plan.command.args)
    errors = [o for o in plan.obstacles if o.severity == "error"]
    ok = force or not errors
    if session.format == "json":
        session.write_json(ok=ok, body=report.plan_json(plan, silent))
        return 0 if ok else 1
    for line in report.plan_lines(plan, session.style):
        session.note(line)
    for line in (*report.silent_lines(silent, session.style), *report.obstacle_lines(plan.obstacles, session.style)):
        session.note(line)
    if force and plan.obstacles:
        session.note(f"--force: {len(plan.obstacles)} findings above are ignored")
    session.out(report.shell(plan.argv))
    return 0 if ok else 1
