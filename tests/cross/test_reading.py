"""One reader for JSON and one for TOML: what somebody else wrote ends in a clear error, never in a bug of ours."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import gguftool
from gguftool.errors import UsageError
from gguftool.format.values import parse_text
from gguftool.reading import Malformed, file_bytes, from_json, from_toml, from_yaml, json_file

ROOM = Path(gguftool.__file__).parent
NOT_OURS = (
    # What its own processes say to each other.
    "build/converter_driver.py", "build/distancechild.py", "build/pieces.py",
    "build/libworker.py", "build/rowworker.py", "run/hfchild.py", "run/hftokens.py", "run/tokens.py",
    "run/measure.py", "run/divergencechild.py", "run/imatrixchild.py", "run/child.py", "chat/engine/program.py",
    "run/sensechild.py",
    "chat/engine/server.py", "reading.py",
)  # fmt: skip


def test_nobody_else_reads_json_or_toml() -> None:
    found = set()
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if called in ("json.load", "json.loads", "json.JSONDecoder", "tomllib.load", "tomllib.loads"):
                found.add(path.relative_to(ROOM).as_posix())
    assert found - set(NOT_OURS) == set()
    assert set(NOT_OURS) - found == set(), "no longer needed"


BAD_JSON = {
    "deep list": b"[" * 100_000,
    "deep and whole": b"[" * 500 + b"]" * 500,
    "deep object": b'{"a":' * 100_000,
    "long number": b"[" + b"9" * 5000 + b"]",
    "large float": b"[1e999]",
    "negative large float": b"[-1e999]",
    "no UTF-8": b'"\xff"',
    "half a pair": b'"\\ud800"',
    "half a pair in a key": b'{"\\uDFFF": 1}',
    "cut": b'{"a": ',
    "nothing": b"",
    "other digits": '{"a": \u0661}'.encode(),
    "two values": b"{} {}",
}


@pytest.mark.parametrize("name", BAD_JSON)
def test_bad_json(name: str, tmp_path: Path) -> None:
    with pytest.raises(Malformed):
        from_json(BAD_JSON[name])
    path = tmp_path / "x.json"
    path.write_bytes(BAD_JSON[name])
    with pytest.raises(UsageError, match=r"x\.json: (is|holds) "):
        json_file(path)


def test_good_json_stays_as_it_is() -> None:
    for value in ({"a": [1, -2, 3.5, None, True, "\U0001f600 é"]}, [[[[]]]], 10**30, {"x": {"y": "\\ud800"}}):
        for text in (
            json.dumps(value),
            json.dumps(value, ensure_ascii=False).encode(),
            json.dumps(value).encode("utf-16"),
        ):
            assert from_json(text) == value
    assert from_json('[0.0, Infinity, "\\ud83d\\ude00"]') == [0.0, float("inf"), "\U0001f600"]
    assert from_json('"\\udcff"', halves=True) == "\udcff"


BAD_TOML = {
    "deep": b"a = " + b"[" * 100_000,
    "deep by dots": b".".join([b"a"] * 3000) + b" = 1",
    "long number": b"a = " + b"9" * 5000,
    "number of 60 digits": b"a = [" + b"9" * 60 + b"]",
    "no UTF-8": b'a = "\xff"',
    "half a pair": b'a = "\\ud800"',
    "cut": b"[lint",
}


@pytest.mark.parametrize("name", BAD_TOML)
def test_bad_toml(name: str, tmp_path: Path, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Malformed):
        from_toml(BAD_TOML[name])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gguftool.toml").write_bytes(BAD_TOML[name])
    done = cli("lint", "x.gguf")
    assert (done.code, "gguftool.toml: " in done.err) == (2, True), done.err


def test_a_file_is_not_read_beyond_its_limit(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(2 << 20))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        file_bytes(tmp_path / "x", 1 << 20)


@pytest.mark.parametrize(
    ("text", "said"),
    [('[tool]\ngguftool = "x"\n', "tool.gguftool must be a table"), ('tool = "gguftool tool.gguftool"\n', "")],
)
def test_a_pyproject_above(text: str, said: str, tmp_path: Path, cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.build import llama

    (tmp_path / "pyproject.toml").write_text(text)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    llama().write(inner / "m.gguf")
    monkeypatch.chdir(inner)
    done = cli("lint", "m.gguf", "--exit-zero")
    assert (done.code, said in done.err) == (2 if said else 0, True), done.err


@pytest.mark.parametrize("kind", ["f32", "f64", "[f32]"])
def test_a_number_that_is_too_large_is_not_taken_for_infinity(kind: str) -> None:
    for word in ("1e999", "-1e999"):
        with pytest.raises(UsageError, match="does not fit"):
            parse_text(kind, word)
    assert parse_text("f64", "inf") == float("inf")


BAD_YAML = {
    "deep": "[" * 5000,
    "whole and deep": "[" * 300 + "]" * 300,
    "references to references": "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "an object of Python": "a: !!python/object/apply:os.system [id]\n",
    "no such day": "a: 2024-99-99\n",
    "no UTF-8": b"a: \xff\n",
    "two documents": "a: 1\n---\nb: 2\n",
    "cut": "a: [1, 2",
    "control characters": "a: \x00\n",
    "a long number": "a: " + "9" * 5000,
    "keys that are lists": "? [a]\n: 1\n",
}


@pytest.mark.parametrize("name", BAD_YAML)
def test_bad_yaml(name: str) -> None:
    with pytest.raises(Malformed, match=r"^(is|holds|uses) "):
        from_yaml(BAD_YAML[name])


def test_yaml() -> None:
    assert from_yaml('license: mit\nlanguage:\n- en\n- "no"\n') == {"license": "mit", "language": ["en", "no"]}
    assert from_yaml("") is None
    assert from_yaml("name: 5 * 3\n") == {"name": "5 * 3"}
