"""``gguftool kv-test`` on real models with the real library."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from gguftool.run.divergence import GRADES, WORST
from gguftool.run.kvtest import TypeResult, verdict
from gguftool.run.measurer import available

needs_library = pytest.mark.skipif(not available(), reason="xllamacpp is not installed in the version we know")


def result(types: str, divergence: float, ratio: float = 1.0, refused: str = "") -> TypeResult:
    k, _, v = types.partition("/")
    return TypeResult(k, v or k, refused, divergence=divergence, perplexity_ratio=ratio)


@pytest.mark.real
@needs_library
def test_a_real_measurement(cli, smollm2: Path, tmp_path: Path) -> None:
    picture = tmp_path / "types.svg"
    done = cli(
        "kv-test", smollm2, "--tokens", 64, "--chunk", 32, "--types", "q8_0,q8_0/q4_0,q4_0", "--ctx", 4096, "--plot",
        picture, "--format", "json",
    )  # fmt: skip
    assert done.code == 0, done.err
    found = done.json
    rows = {f"{r['type_k']}/{r['type_v']}": r for r in found["results"]}
    assert list(rows) == ["f16/f16", "q8_0/q8_0", "q8_0/q4_0", "q4_0/q4_0"]
    assert (found["tokens"], found["compared"]) == (64, 30), "two chunks, the second half of each but its last token"
    base, q8, mixed, q4 = rows.values()
    assert base["kl_divergence"] == 0.0
    assert base["same_first"] == 1.0
    assert base["perplexity_ratio"] == 1.0
    # Coarser types are worse, and q8_0 is close to f16.
    assert 0 < q8["kl_divergence"] < mixed["kl_divergence"] < q4["kl_divergence"] < 2
    assert q8["kl_divergence"] < 0.05
    assert abs(q8["perplexity_ratio"] - 1) < 0.05
    # What llama.cpp allocated: 30 layers, 3 KV heads of 64, 256 cells (the least), 2, 34/32 or 18/32 bytes.
    elements = 30 * 3 * 64 * 256
    assert base["test_bytes"] == 2 * elements * 2
    assert q8["test_bytes"] == 2 * elements * 34 // 32
    assert mixed["test_bytes"] == elements * 34 // 32 + elements * 18 // 32
    assert q4["test_bytes"] == 2 * elements * 18 // 32
    assert base["kv_bytes"] == 16 * base["test_bytes"], "4096 cells in place of 256"
    assert all(r["prompt_tokens_per_second"] > 0 and r["write_tokens_per_second"] > 0 for r in rows.values())
    drawn = ElementTree.parse(picture).getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) == 4


@pytest.mark.real
@needs_library
def test_window_layers_and_a_large_vocabulary(cli, gemma3: Path) -> None:
    done = cli("kv-test", gemma3, "--tokens", 32, "--chunk", 32, "--types", "q8_0")
    assert done.code == 0, done.err
    assert "verdict: --cache-type" in done.out
    assert "111.0 MiB" in done.out, "16 bits at the file's 32768 tokens, with the windows"
    assert "59.0 MiB" in done.out


@pytest.mark.real
@needs_library
def test_a_text_of_ones_own(cli, smollm2: Path, tmp_path: Path) -> None:
    text = tmp_path / "t.txt"
    text.write_text("one two three four five six seven eight nine ten " * 5)
    done = cli("kv-test", smollm2, "--text", text, "--tokens", 32, "--chunk", 32, "--types", "q8_0", "--format", "json")
    assert done.code == 0
    assert done.json["text"] == str(text)
    text.write_text("too short")
    short = cli("kv-test", smollm2, "--text", text, "--tokens", 32, "--chunk", 32)
    assert short.code == 2
    assert "--text" in short.err


@needs_library
def test_a_model_that_does_not_load(cli, tmp_path: Path) -> None:
    from tests.build import GGUF

    model = tmp_path / "m.gguf"
    model.write_bytes(
        GGUF().kv("general.architecture", "llama").kv("llama.context_length", 256).tensor("token_embd.weight").bytes()
    )
    done = cli("kv-test", model, "--tokens", 32, "--chunk", 32)
    assert done.code == 6
    assert "key not found" in done.err


def test_a_model_without_a_cache(cli, tmp_path: Path) -> None:
    from tests.build import GGUF

    model = tmp_path / "m.gguf"
    g = GGUF().kv("general.architecture", "mamba").kv("mamba.context_length", 256).kv("mamba.block_count", 1)
    model.write_bytes(g.tensor("token_embd.weight").bytes())
    done = cli("kv-test", model)
    assert done.code == 2
    assert "keeps no KV cache" in done.err


def test_sizes_that_make_no_sense(cli, smollm2: Path) -> None:
    assert cli("kv-test", smollm2, "--tokens", 32, "--chunk", 64).code in (2, 6)
    assert cli("kv-test", smollm2, "--types", "q9_9").code == 2
    assert cli("kv-test", smollm2, "--plot", "x.png").code == 2


@pytest.mark.parametrize(
    ("divergence", "ratio", "grade"),
    [
        (0.001, 1.0, GRADES[0][2]),
        (0.02, 1.0, GRADES[1][2]),
        (0.001, 1.01, GRADES[1][2]),
        (0.05, 1.0, GRADES[2][2]),
        (0.5, 1.0, WORST),
        (0.001, 1.5, WORST),
    ],
)
def test_grades(divergence: float, ratio: float, grade: str) -> None:
    assert result("q8_0", divergence, ratio).grade == grade


def test_noise_of_a_short_text_is_no_loss() -> None:
    from dataclasses import replace

    sure = result("q8_0", 0.001, 1.03)
    assert sure.grade == GRADES[2][2]
    assert replace(sure, ratio_error=0.02).grade == GRADES[0][2]


def test_verdicts() -> None:
    f16 = result("f16", 0.0)
    said = verdict([f16, result("q8_0", 0.004), result("q4_0", 0.06)])
    assert said == "--cache-type q8_0: next to no loss at 53% of the memory; anything smaller costs a noticeable loss"
    assert verdict([f16, result("q8_0", 0.004), result("q4_0", 0.006)]).startswith("--cache-type q4_0: next to no loss")
    said = verdict([f16, result("q8_0", 0.02), result("q8_0/q4_0", 0.02), result("q4_0", 0.3)])
    assert said.startswith("--cache-type q8_0: a slight loss at 53% of the memory; q8_0/q4_0 is as good")
    assert said.endswith("anything smaller costs a severe loss")
    assert verdict([f16, result("q8_0", 0.5)]).startswith("--cache-type f16")
    assert verdict([f16, result("q8_0", 0.0, refused="no")]).startswith("nothing smaller than f16 works")
    for nothing in ([f16], [f16, result("bf16", 0.0)]):
        assert verdict(nothing).startswith("nothing smaller than f16 was measured")


DATA = Path(__file__).parent.parent / "data" / "llamacpp"
BASE_RUN, OTHER_RUN = ((DATA / f"perplexity.{name}.txt").read_text() for name in ("base", "other"))


def test_what_llama_perplexity_prints() -> None:
    """Its lines as public reports show them; the program itself is in no package."""
    from gguftool.errors import ToolFailed
    from gguftool.run.perplexity import parse_base, parse_comparison

    base = parse_base(BASE_RUN)
    assert base == {
        "perplexity": 15.6789, "perplexity_error": 0.2468, "same_first": 1.0, "cache_bytes": 23592960,
        "prompt_speed": 512.0,
    }  # fmt: skip
    other = parse_comparison(OTHER_RUN)
    assert other["divergence"] == 0.009876
    assert other["divergence_error"] == 0.000234
    assert other["divergence_high"] == 0.123456
    assert other["same_first"] == pytest.approx(0.9741)
    assert other["perplexity_ratio"] == pytest.approx(1.011943, abs=1e-6)
    assert other["perplexity"] == 15.8871
    for wrong in ("", "Mean    KLD:   nan"):
        with pytest.raises(ToolFailed):
            parse_comparison(wrong)
        with pytest.raises(ToolFailed):
            parse_base(wrong)


def test_the_program_in_place_of_the_library(cli, smollm2: Path, tmp_path: Path, monkeypatch) -> None:
    """A stand-in that prints those lines, and refuses one type as llama.cpp does."""
    for name, text in (("base", BASE_RUN), ("other", OTHER_RUN)):
        (tmp_path / name).write_text(text)
    program = tmp_path / "llama-perplexity"
    program.write_text(
        "#!/bin/sh\n"
        "case $1 in --help) printf -- '-fa,   --flash-attn [on|off|auto]       set\\n'; exit;; --version) exit;; esac\n"
        f"echo \"$@\" >> '{tmp_path}/calls'\n"
        "case \"$*\" in *q4_0*) echo 'quantized V cache requires flash_attn to be enabled' >&2; exit 1;;\n"
        f"*'--kl-divergence') cat '{tmp_path}/other';; *) cat '{tmp_path}/base';; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("GGUFTOOL_LLAMA_PERPLEXITY", str(program))
    done = cli(
        "kv-test", smollm2, "--engine", "llama-perplexity", "--types", "q8_0,q4_0", "--tokens", 1024, "--chunk", 512,
        "--format", "json",
    )  # fmt: skip
    assert done.code == 0, done.err
    base, q8, q4 = done.json["results"]
    assert base["perplexity"] == 15.6789
    assert q8["kl_divergence"] == 0.009876
    assert "requires flash_attn" in q4["refused"]
    assert (done.json["tokens"], done.json["compared"]) == (1024, 2 * 255)
    first, second, _ = (tmp_path / "calls").read_text().splitlines()
    assert "--chunks 2" in first
    assert "-ctk f16 -ctv f16 -fa on" in first
    assert "--kl-divergence-base" in first
    assert "-ctk q8_0 -ctv q8_0" in second
    assert second.endswith("--kl-divergence")
