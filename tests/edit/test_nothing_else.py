"""Nothing else changes: fields that no edit names keep bytes and order, tensor data stays, undo is exact."""

from __future__ import annotations

import hashlib
import os
import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gguftool.edit.ops import Dedupe, Delete, Operation, Realign, Rename, Repack, Reserve, Set, SetElement, Strip
from gguftool.edit.plan import plan_edit
from gguftool.edit.undo import undo
from gguftool.format.filler import FILLER_KEY, is_filler
from gguftool.format.header import Header
from gguftool.format.parse import parse_bytes
from gguftool.verify.proof import original
from tests.build import GGUF, llama


def files() -> dict[str, GGUF]:
    """Odd but readable files."""
    plain = llama()
    return {
        "plain": plain,
        "big-endian": llama().big_endian(),
        "v2": llama().version(2),
        "v1": llama().version(1),
        "align-64": llama().align(64),
        "align-8": llama().align(8),
        "align-1": GGUF("llama").align(1).kv("a.b", 1).tensor("t", (5,), "i8").tensor("u", (3,), "i8"),
        "align-8192": llama().align(8192),
        "unknown-tensor-type": llama().tensor("future", (7, 3), 777, b"\1" * 99),
        "removed-tensor-type": llama().tensor("old", (32, 1), 4, b"\2" * 40),
        "bad-utf8": llama().raw_kv(llama().record(b"bad\xff\xfekey", b"\x80\x81", "str")),
        "odd-bool": llama().raw_kv(llama().record("odd.bool", True)[:-1] + b"\x07"),
        "nested": llama().raw_kv(nested()),
        "duplicate-keys": llama().kv("general.name", "again"),
        "no-tensors": GGUF("llama").kv("general.name", "vocabulary only").kv("tokenizer.ggml.tokens", ["a", "b"]),
        "no-tensors-no-padding": GGUF("llama").kv("general.name", "cut").truncate(-11),
        "trailing": llama().trailing(b"left over" * 100),
        "truncated-data": llama().truncate(-5000),
        "gap": llama().gap("output_norm.weight", 64),
        "not-padded-at-the-end": llama().tensor("z", (5,)).truncate(-12),
        "empty-key": llama().kv("", 1, "u32"),
    }


def nested() -> bytes:
    g = GGUF()
    inner = struct.pack("<IQ", 4, 2) + struct.pack("<II", 1, 2)
    return g.string("nested.array") + struct.pack("<IIQ", 9, 9, 1) + inner


NAMES = tuple(files())
FIXED = ("unknown-tensor-type", "removed-tensor-type", "truncated-data")


def front(raw: bytes) -> Header:
    return parse_bytes(raw, strict=False)


def data(raw: bytes) -> bytes:
    h = front(raw)
    return raw[h.data_offset :] if h.tensors else b""


def records(h: Header, *without: str) -> list[bytes]:
    return [f.raw for f in h.fields if f.key not in without and not is_filler(f.key)]


def check_untouched(before: bytes, after: bytes, *keys: str) -> Header:
    """Everything but the named keys and the filler is byte for byte what it was, in the same order."""
    old, new = front(before), front(after)
    assert new.layout == old.layout
    assert records(new, *keys) == records(old, *keys)
    assert [t.raw for t in new.tensors] == [t.raw for t in old.tensors]
    assert data(after) == data(before)
    assert new.alignment == old.alignment
    return new


STRATEGIES = (None, "rewrite")


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("name", NAMES)
def test_adding_changing_deleting(name: str, strategy: str | None, tmp_path: Path):
    path = files()[name].write(tmp_path / "m.gguf")
    before = path.read_bytes()
    steps: list[tuple[Operation, ...]] = [
        (Set("my.number", 7, "u16"),),
        (Set("my.number", 8, "u16"), Set("my.list", [1, -2, 3], "[i32]")),
        (Set("general.description", "ä" * 3000),),
        (Delete("my.number"), Rename("my.list", "my.other")),
        (SetElement("my.other", 1, 99),),
    ]
    raws = [before]
    for ops in steps:
        plan = plan_edit(path, ops, strategy=strategy)
        result = plan.commit()
        raws.append(path.read_bytes())
        check_untouched(before, raws[-1], "my.number", "my.list", "my.other", "general.description")
        assert (result.undo is not None) == (result.strategy != "none")
    h = front(raws[-1])
    assert h.get("my.number") is None
    assert list(h.get("my.other").value) == [1, 99, 3]
    assert h.get("my.other").type_name == "arr[i32]"
    assert h.get("general.description").value == "ä" * 3000
    assert original(str(path), hashlib.sha256(before).hexdigest()) == len(steps)
    for raw in reversed(raws[:-1]):
        undo(path)
        assert path.read_bytes() == raw
    assert os.listdir(tmp_path) == ["m.gguf"]


@pytest.mark.parametrize("name", [n for n in NAMES if "no-tensors" not in n])
def test_the_next_edit_is_a_patch(name: str, tmp_path: Path):
    path = files()[name].write(tmp_path / "m.gguf")
    first = plan_edit(path, [Set("my.text", "x" * 9000, "str")])
    assert first.strategy == ("insert" if first.layer.insert_unit(str(tmp_path)) else "rewrite")
    first.commit()
    size = path.stat().st_size
    for i in range(5):
        plan = plan_edit(path, [Set("my.text", "y" * (i * 1000), "str")])
        assert plan.strategy == "patch"
        plan.commit()
    assert path.stat().st_size == size


def test_big_endian_and_old_versions_stay_what_they_are(tmp_path: Path):
    path = llama().big_endian().write(tmp_path / "m.gguf")
    plan_edit(path, [Set("llama.context_length", 0x01020304)]).commit()
    raw = path.read_bytes()
    assert b"llama.context_length" + struct.pack(">II", 4, 0x01020304) in raw
    assert raw[4:8] == struct.pack(">I", 3)
    path = llama().version(1).write(tmp_path / "v1.gguf")
    plan_edit(path, [Set("general.name", "old")]).commit()
    raw = path.read_bytes()
    assert b"general.name" + struct.pack("<II", 8, 3) + b"old" in raw


@pytest.mark.parametrize("name", [n for n in NAMES if n not in FIXED])
@pytest.mark.parametrize("op", [Repack(), Realign(16), Realign(256)], ids=str)
def test_laying_out_anew(name: str, op: Operation, tmp_path: Path):
    """Every tensor has the same bytes at the offset llama.cpp computes; undo brings back what was left out."""
    path = files()[name].write(tmp_path / "m.gguf")
    before = path.read_bytes()
    plan_edit(path, [op], harm="allow").commit()
    after = path.read_bytes()
    old, new = front(before), front(after)
    assert records(new, "general.alignment") == records(old, "general.alignment")
    want = op.alignment if isinstance(op, Realign) else old.alignment
    assert new.alignment == want
    offset = 0
    for a, b in zip(old.tensors, new.tensors, strict=True):
        assert (b.name, b.shape, b.type_id, b.offset) == (a.name, a.shape, a.type_id, offset)
        offset += -(-b.nbytes // want) * want
        start, end = old.where(a)
        at, stop = new.where(b)
        assert after[at:stop] == before[start:end]
    if new.tensors:
        assert len(after) == new.data_offset + offset
    if after != before:
        undo(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", FIXED)
def test_what_cannot_be_laid_out_is_refused(name: str, tmp_path: Path, cli):
    path = files()[name].write(tmp_path / "m.gguf")
    before = path.read_bytes()
    result = cli("fix", path, "--repack")
    assert result.code in (2, 3)
    assert path.read_bytes() == before


def test_a_file_that_is_cut_short_is_called_so(tmp_path: Path, cli):
    path = llama().truncate(-1000).write(tmp_path / "m.gguf")
    before = path.read_bytes()
    result = cli("fix", "--set", "general.name=x", path)
    assert result.code == 0
    assert "1,000 bytes of tensor data are missing" in result.err
    assert cli("undo", path).code == 0
    assert path.read_bytes() == before


def test_strip_and_reserve(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    before = path.read_bytes()
    plan_edit(path, [Reserve(20_000)]).commit()
    h = check_untouched(before, path.read_bytes())
    assert len(h.get(FILLER_KEY).raw) >= 20_000
    assert plan_edit(path, [Reserve(10_000)]).strategy == "none"
    plan_edit(path, [Strip()]).commit()
    assert path.read_bytes() == before
    assert plan_edit(path, [Strip()]).strategy == "none"
    undo(path)
    undo(path)
    assert path.read_bytes() == before


def test_dedupe_keeps_the_first(tmp_path: Path):
    path = files()["duplicate-keys"].write(tmp_path / "m.gguf")
    plan_edit(path, [Dedupe()]).commit()
    h = front(path.read_bytes())
    assert [f.value for f in h.fields if f.key == "general.name"] == ["tiny llama"]
    assert not list(h.duplicates())


def test_a_huge_key_that_goes_leaves_no_huge_filler(tmp_path: Path):
    """Some readers refuse long strings, so the room is given back instead."""
    path = llama().kv("tokenizer.huggingface.json", "x" * (9 << 20)).write(tmp_path / "m.gguf")
    size = path.stat().st_size
    plan = plan_edit(path, [Delete("tokenizer.huggingface.json")])
    assert plan.strategy == "rewrite"
    plan.commit()
    assert path.stat().st_size < size - (8 << 20)
    assert len(front(path.read_bytes()).get(FILLER_KEY).raw) <= 70_000


KEYS = st.sampled_from(["general.name", "llama.context_length", "x.a", "x.b", "general.url", "tokenizer.chat_template"])
VALUES = {
    "general.name": st.text(max_size=300),
    "general.url": st.text(max_size=20),
    "tokenizer.chat_template": st.text(max_size=2000),
    "llama.context_length": st.integers(1, 2**32 - 1),
    "x.a": st.integers(0, 255),
    "x.b": st.lists(st.floats(width=32, allow_nan=False), max_size=50),
}
TYPES = {"x.a": "u8", "x.b": "[f32]"}
STEP = KEYS.flatmap(lambda k: st.one_of(st.just((k, None)), st.tuples(st.just(k), VALUES[k])))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(STEP, min_size=1, max_size=8), st.sampled_from(["plain", "big-endian", "v2", "align-64", "v1"]))
def test_random_edits_against_a_dict(tmp_path: Path, steps: list[tuple[str, object]], name: str):
    for p in tmp_path.iterdir():
        p.unlink()
    path = files()[name].write(tmp_path / "m.gguf")
    before = path.read_bytes()
    expected = {f.key: f.value for f in front(before).fields}
    done = 0
    for key, value in steps:
        if value is None:
            if key not in expected:
                continue
            del expected[key]
            op: Operation = Delete(key)
        else:
            expected[key] = value
            op = Set(key, value, TYPES.get(key))
        done += plan_edit(path, [op], harm="allow").commit().strategy != "none"
    raw = path.read_bytes()
    h = front(raw)
    got = {f.key: f.value for f in h.fields if not is_filler(f.key)}
    assert {k: list(v) if hasattr(v, "tolist") else v for k, v in got.items()} == {
        k: list(v) if hasattr(v, "tolist") else v for k, v in expected.items()
    }
    assert data(raw) == data(before)
    for _ in range(min(done, 5)):
        undo(path)
    if done <= 5:
        assert path.read_bytes() == before
