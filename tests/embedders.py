"""Small embedding models and rerankers, sound ones as llama.cpp's converter writes them.

Keys and token texts are those of the public models: bge-small-en-v1.5, bge-reranker-v2-m3, Qwen3-Embedding-0.6B,
Qwen3-Reranker-0.6B, gte-Qwen2-7B-instruct, embeddinggemma-300m, gte-reranker-modernbert-base.
"""

from __future__ import annotations

from tests.build import GGUF, llama

T = "tokenizer.ggml."
WIDE = 64
RERANK = "<|im_start|>user\n<Query>: {query}\n<Document>: {document}<|im_end|>\n<|im_start|>assistant\n"
"""The shape of what `conversion/qwen.py` (b11434) writes."""


def bert(
    *, pooling: int | None = 2, causal: bool | None = False, context: int = 512, name: str = "bge small en v1.5",
    arch: str = "bert",
) -> GGUF:  # fmt: skip
    """An encoder with WordPiece: 64 wide, one layer, 512 learnt positions."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = ["▁capital", "▁france", "▁paris", "▁banana", "▁the", "▁of", "▁is", "▁what", "▁."]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"▁{c}" for c in letters), *letters, *words]
    g = GGUF(arch).kv("general.name", name).kv("general.type", "model").kv("general.file_type", 0)
    g.kv(f"{arch}.block_count", 1).kv(f"{arch}.context_length", context).kv(f"{arch}.embedding_length", WIDE)
    g.kv(f"{arch}.feed_forward_length", 128).kv(f"{arch}.attention.head_count", 4)
    g.kv(f"{arch}.attention.layer_norm_epsilon", 1e-12)
    if causal is not None:
        g.kv(f"{arch}.attention.causal", causal)
    if pooling is not None:
        g.kv(f"{arch}.pooling_type", pooling)
    g.kv(T + "model", "bert").kv(T + "pre", "default").kv(T + "token_type_count", 2).kv(T + "tokens", tokens)
    g.kv(T + "token_type", [3] * 5 + [1] * (len(tokens) - 5), "[i32]")
    for role, i in (("bos", 2), ("eos", 3), ("cls", 2), ("seperator", 3), ("unknown", 1), ("padding", 0), ("mask", 4)):
        g.kv(f"{T}{role}_token_id", i)
    g.tensor("token_embd.weight", (WIDE, len(tokens))).tensor("token_types.weight", (WIDE, 2))
    if arch == "bert":
        g.tensor("position_embd.weight", (WIDE, context))
    for part in ("weight", "bias"):
        g.tensor(f"token_embd_norm.{part}", (WIDE,))
        g.tensor(f"blk.0.attn_output_norm.{part}", (WIDE,)).tensor(f"blk.0.layer_output_norm.{part}", (WIDE,))
    for what in ("attn_q", "attn_k", "attn_v", "attn_output"):
        g.tensor(f"blk.0.{what}.weight", (WIDE, WIDE)).tensor(f"blk.0.{what}.bias", (WIDE,))
    g.tensor("blk.0.ffn_up.weight", (WIDE, 128)).tensor("blk.0.ffn_up.bias", (128,))
    return g.tensor("blk.0.ffn_down.weight", (128, WIDE)).tensor("blk.0.ffn_down.bias", (WIDE,))


def bert_reranker(*, head: bool = True, parted: bool = True) -> GGUF:
    """A cross-encoder with one score, as BertForSequenceClassification becomes; such files name no way of pooling."""
    g = bert(pooling=None, name="bge reranker base").kv(T + "add_bos_token", True)
    g.kv(T + "add_eos_token", parted).kv(T + "add_sep_token", False)
    if head:
        g.tensor("cls.weight", (WIDE, WIDE)).tensor("cls.bias", (WIDE,))
        g.tensor("cls.output.weight", (WIDE, 1)).tensor("cls.output.bias", (1,))
    return g


def _words(g: GGUF) -> GGUF:
    """Byte-level BPE with the control tokens of Qwen in the place of the builder's SentencePiece."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(b) for b in plain] + [chr(256 + i) for i in range(256 - len(plain))]
    tokens = [*letters, "<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"w{i}" for i in range(20))]
    g.drop(T + "tokens", T + "token_type", T + "scores", T + "model")
    g.drop(*(f"{T}{role}_token_id" for role in ("bos", "eos", "unknown")))
    g.kv(T + "model", "gpt2").kv(T + "pre", "qwen2").kv(T + "tokens", tokens).kv(T + "merges", ["a b"])
    g.kv(T + "token_type", [1] * 256 + [3] * 3 + [1] * 20, "[i32]")
    g.kv(T + "bos_token_id", 256).kv(T + "eos_token_id", 256).kv(T + "padding_token_id", 256)
    return g.kv(T + "add_bos_token", False).retensor("token_embd.weight", shape=(WIDE, len(tokens)))


def qwen3(*, pooling: int | None = 3, eos: bool | None = True, name: str = "Qwen3 Embedding 0.6B") -> GGUF:
    """A language model that pools by its last token."""
    g = _words(llama(arch="qwen3")).replace("general.name", name).drop("qwen3.rope.dimension_count")
    g.kv("qwen3.attention.key_length", 16).kv("qwen3.attention.value_length", 16)
    g.tensor("blk.0.attn_q_norm.weight", (16,)).tensor("blk.0.attn_k_norm.weight", (16,))
    if pooling is not None:
        g.kv("qwen3.pooling_type", pooling)
    return g if eos is None else g.kv(T + "add_eos_token", eos)


def qwen3_reranker(
    *, head: bool = True, template: str | None = RERANK, labels: tuple[str, ...] = ("yes", "no")
) -> GGUF:
    """A language model that answers yes or no, in the template named rerank."""
    g = qwen3(pooling=4, eos=None, name="Qwen3 Reranker 0.6B")
    if head:
        g.kv("qwen3.classifier.output_labels", list(labels)).tensor("cls.output.weight", (WIDE, len(labels)))
    return g if template is None else g.kv("tokenizer.chat_template.rerank", template)


def qwen2(*, name: str = "gte-Qwen2-7B-instruct", eos: bool | None = True, pooling: int | None = None) -> GGUF:
    """As it was converted before pooling was written: a chat template, and only its name says what it is for."""
    g = _words(llama(arch="qwen2")).replace("general.name", name).drop("qwen2.rope.dimension_count")
    for what, width in (("q", 64), ("k", 32), ("v", 32)):
        g.tensor(f"blk.0.attn_{what}.bias", (width,))
    g.kv("tokenizer.chat_template", "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}")
    if pooling is not None:
        g.kv("qwen2.pooling_type", pooling)
    return g if eos is None else g.kv(T + "add_eos_token", eos)
