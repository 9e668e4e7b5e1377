"""`gguftool diff`: expected differences are the ones the builder made."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.build import llama


def test_same_files(cli, tmp_path: Path) -> None:
    a = llama().write(tmp_path / "a.gguf")
    b = llama().write(tmp_path / "b.gguf")
    assert cli("diff", str(a), str(b)).code == 0
    body = cli("diff", "--data", "--format", "json", str(a), str(b)).json
    assert body["same"] is True
    assert body["data"] == {"compared": 11, "differ": []}


def test_keys_and_tensors(cli, tmp_path: Path) -> None:
    a = llama().write(tmp_path / "a.gguf")
    g = llama().replace("llama.context_length", 4096).drop("general.name").kv("new.key", "x")
    g.retensor("output_norm.weight", type="f16").drop_tensor("blk.0.ffn_up.weight")
    g.replace("tokenizer.ggml.bos_token_id", 1, "i32")
    b = g.write(tmp_path / "b.gguf")
    result = cli("diff", "--format", "json", str(a), str(b))
    assert result.code == 1
    keys = {c["key"]: c for c in result.json["keys"]}
    assert keys["llama.context_length"]["old"]["value"] == 2048
    assert keys["llama.context_length"]["new"]["value"] == 4096
    assert keys["general.name"]["new"] is None
    assert keys["new.key"]["old"] is None
    assert keys["tokenizer.ggml.bos_token_id"]["new"]["type"] == "i32"
    assert {c["name"] for c in result.json["tensors"]} == {"output_norm.weight", "blk.0.ffn_up.weight"}
    text = cli("diff", str(a), str(b)).out
    assert "4 keys and 2 tensors differ." in text
    assert "missing" in text


def test_one_key_is_not_one_keys(cli, tmp_path: Path) -> None:
    a = llama().write(tmp_path / "a.gguf")
    b = llama().replace("general.name", "other").write(tmp_path / "b.gguf")
    assert "1 key and 0 tensors differ." in cli("diff", str(a), str(b)).out


def test_first_differing_token_is_named(cli, tmp_path: Path) -> None:
    a = llama().write(tmp_path / "a.gguf")
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"▁t{i}" for i in range(32)]
    tokens[270] = "other"
    b = llama().replace("tokenizer.ggml.tokens", tokens).write(tmp_path / "b.gguf")
    out = cli("diff", str(a), str(b)).out
    assert "first difference at element 270" in out
    assert "other" in out


def test_template_lines(cli, tmp_path: Path) -> None:
    a = llama().kv("tokenizer.chat_template", "one\ntwo\nthree").write(tmp_path / "a.gguf")
    b = llama().kv("tokenizer.chat_template", "one\n2\nthree").write(tmp_path / "b.gguf")
    out = cli("diff", str(a), str(b)).out
    assert "  -two" in out
    assert "  +2" in out


def test_distance_of_data(cli, tmp_path: Path) -> None:
    one = struct.pack("<64f", *([1.0] * 64))
    two = struct.pack("<64f", *([1.0] * 63 + [3.0]))
    a = llama().retensor("output_norm.weight", data=one).write(tmp_path / "a.gguf")
    b = llama().retensor("output_norm.weight", data=two).write(tmp_path / "b.gguf")
    result = cli("diff", "--data", "--format", "json", str(a), str(b))
    assert result.code == 1
    (change,) = result.json["data"]["differ"]
    assert change["name"] == "output_norm.weight"
    assert change["mean"] == 2 / 64
    assert change["max"] == 2.0
    assert abs(change["cosine"] - 66 / (64 * 72) ** 0.5) < 1e-12


def test_another_type_is_compared_by_its_weights(cli, tmp_path: Path) -> None:
    floats = [i / 64 for i in range(64)]
    a = llama().retensor("output_norm.weight", data=struct.pack("<64f", *floats)).write(tmp_path / "a.gguf")
    half = struct.pack("<64e", *floats)
    b = llama().retensor("output_norm.weight", type="f16", data=half).write(tmp_path / "b.gguf")
    (change,) = cli("diff", "--data", "--format", "json", str(a), str(b)).json["data"]["differ"]
    assert change["max"] == 0  # sixty-fourths are exact in half precision
    assert abs(change["cosine"] - 1) < 1e-12
