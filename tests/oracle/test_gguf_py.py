"""Same answers as gguf-py: type tables, values of every field, place of every tensor. Known differences are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.format.types import FILE_TYPES, TENSOR_TYPES, VALUE_TYPES
from gguftool.model import open_model
from tests.build import GGUF, llama

gguf = pytest.importorskip("gguf")
pytestmark = pytest.mark.oracle

# gguf-py 0.19.0 on the package index lacks what b11434 has, although both carry that number.
# Its table gives Q8_1 two 32-bit floats a block; ggml-common.h:block_q8_1 has two 16-bit ones.
WRONG_IN_GGUF_PY = {"Q8_1"}
NEWER_THAN_GGUF_PY = {"Q1_0", "Q2_0", "NVFP4", "MXFP4"}


def test_tensor_types_are_those_of_gguf_py() -> None:
    theirs = {int(t): (t.name, *gguf.GGML_QUANT_SIZES[t]) for t in gguf.GGMLQuantizationType}
    ours = {t.id: (t.name, t.block_size, t.block_bytes) for t in TENSOR_TYPES.values()}
    assert {v[0] for k, v in ours.items() if k not in theirs} <= NEWER_THAN_GGUF_PY
    assert {v[0] for k, v in theirs.items() if ours[k] != v} <= WRONG_IN_GGUF_PY


def test_value_types_are_those_of_gguf_py() -> None:
    short = {"uint": "u", "int": "i", "float": "f", "string": "str", "array": "arr"}
    for t in gguf.GGUFValueType:
        name = t.name.lower()
        for long, letter in short.items():
            if name.startswith(long):
                name = letter + name.removeprefix(long)
        assert VALUE_TYPES[int(t)].name == name


def test_file_types_are_those_of_gguf_py() -> None:
    theirs = {int(t): t.name.removeprefix("MOSTLY_").removeprefix("ALL_") for t in gguf.LlamaFileType}
    theirs.pop(1024)  # GUESSED is a flag
    assert {k: v for k, v in FILE_TYPES.items() if k in theirs} == theirs
    assert {v for k, v in FILE_TYPES.items() if k not in theirs} <= NEWER_THAN_GGUF_PY


def same(path: Path) -> None:
    """Every field and tensor as gguf-py reads them."""
    reader = gguf.GGUFReader(path)
    with open_model(path) as m:
        theirs = {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}
        assert list(theirs) == [f.key for f in m.header.fields]
        for field in m.header.fields:
            want = theirs[field.key].contents()
            got = field.value
            if isinstance(want, list):
                assert list(got) == want, field.key  # type: ignore[call-overload]
            else:
                assert got == want, field.key
        assert len(reader.tensors) == len(m.header.tensors)
        for a, b in zip(reader.tensors, m.all_tensors(), strict=True):
            want = (a.name, tuple(int(d) for d in a.shape), int(a.tensor_type), int(a.data_offset), int(a.n_bytes))
            assert (b.name, b.shape, b.info.type_id, b.offset, b.nbytes) == want


@pytest.mark.parametrize("big", [False, True])
def test_builder_files(tmp_path: Path, big: bool) -> None:
    g = llama(layers=2).kv("x.i", -5).kv("x.u64", 1 << 40, "u64").kv("x.f64", 0.1, "f64").kv("x.b", [True, False])
    g.kv("x.nums", [0.5, 1.5]).kv("x.i8", [-1, 2], "[i8]")
    same((g.big_endian() if big else g).write(tmp_path / "m.gguf"))


def test_other_alignment(tmp_path: Path) -> None:
    same(GGUF("llama").align(128).tensor("a", (32, 3), "q8_0").tensor("b", (7,)).write(tmp_path / "m.gguf"))


def test_a_real_model(smollm2: Path) -> None:
    same(smollm2)


def test_gguf_py_reads_what_we_render(tmp_path: Path, smollm2: Path) -> None:
    """Header parsed, rendered and put in front of the data again is the same file to gguf-py."""
    from gguftool.format.render import padding, render

    with open_model(smollm2) as m:
        h = m.header
        data = m.parts[0].source.read_at(h.data_offset, m.file_size)
        path = tmp_path / "again.gguf"
        path.write_bytes(render(h) + padding(h.end, h.alignment) + data)
    assert path.read_bytes()[:4] == b"GGUF"
    assert [t.name for t in gguf.GGUFReader(path).tensors] == [t.name for t in h.tensors]
