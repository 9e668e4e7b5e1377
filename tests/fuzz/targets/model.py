"""The typed views of a model: overview, roles, vocabulary, byte map, what is said of it."""

from __future__ import annotations

from pathlib import Path
from random import Random

from gguftool.model import from_source
from gguftool.model.bytemap import regions
from gguftool.model.overview import overview
from gguftool.model.role import role, what_it_is
from gguftool.model.vocab import vocabulary
from gguftool.report.overview import memory_line, overview_lines
from gguftool.report.text import Style
from gguftool.source import Memory
from tests.fuzz import gguf
from tests.fuzz.target import Target, ours


def run(data: bytes, folder: Path, rng: Random) -> None:
    """Look at it in every way."""
    with ours():
        m = from_source(Memory(data, "m.gguf"), strict=False)
        o = overview(m)
        list(overview_lines(o, memory_line(m, o), Style(enabled=False)))
        role(m)
        what_it_is(m)
        repr(m)
        [list(regions(part)) for part in m.parts]
        vocabulary(m)


TARGET = Target(gguf.corpus, gguf.mutate, run)
