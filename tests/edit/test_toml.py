"""Metadata as TOML: `dump --export`, `fix --import`, `fix --edit`."""

from __future__ import annotations

import math
import os
import signal
import struct
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gguftool
from gguftool.edit.toml import from_toml, operations, to_toml
from gguftool.format.parse import parse_bytes
from gguftool.model.opening import from_source
from gguftool.source import Memory
from tests.build import GGUF

F32_MAX = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]
VALUES = [
    ("u8", 255), ("i8", -128), ("u16", 65535), ("i16", -32768), ("u32", 4294967295), ("i32", -2147483648),
    ("u64", 2**64 - 1), ("i64", -(2**63)), ("bool", True), ("bool", False),
    ("f32", math.nan), ("f32", math.inf), ("f32", -math.inf), ("f32", 0.0), ("f32", -0.0), ("f32", F32_MAX),
    ("f32", struct.unpack("<f", b"\1\0\0\0")[0]), ("f32", struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    ("f32", 16777216.0), ("f64", 0.1), ("f64", math.nan), ("f64", -math.inf), ("f64", 5e-324), ("f64", 1e308),
    ("str", ""), ("str", "plain"), ("str", "two\nlines\n"), ("str", "\n"), ("str", "a\r\nb\rc"), ("str", "tab\there"),
    ("str", "".join(map(chr, range(1, 32)))), ("str", "\x7f\x80\x9f"), ("str", "'''\n\"\"\"\\"), ("str", "ends '\n'"),
    ("str", "back\\slash \\u0041\n"), ("str", "\u2028\u202e\ufeff\u200b"), ("str", "Ünï 🦙"), ("str", "a = 1 # b\n[c]"),
    ("[u32]", [1, 2, 3]), ("[str]", ["a", "b\n'\"\\"]), ("[bool]", [True, False]), ("[u64]", [2**64 - 1]),
    ("[i8]", []), ("[f64]", [0.1, math.inf]), ("[i32]", list(range(64))),
]  # fmt: skip


def write(path: Path, *rows: tuple[str, str, object], arch: str = "llama") -> Path:
    made = GGUF(arch)
    for key, kind, value in rows:
        made.kv(key, value, kind)
    path.write_bytes(made.tensor("output_norm.weight", (32,), "f32").bytes())
    return path


def raw_of(path: Path) -> dict[str, bytes]:
    return {f.key: f.raw for f in parse_bytes(path.read_bytes()).fields if not f.key.startswith("gguftool.")}


def test_the_round_trip_is_exact_for_every_type(cli, tmp_path: Path):
    rows = [(f"my.key{i}", kind, value) for i, (kind, value) in enumerate(VALUES)]
    rows += [("general.name", "str", "a name"), ("llama.context_length", "u32", 64), ("my.od d=[5]:u8", "u8", 1)]
    full, bare, out = write(tmp_path / "full.gguf", *rows), write(tmp_path / "bare.gguf"), tmp_path / "keys.toml"
    assert cli("dump", full, "--export", out).code == 0
    tomllib.loads(out.read_text(encoding="utf-8"))
    done = cli("fix", bare, "--import", out)
    assert done.code == 0, done.err
    assert raw_of(bare) == raw_of(full)
    assert "like that already" in cli("fix", full, "--import", out).out


@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(width=32), st.floats(), st.integers(0, 2**64 - 1))
def test_the_round_trip_of_anything(text: str, small: float, large: float, whole: int):
    made = GGUF("llama").kv("a.s", text, "str").kv("a.f", small, "f32").kv("a.d", large, "f64").kv("a.u", whole, "u64")
    made.kv(f"k.{text}", [text, "x"], "[str]")
    with from_source(Memory(made.bytes(), "m.gguf")) as m:
        given_ = from_toml(to_toml(m), "x")
        assert operations(m, given_) == []
        assert given_["a.s"].value == text
        assert given_[f"k.{text}"].value == [text, "x"]


def test_what_is_left_out_is_said(cli, tmp_path: Path):
    path = write(
        tmp_path / "m.gguf",
        ("tokenizer.ggml.tokens", "[str]", [f"t{i}" for i in range(65)]),
        ("my.bad", "str", "a\udcff"),
        ("my.good", "u16", 5),
    )
    out = cli("dump", path, "--export", "-").out
    assert '# "tokenizer.ggml.tokens": [str] of 65 elements, left out' in out
    assert '# "my.bad": str that is not UTF-8, left out' in out
    assert tomllib.loads(out) == {"general.architecture": "llama", "my.good": {"u16": 5}}
    assert "# u16\n" in out
    assert "# str: " in out


def test_another_file_is_not_replaced(cli, tmp_path: Path):
    path, mine, other = write(tmp_path / "m.gguf"), tmp_path / "a.toml", tmp_path / "b.toml"
    other.write_text("x = 1\n")
    assert cli("dump", path, "--export", mine).code == 0
    assert cli("dump", path, "--export", mine).code == 0
    assert cli("dump", path, "--export", other).code == 4
    assert other.read_text() == "x = 1\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('"general.name" = ', "is no TOML"),
        ('"general.name" = 5', "general.name: expected a string, got 5"),
        ('"my.key" = 5', "its type must be named"),
        ('"my.key" = { u8 = 256 }', "does not fit into u8"),
        ('"llama.context_length" = { i8 = 5 }', "llama.context_length is u32"),
        ('"general.name" = 2020-01-01', "no value of the kind date"),
        ('"my.key" = { u8 = true }', "expected a whole number"),
        ('"general.name" = "a"\n"general.name" = "b"', "is no TOML"),
    ],
)
def test_what_cannot_be_taken_is_named(cli, tmp_path: Path, text: str, said: str):
    path, toml = write(tmp_path / "m.gguf", ("general.name", "str", "x")), tmp_path / "t.toml"
    toml.write_text(text)
    before = path.read_bytes()
    done = cli("fix", path, "--import", toml)
    assert (done.code, path.read_bytes()) == (2, before)
    assert said in done.err


def test_keys_as_people_write_them(cli, tmp_path: Path):
    path, toml = write(tmp_path / "m.gguf", ("general.name", "str", "x"), ("my.n", "u8", 1)), tmp_path / "t.toml"
    toml.write_text('general.name = "y"\ncontext_length = 99\n[my]\nn = 2\nnew.i8 = -1\n')
    assert cli("fix", path, "--import", toml).code == 0
    fields = {f.key: (f.type_name, f.value) for f in parse_bytes(path.read_bytes()).fields}
    assert fields["general.name"] == ("str", "y")
    assert fields["llama.context_length"] == ("u32", 99)
    assert fields["my.n"] == ("u8", 2)
    assert fields["my.new"] == ("i8", -1)


# --- the editor


def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """An editor that is a Python script: ``path`` is the file, ``text`` what is in it."""
    script = tmp_path / "an editor.py"
    script.write_text(
        "import sys\npath = sys.argv[1]\ntext = open(path, encoding='utf-8').read()\n"
        f"{code}\nopen(path, 'w', encoding='utf-8').write(text)\n"
    )
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{script}'")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)


def texts(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("gguftool-edit-*.toml"))


def model(tmp_path: Path) -> Path:
    return write(
        tmp_path / "m.gguf",
        ("general.name", "str", "old"),
        ("my.gone", "u8", 1),
        ("my.nan", "f32", math.nan),
        ("my.list", "[u32]", [1, 2]),
    )


CHANGE = (
    "text = text.replace('\"old\"', '\"new\"').replace('\"my.gone\" = { u8 = 1 }', '')+ '\"my.new\" = { u16 = 7 }\\n'"
)


def test_the_difference_is_applied(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = model(tmp_path)
    before = path.read_bytes()
    kept = raw_of(path)
    editor(tmp_path, monkeypatch, CHANGE)
    shown = cli("fix", path, "--edit", "--dry-run")
    assert shown.code == 0
    for word in ("general.name", "my.gone", "my.new"):
        assert word in shown.out
    assert "my.nan" not in shown.out
    assert path.read_bytes() == before
    [text] = texts(tmp_path)
    assert str(text) in shown.err
    text.unlink()
    done = cli("fix", path, "--edit")
    assert done.code == 0, done.err
    now = raw_of(path)
    assert set(kept) - set(now) == {"my.gone"}
    assert {k: v for k, v in now.items() if k not in ("general.name", "my.new")} == {
        k: v for k, v in kept.items() if k not in ("general.name", "my.gone")
    }
    with gguftool.open(path) as m:
        assert (m["general.name"], m["my.new"], m.fields["my.new"].type_name) == ("new", 7, "u16")
    assert texts(tmp_path) == []
    assert cli("undo", path).code == 0
    assert path.read_bytes() == before


def test_nothing_typed_is_nothing_done(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = model(tmp_path)
    before = path.read_bytes()
    editor(tmp_path, monkeypatch, "")
    assert cli("fix", path, "--edit").code == 0
    assert (path.read_bytes(), texts(tmp_path)) == (before, [])


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("text += 'x = ='", 2),
        ("text = text.replace('\"old\"', '5')", 2),
        ("text = text.replace('\"old\"', '\"a\\\\u0000b\"')", 4),
        ("text = text.replace('\"old\"', '\"new\"'); open(path, 'w').write(text); sys.exit(1)", 6),
    ],
)
def test_what_was_typed_is_never_lost(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, exit_code: int):
    path = model(tmp_path)
    before = path.read_bytes()
    editor(tmp_path, monkeypatch, code)
    done = cli("fix", path, "--edit")
    assert done.code == exit_code
    assert path.read_bytes() == before
    [text] = texts(tmp_path)
    assert str(text) in done.err
    # The same text is mended and goes in.
    if exit_code == 2:
        editor(tmp_path, monkeypatch, "text = text.replace('x = =', '').replace('= 5', '= \"new\"')")
        assert cli("fix", path, "--edit", "--import", text).code == 0


def test_a_model_that_changed_meanwhile(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = model(tmp_path)
    other = f"import subprocess; subprocess.run([sys.executable, '-m', 'gguftool', 'fix', '{path}', '--set', "
    editor(
        tmp_path, monkeypatch, f"{other}'general.name=theirs'], check=True)\ntext = text.replace('\"old\"', '\"mine\"')"
    )
    done = cli("fix", path, "--edit")
    assert done.code == 4
    assert len(texts(tmp_path)) == 1
    with gguftool.open(path) as m:
        assert m["general.name"] == "theirs"


def test_somebody_at_a_terminal_can_edit_again(tmp_path: Path):
    path, count = model(tmp_path), tmp_path / "count"
    script = tmp_path / "e.py"
    script.write_text(
        f"import os, sys\npath = sys.argv[1]\ntext = open(path).read()\nfirst = not os.path.exists({str(count)!r})\n"
        f"open({str(count)!r}, 'w').close()\n"
        "text = text + 'x = =' if first else text.replace('x = =', '').replace('\"old\"', '\"new\"')\n"
        "open(path, 'w').write(text)\n"
    )
    master, slave = os.openpty()
    os.write(master, b"y\n")
    env = {**os.environ, "VISUAL": f"{sys.executable} {script}", "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-m", "gguftool", "fix", str(path), "--edit"]
    done = subprocess.run(argv, stdin=slave, capture_output=True, env=env, timeout=60)
    os.close(master)
    os.close(slave)
    assert done.returncode == 0, done.stderr
    assert b"is no TOML" in done.stderr
    with gguftool.open(path) as m:
        assert m["general.name"] == "new"
    assert texts(tmp_path) == []


def test_an_editor_that_is_not_there(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = model(tmp_path)
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "there-is-no-such-editor")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    done = cli("fix", path, "--edit")
    assert (done.code, "there-is-no-such-editor" in done.err) == (6, True)
    assert texts(tmp_path) == []


def test_a_text_that_nobody_changed_does_not_stay(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = model(tmp_path)
    editor(tmp_path, monkeypatch, "sys.exit(3)")
    done = cli("fix", path, "--edit")
    assert (done.code, texts(tmp_path)) == (6, [])
    assert "ended with 3" in done.err


@pytest.mark.parametrize("typed", [False, True])
def test_a_signal_in_the_editor(tmp_path: Path, typed: bool):
    """Of a text that nobody changed nothing stays; one that was changed is kept, and it is said where."""
    path, ready = model(tmp_path), tmp_path / "ready"
    change = "open(sys.argv[1], 'a').write('# mine\\n')" if typed else ""
    script = tmp_path / "e.py"
    script.write_text(f"import sys, time\n{change}\nopen({str(ready)!r}, 'w').close()\ntime.sleep(60)\n")
    env = {**os.environ, "VISUAL": f"{sys.executable} {script}", "TMPDIR": str(tmp_path)}
    argv = [sys.executable, "-m", "gguftool", "fix", str(path), "--edit"]
    running = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    while not ready.exists():
        time.sleep(0.02)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 143
    kept = texts(tmp_path)
    assert len(kept) == typed
    assert all(str(one).encode() in err for one in kept)


def test_a_text_that_was_kept_is_gone_when_it_went_in(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = model(tmp_path)
    editor(tmp_path, monkeypatch, "text += 'x = ='")
    assert cli("fix", path, "--edit").code == 2
    [text] = texts(tmp_path)
    editor(tmp_path, monkeypatch, "text = text.replace('x = =', '').replace('\"old\"', '\"new\"')")
    assert cli("fix", path, "--edit", "--import", text).code == 0
    assert texts(tmp_path) == []


def test_one_model_at_a_time(cli, tmp_path: Path):
    path = model(tmp_path)
    assert cli("fix", path, path, "--edit").code == 2
