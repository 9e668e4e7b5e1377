"""What would be written, before it is; and the writing, with a way to stop it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from gguftool.api.editing import NONE, Consent, Editing
from gguftool.api.outlook import Judged, judge, plan, ways
from gguftool.edit.plan import EditPlan
from gguftool.errors import GgufToolError, of_one
from gguftool.records import dataclass
from gguftool.report.text import size
from gguftool.screen.words import error_text, plan_text


@dataclass(frozen=True, slots=True)
class Preview:
    """What a plan came to: it, or why there is none and what helps."""

    plan: EditPlan | None
    judged: Judged | None
    error: GgufToolError | None = None
    ways: tuple[Consent, ...] = ()


def preview(e: Editing, consents: frozenset[Consent], argv: tuple[str, ...]) -> Preview:
    """Plan the changes; never raises what is the file's or the user's doing."""
    try:
        made = plan(e, consents, argv)
        return Preview(made, judge(e))
    except GgufToolError as error:
        return Preview(None, None, error, ways(e, error, consents))
    except OSError as error:
        return Preview(None, None, of_one(error, e.base.path))


class Stopped(Exception):
    """Somebody stopped the copying."""


class Writing(ModalScreen[EditPlan | None]):
    """Look at what would be written; gives the plan to carry out, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("enter,w,ctrl+s", "write", "Write it"),
        *(Binding(str(i), f"insist({i})", show=False) for i in range(1, 7)),
    ]

    def __init__(self, e: Editing, argv: tuple[str, ...]) -> None:
        super().__init__()
        self.e, self.argv = e, argv
        self.consents: frozenset[Consent] = NONE
        self.made: Preview | None = None

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            yield Static(Text("What would be written", "bold"), markup=False)
            with VerticalScroll():
                yield Static(Text("looking …", "dim"), id="what", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._look()

    def _look(self) -> None:
        e, consents, argv = self.e, self.consents, self.argv
        self.made = None

        async def look() -> None:
            self._shown(await asyncio.to_thread(preview, e, consents, argv))

        self.run_worker(look(), exclusive=True)

    def _shown(self, made: Preview) -> None:
        self.made = made
        if made.plan is not None:
            text = plan_text(self.e, made.plan, made.judged, self.consents)
            if made.plan.strategy != "none":
                text.append("\nenter writes it; it can be taken back with z\n", "bold")
        else:
            error = made.error
            text = error_text(error, made.ways) if error is not None else Text("")
            if made.ways:
                text.append("\n\nNothing is written. The number of a way goes on with it, escape goes back.\n")
        self.query_one("#what", Static).update(text)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.made is not None and self.made.plan is not None if action == "write" else True

    def action_insist(self, number: int) -> None:
        if self.made is not None and number <= len(self.made.ways):
            self.consents |= {self.made.ways[number - 1]}
            self._look()

    def action_write(self) -> None:
        if self.made is not None and self.made.plan is not None:
            self.dismiss(self.made.plan)

    def action_leave(self) -> None:
        self.dismiss(None)


class Busy(ModalScreen[object]):
    """Work that takes its time, in a thread; gives what it gives, or the error.

    Args:
        title: what is done.
        work: gets what takes the progress, and may be stopped by it.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "stop", "Stop")]

    def __init__(self, title: str, work: Callable[[Callable[[int, int], None]], object]) -> None:
        super().__init__()
        self.heading, self.work, self.stopped = title, work, False
        self.done = self.total = 0
        self.working = True

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text(self.heading, "bold"), markup=False)
            yield Static("", id="progress", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.set_interval(0.2, self._tell)
        self.run_worker(self._run())

    async def _run(self) -> None:
        try:
            result = await asyncio.to_thread(self._work)
        except Exception as error:
            result = error
        self.dismiss(result)

    def _work(self) -> object:
        try:
            return self.work(self._progress)
        finally:
            self.working = False

    def _progress(self, done: int, total: int) -> None:
        """Called in the thread."""
        if self.stopped:
            raise Stopped("stopped: the file is as it was")
        self.done, self.total = done, total

    def _tell(self) -> None:
        if self.total:
            said = f"{size(self.done)} of {size(self.total)}  {100 * self.done // self.total} %"
            self.query_one("#progress", Static).update(Text(said))

    def action_stop(self) -> None:
        self.stopped = True
