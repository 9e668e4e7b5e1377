"""`gguftool.edit` as a mapping of what will be."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import gguftool
from gguftool.edit.ops import Repack
from gguftool.errors import UsageError
from gguftool.model import open_model
from tests.build import GGUF, llama


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return llama().write(tmp_path / "m.gguf")


def test_it_shows_its_own_changes(path: Path) -> None:
    before = path.read_bytes()
    with gguftool.edit(path) as e:
        assert e["general.name"] == "tiny llama"
        assert e["context_length"] == e["llama.context_length"] == 2048
        e["general.name"] = "Foo"
        e["context_length"] = 1024
        e["general.url"] = "u"
        assert (e["general.name"], e["llama.context_length"], e["general.url"]) == ("Foo", 1024, "u")
        assert "general.url" in e
        assert "context_length" in e
        assert "nothing" not in e
        assert 5 not in e
        assert list(e).index("general.url") < list(e).index("tokenizer.ggml.tokens")
        n = len(e)
        del e["general.url"]
        assert "general.url" not in e
        assert len(e) == n - 1
        with pytest.raises(KeyError):
            e["general.url"]
        with pytest.raises(KeyError):
            del e["general.url"]
        assert e.pop("general.url", "gone") == "gone"
        assert e.setdefault("general.author", "me") == "me"
        e.update({"general.license": "mit"})
        e.set_element("tokenizer.ggml.scores", 2, -7)
        assert list(e["tokenizer.ggml.scores"])[:3] == [0.0, -1.0, -7.0]
        e.rename("general.license", "general.licence")
        assert e["general.licence"] == "mit"
        assert path.read_bytes() == before
        assert len(repr(e)) <= 200
    with open_model(path) as m:
        assert (m["general.name"], m["llama.context_length"], m["general.author"]) == ("Foo", 1024, "me")
        assert "general.url" not in m
        assert m["general.licence"] == "mit"


def test_a_value_that_is_not_possible_is_said_at_once_and_nothing_is_written(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(UsageError, match="expected a string"), gguftool.edit(path) as e:
        e["general.author"] = "me"
        e["general.name"] = 5
    assert path.read_bytes() == before


NUMPY = [
    ("context_length", np.int64(77), "u32", 77),
    ("context_length", np.uint8(77), "u32", 77),
    ("rope.freq_base", np.float32(5.5), "f32", 5.5),
    ("rope.freq_base", np.float64(5.5), "f32", 5.5),
    ("rope.freq_base", np.int32(5), "f32", 5.0),
    ("rope.freq_base", Fraction(11, 2), "f32", 5.5),
    ("tokenizer.ggml.add_bos_token", np.bool_(False), "bool", False),
    ("context_length", np.array(77), "u32", 77),
    ("general.name", np.str_("n"), "str", "n"),
]


@pytest.mark.parametrize(("key", "value", "kind", "want"), NUMPY, ids=[f"{k}-{type(v).__name__}" for k, v, *_ in NUMPY])
def test_scalars_of_numpy(key: str, value: object, kind: str, want: object, path: Path) -> None:
    with gguftool.edit(path) as e:
        e[key] = value
        assert e[key] == want
    with open_model(path) as m:
        full = key if key in m else f"llama.{key}"
        assert (m.fields[full].type_name, m[full]) == (kind, want)


ARRAYS = [
    (np.arange(5, dtype=np.int32), "[i32]", "arr[i32]", [0, 1, 2, 3, 4]),
    (np.array([0.5, 2]), "[f32]", "arr[f32]", [0.5, 2.0]),
    (np.array([True, False]), "[bool]", "arr[bool]", [True, False]),
    (np.array(["a", "b"]), "[str]", "arr[str]", ["a", "b"]),
    ([np.int64(3), 4], "[u16]", "arr[u16]", [3, 4]),
]


@pytest.mark.parametrize(
    ("value", "type_name", "kind", "want"), ARRAYS, ids=[a[2] + str(i) for i, a in enumerate(ARRAYS)]
)
def test_arrays_of_numpy(value: object, type_name: str, kind: str, want: list[object], path: Path) -> None:
    with gguftool.edit(path) as e:
        e.set("my.list", value, type_name)
    with open_model(path) as m:
        assert m.fields["my.list"].type_name == kind
        assert list(m["my.list"]) == want  # type: ignore[call-overload]


def test_an_array_of_two_dimensions_is_refused(path: Path) -> None:
    with pytest.raises(UsageError), gguftool.edit(path) as e:
        e.set("my.list", np.zeros((2, 2)), "[f32]")


def test_operations_as_they_are(tmp_path: Path) -> None:
    path = llama().write(tmp_path / "m.gguf")
    data = path.read_bytes()
    path.write_bytes(data + b"behind")
    with gguftool.edit(path) as e:
        e.do(Repack())
    assert path.stat().st_size <= len(data)


def test_a_file_without_an_architecture(tmp_path: Path) -> None:
    path = GGUF(None).kv("my.key", 5, "u32").write(tmp_path / "m.gguf")
    with gguftool.edit(path) as e:
        assert "context_length" not in e
        assert "my.key" in e
        with pytest.raises(UsageError, match="architecture prefix"):
            e["context_length"] = 5
        e["my.key"] = 6
    with open_model(path) as m:
        assert m["my.key"] == 6
