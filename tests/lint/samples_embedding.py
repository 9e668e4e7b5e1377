"""Embedding models and rerankers: the faults of public reports beside sound files of the same families."""

from __future__ import annotations

import json

from gguftool.lint.against import from_files
from gguftool.lint.rule import Context
from tests.build import GGUF, llama
from tests.embedders import T, bert, bert_reranker, qwen2, qwen3, qwen3_reranker
from tests.lint.samples import Sample, ready

ADD_BOS, ADD_EOS = T + "add_bos_token", T + "add_eos_token"
BERT_CONFIG = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4}
STEPS = ("Transformer", "Pooling", "Normalize")


def template(before: str | None, behind: str | None) -> dict:
    """post_processor of tokenizer.json, as the tokenizers library writes it."""
    pieces = [{"SpecialToken": {"id": before, "type_id": 0}}] if before else []
    pieces.append({"Sequence": {"id": "A", "type_id": 0}})
    pieces += [{"SpecialToken": {"id": behind, "type_id": 0}}] if behind else []
    return {"type": "TemplateProcessing", "single": pieces}


def against(
    *, steps: tuple[str, ...] = STEPS, pooling: dict | None = None, config: dict | None = None,
    prompts: dict | None = None, more: dict[str, dict] | None = None,
) -> Context:  # fmt: skip
    """The folder of an embedding model as sentence-transformers saves it."""
    listed = [
        {"idx": i, "path": f"{i}_{s}" if i else "", "type": f"sentence_transformers.models.{s}"}
        for i, s in enumerate(steps)
    ]
    files: dict[str, object] = {
        "config.json": {**BERT_CONFIG, **(config or {})},
        "modules.json": listed,
        "1_Pooling/config.json": {"word_embedding_dimension": 64, **(pooling or {"pooling_mode_cls_token": True})},
        **(more or {}),
    }
    if prompts is not None:
        files["config_sentence_transformers.json"] = {"prompts": prompts, "default_prompt_name": None}
    return Context(against=from_files("./hf", {n: json.dumps(x).encode() for n, x in files.items()}))


def processed(post_processor: dict) -> Context:
    """A source whose tokenizer.json says what stands around a text."""
    return against(
        pooling={"pooling_mode_lasttoken": True}, more={"tokenizer.json": {"post_processor": post_processor}}
    )


def gemma3(*, dense: bool) -> GGUF:
    g = llama(arch="gemma3").replace("general.name", "embeddinggemma 300m").kv("gemma3.pooling_type", 1)
    return g.tensor("dense_2.weight", (64, 96)) if dense else g


DENSE = ("Transformer", "Pooling", "Dense", "Dense", "Normalize")
SAMPLES = [
    Sample(
        "pooling-type-unknown",
        ready().kv("llama.pooling_type", 9),
        "field:llama.pooling_type",
        "llama-server --embedding aborts, without it the model runs",
        severity="error",
        fix="--set 'llama.pooling_type=…'",
        silent=ready().kv("llama.pooling_type", 4),
    ),
    Sample(
        "pooling-type-unknown",
        ready().kv("llama.classifier.pooling_type", 5),
        "field:llama.classifier.pooling_type",
        "takes cls",
        severity="warning",
        silent=ready().kv("llama.pooling_type", 0xFFFFFFFF),
    ),
    Sample(
        "pooling-type-missing",
        bert(pooling=None),
        "field:bert.pooling_type",
        "/v1/embeddings refuses every request",
        severity="warning",
        fix="--set 'bert.pooling_type=…'",
        silent=bert(),
    ),
    # A name is a weak sign; a family that is known tells how it pools. ColBERT gives a vector a token.
    Sample("pooling-type-missing", qwen2(), "field:qwen2.pooling_type", "gte-Qwen pools last", severity="info",
           fix="--set qwen2.pooling_type=3", safe=False, silent=bert(pooling=None, name="jina colbert v2")),
    Sample("pooling-type-missing", bert(pooling=0xFFFFFFFF), severity="warning", silent=bert_reranker()),
    Sample("pooling-sees-one-token", qwen3(pooling=2), "field:qwen3.pooling_type", "has the same embedding",
           severity="warning", fix="--set qwen3.pooling_type=3", silent=qwen3()),
    Sample("encoder-causal", bert(causal=None), "field:bert.attention.causal", "is missing", severity="warning",
           fix="--set bert.attention.causal=false", safe=False, silent=bert()),
    Sample("encoder-causal", bert(causal=True), "field:bert.attention.causal", "is true", silent=qwen3()),
    Sample("decision-type-unknown", llama(arch="qwen35").kv("qwen35.decision.type", "kevin"),
           "field:qwen35.decision.type", "llama-server does not have (openjev, lev, kev, nimble, laya, clef)",
           severity="error", silent=llama(arch="qwen35").kv("qwen35.decision.type", "kev")),
    # llama.cpp issues 14234, 14252
    Sample("pooled-token-missing", qwen3(eos=None), f"field:{ADD_EOS}", "the last word of the text, not an end token",
           severity="warning", fix=f"--set {ADD_EOS}=true", safe=False, silent=qwen3()),
    Sample("pooled-token-missing", qwen3(eos=False), severity="warning", silent=bert()),
    Sample("pooled-token-missing", qwen3(eos=False, name="Foo 1B"), severity="info", silent=qwen3(pooling=1, eos=None)),
    Sample("pooled-token-missing", qwen3(eos=None, name="Foo 1B"), severity="warning", silent=qwen3_reranker()),
    Sample("pooled-token-missing", bert().replace(T + "model", "t5").kv(ADD_EOS, True), f"field:{ADD_BOS}",
           "the first word, not a start token", severity="warning", fix=f"--set {ADD_BOS}=true",
           silent=bert().replace(T + "model", "t5").kv(ADD_BOS, True)),
    Sample("text-ends-missing", bert(pooling=1).replace(T + "model", "t5"), f"field:{ADD_BOS}",
           "no start token stands before a text", severity="info", fix=f"--set {ADD_BOS}=true", silent=bert()),
    Sample("rerank-separator-missing", bert_reranker(parted=False), f"field:{ADD_EOS}", "run together",
           severity="warning", fix=f"--set {ADD_EOS}=true", silent=bert_reranker()),
    Sample("rerank-tokens-missing", bert_reranker().drop(T + "bos_token_id").replace(T + "model", "t5"),
           f"field:{T}bos_token_id", "no BOS token", severity="warning", silent=bert_reranker()),
    # llama.cpp issues 25447, 16407, 13820
    Sample("rerank-head-missing", qwen3_reranker(head=False), "tensor:cls.output.weight",
           "convert the original model again", severity="warning", fix="", silent=qwen3_reranker()),
    Sample("rerank-head-missing", qwen3(pooling=None, name="Qwen3 Reranker 0.6B"), "tensor:cls.output.weight",
           severity="warning", silent=bert_reranker()),
    Sample("rerank-head-missing", bert_reranker(head=False), "tensor:cls.output.weight", "cls.weight", silent=bert()),
    Sample("rerank-head-missing", qwen2(name="mxbai rerank base v2", pooling=4), "field:qwen2.pooling_type",
           "llama.cpp reads no ranking head for qwen2", silent=qwen2()),
    Sample("rerank-head-missing", bert_reranker().drop_tensor("cls.output.weight", "cls.output.bias"),
           "tensor:cls.output.weight", "no cls.output.weight (a reranker by cls.weight)", silent=bert_reranker()),
    Sample("rerank-labels-missing", qwen3_reranker().drop("qwen3.classifier.output_labels"),
           "field:qwen3.classifier.output_labels", "has 2 outputs", severity="error",
           fix="--set qwen3.classifier.output_labels=", silent=qwen3_reranker()),
    Sample("rerank-labels-missing", bert_reranker().retensor("cls.output.weight", shape=(64, 3)),
           message="has 3 outputs, bert.classifier.output_labels names none", silent=bert_reranker()),
    Sample("rerank-template-missing", qwen3_reranker(template=None), "field:tokenizer.chat_template.rerank",
           "joined without the question", severity="warning", silent=qwen3_reranker()),
    Sample("rerank-template-missing", qwen3_reranker(template="{query}"), message="has no {document}",
           silent=bert_reranker()),
    Sample("rerank-labels-turned", qwen3_reranker(labels=("no", "yes")), "field:qwen3.classifier.output_labels",
           "the worst document comes first", severity="warning", silent=qwen3_reranker()),
    # against the source
    Sample("source-pooling", bert(pooling=1), "field:bert.pooling_type", "is mean, 1_Pooling/config.json has cls",
           severity="warning", fix="--set bert.pooling_type=2", context=against(), silent=bert()),
    Sample("source-pooling", bert(pooling=None), message="is missing, 1_Pooling/config.json has mean",
           fix="--set bert.pooling_type=1", context=against(pooling={"pooling_mode": "mean"}), silent=bert(pooling=1)),
    Sample("source-pooling", qwen3(pooling=1), message="has last", fix="--set qwen3.pooling_type=3", silent=qwen3(),
           context=against(pooling={"pooling_mode_lasttoken": True})),
    Sample("source-modules", gemma3(dense=False), "tensor:dense_2.weight",
           "2 Dense modules, the file has no dense_2.weight", severity="warning", fix="", silent=gemma3(dense=True),
           context=against(steps=DENSE)),
    Sample("source-modules", bert(), message="a Dense module, llama.cpp has none for bert", silent=gemma3(dense=True),
           context=against(steps=("Transformer", "Pooling", "Dense", "Normalize"))),
    Sample("source-normalize", bert(), message="llama-server gives vectors of length 1", severity="info",
           context=against(steps=("Transformer", "Pooling")), silent_context=against()),
    Sample("source-prompts", bert(), message="puts 'query: ' before a text of the use query", severity="info",
           context=against(prompts={"query": "query: ", "document": ""}),
           silent_context=against(prompts={"query": ""})),
    Sample("source-text-ends", qwen3(eos=None), f"field:{ADD_EOS}",
           "is missing, tokenizer.json puts '<|endoftext|>' behind a text", severity="warning",
           fix=f"--set {ADD_EOS}=true", silent=qwen3(), context=processed(template(None, "<|endoftext|>"))),
    Sample("source-text-ends", qwen3(), f"field:{ADD_EOS}", "tokenizer.json puts nothing behind a text",
           fix=f"--set {ADD_EOS}=false", silent=qwen3(eos=False), context=processed(template(None, None))),
    Sample("source-text-ends", qwen3().replace(T + "eos_token_id", 258), f"field:{T}eos_token_id",
           "puts 258 '<|im_end|>' behind a text, tokenizer.json '<|endoftext|>'",
           fix="--special 'eos=<|endoftext|>'", silent=qwen3(), context=processed(template(None, "<|endoftext|>"))),
    Sample("source-text-ends", bert().replace(T + "seperator_token_id", 4), message="tokenizer.json '[SEP]'",
           silent=bert(), context=processed({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})),
    # gte-Qwen2: a language model with the mask taken off
    Sample("source-attention", qwen2(), "field:qwen2.attention.causal", "config.json has is_causal false",
           severity="warning", fix="--set qwen2.attention.causal=false", context=against(config={"is_causal": False}),
           silent=qwen2().kv("qwen2.attention.causal", False)),
]  # fmt: skip
