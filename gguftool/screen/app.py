"""The screen of ``gguftool edit``: changes, writing them, and the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.binding import Binding, BindingType

from gguftool.api import editing, outlook
from gguftool.api.editing import Consent, Editing
from gguftool.edit.plan import EditPlan, Result
from gguftool.edit.schema import type_text
from gguftool.edit.special import special_operation
from gguftool.edit.spelled import field_text
from gguftool.edit.undo import Undone
from gguftool.errors import GgufToolError, of_one
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR
from gguftool.report.text import shorten
from gguftool.screen.elements import Elements
from gguftool.screen.forms import Blank, Choice, Form
from gguftool.screen.view import View
from gguftool.screen.words import counted
from gguftool.screen.writing import Busy, Stopped, Writing
from gguftool.shell import Blank as ToFill

_OF_ONE_KEY = frozenset(("--context-length", "--rope-freq-base"))
"""Options of `fix` that give the key of their finding a value."""
MANY_LINES = 200
"""Characters of a text that is edited in one line, at most."""


class Editor(View):
    """Edit the metadata of one model.

    Args:
        e: the model.
        notes: what to say at the start.
        argv: the command line, for the undo records.
        color: False: no colour at all.

    Attributes:
        written: what was written and taken back, in order.
        fault: what went wrong here, to be told when the terminal is as it was.
        signal: number of the signal that ended it; 0 for none.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "mend", "Fix"),
        Binding("u", "undo_change", "Undo"),
        Binding("w,ctrl+s", "write", "Write"),
        Binding("q", "leave", "Quit"),
        Binding("question_mark,f1", "help", "Help"),
        Binding("slash", "search", "Search"),
        Binding("a", "add", "Add"),
        Binding("d,delete", "delete", "Delete"),
        Binding("r", "rename", "Rename"),
        Binding("e", "edit", "Change", show=False),
        Binding("X", "mend_all", "All safe fixes", show=False),
        Binding("ctrl+r", "redo_change", "Redo", show=False),
        Binding("z", "take_back", "Take back", show=False),
        Binding("f5", "again", "Read again", show=False),
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True),
        Binding("ctrl+q", "leave", "Quit", show=False),
    ]

    def __init__(
        self, e: Editing, notes: tuple[str, ...] = (), argv: tuple[str, ...] = (), *, color: bool = True
    ) -> None:
        super().__init__(e, notes, color=color)
        self.argv = argv
        self.written: list[tuple[EditPlan, Result] | Undone] = []
        self.fault: BaseException | None = None
        self.signal = 0
        self.asked = False

    # -- changes

    def _took(self, e: Editing, at: str | None = None) -> None:
        """The changes are others now."""
        self.editing = e
        self.show(at)

    def _tried(self, make: Callable[[], Editing], at: str | None = None) -> bool:
        try:
            self._took(make(), at)
        except GgufToolError as error:
            self.refuse(error)
            return False
        return True

    def _may(self) -> bool:
        if self.editing.base.refusal is not None:
            self.refuse(self.editing.base.refusal)
        return self.editing.base.refusal is None

    def on_tree_node_selected(self) -> None:
        if self.keys.key is not None:
            self.action_edit()

    def action_edit(self) -> None:
        key, e = self.keys.key, self.editing
        if key is None:
            return
        field = e.field(key)
        if field is None:
            if e.state(key) == "gone":
                self.say(f"{key} is deleted; u takes that back", "warning")
            else:
                self.action_add(key)
            return
        text = field_text(field)
        if text is None:
            self._elements(key)
        elif self._may():
            blank = Blank("value", "value", text, long=field.type == STR and ("\n" in text or len(text) > MANY_LINES))
            self._ask(f"Change {shorten(key, 200)}", key, [blank, self._type_of(key)], editing.set_value)

    def _type_of(self, key: str) -> Blank:
        field = self.editing.field(key)
        return Blank(
            "type", "type (as it is when empty)", hint=type_text(field) if field is not None else "", may_stay=True
        )

    def _ask(self, title: str, key: str, blanks: list[Blank], change: Callable[..., Editing]) -> None:
        """A form whose ``value`` and ``type`` go to a key."""
        e = self.editing

        def attempt(filled: Mapping[str, str], consents: frozenset[Consent]) -> Editing:
            return change(e, filled.get("key", key), filled["value"], filled["type"].strip(), consents)

        self.run_worker(self._answered(Form(title, self._hint(key), blanks, attempt), key))

    async def _answered(self, form: Form, at: str | None) -> None:
        done = await self.push_screen_wait(form)
        if done is not None:
            self._took(done, at)

    def _hint(self, key: str) -> Text:
        field = self.editing.field(key)
        return Text(type_text(field) if field is not None else "", "dim")

    @work
    async def _elements(self, key: str) -> None:
        """Look through an array, and change elements of it."""
        at = 0
        while True:
            e = self.editing
            field = e.field(key)
            if field is None or field.type != ARR:
                self.say("a value of a type that is not known, or too long to be edited here", "warning")
                return
            view = Elements(key, field, at, editable=e.base.refusal is None, beside=_tokens(e, key))
            found = await self.push_screen_wait(view)
            if found is None:
                return
            at = found
            value = field.head(1, at)[0]
            text = "true" if value is True else "false" if value is False else str(value)
            blank = Blank("value", f"element {at:,}", text, long="\n" in text or len(text) > MANY_LINES)

            def attempt(
                filled: Mapping[str, str], consents: frozenset[Consent], e: Editing = e, at: int = at
            ) -> Editing:
                return editing.set_element(e, key, at, filled["value"], consents)

            await self._answered(Form(f"Change {shorten(key, 200)}[{at}]", self._hint(key), [blank], attempt), key)

    def action_add(self, key: str = "") -> None:
        if self._may():
            here = self.keys.key
            key = key or (here if here is not None and self.editing.state(here) == "absent" else "")
            blanks = [
                Blank("key", "key", key, hint="general.license, or context_length without the architecture"),
                Blank("value", "value"),
                Blank("type", "type", hint="u32, str, [str] …; empty for a key that is known", may_stay=True),
            ]
            self._ask("Add a key", key, blanks, self._added)

    def _added(self, e: Editing, key: str, value: str, kind: str, consents: frozenset[Consent]) -> Editing:
        return editing.set_value(e, key.strip(), value, kind, consents)

    def action_delete(self) -> None:
        key = self.keys.key
        if key is not None and self._may():
            self._tried(lambda: editing.delete(self.editing, key), key)

    @work
    async def action_rename(self) -> None:
        key, e = self.keys.key, self.editing
        if key is None or e.field(key) is None or not self._may():
            return

        def attempt(filled: Mapping[str, str], consents: frozenset[Consent]) -> Editing:
            return editing.rename(e, key, filled["key"], consents)

        form = Form(f"Rename {shorten(key, 200)}", Text(""), [Blank("key", "new key", key)], attempt)
        await self._answered(form, None)

    def action_mend(self) -> None:
        """The fix of the finding at the key, or of the one in the panel."""
        found = self.finding()
        if not self.query_one("#findings").has_focus:
            key = self.keys.key
            here = self.judged.at(key) if self.judged is not None and key is not None else ()
            found = next((f for f in here if f.fix is not None), here[0] if here else None)
        if found is None:
            self.say("nothing is found at this key; n goes to the next finding", "warning")
            return
        fix, at = found.fix, found.where.removeprefix("field:")
        words = fix.command or () if fix is not None and not fix.operations else ()
        option, fill = next(((str(a), str(b)) for a, b in pairwise(words) if isinstance(b, ToFill)), ("", ""))
        if not self._may():
            return
        # A person has to choose the value: a form asks for it.
        if option == "--special":
            self._special(fill.partition("=")[0], at)
        elif option == "--set" or (option in _OF_ONE_KEY and found.where.startswith("field:")):
            self._chosen(fill.rpartition("=")[0] or at)
        else:
            self._tried(lambda: editing.mend(self.editing, found), at)

    def _special(self, role: str, key: str) -> None:
        """Name a special token by its text."""
        e = self.editing

        def attempt(filled: Mapping[str, str], consents: frozenset[Consent]) -> Editing:
            operation, note = special_operation(e.model, f"{role}={filled['token']}")
            if note is not None:
                self.say(note, "warning")
            return editing.do(e, operation.describe(), (operation,), consents)

        blank = Blank("token", f"the {role} token, by its text or id")
        self.run_worker(self._answered(Form(f"Name the {role} token", self._hint(key), [blank], attempt), key))

    def _chosen(self, key: str) -> None:
        if self.keys.go_to(key) and self.editing.field(key) is not None:
            self.call_after_refresh(self.action_edit)
        else:
            self.action_add(key)

    @work
    async def action_mend_all(self) -> None:
        if not self._may():
            return
        try:
            e, why = await asyncio.to_thread(editing.mend_all, self.editing)
        except (GgufToolError, OSError) as error:
            self.refuse(of_one(error, self.editing.base.path))
            return
        for text in why:
            self.say(text, "warning")
        if e.steps == self.editing.steps:
            self.say("lint knows no safe fix for this file")
        else:
            self._took(e)

    def action_undo_change(self) -> None:
        if not self.editing.steps:
            self.say("no change to undo; z takes back what was written last")
        else:
            self.say(f"undone: {shorten(self.editing.steps[-1].title, 120)}")
            self._took(editing.back(self.editing))

    def action_redo_change(self) -> None:
        self._took(editing.forth(self.editing))

    # -- the file

    @work
    async def action_write(self) -> None:
        if self.editing.steps and self._may():
            await self._write()
        elif not self.editing.steps:
            self.say("no change to write")

    async def _write(self) -> bool:
        e = self.editing
        made = await self.push_screen_wait(Writing(e, self.argv))
        if made is None:
            return False
        done = await self.push_screen_wait(Busy("writing …", lambda progress: outlook.write(e, made, progress)))
        if isinstance(done, tuple):
            self.editing, result = done
            self.written.append((made, result))
            self.say(f"{counted(len(made.changes), 'change')} written ({result.strategy}); z takes them back")
        return self._done(done)

    def _done(self, done: object) -> bool:
        """What came of work on the file."""
        if isinstance(done, Stopped):
            self.say(str(done), "warning")
        elif isinstance(done, (GgufToolError, OSError, MemoryError)):
            self.refuse(of_one(done, self.editing.base.path))
        elif isinstance(done, Exception):
            raise done
        else:
            self.judged = None
            self.show()
        if self.signal:
            self.exit()
        return not isinstance(done, Exception)

    @work
    async def action_take_back(self) -> None:
        e = self.editing
        if e.steps or not e.base.undoable or not self._may():
            self.say(
                "write the changes first, or take them back (u)" if e.steps else "no edit is recorded beside the file",
                "warning",
            )
            return
        question = Text(f"Take back what was written last ({counted(e.base.undoable, 'edit')} can be taken back)?")
        answers = [("y", "take it back, byte for byte"), ("n", "leave it")]
        if await self.push_screen_wait(Choice(question, answers)) != "y":
            return
        done = await self.push_screen_wait(Busy("taking back …", lambda progress: outlook.take_back(e, progress)))
        if isinstance(done, tuple):
            self.editing, undone = done
            self.written.append(undone)
            self.say("the file has the same bytes as before that edit")
        self._done(done)

    def action_again(self) -> None:
        try:
            e, lost = editing.again(self.editing)
        except (GgufToolError, OSError) as error:
            self.refuse(of_one(error, self.editing.base.path))
            return
        self.judged = None
        self._took(e)
        for text in lost:
            self.say(f"left out: {text}", "warning")
        self.say("read again")

    # -- the end

    @work(exclusive=True, group="leave")
    async def action_leave(self) -> None:
        if self.editing.steps:
            question = Text(f"{counted(len(self.editing.steps), 'change')} not written:\n", "bold")
            for step in self.editing.steps[-10:]:
                question.append(f"  {shorten(step.title, 100)}\n", "not bold")
            answers = [("w", "look at them and write them"), ("d", "drop them and quit"), ("s", "stay")]
            answer = await self.push_screen_wait(Choice(question, answers))
            if answer not in ("w", "d") or (answer == "w" and not await self._write()):
                self.asked = False
                return
        self.exit()

    def action_interrupt(self) -> None:
        """Ctrl-C: as quit, and the second time without a question."""
        if isinstance(self.screen, Busy):
            self.screen.action_stop()
        elif not self.editing.steps:
            self.exit()
        elif self.asked:
            self.fault = KeyboardInterrupt()
            self.exit()
        else:
            self.asked = True
            while self.screen.is_modal:
                self.screen.dismiss(None)
            self.action_leave()

    @property
    def writing(self) -> bool:
        """Whether a file is being written; asked from another thread."""
        return any(isinstance(screen, Busy) and screen.working for screen in self.screen_stack)

    def ended(self, number: int) -> None:
        """A signal came: leave without writing; what is being written ends first."""
        self.signal = number
        if isinstance(self.screen, Busy):
            self.screen.action_stop()
        else:
            self.exit()

    def _handle_exception(self, error: Exception) -> None:
        """A fault of ours is told as any other one, when the terminal is as it was."""
        if self.is_headless:
            super()._handle_exception(error)
        self.fault = error
        self.exit()


def _tokens(e: Editing, key: str) -> Field | None:
    """The tokens that the elements of an array are about."""
    field, tokens = e.field(key), e.field("tokenizer.ggml.tokens")
    about = key in ("tokenizer.ggml.token_type", "tokenizer.ggml.scores")
    return tokens if about and field is not None and tokens is not None and tokens.count == field.count else None
