"""What kind of folder it is: each told before the converter runs, in words that name what is there and the way on."""

from __future__ import annotations

import json
import shlex
import zipfile
from pathlib import Path

import pytest

from gguftool.build.folder.look import look
from gguftool.errors import MissingFile, Unreadable
from gguftool.facts.converters import known, packaged
from gguftool.model.otherkinds import held
from tests.build import llama
from tests.building import hf

KINDS = [
    # names (a slash at the end: a folder), kind, what is named, the way on
    (("model_index.json", "unet/"), "diffusers", "image model of diffusers", "sd-cli"),
    (("adapter_config.json", "adapter_model.safetensors"), "lora-only", "LoRA adapter", "merge_and_unload"),
    (("pytorch_lora_weights.safetensors",), "diffusers", "adapter for an image model", "sd-cli"),
    (("a-Q4_K_M.gguf",), "gguf", "a-Q4_K_M.gguf", "gguftool quantize"),
    (("params.json", "consolidated.safetensors", "tekken.json"), "mistral-format", "Mistral's own format",
     "--converter-arg=--mistral-format"),
    (("params.json", "consolidated.00.pth", "tokenizer.model"), "meta-format", "Meta's own format",
     "convert_llama_weights_to_hf"),
    (("zero_to_fp32.py", "global_step500/", "latest"), "deepspeed", "DeepSpeed", "python "),
    (("__0_0.distcp", "__1_0.distcp", ".metadata"), "fsdp", "FSDP", "accelerate merge-weights"),
    (("model.nemo",), "nemo", "model.nemo", "export_ckpt"),
    (("latest_checkpointed_iteration.txt", "iter_0000500/"), "megatron", "Megatron", "Megatron"),
    (("mlc-chat-config.json", "params_shard_0.bin"), "mlc", "MLC", "fetch"),
    (("weights.npz", "tokenizer.model"), "mlx", "MLX", "fetch"),
    (("model.bin", "shared_vocabulary.txt"), "ctranslate2", "CTranslate2", "fetch"),
    (("model.onnx", "tokenizer.json"), "onnx", "ONNX", "fetch"),
    (("openvino_model.xml", "openvino_model.bin"), "openvino", "OpenVINO", "fetch"),
    (("rank0.engine",), "tensorrt", "TensorRT", "fetch"),
    (("model.mlpackage/",), "coreml", "Core ML", "fetch"),
    (("gemma.task",), "tflite", "LiteRT", "fetch"),
    (("llama.pte",), "executorch", "ExecuTorch", "fetch"),
    (("qwen.rkllm",), "device", "qwen.rkllm", "fetch"),
    (("tf_model.h5",), "tensorflow", "TensorFlow", "from_tf=True"),
    (("flax_model.msgpack",), "flax", "Flax", "from_flax=True"),
    (("_CHECKPOINT_METADATA", "d/"), "orbax", "JAX", "exporter"),
    (("ggml-model-q4_0.bin",), "ggml", "before GGUF", "fetch"),
    (("epoch=3.ckpt",), "lightning", "epoch=3.ckpt", "save_pretrained"),
    (("weights.safetensors",), "safetensors", "without their config.json", "gguftool convert"),
    (("weights.pt",), "pytorch", "weights.pt", "save_pretrained"),
    (("model.zip",), "archive", "model.zip", "unzip "),
    (("train.parquet",), "data-set", "data set", "folder of the model"),
    (("tokenizer.json", "tokenizer_config.json"), "tokenizer", "tokenizer alone", "weights"),
]  # fmt: skip


def made(folder: Path, names: tuple[str, ...]) -> Path:
    folder.mkdir(exist_ok=True)
    for name in names:
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).write_text("{}")
    return folder


@pytest.mark.parametrize(("names", "kind", "what", "way"), KINDS, ids=[f"{k[1]}-{k[0][0]}" for k in KINDS])
def test_a_folder_of_another_kind(names: tuple[str, ...], kind: str, what: str, way: str, tmp_path: Path) -> None:
    folder = made(tmp_path / "a folder", names)
    (problem,) = look(str(folder)).problems
    assert problem.fatal
    assert (problem.kind, what in problem.message) == (kind, True), problem.message
    assert way in str(problem.hint)


def test_dump_says_the_same(tmp_path: Path, cli) -> None:
    result = cli("dump", str(made(tmp_path / "m", ("consolidated.00.pth", "params.json"))))
    assert result.code == 2
    assert "Meta's own format" in result.err


def test_a_trainers_output(tmp_path: Path, cli) -> None:
    for number in (500, 1000, 90):
        hf.folder(tmp_path / "out run" / f"checkpoint-{number}", "llama")
    (tmp_path / "out run" / "trainer_state.json").write_text("{}")
    result = cli("convert", tmp_path / "out run", "--dry-run", "--format", "json")
    (problem,) = result.json["check"]["problems"]
    assert problem["kind"] == "trainer"
    newest = tmp_path / "out run" / "checkpoint-1000"
    assert f"gguftool convert '{newest}'" in problem["hint"]
    command = shlex.split(problem["hint"].partition(": ")[2])
    assert cli(*command[1:], "--dry-run").code in (0, 4)
    # with a config.json of its own, and no weights: the same words
    (tmp_path / "out run" / "config.json").write_text((newest / "config.json").read_text())
    kinds = {p.kind: p for p in look(str(tmp_path / "out run")).fatal}
    assert "checkpoint-1000" in str(kinds["no-weights"].hint)


def test_a_trainers_output_of_adapters(tmp_path: Path) -> None:
    made(tmp_path / "m", ())
    made(tmp_path / "m" / "checkpoint-7", ("adapter_config.json", "adapter_model.safetensors"))
    (problem,) = look(str(tmp_path / "m")).problems
    assert problem.kind == "trainer"
    assert "adapters alone" in problem.message
    assert "checkpoint-7" in str(problem.hint)


def test_a_model_in_a_folder_below(tmp_path: Path) -> None:
    hf.folder(tmp_path / "m" / "0_Transformer", "llama")
    made(tmp_path / "m", ("modules.json", "1_Pooling/"))
    (problem,) = look(str(tmp_path / "m")).problems
    assert problem.kind == "nested"
    assert f"gguftool convert {tmp_path}/m/0_Transformer" in str(problem.hint)


def test_a_repository_of_the_hubs_cache(tmp_path: Path) -> None:
    root = tmp_path / "models--acme--Tiny"
    hf.folder(root / "snapshots" / "abc", "llama")
    made(root, ("refs/", "blobs/"))
    (problem,) = look(str(root)).problems
    assert problem.kind == "hub-cache"
    assert f"{root}/snapshots/abc" in str(problem.hint)


def test_what_the_converter_takes_without_config_json(tmp_path: Path) -> None:
    """Folders that b11434 tells by a file of their own; the packaged converter has no such names."""
    folder = made(tmp_path / "m", ("adapter_config.json", "lev_release.json", "adapter_model.safetensors"))
    assert "lora-only" not in {p.kind for p in look(str(folder), known()).problems}
    assert [p.kind for p in look(str(folder), packaged()).problems] == ["lora-only"]


def test_mistrals_own_format(tmp_path: Path) -> None:
    folder = made(tmp_path / "m", ("params.json", "tekken.json"))
    hf.safetensors(folder / "consolidated.safetensors", {"layers.0.attention.wq.weight": ("BF16", (8, 8), bytes(128))})
    assert [p.kind for p in look(str(folder)).fatal] == ["mistral-format"]
    found = look(str(folder), known(), arguments=("--mistral-format",))
    assert (found.fatal, found.files) == ((), ("consolidated.safetensors",))
    # the packaged converter's environment lacks a package for it
    assert [p.kind for p in look(str(folder), arguments=("--mistral-format",)).fatal] == ["no-mistral-common"]
    (folder / "tekken.json").unlink()
    assert [p.kind for p in look(str(folder), known(), arguments=("--mistral-format",)).fatal] == ["no-tokenizer"]


def test_a_name_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(MissingFile) as error:
        look("Qwen/Qwen2-0.5B")
    assert error.value.hint == "a model on the Hub: gguftool convert hf://Qwen/Qwen2-0.5B"
    (tmp_path / "Qwen").mkdir()
    with pytest.raises(MissingFile) as error:
        look("Qwen/Qwen2-0.5B")
    assert error.value.hint is None


def test_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "llama")
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as z:
        z.write(folder / "config.json", "config.json")
    alone = hf.safetensors(tmp_path / "x.safetensors", {"a": ("BF16", (2,), bytes(4))})
    gguf = llama().write(tmp_path / "a.gguf")
    for path, what, way in (
        (folder / "model.safetensors", "is a file", f"gguftool convert {folder}"),
        (alone, "a safetensors file", "config.json and the tokenizer belong to it"),
        (tmp_path / "m.zip", "a zip archive", f"unzip {tmp_path}/m.zip"),
        (gguf, "is a GGUF model already", f"gguftool lint {gguf}"),
    ):
        with pytest.raises(Unreadable) as error:
            look(str(path))
        assert what in str(error.value)
        assert way in str(error.value.hint)


def test_the_model_itself_beside_other_formats_is_sound(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "llama")
    others = {n for names, *_ in KINDS for n in names if not (folder / n).exists() and not n.startswith("params")}
    made(folder, tuple(sorted(others - {"tekken.json", "tokenizer.json", "adapter_config.json"})))
    assert {p.kind for p in look(str(folder)).fatal} == set()
    assert held(str(tmp_path / "none")) is None


def test_no_architecture_names_the_likely_one(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "qwen2")
    config = json.loads((folder / "config.json").read_text())
    config.pop("architectures")
    (folder / "config.json").write_text(json.dumps(config))
    (problem,) = look(str(folder), known()).fatal
    assert (problem.kind, problem.hint) == ("no-architecture", 'it needs "architectures": ["Qwen2ForCausalLM"]')


def test_an_older_converter_takes_one_model_for_another(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "llama")
    config = json.loads((folder / "config.json").read_text())
    config |= {
        "architectures": ["KimiK3ForConditionalGeneration"],
        "text_config": {"architectures": ["LlamaForCausalLM"]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    (problem,) = [p for p in look(str(folder), packaged()).problems if p.kind == "older-converter"]
    assert "takes KimiK3ForConditionalGeneration for LlamaForCausalLM" in problem.message
    assert "older-converter" not in {p.kind for p in look(str(folder), known()).problems}


def test_a_reward_model(tmp_path: Path) -> None:
    folder = hf.folder(tmp_path / "m", "llama", architectures=["LlamaForSequenceClassification"])
    (problem,) = [p for p in look(str(folder), known()).fatal if p.kind == "unknown-architecture"]
    assert "a head for classes or rewards" in problem.message
    assert "BertForSequenceClassification" in str(problem.hint)


def test_models_that_are_none_by_themselves(tmp_path: Path) -> None:
    """conversion/qwen.py:DFlashModel.set_vocab and conversion/ultravox.py:UltravoxModel (b11434) stop at once."""
    draft = hf.folder(tmp_path / "d", "qwen3", architectures=["DFlashDraftModel"])
    (problem,) = [p for p in look(str(draft), known()).fatal if p.kind == "draft-model"]
    assert "--converter-arg=--target-model-dir" in str(problem.hint)
    more = ("--target-model-dir", "x")
    assert "draft-model" not in {p.kind for p in look(str(draft), known(), arguments=more).problems}
    voice = hf.folder(tmp_path / "v", "llama", architectures=["UltravoxModel"])
    assert "projector-only" in {p.kind for p in look(str(voice), known()).fatal}
    assert "projector-only" not in {p.kind for p in look(str(voice), known(), arguments=("--mmproj",)).problems}
