"""``gguftool quant-test`` with the real library on tiny models; the figures themselves are in test_divergence."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

import gguftool
from gguftool.run.divergence import GRADES, WORST, Outcome, Reader, grade
from gguftool.run.measurer import available
from gguftool.run.quanttest import QuantTest, Weighed
from tests.run.divergent import main, sized

needs_library = pytest.mark.skipif(not available(), reason="xllamacpp is not installed in the version we know")
DATA = Path(__file__).parent.parent / "data" / "llamacpp"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quantised")
    main(folder)
    return folder


@needs_library
def test_the_table_and_what_it_stands_on(cli, models: Path, tmp_path: Path) -> None:
    picture = tmp_path / "loss.svg"
    done = cli("quant-test", models / "f32.gguf", models / "q4_0.gguf", models / "q8_0.gguf", "--plot", picture)
    assert done.code == 0, done.err
    head, source, q8, q4, *rest = done.out.splitlines()
    assert head.split()[:3] == ["file", "size", "bits"]
    assert source.split()[:4] == ["f32.gguf", "370.2", "KiB", "32.00"]
    assert source.endswith("the source")
    # The recorded figures of llama-perplexity: 0.008178 ± 0.000383 and 1.023986 ± 0.033440 nats.
    assert "0.00818 ± 0.00038" in q8
    assert "+0.86 ± 0.63 %" in q8
    assert "91.6 ± 1.2 %" in q8
    assert q8.endswith("next to no loss")
    assert "1.024" in q4
    assert q4.endswith("a severe loss")
    text = "\n".join(rest)
    assert "1,024 tokens of Alice's Adventures in Wonderland in chunks of 512, 510 positions" in text
    assert "up to 0.01 nats" in text, "the basis of the words"
    assert "q4_0.gguf and q8_0.gguf: the larger one is better by" in text
    assert "verdict: q8_0.gguf: next to no loss at" in text
    drawn = ElementTree.parse(picture).getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) == 3


@needs_library
def test_as_json_and_with_the_source_named_apart(cli, models: Path) -> None:
    files = [models / "q8_0.gguf", models / "f32.gguf"]
    done = cli(
        "quant-test", *files, "--against", models / "f32.gguf", "--tokens", 256, "--chunk", 128, "--format", "json"
    )
    assert done.code == 0, done.err
    found = done.json
    q8, same = found["results"]
    assert found["source"]["path"] == str(models / "f32.gguf")
    assert (q8["path"], q8["bytes"]) == (str(files[0]), os.path.getsize(files[0]))
    # Matrices of 34 bytes for 32 weights, vectors of 4 bytes a weight.
    assert 8.5 < q8["bits_per_weight"] < 8.9
    assert (found["tokens"], found["compared"]) == (256, 2 * 63)
    assert same["kl_divergence"] == 0.0, "the source against itself"
    assert same["same_first"] == 1.0
    assert 0 < q8["kl_median"] <= q8["kl_99"] <= q8["kl_99_9"] <= q8["kl_max"]
    assert q8["memory"] > 0


@needs_library
def test_a_source_that_was_made_of_a_quantised_model_is_told(models: Path, tmp_path: Path) -> None:
    from gguf import GGMLQuantizationType, dequantize
    from numpy import frombuffer, uint8

    quantised, plain = sized("q4_0"), sized("q4_0")
    for t in quantised._tensors:
        if t["type"] == "q4_0":
            rows = frombuffer(t["data"], uint8).reshape(t["shape"][1], -1)
            half = dequantize(rows, GGMLQuantizationType.Q4_0).astype("<f2")
            plain.retensor(t["name"], type="f16", data=half.tobytes())
    path = plain.write(tmp_path / "f16.gguf")
    found = gguftool.quant_test(path, [models / "q4_0.gguf"], tokens=64, chunk=64)
    assert "lie on the grid of Q4_0" in found.notes[0]
    again = gguftool.quant_test(models / "q8_0.gguf", [models / "q4_0.gguf"], tokens=64, chunk=64)
    assert "the source is itself quantised (Q8_0)" in again.notes[0]
    assert gguftool.quant_test(models / "f32.gguf", [models / "q4_0.gguf"], tokens=64, chunk=64).notes == ()
    turned = gguftool.quant_test(models / "q4_0.gguf", [models / "f32.gguf"], tokens=64, chunk=64)
    assert "f32.gguf has more bits a weight than the source" in turned.notes[-1]


def test_another_vocabulary_is_refused_with_the_reason(cli, models: Path, tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"▁t{i}" for i in range(32)]
    tokens[270] = "other"
    cases = {
        "tokens": (
            sized("q8_0").replace("tokenizer.ggml.tokens", tokens),
            "tokenizer.ggml.tokens differs from element 270",
        ),
        "bos": (sized("q8_0").replace("tokenizer.ggml.bos_token_id", 2), "tokenizer.ggml.bos_token_id differs"),
        "pre": (sized("q8_0").kv("tokenizer.ggml.pre", "llama-bpe"), "only one of them has tokenizer.ggml.pre"),
        "fewer": (
            sized("q8_0").replace("tokenizer.ggml.tokens", tokens[:-1]),
            "tokenizer.ggml.tokens has 291 elements there, 290 here",
        ),
    }
    for name, (g, words) in cases.items():
        done = cli("quant-test", models / "f32.gguf", g.write(tmp_path / f"{name}.gguf"))
        assert done.code == 2
        assert words in done.err


def test_what_cuts_no_text_may_differ(models: Path, tmp_path: Path) -> None:
    from gguftool.run.quanttest import same_vocabulary

    other = sized("q8_0").kv("tokenizer.chat_template", "x").replace("tokenizer.ggml.eos_token_id", 1)
    same_vocabulary(gguftool.open(models / "f32.gguf"), gguftool.open(other.write(tmp_path / "o.gguf")))


def test_memory_is_planned_first(cli, models: Path) -> None:
    done = cli("quant-test", models / "f32.gguf", models / "q8_0.gguf", "--ram", "1MiB")
    assert done.code == 5
    assert "f32.gguf and q8_0.gguf together take" in done.err
    assert "--ram" in done.err


@needs_library
def test_what_does_not_fit_together_is_read_one_after_the_other(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gguftool.run import quanttest

    calls: list[int] = []
    real = quanttest.divergence
    monkeypatch.setattr(quanttest, "divergence", lambda readers, **k: calls.append(len(readers)) or real(readers, **k))
    both = [models / "q8_0.gguf", models / "q4_0.gguf"]
    whole = gguftool.quant_test(models / "f32.gguf", both, tokens=64, chunk=64)
    room = quanttest.HEADROOM + whole.source.memory + max(t.memory for t in whole.results)
    parts = gguftool.quant_test(models / "f32.gguf", both, tokens=64, chunk=64, ram=room)
    assert calls == [3, 2, 2]
    assert [t.outcome.divergence for t in parts.results] == [t.outcome.divergence for t in whole.results]


def test_nothing_to_compare(cli, models: Path) -> None:
    done = cli("quant-test", models / "f32.gguf")
    assert done.code == 2
    assert "nothing to hold against" in done.err


def test_the_program_in_place_of_the_library(cli, models: Path, tmp_path: Path, monkeypatch) -> None:
    """A stand-in that prints what the real one was recorded to print for these very files."""
    program = tmp_path / "llama-perplexity"
    program.write_text(
        "#!/bin/sh\n"
        "case $1 in --help) printf -- '-fa,   --flash-attn [on|off|auto]       set\\n'; exit;; --version) exit;; esac\n"
        f"echo \"$@\" >> '{tmp_path}/calls'\n"
        f"case \"$*\" in *q8_0*) cat '{DATA}/divergence.q8_0.txt';; *q4_0*) cat '{DATA}/divergence.q4_0.txt';;\n"
        f"*) cat '{DATA}/divergence.f32.txt';; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("GGUFTOOL_LLAMA_PERPLEXITY", str(program))
    files = [models / f"{kind}.gguf" for kind in ("f32", "q8_0", "q4_0")]
    done = cli("quant-test", *files, "--engine", "llama-perplexity", "--format", "json")
    assert done.code == 0, done.err
    q8, q4 = done.json["results"]
    assert (q8["kl_divergence"], q8["kl_error"], q8["kl_max"]) == (0.008178, 0.000383, 0.081838)
    assert q4["same_first"] == pytest.approx(0.30588)
    assert q4["probability_rms"] == pytest.approx(0.00859)
    # Errors of two means, for no position is known: 1.023986 - 0.008178, and the root of both squares.
    assert "by 1.01581 ± 0.03344 nats" in done.json["comparisons"][0]
    first, second, third = (tmp_path / "calls").read_text().splitlines()
    assert f"-m {files[0]} -c 512 --chunks 2" in first
    assert second.endswith("--kl-divergence")
    assert f"-m {files[2]}" in third


def row(name: str, size: int, divergence: float, error: float = 0.001, ratio: float = 1.0) -> Weighed:
    o = Outcome(Reader(name), divergence=divergence, divergence_error=error, perplexity_ratio=ratio)
    return Weighed(name, size, 4.0, 0, o)


def measured(*rows: Weighed) -> QuantTest:
    from gguftool.run.divergence import UNREAD

    return QuantTest(row("f16", 1000, 0.0), rows, 512, 255, 512, "a text", "nothing", UNREAD)


def test_differences_within_the_error_are_called_so() -> None:
    (line,) = measured(row("a", 300, 0.0210), row("b", 400, 0.0200)).comparisons
    assert line == "a and b: no difference that this text shows (+0.00100 ± 0.00141 nats)"
    (line,) = measured(row("a", 300, 0.01), row("b", 400, 0.02)).comparisons
    assert line == "a is smaller than b and better, by 0.01000 ± 0.00141 nats"
    (line,) = measured(row("a", 300, 0.01), row("b", 300, 0.02)).comparisons
    assert line == "a and b: of one size, and a is better by 0.01000 ± 0.00141 nats"


def test_the_verdict_takes_the_smallest_good_one() -> None:
    rows = row("q2", 250, 0.3), row("q4", 400, 0.02), row("q6", 600, 0.004), row("q8", 800, 0.001)
    assert measured(*rows).verdict == "q6: next to no loss at 60% of the size"
    assert measured(*rows[:2]).verdict == "q4: a slight loss at 40% of the size"
    assert measured(rows[0]).verdict == "even q2, the best of them, costs a severe loss"
    refused = replace(rows[0], outcome=replace(rows[0].outcome, refused="no"))
    assert measured(refused).verdict == "none of the files could be measured"


def test_no_numbers_are_no_good_grade() -> None:
    assert grade(float("nan"), float("nan"), 0.0) == WORST
    assert grade(GRADES[0][0], GRADES[0][1], 0.0) == GRADES[0][2]
