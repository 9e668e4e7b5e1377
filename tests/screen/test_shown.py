"""What the screen of `gguftool edit` shows: hostile text, long arrays, many keys, every size, read-only files."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("textual", reason="the extra tui is not installed")

from textual.widgets import Input, OptionList

from gguftool.screen.forms import Form, Words
from tests.build import GGUF, llama
from tests.screen.walk import at, fill, lines, settled, shown, text_of, walked

HOSTILE = {
    "general.[red]x[/red]": "[bold]fat[/bold] [link=http://x]y[/link]",
    "general.\x1b]0;title\x07": "\x1b[31mred\x1b[0m \u202eesrever\u202c",
    "[/]": "[/nothing] [@click=app.quit]x[/]",
    "a" * 5000: "b" * 100_000,
}


def test_text_of_the_file_is_only_shown(tmp_path: Path):
    made = llama()
    for key, value in HOSTILE.items():
        made.kv(key, value)
    path = made.kv("general.tags", list(HOSTILE.values())).write(tmp_path / "[b]h[red]\x1b[31m.gguf")
    all_shown = []

    async def walk(app, pilot):
        all_shown.append(text_of(app))
        for key in HOSTILE:
            await at(app, pilot, key)
            all_shown.append(text_of(app))
        for key in list(HOSTILE)[:2]:
            await at(app, pilot, key)
            await pilot.press("enter")
            await pilot.pause()
            assert isinstance(app.screen, Form)
            all_shown.append(text_of(app))
            await pilot.press("escape")
        await pilot.press("a")
        await pilot.pause()
        await fill(app, pilot, key="general.[red]x[/red]", value="[i]z[/i]", type="bad[type]")
        all_shown.append(text_of(app))
        await pilot.press("escape")

    walked(path, walk)
    said = "\n".join(all_shown)
    assert all(c == "\n" or (ord(c) >= 32 and not 0x7F <= ord(c) < 0xA0) for c in said)
    assert not set(said) & set("\u202e\u202c")
    assert "[red]x[/red]" in said
    assert "[bold]fat[/bold] [link=http://x]y[/link]" in said
    assert "\\x1b]0;title\\x07" in said
    assert "\\u202eesrever" in said


FOUND = (262_100, 22)
"""Where <unused6220> stands in gemma's vocabulary, by its tokenizer.json."""


@pytest.mark.real
def test_a_great_vocabulary_is_there_at_once(gemma3: Path):
    """262,144 tokens, of which a page is decoded at a time."""
    decoded = []

    async def walk(app, pilot):
        await at(app, pilot, "tokenizer.ggml.tokens")
        about = shown(app, "#about")
        assert "[str] of 262,144" in about
        assert len(about) < 3000
        await pilot.press("enter")
        await pilot.pause()
        page = app.screen.query_one("#page", OptionList)
        assert page.option_count == 100
        await pilot.press("slash")
        app.screen.query_one("#seek", Input).value = "<unused6220>"
        await pilot.press("enter")
        await pilot.pause()
        assert (app.screen.start, page.highlighted) == FOUND
        # What one array says of another is shown beside it.
        await pilot.press("escape")
        await at(app, pilot, "tokenizer.ggml.token_type")
        await pilot.press("enter", "right")
        await pilot.pause()
        assert app.screen.start == 100
        assert app.screen.beside is not None
        decoded.append(text_of(app))

    walked(gemma3, walk)
    assert decoded


def test_a_file_of_many_keys_is_bounded(tmp_path: Path):
    made = llama()
    for i in range(900):
        made.kv(f"k{i}.x", i).kv(f"many.k{i}", i)
    path = made.write(tmp_path / "m.gguf")

    async def walk(app, pilot):
        # Nothing is laid out before its group is opened, and no group is longer than a person can look through.
        assert len(list(app.keys.root.children)) < 10
        for key in ("many.k899", "k899.x"):
            await at(app, pilot, key)
            assert len(list(app.keys.cursor_node.parent.children)) <= 400

    walked(path, walk)


def test_what_cannot_be_edited_is_shown(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    path.chmod(0o444)

    async def walk(app, pilot):
        assert "read-only" in shown(app, "#top")
        await at(app, pilot, "general.name")
        for key in ("d", "enter"):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, Words)
            assert "chmod u+w" in text_of(app)
            await pilot.press("escape")
            await pilot.pause()
        assert not app.editing.steps

    walked(path, walk)


def test_a_file_without_a_key(tmp_path: Path):
    async def walk(app, pilot):
        await pilot.press("enter", "d", "r", "x", "n", "u", "w", "z")
        await pilot.pause()

    walked(GGUF().write(tmp_path / "m.gguf"), walk)


def test_every_size_of_terminal(model: Path):
    async def walk(app, pilot):
        for size in ((60, 24), (120, 40), (10, 4)):
            await pilot.resize_terminal(*size)
            await pilot.press("n")
            await settled(app, pilot)
            said = text_of(app)
            assert all(len(line) <= size[0] for line in lines(app))
            if size[0] >= 60:
                for word in ("rope", "kv_cache_type", "llama.cpp", "Fix", "Write", "Quit", "Help", "2 findings"):
                    assert word in said
        await pilot.press("a")
        await pilot.pause()
        assert isinstance(app.screen, Form)

    walked(model, walk)
