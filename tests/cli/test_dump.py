"""`gguftool dump` as people, scripts and broken files meet it. Expected values come from the builder's input."""

from __future__ import annotations

import itertools
import os
from pathlib import Path

import pytest

from tests.build import GGUF, llama


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return llama(layers=2).kv("general.size_label", "tiny").write(tmp_path / "m.gguf")


def test_overview_answers_the_first_questions(cli, model: Path) -> None:
    result = cli("dump", "--overview", str(model))
    assert result.code == 0
    text = result.out
    assert "tiny llama · llama" in text
    assert "context 2,048" in text
    assert "labelled F32 · measured 32.00 bits per weight: F32 100 %" in text
    assert "4 heads, 2 KV heads of 16" in text
    assert "base 10,000 · no scaling" in text
    assert "291 tokens (llama) · bos 1 <s> · eos 2 </s>" in text
    assert "complete: 20 tensors" in text


def test_json_contract(cli, model: Path) -> None:
    body = cli("dump", "--format", "json", str(model)).json
    summary = body["summary"]
    elements = 64 * 291 + 64 + 2 * (64 * 64 * 2 + 64 * 32 * 2 + 64 * 2 + 3 * 64 * 128)
    assert summary["architecture"] == "llama"
    assert summary["parameters"] == elements
    assert summary["bits_per_weight"] == 32
    assert summary["context_length"] == 2048
    assert summary["shards"] == 1
    assert summary["file_size"] == model.stat().st_size
    assert summary["complete"] is True
    keys = [e["key"] for e in body["metadata"]]
    assert keys[:2] == ["general.architecture", "general.name"]
    data = model.read_bytes()
    for e in body["metadata"]:
        at = e["offset"] + 8
        assert data[at : at + len(e["key"])] == e["key"].encode()
    tokens = next(e for e in body["metadata"] if e["key"] == "tokenizer.ggml.tokens")
    assert tokens["type"] == "arr[str]"
    assert tokens["count"] == 291
    assert tokens["head"][:3] == ["<unk>", "<s>", "</s>"]
    assert "value" not in tokens
    first = body["tensors"][0]
    assert first["name"] == "token_embd.weight"
    assert (first["type"], first["type_id"], first["shape"], first["bytes"]) == ("F32", 0, [64, 291], 64 * 291 * 4)
    assert first["offset"] % 32 == 0
    assert body["tensors"][-1]["offset"] + body["tensors"][-1]["bytes"] == len(data)


def test_full_json_has_whole_arrays(cli, model: Path) -> None:
    body = cli("dump", "--format", "json", "--full", "--keys", "*.tokens", str(model)).json
    assert len(body["metadata"][0]["value"]) == 291
    assert "tensors" not in body


def test_globs(cli, model: Path) -> None:
    out = cli("dump", "--keys", "*.rope.*", str(model)).out
    assert "llama.rope.freq_base" in out
    assert "general.name" not in out
    assert "token_embd" not in out
    out = cli("dump", "--tensors", "*.ffn_*", str(model)).out
    assert "blk.1.ffn_up.weight" in out
    assert "attn_q" not in out
    assert "general.name" not in out


def test_raw_value_alone(program, tmp_path: Path) -> None:
    template = "{% for m in messages %}{{ m.content }}\n{% endfor %}é"
    path = llama().kv("tokenizer.chat_template", template).kv("a.list", [1, 2, 3]).write(tmp_path / "m.gguf")
    assert program("dump", "--raw", "tokenizer.chat_template", str(path)).stdout == template.encode()
    assert program("dump", "--raw", "a.list", str(path)).out == "1\n2\n3\n"
    assert program("dump", "--raw", "context_length", str(path)).out == "2048\n"
    result = program("dump", "--raw", "tokenizer.chat_tmplate", str(path))
    assert result.code == 2
    assert "did you mean tokenizer.chat_template" in result.err


def test_tokens(cli, model: Path) -> None:
    out = cli("dump", "--tokens", "1:4", str(model)).out
    assert out.splitlines()[1].split() == ["1", '"<s>"', "control", "-1"]
    assert len(out.splitlines()) == 4
    body = cli("dump", "--tokens", "3", "--format", "json", str(model)).json
    assert body["tokens"] == [{"id": 3, "token": "<0x00>", "type": "byte", "score": -3.0}]
    assert cli("dump", "--tokens", "291:", str(model)).code == 2
    assert cli("dump", "--tokens", "x", str(model)).code == 2


def test_a_vocabulary_without_end_is_shown_in_parts(cli, tmp_path: Path) -> None:
    n = (1 << 19) + 3
    path = tmp_path / "m.gguf"
    GGUF("llama").kv("tokenizer.ggml.tokens", [""] * n, "[str]").write(path)
    done = cli("dump", "--tokens", "0:", str(path))
    assert done.out.splitlines()[-1].split() == ["524,287", '""']
    assert f"{n:,} tokens; shown are 0 to 524,287, the next ones by --tokens 524288:" in done.err
    done = cli("dump", "--tokens", "524288:", "--format", "json", str(path))
    assert [t["id"] for t in done.json["tokens"]] == [524288, 524289, 524290]
    assert not done.err


def test_layout_covers_every_byte(cli, tmp_path: Path) -> None:
    g = GGUF("llama").kv("gguftool.pad", " " * 50).tensor("a", (5,)).tensor("b", (32,)).gap("b", 64)
    path = g.trailing(b"x" * 70).write(tmp_path / "m.gguf")
    body = cli("dump", "--layout", "--format", "json", str(path)).json
    regions = body["layout"]
    assert regions[0]["start"] == 0
    kinds = [r["kind"] for r in regions]
    assert kinds == ["prelude", "field", "filler", "infos", "padding", "tensor", "padding", "gap", "tensor", "trailing"]
    for a, b in itertools.pairwise(regions):
        assert a["end"] == b["start"]
    assert "gap" in cli("dump", "--layout", str(path)).out


def test_markdown(cli, model: Path) -> None:
    out = cli("dump", "--format", "markdown", str(model)).out
    assert "| llama.context_length" in out
    assert "| token_embd.weight" in out


def test_broken_file_is_dumped_as_far_as_it_goes(cli, model: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(model.read_bytes()[:400])
    result = cli("dump", str(bad))
    assert result.code == 3
    assert "llama.context_length" in result.out
    assert "incomplete" in result.out
    assert "offset" in result.err
    body = cli("dump", "--format", "json", str(bad)).json
    assert body["ok"] is False
    assert body["metadata"][0]["value"] == "llama"
    assert body["errors"][0]["code"] == "not-readable"
    assert body["summary"]["complete"] is False


def test_missing_data_is_said(cli, model: Path) -> None:
    os.truncate(model, model.stat().st_size - 1000)
    result = cli("dump", "--overview", str(model))
    assert result.code == 0
    assert "incomplete: tensor data is incomplete from blk.1.ffn_up.weight on, 1,000 bytes are missing" in result.out


def test_unknown_tensor_type_is_a_value_not_a_fault(cli, tmp_path: Path) -> None:
    path = GGUF("llama").tensor("a", (32,), 99, bytes(10)).write(tmp_path / "m.gguf")
    body = cli("dump", "--format", "json", str(path)).json
    assert body["tensors"][0]["type"] == "type99"
    assert body["tensors"][0]["bytes"] is None


def test_escapes_do_not_reach_the_terminal(cli, tmp_path: Path) -> None:
    path = GGUF("llama").kv("general.name", "\x1b[2J\x1b]0;title\x07evil\u202e").write(tmp_path / "m.gguf")
    for args in (("dump",), ("dump", "--overview"), ("dump", "--format", "markdown"), ("dump", "--layout")):
        out = cli(*args, str(path)).out
        assert "\x1b" not in out
        assert "\x07" not in out
        assert "\u202e" not in out


def test_any_shard_gives_the_whole_model(cli, tmp_path: Path) -> None:
    first = llama().shard(0, 2, 12).drop_tensor("output_norm.weight")
    second = GGUF().shard(1, 2, 12).tensor("output_norm.weight", (64,))
    first.write(tmp_path / "m-00001-of-00002.gguf")
    other = second.write(tmp_path / "m-00002-of-00002.gguf")
    body = cli("dump", "--format", "json", str(other)).json
    assert body["summary"]["architecture"] == "llama"
    assert body["summary"]["shards"] == 2
    assert [t["name"] for t in body["tensors"]][-1] == "output_norm.weight"
    assert len(body["tensors"]) == 11
    (tmp_path / "m-00001-of-00002.gguf").rename(tmp_path / "renamed.gguf")
    body = cli("dump", "--format", "json", str(other)).json
    assert body["summary"]["architecture"] == "llama"
    (tmp_path / "renamed.gguf").unlink()
    result = cli("dump", "--overview", str(other))
    assert "shard 1 of 2 is missing" in result.out


def test_a_folder_with_one_model(cli, model: Path) -> None:
    assert cli("dump", "--overview", str(model.parent)).code == 0
    llama().write(model.parent / "n.gguf")
    result = cli("dump", str(model.parent))
    assert result.code == 2
    assert "m.gguf, n.gguf" in result.err


def test_what_cannot_be_read(cli, tmp_path: Path) -> None:
    lfs = tmp_path / "lfs.gguf"
    lfs.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 123456\n")
    result = cli("dump", str(lfs))
    assert result.code == 3
    assert "123,456 bytes" in result.err
    assert "git lfs pull" in result.err
    assert cli("dump", str(tmp_path / "none.gguf")).code == 2
    os.mkfifo(tmp_path / "fifo.gguf")
    assert cli("dump", str(tmp_path / "fifo.gguf")).code == 3


def test_the_real_model(cli, gemma3: Path) -> None:
    body = cli("dump", "--format", "json", str(gemma3)).json
    s = body["summary"]
    assert (s["architecture"], s["context_length"], s["vocabulary"]["size"]) == ("gemma3", 32768, 262144)
    assert s["file_type"] == "Q4_K_M"
    # 268 million weights; 71 % of the file is the Q8_0 embedding (facts of the package that carries the model).
    assert 268e6 < s["parameters"] < 269e6
    assert s["types"][0]["type"] == "Q8_0"
    assert len(body["tensors"]) == 236


def test_a_pattern_that_matches_nothing_is_said(cli, model: Path) -> None:
    result = cli("dump", "--keys", "genral.*", str(model))
    assert result.code == 0
    assert "no key matches genral.*" in result.err
    both = cli("dump", "--keys", "general.name", "--tensors", "blk.9.*", "--format", "json", str(model))
    assert [f["key"] for f in both.json["metadata"]] == ["general.name"]
    assert both.json["tensors"] == []
    assert "no tensor matches blk.9.*" in both.err
    assert "no key" not in both.err
