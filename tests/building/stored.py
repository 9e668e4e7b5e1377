"""How programs store a weight: the tensors that each of them writes instead of one matrix, and what config.json says.

Shapes and types as the programs write them; the numbers mean nothing.
"""

from __future__ import annotations

import json
import struct
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.building import hf

Tensor = tuple[str, tuple[int, ...], bytes]
Tensors = dict[str, Tensor]
_SIZE = {
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "I64": 8,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E8M0": 1,
}
_ONE = {"F32": b"\0\0\x80\x3f", "F16": b"\0\x3c", "BF16": b"\x80\x3f", "F8_E4M3": b"\x38", "I64": b"\1" + bytes(7)}


def tensor(dtype: str, *shape: int) -> Tensor:
    """A tensor of ones (integers: of any numbers)."""
    n = 1
    for d in shape:
        n *= d
    one = _ONE.get(dtype, b"\x11" * _SIZE.get(dtype, 1))
    return dtype, shape, one * n


def read(folder: Path, name: str = "model.safetensors") -> Tensors:
    """All tensors of a file, with their data."""
    data = (folder / name).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    out = {}
    for key, row in json.loads(data[8 : 8 + length]).items():
        if key != "__metadata__":
            begin, end = (8 + length + n for n in row["data_offsets"])
            out[key] = (row["dtype"], tuple(row["shape"]), data[begin:end])
    return out


def rewrite(folder: Path, change: Callable[[Tensors], Tensors | None], name: str = "model.safetensors") -> None:
    """Change the tensors of a file."""
    tensors = read(folder, name)
    hf.safetensors(folder / name, change(tensors) or tensors)


def config(folder: Path, **values: Any) -> None:
    """Change config.json; None takes a key out."""
    path = folder / "config.json"
    kept = {**json.loads(path.read_text()), **values}
    path.write_text(json.dumps({k: v for k, v in kept.items() if v is not None}))


@cache
def _files(arch: str) -> Mapping[str, bytes]:
    with tempfile.TemporaryDirectory() as place:
        return {file.name: file.read_bytes() for file in hf.folder(Path(place), arch).iterdir()}


def folder(path: Path, arch: str = "llama", **values: Any) -> Path:
    """As `hf.folder`, whose weights are drawn once."""
    path.mkdir(parents=True, exist_ok=True)
    for name, data in _files(arch).items():
        (path / name).write_bytes(data)
    if values:
        config(path, **values)
    return path


Store = Callable[[int, int], Mapping[str, Tensor]]
"""Rows and columns of a matrix -> tensors, by what replaces ``weight`` at the end of its name."""


def gptq(bits: int = 4, group: int = 128, order: bool = True) -> Store:
    """GPTQ (AutoGPTQ, GPTQModel)."""

    def store(rows: int, columns: int) -> Mapping[str, Tensor]:
        out = {
            "qweight": tensor("I32", columns * bits // 32, rows),
            "qzeros": tensor("I32", columns // group, rows * bits // 32),
            "scales": tensor("F16", columns // group, rows),
        }
        index = b"".join((i // group).to_bytes(4, "little") for i in range(columns))
        return {**out, "g_idx": ("I32", (columns,), index)} if order else out

    return store


def awq(rows: int, columns: int) -> Mapping[str, Tensor]:
    """AWQ, which packs along the rows and has no order."""
    return {
        "qweight": tensor("I32", columns, rows // 8),
        "qzeros": tensor("I32", columns // 128, rows // 8),
        "scales": tensor("F16", columns // 128, rows),
    }


def fp8(block: int = 128, scale: str = "weight_scale_inv") -> Store:
    """FP8 as DeepSeek stores it."""
    return lambda rows, columns: {
        "weight": tensor("F8_E4M3", rows, columns),
        scale: tensor("F32", -(-rows // block), -(-columns // block)),
    }


def channels(dtype: str, **more: Tensor) -> Store:
    """compressed-tensors with a scale for each row."""
    return lambda rows, columns: {
        "weight": tensor(dtype, rows, columns),
        "weight_scale": tensor("BF16", rows, 1),
        **more,
    }


def packed(bits: int = 4, group: int = 128, order: bool = False) -> Store:
    """compressed-tensors, pack-quantized."""

    def store(rows: int, columns: int) -> Mapping[str, Tensor]:
        shape = rows.to_bytes(8, "little") + columns.to_bytes(8, "little")
        out: dict[str, Tensor] = {
            "weight_packed": tensor("I32", rows, columns * bits // 32),
            "weight_scale": tensor("BF16", rows, columns // group),
            "weight_shape": ("I64", (2,), shape),
        }
        return {**out, "weight_g_idx": tensor("I32", columns)} if order else out

    return store


def nvfp4(rows: int, columns: int) -> Mapping[str, Tensor]:
    """NVFP4 of compressed-tensors."""
    return {
        "weight_packed": tensor("U8", rows, columns // 2),
        "weight_scale": tensor("F8_E4M3", rows, columns // 16),
        "weight_global_scale": tensor("F32", 1),
        "input_global_scale": tensor("F32", 1),
    }


def modelopt(rows: int, columns: int) -> Mapping[str, Tensor]:
    """NVFP4 of NVIDIA's modelopt."""
    return {
        "weight": tensor("U8", rows, columns // 2),
        "weight_scale": tensor("F8_E4M3", rows, columns // 16),
        "weight_scale_2": tensor("F32"),
        "input_scale": tensor("F32"),
    }


def fixed(**parts: Tensor) -> Store:
    """The same tensors for each weight; ``__`` in a name stands for a point."""
    return lambda rows, columns: {name.replace("__", "."): part for name, part in parts.items()}


def _matrices(**parts: str) -> Store:
    """Tensors as large as the matrix, by type."""
    return lambda rows, columns: {name.replace("__", "."): tensor(t, rows, columns) for name, t in parts.items()}


def bnb4(rows: int, columns: int) -> Mapping[str, Tensor]:
    """bitsandbytes, 4 bits."""
    return {
        "weight": tensor("U8", rows * columns // 2, 1),
        "weight.absmax": tensor("U8", rows * columns // 64),
        "weight.nested_absmax": tensor("F32", rows * columns // 64 // 256 or 1),
        "weight.nested_quant_map": tensor("F32", 256),
        "weight.quant_map": tensor("F32", 16),
        "weight.quant_state.bitsandbytes__nf4": tensor("U8", 90),
    }


def mlx(rows: int, columns: int) -> Mapping[str, Tensor]:
    """MLX, 4 bits."""
    return {
        "weight": tensor("U32", rows, columns // 8),
        "scales": tensor("BF16", rows, columns // 64),
        "biases": tensor("BF16", rows, columns // 64),
    }


def apply(folder: Path, store: Store, said: Mapping[str, Any] | None = None, key: str = "quantization_config") -> Path:
    """Store all projections of the layers so; ``said`` goes into config.json."""

    def change(tensors: Tensors) -> Tensors:
        out: Tensors = {}
        for name, (dtype, shape, data) in tensors.items():
            if name.endswith("_proj.weight"):
                base = name.removesuffix("weight")
                out |= {base + end: part for end, part in store(*shape).items()}
            else:
                out[name] = (dtype, shape, data)
        return out

    rewrite(folder, change)
    if said is not None:
        config(folder, **{key: dict(said)})
    return folder


def compressed(form: str, **weights: Any) -> dict[str, Any]:
    """quantization_config of compressed-tensors."""
    group = {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "channel", **weights}}
    return {"quant_method": "compressed-tensors", "format": form, "config_groups": {"group_0": group}}


def eetq(rows: int, columns: int) -> Mapping[str, Tensor]:
    """EETQ."""
    return {"weight": tensor("I8", columns, rows), "weight_scales": tensor("F16", rows)}


def quanto(rows: int, columns: int) -> Mapping[str, Tensor]:
    """quanto, 8 bits."""
    return {"weight._data": tensor("I8", rows, columns), "weight._scale": tensor("F32", rows, 1)}


def one_scale(rows: int, columns: int) -> Mapping[str, Tensor]:
    """FP8 with one scale for the weight and one for what comes in."""
    return {"weight": tensor("F8_E4M3", rows, columns), "weight_scale": tensor("F32"), "input_scale": tensor("F32")}


Kept = tuple[Store, dict[str, Any] | None]
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}
FP8 = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
_CT_INT4 = compressed("pack-quantized", **_INT4)
_CT_FP4 = compressed("nvfp4-pack-quantized", num_bits=4, strategy="tensor_group", group_size=16)
_TWO = {"g0": {"weights": {}}, "g1": {"weights": {}}}

TAKEN: dict[str, Kept] = {
    "gptq": (gptq(), GPTQ),
    "gptq-8-bit": (gptq(8), {**GPTQ, "bits": 8}),
    "gptq-2-bit": (gptq(2), {**GPTQ, "bits": 2}),
    "gptq-one-group": (gptq(group=256), {**GPTQ, "group_size": -1}),
    "gptq-v2": (gptq(), {**GPTQ, "checkpoint_format": "gptq_v2"}),
    "fp8": (fp8(), FP8),
    "fp8-by-tensor": (
        lambda r, c: {"weight": tensor("F8_E4M3", r, c), "weight_scale_inv": tensor("F32", 1, 1)},
        {"quant_method": "fp8", "weight_block_size": None},
    ),
    "fp8-by-row": (
        lambda r, c: {"weight": tensor("F8_E4M3", r, c), "weight_scale_inv": tensor("F32", r)},
        {"quant_method": "fp8"},
    ),
    "fp8-small-blocks": (fp8(64), {**FP8, "weight_block_size": [64, 64]}),
    "ct-float": (channels("F8_E4M3"), compressed("float-quantized")),
    "ct-int": (channels("I8"), compressed("int-quantized", type="int")),
    "ct-packed": (packed(), _CT_INT4),
    "ct-packed-8-bit": (packed(8, 64), compressed("pack-quantized", **{**_INT4, "num_bits": 8, "group_size": 64})),
    "ct-nvfp4": (nvfp4, _CT_FP4),
    "modelopt-nvfp4": (modelopt, {"quant_method": "modelopt", "quant_algo": "NVFP4"}),
    "modelopt-fp8": (one_scale, {"quant_method": "modelopt", "quant_algo": "FP8"}),
}  # fmt: skip
"""What the converters undo."""

PLAIN = _matrices(weight="BF16")
"""Not quantised at all."""

REFUSED: dict[str, tuple[Store, dict[str, Any] | None, str]] = {
    "plain-called-bnb": (PLAIN, {"quant_method": "bitsandbytes", "load_in_4bit": True}, "quant-config"),
    "plain-called-awq": (PLAIN, {"quant_method": "awq", "bits": 4}, "quant-config"),
    "gptq-with-bytes": (lambda r, c: {**gptq()(r, c), "weight": tensor("U8", r, c)}, GPTQ, "integer-weights"),
    "fp8-with-bytes": (_matrices(weight="U8"), FP8, "integer-weights"),
    "gptq-with-fp8": (lambda r, c: {**gptq()(r, c), "weight": tensor("F8_E4M3", r, c)}, GPTQ, "fp8-without-scales"),
    "gptq-3-bit": (gptq(4), {**GPTQ, "bits": 3}, "quant-unsupported"),
    "gptq-no-bits": (gptq(), {"quant_method": "gptq"}, "quant-config"),
    "gptq-other-bits": (gptq(8), GPTQ, "quant-groups"),
    "gptq-is-awq": (gptq(order=False), GPTQ, "quant-incomplete"),
    "gptq-undeclared": (gptq(), None, "quantised-source"),
    "awq": (awq, {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "quantised-source"),
    "awq-undeclared": (awq, None, "quantised-source"),
    "auto-round": (gptq(), {**GPTQ, "quant_method": "auto-round"}, "quantised-source"),
    "fp8-undeclared": (fp8(), None, "no-quant-config"),
    "fp8-other-blocks": (fp8(64), FP8, "quant-groups"),
    "fp8-no-blocks": (fp8(64), {"quant_method": "fp8"}, "quant-groups"),
    "fp8-static": (one_scale, {"quant_method": "fp8", "activation_scheme": "static"}, "quant-config"),
    "fp8-scales-lost": (_matrices(weight="F8_E4M3"), FP8, "fp8-without-scales"),
    "fp8-bare": (_matrices(weight="F8_E4M3"), None, "fp8-without-scales"),
    "fbgemm": (channels("F8_E4M3"), {"quant_method": "fbgemm_fp8"}, "quantised-source"),
    "i8": (_matrices(weight="I8"), None, "integer-weights"),
    "u8": (_matrices(weight="U8"), None, "integer-weights"),
    "i32": (_matrices(weight="I32"), None, "integer-weights"),
    "i16": (_matrices(weight="I16"), None, "integer-weights"),
    "u32": (_matrices(weight="U32"), None, "dtype-unknown"),
    "i8-scales": (channels("I8"), None, "quantised-source"),
    "bnb-4": (bnb4, {"quant_method": "bitsandbytes", "load_in_4bit": True}, "quantised-source"),
    "bnb-4-undeclared": (bnb4, None, "quantised-source"),
    "bnb-8": (
        lambda r, c: {"weight": tensor("I8", r, c), "SCB": tensor("F32", r), "weight_format": tensor("U8")},
        None,
        "quantised-source",
    ),
    "hqq": (
        lambda r, c: {"W_q": tensor("U8", r // 2, c), "scale": tensor("F16", r, 1), "zero": tensor("F16", r, 1)},
        {"quant_config": {}, "quant_method": "hqq"},
        "quantised-source",
    ),
    "hqq-undeclared": (
        lambda r, c: {"W_q": tensor("U8", r // 2, c), "scale": tensor("F16", r, 1), "nbits": tensor("I32")},
        None,
        "quantised-source",
    ),
    "eetq": (eetq, {"quant_method": "eetq"}, "quantised-source"),
    "eetq-undeclared": (eetq, None, "quantised-source"),
    "quanto": (quanto, {"quant_method": "quanto"}, "quantised-source"),
    "quanto-undeclared": (quanto, None, "quantised-source"),
    "torchao": (
        lambda r, c: {"_weight_qdata": tensor("I8", r, c), "_weight_scale": tensor("F32", r, 1)},
        {"quant_method": "torchao"},
        "quantised-source",
    ),
    "aqlm": (
        lambda r, c: {
            "codes": tensor("I16", r, c // 8, 1),
            "codebooks": tensor("F16", 1, 256, 1, 8),
            "scales": tensor("F16", r, 1, 1, 1),
        },
        {"quant_method": "aqlm"},
        "quantised-source",
    ),
    "sinq": (
        lambda r, c: {"W_q": tensor("U8", r, c), "scales": tensor("F16", r, 1)},
        {"quant_method": "sinq"},
        "quantised-source",
    ),
    "paretoq": (_matrices(weight="I8"), {"quant_method": "paretoq"}, "quantised-source"),
    "exl2": (
        lambda r, c: {
            "q_weight": tensor("I32", c // 8, r),
            "q_invperm": tensor("I32", c),
            "q_scale": tensor("I32", 2, r // 8),
        },
        None,
        "quantised-source",
    ),
    "exl3": (
        lambda r, c: {"trellis": tensor("I16", c // 16, r // 16, 64), "suh": tensor("F16", c), "svh": tensor("F16", r)},
        {"quant_method": "exl3"},
        "quantised-source",
    ),
    "mlx-undeclared": (mlx, None, "quantised-source"),
    "mxfp4-of-others": (
        lambda r, c: {"weight_blocks": tensor("U8", r, c // 32, 16), "weight_scales": tensor("U8", r, c // 32)},
        {"quant_method": "mxfp4"},
        "quant-unsupported",
    ),
    "ct-no-format": (channels("I8"), {"quant_method": "compressed-tensors", "config_groups": {}}, "quant-config"),
    "ct-tensor": (channels("F8_E4M3"), compressed("float-quantized", strategy="tensor"), "quant-unsupported"),
    "ct-groups": (channels("I8"), compressed("int-quantized", type="int", group_size=128), "quant-unsupported"),
    "ct-two-groups": (channels("I8"), {**compressed("int-quantized"), "config_groups": _TWO}, "quant-unsupported"),
    "ct-static": (
        channels("F8_E4M3", input_scale=tensor("BF16", 1)),
        compressed("float-quantized"),
        "quant-unsupported",
    ),
    "ct-act-order": (packed(order=True), _CT_INT4, "quant-unsupported"),
    "ct-channel": (packed(group=256), compressed("pack-quantized", num_bits=4, type="int"), "quant-unsupported"),
    "ct-other-group": (packed(group=64), _CT_INT4, "quant-groups"),
    "ct-other-bits": (packed(8), _CT_INT4, "quant-groups"),
    "ct-marlin": (packed(), compressed("marlin-24", **_INT4), "quant-unsupported"),
    "ct-undeclared": (packed(), None, "no-quant-config"),
    "ct-fp4-undeclared": (nvfp4, None, "no-quant-config"),
    "bitnet": (
        lambda r, c: {"weight": tensor("U8", r // 4, c), "weight_scale": tensor("BF16", 1)},
        {"quant_method": "bitnet", "linear_class": "bitlinear", "quantization_mode": "offline"},
        "quant-lazy",
    ),
    "modelopt-undeclared": (modelopt, None, "no-quant-config"),
    "modelopt-awq": (
        lambda r, c: {**modelopt(r, c), "pre_quant_scale": tensor("BF16", c)},
        {"quant_method": "modelopt", "quant_algo": "NVFP4_AWQ"},
        "quant-unsupported",
    ),
}  # fmt: skip
"""What they do not, and the kind of the problem."""
