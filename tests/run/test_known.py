"""What every language model knows: the limits, and real models that are sound or broken."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.run.cuts import lost, own_tokens
from gguftool.run.known import (
    BROKEN,
    KNOWS,
    UNJUDGED,
    Look,
    Subject,
    Word,
    far,
    inside,
    judge,
    of_perplexity,
    prompts,
    repeats,
    subject,
    with_looks,
)
from gguftool.run.measurer import available
from gguftool.run.tokens import agreeing

LARGE = Subject(135_000_000)
PRE = "tokenizer.ggml.pre"
OF_LLAMA2 = "{% for m in messages %}[INST] {{ m['content'] }} [/INST]{% endfor %}"


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
        ([-9.0] * 96, 9, LARGE, BROKEN),
        ([-5.5] * 96, 9, LARGE, UNJUDGED),
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


@pytest.mark.parametrize(
    ("look", "ok"),
    [
        (repeats(-0.8, LARGE), True),
        (repeats(-2.0, LARGE), False),
        (repeats(-1.3, LARGE), None),
        (repeats(-2.0, Subject(135_000_000, attends=False)), True),
        (repeats(None, LARGE), None),
        (far([-3.0] * 64, [-3.1] * 64, LARGE), True),
        (far([-3.0] * 64, [-3.3] * 64, LARGE), None),
        (far([-3.0] * 64, [-3.5] * 64, LARGE), False),
        (far([], [], LARGE, "a slot holds 512 tokens"), None),
        (inside([0.0] * 96), True),
        (inside([0.05] * 96), False),
    ],
)
def test_one_more_look(look: Look, ok: bool | None) -> None:
    assert look.ok is ok
    assert bool(look.why) is (ok is not True or "need not" in look.why)


def test_one_thing_wrong_is_enough_and_what_was_not_asked_is_said() -> None:
    """A text that reads well proves neither its positions nor a value that no model has."""
    sound = judge([-2.8] * 96, words(10), LARGE)
    assert with_looks(sound, [repeats(-0.3, LARGE)], LARGE).verdict == KNOWS
    assert with_looks(sound, [far([-3.0] * 64, [-3.9] * 64, LARGE)], LARGE).verdict == BROKEN
    assert with_looks(sound, [far([-3.0] * 64, [-3.3] * 64, LARGE)], LARGE).verdict == UNJUDGED
    short = with_looks(sound, [far([], [], LARGE, "a slot holds 512 tokens")], LARGE)
    assert (short.verdict, short.unseen) == (KNOWS, ("far text: a slot holds 512 tokens",))
    odd = Subject(135_000_000, doubts=("epsilon is 0.01, models have 1e-6 to 1e-4",))
    assert with_looks(sound, [], odd).verdict == UNJUDGED
    assert with_looks(judge([-4.4] * 96, words(9), odd), [], odd).verdict == BROKEN


@pytest.mark.parametrize(
    ("pre", "sort"),
    [
        ("smollm", None), ("gpt-2", None), ("default", "signs after a blank"), ("qwen2", "line ends"),
        ("llama-bpe", "line ends"), ("deepseek-llm", "contractions"),
    ],
)  # fmt: skip
def test_tokens_of_a_vocabulary_come_back_whole_under_its_own_pre_tokenizer(
    pre: str, sort: str | None, smollm2: Path
) -> None:
    """The real tokenizer, told another pre-tokenizer: whole kinds of tokens never come again."""
    if not available():
        pytest.skip("the library is not installed")
    with gguftool.open(smollm2) as m:
        own = own_tokens(m)
    assert {"words", "contractions", "line ends", "signs after a blank"} <= {one.sort for one in own}
    whole = {}
    for one in own if sort is None else [x for x in own if x.sort == sort]:
        whole[one.token] = True
    asked = [one for one in own if one.token in whole]
    if sort is None:
        assert agreeing(str(smollm2), [x.text for x in asked], [[x.token] for x in asked], [{PRE: pre}]) == [0]
        assert not list(lost(own, whole))
        return
    from gguftool.run.tokens import tokenize

    copy_free = [bool(agreeing(str(smollm2), [x.text], [[x.token]], [{PRE: pre}])) for x in asked[:8:2]]
    assert sum(copy_free) <= 1
    assert tokenize(str(smollm2), [asked[0].text], begin_and_end=False).ids == ((asked[0].token,),)


def test_a_header_with_values_that_no_model_has_is_in_doubt(smollm2: Path, tmp_path: Path) -> None:
    with gguftool.open(smollm2) as m:
        sound = subject(m)
    assert sound.doubts == ()
    assert sound.native.startswith("<|im_start|>user")
    copy = tmp_path / "m.gguf"
    shutil.copyfile(smollm2, copy)
    with gguftool.edit(copy) as e:
        e["llama.attention.layer_norm_rms_epsilon"] = 0.01
        e["tokenizer.ggml.pre"] = "qwen2"
    with gguftool.open(copy) as m:
        found = " ".join(subject(m).doubts)
    assert "epsilon" in found
    assert "pre" in found


def launched(cli: Any, path: Path, log: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """A launch with ``--smoke``: exit code and result."""
    done = cli(
        "launch", path, "--ctx", 1536, "--parallel", 1, "--check-only", "--smoke", "--port", 0, "--force", "--log", log,
        "--format", "json", "--threads", 1, *more,
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
    assert {x["what"]: x["ok"] for x in known["looks"]} == dict.fromkeys(
        ["ends inside", "own tokens", "repeats", "far text"], True
    )
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


@pytest.mark.parametrize(
    ("keys", "said", "engine"),
    [
        ({"tokenizer.chat_template": OF_LLAMA2}, "the chat template is another model's", "llama-server"),
        ({"llama.rope.freq_base": 500.0}, "after 1,000 tokens", "library"),
    ],
    ids=["template", "rope"],
)
def test_what_a_short_text_does_not_show_is_not_proven(
    keys: dict[str, Any], said: str, engine: str, smollm2: Path, server: str, cli: Any, tmp_path: Path
) -> None:
    """Asked of a llama-server, and of the library's."""
    if engine == "library" and not available():
        pytest.skip("the library is not installed")
    copy = tmp_path / "m.gguf"
    shutil.copyfile(smollm2, copy)
    with gguftool.edit(copy) as e:
        for name, value in keys.items():
            e[name] = value
    code, found = launched(cli, copy, tmp_path / "log", "--engine", engine)
    assert code == 1
    assert said in found["smoke"]["why"]
    assert found["smoke"]["known"]["text_logprob"] > -5


def test_a_tiny_model_is_not_called_broken(tmp_path: Path) -> None:
    """A random model for tests knows nothing, and need not: that is no verdict."""
    from tests.build import llama

    found = gguftool.known_text(llama(layers=2).write(tmp_path / "m.gguf"))
    assert found.verdict == UNJUDGED
    assert "million parameters" in found.why


def test_kv_test_says_when_the_model_itself_is_broken(smollm2: Path, cli: Any, tmp_path: Path) -> None:
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
    copy = tmp_path / "in.gguf"
    shutil.copyfile(smollm2, copy)
    with gguftool.edit(copy) as e:
        e["llama.attention.layer_norm_rms_epsilon"] = 0.1
    made = cli("prepare", copy, "-o", tmp_path / "out.gguf", "--yes", "--fail-on", "never", "--format", "json")
    assert made.code == 1
    last = made.json["steps"][-1]
    assert (last["name"], last["ok"], last["data"]["verdict"]) == ("known", False, BROKEN)
    assert not (tmp_path / "out.gguf").exists()


def test_the_table_is_the_programs() -> None:
    """Every row of docs/smoke.md is one that `benchmarks/broken_models.py` makes, and says whether it was held out."""
    from benchmarks import broken_models

    page = broken_models.PAGE.read_text(encoding="utf-8")
    there = broken_models.rows(page)
    assert len(there) > 60
    assert set(there) <= {name for name, *_ in broken_models.cases("", "")}
    assert all(line.split(" | ")[1].strip() == broken_models.held_out(name) for name, line in there.items())
    assert broken_models.written(page, {}) == page
    # epsilons and bases of SmolLM2 were looked at while the limits were set
    for damage in ("RMS epsilon 0.03", "RoPE base 100", "RoPE base 100000000"):
        assert broken_models.held_out(f"{broken_models.SMOL}: {damage}") == ""
        assert broken_models.held_out(f"{broken_models.GEMMA3_270M}: {damage}") == "yes"
    healthy = [line for name, line in there.items() if name.endswith((": as downloaded", ": Q8_0", ": Q4_0"))]
    assert len(healthy) == 6
    assert all("| knows |" in line for line in healthy)
