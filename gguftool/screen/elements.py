"""One array on the whole screen, a page of it at a time: nothing else of it is decoded."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from gguftool.edit.schema import brief, type_text
from gguftool.format.header import Field
from gguftool.format.types import STR
from gguftool.quantity import whole
from gguftool.report.text import shorten
from gguftool.screen.fields import Line

PAGE = 100
"""Elements of a page."""
LONGEST = 400
"""Bytes of an element that are decoded to be shown."""
STRIDE = 4096
"""Elements that are decoded at once in a search."""


class Elements(ModalScreen[int | None]):
    """Look through an array; gives the index of the element to change, or None.

    Args:
        key: of the array.
        field: it.
        at: where to begin.
        editable: whether an element can be changed.
        beside: an array with as many elements, which says what these are about.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("enter", "change", "Change", show=True),
        Binding("right,n", "page(1)", "Next page"),
        Binding("left,b", "page(-1)", "Page before"),
        Binding("slash,g", "seek", "Find: an index or a text"),
    ]

    def __init__(
        self, key: str, field: Field, at: int = 0, *, editable: bool = True, beside: Field | None = None
    ) -> None:
        super().__init__()
        self.key, self.field, self.editable, self.beside = key, field, editable, beside
        self.start = at // PAGE * PAGE
        self.at = at

    def compose(self) -> ComposeResult:
        with Vertical(classes="box tall"):
            yield Static("", id="where", markup=False)
            yield OptionList(id="page", markup=False)
            yield Line(id="seek", placeholder="an index, or a text in an element")
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#seek").display = False
        self._show()
        self.query_one("#page").focus()

    def _show(self) -> None:
        n = self.field.count or 0
        values = self.field.head(PAGE, self.start, most=LONGEST)
        more = self.beside.head(PAGE, self.start, most=LONGEST) if self.beside is not None else []
        page = self.query_one("#page", OptionList)
        page.clear_options()
        page.add_options([Option(self._row(i, value, more)) for i, value in enumerate(values)])
        page.highlighted = max(0, min(self.at - self.start, len(values) - 1)) if values else None
        stop = min(self.start + PAGE, n)
        where = f"{shorten(self.key, 120)}  {type_text(self.field)} of {n:,}, {self.start:,} to {max(0, stop - 1):,}"
        where += "; enter changes one" if self.editable else ""
        self.query_one("#where", Static).update(Text(where, "bold"))

    def _row(self, i: int, value: object, more: list[object]) -> Text:
        out = Text(f"{self.start + i:>9,}  ", style="dim", no_wrap=True, overflow="ellipsis")
        out.append(shorten(brief(value, 2 * LONGEST), 120), "not dim")
        if i < len(more):
            out.append(f"  {shorten(brief(more[i]), 60)}", "dim")
        return out

    def action_page(self, by: int) -> None:
        n = self.field.count or 0
        start = self.start + by * PAGE
        if 0 <= start < n:
            self.start = self.at = start
            self._show()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._change(event.option_index)

    def action_change(self) -> None:
        at = self.query_one("#page", OptionList).highlighted
        if at is not None:
            self._change(at)

    def _change(self, at: int) -> None:
        if self.editable:
            self.dismiss(self.start + at)
        else:
            self.notify("it is only shown", severity="warning", markup=False)

    def action_seek(self) -> None:
        seek = self.query_one("#seek", Input)
        seek.display = True
        seek.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        found = self._find(event.value)
        if found is None:
            self.notify("no element has it", severity="warning", markup=False)
            return
        self.at, self.start = found, found // PAGE * PAGE
        self._show()
        event.input.display = False
        self.query_one("#page").focus()

    def _find(self, text: str) -> int | None:
        """The element of an index, or the next one with a text in it, from here round to here."""
        n, index = self.field.count or 0, whole(text.replace(",", "").strip())
        if self.field.element_type != STR or text.strip().startswith("#"):
            index = whole(text.replace(",", "").strip().removeprefix("#"))
            return index if index is not None and index < n else None
        if not text:
            return None
        here = self.start + (self.query_one("#page", OptionList).highlighted or 0)
        for begin, stop in ((here + 1, n), (0, here + 1)):
            for start in range(begin, stop, STRIDE):
                some = self.field.head(min(STRIDE, stop - start), start, most=LONGEST)
                hit = next((i for i, value in enumerate(some) if text in str(value)), None)
                if hit is not None:
                    return start + hit
        return index if index is not None and index < n else None

    def action_leave(self) -> None:
        seek = self.query_one("#seek", Input)
        if seek.has_focus:
            seek.display = False
            self.query_one("#page").focus()
        else:
            self.dismiss(None)
