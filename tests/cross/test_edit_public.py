"""Editing as a library: the names at the top of the package, and the block that commits on a clean exit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gguftool
from gguftool import Set
from gguftool.errors import ChangedMeanwhile, GgufToolError, Refused
from tests.build import llama


def test_a_block_commits_on_a_clean_exit_and_not_on_an_exception(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    before = path.read_bytes()
    with gguftool.edit(path) as e:
        assert e["context_length"] == 2048
        e["context_length"] = 1024
        e.set("my.key", [1, 2], "[u8]")
        del e["general.file_type"]
        e.rename("general.name", "general.basename")
        e.set_element("tokenizer.ggml.token_type", 5, 3)
        assert path.read_bytes() == before
    assert e.result.undo == f"{path}-undo-1"
    with gguftool.open(path) as m:
        assert m.arch.context_length == 1024
        assert list(m["my.key"]) == [1, 2]
        assert "general.file_type" not in m
        assert m["general.basename"] == "tiny llama"
        assert m["tokenizer.ggml.token_type"][5] == 3
    after = path.read_bytes()
    with pytest.raises(ZeroDivisionError), gguftool.edit(path) as e:
        e["context_length"] = 1
        raise ZeroDivisionError
    assert path.read_bytes() == after
    with gguftool.edit(path) as e:
        pass
    assert e.result is None
    gguftool.undo(path)
    assert path.read_bytes() == before
    assert gguftool.recover(path).action == "nothing"


def test_a_plan_can_be_looked_at_first(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    plan = gguftool.plan_edit(path, [Set("general.name", "Foo")])
    assert [(c.key, c.old, c.new) for c in plan.changes] == [("general.name", "tiny llama", "Foo")]
    assert plan.strategy == "patch"
    assert plan.shift == 0
    assert plan.commit().strategy == "patch"


@pytest.mark.parametrize("first", ["", "import gguftool.edit", "import gguftool.edit.plan", "gguftool.plan_edit"])
def test_the_room_can_be_called_whatever_was_imported_before(first: str, tmp_path: Path):
    """`gguftool.edit` is a function and a folder of modules; importing one must not hide the other."""
    path = llama().write(tmp_path / "m.gguf")
    code = f"import gguftool\n{first}\nwith gguftool.edit({str(path)!r}) as e: e['context_length'] = 5\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert gguftool.open(path).arch.context_length == 5


def test_a_model_that_is_open_here_does_not_stand_in_the_way(tmp_path: Path):
    """The example of the README in one script: open, look, edit, undo, and the model is still an object one can use."""
    path = llama().write(tmp_path / "m.gguf")
    before = path.read_bytes()
    m = gguftool.open(path)
    norm = m.read("output_norm.weight")
    assert gguftool.plan_edit(path, [Set("general.name", "Foo")]).strategy == "patch"
    assert m.read("output_norm.weight") == norm  # planned only: the same file
    with gguftool.edit(path) as e:
        e.set("my.key", "x" * 5000, "str")
    assert m["general.name"] == "tiny llama"
    with pytest.raises(ChangedMeanwhile, match="was edited since it was opened"):
        m.read("output_norm.weight")
    with gguftool.open(path) as again:
        assert again.read("output_norm.weight") == norm
        gguftool.undo(path)
    assert path.read_bytes() == before


def test_what_undo_returns_can_be_printed(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    gguftool.plan_edit(path, [Set("general.name", "Foo")]).commit()
    assert len(repr(gguftool.undo(path))) < 2000  # the bytes it restored are not a part of it


def test_another_descriptor_on_the_file_still_does(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    with gguftool.open(path), path.open("rb"), pytest.raises(Refused, match="open in this one"):
        gguftool.plan_edit(path, [Set("general.name", "Foo")])


def test_a_closed_model_stays_closed(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    m = gguftool.open(path)
    m.close()
    gguftool.plan_edit(path, [Set("general.name", "Foo")]).commit()
    with pytest.raises(GgufToolError):
        m.read("output_norm.weight")


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        ("int64(5)", "i64"), ("int32(-5)", "i32"), ("uint16(5)", "u16"), ("float32(1.5)", "f32"),
        ("float64(1.5)", "f64"),
        ("float16(1.5)", "f32"), ("bool_(True)", "bool"), ("str_('a')", "str"), ("arange(3, dtype='i4')", "arr[i32]"),
        ("array([1.5, 2.5])", "arr[f64]"), ("array(['a', 'b'])", "arr[str]"), ("array([True, False])", "arr[bool]"),
        ("array(7, dtype='u1')", "u8"), ("zeros(0, dtype='i8')", "arr[i64]"),
    ],
)  # fmt: skip
def test_a_value_of_numpy_names_the_type_of_a_key_nobody_knows(make: str, wanted: str, tmp_path: Path) -> None:
    """By the dtype; a known key keeps its own."""
    import numpy as np

    path = llama().write(tmp_path / "m.gguf")
    value = eval(f"np.{make}", {"np": np})
    with gguftool.edit(path) as e:
        e["my.key"] = value
        e["llama.context_length"] = np.int64(77)
    with gguftool.open(path) as m:
        assert m.fields["my.key"].type_name == wanted
        assert np.array_equal(np.asarray(m["my.key"]), value)
        assert m.fields["llama.context_length"].type_name == "u32"
