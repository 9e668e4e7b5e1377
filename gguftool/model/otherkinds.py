"""What a folder holds that is no Hugging Face model: another program's format, a trainer's output, a part of a model.

A row of the table is told by names of files and folders alone; the first that fits counts. Each says what is there and
the way on, with a command where one exists.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Sequence

from gguftool.brief import short_repr
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word, shell

CONFIG = "config.json"
_CHECKPOINT = regex(r"(?:checkpoint|step|epoch|global_step|iter)[-_]?0*(\d+)(?:-merged)?")
_LOOKED_INTO = 200


@dataclass(frozen=True, slots=True)
class Held:
    """What a folder holds.

    Attributes:
        kind: stable name in kebab-case.
        what: in words, to follow "holds".
        way: the way on.
        names: files and folders that say so, some of them.
    """

    kind: str
    what: str
    way: str
    names: tuple[str, ...] = ()

    __repr__ = short_repr


def held(folder: str) -> Held | None:
    """What lies there in place of a Hugging Face model; None when nothing of the table does."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return None
    below = _checkpoints(folder, names) or _inside(folder, names)
    for row in _ROWS:
        if found := row.found(names):
            if below is not None and row.kind in _PARTS_OF_A_RUN:
                return below
            return Held(row.kind, row.what.replace("{}", found[0]), row.way(folder, found), tuple(found[:4]))
    return below


def _checkpoints(folder: str, names: Sequence[str]) -> Held | None:
    """A trainer's output: the model lies in one of its folders."""
    numbered = {n: int(m[1]) for n in names if (m := _CHECKPOINT.fullmatch(n)) and _is_folder(folder, n)}
    whole = [n for n in numbered if _has(folder, n, CONFIG)]
    if whole:
        newest = max(whole, key=lambda n: numbered[n])
        more = f" and {len(numbered) - 1} more" if len(numbered) > 1 else ""
        way = f"the newest is {newest}: {gguftool('convert', path_word(os.path.join(folder, newest)))}"
        return Held("trainer", f"a trainer's output ({newest}{more})", way, tuple(sorted(whole)[:4]))
    adapters = [n for n in numbered if _has(folder, n, "adapter_config.json")]
    if adapters:
        newest = max(adapters, key=lambda n: numbered[n])
        what = f"a trainer's output with adapters alone ({newest})"
        return Held("trainer", what, merge(os.path.join(folder, newest)), (newest,))
    return None


def _inside(folder: str, names: Sequence[str]) -> Held | None:
    """One model in a folder below: of a cache, of sentence-transformers, of an archive."""
    if {"snapshots", "refs"} <= set(names):
        try:
            commits = sorted(os.listdir(os.path.join(folder, "snapshots")), key=lambda n: _age(folder, n))
        except OSError:
            commits = []
        at = os.path.join(folder, "snapshots", commits[-1]) if commits else ""
        way = gguftool("convert", path_word(at)) if at else "download it: hf download OWNER/REPO"
        return Held("hub-cache", "a repository of the Hub's cache", way, ("snapshots",))
    found = [n for n in names[:_LOOKED_INTO] if not n.startswith(".") and _has(folder, n, CONFIG)]
    models = [n for n in found if _weights(folder, n)] or found
    if not models:
        return None
    listed = ", ".join(models[:3]) + (" …" if len(models) > 3 else "")
    way = gguftool("convert", path_word(os.path.join(folder, models[0])))
    return Held("nested", f"the model in a folder below ({listed})", way, tuple(models[:4]))


def _age(folder: str, commit: str) -> float:
    try:
        return os.stat(os.path.join(folder, "snapshots", commit)).st_mtime
    except OSError:
        return 0.0


def _is_folder(folder: str, name: str) -> bool:
    return os.path.isdir(os.path.join(folder, name))


def _has(folder: str, name: str, file: str) -> bool:
    return os.path.isfile(os.path.join(folder, name, file))


def _weights(folder: str, name: str) -> bool:
    try:
        inside = os.listdir(os.path.join(folder, name))
    except OSError:
        return False
    return any(n.endswith((".safetensors", ".bin")) for n in inside)


def merge(adapter: str) -> str:
    """The way from a LoRA adapter to a model."""
    code = (
        "from peft import AutoPeftModelForCausalLM as M; "
        f"M.from_pretrained({adapter!r}).merge_and_unload().save_pretrained({adapter.rstrip('/') + '-merged'!r})"
    )
    return f"merge it into its base model, then convert that (with its tokenizer): {shell(('python', '-c', code))}"


@dataclass(frozen=True, slots=True)
class _Row:
    """Patterns of names, all groups of which must be there; in a group any."""

    kind: str
    groups: tuple[tuple[str, ...], ...]
    what: str
    way: Callable[[str, Sequence[str]], str]

    def found(self, names: Sequence[str]) -> list[str]:
        """The names that say so; [] when one group is missing."""
        hits = [[n for n in names if any(fnmatch.fnmatch(n.lower(), p) for p in group)] for group in self.groups]
        return [n for group in hits for n in group] if all(hits) else []


def _say(text: str) -> Callable[[str, Sequence[str]], str]:
    return lambda folder, names: text.replace("FOLDER", path_word(folder))


def _itself(program: str) -> Callable[[str, Sequence[str]], str]:
    return _say(f"{program} made it out of a model: fetch that one (its card names it), and gguftool convert it")


def _new(folder: str) -> str:
    return path_word(folder.rstrip("/") + "-hf")


def _gguf(folder: str, names: Sequence[str]) -> str:
    path = path_word(os.path.join(folder, names[0]))
    return f"it needs no converting: {gguftool('lint', path)}; smaller: {gguftool('quantize', path, 'Q4_K_M')}"


def _unpack(folder: str, names: Sequence[str]) -> str:
    path = path_word(os.path.join(folder, names[0]))
    tool = ("unzip",) if names[0].lower().endswith(".zip") else ("tar", "xf")
    return f"unpack it first: {shell((*tool, path))}"


_META = (
    "the Hugging Face version of the model is what the converter reads; or, with transformers 4: python -m "
    "transformers.models.llama.convert_llama_weights_to_hf --input_dir FOLDER --output_dir "
)
_MISTRAL = "gguftool convert FOLDER --converter-arg=--mistral-format"
_ROWS: tuple[_Row, ...] = (
    _Row("diffusers", (("model_index.json",),), "an image model of diffusers, no language model",
         _say("sd-cli of stable-diffusion.cpp converts it: sd-cli -M convert -m FILE -o FILE.gguf")),
    _Row("diffusers", (("pytorch_lora_weights.safetensors",),), "an adapter for an image model",
         _say("it is for diffusers or sd-cli, not for a language model")),
    _Row("lora-only", (("adapter_config.json",), ("adapter_model.*",)), "a LoRA adapter, not a model",
         lambda folder, names: merge(folder)),
    _Row("lora-only", (("adapter_config.json",),), "a LoRA adapter, not a model", lambda folder, names: merge(folder)),
    _Row("gguf", (("*.gguf",),), "a GGUF model already ({})", _gguf),
    _Row("mistral-format", (("params.json",), ("consolidated*.safetensors",)), "a model in Mistral's own format",
         _say(f"{_MISTRAL} (the converter's environment needs mistral-common); or its Hugging Face version")),
    _Row("meta-format", (("params.json", "checklist.chk"), ("consolidated.*.pth",)), "a model in Meta's own format",
         lambda folder, names: _META.replace("FOLDER", path_word(folder)) + _new(folder)),
    _Row("deepspeed", (("zero_to_fp32.py", "zero_pp_rank_*", "*_zero_pp_rank_*"),), "a checkpoint of DeepSpeed (ZeRO)",
         lambda folder, names: shell(("python", path_word(os.path.join(folder, "zero_to_fp32.py")), path_word(folder),
                                      _new(folder), "--safe_serialization"))
         + "; config.json and tokenizer beside it, then gguftool convert it"),
    _Row("fsdp", (("*.distcp",),), "a checkpoint of FSDP, in parts",
         lambda folder, names: shell(("accelerate", "merge-weights", path_word(folder), _new(folder)))
         + "; config.json and tokenizer beside it, then gguftool convert it"),
    _Row("nemo", (("*.nemo", "model_weights.ckpt", "model_config.yaml"),), "a model of NeMo ({})",
         _say("export it to Hugging Face's format with NeMo (llm.export_ckpt, target='hf'), then gguftool convert it")),
    _Row("megatron", (("latest_checkpointed_iteration.txt", "mp_rank_*", "iter_*"),), "a checkpoint of Megatron ({})",
         _say("export it to Hugging Face's format with Megatron-LM (tools/checkpoint/convert.py) or Megatron-Bridge")),
    _Row("mlc", (("mlc-chat-config.json", "ndarray-cache.json", "tensor-cache.json"),), "a model of MLC",
         _itself("MLC")),
    _Row("mlx", (("weights.npz", "weights.*.npz"),), "a model of MLX",
         _say("MLX made it out of a model: fetch that one; one that is not quantised mlx_lm.fuse and mlx_lm.convert "
              "write back")),
    _Row("ctranslate2", (("model.bin",), ("shared_vocabulary.*", "source_vocabulary.*", "vocabulary.*")),
         "a model of CTranslate2", _itself("CTranslate2")),
    _Row("onnx", (("*.onnx", "onnx", "*.onnx_data"),), "an ONNX model ({})", _itself("An exporter")),
    _Row("openvino", (("openvino_*.xml", "openvino_*.bin"),), "a model of OpenVINO ({})", _itself("OpenVINO")),
    _Row("tensorrt", (("*.engine", "*.plan"),), "engines of TensorRT ({})", _itself("TensorRT")),
    _Row("coreml", (("*.mlpackage", "*.mlmodelc", "*.mlmodel"),), "a Core ML model ({})", _itself("Core ML")),
    _Row("tflite", (("*.tflite", "*.task", "*.litertlm"),), "a model of LiteRT ({})", _itself("LiteRT")),
    _Row("executorch", (("*.pte",),), "a model of ExecuTorch ({})", _itself("ExecuTorch")),
    _Row("device", (("*.rkllm", "*.rknn", "*.mnn", "*.hef", "*.dlc", "*.qnn"),), "a model for one device ({})",
         _itself("A vendor's tool")),
    _Row("tensorflow", (("tf_model*.h5", "saved_model.pb", "*.ckpt.index", "*.keras"),), "a TensorFlow model ({})",
         lambda folder, names: "transformers 4 with TensorFlow writes it anew: AutoModelForCausalLM.from_pretrained("
         f"{folder!r}, from_tf=True).save_pretrained(…)"),
    _Row("flax", (("flax_model*", "*.msgpack"),), "a Flax model ({})",
         lambda folder, names: "transformers 4 with Flax writes it anew: AutoModelForCausalLM.from_pretrained("
         f"{folder!r}, from_flax=True).save_pretrained(…)"),
    _Row("orbax", (("_checkpoint_metadata", "_chkpt_metadata", "ocdbt.process_*", "manifest.ocdbt"),),
         "a checkpoint of JAX (Orbax)", _say("its own project has the exporter to Hugging Face's format")),
    _Row("llamafile", (("*.llamafile",),), "a llamafile ({})", _say("name it, and its model is told")),
    _Row("ggml", (("ggml-model*.bin", "ggml-*.bin"),), "a model in llama.cpp's format of before GGUF ({})",
         _say("fetch the model itself, and gguftool convert it")),
    _Row("exl", (("output*.safetensors", "output-*.safetensors"),), "weights of ExLlama ({})", _itself("ExLlama")),
    _Row("lightning", (("*.ckpt",),), "a checkpoint of a trainer ({})",
         _say("load it with the program that trained it, and save_pretrained the model in it")),
    _Row("safetensors", (("*.safetensors",),), "safetensors without their config.json",
         _say("fetch the whole folder, and gguftool convert it")),
    _Row("pytorch", (("*.pt", "*.pth", "*.bin"),), "weights of PyTorch without a config.json ({})",
         _say("load them with the program that made them, and save_pretrained the model: the converter wants its "
              "config.json")),
    _Row("archive", (("*.zip", "*.tar", "*.tar.*", "*.tgz"),), "an archive ({})", _unpack),
    _Row("data-set", (("*.parquet", "*.jsonl", "*.arrow", "dataset_info*.json"),), "a data set, no model", _say(
        "name the folder of the model")),
    _Row("tokenizer", (("tokenizer.json", "tokenizer.model", "vocab.json"),), "a tokenizer alone",
         _say("download config.json and the weights, too")),
)  # fmt: skip
"""In the order in which they are tried."""
_PARTS_OF_A_RUN = frozenset("deepspeed safetensors pytorch archive data-set tokenizer onnx openvino lightning".split())
"""Kinds that may lie beside the folder with the model itself."""
