"""The program beside its buffers, held against what `./dev bench-program` measured of the real one."""

from __future__ import annotations

import pytest

from gguftool.facts.arch import Hparams
from gguftool.memory.program import MIB, graphs, program, vocabulary
from gguftool.memory.settings import Settings, context
from gguftool.model import from_source
from gguftool.source import Memory
from tests.build import llama

MEASURED = (
    # tokenizer, tokens, merges, MiB of anonymous memory at the start (b11434, CPU, four threads; 0.7 to 11.5 MiB of
    # it are buffers, of which little is written to)
    ("gpt2", 100008, 99743, 43.4), ("llama", 64000, 0, 16.7), ("gpt2", 256000, 253333, 98.9),
    ("gpt2", 32256, 31757, 14.0), ("gpt2", 102400, 99757, 39.1), ("gpt2", 65024, 64784, 26.7),
    ("gemma4", 262144, 514906, 130.8),
    ("gpt2", 50257, 50000, 20.2), ("gpt2", 128256, 280147, 71.1), ("llama", 32000, 0, 10.5),
    ("gpt2", 151936, 151387, 58.4), ("gpt2", 49152, 48900, 21.6), ("llama", 262144, 0, 60.7), ("t5", 250048, 0, 144.5),
    ("bert", 30522, 0, 9.1),
)  # fmt: skip


@pytest.mark.parametrize(("kind", "tokens", "merges", "real"), MEASURED)
def test_a_vocabulary_is_what_the_real_program_keeps_of_it(kind: str, tokens: int, merges: int, real: float) -> None:
    keys = {"tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": merges}
    hp = Hparams("llama", {"tokenizer.ggml.model": kind}.get, count=lambda key: keys.get(key, 0))
    found = program(hp, vocabulary(hp, tokens) + graphs(hp, context(hp, Settings(256)), 12))
    assert found.basis == "measured"
    assert -2 <= found.own / MIB - real <= 6


def test_graphs_of_many_nodes_are_counted() -> None:
    """A tiny qwen35 of 4,096 tokens with -ub 128 and 2048: 12.8 and 77.8 MiB, of which 1.9 and 29.2 are a buffer that
    is hardly written to; two of its three graphs had been made. One without such graphs: 12.85 and 12.87 MiB."""
    for arch, grown in (("qwen35", 77.8 - 12.8), ("qwen3", 0.0)):
        hp = Hparams(arch, {}.get, count=lambda key: 0)
        small, large = (graphs(hp, context(hp, Settings(4096, ubatch=n)), 30) / MIB for n in (128, 2048))
        assert 2 / 3 * (large - small) == pytest.approx(grown, rel=0.02, abs=0.1)


def test_the_count_decodes_nothing() -> None:
    m = from_source(Memory(llama(tokens=32).bytes()))
    assert m.arch.entries("tokenizer.ggml.tokens") == 291
    assert m.arch.entries("tokenizer.ggml.merges") == m.arch.entries("tokenizer.ggml.model") == 0
