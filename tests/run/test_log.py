"""Every real log is classified right: what the run was made to show stands in tests/data/logs/index.json."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gguftool.run.diagnose import explain_line, explain_text, judge
from gguftool.run.lines import lines_of
from gguftool.run.log import LogFacts, read_log
from gguftool.run.messages import table
from gguftool.run.proof import Expected, compare, proven
from tests.build import llama
from tests.pace import within

LOGS = Path(__file__).parent.parent / "data" / "logs"
INDEX: list[dict[str, Any]] = json.loads((LOGS / "index.json").read_text())


def log(name: str) -> str:
    return gzip.decompress((LOGS / f"{name}.gz").read_bytes()).decode()


def facts(name: str) -> LogFacts:
    return read_log(log(f"server.{name}.log"))


@pytest.mark.parametrize("run", INDEX, ids=lambda run: run["log"].removeprefix("server.").removesuffix(".log"))
def test_every_real_log_is_classified_right(run: dict[str, Any]) -> None:
    judged = judge(log(run["log"]))
    assert (judged.status == "ready") == run["served"]
    assert (judged.status == "failed") == (run["exit"] == 1)
    assert (judged.error.kind if judged.error else None) == run["kind"]
    if judged.error:
        assert judged.error.cause
        assert judged.error.remedy
        assert "{" not in judged.error.cause + judged.error.remedy
    assert [d.kind for d in judged.undone] == run.get("undone", [])


def test_the_table_of_runs_has_both_kinds() -> None:
    assert len(INDEX) == 107
    assert sum(run["exit"] == 1 for run in INDEX) == 53


@pytest.mark.parametrize(
    ("name", "caches", "slots", "slot_context", "unified"),
    [
        # (cells, layers, streams, K MiB, V MiB), read off the logs by hand
        ("lv4_default", [(32768, 3, 1, 48.00, 48.00), (2560, 15, 1, 18.75, 18.75)], 4, 32768, True),
        ("lv4_kv_q8_q4_fa_32k", [(32768, 3, 1, 25.50, 13.50), (2560, 15, 1, 9.96, 5.27)], 4, 32768, True),
        ("lv4_np1_8k", [(8192, 3, 1, 12.0, 12.0), (1024, 15, 1, 7.5, 7.5)], 1, 8192, False),
        ("lv4_np4_kvu_off", [(2048, 3, 4, 12.0, 12.0), (1024, 15, 4, 30.0, 30.0)], 4, 2048, False),
        ("lv4_swa_full", [(8192, 3, 1, 12.0, 12.0), (8192, 15, 1, 60.0, 60.0)], 4, 8192, True),
        ("lv4_noprefix", [(8192, 3, 1, 12.0, 12.0), (2560, 15, 1, 18.75, 18.75)], 4, 8192, True),
        ("smollm2_lv4", [(4096, 30, 1, 45.0, 45.0)], 4, 4096, True),
        ("tiny_deepseek2-mla", [(4096, 3, 1, 2.25, 0.0)], 4, 4096, True),
        ("tiny_mamba", [], 4, 4096, True),
    ],
)
def test_sizes(name: str, caches: list[tuple[Any, ...]], slots: int, slot_context: int, unified: bool) -> None:
    f = facts(name)
    assert [(c.cells, c.layers, c.streams, c.k_mib, c.v_mib) for c in f.caches] == caches
    assert (f.slots, f.slot_context, f.slots_unified) == (slots, slot_context, unified)


def test_the_rest_of_a_log() -> None:
    f = facts("lv4_kv_q8_q4_fa_32k")
    assert f.program == "llama-server"
    assert f.verbosity == 4
    assert (f.keys, f.tensors) == (33, 236)
    assert f.hparams["arch"] == "gemma3"
    assert f.hparams["n_ctx_train"] == "32768"
    assert f.hparams["file size"] == "235.16 MiB (7.36 BPW)"
    assert f.context["n_ctx"] == "32768"
    assert f.context["freq_base"] == "1000000.0"
    assert f.flash_attn == "enabled"
    assert {(b.kind, b.device, b.mib) for b in f.buffers} == {
        ("model", "CPU_Mapped", 235.16), ("model", "CPU_REPACK", 12.66), ("output", "CPU", 4.0), ("KV", "CPU", 39.0),
        ("KV", "CPU", 15.23), ("compute", "CPU", 53.31),
    }  # fmt: skip
    assert f.address == "http://127.0.0.1:39625"
    assert f.offloaded == (19, 19), "printed although there is no GPU; not taken as a proof"


def test_states_of_recurrent_models() -> None:
    assert facts("tiny_mamba").state_mib == 0.22
    hybrid = facts("tiny_granitehybrid")
    assert (len(hybrid.caches), hybrid.state_mib) == (1, 0.43)


def test_sizes_of_the_pass_that_allocates_nothing_are_not_taken() -> None:
    # The log is cut in the middle, after the fit pass: what it says about sizes was only worked out.
    f = facts("verbose")
    assert f.caches == ()
    assert f.buffers == ()


def test_the_embedded_server_logs_the_same() -> None:
    f = read_log(log("xllamacpp.err"))
    assert [(c.cells, c.streams, c.type_k, c.type_v) for c in f.caches] == [
        (4096, 2, "q8_0", "q8_0"),
        (1024, 2, "q8_0", "q8_0"),
    ]
    assert f.ready


@pytest.mark.parametrize("name", ["gguf-split.split.log", "quantize.dryrun.log", "fit-params.default.err"])
def test_other_programs_run_to_their_end(name: str) -> None:
    assert judge(log(name)).status == "finished"


@pytest.mark.parametrize("text", ["", "\n\n", "hello world\n", "\x00\x01\x02", "{" * 10000, '{"msg": 3}\n'])
def test_what_is_no_log(text: str) -> None:
    judged = judge(text)
    assert (judged.status, judged.error) == ("unknown", None)


def test_other_prefixes_and_wrappings() -> None:
    line = (
        "llama_kv_cache: size =   39.00 MiB ( 32768 cells,   3 layers,  4/1 seqs), "
        "K (q8_0):   25.50 MiB, V (q4_0):   13.50 MiB"
    )
    wrapped = [
        f"0.02.078.300 I {line}",
        f"Nov 29 10:00:00 host llama-server[812]: 0.02.078.300 I {line}",
        f"\x1b[32m0.02.078.300 I \x1b[0m{line}",
        json.dumps({"type": "log", "time": 1, "level": "info", "msg": line + "\n"}),
        f"2026-03-25T19:17:07+02:00 gemma3.server[16376]: {line}",
    ]
    for text in wrapped:
        [cache] = read_log(text).caches
        assert (cache.cells, cache.type_k, cache.k_mib, cache.type_v, cache.v_mib) == (
            32768,
            "q8_0",
            25.5,
            "q4_0",
            13.5,
        )


def test_builds_of_2024_and_2025() -> None:
    old = (
        "llm_load_print_meta: n_ctx_train      = 8192\n"
        "llama_new_context_with_model: n_ctx      = 4096\n"
        "llama_new_context_with_model: KV self size  =   90.00 MiB, K (f16):   45.00 MiB, V (f16):   45.00 MiB\n"
        "main: model loaded\n"
        "main: server is listening on http://127.0.0.1:8080 - starting the main loop\n"
    )
    f = read_log(old)
    assert f.hparams["n_ctx_train"] == "8192"
    assert [(c.cells, c.k_mib, c.v_mib) for c in f.caches] == [(4096, 45.0, 45.0)]
    assert f.ready
    mid = (
        "llama_kv_cache_unified: size =   90.00 MiB (  4096 cells,  30 layers,  1 seqs), "
        "K (f16):   45.00 MiB, V (f16):   45.00 MiB"
    )
    [cache] = read_log(mid).caches
    assert (cache.cells, cache.layers, cache.streams) == (4096, 30, 1)


def test_logs_of_gpu_builds() -> None:
    text = (
        "llama_model_load_from_file_impl: using device CUDA0 (NVIDIA RTX 3090) (0000:01:00.0) - 23886 MiB free\n"
        "llama_model_loader: loaded meta data with 33 key-value pairs and 236 tensors from m.gguf (version GGUF V3)\n"
        "load_tensors: offloaded 19/19 layers to GPU\n"
        "load_tensors:        CUDA0 model buffer size =   200.00 MiB\n"
        "load_tensors:   CPU_Mapped model buffer size =    35.16 MiB\n"
        "llama_context:  CUDA_Host  output buffer size =     1.00 MiB\n"
        "llama_kv_cache:      CUDA0 KV buffer size =    39.00 MiB\n"
        "sched_reserve:      CUDA0 compute buffer size =   514.00 MiB\n"
    )
    f = read_log(text)
    assert f.devices == (("CUDA0", 23886),)
    assert [(b.kind, b.device, b.mib) for b in f.buffers] == [
        ("model", "CUDA0", 200.0), ("model", "CPU_Mapped", 35.16), ("output", "CUDA_Host", 1.0), ("KV", "CUDA0", 39.0),
        ("compute", "CUDA0", 514.0),
    ]  # fmt: skip
    old = [
        f"llm_load_tensors: {name:>10} buffer size = {mib} MiB"
        for name, mib in (("CPU", "4165.37"), ("CUDA0", "100.00"))
    ]
    assert [(b.device, b.mib) for b in read_log("\n".join(old)).buffers] == [("CPU", 4165.37), ("CUDA0", 100.0)]


def test_a_card_without_weights_is_noticed() -> None:
    """The count of offloaded layers is no proof; the buffers are."""
    from gguftool.run.proof import Expected, compare

    expected = Expected(devices=("CUDA0", "MTL0"))
    loaded = "main: model loaded\nload_tensors: offloaded 19/19 layers to GPU\n"
    host = "load_tensors: CPU model buffer size = 9.0 MiB\n"
    for more, wanted in (
        ("", [False, False]),
        ("load_tensors: CUDA0 model buffer size = 9.00 MiB\n", [True, False]),
        ("load_tensors: MTL0_Mapped model buffer size = 9.00 MiB\n", [False, True]),
    ):
        found = compare(expected, judge(loaded + more + host))
        assert [c.ok for c in found if c.what.startswith("weights on")] == wanted


def test_a_configuration_file_in_the_log() -> None:
    f = read_log("0.00.001.000 I using config file: /etc/llama.cpp/config.ini\n")
    assert f.config_files == ("/etc/llama.cpp/config.ini",)


@pytest.mark.parametrize(
    ("text", "kind"), [(row["text"], row["kind"]) for row in json.loads((LOGS / "messages.json").read_text())]
)
def test_messages_from_public_reports(text: str, kind: str) -> None:
    found = explain_text(text)
    assert found is not None
    assert found.kind == kind


def test_the_cause_names_what_the_line_named() -> None:
    found = explain_line("K cache type q8_0 with block size 32 does not divide n_embd_head_k=80")
    assert found is not None
    assert "80" in found.cause
    assert "32" in found.cause
    assert found.details == {"side": "K", "type": "q8_0", "block": "32", "size": "80"}


@pytest.mark.parametrize(
    ("line", "kind", "fatal"),
    [
        # texts of `llama-model.cpp:load_tensors` and `llama-context.cpp:sched_reserve` (b11434)
        ("llama_model_load: error loading model: unable to allocate CUDA0 buffer", "weights-memory", True),
        ("unable to allocate CPU buffer", "weights-memory", True),
        (
            "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism",
            "compute-retry",
            False,
        ),
    ],
)
def test_memory_that_cannot_be_had(line: str, kind: str, fatal: bool) -> None:
    found = explain_line(line)
    assert found is not None
    assert (found.kind, found.fatal) == (kind, fatal)


def test_the_failed_allocation_wins_over_the_buffer_that_is_missing_then() -> None:
    lines = (
        "srv    load_model: loading model 'm.gguf'",
        "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 14336.00 MiB on device 0: cudaMalloc failed: x",
        "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
    )
    judged = judge("\n".join(lines))
    assert judged.error is not None
    assert (judged.error.kind, judged.error.number) == ("gpu-memory", 2)


def test_root_cause_wins_over_its_consequences() -> None:
    judged = judge(log("server.bad_lfs_pointer.log"))
    assert judged.error is not None
    assert "vers" in judged.error.line


@pytest.mark.parametrize("run", [r for r in INDEX if r.get("undone")], ids=lambda run: run["log"])
def test_what_the_server_goes_on_without_takes_the_proof_away(run: dict[str, Any]) -> None:
    """Finding: "proven" beside "the target and draft vocabs are not compatible" and a vector that was left out."""
    checks = compare(Expected(), judge(log(run["log"])))
    assert not proven(checks)
    assert [c.what for c in checks if c.ok is False] == ["errors"] * len(run["undone"])
    assert proven(compare(Expected(), judge(log("server.side_ok.log"))))


def test_an_error_that_no_row_knows_is_shown_and_takes_the_proof_away() -> None:
    front, at = "0.00.100.000", "llama_server: model loaded"
    text = (
        f"{front} E srv  load: the frobnicator is missing: 7\n{front} I {at}\n{front} E srv  send: request 3 failed\n"
    )
    judged = judge(text + f"{front} E srv  send: request 4 failed\n")
    assert judged.status == "ready"
    assert [(d.kind, d.number) for d in judged.notices] == [("unknown", 1), ("unknown", 3)], "each shape once"
    assert [d.number for d in judged.undone] == [1], "what failed afterwards was a request"
    assert not proven(compare(Expected(), judged))


def test_the_reason_wins_over_a_consequence_that_the_table_knows() -> None:
    front = "0.00.100.000 E "
    text = f"{front}frob_init: no frobnicator\n{front}llama_model_load_from_file_impl: failed to load model\n"
    error = judge(f"llama_server: build\n{text}").error
    assert error is not None
    assert (error.line, error.fatal) == ("frob_init: no frobnicator", True)


def test_values_of_metadata_are_no_errors() -> None:
    text = "llama_model_loader: - kv   2: general.name str = CUDA error: out of memory\nllama_server: model loaded\n"
    judged = judge(text)
    assert (judged.status, judged.error, judged.notices) == ("ready", None, ())


def test_words_of_a_pattern_in_a_cause_never_break_the_formatting() -> None:
    for error in table():
        assert error.cause
        assert error.remedy
        names = (
            *re.compile(error.pattern).groupindex,
            *(n for text in error.says for n in re.findall(r"{(\w+)}", text)),
        )
        error.cause.format_map(dict.fromkeys(names, "x") | {"KEY": ""})
        error.remedy.format_map(dict.fromkeys(names, "x") | {"KEY": ""})


def test_a_long_log_is_read_fast() -> None:
    """A day of requests behind the start: each shape of line is looked at once."""
    line = "0.{:02d}.478.591 I slot print_timing: id {:2d} | task {} | eval time = {:10.2f} ms / {:5d} tokens\n"
    day = "".join(line.format(i % 60, i % 4, i, i / 7, i % 900) for i in range(50_000))
    late = "0.50.000.000 E slot update: request (4100 tokens) exceeds the available context size (4096 tokens)\n"
    with within(3):
        judged = judge(log("server.lv4_default.log") + day + late)
    assert judged.status == "ready"
    assert [n.kind for n in judged.notices] == ["context-exceeded"]
    assert len(judged.facts.caches) == 2


def test_a_hostile_log_is_read_in_bounded_time() -> None:
    text = ("llama_kv_cache: size = " + "1" * 3000 + " MiB (") * 3 + "\n"
    assert judge(text * 300).error is None
    assert len(list(lines_of("x" * 10_000_000))) == 1


def test_what_llama_cpp_says_of_quality_is_passed_on() -> None:
    """Lines of a server that got ready with a model whose answers are bad (b11434)."""
    said = (
        "0.00.176.000 W load: missing pre-tokenizer type, using: 'default'\n"
        "0.00.176.001 W load: GENERATION QUALITY WILL BE DEGRADED!        \n"
        "0.00.200.000 W load: special_eos_id is not in special_eog_ids - the tokenizer config may be incorrect\n"
    )
    judged = judge(said)
    assert judged.error is None
    assert [n.kind for n in judged.notices] == ["pre-tokenizer-missing", "end-token-odd"]
    for text in said.splitlines():
        known = explain_line(text)
        assert known is not None
        assert not known.fatal
    assert "Answers end at the eos token" in judged.notices[1].cause


def test_a_state_too_small_for_two_digits_is_one() -> None:
    """LFM2's: 0.00 MiB is logged, which is not nothing."""
    small = "I llama_memory_recurrent: size =    0.00 MiB (     1 cells,   6 layers,  1 seqs  0 rs_seq), R (f32): 0"
    assert read_log(f"0.00.000.001 {small}\n").state_mib == 0.0
    assert read_log("0.00.000.001 I llama_context: n_ctx = 512\n").state_mib is None


def test_the_graph_of_a_projector_is_no_compute_buffer_of_the_model() -> None:
    """Lines of b11434 with ``--mmproj``; older builds named the function `alloc_compute_meta`."""
    text = """\
0.00.032.894 I load_tensors:   CPU_Mapped model buffer size =     0.49 MiB
0.00.034.174 I sched_reserve:        CPU compute buffer size =     1.89 MiB
0.00.049.267 I reserve_compute_meta:        CPU compute buffer size =     0.05 MiB
0.00.049.267 I alloc_compute_meta:      CUDA0 compute buffer size =   273.02 MiB
"""
    found = [(b.kind, b.device, b.mib) for b in read_log(text).buffers]
    assert found[1:] == [("compute", "CPU", 1.89), ("projector", "CPU", 0.05), ("projector", "CUDA0", 273.02)]


def test_a_model_is_no_log(tmp_path: Path, cli) -> None:
    # It was read as lines, which took minutes for a model of some size.
    path = tmp_path / "m.gguf"
    path.write_bytes(llama().bytes())
    result = cli("check-log", path)
    assert (result.code, result.stdout) == (2, b"")
    assert "is a model, not a log" in result.err
    assert "gguftool lint" in result.err
