"""Look at a Hugging Face folder before an hour is spent: can it be converted, and what will it take?

Nothing is loaded: config.json, file names and the headers of the safetensors files say enough. What the converter
takes and refuses follows `conversion/base.py` (b11434).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gguftool.build.safetensors import Entry, is_lfs_pointer, read_header
from gguftool.elsewhere import meant
from gguftool.errors import FormatError, GgufToolError, MissingFile, Unreadable
from gguftool.facts.programs import converter_elsewhere
from gguftool.model.hfconfig import HfConfig
from gguftool.near import near_names
from gguftool.reading import json_file

TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model")
TOKENIZERS_MORE = ("tokenizer_config.json", "sentencepiece.bpe.model", "tokenizer.jsonl", "merges.txt", "qwen.tiktoken")
QUANT_METHODS = frozenset({"bitnet", "fp8", "gptq", "compressed-tensors", "modelopt", "mxfp4"})
"""Quantised weights the converter takes (`conversion/base.py:dequant_model`, b11434)."""
_ALWAYS_QUANTISED = (".SCB", ".absmax", ".quant_map", ".nested_absmax", ".weight_format")
_PACKED = (".qweight", ".qzeros", ".g_idx", ".scales")
_BYTES = {"F64": 4, "F32": 4, "F16": 2, "BF16": 2}


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that speaks against converting; ``fatal`` when the converter would stop or the result be wrong."""

    kind: str
    message: str
    hint: str | None = None
    fatal: bool = True


@dataclass(frozen=True, slots=True)
class Folder:
    """What a Hugging Face folder holds.

    Attributes:
        path: the folder.
        architecture: the name the converter goes by (``Qwen2ForCausalLM``), "" when config.json says none.
        files: weight files the converter will read, by name.
        tensors: of all of them; empty for pytorch_model*.bin, whose content is not looked at.
        weight_bytes: bytes of all weight files.
        parameters: elements of all tensors, 0 when unknown.
        dtype: type most bytes have, "" when unknown.
        problems: what speaks against converting.
    """

    path: str
    architecture: str
    files: tuple[str, ...]
    tensors: tuple[Entry, ...]
    weight_bytes: int
    parameters: int
    dtype: str
    problems: tuple[Problem, ...]

    @property
    def fatal(self) -> tuple[Problem, ...]:
        """Problems that stop the conversion."""
        return tuple(p for p in self.problems if p.fatal)

    def output_size(self, outtype: str) -> int:
        """Bytes the converted file will have, about; matrices in ``outtype``, a little for the vocabulary."""
        if not self.parameters:
            return self.weight_bytes
        wide = outtype in ("f16", "bf16", "auto")
        per = {"f32": 4.0, "q8_0": 34 / 32, "tq1_0": 54 / 256, "tq2_0": 66 / 256}.get(outtype, 2.0 if wide else 4.0)
        return int(self.parameters * per) + (16 << 20)


def is_model_folder(path: str) -> bool:
    """Whether a folder looks like a Hugging Face model rather than one of GGUF files."""
    return os.path.isfile(os.path.join(path, "config.json")) or os.path.isfile(os.path.join(path, "params.json"))


def look(path: str, supported: Iterable[str] | None = None, methods: Iterable[str] = QUANT_METHODS) -> Folder:
    """Read what a folder holds and list everything that speaks against converting it.

    Args:
        path: the folder.
        supported: architecture names the converter knows; None when they are not known.
        methods: quantised weights it takes.

    Raises:
        MissingFile: no such folder.
        Unreadable: it cannot be listed.
    """
    try:
        names = sorted(os.listdir(path))
    except FileNotFoundError:
        raise MissingFile(f"{path}: no such folder", meant(path)) from None
    except NotADirectoryError:
        raise Unreadable(f"{path}: is a file", "name the folder with config.json in it") from None
    except OSError as error:
        raise Unreadable(f"{path}: {(error.strerror or str(error)).lower()}") from None
    problems: list[Problem] = []
    config = _config(path, names, problems)
    read = HfConfig(config or {})
    architecture = read.architecture
    if config is not None:
        problems += _about_architecture(architecture, supported)
    if not any(p.kind == "lora-only" for p in problems):
        problems += _about_tokenizer(path, names)
    index = _index(path, names, problems)
    files = sorted(set(index.values()) & set(names)) if index else _weight_files(names)
    tensors, total = _tensors(path, files, problems)
    if not any(p.kind == "lora-only" for p in problems):
        problems += _about_index(path, names, tensors, index) if index else _about_files(path, names, files)
    problems += _about_duplicates(path, files, tensors)
    problems += _about_quantisation(read.text, tensors, frozenset(methods))
    by_type: dict[str, int] = {}
    for entry in tensors:
        by_type[entry.dtype] = by_type.get(entry.dtype, 0) + entry.nbytes
    return Folder(
        path=path,
        architecture=architecture,
        files=tuple(files),
        tensors=tuple(tensors),
        weight_bytes=total,
        parameters=sum(entry.elements for entry in tensors),
        dtype=max(by_type, key=lambda k: by_type[k], default=""),
        problems=tuple(problems),
    )


def _config(path: str, names: list[str], problems: list[Problem]) -> dict[str, object] | None:
    if "config.json" not in names:
        if "adapter_config.json" in names:
            problems.append(
                Problem(
                    "lora-only",
                    f"{path}: holds a LoRA adapter, not a model",
                    "merge it into its base model first (peft: merge_and_unload), or convert it with llama.cpp's "
                    "convert_lora_to_gguf.py and load it with --lora",
                )
            )
        elif "params.json" in names:
            problems.append(
                Problem(
                    "mistral-format",
                    f"{path}: is in Mistral's own format (params.json)",
                    "take the Hugging Face version of the model, or say --converter-arg --mistral-format",
                    fatal=False,
                )
            )
        elif "model_index.json" in names:
            way = converter_elsewhere("UNet2DConditionModel")
            problems.append(Problem("diffusers", f"{path}: holds an image model of diffusers, no language model", way))
        else:
            problems.append(Problem("no-config", f"{path}: has no config.json", "is it a Hugging Face model folder?"))
        return None
    try:
        found = json_file(os.path.join(path, "config.json"))
        if isinstance(found, dict):
            return found
    except GgufToolError:
        if is_lfs_pointer(os.path.join(path, "config.json")):
            problems.append(Problem("lfs-pointer", f"{path}: config.json is a Git LFS pointer", "git lfs pull"))
            return None
    problems.append(Problem("bad-config", f"{path}: config.json is not a JSON object", "download it again"))
    return None


def _about_architecture(architecture: str, supported: Iterable[str] | None) -> Iterable[Problem]:
    if not architecture:
        yield Problem("no-architecture", "config.json names no architecture", 'it needs "architectures": [NAME]')
        return
    if supported is None:
        return
    known = set(supported)
    if architecture in known:
        return
    if elsewhere := converter_elsewhere(architecture):
        yield Problem("unknown-architecture", f"this converter does not know {architecture}", elsewhere)
        return
    near = near_names(architecture, known, 3, 0.7)
    names = f"names near to it: {', '.join(near)}; " if near else ""
    yield Problem(
        "unknown-architecture",
        f"this converter does not know {architecture}",
        f"{names}a newer llama.cpp may know it; writing another name into config.json gives a wrong model unless the "
        "two are the same in all but name",
    )


def _about_tokenizer(path: str, names: list[str]) -> Iterable[Problem]:
    if not any(n in names for n in (*TOKENIZERS, *TOKENIZERS_MORE[1:])):
        yield Problem(
            "no-tokenizer",
            f"{path}: has no tokenizer (none of {', '.join(TOKENIZERS[:4])})",
            "copy the tokenizer files of the base model into the folder",
        )
    for n in (*TOKENIZERS, "tokenizer_config.json"):
        if n in names and is_lfs_pointer(os.path.join(path, n)):
            yield Problem("lfs-pointer", f"{path}: {n} is a Git LFS pointer", "git lfs pull")


def _weight_files(names: list[str]) -> list[str]:
    """The files the converter reads: model*.safetensors, else pytorch_model*.bin."""
    files = [n for n in names if n.startswith("model") and n.endswith(".safetensors")]
    return files or [n for n in names if n.startswith("pytorch_model") and n.endswith(".bin")]


def _tensors(path: str, files: list[str], problems: list[Problem]) -> tuple[list[Entry], int]:
    tensors, total = [], 0
    for name in files:
        full = os.path.join(path, name)
        total += os.path.getsize(full) if os.path.isfile(full) else 0
        if name.endswith(".safetensors"):
            try:
                tensors += read_header(full)
            except GgufToolError as error:
                kind = error.kind if isinstance(error, FormatError) else "unreadable"
                problems.append(Problem(kind, str(error), error.hint))
        elif is_lfs_pointer(full):
            problems.append(Problem("lfs-pointer", f"{full}: is a Git LFS pointer", "git lfs pull"))
    return tensors, total


def _index(path: str, names: list[str], problems: list[Problem]) -> dict[str, str]:
    """Tensor name -> file out of the index; empty when there is none."""
    if "model.safetensors.index.json" not in names:
        return {}
    index = os.path.join(path, "model.safetensors.index.json")
    try:
        return {str(k): str(v) for k, v in json_file(index)["weight_map"].items()}
    except (GgufToolError, KeyError, TypeError, AttributeError):
        problems.append(Problem("bad-index", f"{index}: is not a readable index", "download it again"))
        return {}


def _about_index(path: str, names: list[str], tensors: list[Entry], index: dict[str, str]) -> Iterable[Problem]:
    missing = sorted(set(index.values()) - set(names))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield Problem("missing-weights", f"{path}: {missing[0]}{more} is missing; the index names it", "download it")
        return
    have = {e.name for e in tensors}
    absent = [n for n in index if n not in have]
    if tensors and absent:
        yield Problem(
            "missing-tensors",
            f"{path}: {len(absent)} tensors of the index are in none of the files, for example {absent[0]}",
            "index and weights belong to different versions; download both again",
        )
    extra = [n for n in have if n not in index]
    if extra:
        yield Problem(
            "unlisted-tensors",
            f"{path}: {len(extra)} tensors are not in the index, for example {extra[0]}",
            "index and weights belong to different versions; download both again",
        )


def _about_files(path: str, names: list[str], files: list[str]) -> Iterable[Problem]:
    if files:
        if files[0].endswith(".bin"):
            yield Problem(
                "pickle",
                f"{path}: the weights are pickle files, which may run code when they are loaded",
                "prefer safetensors",
                fatal=False,
            )
        return
    if "adapter_config.json" in names:
        yield Problem(
            "lora-only",
            f"{path}: holds a LoRA adapter, not a model",
            "merge it into its base model first (peft: merge_and_unload)",
        )
        return
    foreign = [n for n in names if n.endswith((".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf"))]
    yield Problem(
        "no-weights",
        f"{path}: has no weights the converter reads (model*.safetensors, pytorch_model*.bin)"
        + (f"; there is {', '.join(foreign[:3])}" if foreign else ""),
        "save the model with save_pretrained" if foreign else "download the weights",
    )


def _about_duplicates(path: str, files: list[str], tensors: list[Entry]) -> Iterable[Problem]:
    seen: dict[str, int] = {}
    for e in tensors:
        seen[e.name] = seen.get(e.name, 0) + 1
    twice = [n for n, count in seen.items() if count > 1]
    if twice:
        yield Problem(
            "duplicate-tensors",
            f"{path}: {len(twice)} tensors are in more than one of {', '.join(files[:4])}, for example {twice[0]}",
            "two sets of weights lie in this folder; move one of them away",
        )


def _about_quantisation(
    config: Mapping[str, object], tensors: list[Entry], methods: frozenset[str]
) -> Iterable[Problem]:
    quant = config.get("quantization_config")
    method = quant.get("quant_method") if isinstance(quant, dict) else None
    advice = "take the unquantised model; a merge made in 4 or 8 bits must be made again on the full-precision base"
    marked = [e.name for e in tensors if e.name.endswith(_ALWAYS_QUANTISED)]
    if marked or method == "bitsandbytes":
        what = f", for example {marked[0]}" if marked else " (quant_method bitsandbytes)"
        yield Problem("quantised-source", f"the weights are quantised by bitsandbytes{what}", advice)
    elif isinstance(method, str) and method not in methods:
        yield Problem("quantised-source", f"the weights are quantised by {method}; this converter cannot", advice)
    else:
        packed = [e.name for e in tensors if e.name.endswith(_PACKED)]
        if packed and method is None:
            yield Problem(
                "quantised-source",
                f"the weights are packed, for example {packed[0]}, and config.json does not say how",
                advice,
            )
