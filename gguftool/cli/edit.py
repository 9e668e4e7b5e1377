"""``gguftool edit``: the metadata on the whole terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gguftool.cli.options import Session, command, model_argument, pass_session, wants_color
from gguftool.errors import ToolFailed, UsageError
from gguftool.report.text import Style
from gguftool.shell import blank, gguftool, path_word

if TYPE_CHECKING:
    from gguftool.screen.run import Left

EXTRA = "pip install 'gguftool[tui]'"


@command(
    examples="""
    gguftool edit model.gguf
    gguftool edit model-00001-of-00003.gguf    any shard of a set
    gguftool edit hf://owner/repo/m.gguf       to look through it; nothing can be changed there
    gguftool fix model.gguf --set general.name='My model'
                                               the same without a screen, for scripts
    """
)
@model_argument
@pass_session
def edit(session: Session, /, model: str) -> int:
    """Look through the metadata on the whole terminal and change it: keys, what they mean, findings, fixes.

    Nothing is written before what would be written was shown: the difference, the bytes, and what llama.cpp would do.
    Every write is crash-safe and can be taken back, there and with `gguftool undo`. ? lists the keys.
    """
    try:
        import textual
    except ImportError:
        raise ToolFailed("gguftool edit needs textual, which is not installed", EXTRA) from None
    del textual
    _refuse_without_terminal(model)
    from gguftool.api.editing import begin
    from gguftool.report.undone import recovered_text
    from gguftool.screen.run import Left, run

    e, outcomes = begin(model)
    notes = tuple(recovered_text(outcome, Style()) for outcome in outcomes)
    left = Left()
    try:
        run(e, left, notes, tuple(sys.argv[1:]), color=wants_color(session.color, sys.__stderr__))
    finally:
        if e.base.remote is not None:
            e.base.remote.close()
        _tell(session, left)
    return 0


def _tell(session: Session, left: Left) -> None:
    """What was done, where it stays on the terminal."""
    from gguftool.edit.undo import Undone
    from gguftool.report.edit import done_text
    from gguftool.report.undone import undone_text
    from gguftool.screen.words import as_command

    for done in left.written:
        if isinstance(done, Undone):
            session.did(f"an edit of {done.path} is taken back")
            session.out(undone_text(done, session.style))
        else:
            session.did(f"{done[0].path} is edited")
            session.out(done_text(*done, session.style))
    if left.unwritten is not None:
        n = len(left.unwritten.steps)
        line = as_command(left.unwritten)
        session.warn(f"{n} change{'' if n == 1 else 's'} not written" + (f"; to make the same: {line}" if line else ""))


def _refuse_without_terminal(model: str) -> None:
    """What has no terminal is a script, and has `fix`.

    Raises:
        UsageError: no terminal, or one that cannot be drawn on.
    """
    other = gguftool("fix", path_word(model), "--set", blank("KEY="))
    # The keys come from stdin; what is drawn goes to stderr, so that stdout may be a file.
    if not all(stream is not None and stream.isatty() for stream in (sys.__stdin__, sys.__stderr__)):
        raise UsageError("gguftool edit needs a terminal", f"without one: {other}")
    if os.environ.get("TERM", "dumb") in ("dumb", ""):
        raise UsageError("gguftool edit needs a terminal that can be drawn on, and TERM says it cannot", other)
