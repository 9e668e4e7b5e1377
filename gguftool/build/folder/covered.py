"""Quantised weights of kinds that the converter undoes: whether these are such (`ModelBase.dequant_model`, b11434)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.quantisers import way_on
from gguftool.build.folder.seen import Seen
from gguftool.build.folder.weights import shown
from gguftool.build.safetensors import Entry
from gguftool.shell import gguftool, path_word

_AGAIN = "download the folder again; config.json and weights belong to different versions"
_F8 = ("F8_E4M3", "F8_E5M2")
_INT = ("I8", "U8", "I16", "I32", "I64")


def by(method: str, said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    """What speaks against a quantisation that the converter takes in principle."""
    check = _CHECKS.get(method)
    if check is not None:
        yield from check(said, seen)


def _gptq(said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    bits = said.get("bits")
    if bits == 3:
        yield _cannot("GPTQ of 3 bits")
    elif type(bits) is not int or bits not in (2, 4, 8):
        yield Problem("quant-config", f"quantization_config says GPTQ, but bits {bits!r}", _AGAIN)
    elif "qweight" not in seen.ends:
        yield from _nothing_packed("GPTQ", seen)
    else:
        yield from _partners(seen, "qweight", ("qzeros", "scales", "g_idx"))
        yield from _first(_packed(e, bits, seen) for e in seen.ends["qweight"])


def _packed(entry: Entry, bits: int, seen: Seen) -> Problem | None:
    """Whether the shapes of one packed weight fit the number of bits (`dequant_gptq`)."""
    base = entry.name.removesuffix("qweight")
    index, zeros, scales = (seen.tensors.get(base + n) for n in ("g_idx", "qzeros", "scales"))
    if index is None or zeros is None or scales is None:
        return None
    if entry.dtype != zeros.dtype:
        words = f"{entry.name} is {entry.dtype}, its qzeros {zeros.dtype}"
        return Problem("quant-config", words, _AGAIN)
    packs = 32 // bits
    if len(entry.shape) != 2 or len(scales.shape) != 2 or len(zeros.shape) != 2:
        return Problem("quant-groups", f"{entry.name} is no matrix: {shown(entry.shape)}", _AGAIN)
    rows, (groups, columns) = entry.shape[0] * packs, scales.shape
    if index.shape != (rows,) or zeros.shape[0] != groups or zeros.shape[1] * packs != columns:
        return Problem(
            "quant-groups",
            f"{entry.name} ({shown(entry.shape)}), its scales ({shown(scales.shape)}) and g_idx ({shown(index.shape)}) "
            f"do not fit {bits} bits",
            _AGAIN,
        )
    return None


def _fp8(said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    if strange := seen.ends.get("weight_scale") or seen.ends.get("input_scale"):
        yield Problem(
            "quant-config",
            f"quantization_config says fp8, whose scales are called weight_scale_inv; there is {strange[0].name}",
            "put back the quantization_config of the model's own config.json; else take the unquantised model",
        )
        return
    yield from _orphans(seen, "_scale_inv")
    yield from _unscaled(seen, "_scale_inv")
    block = said.get("weight_block_size")
    yield from _first(
        _block(e, seen.tensors.get(e.name.removesuffix("_scale_inv")), block)
        for end, entries in seen.ends.items()
        if end.endswith("_scale_inv")
        for e in entries
    )


def _block(scale: Entry, weight: Entry | None, block: object) -> Problem | None:
    """Whether a scale has a number for each block of its weight (`dequant_simple`)."""
    if weight is None or len(weight.shape) < 2 or scale.elements == 1:
        return None
    sizes = [n for n in block if type(n) is int and n > 0] if isinstance(block, list) else []
    if not sizes:
        over = (*scale.shape, *[1] * (len(weight.shape) - len(scale.shape)))
        if len(over) == len(weight.shape) and all(n in (1, d) for n, d in zip(over, weight.shape, strict=True)):
            return None
        words = f"{scale.name} ({shown(scale.shape)}) has a number for each block, and weight_block_size is {block!r}"
        return Problem("quant-groups", words, "put back weight_block_size of the model's own config.json")
    wanted = (
        *weight.shape[: -len(sizes)],
        *(-(-d // n) for d, n in zip(weight.shape[-len(sizes) :], sizes, strict=True)),
    )
    free = len(wanted) - len(sizes)
    if scale.shape[-len(sizes) :] == wanted[free:] and all(
        n in (1, d) for n, d in zip(scale.shape[: -len(sizes)], wanted[:free], strict=False)
    ):
        return None
    return Problem(
        "quant-groups",
        f"{scale.name} is {shown(scale.shape)}; {weight.name} ({shown(weight.shape)}) in blocks of {shown(sizes)} "
        f"needs {shown(wanted)}",
        _AGAIN,
    )


def _bitnet(said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    yield from _orphans(seen, "_scale")
    packed = [e for e in seen.ends.get("weight", ()) if e.dtype in ("U8", "I8")]
    bare = next((e for e in packed if e.name + "_scale" not in seen.tensors), None)
    if bare is not None:
        yield Problem("quant-incomplete", f"{bare.name} is packed and has no weight_scale", _AGAIN)
    elif packed and "--no-lazy" not in seen.arguments:
        yield Problem(
            "quant-lazy",
            f"the weights are packed as in BitNet, for example {packed[0].name}; the converter can unpack them only "
            "when it reads all weights at once",
            gguftool("convert", path_word(seen.path), "--converter-arg=--no-lazy"),
        )


def _compressed(said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    form, groups = said.get("format"), said.get("config_groups")
    if not isinstance(form, str) or not isinstance(groups, Mapping) or not groups:
        yield Problem(
            "quant-config",
            "quantization_config says compressed-tensors, but not which format" if not isinstance(form, str)
            else "quantization_config says compressed-tensors, but has no config_groups",
            "put back the quantization_config of the model's own config.json; else take the unquantised model",
        )  # fmt: skip
        return
    inner = [g for g in groups.values() if isinstance(g, Mapping)]
    fp4 = "nvfp4-pack-quantized"
    if form == fp4 or (form == "mixed-precision" and all(g.get("format") == fp4 for g in inner)):
        return
    if len(groups) > 1:
        yield _cannot(f"compressed-tensors with {len(groups)} config groups")
        return
    weights = inner[0].get("weights") if inner else None
    weights = weights if isinstance(weights, Mapping) else {}
    if form in ("float-quantized", "int-quantized", "naive-quantized"):
        yield from _scaled(form, weights, seen)
    elif form == "pack-quantized":
        yield from _in_groups(weights, seen)
    else:
        yield _cannot(f"compressed-tensors of the format {form}")
    left = next(
        (seen.ends[n][0] for n in ("input_scale", "input_zero_point", "k_scale", "v_scale") if n in seen.ends), None
    )
    if left is not None:
        yield Problem(
            "quant-unsupported",
            f"the weights come with scales of activations, for example {left.name}, which this converter does not know",
            way_on("compressed-tensors"),
        )


def _scaled(form: str, weights: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    strategy, group = weights.get("strategy"), weights.get("group_size")
    if strategy not in ("channel", "block"):
        yield _cannot(f"compressed-tensors of the format {form} with scales by {strategy}")
    elif group is not None:
        yield _cannot(f"compressed-tensors of the format {form} with groups of {group}")
    else:
        if "weight_zero_point" in seen.ends:
            yield _cannot(f"compressed-tensors of the format {form} with zero points")
        yield from _orphans(seen, "_scale", end="weight_scale")
        yield from _unscaled(seen, "_scale")
        block = weights.get("block_structure")
        yield from _first(
            _block(e, seen.tensors.get(e.name.removesuffix("_scale")), block) for e in seen.ends.get("weight_scale", ())
        )


def _in_groups(weights: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    strategy, kind = weights.get("strategy"), weights.get("type", "int")
    bits, group = weights.get("num_bits"), weights.get("group_size")
    if strategy != "group" or kind != "int":
        yield _cannot(f"compressed-tensors, packed, with {kind} weights and scales by {strategy}")
    elif type(bits) is not int or type(group) is not int or bits < 1 or group < 1:
        yield Problem("quant-config", f"quantization_config says num_bits {bits!r}, group_size {group!r}", _AGAIN)
    elif "weight_packed" not in seen.ends:
        yield from _nothing_packed("compressed-tensors, packed", seen)
    elif order := seen.ends.get("weight_g_idx"):
        words = f"compressed-tensors with groups in the order of activations (actorder), for example {order[0].name}"
        yield _cannot(words)
    else:
        yield from _partners(seen, "weight_packed", ("weight_scale", "weight_shape"))
        yield from _first(_group(e, bits, group, seen) for e in seen.ends["weight_packed"])


def _group(entry: Entry, bits: int, group: int, seen: Seen) -> Problem | None:
    """Whether packed columns and scales fit (`dequant_packed`)."""
    scale = seen.tensors.get(entry.name.removesuffix("_packed") + "_scale")
    if scale is None or len(scale.shape) != 2 or len(entry.shape) != 2:
        return None
    columns = scale.shape[1] * group
    if entry.dtype == "I32" and scale.shape[0] == entry.shape[0] and -(-columns // (32 // bits)) == entry.shape[1]:
        return None
    return Problem(
        "quant-groups",
        f"{entry.name} ({entry.dtype}, {shown(entry.shape)}) and its scales ({shown(scale.shape)}) do not fit {bits} "
        f"bits in groups of {group}",
        _AGAIN,
    )


def _modelopt(said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    algorithm = said.get("quant_algo")
    if left := seen.ends.get("pre_quant_scale"):
        words = f"modelopt with scales of activations before the weights ({algorithm}), for example {left[0].name}"
        yield _cannot(words)
        return
    if isinstance(algorithm, str) and ("AWQ" in algorithm or algorithm in ("INT8_SQ", "W8A8_SQ_PER_CHANNEL", "MXFP8")):
        yield _cannot(f"modelopt of the kind {algorithm}")
        return
    yield from _unscaled(seen, "_scale")


def _mxfp4(said: Mapping[str, Any], seen: Seen) -> Iterator[Problem]:
    yield _cannot(f"MXFP4 for {seen.config.architecture or 'this architecture'}")


_CHECKS: Mapping[str, Callable[[Mapping[str, Any], Seen], Iterator[Problem]]] = {
    "gptq": _gptq,
    "fp8": _fp8,
    "bitnet": _bitnet,
    "compressed-tensors": _compressed,
    "modelopt": _modelopt,
    "mxfp4": _mxfp4,
}


def _cannot(what: str) -> Problem:
    return Problem(
        "quant-unsupported", f"the weights are quantised: {what}; this converter cannot undo that", way_on(what)
    )


def _first(found: Iterator[Problem | None]) -> Iterator[Problem]:
    problem = next((p for p in found if p is not None), None)
    if problem is not None:
        yield problem


def _nothing_packed(what: str, seen: Seen) -> Iterator[Problem]:
    """A quantisation that config.json declares and no tensor shows: harmless, if the weights are plain numbers."""
    odd = next((e for e in seen.ends.get("weight", ()) if e.dtype in (*_F8, *_INT)), None)
    yield Problem(
        "quant-config",
        f"quantization_config says {what}, and no weight is stored so"
        + (f"; {odd.name} is {odd.dtype}" if odd else ", they are plain numbers"),
        _AGAIN if odd else "the weights are taken as they are",
        fatal=odd is not None,
    )


def _partners(seen: Seen, end: str, others: Sequence[str]) -> Iterator[Problem]:
    for entry in seen.ends[end]:
        base = entry.name.removesuffix(end)
        if gone := [n for n in others if base + n not in seen.tensors]:
            order = end == "qweight" and gone == ["g_idx"]
            yield Problem(
                "quant-incomplete",
                f"{entry.name} has no {', '.join(gone)} beside it",
                "the weights look like AWQ, which this converter cannot undo: take the unquantised model"
                if order
                else _AGAIN,
            )
            return


def _orphans(seen: Seen, ending: str, end: str = "") -> Iterator[Problem]:
    for last, entries in seen.ends.items():
        if last == end or (not end and last.endswith(ending)):
            for e in entries:
                if e.name.removesuffix(ending) not in seen.tensors:
                    yield Problem("quant-incomplete", f"{e.name} has no weight to scale", _AGAIN)
                    return


def _unscaled(seen: Seen, ending: str) -> Iterator[Problem]:
    """Weights of 8 bits without their scale."""
    bare = [
        e
        for end, entries in seen.ends.items()
        for e in entries
        if "_scale" not in end and e.dtype in (*_F8, "I8") and e.name + ending not in seen.tensors
    ]
    if bare:
        more = f"; {len(bare) - 1:,} more like it" if len(bare) > 1 else ""
        yield Problem(
            "fp8-without-scales",
            f"{bare[0].name} is {bare[0].dtype} and has no {bare[0].name.rpartition('.')[2]}{ending} beside it{more}",
            "its numbers mean nothing without the scale: download the folder again, or take the unquantised model",
        )
