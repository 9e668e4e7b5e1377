"""A model as a mapping of its metadata, its tensors as numpy arrays, and how both show themselves."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import pytest

from gguftool.errors import FormatError
from gguftool.format.types import TENSOR_TYPE_BY_NAME, TENSOR_TYPES
from gguftool.model import Model, from_source, open_model
from gguftool.source import Memory
from tests.build import GGUF, llama


def opened(g: GGUF) -> Model:
    return from_source(Memory(g.bytes(), "m.gguf"), strict=False)


def test_a_model_is_the_mapping_of_its_metadata() -> None:
    g = GGUF("llama").kv("general.name", "tiny").kv("llama.context_length", 2048).kv("my.list", [1, 2], "[u32]")
    m = opened(g)
    assert isinstance(m, Mapping)
    assert list(m) == list(m.keys()) == ["general.architecture", "general.name", "llama.context_length", "my.list"]
    assert len(m) == 4
    assert dict(m) == {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.context_length": 2048,
        "my.list": m["my.list"],
    }
    assert list(m["my.list"]) == [1, 2]
    assert dict(m.items())["llama.context_length"] == 2048
    assert "tiny" in list(m.values())
    assert "general.name" in m
    assert 5 not in m
    with pytest.raises(KeyError):
        m["general.nothing"]
    assert m.get("general.nothing", 7) == 7
    assert m == m
    assert m != opened(g)
    assert {m: 1}[m] == 1
    assert bool(opened(GGUF(None)))
    assert len(opened(GGUF(None))) == 0


def test_of_duplicate_keys_the_first_counts_once() -> None:
    m = opened(GGUF("llama").kv("my.key", 1, "u32").kv("my.key", 2, "u32"))
    assert m["my.key"] == 1
    assert list(m).count("my.key") == 1
    assert len(m) == len(list(m))


NUMBERS = {"F32": "f", "F16": "e", "F64": "d", "I8": "b", "I16": "h", "I32": "i", "I64": "q"}


@pytest.mark.parametrize("name", NUMBERS)
def test_plain_tensors_as_numpy(name: str, tmp_path: Path) -> None:
    import numpy as np

    values = [1, -2, 3, 4, -5, 6]
    data = struct.pack(f"<6{NUMBERS[name]}", *values)
    m = opened(GGUF("llama").tensor("a", (3, 2), TENSOR_TYPE_BY_NAME[name].id, data))
    a = m.tensors["a"].numpy()
    assert a.dtype == np.dtype("<" + NUMBERS[name])
    assert a.shape == (2, 3)
    assert a.tolist() == [[1, -2, 3], [4, -5, 6]]
    assert not a.flags.writeable
    w = m.tensors["a"].dequantized()
    assert (w.dtype, w.shape, w.tolist()) == (np.dtype("float32"), (2, 3), a.tolist())


def test_every_type_of_the_real_library_reads_as_gguf_py_reads_it(tmp_path: Path) -> None:
    """`gguf.GGUFReader` is the reference for shape and bytes, `gguf.dequantize` for the numbers."""
    import gguf
    import numpy as np

    rng = np.random.default_rng(5)
    g = GGUF("llama")
    for t in TENSOR_TYPES.values():
        kind = gguf.GGMLQuantizationType.__members__.get(t.name)
        # gguf-py takes a block of Q8_1 for 40 bytes; in ggml it has 36 (ggml-common.h:block_q8_1).
        if kind is not None and gguf.GGML_QUANT_SIZES[kind] == (t.block_size, t.block_bytes):
            n = 512 // t.block_size * t.block_bytes * 3
            g.tensor(f"t.{t.name}", (512, 3), t.id, rng.integers(0, 60, n, dtype=np.uint8).tobytes())
    path = g.write(tmp_path / "m.gguf")
    seen = 0
    with open_model(path) as m:
        for theirs in gguf.GGUFReader(path).tensors:
            ours = m.tensors[theirs.name]
            a = ours.numpy()
            assert a.shape == theirs.data.shape, theirs.name
            assert a.tobytes() == theirs.data.tobytes(), theirs.name
            try:
                want = gguf.dequantize(theirs.data, theirs.tensor_type)
            except NotImplementedError:
                if ours.type_name not in NUMBERS:
                    with pytest.raises(FormatError, match="cannot be turned into numbers"):
                        ours.dequantized()
                continue
            got = ours.dequantized()
            assert got.shape == (3, 512)
            assert np.array_equal(got, want.reshape(3, 512), equal_nan=True), theirs.name
            seen += 1
    assert seen > 15


def test_a_cut_tensor_is_an_error_with_its_place() -> None:
    data = GGUF("llama").tensor("a", (256,)).bytes()
    m = from_source(Memory(data[:-600], "m.gguf"), strict=False)
    with pytest.raises(FormatError, match="passes the end"):
        m.tensors["a"].numpy()
    with pytest.raises(KeyError):
        m.read("b")


def test_showing_a_model_is_one_line(gemma3: Path) -> None:
    with open_model(gemma3) as m:
        objects = [m, m.tensors, m.fields, m.header, m.parts, m.arch, m.tensors["token_embd.weight"]]
        objects += [*m.fields.values(), *m.tensors.values(), m.parts[0]]
        for one in objects:
            assert len(repr(one)) <= 200, type(one)
        assert repr(m).startswith("Model(")
        assert "gemma3" in repr(m)
        assert "'token_embd.weight', Q8_0" in repr(m.tensors["token_embd.weight"])
        html = m._repr_html_()
        assert "tokenizer.ggml.tokens" in html
        assert len(html) < 50_000


def test_hostile_text_in_what_is_shown() -> None:
    g = llama().kv("general.description", "<script>alert(1)</script>\x1b[2J" + "x" * 10**6).kv("<b>\n" + "k" * 9999, 1)
    m = opened(g)
    for one in (m, m.fields, *m.fields.values()):
        assert len(repr(one)) <= 200
        assert "\x1b" not in repr(one)
        assert "\n" not in repr(one)
    assert "<script>" not in m._repr_html_()
    assert "<b>" not in m._repr_html_()
    assert len(m._repr_html_()) < 50_000
