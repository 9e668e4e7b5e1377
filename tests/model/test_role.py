"""What a file is: one judgement, by content, that every command says in the same words."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gguftool.facts.programs import architectures
from gguftool.format.sniff import identify
from gguftool.model import open_model
from gguftool.model.role import ROLES, role, sidecar_by_name, way_on, what_it_is
from tests.build import GGUF, llama


def _encoder(arch: str = "bert") -> GGUF:
    return (
        GGUF(arch).kv(f"{arch}.block_count", 1).kv(f"{arch}.embedding_length", 32).tensor("token_embd.weight", (32, 8))
    )


def _mtp(*, trunk: bool) -> GGUF:
    g = GGUF("qwen35").kv("qwen35.block_count", 3).kv("qwen35.nextn_predict_layers", 1).tensor("token_embd.weight")
    if trunk:
        g.tensor("blk.0.attn_norm.weight", (32,))
    return g.tensor("blk.2.nextn.eh_proj.weight").tensor("blk.2.attn_norm.weight", (32,))


FILES: dict[str, tuple[str, GGUF]] = {
    "model": ("model", llama()),
    "model with split keys of its own name": ("model", llama().kv("general.type", "model")),
    "lora by general.type": ("adapter", GGUF("llama").kv("general.type", "adapter").tensor("x.lora_a")),
    "lora by adapter.type alone": ("adapter", llama().kv("adapter.type", "lora").tensor("x.lora_a").tensor("x.lora_b")),
    "lora by tensors alone": ("adapter", GGUF("llama").tensor("x.lora_a").tensor("x.lora_b")),
    "projector by architecture": ("mmproj", GGUF("clip").tensor("v.blk.0.ln1.weight")),
    "projector by general.type": ("mmproj", GGUF("clip").kv("general.type", "mmproj").tensor("mm.0.weight")),
    "projector without architecture": ("mmproj", GGUF().kv("clip.has_vision_encoder", True).tensor("v.x")),
    "lora with norms beside the pairs": (
        "adapter",
        GGUF("llama").tensor("blk.0.attn_norm.weight", (32,)).tensor("x.lora_a").tensor("x.lora_b"),
    ),
    "control vector": ("control-vector", GGUF("controlvector").tensor("direction.1", (32,))),
    "control vector by tensors": ("control-vector", GGUF().tensor("direction.1", (32,)).tensor("direction.2", (32,))),
    "imatrix": ("imatrix", GGUF().kv("general.type", "imatrix").tensor("blk.0.attn_q.weight.in_sum2")),
    "imatrix by tensors": ("imatrix", GGUF().tensor("b.in_sum2").tensor("b.counts", (1,))),
    "imatrix with means": ("imatrix", GGUF().tensor("b.in_sum").tensor("b.in_sum2").tensor("b.counts", (1,))),
    "eagle3": ("draft", GGUF("eagle3").kv("eagle3.block_count", 1).tensor("fc.weight")),
    "dflash": ("draft", GGUF("dflash").kv("dflash.block_count", 1).tensor("fc.weight")),
    "gemma4-assistant": ("draft", GGUF("gemma4-assistant").tensor("token_embd.weight")),
    "the predicting head alone": ("draft", _mtp(trunk=False)),
    "a model with its predicting head": ("model", _mtp(trunk=True)),
    "vocabulary": ("vocab", GGUF("llama").kv("tokenizer.ggml.model", "llama")),
    "metadata": ("metadata", GGUF("llama").kv("llama.context_length", 64)),
    "nothing": ("nothing", GGUF()),
    "bert": ("encoder", _encoder()),
    "gemma-embedding": ("encoder", _encoder("gemma-embedding")),
    "decoder with pooling": ("encoder", llama().kv("llama.pooling_type", 3)),
    "chat model that says no pooling": ("model", llama().kv("llama.pooling_type", 0)),
    "vocoder": ("vocoder", GGUF("wavtokenizer-dec").tensor("token_embd.weight")),
    "diffusion language model": ("model", GGUF("llada").tensor("blk.0.attn_q.weight")),
    "flux": ("image", GGUF("flux").tensor("double_blocks.0.img_attn.qkv.weight")),
    "kontext": ("image", GGUF("kontext").tensor("w")),
    "omnigen2": ("image", GGUF("omnigen2").tensor("w")),
    "clip_l": ("image", GGUF("clip_l").tensor("w")),
    "image without architecture": ("image", GGUF().tensor("model.diffusion_model.input_blocks.0.0.weight")),
    "image of a newer kind": ("image", GGUF("brushnet9").tensor("transformer_blocks.0.attn.to_q.weight")),
    "text encoder without architecture": ("image", GGUF().tensor("text_model.encoder.layers.0.mlp.fc1.weight")),
    "vae without architecture": ("image", GGUF().tensor("decoder.conv_in.weight").tensor("encoder.conv_in.weight")),
    "video without architecture": ("image", GGUF().tensor("patch_embedding.weight").tensor("blocks.0.ffn.0.weight")),
    "whisper": ("audio", GGUF("whisper").tensor("encoder.conv1.weight")),
    "kokoro": ("audio", GGUF("kokoro").tensor("w")),
    "outetts": ("audio", GGUF("outetts").tensor("w")),
    "whisper without architecture": ("audio", GGUF().tensor("encoder.blocks.0.attn.query.weight")),
    "mllama": ("foreign", GGUF("mllama").tensor("w")),
    "training data": ("foreign", GGUF().kv("training.x", 1).tensor("training.tensor.0", (32,), "i32")),
    "a language model without architecture": ("model", GGUF().tensor("token_embd.weight").tensor("w")),
    "bitnet i2_s": ("foreign", GGUF("bitnet-b1.58").tensor("blk.0.attn_q.weight", (32, 4), 36, b"\0" * 64)),
    "bitnet i2_s under the name llama.cpp knows": ("foreign", GGUF("bitnet").tensor("w", (32, 4), 36, b"\0" * 64)),
    "bitnet i2_s in a llama": ("foreign", llama().tensor("w", (32, 4), 36, b"\0" * 64)),
    "llama with the removed type 36": ("old", llama().tensor("w", (32, 4), 36, b"\0" * 72)),
    "split experts": ("old", llama().tensor("blk.0.ffn_gate.0.weight").tensor("blk.0.ffn_gate.1.weight")),
    "an unknown language model": ("model", GGUF("llama9").kv("llama9.block_count", 1).tensor("blk.0.attn_q.weight")),
}  # fmt: skip


@pytest.fixture(params=FILES, ids=[name.replace(" ", "-") for name in FILES])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    wanted, g = FILES[request.param]
    return wanted, g.write(tmp_path / "f.gguf")


def test_by_content(case: tuple[str, Path]) -> None:
    with open_model(case[1], strict=False) as m:
        assert role(m) == case[0]


def test_every_command_says_the_same(cli, case: tuple[str, Path]) -> None:
    wanted, path = case
    with open_model(path, strict=False) as m:
        words, way = what_it_is(m), way_on(m)
    known = ROLES[wanted]
    name = str(path)
    assert cli("dump", "--format", "json", name).json["summary"]["role"] == wanted
    screen = cli("dump", "--overview", name).out
    assert words in screen.splitlines()[0]
    assert way in screen
    [row] = cli("scan", "--format", "json", name).json["models"]
    assert row["facts"]["role"] == wanted
    findings = {f["rule"]: f for f in cli("lint", "--format", "json", name).json["files"][0]["findings"]}
    assert ("not-a-model" in findings) == (not known.runs)
    assert known.runs or known.what in findings["not-a-model"]["message"]
    notes = cli("verify", "--format", "json", name).json["files"][0]["notes"]
    said = [n["message"] for n in notes if n["kind"] == "role"]
    assert said == ([] if known.runs else [f"the file is {words}"])
    commands = [["plan", name], ["launch", "--print", "--force", "--ctx", "32", name]]
    for command in [*commands, *([] if known.runs else [["kv-test", name]])]:
        result = cli(*command)
        assert "(," not in result.err
        assert (f"is {words}, not a model to be launched" in result.err) == (not known.runs)
        if not known.runs:
            assert result.code == 2
            assert way in result.err


def test_every_role_has_a_case_and_a_way_on() -> None:
    assert {wanted for wanted, _ in FILES.values()} == set(ROLES)
    assert all(known.hint for name, known in ROLES.items() if name != "model")
    assert {kind for kind, _ in architectures().values()} <= set(ROLES)


def test_no_name_of_another_program_is_one_of_llama_cpp() -> None:
    from gguftool.facts.arch import names

    assert not set(architectures()) & set(names())


def test_a_projector_is_known_by_content_where_one_is_asked_for(cli, tmp_path: Path) -> None:
    model = llama().write(tmp_path / "m.gguf")
    wrong = GGUF("llama").kv("adapter.type", "lora").tensor("x.lora_a").write(tmp_path / "mmproj.gguf")
    result = cli("launch", "--print", "--ctx", "32", "--mmproj", str(wrong), str(model))
    assert result.code == 1
    assert "is no multimodal projector: it is a LoRA adapter" in result.err + result.out


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        # llama.cpp b11434, common/download.cpp: find(), not starts with
        ("mmproj-model-f16.gguf", "mmproj"),
        ("llava-v1-mmproj-f16.gguf", "mmproj"),
        ("MMPROJ.gguf", "mmproj"),
        ("model.imatrix.gguf", "imatrix"),
        ("mtp-GLM-4.5.gguf", "draft"),
        ("Qwen3-eagle3-q8.gguf", "draft"),
        ("llava-v1.gguf", ""),
        ("/mmproj/llava.gguf", ""),
    ],
)
def test_what_a_name_says(name: str, wanted: str) -> None:
    assert sidecar_by_name(name) == wanted


def test_bitnet_is_named_for_what_it_is(cli, tmp_path: Path) -> None:
    path = FILES["bitnet i2_s"][1].write(tmp_path / "b.gguf")
    out = cli("lint", str(path)).out
    assert "I2_S of bitnet.cpp (microsoft/BitNet)" in out
    assert "which llama.cpp removed" not in out
    assert "a newer llama.cpp may know it" not in out
    assert "I2_S" in cli("dump", "--overview", str(path)).out


@pytest.mark.parametrize("vocabulary", [51864, 51865, 51866])
def test_whisper_of_today_is_no_old_ggml(vocabulary: int) -> None:
    # whisper.cpp: magic 0x67676d6c, n_vocab, n_audio_ctx = 1500, n_audio_state …
    head = b"lmgg" + b"".join(n.to_bytes(4, "little") for n in (vocabulary, 1500, 384, 6, 4, 448, 384, 6, 4, 80, 1))
    error = identify(head, 10_000, "ggml-tiny.bin")
    assert "whisper.cpp" in str(error)
    assert error is not None
    assert error.hint == "for whisper-cli, not for llama.cpp"
    old = b"lmgg" + b"".join(n.to_bytes(4, "little") for n in (32000, 4096, 256, 32, 32, 128, 2))
    assert "an old GGML file" in str(identify(old, 10_000, "ggml-model.bin"))


def test_an_imatrix_of_before_gguf_is_named() -> None:
    """As `imatrix.cpp:save_imatrix_legacy` writes it: entries; of each the length and text of a name, calls, values."""
    name = b"blk.0.attn_q.weight"
    old = struct.pack("<ii", 1, len(name)) + name + struct.pack("<ii4f", 1, 4, 1, 2, 3, 4)
    found = identify(old, len(old), "x.dat")
    assert "importance matrix" in str(found)
    assert "gguftool imatrix --merge" in str(found.hint if found else "")
