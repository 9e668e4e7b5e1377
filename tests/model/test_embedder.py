"""What gives embeddings, of which kind and how; and what a name alone is worth."""

from __future__ import annotations

import pytest

from gguftool.lint.run import lint
from gguftool.model import from_source
from gguftool.model.about import about
from gguftool.model.embedder import Embedder, embedder, ends_of
from gguftool.model.role import role, what_it_is
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.embedders import bert, bert_reranker, qwen2, qwen3, qwen3_reranker


def of(g: GGUF) -> Embedder | None:
    with from_source(Memory(g.bytes(), "m.gguf"), strict=False) as m:
        found = embedder(m)
        assert (role(m) == "encoder") is (found is not None and found.sure)
        return found


def named(name: str, arch: str = "llama") -> GGUF:
    return llama(arch=arch).replace("general.name", name)


@pytest.mark.parametrize(
    ("g", "kind", "pools", "cuts", "width"),
    [
        (bert(), "embedder", "cls", False, 64),
        (bert(pooling=1), "embedder", "mean", False, 64),
        (bert_reranker(), "reranker", "rank", False, 1),
        (qwen3(), "embedder", "last", True, 64),
        (qwen3(pooling=1), "embedder", "mean", False, 64),
        # gte-Qwen2 with the mask off: what is cut does not see the rest.
        (qwen3().kv("qwen3.attention.causal", False), "embedder", "last", False, 64),
        (qwen3().kv("qwen3.embedding_length_out", 32), "embedder", "last", True, 32),
        (qwen3_reranker(), "reranker", "rank", True, 2),
        (qwen2(), "embedder", "last", True, 64),
        (named("e5-mistral-7b-instruct"), "embedder", "last", True, 64),
        (named("SFR-Embedding-2_R"), "embedder", "last", True, 64),
        (named("bge-en-icl"), "embedder", "last", True, 64),
        (named("jina-embeddings-v4-text-retrieval", "qwen2vl"), "embedder", "mean", False, 64),
        (named("NV-Embed-v2"), "embedder", "none", False, 64),
        (named("llama embed nemotron 8b", "llama-embed"), "embedder", "mean", False, 64),
        (named("Qwen3-VL-Reranker-2B", "qwen3vl"), "reranker", "rank", True, 1),
        (named("bge-multilingual-gemma2", "gemma2"), "embedder", "last", True, 64),
        (named("embeddinggemma-300M", "gemma-embedding"), "embedder", "mean", False, 64),
        (named("jina-embeddings-v3", "jina-bert-v3"), "embedder", "mean", False, 64),
    ],
)
def test_kinds(g: GGUF, kind: str, pools: str, cuts: bool, width: int) -> None:
    found = of(g)
    assert found is not None
    assert found.sure
    assert (found.kind, found.pools(), found.cuts(found.pools()), found.width) == (kind, pools, cuts, width)


@pytest.mark.parametrize(
    "g",
    [
        llama(),
        llama().kv("llama.pooling_type", 0),
        llama().kv("llama.pooling_type", 0xFFFFFFFF),
        named("openPangu-Embedded-1B"),
        named("Qwen3 0.6B", "qwen3"),
        # Saved by llama.cpp itself, which gives every optional tensor: no language model ranks for that.
        named("tiny", "qwen3").tensor("cls.output.weight", (64, 1)),
        llama().kv("general.tags", ["feature-extraction"]).kv("tokenizer.chat_template", "{{ messages }}"),
        GGUF("wavtokenizer-dec").tensor("token_embd.weight"),
        GGUF("llada").tensor("blk.0.attn_q.weight"),
        GGUF("unknown-arch").kv("unknown-arch.pooling_type", 1).tensor("x"),
    ],
)
def test_what_writes(g: GGUF) -> None:
    assert of(g) is None


@pytest.mark.parametrize(
    ("g", "kind"),
    [
        (named("My embedding model"), "embedder"),
        (named("acme-rerank-v1"), "reranker"),
        (named("gte-large-zh"), "embedder"),
        (llama().kv("general.tags", ["transformers", "sentence-similarity"]), "embedder"),
    ],
)
def test_a_name_is_a_weak_sign(g: GGUF, kind: str) -> None:
    found = of(g)
    assert found is not None
    assert (found.kind, found.sure) == (kind, False)


def test_words_for_it() -> None:
    for g, text in ((bert(), "an embedding model"), (qwen3_reranker(), "a reranking model")):
        with from_source(Memory(g.bytes(), "m.gguf"), strict=False) as m:
            assert what_it_is(m) == text


@pytest.mark.parametrize(
    ("g", "ends"),
    # Asked of llama-server b11434 (/tokenize): WordPiece looks at neither key.
    [(bert(), (True, True)), (qwen3(), (False, True)), (qwen3(eos=None), (False, False)),
     (bert().kv("tokenizer.ggml.add_eos_token", False), (True, True))],
)  # fmt: skip
def test_what_stands_around_a_text(g: GGUF, ends: tuple[bool, bool]) -> None:
    with from_source(Memory(g.bytes(), "m.gguf"), strict=False) as m:
        assert ends_of(m) == ends


def test_what_dump_says() -> None:
    with from_source(Memory(bert().bytes(), "m.gguf"), strict=False) as m:
        facts = dict(about(m))
    assert facts["pooling"] == "cls"
    assert facts["numbers of an embedding"] == 64
    assert facts["longest text"] == facts["learnt positions"] == 512
    assert facts["whole text in one graph"] is True
    with from_source(Memory(qwen3_reranker().bytes(), "m.gguf"), strict=False) as m:
        facts = dict(about(m))
    assert facts["labels"] == ("yes", "no")
    assert facts["head"] == ("cls.output.weight",)
    assert facts["scores of a document"] == 2
    with from_source(Memory(qwen2().bytes(), "m.gguf"), strict=False) as m:
        assert dict(about(m))["pooling"] == "not in the file (llama.cpp: none; its family: last)"


@pytest.mark.parametrize("g", [qwen2(), qwen3(), qwen3_reranker(), bert(), bert_reranker(), named("acme-rerank-v1")])
def test_nothing_about_chat(g: GGUF) -> None:
    """Of a sound embedder no rule speaks of answers, turns and templates; gte-Qwen2 was told to switch EOS off."""
    broken_for_chat = g.copy()
    if not any(e[0] == "tokenizer.chat_template" for e in g._kv if isinstance(e, tuple)):
        broken_for_chat.kv("tokenizer.chat_template", "no messages at all")
    with from_source(Memory(broken_for_chat.bytes(), "m.gguf"), strict=False) as m:
        found = {f.rule for f in lint(m)}
    assert "add-eos-on-chat-model" not in found
    assert not {r for r in found if r.startswith("chat-template")}
    assert not found & {"end-of-turn-not-eog", "double-bos", "nothing-ends-generation"}


def test_a_template_that_ends_the_server_is_told_all_the_same() -> None:
    """Run on b11434: llama-server --embeddings exits when the template of an embedder cannot be parsed."""
    g = bert().kv("tokenizer.chat_template", "{% for x %}")
    with from_source(Memory(g.bytes(), "m.gguf"), strict=False) as m:
        assert "chat-template-syntax" in {f.rule for f in lint(m)}


def test_an_end_that_no_answer_has() -> None:
    """llama.cpp warns of [SEP] as it warns of a chat model's odd end; of an encoder that says nothing."""
    vocabulary = bert().bytes()
    with from_source(Memory(vocabulary, "m.gguf"), strict=False) as m:
        assert not any("ends answers" in f.message for f in lint(m))


def test_a_value_of_another_type_is_told_once() -> None:
    for key, value in (("bert.pooling_type", "mean"), ("bert.attention.causal", "no")):
        with from_source(Memory(bert().replace(key, value).bytes(), "m.gguf"), strict=False) as m:
            assert [f.rule for f in lint(m) if f.where == f"field:{key}"] == ["key-type-wrong"]
