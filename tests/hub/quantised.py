"""A repository as publishers make them: one model in many quantisations, whole and in shards, with what lies beside.

The mixtures are those of llama-quantize in short: most matrices in one type, half of `attn_v` and `ffn_down` in
a larger one. The data is zeros: nothing here reads it.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

from tests.beside import imatrix, lora, measured, projector
from tests.build import GGUF, TENSOR
from tests.verify.sets import pieces

WIDE, FFN, LAYERS, KV, TOKENS = 256, 512, 4, 128, 600
# name -> (general.file_type, type of the matrices, of the better half, of the embedding)
MIXTURES = {
    "BF16": (32, "bf16", "bf16", "bf16"),
    "Q8_0": (7, "q8_0", "q8_0", "q8_0"),
    "Q6_K": (18, "q6_k", "q6_k", "q6_k"),
    "Q5_K_M": (17, "q5_k", "q6_k", "q6_k"),
    "Q4_K_M": (15, "q4_k", "q6_k", "q6_k"),
    "IQ4_XS": (30, "iq4_xs", "q5_k", "q6_k"),
    "Q4_0": (2, "q4_0", "q4_0", "q6_k"),
    "Q3_K_M": (12, "q3_k", "q4_k", "q6_k"),
    "Q2_K": (10, "q2_k", "q3_k", "q6_k"),
}
PLAIN = ("BF16", "Q8_0", "Q4_0")
"""Made without an importance matrix."""
NAME = "Tiny-7B-Instruct"


def model(kind: str, name: str = NAME, layers: int = LAYERS) -> GGUF:
    """One quantisation."""
    file_type, most, better, embedding = MIXTURES[kind]
    vocab = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    vocab += [f"▁t{i}" for i in range(TOKENS - len(vocab))]
    g = GGUF("llama").kv("general.name", name).kv("general.file_type", file_type)
    for key, value in {
        "block_count": layers, "context_length": 32768, "embedding_length": WIDE, "feed_forward_length": FFN,
        "attention.head_count": 8, "attention.head_count_kv": 4, "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 500000.0, "rope.dimension_count": 32, "vocab_size": TOKENS,
    }.items():  # fmt: skip
        g.kv(f"llama.{key}", value)
    g.kv("tokenizer.ggml.model", "llama").kv("tokenizer.ggml.tokens", vocab)
    g.kv("tokenizer.ggml.scores", [-float(i) for i in range(len(vocab))])
    g.kv("tokenizer.ggml.token_type", [2, 3, 3] + [6] * 256 + [1] * (len(vocab) - 259), "[i32]")
    g.kv("tokenizer.ggml.bos_token_id", 1).kv("tokenizer.ggml.eos_token_id", 2).kv("tokenizer.ggml.unknown_token_id", 0)
    g.kv("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}")
    if kind not in PLAIN:
        g.kv("quantize.imatrix.file", "imatrix.dat").kv("quantize.imatrix.dataset", "calibration.txt")
        g.kv("quantize.imatrix.entries_count", 28, "i32").kv("quantize.imatrix.chunks_count", 125, "i32")
    _tensor(g, "token_embd.weight", (WIDE, TOKENS), embedding)
    _tensor(g, "output.weight", (WIDE, TOKENS), embedding)
    _tensor(g, "output_norm.weight", (WIDE,), "f32")
    for i in range(layers):
        finer = better if i < layers // 2 else most
        for part, shape, type in (
            ("attn_norm", (WIDE,), "f32"), ("attn_q", (WIDE, WIDE), most), ("attn_k", (WIDE, KV), most),
            ("attn_v", (WIDE, KV), finer), ("attn_output", (WIDE, WIDE), most), ("ffn_norm", (WIDE,), "f32"),
            ("ffn_gate", (WIDE, FFN), most), ("ffn_up", (WIDE, FFN), most), ("ffn_down", (FFN, WIDE), finer),
        ):  # fmt: skip
            _tensor(g, f"blk.{i}.{part}.weight", shape, type)
    return g


def _tensor(g: GGUF, name: str, shape: tuple[int, ...], type: str) -> None:
    _, block, size = TENSOR[type]
    g.tensor(name, shape, type, bytes(prod(shape) // block * size))


def bits(kind: str) -> float:
    """Bits a weight of a mixture, by hand: bytes of all tensors by their elements."""
    tensors = [(prod(t["shape"]), len(t["data"])) for t in model(kind)._tensors]
    return 8 * sum(n for _, n in tensors) / sum(n for n, _ in tensors)


@lru_cache(maxsize=1)
def _files() -> dict[str, bytes]:
    found = {f"{NAME}-{kind}.gguf": model(kind).bytes() for kind in MIXTURES if kind != "BF16"}
    for no, shard in enumerate(pieces(model("BF16"), [12, 25])):
        found[f"BF16/{NAME}-BF16-{no + 1:05d}-of-00003.gguf"] = shard.bytes()
    found[f"{NAME}-Q5_0.gguf"] = model("Q4_0").bytes()[:3000]
    found["mmproj-F16.gguf"] = projector("mlp", WIDE).bytes()
    found["mmproj-other-F16.gguf"] = projector("mlp", 2 * WIDE).bytes()
    found[f"{NAME}-style.gguf"] = lora(("blk.0.attn_q.weight", WIDE, WIDE)).bytes()
    found["imatrix.gguf"] = imatrix(measured(LAYERS, WIDE)).bytes()
    found["imatrix.dat"] = bytes(64)
    found["README.md"] = b"---\nlicense: mit\n---\n# Tiny\n"
    return found


def files() -> dict[str, bytes]:
    """All files of the repository, by path."""
    return dict(_files())
