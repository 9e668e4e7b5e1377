"""The tensors family over recorded mutations: the rule names the tensor that the real library stumbled over."""

from __future__ import annotations

import re
from functools import cache

import pytest

from gguftool.lint.rules import family
from gguftool.lint.rules.tensors.groups import MOST
from gguftool.lint.run import Report, lint
from gguftool.model import from_source
from tests.lint.samples import ready, report_of
from tests.predict.mutations import model
from tests.predict.recipes import bases, built, recipes

NOT_FOUND = re.compile(r"tensor '(.*)' not found$")
SHAPE = re.compile(r"tensor '(.*)' has wrong shape; expected (.*), got (.*)$")
COUNT = re.compile(r"wrong number of tensors; expected (\d+), got (\d+)$")


@cache
def records(words: str, kind: str) -> list[dict]:  # type: ignore[type-arg]
    """Recorded refusals of one class whose message has these words."""
    return [r for r in recipes() if r["class"] == kind and any(words in e for e in r.get("errors", ()))]


def report(record: dict) -> Report:  # type: ignore[type-arg]
    return lint(from_source(built(record), strict=False), select=["tensors"], load=False)


def named(r: Report, rule: str) -> set[str]:
    """Tensors a rule speaks of, those of other layers too."""
    out: set[str] = set()
    for f in r.findings:
        if f.rule == rule:
            out |= set(f.data.get("tensors", ())) | {f.where.removeprefix("tensor:")}  # type: ignore[call-overload]
    return out


@pytest.mark.parametrize("kind", ["tensor.del", "tensor.rename"])
def test_the_missing_tensor_is_named(kind: str) -> None:
    found = records("not found", kind)
    assert len(found) > 20
    for record in found:
        name = NOT_FOUND.search(record["errors"][0])[1]  # type: ignore[index]
        assert name in named(report(record), "tensor-missing"), record


def test_the_misshaped_tensor_is_named_with_both_shapes() -> None:
    found = records("has wrong shape", "tensor.shape")
    assert len(found) > 40
    for record in found:
        name, expected, got = SHAPE.search(record["errors"][0]).groups()  # type: ignore[union-attr]
        if name == "token_embd.weight":
            continue  # rows against the vocabulary: another rule
        r = lint(from_source(built(record), strict=False), select=["tensors", "rope", "metadata"], load=False)
        rules = ("tensor-shape", "head-size-mismatch", "size-key-mismatch", "rope-dimension-mismatch")
        explained = set[str]().union(*(named(r, rule) for rule in rules))
        assert name in explained, (record, [f.message for f in r.findings])
        for f in r.findings:
            if f.where == f"tensor:{name}" and f.rule == "tensor-shape":
                assert list(f.data["expected"]) == [int(n) for n in expected.split(",")]  # type: ignore[call-overload]
                want = [int(n) for n in got.split(",")]
                assert [*f.data["got"], 1, 1, 1][:4] == want  # type: ignore[misc]


def test_the_tensor_too_many_is_named() -> None:
    found = records("wrong number of tensors", "tensor.extra")
    assert len(found) == 14
    for record in found:
        (op,) = record["ops"]
        assert named(report(record), "tensor-unexpected") == {op["name"]}, record


def test_types_that_die_at_the_first_decode_are_named() -> None:
    dead = [
        r
        for r in recipes()
        if r["class"] == "tensor.type" and r["verdict"] == "loads" and "unsupported types" in str(r.get("stderr"))
    ]
    assert len(dead) > 100
    for record in dead:
        names = {op["name"] for op in record["ops"]}
        r = report(record)
        assert names & (named(r, "tensor-type-not-f32") | named(r, "tensor-type-not-for-weights")), record


def test_types_that_work_are_let_alone() -> None:
    fine = [r for r in recipes() if r["class"] == "tensor.type" and r.get("use") == "ok"]
    assert len(fine) > 70
    loud = [(r["base"], r["ops"]) for r in fine if report(r).findings and named(report(r), "tensor-type-not-f32")]
    # The one bias that the graph never adds, see disagreements.json.
    assert [base for base, _ in loud] == ["tiny/kimi-linear"]


def test_a_flood_is_counted_not_printed() -> None:
    g = ready()
    for i in range(40):
        g.tensor(f"x{i}.weight", (64,))
    found = report_of(g, select=["tensor-unexpected"]).findings
    assert len(found) == MOST + 1
    assert found[-1].message == "and 32 more of this kind"


def test_names_alike_are_sought_only_for_findings_that_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each of 5,500 strange tensors beside 500 layers, lint took minutes."""
    asked: list[str] = []

    def counted(name: str, *rest: object) -> list[str]:
        asked.append(name)
        return []

    monkeypatch.setattr("gguftool.lint.rules.tensors.names.near_names", counted)
    g = ready().drop_tensor(*(t["name"] for t in ready()._tensors if t["name"].startswith("blk.0")))
    for i in range(40):
        g.tensor(f"x{i}.weight", (64,))
    report_of(g, select=["tensor-unexpected", "tensor-missing"])
    assert MOST <= len(asked) <= 2 * MOST


def test_rules_of_the_family() -> None:
    assert [r.id for r in family("tensors")] == [
        "tensor-missing",
        "tensor-unexpected",
        "tensor-needed-by-graph",
        "tensor-ignored",
        "tensor-shape",
        "size-key-mismatch",
        "head-size-mismatch",
        "head-size-unusual",
        "tensor-type-not-f32",
        "tensor-type-not-for-weights",
    ]


def test_a_vocabulary_that_fails_does_not_stop_the_tensor_rules() -> None:
    g = ready().replace("tokenizer.ggml.model", "nonsense").tensor("x.weight", (64,))
    assert named(report_of(g, select=["tensors"]), "tensor-unexpected") == {"x.weight"}


def test_keys_that_fail_are_said_to_stand_in_the_way() -> None:
    g = ready().replace("llama.block_count", 1, "i32").tensor("x.weight", (64,))
    r = report_of(g, select=["tensors"])
    assert r.findings == ()
    assert all("llama.block_count has wrong type i32" in n.why for n in r.not_evaluated)
    assert len(r.not_evaluated) == 10


def _fixed(base: str, op: dict, rule: str) -> object:  # type: ignore[type-arg]
    """Value that the rule's fix gives the first key it names; None when it is silent."""
    for f in report({"base": base, "ops": [op]}).findings:
        if f.rule == rule:
            assert f.fix is not None
            assert f.fix.safe
            return f.fix.operations[0].value  # type: ignore[union-attr]
    return None


def test_the_fix_of_a_size_is_the_value_the_model_was_made_with() -> None:
    right = silent = 0
    for base in sorted(b for b in bases() if b.startswith("tiny/")):
        m = model(base)
        key = f"{m.architecture}.feed_forward_length"
        value = m.get(key)
        if m.fields[key].type_name != "u32" if key in m else True:
            continue
        found = _fixed(base, {"op": "set", "key": key, "type": "u32", "value": value + 32}, "size-key-mismatch")
        right += found == value
        silent += found is None
        assert found in (None, value), base
    # Silent where the size enters the shapes in another way (fused, experts, twice the width).
    assert right > 60
    assert silent < 15


def test_the_fix_of_a_head_size_is_the_value_the_model_was_made_with() -> None:
    right = []
    for base in sorted(b for b in bases() if b.startswith("tiny/")):
        m = model(base)
        key = f"{m.architecture}.attention.key_length"
        heads = m.arch.head_count
        if key not in m or not heads or not heads[0] or m.get(key) == m.arch.embedding_length // heads[0]:
            continue
        found = _fixed(base, {"op": "del", "key": key}, "head-size-mismatch")
        assert found in (None, m.get(key)), base
        right += [base] if found is not None else []
    assert {"tiny/qwen3", "tiny/qwen3moe", "tiny/gemma"} <= set(right)
