"""Quantisation labels against tensor types."""

from __future__ import annotations

from tests.build import GGUF
from tests.lint.samples import Sample, ready


def quantised(ftype: int | None, type: str, version: int | None = 2) -> GGUF:
    g = GGUF("llama").kv("llama.block_count", 1)
    if ftype is not None:
        g.kv("general.file_type", ftype)
    if version is not None:
        g.kv("general.quantization_version", version)
    return g.tensor("token_embd.weight", (256, 8), type).tensor("blk.0.ffn_up.weight", (256, 8), type)


FTYPE = "field:general.file_type"
SAMPLES = [
    Sample(
        "file-type-mismatch",
        quantised(7, "f16"),
        FTYPE,
        "labelled Q8_0, but the tensors are mostly F16 (100 %)",
        quantised(7, "q8_0"),
        severity="warning",
        fix="--set general.file_type=1",
        safe=False,
    ),
    Sample("file-type-mismatch", quantised(1, "q4_0"), FTYPE, "labelled F16", quantised(15, "q4_k")),
    # the mixture of Q4_K_M: Q4_K, Q6_K and, in rows that do not divide, Q8_0 or Q5_0
    Sample(
        "file-type-mismatch",
        quantised(15, "bf16"),
        FTYPE,
        "labelled Q4_K_M",
        quantised(15, "q6_k").tensor("blk.0.ffn_down.weight", (32, 8), "q5_0"),
    ),
    Sample("file-type-unknown", quantised(99, "q8_0"), FTYPE, "is 99", quantised(1024 + 15, "q4_k"), severity="info"),
    Sample(
        "file-type-missing",
        quantised(None, "q8_0"),
        FTYPE,
        "most quantised tensors are Q8_0",
        quantised(None, "f16"),
        severity="info",
    ),
    Sample(
        "quantization-version-odd",
        quantised(7, "q8_0", 1),
        "field:general.quantization_version",
        "is 1",
        quantised(7, "q8_0"),
        severity="warning",
        fix="--set general.quantization_version=2",
        safe=False,
    ),
    Sample(
        "quantization-version-missing",
        quantised(7, "q8_0", None),
        "field:general.quantization_version",
        "is missing",
        ready(),
        severity="info",
        fix="--set general.quantization_version=2",
        safe=True,
    ),
]
