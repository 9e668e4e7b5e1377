"""What ``gguftool launch`` does with a plan that is not only shown: become it, or start, prove, watch and end it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from gguftool.cli.launch_shown import NO_ROOM, exit_code, explain, refused, silent
from gguftool.cli.streams import OutputLost, give_up_stdout
from gguftool.report.text import safe

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.run.launch import LaunchPlan
    from gguftool.run.serve import Outcome
    from gguftool.run.server import Running

TOOL_FAILED = 6
INTERRUPTED = 130
WATCH_SECONDS = 2.0


def become(session: Session, plan: LaunchPlan, *, force: bool) -> int:
    """Replace this process by the server; returns only when something stands in the way."""
    if code := _stopped(session, plan, force=force):
        return code
    from gguftool.errors import ToolFailed
    from gguftool.run.serve import listening

    plan = listening(plan)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(plan.argv[0], plan.argv)
    except OSError as error:
        raise ToolFailed(f"{plan.argv[0]}: cannot be started: {error.strerror or error}") from None


def run(session: Session, plan: LaunchPlan, *, force: bool, keep: bool) -> int:
    """Start it, prove it, and keep it until Ctrl-C, or stop it at once."""
    from gguftool.endings import Ended
    from gguftool.run.serve import prove, serving

    if code := _stopped(session, plan, force=force):
        return code
    w = plan.wishes
    log_path, throw_away = _log_path(w.log)
    try:
        with serving(plan, log_path) as running:
            session.note(f"starting {plan.engine.name} (process {running.process.pid}), log in {safe(log_path)}")
            outcome = prove(running, plan, seconds=w.timeout, with_smoke=w.smoke, tell=_loading(session))
            code = _cut_off(session, log_path, _told(session, plan, outcome, running, keep=keep))
            if keep and not (w.strict and code) and not outcome.ended and not outcome.late:
                throw_away = False
                code = _keep(session, running, code, watch=w.watch)
            elif outcome.ok and keep is False:
                session.note("stopped again (--check-only)")
            throw_away = throw_away and code == 0
    except Ended as signal:
        session.note(f"\n{signal}: the server is stopped")
        return signal.exit_code
    except KeyboardInterrupt:
        session.note("\nthe server is stopped")
        return INTERRUPTED
    finally:
        if throw_away:
            os.unlink(log_path)
    return code


def _stopped(session: Session, plan: LaunchPlan, *, force: bool) -> int:
    """Explain, and say whether anything stands in the way: 0, or the exit code."""
    code = exit_code(plan, force=force)
    explain(session, plan, force=force)
    if code:
        refused(session, plan, "not started")
        if session.format == "json":
            from gguftool.report.launch_json import plan_json

            session.write_json(ok=False, body=plan_json(plan, silent(plan)))
    return code


def _log_path(given: str | None) -> tuple[str, bool]:
    """Where the log goes, and whether it is thrown away when all went well."""
    if given:
        return given, False
    from gguftool.files.small import kept_file

    return kept_file("gguftool-launch-", ".log"), True


def _cut_off(session: Session, log_path: str, code: int) -> int:
    """Where nothing could be proven because the disk of the log is full, that is the reason, and its exit code."""
    from gguftool.files.disk import is_full

    if not code or not is_full(os.path.dirname(log_path)):
        return code
    session.warn(f"{log_path}: its disk is full, so the log is cut off and does not show what the server does")
    session.note("hint: free some space there, or write the log to another disk with --log")
    return NO_ROOM


def _loading(session: Session) -> Callable[[float], None]:
    status = session.status()
    return lambda seconds: status(f"loading … {seconds:.0f} s")


def _told(session: Session, plan: LaunchPlan, outcome: Outcome, running: Running, *, keep: bool) -> int:
    """Report what was seen. A server that runs is not stopped because stdout takes no report of it."""
    if outcome.ended or outcome.late:
        code = TOOL_FAILED if outcome.late else 1
    else:
        code = 0 if outcome.ok else 1
    try:
        _report(session, plan, outcome, running)
        sys.stdout.flush()
    except OutputLost as lost:
        give_up_stdout()
        session.warn(f"stdout cannot be written: {lost.strerror}; only the report is lost")
        return code or (0 if keep else NO_ROOM)
    return code


def _report(session: Session, plan: LaunchPlan, outcome: Outcome, running: Running) -> None:
    if session.format == "json":
        from gguftool.report.launch_json import plan_json

        body = plan_json(plan, silent(plan), outcome, running.url)
        session.write_json(ok=outcome.ok, body=body)
    else:
        from gguftool.report.launched import outcome_lines

        session.out("\n".join(outcome_lines(outcome, running.url, session.style)))


def _keep(session: Session, running: Running, code: int, *, watch: bool) -> int:
    """Stay until the server ends; Ctrl-C and SIGTERM stop it on the way out."""
    from gguftool.report.launched import sample_line
    from gguftool.report.progress import Status
    from gguftool.run.serve import sample

    sys.stdout.flush()
    session.note("serving; Ctrl-C stops it")
    line_by_line = not sys.stderr.isatty()
    last, status = None, Status(None if line_by_line else sys.stderr)
    while running.process.poll() is None:
        time.sleep(WATCH_SECONDS if watch else 0.2)
        if watch and running.process.poll() is None:
            now = sample(running)
            text = sample_line(now, last, WATCH_SECONDS)
            last = now
            if line_by_line:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
            status(text)
    return _died(session, running, code)


def _died(session: Session, running: Running, code: int) -> int:
    from gguftool.errors import ToolFailed
    from gguftool.run.diagnose import judge
    from gguftool.run.server import ended_how

    ended = running.process.returncode
    if ended == 0:
        session.note("the server ended by itself")
        return code
    judged = judge(running.log())
    why = f": {judged.error.cause}" if judged.error else ""
    raise ToolFailed(f"the server ended with {ended_how(ended)}{why}", f"its log: {running.log_path}")
