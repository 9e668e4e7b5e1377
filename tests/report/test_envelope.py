from __future__ import annotations

import io
import json
from pathlib import Path

import numpy
import pytest

from gguftool.report.envelope import dumps, envelope, write
from gguftool.version import __version__
from tests.json_schemas import SCHEMAS, check_schema, validator


def test_envelope():
    found = envelope("check-log", True, {"lines": 3})
    assert list(found.items()) == [
        ("format", "gguftool.check-log/1"),
        ("tool", {"name": "gguftool", "version": __version__}),
        ("ok", True),
        ("lines", 3),
        ("errors", []),
    ]
    validator("envelope").validate(found)


def test_a_command_cannot_overwrite_the_envelope():
    assert envelope("dump", False, {"ok": True, "format": "x", "errors": [1]})["ok"] is False


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (float("nan"), '"NaN"'),
        (float("-inf"), '"-Infinity"'),
        (b"abc\xff", '"abc\\\\xff"'),
        ("x\udcff", '"x\\\\xff"'),
        ("\ud800", '"\\\\ud800"'),
        ("日本", '"日本"'),
        ((1, 2), "[1,2]"),
        (Path("a/b"), '"a/b"'),
        (numpy.float32(0.5), "0.5"),
        (numpy.array([1, 2]), "[1,2]"),
        ({b"k": numpy.float32("nan")}, '{"k":"NaN"}'),
        (2**64 - 1, "18446744073709551615"),
    ],
)
def test_dumps(value: object, text: str):
    assert dumps(value, compact=True) == text
    json.loads(text.encode(), parse_constant=pytest.fail)


def test_dumps_refuses_what_has_no_json_form():
    with pytest.raises(TypeError, match="object has no JSON form"):
        dumps(object())


def test_write_is_utf8_whatever_the_terminal():
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    stream.write("before\n")
    write({"a": "日"}, stream, compact=True)
    assert raw.getvalue() == 'before\n{"a":"日"}\n'.encode()


@pytest.mark.parametrize("path", sorted(SCHEMAS.glob("*.json")), ids=lambda path: path.name)
def test_schemas_are_schemas(path: Path):
    assert path.name.endswith(".schema.json")
    assert json.loads(path.read_text())["$id"] == f"gguftool:{path.name.removesuffix('.schema.json')}"
    validator(path.name.removesuffix(".schema.json"))


def test_an_error_needs_only_the_envelope():
    check_schema(envelope("dump", False, {}, [{"code": "usage", "message": "m", "hint": None}]))
