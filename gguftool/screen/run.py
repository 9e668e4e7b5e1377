"""The screen from beginning to end, signals included."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field

from gguftool import endings
from gguftool.api.editing import Editing
from gguftool.edit.plan import EditPlan, Result
from gguftool.edit.undo import Undone
from gguftool.screen.app import Editor


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

    async def show() -> None:
        loop = asyncio.get_running_loop()

        def tell(number: int) -> None:
            loop.call_soon_threadsafe(app.ended, number)

        with endings.heard(tell):
            await app.run_async()

    try:
        asyncio.run(show())
    finally:
        left.written.extend(app.written)
        if app.signal or app.fault is not None:
            left.unwritten = app.editing if app.editing.steps else None
    if app.signal == signal.SIGINT:
        raise KeyboardInterrupt
    if app.signal:
        raise endings.Ended(app.signal)
    if app.fault is not None:
        raise app.fault
