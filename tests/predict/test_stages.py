"""The parts of the predictor: expressions, keys, the walk over broken bytes, what it says it cannot tell."""

from __future__ import annotations

import random
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from gguftool.facts.data import load
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.expressions import compiled, divide
from gguftool.facts.machine.program import Machine, printf
from gguftool.facts.machine.reader import Reader
from gguftool.model import from_source, open_model
from gguftool.predict import AfterLoad, Prediction, predict
from gguftool.predict.words import type_name
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.pace import slowness, within


def predicted(g: GGUF) -> Prediction:
    return predict(from_source(Memory(g.bytes(), "m.gguf"), strict=False))


class TestExpressions:
    def test_arithmetic_is_cs(self) -> None:
        names = {"n": 7, "hparams": {"n_ff": 12}}
        assert compiled("n * 2 + h.n_ff // 5")(names) == 16
        assert compiled("0 if n > 8 or h.n_ff == 12 else 1")(names) == 0
        assert compiled("not h.unset and n % 4 == 3")(names) is True
        assert divide(-7, 2) == -3
        assert divide(7, -2) == -3

    def test_division_by_zero_ends_the_process(self) -> None:
        with pytest.raises(Abort, match="SIGFPE"):
            compiled("n // h.unset")({"n": 4, "hparams": {}})

    @pytest.mark.parametrize(
        "text",
        ["n.__class__", "lambda: 1", "[x for x in n]", "f(a=1)", "n if", "f'{n}'", "(y := n)", "{**n}", "n[0](1)"],
    )
    def test_nothing_else_is_understood(self, text: str) -> None:
        with pytest.raises((ValueError, SyntaxError)):
            compiled(text)

    @pytest.mark.parametrize("text", ["__import__('os').system('x')", "n.real", "'a'.upper()", "s.format(n)", "l.sort"])
    def test_what_only_python_has_is_unknown(self, text: str) -> None:
        with pytest.raises(Unknown):
            compiled(text)({"n": 1, "s": "{0}", "l": [2, 1], "hparams": {}})

    def test_a_name_without_a_value_is_unknown_not_zero(self) -> None:
        with pytest.raises(Unknown, match="n_mystery"):
            compiled("n_mystery + 1")({"hparams": {}})

    def test_every_expression_of_the_data_is_understood(self) -> None:
        data = load("load_maps.json")
        seen = 0

        where = {"let": (2, 3), "set": (2, 3), "if": (1, 2), "for": (2, 4), "foreach": (2, 3), "do": (1, 2)}
        where |= {"item": (2, 4), "slot": (2, 4), "alias": (1, 3), "fail": (1, 2), "assert": (1, 2)}

        def check(rows: list[list[Any]]) -> None:
            nonlocal seen
            for row in rows:
                texts = row[slice(*where[row[0]])] if row[0] in where else row[2] if row[0] == "call" else []
                if row[0] == "tensor":
                    texts = [*row[3], *(row[2].split(", ") if row[2] else [])]
                for text in texts:
                    compiled(text)
                    seen += 1
                for part in row[1:]:
                    if isinstance(part, list) and part and isinstance(part[0], list):
                        check(part)

        for family in data["classes"].values():
            check(family["hparams"])
            check(family["tensors"])
        for rows in (*data["graph"].values(), *data["decode"].values()):
            check(rows)
        for rows in data["needs"].values():
            for _, condition, when in rows:
                compiled(condition)
                assert when in ("context", "decode")
        assert seen > 5000


class TestKeys:
    def reader(self, *fields: tuple[str, object, str]) -> Reader:
        g = GGUF("qwen2")
        for key, value, kind in fields:
            g.kv(key, value, kind)
        return Reader(from_source(Memory(g.bytes(), "m"), strict=False).fields, "qwen2")

    @pytest.mark.parametrize("kind", ["i32", "u64", "f32", "u16", "bool"])
    def test_a_scalar_has_exactly_its_type(self, kind: str) -> None:
        r = self.reader(("qwen2.block_count", 1.0 if kind == "f32" else 1, kind))
        with pytest.raises(Refusal, match=f"key qwen2.block_count has wrong type {kind} but expected type u32"):
            r.scalar("block_count", "u32")

    def test_absent(self) -> None:
        r = self.reader()
        assert r.scalar("block_count", "u32") is None
        with pytest.raises(Refusal, match=r"key not found in model: qwen2\.block_count"):
            r.scalar("block_count", "u32", True)
        with pytest.raises(Refusal, match=r"array key not found in model: qwen2\.a"):
            r.array("a", "u32", 512)

    def test_one_for_all_layers_or_one_each(self) -> None:
        r = self.reader(("qwen2.a", 3, "u32"), ("qwen2.b", [1, 2], "[i32]"), ("qwen2.c", [True, False], "[bool]"))
        assert r.per_layer("a", "u32", 3, 512) == [3, 3, 3]
        assert r.per_layer("b", "u32", 2, 512) == [1, 2]
        assert r.per_layer("c", "u32", 2, 512) == [1, 0]
        with pytest.raises(Refusal, match=r"key qwen2\.b has wrong array length; expected 3, got 2"):
            r.per_layer("b", "u32", 3, 512)

    def test_negative_numbers_read_as_unsigned(self) -> None:
        r = self.reader(("qwen2.a", [-1, 2], "[i32]"))
        assert r.array("a", "u32", 512) == [0xFFFFFFFF, 2]
        assert r.array("a", "i32", 512) == [-1, 2]


class TestBrokenBytes:
    """Words of `gguf.cpp` for files our own parser cannot read to the end."""

    def words(self, data: bytes, size: int | None = None) -> str:
        p = predict(Memory(data, "m.gguf", size))
        assert (p.verdict, p.stage) == ("refused", "file")
        return p.messages[0].removeprefix("gguf_init_from_reader: ")

    def test_no_gguf_at_all(self) -> None:
        assert self.words(b"") == "failed to read magic"
        assert self.words(b"<html>" + bytes(100)) == "invalid magic characters: '<htm', expected 'GGUF'"
        assert self.words(b"GGUF") == "failed to read header"

    def test_versions(self) -> None:
        def versioned(raw: bytes) -> bytes:
            return b"GGUF" + raw + struct.pack("<QQ", 0, 0) + bytes(64)

        assert self.words(versioned(struct.pack("<I", 0))) == "bad GGUF version: 0"
        assert self.words(versioned(struct.pack("<I", 1))).startswith("GGUFv1 is no longer supported")
        assert "version 4 but this software only supports up to version 3" in self.words(
            versioned(struct.pack("<I", 4))
        )
        assert "50331648 is extremely large" in self.words(versioned(struct.pack(">I", 3)))

    def test_counts(self) -> None:
        head = b"GGUF" + struct.pack("<I", 3)
        limit = (2**64 - 1) // 344
        assert self.words(head + struct.pack("<qq", -1, 0)) == f"number of tensors is -1 but must be in [0, {limit}]"
        assert self.words(head + struct.pack("<qq", 0, 5)) == "failed to read key-value pairs"

    def test_nested_arrays_are_not_read(self) -> None:
        inner = struct.pack("<IQI", 4, 1, 7)
        record = struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 9, 1) + inner
        assert self.words(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + record) == "key 'k' has invalid GGUF type 9"

    def test_a_huge_damaged_file_is_not_walked_for_ever(self) -> None:
        head = b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 40) + struct.pack("<Q", 1) + b"k"
        big = 1 << 29
        data = head + struct.pack("<IQ", 8, big) + b"x"
        with within(5):
            p = predict(Memory(data, "m.gguf", 1 << 40))
        assert p.verdict in ("unknown", "refused")


def test_type_names_are_llama_cpps() -> None:
    assert [type_name(i) for i in (0, 1, 12, 14, 16, 30, 39)] == [
        "f32",
        "f16",
        "q4_K",
        "q6_K",
        "iq2_xxs",
        "bf16",
        "mxfp4",
    ]
    assert type_name(4) == "DEPRECATED"
    assert type_name(36) == "TYPE_IQ4_NL_4_4 REMOVED, use IQ4_NL with runtime repacking"


def test_printf() -> None:
    assert printf("%s has %u of %zu (%d)", "a", 1, 2, -3) == "a has 1 of 2 (-3)"


def test_healthy_file() -> None:
    healthy = Prediction("loads", "done", after_load=AfterLoad("decode", "ok"), layers=1, tensors=11)
    assert predicted(llama()) == healthy
    assert predicted(llama()).ok


def test_where_and_words_of_a_refusal() -> None:
    p = predicted(llama().drop("llama.attention.layer_norm_rms_epsilon"))
    assert (p.verdict, p.stage, p.where) == (
        "refused",
        "hyperparameters",
        "field:llama.attention.layer_norm_rms_epsilon",
    )
    words = "error loading model hyperparameters: key not found in model: llama.attention.layer_norm_rms_epsilon"
    assert p.messages == (f"llama_model_load: error loading model: {words}",)


def test_expected_and_stored_shape_are_data() -> None:
    p = predicted(llama().replace("llama.feed_forward_length", 96))
    assert (p.verdict, p.where) == ("refused", "tensor:blk.0.ffn_gate.weight")
    assert p.data == {"expected": [64, 96], "got": [64, 128]}


def test_adapters_of_graniteswitch_in_the_librarys_words() -> None:
    def switch(substitutes: list[int]) -> GGUF:
        g = llama().replace("general.architecture", "graniteswitch")
        for key in list(g._kv):
            if isinstance(key, tuple) and key[0].startswith("llama."):
                g.kv(key[0].replace("llama.", "graniteswitch."), key[1], key[2])
        g.kv("graniteswitch.logit_scale", 1.0).kv("graniteswitch.adapters.count", 1)
        g.kv("graniteswitch.adapters.lora_rank", 8).kv("graniteswitch.adapters.token_ids_activate", [1], "[i32]")
        return g.kv("graniteswitch.adapters.token_ids_substitute", substitutes, "[i32]")

    # what the real library (b11549) says to these files
    wrong = "graniteswitch: adapter token id arrays (1 activate, 2 substitute) do not match adapter count 1"
    for substitutes, words in (
        ([1], "check_tensor_dims: tensor 'blk.0.attn_qkv.weight' not found"),
        ([99999], "graniteswitch: substitute token id 99999 out of range [0, 291)"),
        ([-1], "graniteswitch: substitute token id -1 out of range [0, 291)"),
        ([1, 2], f"error loading model hyperparameters: {wrong}"),
    ):
        p = predicted(switch(substitutes))
        assert (p.verdict, p.messages) == ("refused", (f"llama_model_load: error loading model: {words}",))


def test_what_a_map_does_not_know_is_not_guessed() -> None:
    machine = Machine(Reader({}, "llama"), {"n_layer_all": 1, "n_layer_nextn": 0})
    with pytest.raises(Unknown, match="not in our map of llama"):
        machine.run([["unknown", "call of something"]])


def test_tensors_outside_their_stage_are_unknown() -> None:
    machine = Machine(Reader({}, "llama"), {"n_layer_all": 1, "n_layer_nextn": 0})
    with pytest.raises(Unknown):
        machine.run([["tensor", "x.weight", "", ["1"], "", ""]])


def test_nothing_heavy_is_imported() -> None:
    code = "import sys; import gguftool.predict; print([m for m in ('numpy', 'gguf', 'jinja2') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.real
def test_time_on_a_large_vocabulary(gemma3: Path) -> None:
    from gguftool.model.vocab import vocabulary

    with open_model(gemma3, strict=False) as m:
        vocabulary(m).id_of("<eos>")  # lint's tokenizer family reads it in any case
        times = []
        for _ in range(8):
            start = time.process_time()
            predict(m)
            times.append((time.process_time() - start) / slowness())
        assert min(times) < 0.03


def test_what_depends_on_the_machine_is_not_evaluated() -> None:
    from tests.predict.recipes import built, recipes

    huge = [r for r in recipes() if r.get("memory") and "insufficient memory" in str(r.get("context_errors"))]
    assert len(huge) > 15
    for record in huge:
        p = predict(built(record))
        assert p.after_load is not None
        assert (p.after_load.stage, p.after_load.outcome) == ("context", "unknown"), record


def test_a_made_up_number_of_layers_does_not_keep_us_busy() -> None:
    from gguftool.predict import survey
    from tests.predict.recipes import built

    op = {"op": "set", "key": "t5.decoder_block_count", "type": "u32", "value": (1 << 31) - 1}
    start = time.process_time()
    s = survey(from_source(built({"base": "tiny/t5", "ops": [op]}), strict=False))
    assert time.process_time() - start < 10
    assert "loop more than" in s.problem


def test_c_cuts_names_at_a_nul() -> None:
    record = struct.pack("<Q", 4) + b"k\0xy" + struct.pack("<I", 99)
    data = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + record + bytes(32)
    p = predict(Memory(data, "m.gguf"))
    assert p.messages[0] == "gguf_init_from_reader: key 'k' has invalid GGUF type 99"


def test_damaged_bytes_never_raise() -> None:
    from gguftool.errors import GgufToolError
    from gguftool.predict import survey
    from tests.predict.recipes import Hole, bases

    r = random.Random(20261129)
    verdicts = set()
    for name in r.sample(sorted(bases()), 60):
        header, size = bases()[name]
        for _ in range(3):
            data = bytearray(header)
            at = r.randrange(len(data) - 8)
            raw = r.choice([b"\xff" * 8, bytes(8), struct.pack("<Q", 1 << 31), bytes([r.randrange(256)])])
            data[at : at + len(raw)] = raw
            source = Hole(bytes(data), "m.gguf", size)
            verdicts.add(predict(source).verdict)
            try:
                survey(from_source(source, strict=False))
            except GgufToolError:
                continue
    assert {"loads", "refused"} <= verdicts
