"""Pair: files beside a model."""

from __future__ import annotations

from gguftool.lint.rule import Context
from gguftool.model import from_source
from gguftool.source import Memory
from tests.beside import control_vector, imatrix, lora, measured, projector
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready
from tests.speculators import eagle3, glm


def beside(*sides: GGUF) -> Context:
    return Context(beside=tuple(from_source(Memory(g.bytes(), "side.gguf"), strict=False) for g in sides))


def model() -> GGUF:
    return ready(layers=3)


FITS = beside(control_vector(), imatrix(measured()), llama(), lora())
"""What fits the model beside it, so that the silent case has something to look at."""
FLUX = GGUF("flux").tensor("double_blocks.0.img_attn.qkv.weight")
DEEP = lora(("blk.0.attn_q_b.weight", 64, 64), ("blk.0.attn_output.weight", 64, 64), arch="deepseek2")
TIED = lora().tensor("token_embd.weight.lora_a", (4, 291)).tensor("token_embd.weight.lora_b", (4, 64))
GPT2 = llama().replace("tokenizer.ggml.model", "gpt2").kv("tokenizer.ggml.merges", ["a b"])
NO_NORM = llama().drop_tensor("blk.0.attn_norm.weight")


def fires(rule: str, side: GGUF, **more: object) -> Sample:
    return Sample(rule, model(), context=beside(side), silent=model(), silent_context=FITS, **more)  # type: ignore[arg-type]


SAMPLES = [
    fires("pair-role", FLUX, where="file", message="side.gguf: An image", severity="error", fix=""),
    fires("pair-load", NO_NORM, where="tensor:blk.0.attn_norm.weight", message="not found", severity="error"),
    fires("pair-architecture", lora(arch="qwen2"), where="field:general.architecture", severity="error"),
    fires("pair-shapes", lora(("blk.0.attn_q.weight", 96, 96)), message="96 × 96", severity="error"),
    fires("pair-width", control_vector(96), message="96 wide", severity="error"),
    Sample("pair-markers", llama(800), context=beside(projector()), where="field:clip.projector_type",
           message="'<start_of_image>', which stands beside an image", severity="warning", silent=model(),
           silent_context=FITS),
    fires("pair-markers", projector("idefics3"), message="refuses every request", severity="error"),
    fires("pair-layers", control_vector(layers=(1, 2, 3)), message="from 3 on", severity="warning"),
    Sample(
        "pair-effect",
        GGUF("deepseek2"),
        "tensor:blk.0.attn_q_b.weight.lora_a",
        "1 of 2 pairs do nothing",
        severity="warning",
        context=beside(DEEP),
        silent=model(),
        silent_context=FITS,
    ),
    Sample(
        "pair-effect",
        GGUF("bert").kv("bert.embedding_length", 64),
        message="adds no control vector",
        severity="error",
        context=beside(control_vector()),
        silent=model(),
        silent_context=FITS,
    ),
    fires(
        "pair-effect",
        lora().kv("adapter.alora.invocation_tokens", [5, 9000], "[u32]"),
        message="token 9,000",
        severity="error",
    ),
    fires("pair-shapes", TIED, message="computes its output with token_embd.weight, too", severity="error"),
    fires("pair-vocabulary", GPT2, where="field:tokenizer.ggml.model", message="another kind", severity="error"),
    fires("pair-vocabulary", eagle3(llama(tokens=400)), message="659 tokens", severity="error"),
    Sample(
        "pair-architecture",
        glm(),
        context=beside(eagle3()),
        message="does not give away",
        severity="error",
        silent=model(),
        silent_context=beside(eagle3()),
    ),
    fires("pair-width", eagle3(hidden=96), message="96 wide", severity="error"),
    fires("pair-layers", eagle3(layers=(0, 1, 4)), message="reads layer 4", severity="error"),
    fires("pair-imatrix", imatrix(measured(width=96)), message="96 values", severity="error"),
    fires("pair-imatrix", imatrix(measured(layers=1)), message="2 of 3 layers", severity="warning"),
]  # fmt: skip
