"""Weights that are quantised already: what the converter can undo, and what it cannot."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen

METHODS = frozenset({"bitnet", "fp8", "gptq", "compressed-tensors", "modelopt", "mxfp4"})
"""Quantised weights the converter takes (`conversion/base.py:dequant_model`, b11434)."""
_ALWAYS = (".SCB", ".absmax", ".quant_map", ".nested_absmax", ".weight_format")
_PACKED = (".qweight", ".qzeros", ".g_idx", ".scales")


def method(seen: Seen) -> Iterator[Problem]:
    """Whether the converter takes weights of this kind."""
    quant = seen.config.text.get("quantization_config")
    name = quant.get("quant_method") if isinstance(quant, dict) else None
    advice = "take the unquantised model; a merge made in 4 or 8 bits must be made again on the full-precision base"
    marked = [e.name for e in seen.entries if e.name.endswith(_ALWAYS)]
    if marked or name == "bitsandbytes":
        what = f", for example {marked[0]}" if marked else " (quant_method bitsandbytes)"
        yield Problem("quantised-source", f"the weights are quantised by bitsandbytes{what}", advice)
    elif isinstance(name, str) and name not in seen.methods:
        yield Problem("quantised-source", f"the weights are quantised by {name}; this converter cannot", advice)
    else:
        packed = [e.name for e in seen.entries if e.name.endswith(_PACKED)]
        if packed and name is None:
            yield Problem(
                "quantised-source",
                f"the weights are packed, for example {packed[0]}, and config.json does not say how",
                advice,
            )
