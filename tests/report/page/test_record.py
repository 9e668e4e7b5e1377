"""What a report says, against what is known of the files: values, mixtures, layers, edits, pairs."""

from __future__ import annotations

import math
import re
import shlex
import struct
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

import gguftool
from gguftool.api.report import Portrait
from gguftool.api.reported import values as module
from gguftool.api.reported.keys import key_rows
from gguftool.api.reported.layered import layer_rows
from gguftool.api.reported.mixed import mixture
from gguftool.api.reported.past import edits
from gguftool.api.reported.previews import previews
from gguftool.chat.conversations import STANDARD
from gguftool.errors import UsageError
from gguftool.model.kinds import block, kind
from gguftool.model.overview import type_mix
from gguftool.report.page.data import body
from tests.beside import control_vector
from tests.build import GGUF, llama
from tests.json_schemas import validator
from tests.lint.samples import ready
from tests.report.page.walk import files, walk

T = TypeVar("T")


def portrait(path: Path | str, **asked: Any) -> Portrait:
    found = gguftool.report(path, **asked).model
    assert found is not None
    assert found.failed == {}
    return found


def made(path: Path, make: Callable[[gguftool.Model], T]) -> T:
    """One section alone, which costs less than all of them."""
    with gguftool.open(path, strict=False) as m:
        return make(m)


def one(path: Path, name: str) -> module.Values:
    return made(path, module.all_values)[0, name]


# -- the numbers of a tensor


def test_values_are_those_in_the_file(tmp_path: Path) -> None:
    numbers = [0.0, 1.0, -2.0, 0.5] + [0.0] * 60
    path = llama().tensor("x.weight", (64,), "f32", struct.pack("<64f", *numbers)).write(tmp_path / "m.gguf")
    found = one(path, "x.weight")
    assert (found.least, found.most, found.mean) == (-2.0, 1.0, -0.5 / 64)
    assert found.rms == math.sqrt(5.25 / 64)
    # Six times the root mean square are 1.72: -2 alone is beyond.
    assert (found.zeros, found.nan, found.inf, found.outliers, found.furthest) == (61, 0, 0, 1, 2)


def test_values_of_blocks(tmp_path: Path) -> None:
    """Q8_0: a 16-bit scale and 32 whole numbers."""
    data = struct.pack("<e32b", 0.5, *range(-16, 16)) + struct.pack("<e32b", 2.0, 100, *([0] * 31))
    path = llama().tensor("x.weight", (64,), "q8_0", data).write(tmp_path / "m.gguf")
    found = one(path, "x.weight")
    assert (found.least, found.most, found.furthest) == (-8.0, 200.0, 32)
    assert found.mean == pytest.approx((0.5 * -16 + 200) / 64)
    assert (found.zeros, found.outliers) == (32, 1)


def test_what_is_no_number_is_counted_apart(tmp_path: Path) -> None:
    numbers = [math.nan, math.inf, -math.inf, 3.0] + [1.0] * 28
    path = llama().tensor("x.weight", (32,), "f32", struct.pack("<32f", *numbers)).write(tmp_path / "m.gguf")
    found = one(path, "x.weight")
    assert (found.least, found.most, found.nan, found.inf) == (1.0, 3.0, 1, 2)
    path = llama().tensor("x.weight", (2,), "f32", struct.pack("<2f", math.nan, math.nan)).write(tmp_path / "n.gguf")
    found = one(path, "x.weight")
    assert math.isnan(found.least)
    assert found.nan == 2
    validator("report").validate(
        {"format": "gguftool.report/1", "tool": {"name": "gguftool", "version": "0"}, "ok": True, "errors": [],
         "written": None, **body(gguftool.report(path, data=True))}
    )  # fmt: skip


@pytest.mark.parametrize("kept", [1 << 21, 10])
def test_outliers_over_many_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    """The same whether what may be one was kept, or the data is read again; later pieces change what is one."""
    monkeypatch.setattr(module, "ELEMENTS", 64)
    monkeypatch.setattr(module, "MOST_KEPT", kept)
    numbers = [1.0, -1.0] * 128
    for i in range(0, 256, 16):
        numbers[i] = 7.0 + i / 100
    data = struct.pack("<256f", *numbers)
    path = llama().tensor("x.weight", (256,), "f32", data).write(tmp_path / "m.gguf")
    rms = math.sqrt(sum(x * x for x in numbers) / 256)
    found = one(path, "x.weight")
    assert found.outliers == sum(abs(x) > 6 * rms for x in numbers)
    assert found.furthest == 240
    numbers = [1.0] * 224 + [100.0] * 2 + [0.0] * 30
    path = llama().tensor("x.weight", (256,), "f32", struct.pack("<256f", *numbers)).write(tmp_path / "n.gguf")
    assert one(path, "x.weight").outliers == 2


def test_a_large_tensor_is_read_piece_by_piece(tmp_path: Path) -> None:
    path = llama().tensor("x.weight", (1 << 14, 1 << 10), "f16", b"\x00\x3c" * (1 << 24)).write(tmp_path / "m.gguf")
    with gguftool.open(path) as m:
        module.values(m.tensors["token_embd.weight"])  # numpy is there
        tracemalloc.start()
        found = module.values(m.tensors["x.weight"])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert found is not None
    assert (found.least, found.most, found.outliers) == (1.0, 1.0, 0)
    # As float32 it is 64 MiB.
    assert peak < 32 << 20


# -- quantisation


@pytest.mark.real
def test_what_llama_quantize_made_is_its_mixture(smollm2: Path) -> None:
    """The file was made by llama-quantize under the name Q4_1."""
    found, why = made(smollm2, mixture)
    assert found is not None, why
    assert found.target == "Q4_1"
    assert found.otherwise == ()
    assert {s.type_name: s.bytes for s in found.mix} == {s.type_name: s.bytes for s in made(smollm2, type_mix)}


def test_a_tensor_of_another_type_is_told(tmp_path: Path) -> None:
    g = GGUF("llama").kv("general.file_type", 7).kv("llama.block_count", 1).kv("llama.context_length", 64)
    g.kv("llama.embedding_length", 32).kv("llama.attention.head_count", 2).kv("llama.feed_forward_length", 64)
    g.tensor("token_embd.weight", (32, 8), "q8_0").tensor("blk.0.ffn_up.weight", (32, 64), "f16")
    g.tensor("blk.0.ffn_norm.weight", (32,), "f32")
    found, why = made(g.write(tmp_path / "m.gguf"), mixture)
    assert found is not None, why
    assert [(o.name, o.has, o.would) for o in found.otherwise] == [("blk.0.ffn_up.weight", "F16", "Q8_0")]
    assert found.bytes == 8 * 34 + 64 * 34 + 32 * 4
    g.replace("general.file_type", 99)
    assert made(g.write(tmp_path / "n.gguf"), mixture) == (None, "the file names no quantisation of llama-quantize")


# -- layers


def keyed(arch: str, **values: Any) -> GGUF:
    g = GGUF(arch)
    plain = {"embedding_length": 64, "feed_forward_length": 64, "context_length": 4096, "attention__head_count": 4}
    for name, value in {**plain, "attention__layer_norm_rms_epsilon": 1e-6, **values}.items():
        g.kv(f"{arch}.{name.replace('__', '.')}", value)
    return g.tensor("token_embd.weight", (64, 8), "f32")


def test_windows_and_shared_caches(tmp_path: Path) -> None:
    """`gemma3n.cpp` (b11434): every fifth layer is full, from the 20th on the caches of 18 and 19 are read."""
    path = keyed("gemma3n", block_count=30, attention__sliding_window=512, attention__head_count_kv=2)
    rows = made(path.write(tmp_path / "m.gguf"), layer_rows)
    assert [x.attention for x in rows[:6]] == ["window"] * 4 + ["full", "window"]
    assert [x.window for x in rows[:6]] == [512] * 4 + [0, 512]
    assert [x.shares_with for x in rows[18:30]] == [None, None, 18, 18, 18, 18, 19, 18, 18, 18, 18, 19]
    assert [x.attention for x in rows[19:21]] == ["full", "shared"]


def test_bases_of_a_window_are_its_own(tmp_path: Path) -> None:
    """`gemma3.cpp` (b11434): layers with a window rotate by 10000; that they are not scaled is not known here."""
    path = keyed("gemma3", block_count=6, attention__sliding_window=512, rope__freq_base=1e6, rope__scaling__factor=8.0)
    rows = made(path.write(tmp_path / "m.gguf"), layer_rows)
    assert [(x.attention, x.rope_base, x.rope_scale) for x in rows[4:]] == [
        ("window", 10_000.0, None), ("full", 1_000_000.0, 0.125),
    ]  # fmt: skip
    assert [x.rope_dimensions for x in rows] == [16] * 6


def test_states_and_encoders(tmp_path: Path) -> None:
    path = keyed("lfm2", block_count=3, attention__head_count_kv=[0, 2, 0], shortconv__l_cache=3)
    rows = made(path.write(tmp_path / "m.gguf"), layer_rows)
    assert [(x.attention, x.rope_base is None) for x in rows] == [("state", True), ("full", False), ("state", True)]
    # An encoder keeps nothing of the past; that its layers attend all the same.
    path = keyed("bert", block_count=2, attention__causal=False, attention__layer_norm_epsilon=1e-6)
    rows = made(path.write(tmp_path / "b.gguf"), layer_rows)
    assert [(x.attention, x.caches, x.rope_base) for x in rows] == [("full", (), None)] * 2


# -- prompts and keys


def test_previews_are_what_llama_server_makes_in_words_of_people(tmp_path: Path) -> None:
    template = "{% if tools %}{{ raise_exception('no tools') }}{% endif %}{% for m in messages %}[{{ m.role }}] "
    template += "{{ m.content }}\n{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
    path = llama().replace("tokenizer.chat_template", template).write(tmp_path / "m.gguf")
    found = {p.name: p for p in made(path, previews).previews}
    assert list(found) == list(STANDARD)
    assert "".join(s.text for s in found["turns"].segments) == (
        "[user] How cold is it in Oslo?\n[assistant] It is 4 degrees in Oslo.\n[user] And in Rome?\n[assistant]"
    )
    assert (found["tools"].segments, found["tools"].kind) == ((), "raised")
    assert "no tools" in found["tools"].error
    said = "".join(s.text for p in found.values() for s in p.segments)
    assert not re.search("x(system|user|reply|more|thought)x", said)


def test_keys_are_shown_as_they_are(tmp_path: Path) -> None:
    path = llama().kv("general.description", "x" * 400).kv("own.key", True).kv("general.tags", ["a", "b"])
    found = {k.key: k for k in made(path.write(tmp_path / "m.gguf"), key_rows)}
    assert found["general.architecture"].value == "llama"
    assert found["general.description"].value == "x" * 300 + "…"
    assert (found["general.tags"].type, found["general.tags"].count) == ("arr[str]", 2)
    assert found["own.key"].about is None
    about = found["llama.context_length"].about
    assert about is not None
    assert "context" in about.meaning.lower()


# -- kinds of tensors


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("token_embd.weight", "embedding"),
        ("output.weight", "output"),
        ("output_norm.weight", "norm"),
        ("blk.3.attn_q.weight", "attention"),
        ("blk.3.attn_q_norm.weight", "norm"),
        ("blk.3.ffn_down.weight", "feed-forward"),
        ("blk.3.ffn_down_exps.weight", "experts"),
        ("blk.3.ffn_gate_inp.weight", "experts"),
        ("blk.3.ffn_up_shexp.weight", "experts"),
        ("blk.3.ssm_conv1d.weight", "state"),
        ("blk.3.ssm_norm.weight", "norm"),
        ("blk.3.time_mix_key.weight", "state"),
        ("rope_freqs.weight", "rope"),
        ("v.blk.3.ln1.weight", "norm"),
        ("v.blk.3.attn_out.weight", "attention"),
        ("v.patch_embd.weight", "embedding"),
        ("strange", "other"),
    ],
)
def test_kinds(name: str, what: str) -> None:
    assert kind(name) == what
    assert block(name) == name.partition("3.")[0] + "3" * ("3." in name) if "3." in name else not block(name)


# -- what stands beside, and what was done


def test_a_pair(tmp_path: Path) -> None:
    model = ready(layers=3).write(tmp_path / "m.gguf")
    fits, not_ = control_vector().write(tmp_path / "c.gguf"), control_vector(width=96).write(tmp_path / "d.gguf")
    good = gguftool.report(model, control_vector=[str(fits)])
    bad = gguftool.report(model, control_vector=[str(not_)])
    assert good.model is not None
    assert bad.model is not None
    assert [(x.option, x.misfits) for x in good.model.beside] == [("--control-vector", ())]
    assert [m.rule for x in bad.model.beside for m in x.misfits] == ["pair-width"]
    assert body(bad)["verdict"]["level"] == "error"
    assert "--control-vector" in body(bad)["verdict"]["sentence"]


def test_the_history_of_edits(tmp_path: Path) -> None:
    path = llama().write(tmp_path / "m.gguf")
    assert made(path, edits) == ()
    with gguftool.edit(path) as e:
        e["general.name"] = "Foo"
    with gguftool.edit(path) as e:
        e["general.name"] = "Bar"
    newest, first = made(path, edits)
    assert (newest.number, first.number) == (2, 1)
    assert any("Bar" in line for line in newest.operations)
    assert newest.time is not None


def test_the_commands_of_the_verdict_run_and_mend(tmp_path: Path) -> None:
    path = llama().write(tmp_path / "my model.gguf")
    before = body(gguftool.report(path))
    lines = [c for c in before["verdict"]["commands"] if not c["fill_in"]]
    assert lines
    for row in lines:
        words = shlex.split(row["command"])
        assert words[0] == "gguftool"
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        assert done.returncode in (0, 1), done.stderr
    left = {f["rule"] for f in body(gguftool.report(path))["model"]["findings"]}
    assert left.isdisjoint(rule for row in lines for rule in row["rules"])


def test_hashes_are_those_of_the_bytes(tmp_path: Path) -> None:
    from hashlib import sha256

    data = bytes(range(128))
    path = llama().tensor("x.weight", (32,), "f32", data).write(tmp_path / "m.gguf")
    found = portrait(path, hashes=True)
    assert [f.file for f in found.hashes] == [sha256(path.read_bytes()).hexdigest()]
    assert [t.sha256 for t in found.tensors if t.name == "x.weight"] == [sha256(data).hexdigest()]


def test_of_a_set_with_a_gap_every_tensor_has_its_own_hash(tmp_path: Path) -> None:
    from hashlib import sha256

    for no, byte in enumerate(b"abc"):
        g = (llama() if no == 0 else GGUF()).shard(no, 3, 13)
        g.tensor("x.weight" if no == 0 else f"x{no}.weight", (32,), "f32", bytes([byte]) * 128)
        g.write(tmp_path / f"m-0000{no + 1}-of-00003.gguf")
    (tmp_path / "m-00002-of-00003.gguf").unlink()
    found = {t.name: t for t in portrait(tmp_path / "m-00001-of-00003.gguf", hashes=True, data=True).tensors}
    assert found["x.weight"].sha256 == sha256(b"a" * 128).hexdigest()
    assert (found["x2.weight"].sha256, found["x2.weight"].file) == (sha256(b"c" * 128).hexdigest(), 2)
    assert found["x2.weight"].values is not None


# -- where it breaks off, what is no model


def test_a_broken_file_is_shown_as_far_as_it_goes(cli: Any, tmp_path: Path) -> None:
    whole = llama().bytes()
    (tmp_path / "m.gguf").write_bytes(whole[:-40])
    done = cli("report", tmp_path / "m.gguf", "--format", "json")
    assert done.code == 3
    assert done.json["verdict"]["level"] == "error"
    assert "not whole" in done.json["verdict"]["sentence"]
    assert done.json["verdict"]["commands"][0]["command"].startswith("gguftool verify ")
    assert len(done.json["model"]["tensors"]) == 11
    (tmp_path / "n.gguf").write_bytes(whole[:300])
    assert cli("report", tmp_path / "n.gguf", "-o", tmp_path / "n.html").code == 3
    assert "<!DOCTYPE html>" in (tmp_path / "n.html").read_text()
    (tmp_path / "o.gguf").write_bytes(b"nothing of the kind")
    done = cli("report", tmp_path / "o.gguf", "-o", tmp_path / "o.html")
    assert done.code == 3
    assert not (tmp_path / "o.html").exists()


def test_every_role_and_some_faults(tmp_path: Path) -> None:
    assert sum(walk(name, data, tmp_path) for name, data in files(few=1)) >= 7


def test_a_section_that_fails_hides_no_other(cli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(m: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("gguftool.api.report.layer_rows", broken)
    path = llama().write(tmp_path / "m.gguf")
    done = cli("report", path, "--format", "json")
    assert (done.code, done.json["ok"]) == (70, False)
    assert [x["section"] for x in done.json["model"]["failed"]] == ["layers"]
    assert "ZeroDivisionError" in done.json["errors"][0]["message"]
    assert (done.json["model"]["layers"], len(done.json["model"]["tensors"])) == ([], 11)
    done = cli("report", path, "-o", tmp_path / "m.html")
    assert done.code == 70
    assert "this is a bug" in done.err
    assert "ZeroDivisionError" in (tmp_path / "m.html").read_text()


def test_a_fleet(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "f" / "a").mkdir(parents=True)
    llama().write(tmp_path / "f" / "a" / "m.gguf")
    llama().write(tmp_path / "f" / "a" / "n.gguf")
    (tmp_path / "f" / "bad.gguf").write_bytes(llama().bytes()[:-40])
    (tmp_path / "f" / "other.gguf").write_bytes(llama().bytes())
    done = cli("report", tmp_path / "f", "--format", "json")
    validator("report").validate(done.json)
    assert done.json["kind"] == "fleet"
    rows = {Path(r["path"]).name: r["ok"] for r in done.json["fleet"]["models"]}
    assert rows == {"m.gguf": True, "n.gguf": True, "bad.gguf": False, "other.gguf": True}
    assert done.json["verdict"]["level"] == "error"
    # With a wish: which of them fits.
    done = cli("report", tmp_path / "f", "--vram", "8GiB", "--ram", "8GiB", "--ctx", "64", "--format", "json")
    assert done.json["kind"] == "repository"
    assert {x["standing"] for x in done.json["repository"]["models"]} == {"fits", "refused"}
    done = cli("report", tmp_path / "f", "--data", "-o", tmp_path / "x.html")
    assert done.code == 2
    assert "name one of them" in done.err
    # A folder without a model of its own: those in the folders in it.
    (tmp_path / "f" / "bad.gguf").unlink()
    (tmp_path / "f" / "other.gguf").unlink()
    assert len(gguftool.report(tmp_path / "f").rows) == 2
    with pytest.raises(UsageError, match="one folder"):
        gguftool.report(tmp_path / "f", ctx=64)
