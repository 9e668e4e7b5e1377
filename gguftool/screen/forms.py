"""Questions before the screen: a value, a key, yes or no."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Footer, Input, Label, OptionList, Static, TextArea
from textual.widgets.option_list import Option

from gguftool.api.editing import CONSENTS, NONE, Consent, Editing
from gguftool.errors import GgufToolError
from gguftool.records import dataclass
from gguftool.report.escaped import escaped, hides, unescaped
from gguftool.screen.fields import Line, Lines
from gguftool.screen.words import error_text

Attempt = Callable[[Mapping[str, str], frozenset[Consent]], Editing]
MINDED = tuple(consent for consent in CONSENTS if consent.option in ("--yes", "--force"))
"""What may be insisted on when a single change is made."""


@dataclass(frozen=True, slots=True)
class Blank:
    """One thing to fill in; ``long``: it may have several lines, ``may_stay``: it may stay empty."""

    name: str
    label: str
    text: str = ""
    long: bool = False
    hint: str = ""
    may_stay: bool = False


class Form(ModalScreen[Editing | None]):
    """Blanks to fill in, and what is tried with them until it is possible."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back"),
        Binding("ctrl+s", "take", "Take it", priority=True),
        Binding("ctrl+y", "insist", "All the same", priority=True),
    ]

    def __init__(self, title: str, about: Text, blanks: Sequence[Blank], attempt: Attempt) -> None:
        super().__init__()
        self.heading, self.about, self.blanks, self.attempt = Text(title, "bold"), about, blanks, attempt
        self.insisted: frozenset[Consent] = NONE
        self.hidden = {blank.name for blank in blanks if hides(blank.text)}

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(self.heading, markup=False)
            yield Static(self.about, classes="about", markup=False)
            if self.hidden:
                said = "It has characters that do not show: they stand as \\uNNNN, and a backslash as \\\\."
                yield Static(Text(said, "yellow"), markup=False)
            for blank in self.blanks:
                yield Label(Text(blank.label, "dim"), markup=False)
                text = escaped(blank.text) if blank.name in self.hidden else blank.text
                field: Line | Lines
                if blank.long:
                    field = Lines(text, id=blank.name, show_line_numbers=False)
                else:
                    field = Line(text, id=blank.name, placeholder=blank.hint, select_on_focus=False)
                field.escapes = blank.name in self.hidden
                yield field
            with VerticalScroll(classes="error"):
                yield Static("", id="error", markup=False)
        yield Footer(show_command_palette=False)

    def on_screen_resume(self) -> None:
        """Stand at the first blank that is empty, else at the first one."""
        self.query_one(f"#{self._open() or next(blank.name for blank in self.blanks if not blank.may_stay)}").focus()

    def _open(self) -> str | None:
        """The first blank that is to be filled in and is not."""
        said = {blank.name: self._text(blank.name) for blank in self.blanks if not blank.may_stay}
        return next((name for name, text in said.items() if not text), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return bool(self.insisted) if action == "insist" else True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        empty = self._open()
        if empty is not None and empty != event.input.id:
            self.query_one(f"#{empty}").focus()
        else:
            self.action_take()

    def _filled(self) -> dict[str, str]:
        said = {blank.name: self._text(blank.name) for blank in self.blanks}
        return {name: unescaped(text) if name in self.hidden else text for name, text in said.items()}

    def _text(self, name: str) -> str:
        widget = self.query_one(f"#{name}")
        return widget.text if isinstance(widget, TextArea) else str(getattr(widget, "value", ""))

    def action_take(self) -> None:
        self._try(NONE)

    def action_insist(self) -> None:
        self._try(self.insisted)

    def _try(self, consents: frozenset[Consent]) -> None:
        try:
            done = self.attempt(self._filled(), consents)
        except GgufToolError as error:
            self.insisted = self._ways(consents)
            text = error_text(error)
            for consent in MINDED:
                if consent in self.insisted:
                    text.append(f"ctrl+y: {consent.words} ({consent.option})\n", "bold")
            self.query_one("#error", Static).update(text)
            self.refresh_bindings()
            return
        self.dismiss(done)

    def _ways(self, consents: frozenset[Consent]) -> frozenset[Consent]:
        """What has to be insisted on for the change to be possible; nothing when nothing helps."""
        for consent in MINDED:
            try:
                self.attempt(self._filled(), consents | {consent})
            except GgufToolError:
                continue
            return consents | {consent}
        return NONE

    def action_leave(self) -> None:
        self.dismiss(None)


class Choice(ModalScreen[str]):
    """One of a few answers, each with a key; "" when nobody answers."""

    AUTO_FOCUS = "OptionList"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Back")]

    def __init__(self, question: Text, answers: Sequence[tuple[str, str]]) -> None:
        super().__init__()
        self.question, self.answers = question, answers

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            with VerticalScroll(classes="question"):
                yield Static(self.question, markup=False)
            yield OptionList(*(Option(Text(f"{key}  {words}"), id=key) for key, words in self.answers), markup=False)
        yield Footer(show_command_palette=False)

    def on_key(self, event: object) -> None:
        key = str(getattr(event, "key", ""))
        if key in {key for key, _ in self.answers}:
            self.dismiss(key)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(str(event.option.id))

    def action_leave(self) -> None:
        self.dismiss("")


class Words(ModalScreen[None]):
    """Something to read."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter,question_mark", "leave", "Back")]

    def __init__(self, text: Text) -> None:
        super().__init__()
        self.text = text

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box tall"):
            yield Static(self.text, markup=False)
        yield Footer(show_command_palette=False)

    def action_leave(self) -> None:
        self.dismiss(None)
