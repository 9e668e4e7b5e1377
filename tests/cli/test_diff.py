"""`gguftool diff`: expected differences are the ones the builder made."""

from __future__ import annotations

import struct
from pathlib import Path
from xml.etree import ElementTree

from tests.build import llama


def test_same_files(cli, tmp_path: Path) -> None:
    a = llama().write(tmp_path / "a.gguf")
    b = llama().write(tmp_path / "b.gguf")
    assert cli("diff", str(a), str(b)).code == 0
    body = cli("diff", "--data", "--format", "json", str(a), str(b)).json
    assert body["same"] is True
    assert body["data"] == {"compared": 11, "differ": [], "kinds": [], "layers": []}


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


def test_errors_by_tensor_kind_and_layer(cli, tmp_path: Path) -> None:
    """‖W-Ŵ‖²/‖W‖² of ones, some of which are others: by hand."""
    ones = [1.0] * (64 * 64)
    g = llama(layers=2)
    for i in range(2):
        for name in ("attn_q", "attn_output"):
            g.retensor(f"blk.{i}.{name}.weight", data=struct.pack("<4096f", *ones))
    a = g.write(tmp_path / "a.gguf")
    g.retensor("blk.0.attn_q.weight", data=struct.pack("<4096f", *([1.5] * 64 + ones[64:])))
    g.retensor("blk.1.attn_q.weight", data=struct.pack("<4096f", *([0.0] * 128 + ones[128:])))
    g.retensor("blk.1.attn_output.weight", data=struct.pack("<4096f", *([0.5] * 256 + ones[256:])))
    b = g.write(tmp_path / "b.gguf")
    picture = tmp_path / "errors.svg"
    result = cli("diff", "--plot", str(picture), "--format", "json", str(a), str(b))
    assert result.code == 1
    data = result.json["data"]
    assert {c["name"]: c["relative"] for c in data["differ"]} == {
        "blk.0.attn_q.weight": 0.25 * 64 / 4096,
        "blk.1.attn_q.weight": 128 / 4096,
        "blk.1.attn_output.weight": 0.25 * 256 / 4096,
    }
    kinds = {k["name"]: (k["tensors"], k["relative"], k["worst"]) for k in data["kinds"]}
    assert kinds["attn_q.weight"] == (2, (16 + 128) / 8192, "blk.1.attn_q.weight")
    assert list(kinds) == ["attn_q.weight", "attn_output.weight"], "the worst first"
    layers = {k["name"]: k["relative"] for k in data["layers"]}
    assert layers == {"blk.0": 16 / 4096, "blk.1": (128 + 64) / 8192}
    drawn = ElementTree.parse(picture).getroot()
    assert len(drawn.findall("{http://www.w3.org/2000/svg}circle")) == 3
    text = cli("diff", "--data", str(a), str(b)).out
    assert "attn_q.weight" in text
    assert "0.0176" in text, "of both together"


def test_a_picture_is_an_svg_and_replaces_nothing(cli, tmp_path: Path) -> None:
    a = llama().write(tmp_path / "a.gguf")
    assert cli("diff", "--plot", "x.png", str(a), str(a)).code == 2
    (tmp_path / "mine.svg").write_text("not a picture of yours")
    assert cli("diff", "--plot", str(tmp_path / "mine.svg"), str(a), str(a)).code == 4


def test_a_tensor_quantised_twice_is_told(cli, tmp_path: Path) -> None:
    """Q4_0 and then Q8_0: the error of Q4_0 in a tensor that should have that of Q8_0."""
    import numpy as np
    from gguf import GGMLQuantizationType, dequantize, quantize

    x = np.random.default_rng(1).normal(0, 0.1, (64, 64)).astype("<f4")
    coarse = dequantize(quantize(x, GGMLQuantizationType.Q4_0), GGMLQuantizationType.Q4_0)
    a = llama().retensor("blk.0.attn_q.weight", data=x.tobytes()).write(tmp_path / "a.gguf")
    for name, floats, times in (("once", x, 1.0), ("twice", coarse, 200.0)):
        data = quantize(floats, GGMLQuantizationType.Q8_0).tobytes()
        b = llama().retensor("blk.0.attn_q.weight", type="q8_0", data=data).write(tmp_path / f"{name}.gguf")
        (change,) = cli("diff", "--data", "--format", "json", str(a), str(b)).json["data"]["differ"]
        assert change["suspicious"] is (name == "twice")
        assert change["times"] == 1.0 if name == "once" else change["times"] > times
        assert ("suspicious: 1 tensor much worse than its type" in cli("diff", "--data", str(a), str(b)).out) is (
            name == "twice"
        )
