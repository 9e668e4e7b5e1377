"""Twenty-eight small files, one healthy and twenty-seven hostile or odd, made from scratch."""

from __future__ import annotations

import struct

from tests.build import GGUF

DATA = b"\1" * (512 + 4096)
HASH = "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393"


def base(**changes: object) -> GGUF:
    """Eight keys of a llama; a value given here replaces that of the key whose last word it is."""
    values: dict[str, object] = {
        "general.architecture": "llama",
        "llama.block_count": 1,
        "llama.embedding_length": 32,
        "llama.context_length": 128,
        "llama.attention.head_count": 4,
        "llama.feed_forward_length": 64,
        "tokenizer.ggml.tokens": ["a", "b", "c", "d"],
        "tokenizer.ggml.eos_token_id": 2,
    }
    g = GGUF()
    for key, value in values.items():
        g.kv(key, changes.get(key.rpartition(".")[2], value))
    return g


def tensors(g: GGUF, second: str = "blk.0.attn_q.weight") -> GGUF:
    shape = (32, 4) if second == "token_embd.weight" else (32, 32)
    return g.tensor("token_embd.weight", (32, 4), data=DATA[:512]).tensor(second, shape, data=DATA[512:])


def whole() -> GGUF:
    return tensors(base())


def with_record(key: bytes, rest: bytes) -> bytes:
    return tensors(base().raw_kv(struct.pack("<Q", len(key)) + key + rest)).bytes()


def one_tensor(shape: tuple[int, ...], type: int) -> bytes:
    """The base file with a single record of any shape and type, and the usual data behind it."""
    return base().tensor("token_embd.weight", shape, type, data=b"").bytes() + DATA


def cut(data: bytes, n: int) -> bytes:
    return data[:n]


def files() -> dict[str, bytes]:
    """File name -> content."""
    inner = struct.pack("<IQ2I", 4, 2, 1, 2) + struct.pack("<IQ2I", 4, 2, 3, 4)
    big = GGUF("llama").kv("llama.block_count", 1).kv("tokenizer.ggml.tokens", ["a", "b"])
    twice = tensors(base(), "token_embd.weight")
    ansi = b"\x1b[2J\x1b[31mHACK\x1b]0;title\x07"
    return {
        "00_ok": whole().bytes(),
        "01_empty": b"",
        "02_lfs_pointer": f"version https://git-lfs.github.com/spec/v1\noid sha256:{HASH}\nsize 4683073504\n".encode(),
        "03_html": b"<!DOCTYPE html><html><head><title>Sign in</title></head><body>login</body></html>\n" * 3,
        "04_trunc_header": cut(whole().bytes(), 200),
        "05_trunc_data": cut(whole().bytes(), -2000),
        "06_big_endian": big.tensor("token_embd.weight", (32, 4), data=DATA[:512]).big_endian().bytes(),
        "07_dup_key": tensors(base().kv("llama.block_count", 2)).bytes(),
        "08_bool_2": with_record(b"tokenizer.ggml.add_bos_token", struct.pack("<IB", 7, 2)),
        "09_nested_array": with_record(b"x.nested", struct.pack("<IIQ", 9, 9, 2) + inner),
        "10_type99": one_tensor((32, 4), 99),
        "11_huge_kv_count": _patched(whole().bytes(), 16, struct.pack("<Q", 1 << 60)),
        "12_huge_strlen": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 62) + b"x" * 100,
        "13_huge_array": with_record(b"z", struct.pack("<IIQ", 9, 4, 1 << 61)),
        "14_overlap": whole().gap("blk.0.attn_q.weight", -256).bytes(),
        "15_misaligned": whole().gap("blk.0.attn_q.weight", 4).bytes(),
        "16_dup_tensor": twice.bytes(),
        "17_badutf8_key": tensors(base().kv("bad\udcff\udcfekey", "v")).bytes(),
        "18_badutf8_value": tensors(base().kv("general.name", b"caf\xe9 \xff")).bytes(),
        "19_gguf_v1": b"GGUF" + struct.pack("<III", 1, 0, 0),
        "20_gguf_v4": whole().version(4).bytes(),
        "21_eos_out_of_range": tensors(base(eos_token_id=99)).bytes(),
        "22_block_count_wrong": tensors(base(block_count=7)).bytes(),
        "23_ansi_in_name": tensors(base().kv("general.name", ansi)).bytes(),
        "24_align_33": tensors(base().kv("general.alignment", 33)).bytes(),
        "25_trailing": whole().trailing(bytes(100000)).bytes(),
        "26_elem_overflow": one_tensor((1 << 40, 1 << 40), 0),
        "27_header_only": cut(whole().bytes(), 512),
    }


def _patched(raw: bytes, at: int, data: bytes) -> bytes:
    return raw[:at] + data + raw[at + len(data) :]
