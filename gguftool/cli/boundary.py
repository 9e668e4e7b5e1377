"""Where errors become messages and exit codes; nothing below this prints a traceback.

The codes are those of docs/cli.md: the error class owns its code, and what Python or click raise by themselves is
mapped here.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import click

from gguftool.cli.group import called, gguftool
from gguftool.cli.names import SPELLINGS
from gguftool.cli.options import Session, for_stderr, wants_color
from gguftool.cli.spelled import JSON
from gguftool.cli.streams import OutputLost, give_up_stdout
from gguftool.endings import Ended, cancelling
from gguftool.errors import Bug, GgufToolError, UsageError, named
from gguftool.records import dataclass
from gguftool.report.lines import room, terminal_columns
from gguftool.report.text import Style, safe_lines

BUG = 70
FORMAT_NAMES = ("--format", *SPELLINGS["--format"])
INTERRUPTED = 130
# What a shell reports for a program that SIGPIPE ended.
PIPE_CLOSED = 141


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as the user sees it."""

    exit_code: int
    code: str
    message: str
    hint: str | None


def run(args: Sequence[str]) -> int:
    """Run one command line in this process and return its exit code; never raises."""
    if any("@" in word for word in args):
        from gguftool.hub.logins import taken

        args = taken(args)
    session = Session(words=tuple(args))
    try:
        with cancelling(), room(terminal_columns(sys.stdout)):
            code = _dispatch(args, session)
            sys.stdout.flush()
            return code
    except OutputLost as lost:
        return _untold(lost, session)
    except (KeyboardInterrupt, click.Abort) as stop:
        code = stop.exit_code if isinstance(stop, Ended) else INTERRUPTED
        return _report(Failure(code, "interrupted", str(stop) or "interrupted", None), args, session)
    except click.exceptions.NoArgsIsHelpError as error:
        sys.stderr.write(error.format_message() + "\n")
        return 2
    except BrokenPipeError as error:
        if _stdout_is_gone():
            return PIPE_CLOSED if session.done is None else _untold(error, session)
        return _report(_os_failure(error), args, session)
    except Exception as error:
        return _report(failure(error), args, session, error)


def _dispatch(args: Sequence[str], session: Session) -> int:
    # Not `gguftool.main()`: click's would end the process with code 1 on any broken pipe.
    if asked := os.environ.get("_GGUFTOOL_COMPLETE"):
        from gguftool.cli.complete.shells import answer

        sys.stdout.write(answer(gguftool, asked, args))
        return 0
    if any("\0" in word for word in args):
        # No shell hands one over; a program that calls this one may, and no system call takes it.
        raise UsageError("the command line holds a NUL character")
    try:
        with gguftool.make_context("gguftool", list(args), obj=session) as ctx:
            result = gguftool.invoke(ctx)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    return result if type(result) is int else 0


def failure(error: BaseException) -> Failure:
    """What to tell the user about ``error``."""
    if isinstance(error, GgufToolError):
        return Failure(error.exit_code, error.code, str(error), error.hint)
    if isinstance(error, click.ClickException):
        return _click_failure(error)
    if isinstance(error, OSError):
        return _os_failure(error)
    if isinstance(error, MemoryError):
        return Failure(5, "no-room", "not enough memory", None)
    return failure(Bug(named(error)))


def _click_failure(error: click.ClickException) -> Failure:
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "gguftool"
    return Failure(2, "usage", error.format_message(), f"see `{path} --help`")


def _os_failure(error: OSError) -> Failure:
    from gguftool.files.faults import FULL

    what = error.strerror or str(error) or type(error).__name__
    message = f"{os.fsdecode(error.filename)}: {what}" if isinstance(error.filename, str | bytes) else what
    if isinstance(error, FileExistsError):
        return Failure(4, "refused", message, "name another file, or move away what is there")
    if isinstance(error, FileNotFoundError | NotADirectoryError) or error.errno in (errno.ENAMETOOLONG, errno.ELOOP):
        return Failure(2, "missing-file", message, None)
    if error.errno in FULL:
        return Failure(5, "no-room", message, "free some space on that disk and run the command again")
    if error.errno == errno.ENOMEM:
        return Failure(5, "no-room", message, None)
    if error.errno == errno.EROFS:
        return Failure(4, "refused", message, "write to another place with --output, or mount the disk writable")
    if isinstance(error, BrokenPipeError | ConnectionError | TimeoutError):
        return Failure(6, "tool-failed", message, None)
    return Failure(3, "unreadable", message, None)


def _report(what: Failure, args: Sequence[str], session: Session, error: BaseException | None = None) -> int:
    asked = _asked_format(args) or session.format
    try:
        # One object, also when something fails behind it; rows of jsonl may have come before.
        if asked == "jsonl" or (asked == "json" and not session.told):
            try:
                _write_envelope(what, args, session, compact=asked == "jsonl")
            except OutputLost:
                give_up_stdout()
        _complain(what.message, what.hint, session)
        if what.exit_code == BUG and error is not None and (session.verbose or os.environ.get("GGUFTOOL_DEBUG")):
            import traceback

            traceback.print_exception(error)
    except BrokenPipeError:
        _stdout_is_gone()
    return what.exit_code


def _untold(lost: OSError, session: Session) -> int:
    """Stdout takes no more. What was done stays done, and is said on stderr; else there is nothing to show for it."""
    give_up_stdout()
    why = f"stdout cannot be written: {lost.strerror}"
    if session.done is None:
        _complain(why, None, session)
        return 5
    session.warn(f"{why}; only the report is lost, the work is done: {session.done}")
    return session.done_code


def _complain(message: str, hint: str | None, session: Session) -> None:
    style = Style(enabled=wants_color(session.color, sys.stderr))
    sys.stderr.write(for_stderr(f"{style.red('error:')} {safe_lines(message)}") + "\n")
    if hint:
        sys.stderr.write(for_stderr(f"{style.cyan('hint:')} {safe_lines(hint)}") + "\n")


def _write_envelope(what: Failure, args: Sequence[str], session: Session, *, compact: bool) -> None:
    from gguftool.report.envelope import envelope, write

    command = session.command
    if command == "gguftool":
        # The group did not get as far as the command: a usage error.
        command = next((name for arg in args if (name := called(arg))), command)
    row = {"code": what.code, "message": what.message, "hint": what.hint}
    write(envelope(command, False, {}, [row]), sys.stdout, compact=compact)
    sys.stdout.flush()


def _asked_format(args: Sequence[str]) -> str | None:
    """The value of ``--format`` on the command line, also when click did not get as far as reading it."""
    before = list(args[: args.index("--")] if "--" in args else args)
    for here, following in zip(before, [*before[1:], ""], strict=False):
        name, equals, value = here.partition("=")
        if name in FORMAT_NAMES:
            return value if equals else following
        if here == JSON:
            return "json"
    return None


def _stdout_is_gone() -> bool:
    """Whether nobody reads stdout any more; if so it is replaced, so that Python's own flush at exit stays silent."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    import select

    if hasattr(select, "poll"):
        poll = select.poll()
        poll.register(descriptor, 0)
        if not poll.poll(0):
            return False
    give_up_stdout()
    return True
