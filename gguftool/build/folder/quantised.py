"""Weights that are quantised already: what the converter can undo, and what it cannot (`ModelBase.dequant_model`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gguftool.build.folder import covered
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.quantisers import BITSANDBYTES, marked, way_on
from gguftool.build.folder.seen import Seen
from gguftool.build.safetensors import FLOATS

METHODS = frozenset({"bitnet", "fp8", "gptq", "compressed-tensors", "modelopt", "mxfp4"})
"""Quantised weights the converter takes (`conversion/base.py:dequant_model`, b11434)."""
_OWN_WAY = ("DeepseekV4", "GptOss", "KimiK3", "MiMo")
"""Beginnings of architectures whose classes undo a quantisation of their own (`dequant_model`, `modify_tensors`)."""
_NAMES = {
    "awq": "AWQ",
    "bitsandbytes": "bitsandbytes",
    "hqq": "HQQ",
    "eetq": "EETQ",
    "aqlm": "AQLM",
    "vptq": "VPTQ",
    "spqr": "SpQR",
    "sinq": "SINQ",
    "quark": "AMD Quark",
    "fbgemm_fp8": "FBGEMM (FP8)",
    "auto-round": "AutoRound",
    "intel/auto-round": "AutoRound",
}


def config(seen: Seen) -> Mapping[str, Any]:
    """The quantisation as the converter reads it; {} when there is none."""
    found = seen.config.text.get("quantization_config")
    said = dict(found) if isinstance(found, Mapping) else {}
    apart = seen.json("hf_quant_config.json")
    if isinstance(apart, Mapping):
        inner, producer = apart.get("quantization"), apart.get("producer")
        inner = inner if isinstance(inner, Mapping) else {}
        if "quant_method" not in said and isinstance(producer, Mapping) and isinstance(producer.get("name"), str):
            said["quant_method"] = producer["name"].lower()
        for key in ("quant_algo", "format", "config_groups", "quantized_layers"):
            if not said.get(key) and key in inner:
                said[key] = inner[key]
    return said


def method(seen: Seen) -> Iterator[Problem]:
    """Whether the converter takes weights of this kind, and the tensors are what the configuration says."""
    said = config(seen)
    name = said.get("quant_method")
    quantiser = marked(seen)
    example = f", for example {quantiser[1].name}" if quantiser else ""
    if isinstance(name, str) and name not in seen.methods and not quantiser and _floats(seen) and not own_way(seen):
        yield Problem(
            "quant-config",
            f"config.json says that {_NAMES.get(name, name)} has quantised the weights, and they are plain numbers",
            "take quantization_config out of config.json",
        )
        return
    if name == "bitsandbytes" or (quantiser and quantiser[0] == "bitsandbytes"):
        words = f"the weights are quantised by bitsandbytes{example or ' (quant_method bitsandbytes)'}"
        yield Problem("quantised-source", words, way_on("bitsandbytes"))
    elif isinstance(name, str) and name not in seen.methods and not own_way(seen):
        words = f"the weights are quantised by {_NAMES.get(name, name)}; this converter cannot undo that"
        yield Problem("quantised-source", words, way_on(name))
    elif own_way(seen):
        return
    elif isinstance(name, str):
        yield from covered.by(name, said, seen)
    elif quantiser:
        yield _undeclared(seen, *quantiser, example)


def _undeclared(seen: Seen, name: str, entry: Any, example: str) -> Problem:
    """Quantised weights of which config.json does not say how."""
    mlx = seen.config.raw.get("quantization")
    if name == "MLX" or (isinstance(mlx, Mapping) and "bits" in mlx and entry.name.endswith("scales")):
        bits = f" with {mlx['bits']} bits" if isinstance(mlx, Mapping) and "bits" in mlx else ""
        return Problem("quantised-source", f"the weights are quantised by MLX{bits}{example}", way_on("MLX"))
    if name.startswith(("FP8", "compressed", "NVFP4")):
        return Problem(
            "no-quant-config",
            f"the weights are quantised ({name}{example}), and config.json has no quantization_config that says how",
            "put back the quantization_config of the model's own config.json; else take the unquantised model",
        )
    return Problem("quantised-source", f"the weights are quantised by {name}{example}", way_on(name))


def refused(seen: Seen) -> bool:
    """Whether it has been said that the weights cannot be used as they are."""
    return any(p.fatal for p in seen.once(method))


def _floats(seen: Seen) -> bool:
    """Whether there are weights, and all are floating-point numbers of 16 bits or more."""
    return seen.whole and bool(seen.text) and all(e.dtype in FLOATS for e in seen.text.values())


def plain(seen: Seen) -> bool:
    """Whether every weight must be stored as a floating-point number of 16 bits or more."""
    return not own_way(seen) and not isinstance(config(seen).get("quant_method"), str)


def own_way(seen: Seen) -> bool:
    """Whether the converter undoes the quantisation of this model in a way of its own."""
    if not seen.config.architecture.startswith(_OWN_WAY) or set(seen.ends) & BITSANDBYTES:
        return False
    return bool(config(seen)) or marked(seen) is not None
