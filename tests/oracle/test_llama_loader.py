"""The real llama.cpp library loads what we write and refuses what we call broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.format.render import padding, render
from gguftool.model import open_model
from tests.build import GGUF, llama
from tests.oracle.llama import greedy, load

pytestmark = pytest.mark.oracle
ROOT = Path(__file__).resolve().parents[2]


def test_the_fixture_loads_and_decodes() -> None:
    path = ROOT / "fixtures" / "tiny-llama.gguf"
    answer = load(path, n_ctx=256)
    assert answer.ok, answer.errors
    assert len(greedy(path, [1, 40], 4)) == 4


@pytest.mark.parametrize("version", [2, 3])
def test_a_rendered_header_loads(tmp_path: Path, version: int) -> None:
    source = llama(layers=2).version(version).write(tmp_path / "source.gguf")
    with open_model(source) as m:
        h = m.header
        data = m.parts[0].source.read_at(h.data_offset, m.file_size)
    path = tmp_path / "again.gguf"
    path.write_bytes(render(h) + padding(h.end, h.alignment) + data)
    assert load(path).ok


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (llama().truncate(-1000), "data is not within the file bounds"),
        (llama().truncate(300), "failed to read"),
        (llama().gap("output_norm.weight", 32), "has offset"),
        (llama().kv("llama.block_count", 1), "duplicate key"),
        (llama().version(1), "GGUFv1 is no longer supported"),
        (llama().align(48), "is not a power of 2"),
        (llama().kv("general.alignment", 32, "i32"), "must be of type u32"),
        (llama().replace("llama.context_length", 2048, "i32"), "has wrong type i32 but expected type u32"),
        (llama().drop("llama.context_length"), "key not found in model: llama.context_length"),
        (GGUF().tensor("w"), "unknown model architecture: ''"),
    ],
)
def test_what_is_broken_is_refused_by_the_library(tmp_path: Path, broken: GGUF, says: str) -> None:
    answer = load(broken.write(tmp_path / "m.gguf"))
    assert answer.verdict == "refused"
    assert any(says in line for line in answer.errors), answer.errors
