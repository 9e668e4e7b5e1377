"""``gguftool quantize``: what it tells beforehand, and what it refuses."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.build import imatrix
from gguftool.errors import FormatError
from tests.build import GGUF
from tests.building.models import DENSE, MOE, importances, model, shapes
from tests.conftest import Result

Cli = Callable[..., Result]


@pytest.fixture(autouse=True)
def _built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return model(DENSE, "f16").write(tmp_path / "tiny-F16.gguf")


@pytest.mark.oracle
def test_dry_run_says_what_llama_quantize_says(cli: Cli, gemma3: Path, tmp_path: Path):
    """`llama-quantize --dry-run` of b11434 over gemma-3-270m: 7.36 BPW, 90 of 236 tensors fall back."""
    result = cli("quantize", gemma3, "Q4_K_M", "--dry-run", "--allow-requantize", "--no-provenance", "--format", "json")
    assert result.code == 0
    assert round(result.json["bits_per_weight"], 2) == 7.36
    assert (len(result.json["fallbacks"]), len(result.json["tensors"])) == (90, 236)
    # The file that llama.cpp made of the same model has this size.
    assert result.json["file_size"] == gemma3.stat().st_size == 253113024
    pairs = {(f["wanted"], f["type"], f["row"]) for f in result.json["fallbacks"]}
    assert pairs == {("Q4_K", "Q5_0", 640), ("Q6_K", "Q8_0", 640)}
    text = cli("quantize", gemma3, "Q4_K_M", "--dry-run", "--allow-requantize")
    assert "90 of 236 tensors" in text.out
    assert "7.36 bits per weight" in text.out


@pytest.mark.parametrize("name", ["Q8_0", "Q4_K_M", "Q2_K", "IQ4_XS", "MXFP4_MOE", "F32"])
def test_the_size_told_beforehand_is_exact(cli: Cli, dense: Path, tmp_path: Path, name: str):
    told = cli("quantize", dense, tmp_path / "out.gguf", name, "--dry-run", "--format", "json").json
    assert not (tmp_path / "out.gguf").exists()
    done = cli("quantize", dense, tmp_path / "out.gguf", name, "--format", "json")
    assert done.code == 0, done.err
    assert done.json["size"] == told["file_size"] == (tmp_path / "out.gguf").stat().st_size


def test_out_is_named_after_the_type_when_left_out(cli: Cli, dense: Path, tmp_path: Path):
    result = cli("quantize", dense, "q8_0", "--format", "json")
    assert result.code == 0
    assert result.json["output"] == str(tmp_path / "tiny-Q8_0.gguf")


def test_the_table_of_types(cli: Cli, dense: Path):
    table = cli("quantize", dense, "--fits", "400KiB", "--format", "json").json
    sizes = {row["type"]: row["file_size"] for row in table["targets"]}
    assert list(sizes.values()) == sorted(sizes.values(), reverse=True)
    for row in table["targets"]:
        assert row["fits"] == (row["file_size"] <= 400 * 1024)
    largest = max((r for r in table["targets"] if r["fits"] and not r["needs_imatrix"]), key=lambda r: r["file_size"])
    assert sizes[table["best"]] == largest["file_size"]
    assert "Q1_0" not in sizes  # rows of 320 have no fallback there: llama.cpp refuses
    assert {r["type"] for r in table["targets"] if r["needs_imatrix"]} >= {"IQ2_XXS", "IQ1_S", "IQ3_XXS", "Q2_K_S"}
    text = cli("quantize", dense, "--fits", "400KiB")
    assert f"largest that fits: {table['best']}" in text.err


@pytest.mark.parametrize("more", [(), ("--no-provenance",), ("--pure",), ("--tensor-type", "ffn_down=q8_0")])
def test_the_sizes_of_the_table_are_exact(cli: Cli, dense: Path, tmp_path: Path, more: tuple[str, ...]):
    table = cli("quantize", dense, "--list", *more, "--format", "json").json
    sizes = {row["type"]: row["file_size"] for row in table["targets"]}
    for name in ("Q8_0", "Q4_K_M"):
        done = cli("quantize", dense, tmp_path / f"{name}.gguf", name, *more, "--format", "json")
        assert done.code == 0, done.err
        assert sizes[name] == (tmp_path / f"{name}.gguf").stat().st_size


def test_a_log_never_takes_the_place_of_a_model(cli: Cli, dense: Path, tmp_path: Path):
    before = dense.read_bytes()
    result = cli("quantize", dense, tmp_path / "out.gguf", "Q8_0", "--log", dense)
    assert result.code == 2
    assert "is a model" in result.err
    assert dense.read_bytes() == before


def test_large_models_without_their_data(cli: Cli, tmp_path: Path):
    """A header alone is refused for quantising, but answers which type fits."""
    path = tmp_path / "front.gguf"
    path.write_bytes(model(DENSE, "f16").header())
    assert cli("quantize", path, tmp_path / "out.gguf", "Q8_0").code == 3


def test_quantising_twice_is_refused_unless_asked(cli: Cli, tmp_path: Path):
    source = model(DENSE, "q8_0").write(tmp_path / "in.gguf")
    result = cli("quantize", source, tmp_path / "out.gguf", "Q4_K_M")
    assert result.code == 4
    assert "quantised already (Q8_0)" in result.err
    assert "--allow-requantize" in result.err
    done = cli("quantize", source, tmp_path / "out.gguf", "Q4_K_M", "--allow-requantize")
    assert done.code == 0
    raw = cli("dump", tmp_path / "out.gguf", "--raw", "gguftool.quantize.requantized")
    assert raw.out == "yes"


def test_strict_refuses_fallbacks(cli: Cli, dense: Path, tmp_path: Path):
    result = cli("quantize", dense, tmp_path / "out.gguf", "Q4_K_M", "--strict")
    assert result.code == 4
    assert "rows of 320" in result.err
    assert cli("quantize", dense, tmp_path / "out.gguf", "Q8_0", "--strict").code == 0


def test_low_bits_need_an_importance_matrix(cli: Cli, dense: Path, tmp_path: Path):
    result = cli("quantize", dense, tmp_path / "out.gguf", "IQ2_XS")
    assert (result.code, "--imatrix" in result.err) == (4, True)
    matrix = importances("llama").write(tmp_path / "m.gguf")
    assert cli("quantize", dense, tmp_path / "out.gguf", "IQ2_XS", "--imatrix", matrix).code == 0


def test_an_importance_matrix_with_gaps(cli: Cli, dense: Path, tmp_path: Path):
    """llama.cpp #23575: a layer without entries."""
    built = importances("llama")
    gone = [n for n in shapes("llama") if n.startswith("blk.1.attn")]
    built.drop_tensor(*(f"{n}.{kind}" for n in gone for kind in ("in_sum2", "counts")))
    matrix = built.write(tmp_path / "m.gguf")
    low = cli("quantize", dense, tmp_path / "out.gguf", "IQ2_XS", "--imatrix", matrix)
    assert low.code == 4
    assert "has no entry for them" in low.err
    assert "blk.1.attn" in low.err
    high = cli("quantize", dense, tmp_path / "out.gguf", "Q4_K_M", "--imatrix", matrix)
    assert high.code == 0
    assert "no entry for 4 of" in high.err
    named = ("--tensor-type", r"blk\.1\.attn=q4_k")
    assert cli("quantize", dense, tmp_path / "o2.gguf", "IQ2_XS", "--imatrix", matrix, *named).code == 0


def test_an_importance_matrix_of_another_model(cli: Cli, dense: Path, tmp_path: Path):
    built = GGUF().kv("general.type", "imatrix")
    built.tensor("blk.0.attn_q.weight.in_sum2", (64, 1), "f32").tensor("blk.0.attn_q.weight.counts", (1, 1), "f32")
    result = cli("quantize", dense, tmp_path / "out.gguf", "Q4_0", "--imatrix", built.write(tmp_path / "m.gguf"))
    assert result.code == 4
    assert "has 64 values, the tensor needs 256" in result.err


def test_the_older_form_of_importance_matrices(tmp_path: Path):
    import struct

    import numpy as np

    def entry(name: bytes, calls: int, values: list[float]) -> bytes:
        data = np.array(values, "<f4").tobytes()
        return struct.pack("<i", len(name)) + name + struct.pack("<ii", calls, len(values)) + data

    body = struct.pack("<i", 2) + entry(b"a.weight", 4, [4.0, 8.0]) + entry(b"b.weight", 0, [3.0])
    path = tmp_path / "imatrix.dat"
    path.write_bytes(body + struct.pack("<ii", 10, 5) + b"a.txt")
    found = imatrix.read(str(path))
    assert np.frombuffer(found.entries["a.weight"], "<f4").tolist() == [1.0, 2.0]
    assert np.frombuffer(found.entries["b.weight"], "<f4").tolist() == [3.0]
    assert (found.dataset, found.chunks) == ("a.txt", 10)
    path.write_bytes(body)
    assert imatrix.read(str(path)).sizes == {"a.weight": 2, "b.weight": 1}
    for cut in range(4, len(body) - 1):
        path.write_bytes(body[:cut])
        with pytest.raises(FormatError):
            imatrix.read(str(path))


def test_importances_of_experts_that_never_ran_are_one(tmp_path: Path):
    import numpy as np

    found = imatrix.read(str(importances("qwen3moe").write(tmp_path / "m.gguf")))
    rows = np.frombuffer(found.entries["blk.0.ffn_up_exps.weight"], "<f4").reshape(4, 256)
    assert (rows[2] == 1).all()
    assert not (rows[1] == 1).any()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("out.gguf", "Q4_K_X"), "Q4_K_M"),
        (("out.gguf",), "Name the type"),
        (("out.gguf", "Q8_0", "--tensor-type", "ffn_down"), "NAME=TYPE"),
        (("out.gguf", "Q8_0", "--tensor-type", "(=q8_0"), "--tensor-type"),
        (("out.gguf", "Q8_0", "--tensor-type", "ffn=q8_1"), "nothing is quantised to"),
        (("none/out.gguf", "Q8_0"), "no such folder"),
        (("tiny-F16.gguf", "Q8_0", "--overwrite"), "the source itself"),
    ],
)
def test_wrong_usage(cli: Cli, dense: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args, words: str):
    monkeypatch.chdir(tmp_path)
    before = dense.read_bytes()
    result = cli("quantize", dense.name, *args)
    assert result.code == 2
    assert words in result.err
    assert dense.read_bytes() == before


def test_duplicates_in_the_source_are_named(cli: Cli, tmp_path: Path):
    source = model(DENSE, "f16").kv("llama.block_count", 2).write(tmp_path / "in.gguf")
    result = cli("quantize", source, tmp_path / "out.gguf", "Q8_0")
    assert (result.code, "llama.block_count" in result.err, "--dedupe" in result.err) == (4, True, True)


def test_experts_use_their_own_importances(cli: Cli, tmp_path: Path):
    """Zero importance in one expert changes that expert's data and no other's."""
    import numpy as np

    from gguftool.model import open_model

    source = model(MOE, "bf16").write(tmp_path / "in.gguf")
    plain, changed = importances("qwen3moe"), importances("qwen3moe")
    name = "blk.0.ffn_up_exps.weight"
    with open_model(plain.write(tmp_path / "a.gguf")) as m:
        sums = np.frombuffer(m.read(f"{name}.in_sum2"), "<f4").reshape(4, 256).copy()
    sums[1, :128] *= 1000
    changed.retensor(f"{name}.in_sum2", data=sums.tobytes()).write(tmp_path / "b.gguf")
    data = []
    for letter in "ab":
        args = ("quantize", source, tmp_path / f"{letter}-out.gguf", "Q4_0", "--imatrix", tmp_path / f"{letter}.gguf")
        assert cli(*args).code == 0
        with open_model(tmp_path / f"{letter}-out.gguf") as m:
            data.append(np.frombuffer(m.read(name), np.uint8).reshape(4, -1))
    same = [bool((data[0][e] == data[1][e]).all()) for e in range(4)]
    assert same == [True, False, True, True]


def writes_in(pid: int, folder: Path) -> bool:
    """Whether a process has a file without a name open in a folder."""
    with contextlib.suppress(OSError):
        open_files = [os.readlink(f"/proc/{pid}/fd/{n}") for n in os.listdir(f"/proc/{pid}/fd")]
        return any(name.startswith(f"{folder}/#") for name in open_files)
    return False


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=lambda n: n.name)
def test_what_ends_it_leaves_nothing(tmp_path: Path, number: signal.Signals):
    """A sparse model of 4 GiB, interrupted while it is quantised: no draft, and no child that goes on."""
    from gguftool.model import open_model

    built = model(DENSE, "f32").drop_tensor("output.weight").tensor("output.weight", (256, 1 << 22), "f32", b"")
    path = tmp_path / "big.gguf"
    path.write_bytes(built.header())
    with open_model(path) as m:
        os.truncate(path, m.header.data_end() or 0)
    command = [sys.executable, "-m", "gguftool", "quantize", str(path), str(tmp_path / "out.gguf"), "Q2_K"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not writes_in(child.pid, tmp_path):
        time.sleep(0.01)
    workers = Path(f"/proc/{child.pid}/task/{child.pid}/children")
    while time.monotonic() < deadline and not workers.read_text():
        time.sleep(0.01)
    (worker,) = workers.read_text().split()
    child.send_signal(number)
    _, err = child.communicate(timeout=60)  # the whole would take minutes
    assert child.returncode == (130 if number == signal.SIGINT else -number), err
    while time.monotonic() < deadline and running(worker):
        time.sleep(0.01)
    assert not running(worker)
    assert os.listdir(tmp_path) == ["big.gguf"]


def running(pid: str) -> bool:
    """Whether a process is there and no zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def test_the_output_by_option_as_everywhere(cli, dense: Path, tmp_path: Path):
    in_place, named = tmp_path / "a.gguf", tmp_path / "b.gguf"
    assert cli("quantize", dense, in_place, "Q8_0").code == 0
    assert cli("quantize", dense, "Q8_0", "-o", named).code == 0
    assert in_place.read_bytes() == named.read_bytes()
    twice = cli("quantize", dense, in_place, "Q8_0", "--output", named)
    assert (twice.code, "named twice" in twice.err) == (2, True)


def test_a_dry_run_that_is_refused_says_the_way_on(cli: Cli, tmp_path: Path):
    source = model(DENSE, "q8_0").write(tmp_path / "tiny-Q8_0.gguf")
    result = cli("quantize", source, "IQ2_XXS", "--dry-run")
    assert result.code == 4
    assert "hint: take an F16, BF16 or F32 model, or say --allow-requantize" in result.err
    assert "hint: give one with --imatrix FILE" in result.err
