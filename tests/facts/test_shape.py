"""Layers, windows and states against llama.cpp's own functions, run strictly over real and mutated headers."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from gguftool.facts.arch import Hparams
from gguftool.facts.layers import is_mla, layers, window, windowed
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.memory.kv import kv_cache
from gguftool.memory.settings import Settings
from gguftool.model import from_source
from gguftool.predict.stages import hyperparameters
from gguftool.predict.state import Run
from gguftool.run.measure import Ask, measure
from gguftool.run.measurer import available
from gguftool.source import Memory
from tests.build import GGUF
from tests.predict.recipes import bases, built, write

TYPES = {0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool", 8: "str", 10: "u64", 11: "i64"}
MUTATED = (
    "attention.head_count attention.head_count_kv attention.key_length attention.value_length attention.key_length_swa "
    "attention.value_length_swa attention.sliding_window attention.sliding_window_pattern nextn_predict_layers "
    "full_attention_interval attention.recurrent_layers attention.shared_kv_layers attention.key_length_mla "
    "attention.value_length_mla feed_forward_length block_count embedding_length attention.kv_lora_rank num_loops"
).split()


def named(arch: str) -> str:
    """The first base of an architecture."""
    return next(
        n for n in sorted(bases()) if from_source(built({"base": n, "ops": []}), strict=False).architecture == arch
    )


def strict(model: Any) -> Any:
    """The machine as the load prediction runs it; None where llama.cpp would not get that far."""
    try:
        machine, _ = hyperparameters(Run(model))
    except (Refusal, Abort, Unknown):
        return None
    return machine


def differences(model: Any) -> list[str]:
    """Where the layers of the plan are others than those of the machine."""
    machine = strict(model)
    if machine is None:
        return []
    hp, names = model.arch, machine.names
    out = []
    for label, ours, theirs in (
        ("layers", len(layers(hp)), machine.h["n_layer_all"]),
        ("trunk", sum(x.trunk for x in layers(hp)), names["n_layer()"]()),
        ("mla", is_mla(hp), names["is_mla()"]()),
        ("windowed", windowed(hp), machine.h["swa_type"] != "none"),
        ("window", window(hp), machine.h.get("n_swa", 0) if machine.h["swa_type"] != "none" else 0),
    ):
        if ours != theirs:
            out.append(f"{label} {ours} {theirs}")
    for x in layers(hp)[: machine.h["n_layer_all"]]:
        i = x.index
        theirs = (names["n_embd_k_gqa()"](i), names["n_embd_v_gqa()"](i), names["n_head_kv()"](i), names["n_ff()"](i))
        flags = (bool(names["is_swa()"](i)), bool(names["is_recr()"](i)))
        if (x.k_width, x.v_width, x.heads_kv, x.feed_forward, x.swa, x.recurrent) != (*theirs, *flags):
            out.append(f"layer {i} {x} {theirs} {flags}")
    return out


def test_every_base() -> None:
    seen = set()
    for name in sorted(bases()):
        model = from_source(built({"base": name, "ops": []}), strict=False)
        assert differences(model) == [], name
        seen.add(model.architecture)
        assert model.arch.shape.complete, name
    assert len(seen) == 133


def value(r: random.Random, key: str, n: int) -> tuple[object, str]:
    if key == "attention.sliding_window":
        return r.choice([0, 1, 128, 4096, (1 << 32) - 1]), "u32"
    if key in ("attention.sliding_window_pattern", "attention.recurrent_layers"):
        if r.random() < 0.5:
            return r.choice([0, 1, 2, 3, 6]), "u32"
        return [bool(r.getrandbits(1)) for _ in range(max(1, r.choice([n, n, n - 1, n + 1])))], "[bool]"
    if key in ("attention.head_count_kv", "attention.head_count", "feed_forward_length") and r.random() < 0.5:
        return [r.choice([0, 1, 2, 4, 8]) for _ in range(n)], "[u32]"
    if key == "block_count":
        return r.choice([1, 2, n, n + 1, 64]), "u32"
    return r.choice([0, 1, 2, 3, 4, 16, 64, 128, 192, 512]), "u32"


def test_mutated_keys() -> None:
    r = random.Random(11)
    heads = [n for n in sorted(bases()) if n.startswith("archs/")]
    compared = 0
    for name in r.choices(heads, k=700):
        model = from_source(built({"base": name, "ops": []}), strict=False)
        arch, g = model.architecture, GGUF(model.architecture)
        n = model.arch.block_count
        changed = {f"{arch}.{k}": value(r, k, n) for k in r.sample(MUTATED, r.choice([1, 1, 2]))}
        for key, f in model.fields.items():
            if key in changed or key.startswith("tokenizer.") or key == "general.architecture":
                continue
            kind = TYPES.get(f.type) or f"[{TYPES.get(f.element_type or 0)}]"
            g.kv(key, list(f.value) if kind.startswith("[") else f.value, kind)  # type: ignore[call-overload]
        for key, (v, kind) in changed.items():
            g.kv(key, v, kind)
        mutated = from_source(Memory(g.bytes(), name), strict=False)
        compared += strict(mutated) is not None
        assert differences(mutated) == [], (name, changed)
    assert compared > 250


@pytest.mark.parametrize("name", ["gpt-oss", "maple", "granite_swa", "spark2_5", "muse-glimmer", "dots3note"])
def test_a_window_of_no_tokens_is_a_window(name: str) -> None:
    """llama.cpp keeps a cache of one batch, padded to 256 cells (`llama-kv-cache-iswa.cpp`)."""
    model = from_source(built({"base": named(name), "ops": []}), strict=False)
    key = f"{name}.attention.sliding_window"
    hp = Hparams(name, lambda k: 0 if k == key else model.get(k))
    assert windowed(hp)
    assert window(hp) == 0
    caches = {c.name: c.cells for c in kv_cache(hp, Settings(4096)).caches}
    assert caches["window"] == 512
    assert caches["full"] == 4096


@pytest.mark.oracle
@pytest.mark.skipif(not available(), reason="xllamacpp in the pinned version is not installed")
@pytest.mark.parametrize("window_tokens", [0, 1, 300, (1 << 32) - 1])
@pytest.mark.parametrize("name", ["gpt-oss", "maple", "granite_swa", "spark2_5", "muse-glimmer", "dots3note", "gemma3"])
def test_windows_against_the_library(name: str, window_tokens: int, tmp_path: Path) -> None:
    """`plan` says what `plan --measure` finds, to the byte."""
    recipe = {
        "base": named(name),
        "ops": [{"op": "set", "key": f"{name}.attention.sliding_window", "type": "u32", "value": window_tokens}],
    }
    (answer,) = measure(str(write(recipe, tmp_path / "m.gguf")), [Ask(4096)])
    hp = from_source(built(recipe), strict=False).arch
    assert hp.int("attention.sliding_window", -1) == window_tokens
    assert kv_cache(hp, Settings(4096)).bytes == answer.total("context")


def test_gpt_oss_without_tokens_in_its_window_to_the_byte() -> None:
    # the real library (plan --measure) keeps 2,359,296 bytes for tiny/gpt-oss at 4096 tokens
    model = from_source(built({"base": "tiny/gpt-oss", "ops": []}), strict=False)
    hp = Hparams("gpt-oss", lambda k: 0 if k == "gpt-oss.attention.sliding_window" else model.get(k))
    assert kv_cache(hp, Settings(4096)).bytes == 2_359_296


def test_an_unknown_kind_of_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    keys = {"llama.block_count": 2, "llama.embedding_length": 64, "llama.attention.head_count": 4,
            "llama.context_length": 512, "llama.attention.layer_norm_rms_epsilon": 1e-5}  # fmt: skip
    known = Hparams("llama", keys.get)
    assert (kv_cache(known, Settings()).basis, kv_cache(known, Settings()).doubt) == ("exact", "")
    new = Hparams("llama", keys.get)
    assert new.facts is not None
    new.facts = replace(new.facts, memory="kv-new")
    plan = kv_cache(new, Settings())
    assert plan.basis == "unknown"
    assert "how llama keeps its context (kv-new) is not known" in plan.doubt
    nobody = Hparams("foo", {k.replace("llama", "foo"): v for k, v in keys.items()}.get)
    assert kv_cache(nobody, Settings()).basis == "unknown"


def test_a_plan_of_an_unknown_kind_says_so(tmp_path: Any, cli: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.lint.samples import llama

    monkeypatch.setattr("gguftool.memory.kv._CLASSES", {})
    path = llama().write(tmp_path / "m.gguf")
    done = cli("plan", path, "--ctx", "512", "--format", "json")
    assert done.json["kv"]["basis"] == "unknown"
    assert any("is not known here" in w for w in done.json["warnings"])
    text = cli("plan", path, "--ctx", "512").out
    assert "is not known here" in text
    assert "unknown" in text


def test_a_launch_holds_no_guess_against_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gguftool.run.launch import plan_launch
    from gguftool.run.wishes import Wishes
    from tests.lint.samples import llama

    model = from_source(Memory(llama().bytes(), str(tmp_path / "m.gguf")), strict=False)
    sure = plan_launch(model, Wishes(ctx=512))
    assert sure.expected.kv_bytes
    monkeypatch.setattr("gguftool.memory.kv._CLASSES", {})
    guess = plan_launch(model, Wishes(ctx=512))
    assert (guess.expected.kv_bytes, guess.expected.state_bytes, guess.expected.caches) == (None, None, ())
    assert any("is not known here" in note for note in guess.notes)


def test_a_file_with_faults_has_layers_all_the_same() -> None:
    keys: dict[str, object] = {"gemma4.block_count": 4, "gemma4.attention.head_count": 2, "gemma4.embedding_length": 64}
    assert [x.heads_kv for x in layers(Hparams("gemma4", keys.get))] == [2, 2, 2, 2]
    assert layers(Hparams("gemma4", {}.get)) == ()
    keys["gemma4.block_count"] = 1 << 31
    assert len(layers(Hparams("gemma4", keys.get))) == 512
    keys["gemma4.attention.head_count"] = "two"
    assert {x.heads_kv for x in layers(Hparams("gemma4", keys.get))} == {0}


def test_extra_layers_that_are_not_in_the_file(tmp_path: Path) -> None:
    """deepseek4 drops `nextn_predict_layers` when the tensors of those layers are missing (`deepseek4.cpp`)."""
    base = named("deepseek4")
    recipe = {"base": base, "ops": [{"op": "set", "key": "deepseek4.nextn_predict_layers", "type": "u32", "value": 1}]}
    model = from_source(built(recipe), strict=False)
    assert all(x.trunk for x in layers(model.arch))
    # without the tensors at hand the key is believed
    assert sum(not x.trunk for x in layers(Hparams("deepseek4", model.get))) == 1
