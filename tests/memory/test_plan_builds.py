"""`gguftool plan` for a build by its number, and what it says of estimates that nobody measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.giants import whole


def test_a_build_that_is_named(cli, llama: Path):
    """`-fa` is a switch before b6325: what is not said is off; logits for every token are reserved before b9713."""
    r = cli("plan", llama, "--ctx", "8192", "--ram", "64GiB", "--vram", "none", "--build", "b6123", "--format", "json")
    assert r.code == 0
    assert "-fa" not in r.json["command"]
    assert next(x["value"] for x in r.json["assumptions"] if x["name"] == "flash_attn") == "off"
    said = cli("plan", llama, "--ctx", "8192", "--ram", "64GiB", "--vram", "none", "--build", "b6123")
    assert "-4 … +9 % of what builds before b9713 reserved" in said.out
    today = cli("plan", llama, "--ctx", "8192", "--ram", "64GiB", "--vram", "none", "--build", "b11434")
    assert "met to the byte in all 128 measured buffers of this class" in today.out
    quantised = ("plan", llama, "--ctx", "8192", "--cache-type", "q8_0", "--build", "6123", "--format", "json")
    assert "-fa" in cli(*quantised).json["command"]


def test_a_build_that_does_not_load_it(cli, llama: Path):
    """The builds of before take no MXFP4, which came with b6096 (pull request 15091)."""
    r = cli("plan", whole("gpt-oss-20b", llama.parent), "--ctx", "4096", "--ram", "64GiB", "--build", "b5904")
    assert r.code == 1
    assert "llama.cpp b5904 does not load it: " in r.out
    assert "it needs llama.cpp b6096 or newer" in r.out


def test_a_build_and_a_program_are_one_too_many(cli, llama: Path):
    assert cli("plan", llama, "--build", "b6123", "--measure").code == 2
    assert cli("plan", llama, "--build", "latest").code == 2


def test_what_no_real_gpu_has_shown(cli, llama: Path):
    r = cli("plan", llama, "--ctx", "4096", "--vram", "24GiB", "--ram", "64GiB")
    assert "no real GPU of that kind was measured" in r.out
    host = cli("plan", llama, "--ctx", "4096", "--vram", "none", "--ram", "64GiB")
    assert "no real GPU" not in host.out


def test_what_stays_estimated_beside_a_measured_context(cli, smollm2: Path):
    pytest.importorskip("xllamacpp")
    asked = ("plan", smollm2, "--ctx", 4096, "--measure", "--vram", "none", "--ram", "64GiB")
    beside = cli(*asked, "--model-draft", smollm2)
    assert "measured is the model's own context; the contexts that draft stay estimated" in beside.out
    assert "stay estimated" not in cli(*asked).out
