"""KV cache and state against what real llama.cpp allocated, byte for byte, and against numbers worked out by hand."""

from __future__ import annotations

from collections import Counter

import pytest

from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.cachetypes import refusals
from gguftool.memory.kv import CUDA_ALIGNMENT, bytes_per_token, kv_cache
from gguftool.memory.settings import Settings, context
from tests.memory.records import records

MIB = 1 << 20


def hparams(arch: str, **keys: object) -> Hparams:
    table = {f"{arch}.{k.replace('__', '.')}": v for k, v in keys.items()}
    return Hparams(arch, table.get)


QWEN2_7B = hparams(
    "qwen2",
    block_count=28,
    context_length=32768,
    embedding_length=3584,
    attention__head_count=28,
    attention__head_count_kv=4,
)
GEMMA3_270M = hparams(
    "gemma3",
    block_count=18,
    context_length=32768,
    embedding_length=640,
    attention__head_count=4,
    attention__head_count_kv=1,
    attention__key_length=256,
    attention__value_length=256,
    attention__sliding_window=512,
)


def test_every_record_to_the_byte():
    equal: Counter[str] = Counter()
    wrong = []
    for r in records():
        got = kv_cache(r.hp, r.settings).bytes
        if got == r.raw["context"]:
            equal[r.hp.facts.memory] += 1
        else:
            wrong.append(f"{r.label}: {got}, llama.cpp {r.raw['context']}")
    assert wrong == []
    assert equal.total() == 2184
    assert set(equal) >= {
        "kv",
        "iswa",
        "iswa-if-window",
        "mla",
        "mla-indexer",
        "dsa",
        "dsa-iswa",
        "dsv4",
        "msa",
        "hybrid",
        "hybrid-iswa",
        "hybrid-indexer",
        "recurrent",
        "none",
    }


def test_every_record_of_132_architectures_to_the_byte():
    wrong, architectures = [], set()
    for count, r in enumerate(records(more=True), 1):  # noqa: B007
        architectures.add(r.hp.arch)
        got = kv_cache(r.hp, r.settings).bytes
        if got != r.raw["context"]:
            wrong.append(f"{r.label}: {got}, llama.cpp {r.raw['context']}")
        if refusals(r.hp, r.settings.type_k, r.settings.type_v, r.settings.flash_attn):
            wrong.append(f"{r.label}: refused by us alone")
    assert wrong == []
    assert (count, len(architectures)) == (1264, 132)


def test_every_record_cache_by_cache():
    for r in records():
        ours = sorted((c.cells, len(c.layers), c.streams) for c in kv_cache(r.hp, r.settings).caches)
        theirs = sorted((cells, n, streams) for cells, n, streams in r.raw["caches"] if n)
        assert ours == theirs, r.label


def test_every_record_context():
    for r in records():
        c, e = context(r.hp, r.settings), r.raw["effective"]
        assert (c.total, c.per_slot, c.batch, c.ubatch, c.slots) == (
            e["n_ctx"],
            e["n_ctx_seq"],
            e["n_batch"],
            e["n_ubatch"],
            e["n_seq_max"],
        ), r.label


def test_every_refusal_in_llama_cpps_words():
    found = [*records(refused=True), *records(refused=True, more=True)]
    assert len(found) == 71
    for r in found:
        reasons = refusals(r.hp, r.settings.type_k, r.settings.type_v, r.settings.flash_attn)
        assert [f"llama_init_from_model: {reason}" for reason in reasons] == r.raw["log"], r.label


def test_nothing_that_worked_is_refused():
    for r in records():
        assert refusals(r.hp, r.settings.type_k, r.settings.type_v, r.settings.flash_attn) == [], r.label


def test_qwen2_7b_at_32k():
    # 28 layers x (K + V) x 4 heads x 128 x 2 bytes x 32768 tokens
    assert kv_cache(QWEN2_7B, Settings(32768)).bytes == 28 * 2 * 4 * 128 * 2 * 32768 == 1_879_048_192
    assert bytes_per_token(QWEN2_7B, Settings()) == 57344
    assert kv_cache(QWEN2_7B, Settings(32768, "q8_0", "q8_0")).bytes == 1_879_048_192 * 34 // 64
    assert kv_cache(QWEN2_7B, Settings(32768, "q4_0", "q4_0")).bytes == 1_879_048_192 * 18 // 64


@pytest.mark.parametrize(
    ("settings", "full", "window"),
    [
        # llama-server b11434's own log lines, MiB
        (Settings(32768, parallel=None), 96.0, 37.5),
        (Settings(32768, "q8_0", "q4_0", parallel=None), 39.0, 15.234375),
        (Settings(8192, parallel=1), 24.0, 15.0),
        (Settings(8192, parallel=4, kv_unified=False), 24.0, 60.0),
        (Settings(8192, parallel=None, swa_full=True), 24.0, 120.0),
        (Settings(8192, parallel=None, flash_attn="off"), 24.0, 37.5),
        (Settings(8192, parallel=None, ubatch=2048), 24.0, 60.0),
    ],
)
def test_gemma3_as_the_server_logged(settings: Settings, full: float, window: float):
    caches = {c.name: c.bytes / MIB for c in kv_cache(GEMMA3_270M, settings).caches}
    assert caches == {"full": full, "window": window}


def test_context_is_padded_per_slot():
    # -c 1000 -np 3: llama.cpp says it rounds down, and rounds up to 3 x 512
    c = context(QWEN2_7B, Settings(1000, parallel=3))
    assert (c.total, c.per_slot, c.streams, c.batch) == (1536, 512, 3, 1000)


def test_zero_context_is_the_files():
    assert context(QWEN2_7B, Settings(0)).total == 32768


def test_no_context_anywhere():
    with pytest.raises(UsageError, match="cannot both be zero"):
        context(hparams("qwen2", block_count=1), Settings())


def test_a_slot_of_the_server_stops_at_the_trained_context():
    c = context(QWEN2_7B, Settings(65536))
    assert (c.per_slot, c.usable) == (65536, 32768)


def test_cuda_pads_quantised_rows():
    # ggml-cuda.cu: a row of 1056 bytes is padded by the bytes of the elements up to the next 512, once a tensor
    hp = hparams(
        "qwen2",
        block_count=1,
        context_length=256,
        embedding_length=96,
        attention__head_count=1,
        attention__key_length=96,
    )
    (cache,) = kv_cache(hp, Settings(256, "q8_0", "q8_0")).caches
    rows, padding = 96 // 32 * 34 * 256, (512 - 96) // 32 * 34
    each = -(-(rows + padding) // 128) * 128
    assert cache.layer_bytes(cache.layers[0], CUDA_ALIGNMENT) == 2 * each


def test_state_grows_with_slots_not_with_context():
    hp = hparams(
        "mamba",
        block_count=64,
        context_length=2048,
        embedding_length=2560,
        ssm__conv_kernel=4,
        ssm__inner_size=5120,
        ssm__state_size=16,
        ssm__time_step_rank=160,
    )
    per_slot = 64 * 4 * (3 * 5120 + 16 * 5120)
    assert kv_cache(hp, Settings(2048)).bytes == kv_cache(hp, Settings(131072, "q8_0", "q8_0")).bytes == per_slot
    assert kv_cache(hp, Settings(2048, parallel=4)).bytes == 4 * per_slot


def test_unknown_settings_are_refused_by_name():
    with pytest.raises(UsageError, match="q6_K"):
        Settings(type_k="q6_K")
    with pytest.raises(UsageError, match="yes"):
        Settings(flash_attn="yes")
    with pytest.raises(UsageError, match="0 slots"):
        Settings(parallel=0)
