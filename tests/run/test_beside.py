"""Files beside the model: plan and launch hold them against it, whichever way they are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool import launch
from gguftool.errors import Refused
from gguftool.predict.pairs import BESIDE
from gguftool.run.beside import ROLES, named
from gguftool.run.options.table import options
from gguftool.run.wishes import Wishes
from tests.beside import control_vector, lora, projector, sighted
from tests.build import GGUF, llama
from tests.lint.samples import ready

SIZES = ("--ctx", "512", "--cache-type", "f16", "--ram", "4GiB", "--vram", "none")
GPT2 = llama().replace("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.merges", ["a b"])
SIDES: dict[str, tuple[GGUF, str]] = {
    "fits.gguf": (lora(), ""),
    "vector.gguf": (control_vector(), ""),
    "qwen.gguf": (lora(arch="qwen2"), "refused"),
    "half.gguf": (lora().drop_tensor("blk.0.attn_q.weight.lora_b"), "refused"),
    "typed.gguf": (lora().replace("adapter.type", 3), "aborts"),
    "wide.gguf": (control_vector(96), "ignored"),
    "zero.gguf": (control_vector(layers=(0, 1)), "ignored"),
    "long.gguf": (control_vector(layers=(1, 2, 3)), "harm"),
    "gpt2.gguf": (GPT2, "ignored"),
    "bare.gguf": (llama().drop_tensor("blk.0.attn_norm.weight"), "refused"),
    "eyes.gguf": (projector("gemma3"), "doubt"),
    "large.gguf": (llama(800).kv("llama.rope.freq_scale", 1.0).kv("llama.kv_cache_type", "f16"), ""),
    "model.gguf": (ready(layers=3), "refused"),
}
ASKED = [
    (["--lora", "fits.gguf"], ""),
    (["--", "--lora", "fits.gguf"], ""),
    (["--", "--lora", "fits.gguf,qwen.gguf"], "refused"),
    (["--lora", "qwen.gguf"], "refused"),
    (["--", "--lora-scaled", "half.gguf:0.5"], "refused"),
    (["--", "--lora-scaled", "fits.gguf:0.5,half.gguf:1"], "refused"),
    (["--", "--lora", "typed.gguf"], "aborts"),
    (["--", "--lora", "vector.gguf"], "refused"),
    (["--", "--control-vector", "vector.gguf"], ""),
    (["--", "--control-vector", "wide.gguf"], "ignored"),
    (["--", "--control-vector-scaled", "zero.gguf:0.5"], "ignored"),
    (["--", "--control-vector", "long.gguf"], "harm"),
    (["--", "--control-vector", "fits.gguf"], "ignored"),
    (["-md", "gpt2.gguf", "--spec-type", "draft-simple"], "ignored"),
    (["--", "-md", "gpt2.gguf", "--spec-type", "draft-simple"], "ignored"),
    (["--", "-md", "bare.gguf", "--spec-type", "draft-simple"], "refused"),
    (["--", "-md", "fits.gguf", "--spec-type", "draft-simple"], "refused"),
    (["--mmproj", "model.gguf"], "refused"),
    (["--", "-mm", "fits.gguf"], "refused"),
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("gguftool.programs.find", lambda *args, **kwargs: None)
    for name, (g, _) in SIDES.items():
        g.write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("words", "outcome"), ASKED, ids=[" ".join(w) for w, _ in ASKED])
def test_plan_and_launch(cli, here: Path, words: list[str], outcome: str) -> None:
    plan = cli("plan", "model.gguf", *SIZES, "--format", "json", *words)
    launch = cli("launch", "model.gguf", "--print", *SIZES, "--format", "json", *words)
    stops = outcome in ("refused", "aborts", "ignored")
    # A launch stops for warnings too, unless forced; a plan tells them.
    assert (plan.code, launch.code) == (int(stops), int(stops or outcome == "harm")), (plan.out, launch.err)
    assert [u["outcome"] for u in plan.json["unfit"]] == ([outcome] if outcome else [])
    told = [(o["severity"]) for o in launch.json["obstacles"] if o["where"] == "pair"]
    assert told == ([] if outcome in ("", "doubt") else ["error" if stops else "warning"])
    assert bool(plan.json["refused"]) is (outcome in ("refused", "aborts"))


def test_a_doubt_is_told_and_stops_nothing(cli, here: Path) -> None:
    for command in (["plan"], ["launch", "--print"]):
        done = cli(*command, "large.gguf", *SIZES, "--mmproj", "eyes.gguf")
        assert done.code == 0
        assert "the model has no token '<start_of_image>'" in done.err
        assert "warning" not in done.err


def test_what_plan_says(cli, here: Path) -> None:
    out = cli("plan", "model.gguf", *SIZES, "--lora", "qwen.gguf")
    assert "llama.cpp refuses: --lora " in out.out
    assert "model arch and LoRA arch mismatch" in out.out
    ignored = cli("plan", "model.gguf", *SIZES, "--", "--control-vector", "wide.gguf")
    assert "left out: --control-vector " in ignored.err
    harm = cli("plan", "model.gguf", *SIZES, "--", "--control-vector", "long.gguf")
    assert "note: --control-vector " in harm.err


def test_force_and_emitted_files(cli, here: Path) -> None:
    words = ("launch", "model.gguf", *SIZES, "--lora", "qwen.gguf")
    assert cli(*words, "--emit", "systemd").code == 1
    assert cli(*words, "--print", "--force").code == 0


def test_every_option_that_names_such_a_file_is_held_against_the_model() -> None:
    """A new option for a GGUF beside the model is one of `ROLES`."""
    files = {o.field for o in options() if o.path == "read" and o.plan}
    others = {"template", "lookup_static", "lookup_dynamic"}  # no GGUF
    assert files - others == set(ROLES)
    assert set(ROLES.values()) <= set(BESIDE)
    w = Wishes(mmproj="a", lora=("b", "c"), lora_scaled=(("d", 1.0),), draft="e")
    assert list(named(w)) == [("mmproj", "a"), ("lora", "b"), ("lora", "c"), ("lora_scaled", "d"), ("draft", "e")]


@pytest.mark.oracle
def test_a_real_server_is_proven_with_what_fits_and_not_without_it(server: str, tmp_path: Path) -> None:
    """Findings 3 and 4 of public reports: "proven" beside a draft that is not used."""
    model = sighted().kv("llama.rope.freq_scale", 1.0).kv("llama.kv_cache_type", "f16").write(tmp_path / "model.gguf")
    eyes, draft = projector().write(tmp_path / "eyes.gguf"), llama(tokens=400).write(tmp_path / "draft.gguf")
    asked = {"server": server, "ctx": 512, "port": 0, "ram": "4GiB"}
    with launch(model, mmproj=str(eyes), lora=(str(lora().write(tmp_path / "lora.gguf")),), **asked) as served:
        assert served.ok, [c for c in served.outcome.checks if c.ok is False]
        assert [c.ok for c in served.outcome.checks if c.what == "/props: vision"] == [True]
    with launch(model, draft=str(draft), spec_type=("draft-simple",), force=True, **asked) as served:
        assert not served.outcome.ended
        assert not served.ok
        assert {c.what for c in served.outcome.checks if c.ok is False} >= {"errors"}
    with pytest.raises(Refused, match="more than 128 apart"), launch(model, draft=str(draft), **asked):
        pass
