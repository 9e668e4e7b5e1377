"""What the pages of docs/how-to need: a file or folder for each trouble, made of the real model or with the builder."""

from __future__ import annotations

import hashlib
import json
import os
import struct
from collections.abc import Callable
from math import prod
from pathlib import Path

from tests.build import GGUF, TENSOR, llama
from tests.building import hf

Make = Callable[[Path], None]

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
UNCLOSED = CHATML.replace("{{ m.content }}", "{{ m.content }")
STRICT = (
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TURNS = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "Are you there?"}]
POLICY = 'architectures = ["llama", "qwen2"]\nmax_size = "8GiB"\nlicenses = ["apache-2.0", "mit"]\n'
NORM = "blk.0.attn_norm.weight"


def text(content: str | bytes) -> Make:
    """A file with this content."""
    data = content if isinstance(content, bytes) else content.encode()
    return lambda path: _written(path, data)


def _written(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def entries(smollm2: Make, edited: Callable[..., Make], call: Callable[[list[str]], int]) -> dict[str, Make]:
    """The table; with what makes the real model, an edit of it, and runs gguftool."""

    def changed(change: Callable[[bytearray], None]) -> Make:
        """The tiny model with other bytes."""

        def make(path: Path) -> None:
            data = bytearray(llama().bytes())
            change(data)
            path.write_bytes(data)

        return make

    def shards(path: Path) -> None:
        """A small model in four shards, in a folder."""
        path.mkdir()
        whole = llama(layers=2).write(path.parent / "whole-of-the-set.gguf")
        call(["-q", "split", "--max-tensors", "5", "-o", str(path / "model"), str(whole)])
        whole.unlink()

    def one_missing(path: Path) -> None:
        shards(path)
        (path / "model-00002-of-00004.gguf").unlink()

    def renamed(path: Path) -> None:
        shards(path)
        for i, shard in enumerate(sorted(path.iterdir()), 1):
            shard.rename(path / f"model-{i}.gguf")

    def joined(path: Path) -> None:
        folder = path.parent / "set-to-be-joined"
        shards(folder)
        path.write_bytes(b"".join(shard.read_bytes() for shard in sorted(folder.iterdir())))
        for shard in folder.iterdir():
            shard.unlink()
        folder.rmdir()

    def pieces(path: Path) -> None:
        """Raw pieces as `split -b 100000 -d` makes them."""
        path.mkdir()
        data = llama().bytes()
        for i, start in enumerate(range(0, len(data), 100_000)):
            (path / f"model.gguf.part{i:02d}").write_bytes(data[start : start + 100_000])

    def sums(path: Path) -> None:
        """What sha256sum says of the tiny model as it was published."""
        path.write_text(f"{hashlib.sha256(llama().bytes()).hexdigest()}  model.gguf\n")

    def lm_studio(path: Path) -> None:
        path.mkdir()
        smollm2(path / "model.gguf")

    def flip(data: bytearray) -> None:
        data[-5000] ^= 0xFF

    def nan(data: bytearray) -> None:
        struct.pack_into("<f", data, _at(data, NORM), float("nan"))

    def zero(data: bytearray) -> None:
        data[:4096] = bytes(4096)

    def longer(data: bytearray) -> None:
        data += bytes(range(250)) * 4

    pre, eos = "tokenizer.ggml.pre", "tokenizer.ggml.eos_token_id"

    def release(path: Path) -> None:
        """A folder to be published: one file under a publisher's name."""
        path.mkdir()
        smollm2(path / "SmolLM2-135M-Instruct-Q4_1.gguf")

    return {
        "release-folder": release,
        "policy": text(POLICY),
        "small-f16": _f16,
        "lfs-pointer": text(
            "version https://git-lfs.github.com/spec/v1\n"
            f"oid sha256:{hashlib.sha256(b'model').hexdigest()}\nsize 4368439584\n"
        ),
        "web-page": text("<!DOCTYPE html>\n<html><head><title>owner/model · Hugging Face</title></head></html>\n"),
        "gated-answer": text(
            "Access to model owner/model is restricted. You must have access to it and be authenticated to access it."
            " Please log in."
        ),
        "zeros-in-front": changed(zero),
        "too-long": changed(longer),
        "a-byte-differs": changed(flip),
        "nan": changed(nan),
        "set": shards,
        "set-with-one-missing": one_missing,
        "set-renamed": renamed,
        "set-joined": joined,
        "raw-pieces": pieces,
        "sums-of-model": sums,
        "architecture-misspelt": edited("--set", "general.architecture=lama"),
        "image-model": _image,
        "pre-missing": edited("--delete", pre),
        "pre-unknown": edited("--set", f"{pre}=smolm"),
        "never-stops": edited("--set", f"{eos}=0", "--set", "tokenizer.ggml.tokens[2]=<|fin|>", "--set",
                              f"tokenizer.chat_template={CHATML.replace('<|im_end|>', '<|fin|>')}"),
        "rope-base-10000": edited("--set", "llama.rope.freq_base:f32=10000"),
        "one-layer-less": edited("--set", "llama.block_count=29"),
        "template-broken": edited("--set", f"tokenizer.chat_template={UNCLOSED}"),
        "template-strict": edited("--set", f"tokenizer.chat_template={STRICT}"),
        "template-file": text(CHATML),
        "two-user-turns": text(json.dumps(TURNS)),
        "yarn-half": edited("--set", "llama.rope.scaling.type=yarn", "--set", "llama.rope.scaling.factor:f32=4"),
        "a-token-too-many": _one_token_more,
        "long-context-7b": _llama_7b,
        "lm-studio-models": lm_studio,
        "folder-full": _folder,
        "folder-bitsandbytes": lambda path: _folder(path, bitsandbytes=True),
        "folder-gptq": lambda path: _folder(path, gptq=True),
    }  # fmt: skip


def _at(data: bytes, tensor: str) -> int:
    """Where the data of a tensor begins: by gguf-py, which is not the product."""
    import tempfile

    from gguf import GGUFReader

    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        file.write(data)
        file.flush()
        return next(int(t.data_offset) for t in GGUFReader(file.name).tensors if t.name == tensor)


def _image(path: Path) -> None:
    """The header of a picture model as ComfyUI-GGUF writes it: three keys."""
    g = GGUF("qwen_image").kv("general.quantization_version", 2).kv("general.file_type", 1)
    g.tensor("img_in.weight", (64, 64), "f16").tensor("transformer_blocks.0.attn.to_q.weight", (64, 64), "f16").write(
        path
    )


def _one_token_more(path: Path) -> None:
    """A vocabulary of 292 tokens before an embedding of 291 rows."""
    g = llama()
    vocabulary = next(e[1] for e in g._kv if isinstance(e, tuple) and e[0] == "tokenizer.ggml.tokens")
    assert isinstance(vocabulary, list)
    g.replace("tokenizer.ggml.tokens", [*vocabulary, "<|extra|>"])
    g.replace("tokenizer.ggml.scores", [-float(i) for i in range(len(vocabulary) + 1)])
    g.replace("tokenizer.ggml.token_type", [2, 3, 3] + [6] * 256 + [1] * (len(vocabulary) - 259) + [4], "[i32]")
    g.write(path)


def _llama_7b(path: Path) -> None:
    """The header of a 7B llama in Q8_0 with its sizes and 32,768 tokens, and nothing behind it but a hole."""
    d, ff, kv, layers, words = 4096, 14336, 1024, 32, 32_768
    vocabulary = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)]
    vocabulary += [f"▁t{i}" for i in range(words - len(vocabulary))]
    g = GGUF("llama").kv("general.name", "Long 7B").kv("general.file_type", 7)
    g.kv("llama.block_count", layers).kv("llama.context_length", 131_072).kv("llama.embedding_length", d)
    g.kv("llama.feed_forward_length", ff).kv("llama.attention.head_count", 32).kv("llama.attention.head_count_kv", 8)
    g.kv("llama.attention.layer_norm_rms_epsilon", 1e-5).kv("llama.rope.freq_base", 1_000_000.0)
    g.kv("llama.rope.dimension_count", 128).kv("tokenizer.ggml.model", "llama").kv("tokenizer.ggml.tokens", vocabulary)
    g.kv("tokenizer.ggml.scores", [-float(i) for i in range(words)])
    g.kv("tokenizer.ggml.token_type", [2, 3, 3] + [6] * 256 + [1] * (words - 259), "[i32]")
    g.kv("tokenizer.ggml.bos_token_id", 1).kv("tokenizer.ggml.eos_token_id", 2)
    shapes: dict[str, tuple[int, ...]] = {"token_embd.weight": (d, words), "output.weight": (d, words)}
    shapes["output_norm.weight"] = (d,)
    for i in range(layers):
        b = f"blk.{i}."
        shapes |= {b + "attn_norm.weight": (d,), b + "ffn_norm.weight": (d,), b + "attn_q.weight": (d, d)}
        shapes |= {b + "attn_k.weight": (d, kv), b + "attn_v.weight": (d, kv), b + "attn_output.weight": (d, d)}
        shapes |= {b + "ffn_gate.weight": (d, ff), b + "ffn_up.weight": (d, ff), b + "ffn_down.weight": (ff, d)}
    size, infos = 0, bytearray()
    for name, shape in shapes.items():
        code, _, block = TENSOR["q8_0" if len(shape) > 1 else "f32"]
        infos += g.string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, code, size)
        size += prod(shape) // 32 * block if len(shape) > 1 else prod(shape) * block
    front = g.counts(tensors=len(shapes)).header()
    head = front[: _end(g, front)] + bytes(infos)
    path.write_bytes(head + bytes(-len(head) % 32))
    os.truncate(path, len(head) + -len(head) % 32 + size)


def _end(g: GGUF, header: bytes) -> int:
    """Where the last field ends: before the padding."""
    last = g.record("tokenizer.ggml.eos_token_id", 2)
    return header.rindex(last) + len(last)


def _f16(path: Path) -> None:
    """A small llama in F16, as a converter leaves it, with rows that K-quants can take."""
    g = llama()
    for tensor in g._tensors:
        if len(tensor["shape"]) > 1:
            tensor["type"] = "f16"
    g.write(path)


def _folder(path: Path, *, bitsandbytes: bool = False, gptq: bool = False) -> None:
    """A tiny Qwen2 of Hugging Face; one matrix as bitsandbytes or GPTQ leave it."""
    hf.folder(path, "qwen2")
    if not (bitsandbytes or gptq):
        return
    name = "model.layers.0.mlp.down_proj."
    weights = {n: ("BF16", s, hf.bf16(s, i)) for i, (n, s) in enumerate(hf.shapes("qwen2").items())}
    rows, columns = weights.pop(name + "weight")[1]
    if bitsandbytes:
        weights[name + "weight"] = ("I8", (rows, columns), bytes(rows * columns))
        weights[name + "SCB"] = ("F32", (rows,), bytes(4 * rows))
    else:
        weights[name + "qweight"] = ("I32", (columns // 8, rows), bytes(columns // 2 * rows))
        weights[name + "qzeros"] = ("I32", (columns // 128, rows // 8), bytes(columns // 128 * rows // 2))
        weights[name + "scales"] = ("F16", (columns // 128, rows), bytes(columns // 128 * rows * 2))
    hf.safetensors(path / "model.safetensors", weights)
