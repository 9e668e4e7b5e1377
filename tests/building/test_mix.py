"""``gguftool mix``: the choice is the best, the size is never above the target, and what is printed makes it."""

from __future__ import annotations

import itertools
import math
import random
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

import gguftool
from gguftool.build.mix.candidates import Allowed, of_tensor, types
from gguftool.build.mix.knapsack import Option, smallest, solve
from gguftool.build.mix.spelling import lines
from gguftool.build.mix.usual import LEAST, completed
from gguftool.build.patterns import compiled
from gguftool.errors import UsageError
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.run.measurer import available
from gguftool.run.sensitivity import groups
from tests.build import GGUF
from tests.building.models import DENSE, MOE, importances, model
from tests.conftest import Result

Cli = Callable[..., Result]
USUAL = ("--sensitivity", "usual")
TINY = Path(__file__).parents[2] / "fixtures" / "tiny-llama.gguf"


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return model(DENSE, "f16").write(tmp_path / "tiny-F16.gguf")


# The choice.


def walked(items: Sequence[Sequence[Option]], budget: int) -> float | None:
    """The least loss of all choices within the budget, each looked at."""
    within = (c for c in itertools.product(*items) if sum(o.size for o in c) <= budget)
    return min((sum(o.loss for o in c) for c in within), default=None)


def test_small_instances_end_at_the_optimum():
    r = random.Random(19)
    for _ in range(300):
        items = [
            [
                Option(32 * r.randint(1, 60), r.choice([0.0, r.random(), r.random() ** 4]))
                for _ in range(r.randint(1, 5))
            ]
            for _ in range(r.randint(0, 6))
        ]
        most = sum(max(o.size for o in options) for options in items)
        budget = r.randint(smallest(items) - 40, most + 10)
        found, best = solve(items, budget), walked(items, budget)
        if best is None:
            assert found is None
            continue
        assert found is not None
        assert found.size == sum(options[i].size for options, i in zip(items, found.picks, strict=True)) <= budget
        assert found.loss == pytest.approx(best, abs=1e-12)
        assert found.bound <= best + 1e-12


def test_large_instances_are_near_their_bound_and_always_the_same():
    r = random.Random(7)
    bits = (2.6, 3.4, 4.5, 5.5, 6.6, 8.5, 16)
    items = [
        [Option(int(n * b / 8), r.uniform(0.9, 1.1) * minds * 4.0**-b) for b in bits]
        for n, minds in ((32 * r.randint(100, 5000), 10 ** r.uniform(-2, 1)) for _ in range(1500))
    ]
    budget = int(sum(o[2].size for o in items) * 1.04)
    found = solve(items, budget)
    assert found is not None
    assert found == solve(items, budget)
    assert found.size <= budget
    assert found.loss <= 1.001 * found.bound


# What may be chosen.


def test_blocks_that_do_not_divide_rows_and_types_that_need_a_matrix_are_no_candidates(tmp_path: Path):
    built = (
        GGUF("llama").tensor("token_embd.weight", (576, 64), "f16").tensor("blk.0.ffn_down.weight", (1536, 576), "f16")
    )
    built.tensor("blk.0.attn_norm.weight", (576,), "f32").tensor("blk.0.ffn_gate_inp.weight", (256, 4), "f32")
    with gguftool.open(built.write(tmp_path / "m.gguf")) as m:
        narrow, wide, norm, router = (
            m.tensors[n]
            for n in (
                "token_embd.weight",
                "blk.0.ffn_down.weight",
                "blk.0.attn_norm.weight",
                "blk.0.ffn_gate_inp.weight",
            )
        )
        every = frozenset(TENSOR_TYPE_BY_NAME)
        # `ggml-common.h`: blocks of 256 for K and most of IQ, of 32 for the rest.
        assert set(of_tensor(narrow, "llama", Allowed(), every, True)) == set(
            "Q4_0 IQ4_NL Q4_1 Q5_0 Q5_1 Q8_0 F16".split()
        )
        bare, measured = (set(of_tensor(wide, "llama", Allowed(), every, m)) for m in (False, True))
        # `llama-quant.cpp:tensor_requires_imatrix`, `ggml.c:ggml_quantize_requires_imatrix` (b11434).
        assert measured - bare == set("IQ3_XXS IQ2_S IQ2_XS IQ2_XXS IQ1_M IQ1_S".split())
        assert of_tensor(norm, "llama", Allowed(), every, True) == ()
        assert of_tensor(router, "llama", Allowed(), every, True) == ()
        assert min(bits(n) for n in of_tensor(wide, "llama", Allowed(least=5.1), every, True)) == 5.5
        assert of_tensor(wide, "llama", Allowed(), frozenset(("Q4_0",)), True) == ("Q4_0", "F16")


def bits(name: str) -> float:
    kind = TENSOR_TYPE_BY_NAME[name]
    return 8 * kind.block_bytes / kind.block_size


def test_types_by_name_and_family():
    assert types("k, q8_0") == ("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "Q8_0")
    for text, near in (("q4k", "Q4_K"), ("", "families"), ("i32", "near")):
        with pytest.raises(UsageError) as caught:
            types(text)
        assert near in f"{caught.value} {caught.value.hint}"


# How it is spelled.


@pytest.mark.parametrize("seed", range(4))
def test_each_pattern_names_its_tensors_and_no_other(seed: int):
    r = random.Random(seed)
    kinds = ("attn_q.weight", "attn_k.weight", "ffn_gate_exps.weight", "attn.x+y.weight")
    names = [f"blk.{i}.{kind}" for i in range(12) for kind in kinds]
    names += ["token_embd.weight", "output.weight", "attn_q.weight", "v.blk.3.attn_q.weight"]
    wanted = {name: r.choice(("Q4_K", "Q6_K", "Q8_0")) for name in names}
    patterns = lines(wanted)
    assert all(pattern == pattern.lower() and not re.search(r"[\s=]", pattern) for pattern, _ in patterns)
    # As llama-quantize reads them.
    read = [(compiled(pattern), kind) for pattern, kind in patterns]
    got = {name: [kind for pattern, kind in read if pattern.search(name)] for name in names}
    assert got == {name: [kind] for name, kind in wanted.items()}


def test_one_pattern_for_all_layers():
    assert lines({f"blk.{i}.attn_q.weight": "Q4_K" for i in range(3)}) == ((r"^blk\.[0-9]+\.attn_q\.weight$", "Q4_K"),)


# The whole way, with sensitivities as they usually are.


@pytest.mark.parametrize(
    ("which", "target"),
    [("tiny", "6.1bpw"), ("tiny", "60KiB"), ("tiny", "Q4_K_M"), ("dense", "4.6bpw"), ("dense", "Q3_K_L")],
)
def test_never_larger_than_asked_and_the_printed_command_makes_it(
    cli: Cli, dense: Path, tmp_path: Path, which: str, target: str
):
    source = dense if which == "dense" else TINY
    asked = ("mix", source, "--target", target, "--sensitivity", "usual", "--types", "k,legacy")
    told = cli(*asked, "--format", "json")
    assert told.code == 0, told.err
    found = told.json
    if target.endswith("bpw"):
        with gguftool.open(source) as m:
            weights = sum(math.prod(t.shape) for t in m.tensors.values())
        assert 8 * found["data_size"] / weights <= float(target.removesuffix("bpw"))
    elif target.endswith("KiB"):
        assert found["file_size"] <= int(target.removesuffix("KiB")) << 10
    else:
        own = cli("quantize", source, "x.gguf", target, "--dry-run", "--engine", "builtin", "--format", "json").json
        assert found["file_size"] <= own["file_size"]
    words = shlex.split(found["command"])
    assert words[0] == "gguftool"
    said = cli(*words[1:], "--dry-run", "--format", "json").json
    assert said["file_size"] == found["file_size"]
    types = {t["name"]: t["to"] for t in said["tensors"]}
    assert all(types[t["name"]] == t["type"] for t in found["tensors"])
    done = cli(*asked, "-o", tmp_path / "out.gguf", "--format", "json")
    assert done.code == 0, done.err
    assert (tmp_path / "out.gguf").stat().st_size == done.json["size"] == found["file_size"]
    with gguftool.open(tmp_path / "out.gguf") as m:
        assert {t.name: t.type_name for t in m.tensors.values() if t.name in types} == types


def test_it_loses_less_than_llama_cpps_own(cli: Cli, dense: Path):
    found = cli("mix", dense, "--target", "Q4_K_M", *USUAL, "--types", "k,legacy,iq", "--format", "json").json
    assert found["like"] == "Q4_K_M"
    assert found["bound"] <= found["loss"] < 0.9 * found["own_loss"]


def test_experts_and_an_importance_matrix(cli: Cli, tmp_path: Path):
    source = model(MOE, "bf16").write(tmp_path / "moe-bf16.gguf")
    matrix = importances("qwen3moe").write(tmp_path / "imatrix.gguf")
    asked = ("mix", source, "--target", "2.4bpw", *USUAL, "--types", "k,iq2_xxs,iq3_xxs", "--format", "json")
    assert cli(*asked).code == 4, "without a matrix nothing is that small: the smallest type is Q2_K"
    found = cli(*asked, "--imatrix", matrix)
    assert found.code == 0, found.err
    assert found.json["bits_per_weight"] <= 2.4
    tried = next(t["errors"] for t in found.json["tensors"] if "ffn_up_exps" in t["name"])
    assert tried["IQ2_XXS"] > tried["IQ3_XXS"] > tried["Q4_K"] > tried["Q6_K"] > 0
    assert "--imatrix" in found.json["command"]


def test_what_the_user_names_stays(cli: Cli, dense: Path):
    found = cli(
        "mix", dense, "--target", "6bpw", "--sensitivity", "usual", "--tensor-type", "attn_v=q8_0", "--tensor-type",
        "^output=f16", "--types", "k,legacy", "--least", "4.5", "--format", "json",
    ).json  # fmt: skip
    kinds = {t["name"]: t["type"] for t in found["tensors"]}
    assert {kinds["blk.0.attn_v.weight"], kinds["blk.1.attn_v.weight"]} == {"Q8_0"}
    assert kinds["output.weight"] == "F16"
    assert not [k for k in kinds.values() if k.startswith("IQ") or bits(k) < 4.5]


def test_types_are_saved_in_the_form_of_llama_quantize(cli: Cli, tmp_path: Path):
    saved = tmp_path / "types.txt"
    done = cli("mix", TINY, "--target", "6bpw", "--sensitivity", "usual", "--save", saved, "--format", "json")
    assert done.code == 0, done.err
    assert saved.read_text().split() == done.json["tensor_types"]
    assert f"--tensor-type-file {saved}" in done.json["command"]
    again = cli("mix", TINY, "--target", "6bpw", "--sensitivity", "usual", "--save", saved)
    assert again.code == 0, again.err
    assert cli("mix", TINY, "--target", "6bpw", "--sensitivity", "usual", "--save", TINY).code == 4
    assert TINY.read_bytes()[:4] == b"GGUF"


def test_sensitivities_of_an_earlier_run(cli: Cli, tmp_path: Path):
    first = cli("mix", TINY, "--target", "6bpw", "--sensitivity", "usual", "--format", "json")
    kept = tmp_path / "first.json"
    kept.write_bytes(first.stdout)
    again = cli("mix", TINY, "--target", "6bpw", "--sensitivity", kept, "--format", "json").json
    assert again["sensitivity"] == "file"
    assert again["tensor_types"] == first.json["tensor_types"]
    kept.write_text('{"tensors": [{"name": "x"}]}')
    assert cli("mix", TINY, "--target", "6bpw", "--sensitivity", kept).code == 2


def test_what_cannot_be(cli: Cli, tmp_path: Path):
    usual = ("--sensitivity", "usual")
    small = cli("mix", TINY, "--target", "2bpw", *usual)
    assert small.code == 4
    assert "the smallest mixture" in small.err
    for target in ("4.5", "Q4_K_X", "12parsec", ""):
        assert cli("mix", TINY, "--target", target, *usual).code == 2
    assert cli("mix", TINY, "--target", "5bpw", "--sensitivity", tmp_path / "none.json").code == 2
    again = cli("mix", model(DENSE, "q8_0").write(tmp_path / "q8.gguf"), "--target", "5bpw", *usual)
    assert again.code == 4
    assert "--allow-requantize" in again.err
    odd = GGUF("llama").tensor("token_embd.weight", (33, 8), "f16").write(tmp_path / "odd.gguf")
    taken = cli("mix", TINY, "--target", "5bpw", *usual, "-o", odd)
    assert taken.code == 4
    assert cli("mix", odd, "--target", "9bpw", *usual, "--types", "k").code == 4


# How much a model minds.


def test_groups_are_kinds_and_stretches_of_layers(tmp_path: Path):
    built = GGUF("llama").tensor("token_embd.weight", (32, 8), "f16")
    for i in range(30):
        built.tensor(f"blk.{i}.attn_q.weight", (32, 32), "f16")
    with gguftool.open(built.write(tmp_path / "m.gguf")) as m:
        found = groups(list(m.tensors.values()), 6)
    assert [(g.kind, g.layers, len(g.tensors)) for g in found] == [
        ("token_embd.weight", None, 1),
        *(("attn_q.weight", (a, b), b - a + 1) for a, b in ((0, 0), (1, 7), (8, 14), (15, 21), (22, 28), (29, 29))),
    ]


def test_what_was_not_measured_is_as_its_kind(tmp_path: Path):
    with gguftool.open(model(DENSE, "f16").write(tmp_path / "m.gguf")) as m:
        tensors = [t for t in m.tensors.values() if len(t.shape) > 1]
        found = completed(tensors, {"blk.0.attn_q.weight": 4.0, "blk.0.attn_k.weight": 1.0, "output.weight": 0.0})
    assert found["blk.1.attn_q.weight"] == 4.0
    assert found["blk.1.ffn_up.weight"] == 1.0, "the middle one"
    assert found["output.weight"] == LEAST


@pytest.mark.skipif(not available(), reason="xllamacpp is not installed in the version we know")
def test_the_real_library_tells_what_a_model_minds(cli: Cli):
    """An output that is the embeddings, too, minds more than keys of 32 columns that hardly turn anything."""
    done = cli("mix", TINY, "--target", "6bpw", "--bands", 1, "--tokens", 128, "--format", "json")
    assert done.code == 0, done.err
    found = done.json
    assert found["sensitivity"] == "measured"
    measured = found["measured"]
    assert measured["tokens"] == 128
    assert 100 < measured["perplexity"] < 1000, "weights of random numbers, 291 tokens"
    minds = {g["kind"]: g["divergence"] / g["error"] for g in measured["groups"]}
    assert len(minds) == 8
    assert minds["token_embd.weight"] > 10 * minds["attn_k.weight"] > 0
