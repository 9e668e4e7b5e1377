"""What ``gguftool launch`` shows where it starts nothing: the command, a file for a service manager, a translation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.run.launch import LaunchPlan
    from gguftool.run.silent import SilentSetting

NO_ROOM = 5


def show(session: Session, plan: LaunchPlan, *, force: bool) -> int:
    """The command line on stdout, what it means on stderr; of a launch that would be refused, no command."""
    code = exit_code(plan, force=force, elsewhere=True)
    if session.format == "json":
        from gguftool.report.launch_json import plan_json

        session.write_json(ok=code == 0, body=plan_json(plan, silent(plan)))
        return code
    explain(session, plan, force=force)
    if code:
        refused(session, plan, "no command")
    else:
        from gguftool.report.launch import shell_line

        session.out(shell_line(plan.argv), whole=True)
    return code


def not_started(session: Session) -> None:
    """A launch was asked for, and there is nothing to launch: the command is for a llama-server elsewhere."""
    from gguftool.run.engine import NONE, TO_GET_ONE

    session.note(f"not started: {NONE}; the command is for one elsewhere")
    session.note(f"hint: {TO_GET_ONE}")


def emit(session: Session, plan: LaunchPlan, kind: str, *, force: bool, image: str | None = None) -> int:
    """A file for a service manager on stdout; none that our own check would refuse."""
    from gguftool.run.emit import emit as make

    code = exit_code(plan, force=force)
    explain(session, plan, force=force)
    if code:
        refused(session, plan, "no file")
        if code == NO_ROOM:
            session.note("hint: for another machine than this one, name its memory: --ram, --vram and --backend")
        return code
    session.out(make(kind, plan, force=force, image=image), whole=True)
    return 0


def translate(session: Session, command: str, llama_cpp: str | None = None, build: str | None = None) -> int:
    """An article's command as one that works, and what each wrong flag was meant to be."""
    from gguftool.api.translated import translate_script
    from gguftool.report import translate as report

    if command == "-":
        from gguftool.cli.streams import stdin_bytes

        command = os.fsdecode(stdin_bytes())
    made = translate_script(command, server=llama_cpp, build=build)
    if session.format == "json":
        session.write_json(ok=not made.lost, body=report.script_json(made))
        return int(made.lost)
    for line in report.script_lines(made, session.style):
        session.note(line)
    if made.text:
        session.out(made.text)
    return int(made.lost)


def silent(plan: LaunchPlan) -> list[SilentSetting]:
    """What llama.cpp would apply without being asked."""
    from gguftool.run.silent import silent_settings

    return silent_settings(os.environ, plan.engine.build, plan.command.args)


def explain(session: Session, plan: LaunchPlan, *, force: bool) -> None:
    """What the command means, and what stands in its way, on stderr."""
    from gguftool.report import launch as report

    for line in report.plan_lines(plan, session.style):
        session.note(line)
    for line in report.silent_lines(silent(plan), session.style):
        session.note(line)
    for line in report.obstacle_lines(plan.obstacles, session.style):
        session.note(line)
    if force and plan.obstacles:
        session.note(f"--force: what is listed above ({len(plan.obstacles)}) is ignored")


def exit_code(plan: LaunchPlan, *, force: bool, elsewhere: bool = False) -> int:
    """0, or the exit code; ``elsewhere``: it may run on another machine, whose memory is not what was found here."""
    found = [o for o in plan.obstacles if not elsewhere or o.severity == "error" or o.where != "room"]
    if force or not found:
        return 0
    return NO_ROOM if all(o.where == "room" for o in found) else 1


def refused(session: Session, plan: LaunchPlan, what: str) -> None:
    """What does not happen, and that it can be had all the same."""
    count = len(plan.obstacles)
    found = "1 finding stands" if count == 1 else f"{count} findings stand"
    session.note(f"{what}: {found} in the way; --force goes on in spite of that")
