"""Who quantised a model, told from the names and types of its tensors: what each program stores instead of a weight."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gguftool.build.folder.seen import Seen
from gguftool.build.safetensors import Entry
from gguftool.records import dataclass

Ends = Mapping[str, Sequence[Entry]]
BITSANDBYTES = frozenset(
    "SCB absmax quant_map nested_absmax nested_quant_map weight_format bitsandbytes__nf4 bitsandbytes__fp4".split()
)
"""What bitsandbytes stores beside a weight: 8 bits, 4 bits."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a program's weights look like.

    Attributes:
        name: of the program or its format.
        ends: endings of names; one of them is enough, and the first shows it.
        also: what else must be so, of all endings.
    """

    name: str
    ends: tuple[str, ...]
    also: Callable[[Ends], bool] = lambda ends: True


def _mark(name: str, ends: str, also: Callable[[Ends], bool] = lambda ends: True) -> Mark:
    return Mark(name, tuple(ends.split()), also)


def _with(*names: str) -> Callable[[Ends], bool]:
    return lambda ends: any(n in ends for n in names)


def _typed(name: str, *dtypes: str) -> Callable[[Ends], bool]:
    return lambda ends: any(e.dtype in dtypes for e in ends.get(name, ()))


MARKS: tuple[Mark, ...] = (
    Mark("bitsandbytes", tuple(sorted(BITSANDBYTES))),
    _mark("quanto", "_data", _with("_scale", "_shift")),
    _mark("torchao", "qdata _weight_qdata weight_qdata weight:qdata int_data"),
    _mark("HQQ or SINQ", "W_q nbits compute_dtype"),
    _mark("AQLM", "codebooks"),
    _mark("QuIP#", "Qidxs codebook_id"),
    _mark("EXL3 or QTIP", "trellis"),
    _mark("EXL2", "q_weight q_invperm"),
    _mark("VPTQ", "indices", _with("perm", "weight_scale", "weight_bias")),
    _mark("SpQR", "dense_weights row_offsets"),
    _mark("HIGGS", "tables tables2"),
    _mark("FP-Quant", "forward_hadamard_matrix backward_hadamard_matrix"),
    _mark("MLX", "biases", _typed("weight", "U32")),
    _mark("GPTQ", "g_idx", _with("qweight")),
    _mark("AWQ or GPTQ", "qweight qzeros"),
    _mark("EETQ", "weight_scales", _typed("weight", "I8", "U8")),
    _mark("compressed-tensors, with zeros left out", "bitmask"),
    _mark("compressed-tensors, NVFP4", "weight_global_scale"),
    _mark("compressed-tensors", "weight_packed"),
    _mark("NVFP4 of modelopt", "weight_scale_2"),
    _mark("modelopt", "pre_quant_scale"),
    _mark("FP8 in blocks", "weight_scale_inv"),
    _mark("FP8", "weight_scale input_scale scale_weight", _typed("weight", "F8_E4M3", "F8_E5M2")),
    _mark("8-bit integers", "weight_scale weight_scales scales", _typed("weight", "I8")),
    _mark("packed numbers", "weight_scale scales", _typed("weight", "U8", "I32", "U32")),
)
"""In the order in which they are looked for: the narrow before the wide."""


def marked(seen: Seen) -> tuple[str, Entry] | None:
    """Who quantised the weights, with a tensor that shows it; None when nothing looks like it."""
    for mark in MARKS:
        for end in mark.ends:
            if end in seen.ends and mark.also(seen.ends):
                return mark.name, seen.ends[end][0]
    for end, entries in seen.ends.items():
        if (
            end.endswith("_blocks")
            and end.removesuffix("_blocks") + "_scales" in seen.ends
            and entries[0].dtype == "U8"
        ):
            return "MXFP4", entries[0]
    return None


WAYS: Mapping[str, str] = {
    "bitsandbytes": "or, in Python: from_pretrained(FOLDER).dequantize().save_pretrained(OTHER), transformers 4.46 on; "
    "a merge that was made in 4 or 8 bits must be made again on the full-precision base",
    "MLX": "or, on a Mac: mlx_lm.convert --dequantize --hf-path FOLDER --mlx-path OTHER",
    "compressed-tensors": "or save it decompressed (transformers: CompressedTensorsConfig(run_compressed=False))",
}
"""What undoes a quantisation, besides taking the model it was made from."""


def way_on(name: str) -> str:
    """What helps with weights of a quantiser that the converter does not take."""
    more = next((text for begin, text in WAYS.items() if name.startswith(begin)), "")
    return "take the unquantised model" + (f"; {more}" if more else "")
