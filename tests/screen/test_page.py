"""docs/edit.md shows what the screen shows, and names the keys that there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="the extra tui is not installed")

from gguftool.screen.app import Editor
from gguftool.screen.look import HELP
from tests.screen.walk import lines, settled, walked

PAGE = Path(__file__).resolve().parents[2] / "docs" / "edit.md"


def picture(model: Path) -> list[str]:
    """The screen at the first finding of a stock download."""
    seen: list[str] = []

    async def walk(app, pilot):
        await pilot.press("n")
        await settled(app, pilot)
        seen.extend(line.rstrip() for line in lines(app))

    walked(model, walk, (96, 24))
    return seen


@pytest.mark.real
def test_the_picture_is_the_screen(smollm2: Path):
    shown = re.search(r"```text\n(.*?)\n```", PAGE.read_text(), re.S)
    assert shown is not None
    # The words: another textual may draw its lines and bars otherwise.
    words = re.compile(r"[\w.'/(-][\w.'/=:;,()-]*")
    assert words.findall(shown[1]) == words.findall("\n".join(picture(smollm2)))


def test_every_key_is_in_the_help_and_on_the_page():
    page = PAGE.read_text()
    names = {"slash": "/", "question_mark": "?", "f5": "F5", "tab": "tab"}
    for binding in Editor.BINDINGS:
        key = binding.key.split(",")[0]
        key = names.get(key, key)
        if key in ("escape", "e", "ctrl+q"):
            continue
        assert re.search(rf"^{re.escape(key)} ", HELP, re.M), key
        assert f"`{key}`" in page or key in page, key
    assert all(len(line) <= 52 for line in HELP.splitlines())
