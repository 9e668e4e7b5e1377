"""``gguftool launch``."""

from __future__ import annotations

from typing import Any

import click

from gguftool.cli.options import Session, command, format_option, option, pass_session
from gguftool.cli.values import MODEL
from gguftool.cli.wishes import wish_options, wished

KINDS = ("systemd", "docker-compose", "k8s", "llama-swap", "dockerfile", "preset", "ollama")


@command(
    examples="""
    gguftool launch model.gguf --print                     the command, spelled for the llama-server found
    gguftool launch model.gguf --ctx 32768 --cache-type q8_0 --smoke
    gguftool launch model.gguf --check-only                start, prove, stop
    gguftool launch model.gguf --watch -- --metrics        arguments behind -- go to llama-server
    gguftool launch model.gguf --rpc 10.0.0.7:50052=24GiB,10.0.0.8:50052=24GiB
    gguftool launch model.gguf --emit systemd > llama.service
    gguftool launch model.gguf --print --build b8179       the command, spelled for that build
    gguftool launch --translate "./main -m m.gguf --ctk q4_0 --rope-scale 4 --no-rope-shift"
    """
)
@click.argument("model", type=MODEL, metavar="MODEL", required=False)
@click.argument("extra", nargs=-1, type=click.UNPROCESSED, metavar="[-- LLAMA-SERVER ARGS]")
@wish_options("launch")
@option("--print", "action", flag_value="print", help="Print the command; start nothing.")
@option("--exec", "action", flag_value="exec", help="Become the server (for service managers and containers).")
@option("--check-only", "action", flag_value="check", help="Start, prove (without --smoke: sizes and settings), stop.")
@option("--emit", type=click.Choice(KINDS), help="Print a ready file for a service manager.")
@option("--image", metavar="NAME", help="For --emit: the image of llama-server.")
@option("--force", is_flag=True, help="Go on in spite of what was found; says what it ignores.")
@option("--build", metavar="BUILD", help="With --print or --translate: spell for that build of llama.cpp: b8179.")
@option("--translate", metavar="COMMAND", help="Turn commands out of an article into ones that work; - reads stdin.")
@format_option("text", "json")
@pass_session
def launch(session: Session, /, model: str | None, extra: tuple[str, ...], **options: Any) -> int:
    """Start llama-server for MODEL with the right flags, and prove from its log that it does what was planned.

    Options of llama-server work in its own spelling, too, before -- and behind it. Exit code 1 when something stands
    in the way, the server does not do what was planned, or a translation loses something, 5 when memory is short.
    """
    from gguftool.run.engine import at_hand, choose, engine_of

    wishes = wished(extra)
    printed = options["action"] == "print" or options["translate"] is not None
    if options["build"] is None:
        # A command that is translated is for the build that it names, not for what serves here.
        engine = choose(wishes, printed=options["action"] == "print" or (printed and wishes.engine == "auto"))
    elif wishes.server or not (printed or (options["action"] is None and not options["emit"])):
        raise click.UsageError("--build is for --print and --translate: a build by its number cannot be started.")
    else:
        engine = engine_of(options["build"])
    if options["translate"] is not None:
        from gguftool.cli.launch_shown import translate

        return translate(session, options["translate"], wishes.server, options["build"])
    if model is None:
        raise click.UsageError("Missing argument 'MODEL'.")
    from gguftool.api.launch import plan_open
    from gguftool.cli import launch_shown as shown
    from gguftool.cli.opened import open_for
    from gguftool.hub import on_this_machine
    from gguftool.run.deploy import look
    from gguftool.run.launch import read_out

    action = options["action"] or ("print" if engine.build.assumed else "run")
    with open_for(session, on_this_machine(model), strict=False) as m:
        plan = plan_open(m, wishes, engine, look(wishes, engine.tool))
        if session.format == "json" or not (options["emit"] or action == "print"):
            plan = read_out(plan)
    if options["emit"]:
        return shown.emit(session, plan, options["emit"], force=options["force"], image=options["image"])
    if action == "print":
        code = shown.show(session, plan, force=options["force"])
        if options["action"] is None and not code:
            shown.not_started(session)
        return code
    from gguftool.cli import launch_run as act

    at_hand(plan.engine)
    if action == "exec":
        return act.become(session, plan, force=options["force"])
    return act.run(session, plan, force=options["force"], keep=action == "run")
