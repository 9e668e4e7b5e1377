"""The ways that fit, side by side: each is what `plan` says with the options of its command."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.memory.giants import whole
from tests.pace import within


def asked(name: str, folder: Path, ctx: int, vram: str) -> list[object]:
    return [whole(name, folder), "--ctx", ctx, "--vram", vram, "--ram", "64GiB", "--bandwidth", "RTX 4080"]


@pytest.mark.parametrize(
    ("name", "ctx", "vram"),
    [
        ("qwen3-next-80b", 262144, "16GiB"),
        ("qwen3-30b-a3b", 40960, "12GiB"),
        ("llama-3.1-8b", 131072, "12GiB"),
        ("llama-3.1-70b", 32768, "24GiB,24GiB"),
    ],
)
def test_every_way_fits_and_its_command_says_the_same(cli, tmp_path: Path, name: str, ctx: int, vram: str):
    words = asked(name, tmp_path, ctx, vram)
    ways = cli("plan", *words, "--format", "json").json["choices"]
    assert 2 <= len(ways) <= 6
    assert ways[0]["keeps"].startswith("recommended")
    for way in ways:
        *before, command = way["commands"]
        assert command[:2] == ["gguftool", "launch"]
        if before:
            continue  # smaller weights that are yet to be made
        again = cli("plan", *command[2:], "--format", "json").json
        assert again["fits"] is True
        assert again["total"]["bytes"] == way["total"]
        assert [d["total"] for d in again["devices"]] == [d["total"] for d in way["devices"]]
        assert again["speed"]["start"] == way["speed"]["start"]
        assert [x["kept"] for x in again["steps"]] == [True]


def test_moving_experts_comes_before_a_smaller_cache(cli, tmp_path: Path):
    words = asked("qwen3-next-80b", tmp_path, 262144, "16GiB")
    first, *others = cli("plan", *words, "--format", "json").json["choices"]
    assert first["type_k"] == "q8_0"
    assert first["cpu_moe"] > 0
    assert "f16" in [x["type_k"] for x in others]
    text = cli("plan", *words)
    assert "ways that fit" in text.out
    assert "next to no loss" in text.out
    short = cli("launch", *words, "--print")
    assert "--cache-type f16 --n-cpu-moe" in short.err


def test_the_ways_of_a_dense_model(cli, tmp_path: Path):
    ways = cli("plan", *asked("llama-3.1-8b", tmp_path, 131072, "12GiB"), "--format", "json").json["choices"]
    # everything on the device: a smaller context; the whole context as asked: layers on the host
    assert any(x["context"] < 131072 and x["type_k"] == "f16" and x["gpu_layers"] is None for x in ways)
    assert any(x["context"] == 131072 and x["type_k"] == "f16" and x["gpu_layers"] for x in ways)


def test_smaller_weights_beside_the_model_are_named(cli, tmp_path: Path):
    path = whole("qwen3-30b-a3b", tmp_path)
    ways = cli("plan", path, "--ctx", 40960, "--vram", "16GiB", "--ram", "64GiB", "--format", "json").json["choices"]
    made = [x for x in ways if x["ftype"]]
    assert len(made) == 1
    assert made[0]["commands"][0][:2] == ["gguftool", "quantize"]
    assert made[0]["file"] is None


def test_nothing_is_offered_where_the_wish_fits(cli, tmp_path: Path):
    r = cli("plan", *asked("llama-3.1-8b", tmp_path, 8192, "24GiB"), "--format", "json")
    assert r.json["choices"] == []


def test_it_is_quick(cli, tmp_path: Path):
    from gguftool import plan

    path = whole("deepseek-v3", tmp_path)
    plan(path, ctx=163840, vram="48GiB", ram="512GiB")
    with within(1):
        plan(path, ctx=163840, vram="48GiB", ram="512GiB")


def test_an_unknown_device_is_no_guess(cli, tmp_path: Path):
    path = whole("llama-3.1-8b", tmp_path)
    r = cli("plan", path, "--ctx", 8192, "--vram", "24GiB", "--ram", "64GiB", "--format", "json").json["speed"]
    assert (r["start"], r["prompt"], r["unknown"]) == (None, None, ["CUDA0"])
    assert r["reads"][0]["bytes"] > 3 << 30
    # a device that only lends itself to the host is as unknown
    r = cli("plan", path, "--ctx", 8192, "--vram", "24GiB", "--ram", "64GiB", "-ngl", 0, "--format", "json")
    assert r.code == 0
    assert r.json["speed"]["start"]["device"] == "CPU"
    assert r.json["speed"]["prompt"] is None
    r = cli("plan", path, "--vram", "24GiB", "--bandwidth", "CUDA7=936")
    assert r.code == 2
    assert "no such device" in r.err


def test_what_was_measured_here_is_used(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("gguftool.memory.speed.measured.BLOCK", 1 << 20)
    path = whole("llama-3.1-8b", tmp_path)
    first = cli("plan", path, "--ctx", 4096, "--vram", "none", "--ram", "64GiB", "--calibrate", "--format", "json")
    (rate,) = first.json["speed"]["rates"]
    assert rate["basis"] == "measured"
    # How fast it is, is the business of the machine, and of what else it does.
    assert rate["bandwidth"] > 0
    later = cli("plan", path, "--ctx", 4096, "--vram", "none", "--ram", "64GiB", "--format", "json")
    assert later.json["speed"]["rates"] == [rate]
    (tmp_path / "cache" / "gguftool" / "speed.json").write_text("{}")
    broken = cli("plan", path, "--ctx", 4096, "--vram", "none", "--ram", "64GiB", "--format", "json")
    assert broken.json["speed"]["rates"][0]["basis"] == "assumed"
