"""The screen that shows a model: keys to the left, what is known of one to the right, findings below."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.filter import LineFilter, NoColor
from textual.widgets import Footer, Input, OptionList, Static
from textual.widgets.option_list import Option

from gguftool.api import outlook
from gguftool.api.editing import Editing
from gguftool.errors import ChangedMeanwhile, GgufToolError, of_one
from gguftool.lint.rule import Finding
from gguftool.report.text import safe_lines
from gguftool.screen.fields import Line
from gguftool.screen.forms import Words
from gguftool.screen.look import CSS, HELP
from gguftool.screen.tree import KeyTree
from gguftool.screen.words import (
    about_key,
    counted,
    error_text,
    finding_line,
    finding_text,
    key_label,
    load_text,
    matching,
    top_line,
)


class View(App[None]):
    """Look through the metadata of one model, with changes that wait.

    Args:
        e: the model.
        notes: what to say at the start.
        color: False: no colour at all.
    """

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (76, "-wide")]  # noqa: RUF012 - not a ClassVar in textual
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next_finding", "Next finding", show=False),
        Binding("escape", "unsearch", "All keys", show=False),
    ]

    def __init__(self, e: Editing, notes: tuple[str, ...] = (), *, color: bool = True) -> None:
        super().__init__(ansi_color=None if color else True)
        self.no_color = not color
        self.editing, self.notes = e, notes
        self.judged: outlook.Judged | None = None

    def compose(self) -> ComposeResult:
        yield Static("", id="top", markup=False)
        yield Static("", id="load", markup=False)
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Line(placeholder="part of a key or value; ! with findings; * changed", id="search")
                yield KeyTree(self._label)
            with VerticalScroll(id="right"):
                yield Static("", id="about", markup=False)
        yield OptionList(id="findings", markup=False)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#search").display = False
        self.show()
        self.keys.focus()
        for note in self.notes:
            self.say(note)
        if self.editing.base.refusal is not None:
            self.say(f"read-only: {self.editing.base.refusal}", "warning")

    @property
    def keys(self) -> KeyTree:
        """The keys."""
        return self.query_one(KeyTree)

    def get_line_filters(self) -> list[LineFilter]:
        """Without colour: none of it, not even shades."""
        found = list(super().get_line_filters())
        return [*found, NoColor()] if self.no_color else found

    # -- what is shown

    def _label(self, key: str, prefix: str) -> Text:
        return key_label(self.editing, self.judged, key, prefix)

    def say(self, text: str, severity: str = "information") -> None:
        kind = {"warning": "warning", "error": "error"}.get(severity, "information")
        self.notify(safe_lines(text), severity=kind, markup=False, timeout=8)  # type: ignore[arg-type]

    def _keys(self) -> list[str]:
        """Keys as they would be, those that go, and those that lint misses."""
        e = self.editing
        keys = dict.fromkeys([*e.fields, *e.base.fields])
        if self.judged is not None:
            named = (f.where.removeprefix("field:") for f in self.judged.report.findings if f.where[:6] == "field:")
            keys.update(dict.fromkeys(named))
        return list(keys)

    def show(self, at: str | None = None, *, judge: bool = True) -> None:
        """Everything anew."""
        search = self.query_one("#search", Input)
        text = search.value if search.display else ""
        found = matching(self.editing, self.judged, self._keys(), text)
        wanted = at or self.keys.key
        self.keys.fill(found, whole=bool(text), at=wanted if wanted in found else next(iter(found), None))
        self.query_one("#top", Static).update(top_line(self.editing))
        self._about()
        self._findings()
        if judge:
            self._judge()

    def _about(self) -> None:
        key, pane = self.keys.key, self.query_one("#about", Static)
        if key is not None:
            pane.update(about_key(self.editing, self.judged, key))
        else:
            pane.update(Text("The keys of the group: right opens it.", "dim"))

    def _findings(self) -> None:
        self.query_one("#load", Static).update(load_text(self.judged))
        panel = self.query_one("#findings", OptionList)
        findings = self.judged.report.findings if self.judged is not None else ()
        at = panel.highlighted
        panel.clear_options()
        panel.add_options([Option(finding_line(finding)) for finding in findings[:500]])
        panel.display = bool(findings)
        panel.border_title = counted(len(findings), "finding")
        if at is not None and findings:
            panel.highlighted = min(at, len(findings) - 1)

    @work(exclusive=True, group="judge")
    async def _judge(self) -> None:
        e = self.editing
        try:
            before = self.judged.before if self.judged is not None else None
            judged = await asyncio.to_thread(outlook.judge, e, before)
        except ChangedMeanwhile as error:
            self.say(f"{error}: F5 reads it again, your changes are kept", "warning")
            return
        except (GgufToolError, OSError) as error:
            self.say(str(of_one(error, e.base.path)), "error")
            return
        if self.editing is e:
            self.judged = judged
            self.show(judge=False)

    def on_tree_node_highlighted(self) -> None:
        self._about()
        self.query_one("#right").scroll_home(animate=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        finding = self.finding() if event.option_list.id == "findings" else None
        if finding is not None and not self._go(finding):
            self.push_screen(Words(finding_text(finding)))

    def finding(self) -> Finding | None:
        """The finding that stands in the panel."""
        at = self.query_one("#findings", OptionList).highlighted
        findings = self.judged.report.findings if self.judged is not None else ()
        return findings[at] if at is not None and at < len(findings) else None

    def _go(self, finding: Finding) -> bool:
        self.action_unsearch()
        there = finding.where.startswith("field:") and self.keys.go_to(finding.where.removeprefix("field:"))
        if there:
            self.keys.focus()
        return there

    def action_next_finding(self) -> None:
        panel = self.query_one("#findings", OptionList)
        n = len(self.judged.report.findings) if self.judged is not None else 0
        if n:
            panel.highlighted = 0 if panel.highlighted is None else (panel.highlighted + 1) % n
            finding = self.finding()
            if finding is not None:
                self._go(finding)

    # -- search

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.display = True
        search.focus()

    def action_unsearch(self) -> None:
        search = self.query_one("#search", Input)
        if search.display:
            search.display, search.value = False, ""
            self.show(judge=False)
        self.keys.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.id == "search":
            self.show(judge=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if event.input.id == "search":
            self.keys.focus()

    def refuse(self, error: GgufToolError) -> None:
        """Show an error and what helps."""
        self.push_screen(Words(error_text(error)))

    def action_help(self) -> None:
        self.push_screen(Words(Text(HELP)))
