"""Models that have learnt their positions, and caches that a model cannot have: no advice that makes a file unloadable.

llama.cpp sizes `position_embd.weight` by context_length (`models/bert.cpp`, `gpt2.cpp`, `starcoder.cpp`, `mpt.cpp`,
b11434): "position_embd.weight has wrong shape; expected 64, 8192, got 64, 512".
"""

from __future__ import annotations

from pathlib import Path

import pytest

from gguftool.edit.deploy import Wanted, deploy
from gguftool.errors import Refused
from gguftool.facts.cachetypes import possible
from gguftool.facts.machine.rows import position_table
from gguftool.lint.rule import Context, Severity, Wish
from gguftool.lint.run import lint
from gguftool.model import Model, from_source
from gguftool.model.positions import learnt_positions
from gguftool.predict import predict
from tests.build import llama
from tests.predict.recipes import built

LONGER = {"op": "set", "key": "bert.context_length", "type": "u32", "value": 8192}
LEARNT = ["tiny/bert", "tiny/gpt2", "archs/gpt2-dense", "archs/starcoder-dense", "archs/mpt-dense"]


def base(name: str) -> Model:
    return from_source(built({"base": name, "ops": []}), strict=False)


def rows(m: Model) -> int:
    return m.tensors["position_embd.weight"].shape[1]


def test_who_has_learnt_positions():
    found = {
        a
        for a in ("bert", "gpt2", "starcoder", "mpt", "llama", "qwen2", "bloom", "nomic-bert", "starcoder2", "t5")
        if position_table(a)
    }
    assert found == {"bert", "gpt2", "starcoder", "mpt"}
    assert learnt_positions(base("tiny/qwen2")) is None


@pytest.mark.parametrize("name", [n for n in LEARNT if "position_embd.weight" in base(n).tensors])
def test_the_context_cannot_be_raised(name: str):
    m = base(name)
    n = rows(m)
    assert learnt_positions(m) == n == m.arch.context_length
    for yes in (False, True):
        for wanted in (2 * n, n - 1):
            with pytest.raises(Refused, match=f"{n:,} rows"):
                deploy(m, Wanted(context_length=wanted), yes=yes)
        for more in ({"rope_scaling": "yarn"}, {"rope_scaling": "linear", "rope_scale_factor": 2.0}):
            with pytest.raises(Refused, match="never applies RoPE"):
                deploy(m, Wanted(context_length=2 * n, **more), yes=yes)  # type: ignore[arg-type]
    assert deploy(m, Wanted(context_length=n)).operations
    (finding,) = [f for f in lint(m, Context(wish=Wish(2 * n))) if f.rule == "context-length-too-small"]
    assert finding.fix is None
    assert f"{n:,} rows" in finding.message


def test_a_context_beyond_the_table_is_put_back():
    m = from_source(
        built(
            {"base": "tiny/bert", "ops": [{"op": "set", "key": "bert.context_length", "type": "u32", "value": 8192}]}
        ),
        strict=False,
    )
    assert not predict(m).loads
    (finding,) = [f for f in lint(m) if f.severity is Severity.ERROR]
    assert finding.fix is not None
    assert [getattr(op, "value", None) for op in finding.fix.operations] == [rows(m)]


def test_a_model_that_ropes_is_told_as_before():
    report = lint(base("archs/llama-moe"), Context(wish=Wish(1 << 20)))
    (finding,) = [f for f in report if f.rule == "context-length-too-small"]
    assert finding.fix is not None
    assert "YaRN" in finding.fix.title


def test_no_scaling_keys_in_a_model_without_rope(tmp_path: Path, cli):
    model = tmp_path / "m.gguf"
    file = built({"base": "tiny/gpt2", "ops": []}, str(model))
    model.write_bytes(file.read_at(0, file.size))
    before = model.read_bytes()
    for more in (["--dry-run"], ["--yes"], ["--yes", "--rope-scaling", "yarn"]):
        done = cli("fix", model, "--context-length", "8192", *more)
        assert done.code == 4, done.out
        assert "rows" in done.err
        assert model.read_bytes() == before


@pytest.mark.parametrize(
    ("name", "pair", "reason", "can"),
    [
        ("tiny/deepseek2-mla", ("q8_0", "q4_0"), "different K", "f16"),
        ("tiny/bert", ("q8_0", "q8_0"), "has no KV cache", ""),
    ],
)
def test_a_cache_that_the_model_cannot_have(name: str, pair: tuple[str, str], reason: str, can: str):
    m = base(name)
    with pytest.raises(Refused, match=reason) as refused:
        deploy(m, Wanted(kv_cache_type=pair))
    assert can in (refused.value.hint or "")
    assert deploy(m, Wanted(kv_cache_type=pair), yes=True).operations


def test_the_types_it_can_have_are_named():
    """Heads of 16 do not hold a block of 32."""
    m = from_source(built({"base": "tiny/qwen2", "ops": []}), strict=False)
    assert set(possible(m.arch)) >= {"f32", "f16", "bf16"}
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        small = llama().write(Path(folder) / "m.gguf")
        from gguftool.model import open_model

        with open_model(small) as narrow, pytest.raises(Refused, match="does not divide") as refused:
            deploy(narrow, Wanted(kv_cache_type=("q8_0", "q8_0")))
    assert "f32, f16, bf16;" in (refused.value.hint or "")
