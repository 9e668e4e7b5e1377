"""Tensor data: agrees with the real library block by block, for every type there is."""

from __future__ import annotations

import math
import random
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gguftool.format.parse import parse, parse_bytes
from gguftool.format.types import TENSOR_TYPES
from gguftool.source import LocalFile, Memory
from gguftool.verify.blocks import NOT_FOR_FILES, NUMBERS
from gguftool.verify.data import check_data, judge
from tests.build import GGUF, TENSOR, llama
from tests.fuzz.sparse import File, base
from tests.oracle.llama import load
from tests.verify.validate import valid

NAN16, INF16 = b"\x01\x7c", b"\x00\x7c"


def checks(data: bytes):
    return check_data(Memory(data), parse_bytes(data))


def of_blocks(type_id: int, blocks: bytes) -> bytes:
    t = TENSOR_TYPES[type_id]
    return GGUF("llama").tensor("w", (len(blocks) // t.block_bytes * t.block_size,), type_id, data=blocks).bytes()


def crafted(type_id: int) -> list[bytes]:
    """Rows of four blocks: all kinds of patterns at every place, and noise."""
    t = TENSOR_TYPES[type_id]
    rng = random.Random(t.name)
    rows = [bytes(4 * t.block_bytes)]
    # An exponent with all bits set in each number format, negative, NaN, infinite, and just below.
    patterns = [
        b"\x00\x7c", b"\x00\xfc", b"\x01\x7c", b"\xff\x7f", b"\xff\x7b", b"\x80\x7f", b"\x81\xff", b"\x7f\x7f",
        b"\x00\x00\x80\x7f", b"\x01\x00\x80\xff", b"\xff\xff\x7f\x7f", bytes(6) + b"\xf0\x7f", b"\xff", b"\xfe",
    ]  # fmt: skip
    for pattern in patterns:
        for at in range(t.block_bytes - len(pattern) + 1):
            row = bytearray(4 * t.block_bytes)
            row[2 * t.block_bytes + at : 2 * t.block_bytes + at + len(pattern)] = pattern
            rows.append(bytes(row))
    rows += [rng.randbytes(4 * t.block_bytes) for _ in range(60)]
    return rows


def iq1_m_scale(value: int) -> bytes:
    """A block of IQ1_M with that scale: four bits at the top of each of the last four words."""
    block = bytearray(56)
    for i in range(4):
        block[48 + 2 * i + 1] = (value >> 4 * i & 15) << 4
    return bytes(block)


@pytest.mark.oracle
@pytest.mark.parametrize("type_id", TENSOR_TYPES, ids=lambda i: TENSOR_TYPES[i].name)
def test_same_verdict_as_the_library_for_every_pattern(type_id: int):
    rows = crafted(type_id)
    if type_id == 29:
        rows += [iq1_m_scale(v) for v in (0x7C00, 0xFC00, 0x7BFF, 0x7C01, 0xFFFF, 0x3C00)]
    theirs = valid([(type_id, row) for row in rows])
    t = TENSOR_TYPES[type_id]
    model = GGUF("llama")
    for i, row in enumerate(rows):
        model.tensor(f"row{i}", (len(row) // t.block_bytes * t.block_size,), type_id, data=row)
    bad = {fault.where for fault in judge(checks(model.bytes()), Memory(model.bytes()))[0]}
    ours = [f"tensor:row{i}" not in bad for i in range(len(rows))]
    assert ours == theirs
    numbers = NUMBERS.get(TENSOR_TYPES[type_id].name)
    if numbers or TENSOR_TYPES[type_id].name in NOT_FOR_FILES:
        assert False in theirs


def test_every_type_has_a_row():
    assert set(NUMBERS) | NOT_FOR_FILES == {t.name for t in TENSOR_TYPES.values()}


def test_floats_are_counted_by_kind():
    values = [0.0, float("nan"), float("inf"), -float("inf"), 1.0, float("nan"), 2.0, 3.0]
    [check] = checks(of_blocks(0, struct.pack("<8f", *values)))
    assert (check.nan, check.inf, check.bad, check.first, check.blocks) == (2, 2, 4, 1, 8)
    [fault] = judge([check], Memory(b""))[0]
    assert (fault.kind, fault.where) == ("not-finite", "tensor:w")
    assert "2 NaN and 2 infinite of 8 elements; first at element 1" in fault.message
    start = check.start
    assert fault.span == (start + 4, start + 8)


def test_the_span_is_where_the_bad_block_lies():
    blocks = bytearray(144 * 100)
    blocks[144 * 37 : 144 * 37 + 2] = NAN16
    blocks[144 * 80 + 2 : 144 * 80 + 4] = INF16
    data = of_blocks(12, bytes(blocks))
    [check] = checks(data)
    assert (check.bad, check.first, check.nan, check.inf) == (2, 37, 1, 1)
    [fault] = judge([check], Memory(b""))[0]
    assert data[fault.span[0] : fault.span[0] + 2] == NAN16
    assert "in 2 of 100 blocks; first at block 37" in fault.message


def test_experts_are_named():
    """Case 78: a missing importance matrix of some experts gives broken scales in these only."""
    per_expert = 256 // 32 * 4 * 18
    blocks = bytearray(b"\x00\x3c" + bytes(16)) * (per_expert // 18 * 6)
    for expert in (1, 4):
        blocks[expert * per_expert + 18 : expert * per_expert + 20] = INF16
    data = GGUF("llama").tensor("blk.0.ffn_up_exps.weight", (256, 4, 6), "q4_0", data=bytes(blocks)).bytes()
    [check] = checks(data)
    assert dict(check.experts) == {1: 1, 4: 1}
    assert "experts 1, 4 of 6" in judge([check], Memory(b""))[0][0].message


def test_pieces_and_threads_do_not_matter(tmp_path: Path, monkeypatch):
    from gguftool.verify import data as module

    rng = random.Random(5)
    model = GGUF("llama")
    for i, (kind, size) in enumerate((("f32", 4), ("f16", 2), ("bf16", 2), ("q8_0", 34), ("q6_k", 210), ("mxfp4", 17))):
        blocks = bytearray(rng.randbytes(size * 3000))
        model.tensor(f"t{i}", ({"q8_0": 32, "q6_k": 256, "mxfp4": 32}.get(kind, 1) * 60, 50), kind, data=bytes(blocks))
    data = model.bytes()
    header = parse_bytes(data)

    def result(jobs: int):
        return [(c.nan, c.inf, c.bad, c.first, c.constant, c.zero) for c in check_data(Memory(data), header, jobs=jobs)]

    expected = result(1)
    assert any(row[2] for row in expected)
    for piece in (256, 5000, 1 << 16):
        monkeypatch.setattr(module, "PIECE", piece)
        assert [r[:4] for r in result(3)] == [r[:4] for r in expected]


def test_big_endian():
    model = GGUF("llama").big_endian().tensor("a", (4,)).tensor("b", (4,), "f16").tensor("c", (2,), "f64")
    model.retensor("a", data=struct.pack(">4f", 1, float("nan"), 2, 3))
    model.retensor("b", data=struct.pack(">4e", 1, 2, float("inf"), 3))
    model.retensor("c", data=struct.pack(">2d", 1, float("-inf")))
    found = checks(model.bytes())
    assert [(c.nan, c.inf, c.first) for c in found] == [(1, 0, 1), (0, 1, 2), (0, 1, 1)]


def test_zeros_and_constant_rows_are_notes():
    model = GGUF("llama").tensor("zero", (64, 4), "q4_0", data=bytes(18 * 8))
    model.tensor("ones", (64,), "f32", data=struct.pack("<64f", *[1.0] * 64))
    rows = [struct.pack("<8f", *([float(i)] * 8 if i % 2 else range(8))) for i in range(6)]
    model.tensor("rows", (8, 6), "f32", data=b"".join(rows))
    flat = b"\x00\x3c" + b"\x77" * 16
    bumpy = b"\x00\x3c" + b"\x71" * 16
    model.tensor("quants", (64, 3), "q4_0", data=flat * 2 + bumpy * 2 + flat + bumpy)
    faults, notes = judge(checks(model.bytes()), Memory(model.bytes()))
    assert faults == []
    assert [(n.kind, n.where) for n in notes] == [
        ("zero-tensor", "tensor:zero"), ("constant-rows", "tensor:rows"), ("constant-rows", "tensor:quants"),
    ]  # fmt: skip
    assert "3 of 6 rows" in notes[1].message
    assert "1 of 3 rows" in notes[2].message


def test_tensor_cut_off_is_looked_at_as_far_as_it_goes(tmp_path: Path, cli):
    values = struct.pack("<64f", *[float("nan")] * 64)
    path = GGUF("llama").tensor("w", (64,), data=values).truncate(-102).write(tmp_path / "m.gguf")
    problems = cli("verify", "--data", path, "--format", "json").json["files"][0]["problems"]
    assert [p["kind"] for p in problems] == ["truncated", "not-finite"]
    assert "38 NaN" in problems[1]["message"]


def test_unknown_type_is_said(tmp_path: Path, cli):
    path = GGUF("llama").tensor("w", (32,), 99, data=bytes(32)).write(tmp_path / "m.gguf")
    notes = cli("verify", "--data", path, "--format", "json").json["files"][0]["notes"]
    assert [n["kind"] for n in notes] == ["unknown-size", "not-checked"]


@pytest.mark.oracle
def test_last_float_nan(tmp_path: Path, cli):
    """Case 78: loads and runs normally; only --check-tensors refuses it, and we do."""
    model = llama()
    data = bytearray(model.bytes())
    assert data[-4:] != struct.pack("<f", float("nan"))
    good = model.write(tmp_path / "good.gguf")
    data[-4:] = struct.pack("<f", float("nan"))
    bad = tmp_path / "bad.gguf"
    bad.write_bytes(data)
    assert load(bad).ok
    assert not load(bad, check_tensors=True).ok
    assert load(good, check_tensors=True).ok
    assert cli("verify", "--data", good).code == 0
    result = cli("verify", "--data", bad, "--format", "json")
    assert result.code == 1
    file = result.json["files"][0]
    assert file["checked"] == ["size", "data"]
    assert [(p["kind"], p["where"]) for p in file["problems"]] == [("not-finite", "tensor:blk.0.ffn_up.weight")]
    assert cli("verify", bad).code == 0


@pytest.mark.real
@pytest.mark.oracle
def test_real_models_are_clean(cli, smollm2: Path):
    assert load(smollm2, check_tensors=True).ok
    result = cli("verify", "--data", smollm2, "--format", "json")
    assert (result.code, result.json["files"][0]["problems"]) == (0, [])


def test_memory_stays_small_at_any_size(tmp_path: Path):
    """A sparse file of 1 GiB with two tensors; the limit for the whole process is 300 MB."""
    model = GGUF("llama")
    for i in range(2):
        model.tensor(f"blk.{i}.w", (1 << 14, 1 << 14), "f16", data=b"")
    head = model.header()
    # The builder lays out no data: put the second tensor where the first ends.
    head = head.replace(
        model.string("blk.1.w") + struct.pack("<IQQIQ", 2, 1 << 14, 1 << 14, 1, 0),
        model.string("blk.1.w") + struct.pack("<IQQIQ", 2, 1 << 14, 1 << 14, 1, 1 << 29),
    )
    path = tmp_path / "m.gguf"
    with open(path, "wb") as f:
        f.write(head)
        f.truncate(len(head) + (1 << 30))
        f.seek(len(head) + (1 << 29) + 77 * 2)
        f.write(NAN16)
    # Not ru_maxrss: Linux counts the process that started this one there.
    code = (
        "import sys; from gguftool.cli.main import main; code = main(sys.argv[1:]); "
        "print(next(x for x in open('/proc/self/status') if x.startswith('VmHWM')).split()[1], file=sys.stderr); "
        "sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "verify", "--data", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "blk.1.w (F16): 1 NaN of 268,435,456 elements; first at element 77" in done.stdout
    assert 10_000 < int(done.stderr.split()[-1]) < 300_000


@pytest.mark.parametrize("shape", [(512, 4096), (4096, 3), (2, 150_000), (1 << 21,), (1 << 20, 2, 3)])
def test_what_was_never_written_is_zeros_without_being_read(shape: tuple[int, ...], tmp_path: Path) -> None:
    g = GGUF("llama")
    sizes = {}
    for name in ("f32", "q4_k", "iq4_nl", "bf16", "i8"):
        if shape[0] % TENSOR[name][1] == 0:
            sizes[name] = math.prod(shape) // TENSOR[name][1] * TENSOR[name][2]
            g.tensor(name, shape, name, data=bytes(sizes[name]))
    data = bytearray(g.bytes())
    start = parse_bytes(bytes(data)).data_offset
    rng = random.Random(1)
    path = tmp_path / "m.gguf"
    path.write_bytes(data[:start])
    with open(path, "r+b") as f:
        f.truncate(len(data))
        for _ in range(5):  # islands of numbers in the sea
            at = rng.randrange(start, len(data) - 40_000)
            data[at : at + 30_000] = numbers = rng.randbytes(30_000)
            f.seek(at)
            f.write(numbers)
    source = LocalFile(path)
    h = parse(source)
    done: list[int] = []
    found = check_data(source, h, done.append, jobs=2)
    assert sum(done) == sum(sizes.values())
    assert path.stat().st_blocks * 512 < len(data)
    for mine, read in zip(found, check_data(Memory(bytes(data)), h), strict=True):
        assert mine == read


def test_a_terabyte_of_holes_takes_no_time(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    File(base().records, 2, behind=1 << 40).tensor(b"w", (1 << 10, 1 << 30), kind=8).write(path)
    before = time.process_time()
    faults, notes = judge(check_data(LocalFile(path), parse(LocalFile(path))), LocalFile(path))
    assert time.process_time() - before < 2
    assert (faults, [n.kind for n in notes]) == ([], ["zero-tensor"])
