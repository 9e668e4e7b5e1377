"""The screen from beginning to end, signals included."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from typing import Any

from gguftool import endings
from gguftool.api.editing import Editing
from gguftool.edit.plan import EditPlan, Result
from gguftool.edit.undo import Undone
from gguftool.records import dataclass, field
from gguftool.screen.app import Editor

PATIENCE = 3.0
"""Seconds that a signal waits for the terminal to take what there is to write."""


@dataclass(slots=True)
class Left:
    """What there is to tell when the screen has gone, however it went.

    Attributes:
        written: what was written and what was taken back, in order.
        unwritten: the changes that were dropped without a question.
    """

    written: list[tuple[EditPlan, Result] | Undone] = field(default_factory=list)
    unwritten: Editing | None = None


def run(e: Editing, left: Left, notes: tuple[str, ...] = (), argv: tuple[str, ...] = (), *, color: bool = True) -> None:
    """Let somebody edit a model until they leave.

    Args:
        e: the model.
        left: gets what there is to tell, also when this raises.
        notes: what to say at the start.
        argv: the command line, for the undo records.
        color: False: no colour at all.

    Raises:
        KeyboardInterrupt: a signal ended it, or Ctrl-C was pressed while changes waited; they are dropped.
    """
    app = Editor(e, notes, argv, color=color)
    over = threading.Event()
    before = _attributes()

    async def show() -> None:
        loop = asyncio.get_running_loop()

        def tell(number: int) -> None:
            loop.call_soon_threadsafe(app.ended, number)
            threading.Thread(target=_end, args=(app, number, over, before), daemon=True).start()

        with endings.heard(tell):
            await app.run_async()

    try:
        asyncio.run(show())
    finally:
        over.set()
        left.written.extend(app.written)
        if app.signal or app.fault is not None:
            left.unwritten = app.editing if app.editing.steps else None
    if app.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if app.signal:
        raise endings.Ended(app.signal)
    if app.fault is not None:
        raise app.fault


def _attributes() -> list[Any] | None:
    """How the terminal is set."""
    try:
        import termios

        return termios.tcgetattr(0)
    except (ImportError, OSError, termios.error):
        return None


def _end(app: Editor, number: int, over: threading.Event, before: list[Any] | None) -> None:
    """A terminal that takes nothing (Ctrl-S, a program that does not read) would keep us for ever."""
    while not over.wait(PATIENCE):
        if app.writing:
            continue
        with contextlib.suppress(ImportError, OSError):
            import termios

            if before is not None:
                termios.tcsetattr(0, termios.TCSANOW, before)
        os._exit(128 + number)
