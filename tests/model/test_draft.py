"""The bytes of a file that is not written yet."""

from __future__ import annotations

from random import Random

from gguftool.edit.ops import Set, apply
from gguftool.model import from_source, with_header
from gguftool.source import Memory
from tests.build import llama


def test_it_reads_as_the_file_that_would_be_written():
    old = llama().replace("general.name", "a").bytes()
    new = llama().replace("general.name", "x" * 700).bytes()
    m = from_source(Memory(old, "m.gguf"), strict=True)
    source = with_header(m, apply((Set("general.name", "x" * 700, "str"),), m.header)).parts[0].source
    end = new.index(b"general.name") + 12 + 4 + 8 + 700
    rng = Random(1)
    for _ in range(500):
        begin, n = rng.randrange(end), rng.choice((0, 1, 5, 40, 900))
        assert source.read_at(begin, min(n, end - begin)) == new[begin : min(begin + n, end)]
    assert source.read_at(source.size - 3, 10) == bytes(3)
    assert source.read_at(source.size + 3, 10) == b""
