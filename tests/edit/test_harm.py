"""Edits after which llama.cpp would not load or run a model, or would use less of it, are refused where they are made.

What llama.cpp b11434 does after each of these edits was seen in real runs (core dumps and error lines of the server).
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gguftool
from gguftool.edit.ops import Delete, Operation, Realign, Set
from gguftool.edit.plan import plan_edit
from gguftool.errors import Refused
from gguftool.lint.fixes import collect
from gguftool.lint.rule import Context, Drafts, Fix, Rule, Scope, Severity, found
from gguftool.lint.run import lint
from gguftool.model import Model, open_model
from gguftool.predict import AfterLoad, Prediction, judge
from tests.build import GGUF, llama
from tests.predict.recipes import built

ASSERT = "GGML_ASSERT((uintptr_t)ptr % TENSOR_ALIGNMENT == 0"
NOT_LOADED = [
    (["--realign", "1"], ASSERT),
    (["--realign", "8"], ASSERT),
    (["--realign", "16"], ASSERT),
    (["--set", "general.architecture=qwen2"], "key not found in model: qwen2.context_length"),
    (["--set", "general.architecture=llamma"], "unknown model architecture: 'llamma'"),
    (["--delete", "general.architecture"], "unknown model architecture: ''"),
    (["--delete", "llama.block_count"], "key not found in model: llama.block_count"),
    (["--set", "llama.attention.head_count=0"], "has wrong shape"),
    (["--set", "llama.embedding_length=65"], "has wrong shape"),
    (["--set", "llama.block_count=2"], "tensor 'blk.1.attn_norm.weight' not found"),
    (["--set", "tokenizer.ggml.model=foo"], "unknown tokenizer: 'foo'"),
    (["--delete", "tokenizer.ggml.tokens"], "cannot find tokenizer vocab in model file"),
    (["--rename", "llama.block_count=llama.blocks"], "key not found in model: llama.block_count"),
]
IDS = [" ".join(args) for args, _ in NOT_LOADED]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    # Aligned to 32 by the builder's luck only: the header's length decides whether --realign 16 does harm.
    for n in range(1, 40):
        out = llama().kv("general.description", "d" * n).write(tmp_path / "m.gguf")
        if all(plan_edit(out, [Realign(k)], harm="allow").new.data_offset % 32 for k in (1, 8, 16)):
            return out
    raise AssertionError("no such length")


@pytest.mark.parametrize(("args", "line"), NOT_LOADED, ids=IDS)
def test_a_model_that_would_not_load_any_more(args: list[str], line: str, path: Path, cli):
    before = path.read_bytes()
    for more in ([], ["--dry-run"], ["--output", str(path.with_name("new.gguf"))]):
        done = cli("fix", path, *args, *more)
        assert done.code == 4, done.out
        assert line in done.err
        assert "--yes" in done.err
        assert path.read_bytes() == before
        assert not path.with_name("new.gguf").exists()
    assert cli("fix", path, *args, "--yes", "--dry-run").code == 0
    assert cli("fix", path, *args, "--yes").code == 0
    assert path.read_bytes() != before
    # It does not load now, so nothing can be made worse: every repair goes through.
    assert cli("fix", path, "--set", "general.description=x").code == 0


def test_a_token_list_that_is_too_short(path: Path, tmp_path: Path, cli):
    with open_model(path) as m:
        tokens = [str(t) for t in m["tokenizer.ggml.tokens"]]
    short = tmp_path / "tokens.txt"
    short.write_text("\n".join(tokens[:-31]) + "\n")
    done = cli("fix", path, "--set-file", f"tokenizer.ggml.tokens={short}")
    assert done.code == 4
    assert "token_embd.weight" in done.err


def test_the_library_refuses_too(path: Path):
    before = path.read_bytes()
    with pytest.raises(Refused, match="unknown tokenizer: 'foo'"), gguftool.edit(path) as e:
        e["tokenizer.ggml.model"] = "foo"
    assert path.read_bytes() == before
    with gguftool.edit(path, harm="allow") as e:
        e["tokenizer.ggml.model"] = "foo"
    assert path.read_bytes() != before


def test_a_plan_carries_both_predictions(path: Path):
    plan = plan_edit(path, [Set("tokenizer.ggml.model", "foo")], harm="allow")
    assert plan.forecast.before.ok
    assert plan.forecast.after.verdict == "refused"
    assert "unknown tokenizer: 'foo'" in str(plan.forecast.harm)
    fine = plan_edit(path, [Set("general.author", "me")])
    assert fine.forecast.harm is None
    assert fine.forecast.before == fine.forecast.after


def test_the_prefix_of_all_keys_is_offered(path: Path, cli):
    done = cli("fix", path, "--set", "general.architecture=qwen2")
    assert f"gguftool fix {path} --set general.architecture=qwen2 --rename 'llama.*=qwen2.*'" in done.err
    assert cli("fix", path, "--set", "general.architecture=qwen2", "--rename", "llama.*=qwen2.*").code == 0
    with open_model(path) as m:
        assert not [key for key in m.fields if key.startswith("llama.")]
        assert m.architecture == "qwen2"
        assert m["qwen2.block_count"] == 1
    assert cli("fix", path, "--rename", "nothing.*=other.*").code == 2


def test_a_hostile_architecture_in_the_hint(tmp_path: Path, cli):
    model = llama().write(tmp_path / "m.gguf")
    done = cli("fix", model, "--set", "general.architecture=a b;$(id)")
    assert done.code == 4
    assert "--rename 'llama.*=a b;$(id).*'" in done.err


def test_fewer_layers(tmp_path: Path):
    base = tmp_path / "m.gguf"
    whole = built({"base": "tiny/glm4moe", "ops": []}, str(base))
    base.write_bytes(whole.read_at(0, whole.size))
    with pytest.raises(Refused, match="uses 3 layers of this file, and would use 2") as refused:
        plan_edit(base, [Set("glm4moe.nextn_predict_layers", 2)])
    assert "is left aside" in str(refused.value)


@pytest.mark.parametrize(
    "model",
    [
        GGUF("llama").kv("general.type", "adapter"),
        GGUF("clip").kv("clip.has_vision_encoder", True),
        GGUF("llama").kv("llama.block_count", 1),
        GGUF("no-such-architecture").tensor("a.weight", (32,)),
    ],
    ids=["adapter", "projector", "does not load", "unknown architecture"],
)
def test_what_did_not_load_before_is_edited_freely(model: GGUF, tmp_path: Path):
    path = model.write(tmp_path / "m.gguf")
    plan_edit(path, [Delete("general.architecture")]).commit()


OK = AfterLoad("decode", "ok")
RUNS = Prediction("loads", "done", after_load=OK, layers=4, tensors=40)


@pytest.mark.parametrize(
    ("before", "after", "harm"),
    [
        (RUNS, RUNS, None),
        (RUNS, Prediction("warns", "done", warnings=("w",), after_load=OK, layers=4, tensors=40), None),
        (RUNS, Prediction("refused", "tensors", ("no",)), "would refuse it after this change: no"),
        (RUNS, Prediction("aborts", "tensors", ("GGML_ASSERT",)), "would abort on it after this change: GGML_ASSERT"),
        (RUNS, Prediction("unknown", "tensors"), None),
        (Prediction("refused", "tensors", ("no",)), Prediction("aborts", "data", ("no",)), None),
        (Prediction("unknown", "tensors"), Prediction("refused", "data", ("no",)), None),
        (RUNS, Prediction("loads", "done", after_load=AfterLoad("decode", "hangs", "x")), "hang at the first tokens"),
        (RUNS, Prediction("loads", "done", after_load=AfterLoad("decode", "fails", "x")), "fail at the first tokens"),
        (
            RUNS,
            Prediction("loads", "done", after_load=AfterLoad("context", "refused", "x")),
            "fail at the context after this change: x",
        ),
        (RUNS, Prediction("loads", "done", after_load=AfterLoad("decode", "unknown")), None),
        (
            Prediction("loads", "done", after_load=AfterLoad("decode", "aborts", "x")),
            Prediction("loads", "done", after_load=AfterLoad("context", "aborts", "y")),
            "abort at the context after this change: y",
        ),
        (
            Prediction("loads", "done", after_load=AfterLoad("context", "aborts", "x")),
            Prediction("loads", "done", after_load=AfterLoad("decode", "aborts", "y")),
            None,
        ),
        (RUNS, Prediction("loads", "done", after_load=OK, layers=3, tensors=40), "uses 4 layers"),
        (RUNS, Prediction("loads", "done", after_load=OK, layers=4, tensors=39), "uses 40 tensors"),
        (RUNS, Prediction("loads", "done", after_load=OK, layers=5, tensors=41), None),
    ],
)
def test_the_judgement(before: Prediction, after: Prediction, harm: str | None):
    found = judge(before, after)
    assert (found is None) if harm is None else (harm in str(found))


def _breaks(m: Model, ctx: Context) -> Drafts:
    """A rule whose fix does harm."""
    fix = Fix("set it", (Set("llama.block_count", 3),), safe=True)
    yield found("bad advice", where="field:llama.block_count", fix=fix)


def test_a_fix_that_the_prediction_denies_is_not_offered(path: Path, monkeypatch: pytest.MonkeyPatch, cli):
    rule = Rule(
        id="bad-advice",
        family="metadata",
        severity=Severity.WARNING,
        scope=Scope.HEADER,
        since="0.1",
        role="model",
        known_arch=True,
        whole=True,
        chat=False,
        changes_run=True,
        check=_breaks,
    )
    monkeypatch.setattr("gguftool.lint.run.selected", lambda *args: (rule,))
    with open_model(path, strict=False) as m:
        (finding,) = lint(m).findings
        assert finding.fix is None
        assert "tensor 'blk.1.attn_norm.weight' not found" in str(finding.data["fix_withheld"])
        monkeypatch.setattr("gguftool.lint.fixes.selected", lambda *args: (rule,))
        fixes = collect(m)
    assert fixes.operations == ()
    assert "blk.1.attn_norm.weight" in fixes.refused[0][1]


def test_a_set_of_shards_is_judged_as_one(tmp_path: Path, cli):
    whole = llama().write(tmp_path / "m.gguf")
    gguftool.split(whole, str(tmp_path / "s"), max_tensors=4)
    first, *others = sorted(tmp_path.glob("s-*.gguf"))
    assert cli("fix", others[0], "--set", "general.author=me").code == 0
    assert cli("fix", others[0], "--ctx", "1024").code == 0
    done = cli("fix", others[0], "--delete", "llama.block_count")
    assert done.code == 4
    assert "key not found in model: llama.block_count" in done.err
    others[-1].unlink()
    # llama.cpp does not load it any more: nothing can be made worse.
    assert cli("fix", first, "--delete", "llama.block_count").code == 0


@pytest.mark.parametrize("odd", ["v1", "big-endian"])
def test_what_llama_cpp_does_not_read_is_edited_freely(odd: str, tmp_path: Path, cli):
    model = llama()
    path = (model.version(1) if odd == "v1" else model.big_endian()).write(tmp_path / "m.gguf")
    assert cli("fix", path, "--set", "tokenizer.ggml.model=foo").code == 0


def _advice(monkeypatch: pytest.MonkeyPatch, *operations: Operation, safe: bool = True) -> None:
    """One rule, whose fix is this."""

    def check(m: Model, ctx: Context) -> Drafts:
        yield found("advice", where="header", fix=Fix("do it", operations, safe=safe))

    rule = Rule("advice", "metadata", Severity.WARNING, Scope.HEADER, "0.1", "model", True, True, False, True, check)
    monkeypatch.setattr("gguftool.lint.run.selected", lambda *args: (rule,))
    monkeypatch.setattr("gguftool.lint.fixes.selected", lambda *args: (rule,))


def _fix(path: Path) -> Fix | None:
    with open_model(path, strict=False) as m:
        (finding,) = lint(m).findings
        return finding.fix


def test_a_file_that_does_not_load_is_not_made_worse(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    broken = llama().replace("llama.feed_forward_length", 96).write(tmp_path / "m.gguf")
    _advice(monkeypatch, Delete("llama.context_length"))
    assert _fix(broken) is None  # it would stop at the keys, before it gets to the tensors
    _advice(monkeypatch, Set("llama.embedding_length", 32))
    assert _fix(broken) is None  # a new fault, in front of the one that was there
    _advice(monkeypatch, Set("general.author", "me"))
    assert _fix(broken) is not None


def test_a_file_that_would_load_and_leave_a_layer_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "m.gguf"
    lost = [n for n in _names("tiny/glm4moe") if n.startswith(("blk.2.", "blk.3."))]
    ops: list[dict[str, object]] = [{"op": "del_tensor", "name": n} for n in lost]
    whole = built({"base": "tiny/glm4moe", "ops": ops}, str(path))
    path.write_bytes(whole.read_at(0, whole.size))
    _advice(monkeypatch, Set("glm4moe.block_count", 2))
    assert _fix(path) is None


def _names(base: str) -> list[str]:
    from gguftool.model import from_source

    return [t.name for t in from_source(built({"base": base, "ops": []}), strict=False).all_tensors()]


@pytest.mark.parametrize(
    ("model", "operations", "safe"),
    [
        # records that no load looks at
        (llama(), (Set("llama.kv_cache_type", "f16"),), True),
        # what it could not load, and the tensors prove
        (llama().replace("llama.feed_forward_length", 96), (Set("llama.feed_forward_length", 128),), True),
        # not predicted to load
        (llama().replace("llama.feed_forward_length", 96), (Set("llama.feed_forward_length", 64),), False),
        # runs, and would compute otherwise
        (llama(), (Set("llama.rope.freq_base", 500000.0),), False),
        (llama(), (Set("llama.attention.layer_norm_rms_epsilon", 1e-6),), False),
        # loads then, by another reading than the one that the other keys confirm
        (
            llama().replace("llama.attention.head_count", 8).replace("llama.attention.head_count_kv", 4),
            (Set("llama.rope.dimension_count", 8),),
            False,
        ),
        (llama().replace("llama.attention.head_count_kv", 4), (Set("llama.attention.head_count_kv", 2),), False),
    ],
)
def test_what_is_safe_is_decided_by_the_prediction(
    model: GGUF, operations: tuple[Operation, ...], safe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = model.write(tmp_path / "m.gguf")
    _advice(monkeypatch, *operations)
    fix = _fix(path)
    assert fix is not None
    assert fix.safe is safe
    with open_model(path, strict=False) as m:
        assert bool(collect(m).operations) is safe


def test_two_faults_that_are_mended_together_are_safe(tmp_path: Path):
    g = llama().replace("llama.feed_forward_length", 96).replace("llama.embedding_length", 32)
    g.kv("llama.attention.key_length", 16).kv("llama.attention.value_length", 16)
    path = g.write(tmp_path / "m.gguf")
    with open_model(path, strict=False) as m:
        fixes = [f.fix for f in lint(m) if f.severity is Severity.ERROR and f.fix is not None]
        assert fixes
        assert all(f.safe for f in fixes)
        done = {op.key: op.value for op in collect(m).operations if isinstance(op, Set)}
    assert done["llama.feed_forward_length"] == 128
    assert done["llama.embedding_length"] == 64
