"""Files that are no GGUF: each is named for what it is, with the program that runs it or the way on.

The right answers come from the sources that `gguftool/format/oldggml.py` and `sniff.py` name; the archives are made by
Python's own `zipfile` and `tarfile`.
"""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from pathlib import Path

import pytest

from gguftool.errors import NotGguf
from gguftool.format.parse import parse, parse_bytes
from gguftool.source import LocalFile
from tests.build import llama


def _ints(magic: bytes, *numbers: int) -> bytes:
    return magic + struct.pack(f"<{len(numbers)}i", *numbers) + bytes(200)


def _zip(*names: str, front: bytes = b"", stored: bool = True, body: bytes = b"GGUFx" * 20) -> bytes:
    out = io.BytesIO()
    out.write(front)
    kind = zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(out, "a" if front else "w", kind) as z:
        for name in names:
            z.writestr(name, body)
    return out.getvalue()


def _safetensors(header: dict[str, object]) -> bytes:
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + bytes(64)


def _tar() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as t:
        info = tarfile.TarInfo("model.gguf")
        info.size = 4
        t.addfile(info, io.BytesIO(b"GGUF"))
    return out.getvalue()


KIND = {"x": {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]}}
# name -> (bytes, kind, words of what it is, words of what helps)
FILES: dict[str, tuple[bytes, str, str, str]] = {
    # whisper.cpp: n_vocab 51864 is English alone, 51866 large-v3; n_audio_ctx is always 1500
    "whisper tiny.en": (_ints(b"lmgg", 51864, 1500, 384, 6, 4), "whisper", "whisper.cpp", "whisper-cli"),
    "whisper large-v3": (_ints(b"lmgg", 51866, 1500, 1280, 20, 32), "whisper", "whisper.cpp", "whisper-cli"),
    "silero vad": (
        b"lmgg" + struct.pack("<i", 10) + b"silero-16k" + bytes(99),
        "whisper",
        "voice detection",
        "--vad-model",
    ),
    "parakeet": (_ints(b"lmgg", 8192, 5000, 1024, 8, 24, 128, 1, 512), "whisper", "Parakeet", "parakeet-cli"),
    "ggml llama": (_ints(b"lmgg", 32000, 4096, 256, 32, 32, 128, 2), "ggml", "old GGML file (LLaMA", "koboldcpp"),
    "ggml gpt-j": (_ints(b"lmgg", 50400, 2048, 4096, 16, 28, 64, 2), "ggml", "GPT-J", "koboldcpp"),
    "ggml gpt-2": (_ints(b"lmgg", 50257, 1024, 768, 12, 12, 1), "ggml", "GPT-2", "koboldcpp"),
    "ggml mpt": (_ints(b"lmgg", 4096, 2048, 32, 32, 50432, 0), "ggml", "MPT", "koboldcpp"),
    "ggmf llama": (_ints(b"fmgg", 1, 32000, 4096), "ggml", "GGMF file, version 1", "convert_llama_ggml_to_gguf.py"),
    "rwkv 100": (_ints(b"fmgg", 100, 50277, 1024), "rwkv", "rwkv.cpp", "rwkv.cpp"),
    "rwkv 101": (_ints(b"fmgg", 101, 50277, 1024), "rwkv", "version 101", "koboldcpp"),
    "ggjt 1": (_ints(b"tjgg", 1, 32000, 4096), "ggml", "GGJT file, version 1", "koboldcpp"),
    "ggjt 2": (_ints(b"tjgg", 2, 32000, 4096), "ggml", "GGJT file, version 2", "koboldcpp"),
    "ggjt 3": (_ints(b"tjgg", 3, 32000, 4096), "ggml", "GGJT file, version 3", "convert_llama_ggml_to_gguf.py"),
    "ggcc": (_ints(b"ccgg", 10, 65024), "ggml", "ggllm.cpp (Falcon", "GGUF of the same model"),
    "ggla": (_ints(b"algg", 1, 8, 16), "ggla", "GGLA LoRA adapter, version 1", "convert_lora_to_gguf.py"),
    "session": (_ints(b"nsgg", 9, 4), "state", "saved state of llama.cpp, version 9", "--prompt-cache"),
    "slot state": (_ints(b"qsgg", 2, 4), "state", "saved state", "llama-server"),
    "chatllm ggml": (_ints(b"ggml", 1, 2), "chatllm", "chatllm.cpp", "chatllm.cpp"),
    "chatllm ggmm": (_ints(b"ggmm", 1, 0), "chatllm", "chatllm.cpp", "chatllm.cpp"),
    "powerinfer": (_ints(b"PWRI", 3, 0, 0), "powerinfer", "PowerInfer", "PowerInfer"),
    "llama2.c": (_ints(b"24ka", 1, 288), "llama2.c", "llama2.c", "llama-convert-llama2c-to-ggml"),
    "llamafile": (
        _zip("tiny.gguf", ".args", front=b"MZqFpD" + bytes(500)),
        "llamafile",
        "a llamafile, a program with tiny.gguf",
        "unzip m tiny.gguf",
    ),
    "llamafile as elf": (
        _zip("a.gguf", "mmproj.gguf", front=b"\x7fELF" + bytes(500)),
        "llamafile",
        "a.gguf (100 bytes at byte",
        "unzip m a.gguf mmproj.gguf",
    ),
    "zip with a model": (
        _zip("sub/my model.gguf", stored=False),
        "zip",
        "with sub/my model.gguf (100 bytes, compressed) inside",
        "unzip m 'sub/my model.gguf'",
    ),
    "zip": (_zip("readme.txt"), "zip", "a zip archive", "unpack"),
    "pytorch zip": (_zip("archive/data.pkl", "archive/data/0"), "pytorch", "PyTorch checkpoint", "gguftool convert"),
    "npz": (_zip("a.npy", "b.npy"), "numpy", ".npz", "look for the model"),
    "keras": (_zip("config.json", "model.weights.h5"), "keras", "Keras", "safetensors"),
    "program": (b"MZ" + bytes(300), "program", "Windows program", ""),
    "elf": (b"\x7fELF" + bytes(300), "program", "ELF", ""),
    "script": (b"#!/bin/sh\necho hi\n", "script", "a script", ""),
    "old torch": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19." + bytes(99), "pickle", "old PyTorch", "gguftool convert"),
    "pickle 5": (b"\x80\x05\x95" + bytes(99), "pickle", "pickle", "gguftool convert"),
    "safetensors": (_safetensors(KIND), "safetensors", "a safetensors file", "gguftool convert"),
    "mlx": (_safetensors({"__metadata__": {"format": "mlx"}, **KIND}), "safetensors", "MLX", "quantised from"),
    "gptq": (_safetensors({"l.0.qweight": KIND["x"], "l.0.g_idx": KIND["x"]}), "safetensors", "GPTQ", "quantised from"),
    "awq": (_safetensors({"l.0.qweight": KIND["x"], "l.0.qzeros": KIND["x"]}), "safetensors", "AWQ", "quantised from"),
    "exl2": (_safetensors({"l.0.q_weight": KIND["x"], "l.0.q_invperm": KIND["x"]}), "safetensors", "EXL2", "quantised"),
    "exl3": (_safetensors({"l.0.trellis": KIND["x"]}), "safetensors", "EXL3", "quantised"),
    "bnb": (_safetensors({"l.0.weight.absmax": KIND["x"]}), "safetensors", "bitsandbytes", "quantised from"),
    "onnx": (b"\x08\x07\x12\x07pytorch\x1a\x052.1.0" + bytes(99), "onnx", "ONNX", "gguftool convert"),
    "tflite": (b"\x1c\0\0\0TFL3" + bytes(99), "tflite", "TensorFlow Lite", "fetch"),
    "tensorrt": (b"ftrt" + bytes(99), "tensorrt", "TensorRT", "fetch the model itself"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(99), "hdf5", "HDF5", "safetensors"),
    "npy": (b"\x93NUMPY\1\0" + bytes(99), "numpy", "NumPy", ""),
    "parquet": (b"PAR1" + bytes(99), "parquet", "Parquet", ""),
    "sentencepiece": (b"\x0a\x0e\x0a\x05<unk>\x15" + bytes(99), "sentencepiece", "SentencePiece", "folder"),
    "gzip": (b"\x1f\x8b\x08\0" + bytes(99), "gzip", "gzip", "gunzip"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(99), "zstd", "zstd", "zstd -d"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(99), "lz4", "lz4", "lz4 -d"),
    "rar": (b"Rar!\x1a\x07" + bytes(99), "rar", "RAR", "unpack"),
    "tar": (_tar(), "tar", "tar archive", "tar xf m"),
    "html": (b"<!DOCTYPE html><title>Log in</title>", "html", 'HTML page ("Log in")', "download it again"),
    "s3": (
        b'<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>',
        "html",
        "storage server (AccessDenied)",
        "download it again",
    ),
    "lfs": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"ab" * 32 + b"\nsize 9\n",
        "lfs-pointer",
        "Git LFS",
        "git lfs pull",
    ),
    "annex": (
        b"/annex/objects/SHA256E-s4683073504--abc.gguf\n",
        "annex-pointer",
        "4,683,073,504 bytes",
        "git annex get",
    ),
    "dvc": (b"outs:\n- md5: abc\n  size: 3\n  path: m.gguf\n", "dvc-pointer", "DVC", "dvc pull"),
    "torrent": (b"d8:announce35:http", "torrent", "a torrent", "torrent program"),
    "index": (b'{"metadata": {"total_size": 9}, "weight_map": {}}', "index", "several safetensors", "gguftool convert"),
    "config": (
        b'{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}',
        "config",
        "configuration",
        "gguftool convert",
    ),
    "manifest": (
        b'{"schemaVersion":2,"mediaType":"application/vnd.docker.distribution.manifest.v2+json"}',
        "manifest",
        "Ollama",
        "ollama://",
    ),
    "modelfile": (b"FROM llama3.2\nPARAMETER num_ctx 4096\n", "modelfile", "Modelfile", "FROM"),
    "adapter config": (
        b'{"base_model_name_or_path": "x", "r": 8}',
        "adapter",
        "LoRA adapter",
        "convert_lora_to_gguf.py",
    ),
    "json": (b'{"error":"busy"}', "json", '{"error":"busy"}', "download it again"),
    "text": (b"notes of Tuesday", "text", "notes of Tuesday", ""),
    "no repository": (b'{"error":"Repository not found"}', "json", "no such repository", "hf auth login"),
    "no file": (b"Entry not found", "text", "no file of that name", "gguftool plan hf://OWNER/REPO"),
    "gated": (
        b"Access to model meta-llama/Llama-3.1-8B is restricted. You must have access to it and be authenticated",
        "text",
        "those who were let in",
        "accept its licence on its page",
    ),
    "no branch": (b"404: Not Found", "text", "GitHub", "branch and path"),
}


@pytest.mark.parametrize("name", FILES, ids=[n.replace(" ", "-") for n in FILES])
def test_is_named_with_what_helps(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, kind, what, helps = FILES[name]
    monkeypatch.chdir(tmp_path)
    Path("m").write_bytes(data)
    with pytest.raises(NotGguf) as found:
        parse(LocalFile("m"), strict=False)
    assert found.value.kind == kind
    assert what in str(found.value)
    assert helps in (found.value.hint or "")


def test_a_llamafile_tells_where_its_model_begins(tmp_path: Path) -> None:
    model = llama().bytes()
    data = _zip("m.gguf", front=b"MZqFpD" + bytes(4000), body=model)
    with pytest.raises(NotGguf) as found:
        parse_bytes(data)
    [member] = found.value.facts["members"]  # type: ignore[misc]
    at = member["offset"]
    assert data[at : at + len(model)] == model
    assert member["size"] == len(model)
    assert f"at byte {at:,}" in str(found.value)


def test_offsets_that_count_from_the_zip_are_put_right() -> None:
    """`cat program archive.zip`, which zip readers allow: the offsets do not know of the program."""
    inner = _zip("m.gguf")
    with pytest.raises(NotGguf) as found:
        parse_bytes(b"MZ" + bytes(998) + inner)
    [member] = found.value.facts["members"]  # type: ignore[misc]
    assert member["offset"] == 1000 + inner.index(b"GGUFx")


def test_zip64_is_read() -> None:
    """Members above 4 GiB: lengths and places stand in the extra field (APPNOTE.TXT 4.5.3)."""
    name = b"big.gguf"
    extra = struct.pack("<HHQQQ", 1, 24, 5 << 30, 5 << 30, 0)
    entry = struct.pack(
        "<IHHHHHHIIIHHHHHII",
        0x02014B50,
        45,
        45,
        0,
        0,
        0,
        0,
        0,
        0xFFFFFFFF,
        0xFFFFFFFF,
        len(name),
        len(extra),
        0,
        0,
        0,
        0,
        0xFFFFFFFF,
    )
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, 0, 0, 0, len(name), 0) + name
    listed = entry + name + extra
    far = len(local) + len(listed)
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(listed), len(local))
    where = struct.pack("<IIQI", 0x07064B50, 0, far, 1)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    with pytest.raises(NotGguf) as found:
        parse_bytes(local + listed + end64 + where + end)
    assert found.value.facts["members"] == [{"name": "big.gguf", "size": 5 << 30, "offset": len(local)}]


@pytest.mark.parametrize("cut", [1, 10, 22, 60, 100])
def test_a_damaged_list_is_no_error_of_ours(cut: int) -> None:
    data = _zip("m.gguf", front=b"MZ" + bytes(98))
    for broken in (
        data[:-cut],
        data[:-22] + bytes(x ^ 255 for x in data[-22:-18]) + data[-18:],
        data[:-12] + b"\xff" * 12,
    ):
        with pytest.raises(NotGguf):
            parse_bytes(broken)


def test_names_out_of_an_archive_are_not_acted_on() -> None:
    with pytest.raises(NotGguf) as found:
        parse_bytes(_zip("\x1b[31m$(touch x).gguf"))
    assert "\x1b" not in str(found.value) + (found.value.hint or "")
