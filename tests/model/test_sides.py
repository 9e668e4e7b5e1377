"""What an adapter and a control vector hold, as llama.cpp takes it apart."""

from __future__ import annotations

from pathlib import Path

from gguftool.model import from_source
from gguftool.model.adapter import Adapter, adapter
from gguftool.model.steering import ControlVector, control_vector, layer_of
from gguftool.source import Memory
from tests.build import GGUF


def lora(alpha: float = 16.0) -> GGUF:
    """As convert_lora_to_gguf.py writes it (b11434): llama, 64 wide, rank 8."""
    g = GGUF("llama").kv("general.type", "adapter").kv("adapter.type", "lora").kv("adapter.lora.alpha", alpha)
    g.kv("general.base_model.count", 1).kv("general.base_model.0.name", "SmolLM2 135M")
    g.kv("general.base_model.0.organization", "HuggingFaceTB")
    for layer in (0, 10, 2):
        for target, out in (("attn_q", 64), ("attn_v", 32)):
            g.tensor(f"blk.{layer}.{target}.weight.lora_a", (64, 8)).tensor(
                f"blk.{layer}.{target}.weight.lora_b", (8, out)
            )
    return g


def _adapter(g: GGUF) -> Adapter:
    return adapter(from_source(Memory(g.bytes())))


def _vector(g: GGUF) -> ControlVector:
    return control_vector(from_source(Memory(g.bytes())))


def test_adapter() -> None:
    it = _adapter(lora())
    assert (it.kind, it.architecture, it.alpha, it.base) == ("lora", "llama", 16.0, ("HuggingFaceTB SmolLM2 135M",))
    assert it.ranks == {8: 6}
    assert it.layers == (0, 2, 10)
    assert it.nbytes == 4 * 3 * (64 * 8 + 8 * 64 + 64 * 8 + 8 * 32)
    assert (it.norms, it.strangers, it.invocation) == ((), (), ())
    # `std::map` orders by bytes.
    assert [p.name for p in it.pairs][:3] == ["blk.0.attn_q.weight", "blk.0.attn_v.weight", "blk.10.attn_q.weight"]
    pair = it.pairs[1]
    assert (pair.rank, pair.rank_of_a, pair.base_shape, pair.layer, pair.target) == (8, 8, (64, 32), 0, "attn_v")
    # scale * alpha / rank (`llama-adapter.h:get_scale`, b11434); without alpha the rank does not count.
    assert it.scale(pair) == 2.0
    assert it.scale(pair, 0.5) == 1.0
    assert _adapter(lora().drop("adapter.lora.alpha")).scale(pair) == 1.0
    assert _adapter(lora(0.0)).scale(pair) == 1.0


def test_an_embedding_lies_the_other_way_round() -> None:
    # convert_lora_to_gguf.py transposes lora_a of the token embedding alone.
    g = GGUF("llama").kv("general.type", "adapter")
    it = _adapter(g.tensor("token_embd.weight.lora_a", (8, 300)).tensor("token_embd.weight.lora_b", (8, 64)))
    pair = it.pairs[0]
    assert pair.embedding
    assert (pair.rank, pair.rank_of_a, pair.base_shape, pair.layer) == (8, 8, (64, 300), None)


def test_what_does_not_belong() -> None:
    g = lora().tensor("blk.0.attn_norm.weight", (64,)).tensor("output.weight", (64, 8))
    g.tensor("blk.1.ffn_up.weight.lora_a", (64, 8))
    it = _adapter(g.kv("adapter.alora.invocation_tokens", [1, 2, 3], "[u32]"))
    assert it.norms == ("blk.0.attn_norm.weight",)
    assert it.strangers == ("output.weight",)
    assert [p.name for p in it.pairs if not p.whole] == ["blk.1.ffn_up.weight"]
    assert it.invocation == (1, 2, 3)
    assert (it.pairs[1].whole, it.ranks) == (True, {8: 6})


def test_types_that_llama_cpp_does_not_take() -> None:
    g = lora().replace("adapter.lora.alpha", 16, "u32").replace("adapter.type", 1, "u32")
    it = _adapter(g.kv("adapter.alora.invocation_tokens", [1], "[i32]").replace("general.base_model.count", 1 << 31))
    assert (it.alpha, it.kind, it.invocation, it.base) == (None, "", (), ("HuggingFaceTB SmolLM2 135M",))


def test_control_vector() -> None:
    g = GGUF("controlvector").kv("controlvector.model_hint", "llama").kv("controlvector.layer_count", 3, "i32")
    for layer in (1, 2, 12):
        g.tensor(f"direction.{layer}", (64,))
    it = _vector(g)
    assert (it.hint, it.stated, it.layers, it.width) == ("llama", 3, (1, 2, 12), 64)
    assert _vector(GGUF("controlvector")).width is None


def test_layers_are_read_as_stoi_reads() -> None:
    assert [layer_of(n) for n in ("direction.1", "direction.007", "direction. +5x", "direction.1.weight")] == [
        1,
        7,
        5,
        1,
    ]
    bad = "direction direction. direction.x direction.-1 directions.1 Direction.1 direction.2147483648 x.direction.1"
    assert {layer_of(n) for n in bad.split()} == {-1}
    assert layer_of("direction.0") == 0
    assert layer_of("direction." + "9" * 10_000) == -1


def test_dump_says_what_matters_of_an_adapter(tmp_path: Path, cli) -> None:
    g = lora().tensor("token_embd.weight.lora_a", (4, 300)).tensor("token_embd.weight.lora_b", (4, 64))
    g.tensor("blk.0.attn_norm.weight", (64,)).tensor("blk.3.ffn_up.weight.lora_a", (64, 8)).tensor("x", (4,))
    path = g.kv("adapter.alora.invocation_tokens", [5, 6], "[u32]").write(tmp_path / "a.gguf")
    found = cli("dump", "--format", "json", str(path)).json["summary"]["about"]
    assert found == {
        "kind": "activated LoRA",
        "base architecture": "llama",
        "base model": ["HuggingFaceTB SmolLM2 135M"],
        "rank": [4, 8],
        "alpha": 16.0,
        "scale": ["2", "4"],
        "pairs": 7,
        "layers": "0, 2–3, 10",
        "targets": ["attn_q", "attn_v", "ffn_up"],
        "beside the layers": ["token_embd.weight"],
        "without their other half": ["blk.3.ffn_up.weight"],
        "norms left aside": 1,
        "refused names": ["x"],
        "weights": 6 * 64 * 8 + 3 * (8 * 64 + 8 * 32) + 4 * 300 + 4 * 64 + 64 + 64 * 8 + 4,
        "invocation tokens": [5, 6],
    }
    out = cli("dump", "--overview", str(path)).out
    assert "a LoRA adapter" in out.splitlines()[0]
    assert not any(word in out for word in ("context", "rope", "tokenizer", "parameters"))


def test_dump_says_what_matters_of_a_control_vector(tmp_path: Path, cli) -> None:
    g = GGUF("controlvector").kv("controlvector.model_hint", "qwen2").kv("controlvector.layer_count", 9, "i32")
    for layer in (0, 1, 2, 3, 7):
        g.tensor(f"direction.{layer}", (64,))
    path = g.write(tmp_path / "c.gguf")
    assert cli("dump", "--format", "json", str(path)).json["summary"]["about"] == {
        "made for": "qwen2",
        "width": 64,
        "layers": "1–3, 7",
        "directions": 5,
        "layers as stated": 9,
        "refused names": ["direction.0"],
    }
    out = cli("dump", "--overview", str(path)).out
    assert not any(word in out for word in ("context", "rope", "tokenizer", "parameters"))
