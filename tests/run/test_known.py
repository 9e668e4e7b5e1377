"""What every language model knows: the limits, and real models that are sound or broken."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from gguftool.run.known import BROKEN, KNOWS, UNJUDGED, Subject, Word, judge, of_perplexity, prompts

LARGE = Subject(135_000_000)


def words(known: int) -> list[Word]:
    """So many of the words known, the others far behind."""
    return [Word(p, -0.5, 1) if n < known else Word(p, -9.0, 400) for n, p in enumerate(prompts())]


@pytest.mark.parametrize(
    ("text", "known", "about", "verdict"),
    [
        ([-2.8] * 96, 10, LARGE, KNOWS),
        ([-2.8] * 96, 10, None, KNOWS),
        ([-9.0] * 96, 0, LARGE, BROKEN),
        ([-9.0] * 96, 0, Subject(15_000_000), UNJUDGED),
        ([-9.0] * 96, 0, Subject(135_000_000, ("zh", "ja")), UNJUDGED),
        ([-9.0] * 96, 0, Subject(135_000_000, ("zh", "en")), BROKEN),
        ([-9.0] * 96, 9, LARGE, UNJUDGED),
        ([-2.8] * 96, 1, LARGE, UNJUDGED),
        ([-4.4] * 96, 9, LARGE, UNJUDGED),
        ([math.nan] * 96, 0, LARGE, BROKEN),
        ([], 10, LARGE, KNOWS),
        ([], 0, LARGE, BROKEN),
    ],
)
def test_the_verdict(text: list[float], known: int, about: Subject | None, verdict: str) -> None:
    """Both must agree before anything is said; nothing is said of models that need not know."""
    found = judge(text, words(known), about)
    assert found.verdict == verdict
    assert bool(found.why) is (verdict != KNOWS)


def test_too_little_is_no_verdict() -> None:
    found = judge([-2.0] * 10, words(3)[:3], LARGE, complete=False)
    assert found.verdict == UNJUDGED
    assert "too long" in found.why


@pytest.mark.parametrize(
    ("perplexity", "verdict"),
    # 19.99, 25,060 and 13,439: llama-perplexity of a sound SmolLM2, of one with RMS epsilon 0.1, of one with 18 heads.
    [(19.99, KNOWS), (25_060, BROKEN), (13_439, BROKEN), (math.nan, BROKEN), (120, UNJUDGED)],
)
def test_the_verdict_of_a_perplexity(perplexity: float, verdict: str) -> None:
    assert of_perplexity(perplexity, LARGE).verdict == verdict


def launched(cli: Any, path: Path, log: Path) -> tuple[int, dict[str, Any]]:
    """A launch with ``--smoke``: exit code and result."""
    done = cli(
        "launch", path, "--ctx", 1024, "--parallel", 1, "--check-only", "--smoke", "--port", 0, "--force", "--log", log,
        "--format", "json",
    )  # fmt: skip
    return done.code, json.loads(done.stdout)


def test_a_sound_model_knows(smollm2: Path, server: str, cli: Any, tmp_path: Path) -> None:
    code, found = launched(cli, smollm2, tmp_path / "log")
    known = found["smoke"]["known"]
    assert code == 0
    assert found["smoke"]["ok"] is True
    assert known["verdict"] == KNOWS
    assert known["text_logprob"] > -3.5
    assert known["chat"]["ok"] is True
    assert {w["next"] for w in known["words"] if w["known"]} >= {" Paris", " 6", " 50", " b"}


@pytest.mark.parametrize(
    "keys",
    [
        {"llama.attention.layer_norm_rms_epsilon": 0.1},
        {"llama.rope.freq_base": 1.0},
        {
            "llama.attention.head_count": 18, "llama.attention.head_count_kv": 6, "llama.rope.dimension_count": 32,
        },
    ],
    ids=["epsilon", "rope", "heads"],
)  # fmt: skip
def test_a_broken_model_does_not(keys: dict[str, Any], smollm2: Path, server: str, cli: Any, tmp_path: Path) -> None:
    """It loads, lists no error and writes fluently what means nothing: nothing of that is proven."""
    import gguftool

    copy = tmp_path / "broken.gguf"
    shutil.copyfile(smollm2, copy)
    with gguftool.edit(copy) as e:
        for name, value in keys.items():
            e[name] = value
    code, found = launched(cli, copy, tmp_path / "log")
    assert code == 1
    assert found["smoke"]["known"]["verdict"] == BROKEN
    row = next(c for c in found["checks"] if c["what"] == "smoke test")
    assert (row["expected"], row["observed"], row["ok"]) == ("known", "not known", False)


def test_a_tiny_model_is_not_called_broken(tmp_path: Path) -> None:
    """A random model for tests knows nothing, and need not: that is no verdict."""
    import gguftool
    from tests.build import llama

    found = gguftool.known_text(llama(layers=2).write(tmp_path / "m.gguf"))
    assert found.verdict == UNJUDGED
    assert "million parameters" in found.why


def test_kv_test_says_when_the_model_itself_is_broken(smollm2: Path, cli: Any, tmp_path: Path) -> None:
    import gguftool
    from gguftool.run.measure import available

    if not available():
        pytest.skip("the library is not installed")
    copy = tmp_path / "broken.gguf"
    shutil.copyfile(smollm2, copy)
    with gguftool.edit(copy) as e:
        e["llama.attention.layer_norm_rms_epsilon"] = 0.1
    asked = ("--types", "q8_0", "--tokens", 128, "--chunk", 128, "--engine", "library", "--format", "json")
    bad, good = cli("kv-test", copy, *asked), cli("kv-test", smollm2, *asked)
    assert bad.code == 1
    assert "the model itself is broken" in bad.json["verdict"]
    assert bad.json["reference"]["verdict"] == BROKEN
    assert "diagnose" in bad.err
    assert good.code == 0
    assert good.json["reference"]["verdict"] == KNOWS
    assert "--cache-type q8_0" in good.json["verdict"]


def test_prepare_gives_a_broken_model_no_name(smollm2: Path, cli: Any, tmp_path: Path) -> None:
    """The known text is the last check before the output gets its name."""
    import gguftool

    copy = tmp_path / "in.gguf"
    shutil.copyfile(smollm2, copy)
    with gguftool.edit(copy) as e:
        e["llama.attention.layer_norm_rms_epsilon"] = 0.1
    made = cli("prepare", copy, "-o", tmp_path / "out.gguf", "--yes", "--fail-on", "never", "--format", "json")
    assert made.code == 1
    last = made.json["steps"][-1]
    assert (last["name"], last["ok"], last["data"]["verdict"]) == ("known", False, BROKEN)
    assert not (tmp_path / "out.gguf").exists()
