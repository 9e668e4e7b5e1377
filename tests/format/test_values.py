"""Values: text to Python to bytes, and what is refused. Bytes are checked against the format, not our own output."""

from __future__ import annotations

import struct

import pytest

from gguftool.errors import UsageError
from gguftool.format.types import Layout
from gguftool.format.values import make_field, nearest_type, parse_text, parse_type


@pytest.mark.parametrize(
    ("type", "text", "value"),
    [
        ("u32", "0x20", 32), ("u32", "0032", 32), ("i32", "-7", -7), ("f32", "1e-5", 1e-5), ("bool", "false", False),
        ("bool", "On", True), ("str", " a,b ", " a,b "), ("[u32]", "1,2,3", [1, 2, 3]), ("[str]", "a,b", ["a", "b"]),
        ("[str]", '["a,b", "c"]', ["a,b", "c"]), ("[bool]", "true,0", [True, False]), ("[f32]", "", []),
        ("[i32]", "[1, -2]", [1, -2]), ("arr[u8]", "1", [1]), ("uint32", "5", 5),
    ],
)  # fmt: skip
def test_text_to_value(type: str, text: str, value: object) -> None:
    assert parse_text(type, text) == value


@pytest.mark.parametrize(
    ("type", "text"),
    [
        ("u32", "1.5"),
        ("u32", "true"),
        ("bool", "2"),
        ("bool", "maybe"),
        ("f32", "1e39"),
        ("f32", "x"),
        ("[u32]", "1,x"),
    ],
)
def test_text_that_is_refused(type: str, text: str) -> None:
    with pytest.raises(UsageError):
        parse_text(type, text)


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("u8", 256),
        ("u8", -1),
        ("i8", 128),
        ("u64", 1 << 64),
        ("u32", 1.0),
        ("u32", True),
        ("bool", 1),
        ("str", 5),
        ("[u8]", 5),
        ("f32", 1e39),
    ],
)
def test_values_that_do_not_fit(type: str, value: object) -> None:
    with pytest.raises(UsageError):
        make_field("k", type, value)


def test_unknown_type_lists_the_types() -> None:
    with pytest.raises(UsageError) as e:
        parse_type("u33")
    assert "u32" in str(e.value.hint)
    with pytest.raises(UsageError):
        parse_type("arr")


def test_bytes_of_a_field_follow_the_format() -> None:
    key = struct.pack("<Q", 1) + b"k"
    assert make_field("k", "u32", 7).raw == key + struct.pack("<II", 4, 7)
    assert make_field("k", "bool", True).raw == key + struct.pack("<I", 7) + b"\1"
    assert make_field("k", "str", "é").raw == key + struct.pack("<IQ", 8, 2) + "é".encode()
    assert make_field("k", "[i16]", [1, -1]).raw == key + struct.pack("<IIQhh", 9, 3, 2, 1, -1)
    big = make_field("k", "[str]", ["ab"], Layout(3, True))
    assert big.raw == struct.pack(">Q", 1) + b"k" + struct.pack(">IIQQ", 9, 8, 1, 2) + b"ab"
    old = make_field("k", "str", "ab", Layout(1, False))
    assert old.raw == struct.pack("<I", 1) + b"k" + struct.pack("<II", 8, 2) + b"ab"


@pytest.mark.parametrize(
    ("value", "type"),
    [
        (True, "bool"),
        (1, "u32"),
        (-1, "i32"),
        (1 << 40, "i64"),
        (1 << 63, "u64"),
        (0.5, "f32"),
        ("x", "str"),
        ([1, -1], "[i32]"),
        (["a"], "[str]"),
    ],
)
def test_nearest_type(value: object, type: str) -> None:
    assert nearest_type(value) == type


def test_nothing_fits() -> None:
    for value in ([], None, [1, "a"], 1 << 70):
        with pytest.raises(UsageError):
            nearest_type(value)
