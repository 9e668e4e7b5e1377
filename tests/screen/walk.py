"""A screen that is driven by textual's pilot."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import Input, Static

from gguftool.api.editing import begin
from gguftool.screen.app import Editor

Walk = Callable[[Editor, "Pilot[None]"], Awaitable[None]]


def walked(path: Path | str, walk: Walk, size: tuple[int, int] = (80, 24)) -> Editor:
    """Open a model on a screen of that many columns and lines, and do a walk."""

    async def go() -> Editor:
        e, _ = begin(str(path))
        app = Editor(e, argv=("edit", str(path)))
        try:
            async with app.run_test(size=size) as pilot:
                await settled(app, pilot)
                await walk(app, pilot)
        finally:
            if e.base.remote is not None:
                e.base.remote.close()
        return app

    return asyncio.run(go())


async def settled(app: Editor, pilot: Pilot[None]) -> None:
    """Wait until nothing is under way but questions to the person."""
    for _ in range(400):
        await pilot.pause()
        busy = [w for w in app.workers if w.is_running and w.group == "judge"]
        what = app.screen.query("#what")
        looking = bool(what) and "looking" in shown(app, "#what")
        if not busy and not looking and type(app.screen).__name__ != "Busy":
            break
        await asyncio.sleep(0.005)
    await pilot.pause()


def shown(app: Editor, where: str) -> str:
    """The text of a part of the screen."""
    return str(app.screen.query_one(where, Static).content)


async def fill(app: Editor, pilot: Pilot[None], **texts: str) -> None:
    """Fill in a form and take it."""
    for name, text in texts.items():
        app.screen.query_one(f"#{name}", Input).value = text
    await pilot.press("ctrl+s")
    await settled(app, pilot)


async def at(app: Editor, pilot: Pilot[None], key: str) -> None:
    """Stand at a key."""
    assert app.keys.go_to(key), key
    assert app.keys.key == key
    await pilot.pause()


def lines(app: Editor) -> list[str]:
    """What the screen shows, line by line."""
    return ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]


def text_of(app: Editor) -> str:
    """The same as one text."""
    return "\n".join(lines(app))
