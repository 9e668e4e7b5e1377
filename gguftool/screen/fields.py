"""Fields to type into. What is pasted is somebody else's text, too: what it hides is left out, or shown as escapes."""

from __future__ import annotations

from textual.events import Paste
from textual.widget import Widget
from textual.widgets import Input, TextArea

from gguftool.report.escaped import escaped, hides


class Line(Input):
    """One line.

    Attributes:
        escapes: its text is one of `gguftool.report.escaped`.
    """

    escapes = False

    def _on_paste(self, event: Paste) -> None:
        event.text = _shown(self, event.text, self.escapes)


class Lines(TextArea):
    """Several lines; see `Line`."""

    escapes = False

    async def _on_paste(self, event: Paste) -> None:
        event.text = _shown(self, event.text, self.escapes)


def _shown(field: Widget, text: str, escapes: bool) -> str:
    text = text.replace("\r\n", "\n")
    if escapes:
        return escaped(text)
    kept = "".join(char for char in text if not hides(char))
    if kept != text:
        field.notify(f"{len(text) - len(kept)} characters that do not show are left out", severity="warning")
    return kept
