"""Texts that must not get into a file unasked, and duplicates that are renamed together."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gguftool
from gguftool.edit.ops import Delete, Rename, apply
from gguftool.errors import Refused, UsageError
from gguftool.format.parse import parse_bytes
from tests.build import GGUF


def write(tmp_path: Path) -> Path:
    path = tmp_path / "m.gguf"
    made = GGUF("llama").kv("general.name", "x").kv("llama.context_length", 64).kv("my.list", ["a", "b"], "[str]")
    path.write_bytes(made.tensor("output_norm.weight", (32,), "f32").bytes())
    return path


@pytest.mark.parametrize(
    "words",
    [
        [b"--set", b"general.name=a\xffb"],
        [b"--set", b"my.key:str=a\xffb"],
        [b"--set", b"my.list[1]=a\xffb"],
        [b"--set", b"my.list=a\xffb,c"],
        [b"--set", b"my.\xffkey:u32=1"],
        [b"--rename", b"general.name=my.\xff"],
    ],
    ids=repr,
)
def test_text_that_is_not_utf8_is_refused_with_its_byte(tmp_path: Path, words: list[bytes]):
    path = write(tmp_path)
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-m", "gguftool", "fix", path, *words], capture_output=True)
    assert done.returncode == 2
    assert b"byte 0xff at position" in done.stderr
    assert path.read_bytes() == before


def test_bytes_that_a_file_has_can_be_named(tmp_path: Path):
    """A key that is not UTF-8 must be possible to take away or to give a value."""
    raw = GGUF("llama").kv("my.\udcff", 1, "u32").bytes()
    assert apply([Delete("my.\udcff")], parse_bytes(raw)).get("my.\udcff") is None
    path = tmp_path / "odd.gguf"
    path.write_bytes(raw)
    with gguftool.edit(path) as e:
        e.set("my.\udcff", 5, "u32")
    with gguftool.open(path) as m:
        assert m["my.\udcff"] == 5


@pytest.mark.parametrize(("key", "value"), [("general.name", "a\0b"), ("my.list", ["a", "b\0"]), ("my.a\0b", "x")])
def test_a_zero_byte_is_refused_unless_somebody_insists(tmp_path: Path, key: str, value: object):
    path = write(tmp_path)
    before = path.read_bytes()
    kind = "[str]" if isinstance(value, list) else "str"
    with pytest.raises(Refused, match=r"zero byte at position [14]:"), gguftool.edit(path) as e:
        e.set(key, value, kind)
    assert path.read_bytes() == before
    with gguftool.edit(path, harm="allow") as e:
        e.set(key, value, kind)
    with gguftool.open(path) as m:
        assert m[key] == value


def test_a_zero_byte_out_of_a_file(cli, tmp_path: Path):
    path, text = write(tmp_path), tmp_path / "t"
    text.write_bytes(b"before\0behind")
    refused = cli("fix", path, "--set-file", f"general.description={text}")
    assert (refused.code, "zero byte at position 6" in refused.err) == (4, True)
    assert cli("fix", path, "--set-file", f"general.description={text}", "--yes").code == 0


@pytest.mark.parametrize("n", [65_535, 65_536])
def test_the_longest_key(tmp_path: Path, n: int):
    """docs/gguf.md: a key has at most 2^16-1 bytes."""
    path = write(tmp_path)
    key = "x." + "é" * ((n - 2) // 2) + "y" * ((n - 2) % 2)
    for ops in (lambda e: e.set(key, 1, "u32"), lambda e: e.rename("general.name", key)):
        if n == 65_536:
            with pytest.raises(UsageError, match="65,536 bytes"), gguftool.edit(path) as e:
                ops(e)
        else:
            with gguftool.edit(path) as e:
                ops(e)
                assert key in e
            gguftool.undo(path)


def test_duplicates_are_renamed_together():
    header = parse_bytes(GGUF("llama").kv("my.a", 1, "u32").kv("my.b", 2, "u32").kv("my.a", "three").bytes())
    renamed = apply([Rename("my.a", "my.c")], header)
    assert [(f.key, f.value) for f in renamed.fields[1:]] == [("my.c", 1), ("my.b", 2), ("my.c", "three")]
