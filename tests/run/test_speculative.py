"""Speculative decoding from the wish to the proof: kinds, memory, logs of the real server (b11434), translations."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gguftool.model import Model, from_source, open_model
from gguftool.run.capabilities import known
from gguftool.run.deploy import Found, deploy, outcome
from gguftool.run.devices import HostMemory
from gguftool.run.diagnose import explain_line, judge
from gguftool.run.endpoints import Drafted
from gguftool.run.explained import explain_flag
from gguftool.run.launch import plan_launch
from gguftool.run.log import read_log
from gguftool.run.proof import compare, proven
from gguftool.run.serve import _drafted
from gguftool.run.translate import translate
from gguftool.run.wishes import Wishes
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.draft_cases import gemma4, target
from tests.speculators import dflash, eagle3, gemma4_assistant, glm

LOGS = Path(__file__).parent.parent / "data" / "logs"
MIB = 1 << 20
HOST = Found(host=HostMemory(1 << 40, 1 << 40))


def log(name: str) -> str:
    return gzip.decompress((LOGS / f"server.{name}.log.gz").read_bytes()).decode()


def opened(g: GGUF, name: str = "/m.gguf") -> Model:
    return from_source(Memory(g.bytes(), name), strict=False)


def planned(model: Model, wishes: Wishes) -> Any:
    d = deploy(model, wishes, HOST)
    return outcome(d, d.planner(model)).plan


def qwen35_27b(nextn: int = 1) -> Model:
    """The keys of Qwen3.5/3.6 27B as its configuration gives them; the layers have one tensor each."""
    g = GGUF("qwen35").kv("qwen35.block_count", 64 + nextn).kv("qwen35.context_length", 262144)
    g.kv("qwen35.nextn_predict_layers", nextn).kv("qwen35.embedding_length", 5120)
    for key, value in (
        ("feed_forward_length", 17408), ("attention.head_count", 24), ("attention.head_count_kv", 4),
        ("attention.key_length", 256), ("attention.value_length", 256), ("rope.dimension_count", 64),
        ("ssm.conv_kernel", 4), ("ssm.state_size", 128), ("ssm.group_count", 16), ("ssm.time_step_rank", 48),
        ("ssm.inner_size", 6144), ("full_attention_interval", 4),
    ):  # fmt: skip
        g.kv(f"qwen35.{key}", value)
    for i in range(64 + nextn):
        g.tensor(f"blk.{i}.ffn_up.weight", (5120, 17408), "q4_k", b"")
    if nextn:
        g.tensor("blk.64.nextn.eh_proj.weight", (10240, 5120), "q8_0", b"")
    return opened(g.tensor("token_embd.weight", (5120, 248320), "q4_k", b""))


def test_public_figures_of_prediction_layers() -> None:
    """Findings F4: ollama #17482 (RS buffer 748.12 MiB with n_rs_seq 4), llama.cpp #23472 (544 MiB more at 262,144)."""
    m = qwen35_27b()
    asked = Wishes(ctx=105216, spec_type=("draft-mtp",), draft_max=4)
    plan = planned(m, asked)
    assert plan.state / MIB == pytest.approx(748.12, abs=0.005)
    assert planned(m, Wishes(ctx=105216)).state / MIB == pytest.approx(748.12 / 5, abs=0.005)
    q8 = Wishes(ctx=262144, spec_type=("draft-mtp",), draft_type_k="q8_0", draft_type_v="q8_0")
    (draft,) = planned(m, q8).drafts
    assert (draft.what, draft.kv, draft.weights, draft.state) == ("layers", 544 * MIB, 0, 0)
    assert draft.compute > 0


def test_prediction_layers_are_loaded_when_they_draft() -> None:
    m = qwen35_27b()
    plain, plan = planned(m, Wishes(ctx=4096)), planned(m, Wishes(ctx=4096, spec_type=("draft-mtp",)))
    layer = 17408 * 5120 // 256 * 144 + 10240 * 5120 // 32 * 34
    assert (plain.skipped_bytes, plan.skipped_bytes) == (layer, 0)
    assert plan.weights - plain.weights == layer
    assert plan.devices[-1].beside == plan.drafts[0].total


PAIRS: dict[str, tuple[Callable[[], GGUF], Callable[[], GGUF] | None, str]] = {
    "draft_simple": (target, llama, "draft-simple"),
    "draft_eagle3": (target, lambda: eagle3(own=False), "draft-eagle3"),
    "draft_block": (target, dflash, "draft-dflash"),
    "draft_layers": (glm, None, "draft-mtp"),
    "draft_assistant": (gemma4, lambda: gemma4_assistant(gemma4()), "draft-mtp"),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_is_planned_is_what_the_server_allocates(name: str, tmp_path: Path) -> None:
    make_target, make_draft, kind = PAIRS[name]
    model = opened(make_target())
    draft = str(make_draft().write(tmp_path / "draft.gguf")) if make_draft else None
    wishes = Wishes(ctx=512, draft=draft, spec_type=() if draft else (kind,))
    plan = plan_launch(model, wishes, host=HostMemory(1 << 33, 1 << 33))
    assert plan.argv[plan.argv.index("--spec-type") + 1] == kind
    assert plan.expected.drafting == (kind,)
    f = read_log(log(name))
    assert f.speculating == (kind,)
    assert f.drafted
    (mine,), (its,) = plan.memory.drafts, f.drafts
    weights = sum(b.mib for b in its.buffers if b.kind == "model")
    assert mine.weights / MIB == pytest.approx(weights, abs=0.006)
    if name != "draft_assistant":  # it reads the cache of its target, and the log tells the sizes of that again
        assert mine.kv / MIB == pytest.approx(sum(c.mib for c in its.caches), abs=0.006)
        assert mine.state == (its.state_mib or 0) == 0
    checks = compare(plan.expected, judge(log(name)))
    told = {c.what: c.ok for c in checks}
    assert told["speculative decoding"] is True
    assert told.get("draft: KV cache", True) is True
    assert "errors" not in told


def test_a_draft_that_was_not_set_up_is_no_proof(tmp_path: Path) -> None:
    draft = str(llama().write(tmp_path / "draft.gguf"))
    plan = plan_launch(opened(target()), Wishes(ctx=512, draft=draft), host=HostMemory(1 << 33, 1 << 33))
    for name in ("draft_never_used", "draft_not_eagle3", "side_draft_vocabulary"):
        checks = compare(plan.expected, judge(log(name)))
        assert not proven(checks)
        assert next(c for c in checks if c.what == "speculative decoding").ok is False


def test_no_speculation_is_no_notice_where_no_draft_is_loaded() -> None:
    """b11434 says at that level of every server that there is none."""
    text = log("smollm2_lv4")
    assert "no implementations specified" in log("draft_never_used")
    assert [n.kind for n in judge(text).notices if n.kind.startswith("draft")] == []
    one = "spec common_specu: no implementations specified for speculative decoding"
    assert judge(one).notices == ()


def test_what_cannot_be_measured_without_its_target_is_no_error() -> None:
    for name in ("draft_eagle3", "draft_assistant"):
        assert "this warning is normal during memory fitting" in log(name)
        assert judge(log(name)).notices == ()


def test_a_block_is_as_long_as_it_is() -> None:
    (notice,) = judge(log("draft_block")).notices
    assert (notice.kind, notice.remedy) == ("draft-block", "--spec-draft-n-max 3")


def test_a_cache_type_that_the_draft_refuses_stops_plan_and_launch() -> None:
    """Recorded: `K cache type q8_0 with block size 32 does not divide n_embd_head_k=16`, and the server ends."""
    wishes = Wishes(ctx=512, spec_type=("draft-mtp",), draft_type_k="q8_0", draft_type_v="q8_0")
    model = opened(glm())
    assert any("q8_0" in line for line in planned(model, wishes).refused)
    stops = plan_launch(model, wishes, host=HostMemory(1 << 33, 1 << 33)).obstacles
    assert any(o.where == "cache" and "draft" in o.message for o in stops)


@pytest.mark.parametrize(
    ("d", "said"),
    [
        (Drafted(24, 17, 17), {"drafted tokens": True, "accepted of them": True}),
        (Drafted(24, 63, 0), {"drafted tokens": True, "accepted of them": None}),
        (Drafted(24, 0, 0), {"drafted tokens": False}),
        (Drafted(0, 0, 0, "no answer (HTTP connection closed)"), {"drafted tokens": False}),
    ],
)
def test_the_proof_counts_what_was_drafted(d: Drafted, said: dict[str, bool | None]) -> None:
    checks = _drafted(d)
    assert {c.what: c.ok for c in checks} == said
    assert proven(checks) is (d.drafted > 0)


def test_a_model_that_can_draft_for_itself_is_told_so() -> None:
    def told(g: GGUF, **wishes: Any) -> list[str]:
        d = deploy(opened(g), Wishes(ctx=512, **wishes), HOST)
        return [note for note in d.notes if "draft for itself" in note]

    assert told(glm()) == ["the model can draft for itself with a prediction layer: --spec-type draft-mtp"]
    assert told(glm(heads=False)) == told(llama()) == told(glm(), spec_type=("ngram-mod",)) == []


@pytest.mark.parametrize(
    ("g", "kind", "outcome"),
    [
        (llama, "draft-mtp", "refused"),
        (llama, "draft-simple", "ignored"),
        (lambda: glm(heads=False), "draft-mtp", "aborts"),
        (glm, "draft-mtp", ""),
        (llama, "ngram-mod", ""),
    ],
)
def test_a_kind_that_needs_what_is_not_there_stops(g: Callable[[], GGUF], kind: str, outcome: str) -> None:
    d = deploy(opened(g()), Wishes(ctx=512, spec_type=(kind,)), HOST)
    assert [x.misfit.outcome for x in d.unfit] == ([outcome] if outcome else [])
    assert all(x.text.startswith(f"--spec-type {kind}: ") for x in d.unfit)


def test_rows_of_logits_follow_the_kind() -> None:
    """`speculative.cpp:common_speculative_n_max`: 3 of a draft, 48 and 64 of the text, 8 of the cache."""

    def rows(**wishes: Any) -> int | None:
        return deploy(opened(llama()), Wishes(ctx=4096, parallel=2, **wishes), HOST).settings.outputs

    assert rows() is None
    assert rows(spec_type=("none",)) is None
    assert rows(spec_type=("draft-simple",)) == 2 * 4
    assert rows(spec_type=("draft-simple",), draft_max=16) == 2 * 17
    assert rows(spec_type=("ngram-mod",)) == rows(extra=("--spec-default",)) == 2 * 65
    assert rows(spec_type=("ngram-mod",), ngram_mod_max=32) == 2 * 33
    assert rows(spec_type=("draft-simple", "ngram-simple")) == 2 * 49
    assert rows(spec_type=("ngram-map-k4v",), ngram_map_k4v_m=8) == rows(spec_type=("ngram-cache",)) == 2 * 9


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (
            "-md d.gguf --draft-max 16 --draft-min 1",
            "-md d.gguf --spec-draft-n-max 16 --spec-draft-n-min 1 | draft-simple",
        ),
        ("--draft-model d.gguf", "-md d.gguf | draft-simple"),
        ("-md d.gguf -cd 8192 --draft-p-min 0.8", "-md d.gguf --draft-p-min 0.8 | draft-simple"),
        ("-md FILE", "-md FILE | draft-eagle3"),
        ("-md lab/dflash-Qwen3.gguf", "-md lab/dflash-Qwen3.gguf | draft-dflash"),
        ("-md mtp-GLM.gguf", "-md mtp-GLM.gguf | draft-mtp"),
        ("-md d.gguf --spec-type eagle3", "-md d.gguf --spec-type draft-eagle3"),
        ("--spec-type mtp", "--spec-type draft-mtp"),
        ("--spec-type mtp,ngram-mod", "--spec-type draft-mtp,ngram-mod"),
        ("--spec-type draft -md d.gguf", "--spec-type draft-simple -md d.gguf"),
        ("-mtp", "--spec-type draft-mtp"),
        ("--draftmodel d.gguf --draftamount 8", "-md d.gguf --spec-draft-n-max 8 | draft-simple"),
        ("--draft_model prompt-lookup-decoding", "--spec-type ngram-simple"),
        ("--draft_model d.gguf --draft_model_num_pred_tokens 5", "-md d.gguf --spec-draft-n-max 5 | draft-simple"),
        ("--speculative-model d.gguf --num-speculative-tokens 5", "-md d.gguf --spec-draft-n-max 5 | draft-simple"),
        ("--spec-ngram-size-n 8 --spec-type ngram-simple", "--spec-ngram-simple-size-n 8 --spec-type ngram-simple"),
        ("--spec-default -md d.gguf", "--spec-default -md d.gguf"),
    ],
)
def test_translated_commands_really_speculate(command: str, wanted: str, tmp_path: Path) -> None:
    file = str(eagle3().write(tmp_path / "head.gguf"))
    said = translate(f"llama-server -m m {command.replace('FILE', file)}", known())
    argv = " ".join(said.argv[3:]).replace(file, "FILE").removesuffix(" -lv 4").replace(" -np 1", "")
    assert argv == wanted.replace(" | ", " --spec-type ")


def test_what_a_translation_cannot_mend_is_a_note() -> None:
    for command, word in (
        ("--spec-type draft-eagle3", "add -md FILE"),
        ("-md d --spec-type none", "never uses it"),
        ("--spec-type ngram-simple --draft-max 8", "--spec-ngram-simple-size-m 8"),
    ):
        assert any(word in note for note in translate(f"llama-server -m m {command}", known()).notes)


def test_options_of_speculation_are_explained() -> None:
    for flag in ("-md", "--spec-type", "--spec-draft-n-max", "-ctkd", "--spec-default"):
        assert explain_flag(flag).meaning
    unknown = explain_line('error while handling argument "--spec-type": unknown speculative type: mtp')
    assert unknown is not None
    assert unknown.kind == "draft-kind"


@pytest.mark.real
def test_a_model_that_is_its_own_draft(cli: Any, smollm2: Path, tmp_path: Path) -> None:
    """Greedy, it accepts all that it has drafted; the text alone drafts where it repeats itself."""
    for words in (["-md", smollm2], ["--spec-type", "ngram-mod"]):
        done = cli(
            "launch", smollm2, "--ctx", "2048", "--check-only", "--force", "--port", "0",
            "--log", tmp_path / "log", "--format", "json", *words,
        )  # fmt: skip
        assert done.code == 0, done.err
        drafted = done.json["drafted"]
        assert drafted["drafted"] >= 12
        assert drafted["accepted"] >= drafted["drafted"] * 3 // 4
        assert done.json["observed"]["speculating"]


@pytest.mark.parametrize(
    ("asked", "shares"),
    [
        ({}, {"CUDA0": 24, "CUDA1": 8}),
        ({"draft_device": ("CUDA1",)}, {"CUDA0": 0, "CUDA1": 32}),
        # In the order in which they are named: the shares are those of the model (`-ts`), the order is its own.
        ({"draft_device": ("cuda1", "CUDA0")}, {"CUDA0": 8, "CUDA1": 24}),
        ({"draft_gpu_layers": 0}, {"CUDA0": 0, "CUDA1": 0}),
        ({"draft_device": ("none",)}, {"CUDA0": 0, "CUDA1": 0}),
    ],
    ids=str,
)
def test_layers_of_a_draft_go_where_llama_cpp_puts_them(
    asked: dict[str, Any], shares: dict[str, int], tmp_path: Path
) -> None:
    """`common_base_params_to_speculative`: devices and layers of its own, all else of the model."""
    path = llama(layers=31).write(tmp_path / "draft.gguf")
    with open_model(path, strict=False) as m:
        w = Wishes(
            ctx=4096, draft=str(path), spec_type=("draft-simple",), vram=(8 << 30, 8 << 30), tensor_split=(3.0, 1.0),
            **asked,
        )  # fmt: skip
        d = deploy(m, w, HOST)
        plan = outcome(d, d.planner(m)).plan
        draft = plan.drafts[0]
        # 32 layers, the output counting as one, which has no cache.
        whole = draft.kv // 31
        on = {x.name: x for x in draft.devices}
        for name, layers in shares.items():
            kv = on[name].kv // whole if name in on else 0
            assert kv in (layers, layers - 1)
        assert sum(x.kv for x in draft.devices) == draft.kv
        assert plan.kv == draft.kv


def test_what_repetitions_are_kept_of_is_counted(tmp_path: Path) -> None:
    """b11434's own `common_ngram_cache_update` over 4,096 random tokens: 992 bytes each; a file of 455,152 bytes of
    them takes 8.93 times as much, once a slot.
    """
    m = opened(llama(layers=3))
    kept = tmp_path / "seen.bin"
    kept.write_bytes(bytes(455152))
    w = Wishes(ctx=4096, parallel=2, spec_type=("ngram-cache",))
    plain, file = planned(m, w), planned(m, replace(w, lookup_static=str(kept)))
    (grown,) = (g for g in plain.growth if g.what == "n-grams")
    assert 4096 * 992 <= grown.bytes <= 1.05 * 4096 * 992
    assert 2 * 992.4 * 4096 <= file.devices[-1].beside - plain.devices[-1].beside <= 1.05 * 2 * 992.4 * 4096
    assert not [g for g in planned(m, Wishes(ctx=4096, spec_type=("ngram-mod",))).growth if g.what == "n-grams"]


def test_tables_of_repetitions_are_counted() -> None:
    """The real server says of the first ``mod size=4194304 (16.000 MB)``; the maps have 262,144 entries a slot."""
    m = opened(llama(layers=3))
    plain = planned(m, Wishes(ctx=512, parallel=2)).devices[-1].beside
    for kinds, mib in ((("ngram-mod",), 16), (("ngram-map-k",), 2), (("ngram-map-k4v", "ngram-mod"), 18)):
        plan = planned(m, Wishes(ctx=512, parallel=2, spec_type=kinds))
        assert plan.devices[-1].beside - plain == mib * MIB
