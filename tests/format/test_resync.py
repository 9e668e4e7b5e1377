"""A value type newer than we are: stepped over only when one length alone makes everything behind it right."""

from __future__ import annotations

import struct
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gguftool.format.parse import parse_bytes
from gguftool.format.resync import walk_past
from gguftool.source import Memory
from tests.build import GGUF, llama


def future(value: bytes, *, type_id: int = 77, more: int = 0, tensors: bool = True) -> tuple[GGUF, bytes]:
    """A model with one value of an unknown type in the middle, and that record."""
    g = llama(tokens=3) if tensors else GGUF("llama")
    record = g.string("from.the.future") + struct.pack("<I", type_id) + value
    g.raw_kv(record)
    for i in range(more):
        g.raw_kv(g.string(f"future.{i}") + struct.pack("<I", type_id) + value)
    return g.kv("last.key", 5, "u8").kv("general.url", "somewhere"), record


def found(raw: bytes):
    header = parse_bytes(raw, strict=False)
    assert [p.kind for p in header.problems if p.fatal] == ["unknown-value-type"]
    return walk_past(Memory(raw), header)


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300), st.integers(0, 3))
def test_the_length_that_is_found_is_the_true_one(value: bytes, more: int):
    g, record = future(value, more=more)
    header = found(g.bytes())
    assert header is not None
    field = header.get("from.the.future")
    assert field.raw == record
    assert bytes(field.value_bytes) == value
    assert header.get("last.key").value == 5
    assert header.get("general.url").value == "somewhere"
    assert len(header.tensors) == header.declared_tensors
    assert header.complete


def test_array_of_an_unknown_type():
    g = llama(tokens=3)
    g.raw_kv(g.string("future.list") + struct.pack("<IIQ", 9, 55, 4) + bytes(range(4 * 16))).kv("last.key", 5, "u8")
    header = found(g.bytes())
    assert header is not None
    assert bytes(header.get("future.list").value_bytes) == bytes(range(64))


@pytest.mark.parametrize("order", ["big", "v1"])
def test_other_layouts(order: str):
    g = llama(tokens=3)
    g = g.big_endian() if order == "big" else g.version(1)
    g.raw_kv(g.string("future") + struct.pack(">I" if order == "big" else "<I", 77) + b"\1\2\3").kv("last.key", 5, "u8")
    header = found(g.bytes())
    assert header is not None
    assert bytes(header.get("future").value_bytes) == b"\1\2\3"


def test_a_value_that_looks_like_the_records_behind_it():
    """Two lengths fit: the value begins with what could be the last fields and all tensors. Nothing is guessed."""
    g = GGUF("llama")
    tail = g.record("last.key", 5, "u8") + g.string("t") + struct.pack("<IQIQ", 1, 4, 0, 0)
    record = g.string("future") + struct.pack("<I", 77) + tail + bytes(64)
    raw = g.raw_kv(record).kv("last.key", 5, "u8").tensor("t", (4,)).bytes() + bytes(4096)
    assert found(raw) is None


def test_without_tensors_there_is_no_evidence():
    g, _ = future(b"\1\2\3\4", tensors=False)
    assert found(g.bytes()) is None


def test_two_unknown_types_are_too_many():
    g, _ = future(b"\1\2\3\4")
    g.raw_kv(g.string("another") + struct.pack("<I", 78) + b"\1")
    assert found(g.bytes()) is None


def test_a_gap_in_the_tensors_is_no_evidence():
    g, _ = future(b"\1\2\3\4")
    assert found(g.gap("output_norm.weight", 64).bytes()) is None


def test_truncated_data_is_no_evidence():
    g, _ = future(b"\1\2\3\4")
    raw = g.bytes()
    assert found(raw[: len(raw) // 2]) is None


@pytest.mark.parametrize(
    "args", [["--context-length", "5"], ["--set", "general.author=me"], ["--delete", "from.the.future"]]
)
def test_such_a_file_can_be_edited(args: list[str], tmp_path: Path, cli):
    g, record = future(b"\x01\x02\x03\x04\x05")
    path = g.write(tmp_path / "m.gguf")
    before = path.read_bytes()
    result = cli("fix", path, *args)
    assert result.code == 0, result.err
    after = path.read_bytes()
    assert (record in after) == ("--delete" not in args)
    old, new = found(before), found(after) if "--delete" not in args else parse_bytes(after)
    assert after[new.data_offset :] == before[old.data_offset :]
    assert cli("undo", path).code == 0
    assert path.read_bytes() == before


def test_thousands_of_lengths_that_all_but_fit_are_given_up() -> None:
    # Behind the unknown value stand records of 14 bytes: each is a beginning, and behind the last one nothing is right.
    g = GGUF("llama").raw_kv(GGUF().string("x") + struct.pack("<I", 77))
    for i in range(4600):
        g.raw_kv(GGUF().string("k") + struct.pack("<IB", 0, i & 1))
    data = g.tensor("t", (32,)).bytes()
    for counts in (0, -2300):
        raw = bytearray(data)
        fields = struct.unpack_from("<Q", raw, 16)[0]
        struct.pack_into("<Q", raw, 16, fields + counts)
        before = time.process_time()
        assert found(bytes(raw)) is None
        assert time.process_time() - before < 5
