"""The shapes of well-known embedders are without fault, and a source on disk is held against the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gguftool.lint.against import read_folder
from gguftool.lint.rule import Context, Severity
from gguftool.lint.run import lint
from gguftool.lint.sentence import ends, modules, pooled
from gguftool.model import from_source
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.embedders import T, bert, bert_reranker, qwen2, qwen3, qwen3_reranker


def ugm(g: GGUF) -> GGUF:
    """With XLM-RoBERTa's vocabulary, as the converter writes it (`conversion/bert.py`, b11434)."""
    count = next(len(e[1]) for e in g._kv if isinstance(e, tuple) and e[0] == T + "tokens")  # type: ignore[arg-type]
    g.replace(T + "model", "t5").kv(T + "scores", [-float(i) for i in range(count)])
    g.kv(T + "add_space_prefix", True).kv(T + "remove_extra_whitespaces", True)
    return g.replace(T + "add_bos_token", True).replace(T + "add_eos_token", True).kv(T + "add_sep_token", True)


def gemma_embedding() -> GGUF:
    g = llama(arch="gemma-embedding").replace("general.name", "Embeddinggemma 300M")
    g.kv("gemma-embedding.pooling_type", 1).kv("gemma-embedding.attention.sliding_window", 512)
    return g.kv(T + "add_bos_token", True).kv(T + "add_eos_token", True)


KNOWN = {
    "BAAI/bge-small-en-v1.5": bert(),
    "sentence-transformers/all-MiniLM-L6-v2": bert(pooling=1, name="all MiniLM L6 v2"),
    "Snowflake/snowflake-arctic-embed-m": bert(name="snowflake arctic embed m"),
    "nomic-ai/nomic-embed-text-v1.5": bert(pooling=1, name="nomic embed text v1.5", arch="nomic-bert", context=2048),
    "BAAI/bge-m3": ugm(bert(name="bge m3")),
    "intfloat/multilingual-e5-base": ugm(bert(pooling=1, name="multilingual e5 base")),
    "BAAI/bge-reranker-v2-m3": ugm(bert_reranker()),
    "cross-encoder/ms-marco-MiniLM-L6-v2": bert_reranker(),
    "jinaai/jina-embeddings-v3": ugm(bert(pooling=1, name="jina embeddings v3", arch="jina-bert-v3")),
    "google/embeddinggemma-300m": gemma_embedding(),
    "Qwen/Qwen3-Embedding-0.6B": qwen3().kv("tokenizer.chat_template", "{{ messages[0].role }}"),
    "Qwen/Qwen3-Reranker-0.6B": qwen3_reranker(),
    "Alibaba-NLP/gte-Qwen2-7B-instruct": qwen2(pooling=3).kv("qwen2.attention.causal", False),
    "city96/t5-v1_1-xxl-encoder": GGUF("t5encoder").kv("t5encoder.block_count", 1).tensor("token_embd.weight"),
    "lightonai/colbert": bert(pooling=None, name="colbertv2.0"),
}
"""Public model -> the shape of its conversion."""


@pytest.mark.parametrize("name", KNOWN)
def test_a_sound_embedder_has_no_finding_about_what_it_is(name: str) -> None:
    with from_source(Memory(KNOWN[name].bytes(), "m.gguf"), strict=False) as m:
        report = lint(m, select=["embedding", "template"], load=False)
    assert [(f.rule, f.message) for f in report] == []
    assert [n for n in report.not_evaluated if "failed" in n.why] == []


def test_no_advice_about_a_cache_that_is_not_there() -> None:
    with from_source(Memory(bert().bytes(), "m.gguf"), strict=False) as m:
        assert not {f.rule for f in lint(m)} & {
            "kv-cache-type-missing",
            "kv-cache-type-differs",
            "rope-freq-scale-missing",
        }


def saved(folder: Path, *, way: str = "pooling_mode_cls_token", behind: str | None = "[SEP]") -> Path:
    """A folder as sentence-transformers saves it."""
    kinds = ("Transformer", "Pooling", "Normalize")
    steps = [{"idx": i, "name": str(i), "path": f"{i}_{k}" if i else "", "type": f"sentence_transformers.models.{k}"}
             for i, k in enumerate(kinds)]  # fmt: skip
    steps.append({"idx": 3, "name": "3", "path": "../outside", "type": "sentence_transformers.models.Dropout"})
    pieces = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    pieces += [{"SpecialToken": {"id": behind, "type_id": 0}}] if behind else []
    files = {
        "config.json": {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4},
        "modules.json": steps,
        "1_Pooling/config.json": {"word_embedding_dimension": 64, way: True},
        "tokenizer.json": {"post_processor": {"type": "TemplateProcessing", "single": pieces}},
        "config_sentence_transformers.json": {"prompts": {"query": "query: "}},
    }
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(value))
    return folder


def test_a_folder_on_disk(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "config.json").write_text('{"pooling_mode_max_tokens": true}')
    source = read_folder(saved(tmp_path / "hf"))
    assert [x.kind for x in modules(source)] == ["Transformer", "Pooling", "Normalize", "Dropout"]
    assert pooled(source) == ("cls",)
    assert ends(source) == ("[CLS]", "[SEP]")
    assert not any("outside" in name for name in source.inside), "no module lies outside of the folder"
    with from_source(Memory(bert(pooling=1).bytes(), "m.gguf"), strict=False) as m:
        found = {f.rule: f for f in lint(m, Context(against=source))}
    assert found["source-pooling"].fix is not None
    assert found["source-prompts"].severity is Severity.INFO
    assert "source-text-ends" not in found
    with from_source(Memory(bert().bytes(), "m.gguf"), strict=False) as m:
        assert not {f.rule for f in lint(m, Context(against=source))} & {"source-pooling", "source-text-ends"}


@pytest.mark.parametrize(
    "way", ["pooling_mode_max_tokens", "pooling_mode_weightedmean_tokens", "pooling_mode_mean_sqrt_len_tokens"]
)
def test_a_way_of_pooling_that_llama_cpp_does_not_have(way: str, tmp_path: Path) -> None:
    source = read_folder(saved(tmp_path / "hf", way=way))
    with from_source(Memory(bert().bytes(), "m.gguf"), strict=False) as m:
        found = next(f for f in lint(m, Context(against=source)) if f.rule == "source-pooling")
    assert "which llama.cpp does not have" in found.message
    assert found.fix is None


def test_a_broken_modules_json_is_none(tmp_path: Path) -> None:
    folder = saved(tmp_path / "hf")
    for text in ("{", '"text"', "[1, null]", '[{"type": 5}]'):
        (folder / "modules.json").write_text(text)
        assert pooled(read_folder(folder)) == ()
