"""`gguftool edit`, driven as a person drives it."""

from __future__ import annotations

import asyncio
import hashlib
import os
from pathlib import Path

import pytest

pytest.importorskip("textual", reason="the extra tui is not installed")

from textual.events import Paste
from textual.widgets import Input, OptionList, TextArea

import gguftool
from gguftool.screen.forms import Choice, Form, Words
from gguftool.screen.writing import Writing
from tests.build import llama
from tests.screen.walk import at, fill, settled, shown, text_of, walked


async def find(app, pilot, text: str) -> None:
    await pilot.press("slash")
    app.query_one("#search", Input).value = text
    await pilot.pause()


def test_open_search_change_preview_write_and_take_back(model: Path):
    before = model.read_bytes()

    async def walk(app, pilot):
        assert "m.gguf" in text_of(app)
        await find(app, pilot, "context")
        assert app.keys.key == "llama.context_length"
        about = shown(app, "#about")
        assert "u32  2048" in about
        assert "llama.cpp, for llama" in about
        await pilot.press("enter", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Form)
        assert app.screen.query_one("#value", Input).value == "2048"
        # A wrong value is told where it is typed; nothing has changed.
        await fill(app, pilot, value="-1")
        assert "does not fit into u32" in shown(app, "#error")
        assert not app.editing.steps
        await fill(app, pilot, value="x")
        assert "expected a whole number (u32), got 'x'" in shown(app, "#error")
        await fill(app, pilot, value="0x80")
        assert not isinstance(app.screen, Form)
        assert [step.title for step in app.editing.steps] == ["set llama.context_length to 128"]
        assert "1 change not written" in shown(app, "#top")
        assert "changed; it was 2048" in shown(app, "#about")
        assert model.read_bytes() == before
        await pilot.press("w")
        await settled(app, pilot)
        said = shown(app, "#what")
        for word in (
            "llama.context_length  u32\n  - 2048\n  + 128\n",
            "now    llama.cpp",
            "after  llama.cpp",
            "patch: only the changed blocks of the header are written",
            " KiB of free disk",
            "set llama.context_length=128",
        ):
            assert word in said, said
        assert model.read_bytes() == before
        await pilot.press("enter")
        await settled(app, pilot)
        assert not app.editing.steps
        with gguftool.open(model) as m:
            assert m["llama.context_length"] == 128
        await pilot.press("z")
        await pilot.pause()
        assert isinstance(app.screen, Choice)
        await pilot.press("y")
        await settled(app, pilot)
        assert model.read_bytes() == before
        assert os.listdir(model.parent) == ["m.gguf"]
        await pilot.press("q")

    app = walked(model, walk)
    assert len(app.written) == 2
    assert app.written[0][1].path == str(model)


def test_add_delete_rename_undo_and_redo(model: Path):
    before = model.read_bytes()

    async def walk(app, pilot):
        await at(app, pilot, "tokenizer.ggml.bos_token_id")
        assert "the token <s>" in shown(app, "#about")
        # At a key that lint misses it is that one.
        await at(app, pilot, "llama.kv_cache_type")
        await pilot.press("a")
        await pilot.pause()
        assert app.screen.query_one("#key", Input).value == "llama.kv_cache_type"
        await fill(app, pilot, key="my.number", value="5")
        assert "its type must be named" in shown(app, "#error")
        await fill(app, pilot, type="u8")
        await pilot.press("a")
        await pilot.pause()
        # A known key without the prefix of the architecture, as `fix --set` has it.
        await fill(app, pilot, key="rope.scaling.factor", value="2")
        await at(app, pilot, "general.name")
        await pilot.press("d")
        await settled(app, pilot)
        assert "deleted, not written yet; it was tiny llama" in shown(app, "#about")
        await at(app, pilot, "my.number")
        await pilot.press("r")
        await pilot.pause()
        await fill(app, pilot, key="general.name")
        # Of a name of another type fix says the same.
        assert "general.name is str, my.number is u8" in shown(app, "#error")
        await fill(app, pilot, key="my.other")
        titles = [step.title for step in app.editing.steps]
        assert titles == [
            "set my.number to 5",
            "set llama.rope.scaling.factor to 2",
            "delete general.name",
            "rename my.number to my.other",
        ]
        await pilot.press("u", "u")
        await settled(app, pilot)
        assert [step.title for step in app.editing.steps] == titles[:2]
        assert app.editing.header.get("general.name") is not None
        await pilot.press("ctrl+r", "ctrl+r")
        await settled(app, pilot)
        assert [step.title for step in app.editing.steps] == titles
        await pilot.press("w")
        await settled(app, pilot)
        await pilot.press("enter")
        await settled(app, pilot)
        await pilot.press("q")

    walked(model, walk)
    with gguftool.open(model) as m:
        assert "general.name" not in m
        assert (m["my.other"], m.fields["my.other"].type_name) == (5, "u8")
        assert m["llama.rope.scaling.factor"] == 2.0
        assert "my.number" not in m
    gguftool.undo(model)
    assert model.read_bytes() == before


def test_what_llama_cpp_would_refuse_needs_consent(model: Path):
    before = model.read_bytes()

    async def walk(app, pilot):
        await at(app, pilot, "llama.embedding_length")
        await pilot.press("enter")
        await pilot.pause()
        await fill(app, pilot, value="48")
        assert "harm:" in shown(app, "#load")
        await pilot.press("w")
        await settled(app, pilot)
        said = shown(app, "#what")
        assert "would refuse it after this change" in said
        assert "1  write it although llama.cpp would do worse with it (--yes)" in said
        await pilot.press("enter")
        await settled(app, pilot)
        assert isinstance(app.screen, Writing), "there is no plan to write"
        assert model.read_bytes() == before
        await pilot.press("1")
        await settled(app, pilot)
        assert "after  llama.cpp b11434 refuses it" in shown(app, "#what")
        assert "embedding_length=48 --yes" in shown(app, "#what")
        await pilot.press("enter")
        await settled(app, pilot)
        await pilot.press("q")

    walked(model, walk)
    with gguftool.open(model) as m:
        assert m["llama.embedding_length"] == 48
    gguftool.undo(model)
    assert model.read_bytes() == before


def test_two_faults_at_once_each_at_its_key_with_its_fix(tmp_path: Path):
    made = llama().replace("llama.rope.freq_base", 0.0).replace("tokenizer.ggml.eos_token_id", 9999)
    # No token that an end is called by.
    made.replace(
        "tokenizer.ggml.tokens", ["<unk>", "<s>", "end?", *(f"<0x{i:02X}>" for i in range(256)), *"abcdefgh" * 4]
    )
    path = made.write(tmp_path / "two.gguf")
    with gguftool.open(path, strict=False) as m:
        found = {f.rule: f.where for f in gguftool.lint(m).findings}

    async def walk(app, pilot):
        assert {f.rule: f.where for f in app.judged.report.findings} == found
        at_keys = {w.removeprefix("field:") for w in found.values() if w.startswith("field:")}
        assert len(at_keys) > 1
        for key in at_keys:
            await at(app, pilot, key)
            assert all(f.rule in shown(app, "#about") for f in app.judged.at(key))
        panel = app.query_one("#findings", OptionList)
        assert panel.option_count == len(found)
        # The fix of one, and then all the safe ones; findings are judged without a byte written.
        n = len(app.judged.report.findings)
        await at(app, pilot, "llama.kv_cache_type")
        await pilot.press("x")
        await settled(app, pilot)
        assert len(app.judged.report.findings) == n - 1
        # One whose value a person has to choose asks for it.
        await at(app, pilot, "tokenizer.ggml.eos_token_id")
        await pilot.press("x")
        await pilot.pause()
        await fill(app, pilot, token="</nothing>")
        assert "is no token of this model" in shown(app, "#error")
        await fill(app, pilot, token="end?")
        assert app.editing.operations[-1] == gguftool.Set("tokenizer.ggml.eos_token_id", 2, "u32")
        await at(app, pilot, "llama.rope.freq_base")
        await pilot.press("x")
        await pilot.pause()
        await fill(app, pilot, value="5e5")
        assert app.editing.operations[-1] == gguftool.Set("llama.rope.freq_base", 500000.0, "f32")
        await pilot.press("u", "u")
        await settled(app, pilot)
        await pilot.press("X")
        await settled(app, pilot)
        await pilot.pause(0.05)
        await settled(app, pilot)
        with gguftool.open(path, strict=False) as m:
            fixed = {op.key for op in gguftool.fixes(m).operations}
        changed = {op.key for op in app.editing.operations}
        assert changed == fixed

    before = path.read_bytes()
    walked(path, walk)
    assert path.read_bytes() == before


def test_a_text_that_hides_something_comes_back_as_it_was(tmp_path: Path):
    path = llama().kv("general.description", "a\\n\u202eb\x1b[0m\n\udc80\tc").write(tmp_path / "m.gguf")

    async def walk(app, pilot):
        await at(app, pilot, "general.description")
        await pilot.press("enter")
        await pilot.pause()
        area = app.screen.query_one("#value", TextArea)
        assert area.text == "a\\\\n\\u202eb\\u001b[0m\n\\x80\tc"
        area.text = area.text.replace("\\u202e", "").replace("\\x80", "ü")
        # What is pasted is shown as escapes there, and without what it hides where a text stands as it is.
        area.move_cursor(area.document.end)
        app.post_message(Paste("\x1b[1mp\\"))
        await pilot.pause()
        kind = app.screen.query_one("#type", Input).focus()
        app.post_message(Paste("s\x1btr\u202e"))
        await pilot.pause()
        assert area.text.endswith("c\\u001b[1mp\\\\")
        assert kind.value == "str"
        await pilot.press("ctrl+s")
        await settled(app, pilot)
        assert app.editing.header.get("general.description").value == "a\\nb\x1b[0m\nü\tc\x1b[1mp\\"
        # One element of an array that is too long to be one text; and then all is dropped.
        await at(app, pilot, "tokenizer.ggml.tokens")
        await pilot.press("enter", "down", "enter")
        await pilot.pause()
        await fill(app, pilot, value="<bos>")
        assert app.editing.operations[1:] == (gguftool.SetElement("tokenizer.ggml.tokens", 1, "<bos>"),)
        await pilot.press("escape", "q", "d")
        await pilot.pause()

    before = path.read_bytes()
    assert walked(path, walk).fault is None
    assert path.read_bytes() == before


def test_changed_by_another_program(model: Path):
    async def walk(app, pilot):
        await at(app, pilot, "general.name")
        await pilot.press("enter")
        await pilot.pause()
        await fill(app, pilot, value="mine")
        with gguftool.edit(model, keep_undo=False) as e:
            e["llama.context_length"] = 77
        theirs = model.read_bytes()
        await pilot.press("f5")
        await settled(app, pilot)
        assert model.read_bytes() == theirs
        assert [step.title for step in app.editing.steps] == ["set general.name to mine"]
        assert app.editing.header.get("llama.context_length").value == 77
        # And between the look and the writing.
        await pilot.press("w")
        await settled(app, pilot)
        with gguftool.edit(model, keep_undo=False) as e:
            e["llama.context_length"] = 78
        await pilot.press("enter")
        await settled(app, pilot)
        assert isinstance(app.screen, Words)
        assert "changed" in text_of(app)
        assert [step.title for step in app.editing.steps] == ["set general.name to mine"]

    walked(model, walk)
    with gguftool.open(model) as m:
        assert (m["general.name"], m["llama.context_length"]) == ("tiny llama", 78)


def test_leaving_with_changes_asks(model: Path):
    before = hashlib.sha256(model.read_bytes()).digest()

    async def walk(app, pilot):
        await at(app, pilot, "general.name")
        await pilot.press("d")
        await settled(app, pilot)
        for keys in (["q"], ["a", "ctrl+c"]):
            await pilot.press(*keys)
            await pilot.pause()
            assert isinstance(app.screen, Choice)
            assert "1 change not written" in text_of(app)
            assert "delete general.name" in text_of(app)
            await pilot.press("s")
            await pilot.pause()
            assert app.is_running
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert isinstance(app.screen, Choice)
        await pilot.press("ctrl+c")
        await pilot.pause()

    assert isinstance(walked(model, walk).fault, KeyboardInterrupt)
    assert hashlib.sha256(model.read_bytes()).digest() == before
    assert os.listdir(model.parent) == ["m.gguf"]


def test_a_write_can_be_stopped(model: Path, monkeypatch: pytest.MonkeyPatch):
    """Of one that copies; what was copied is gone, and the file is as it was."""
    from gguftool.api import outlook
    from gguftool.screen.writing import Busy

    before = model.read_bytes()
    real = outlook.write

    def slowly(e, made, progress):
        import time

        while True:
            progress(1, 100)
            time.sleep(0.01)

    monkeypatch.setattr(outlook, "write", slowly)

    async def walk(app, pilot):
        await at(app, pilot, "general.name")
        await pilot.press("d", "w")
        await settled(app, pilot)
        await pilot.press("enter")
        for _ in range(100):
            await asyncio.sleep(0.01)
            if isinstance(app.screen, Busy):
                break
        await pilot.press("ctrl+c")
        await settled(app, pilot)
        assert app.editing.steps
        monkeypatch.setattr(outlook, "write", real)

    walked(model, walk)
    assert model.read_bytes() == before
