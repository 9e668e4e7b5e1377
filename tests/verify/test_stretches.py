"""What a disk, a download or a copy left in the middle of a model, told from what a model itself holds of zeros."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import pytest

from gguftool.format.parse import parse_bytes
from gguftool.source import LocalFile
from gguftool.verify.pages import equal_pages
from gguftool.verify.stretches import stretches
from tests.build import GGUF, llama
from tests.edit.scenarios import write_sparse

PAGE = 4096
COLUMNS = 576  # a row of SmolLM2, which has no whole pages
ROWS = 320


def _model(rows: int = ROWS, columns: int = COLUMNS) -> GGUF:
    g = llama()
    rng = random.Random(7)
    for name in ("blk.0.one.weight", "blk.0.two.weight", "blk.0.three.weight", "blk.0.four.weight"):
        # Small numbers of F16 whose highest byte is never zero.
        data = b"".join(bytes((rng.randrange(256), 0x20 + rng.randrange(8))) for _ in range(rows * columns))
        g.tensor(name, (columns, rows), 1, data=data)
    return g


@pytest.fixture(scope="module")
def whole() -> tuple[bytes, dict[str, int]]:
    data = _model().bytes()
    header = parse_bytes(data)
    return data, {t.name: header.where(t)[0] for t in header.tensors}


def _kinds(cli, path: Path) -> tuple[int, list[str], list[str]]:
    found = cli("verify", "--data", path, "--format", "json")
    [one] = found.json["files"]
    return found.code, [p["kind"] for p in one["problems"]], [n["kind"] for n in one["notes"]]


def _page(at: int) -> int:
    return -(-at // PAGE) * PAGE


@pytest.mark.parametrize(
    ("start", "length", "kind"),
    [
        (40_000, 16 * PAGE, "blank-stretch"),  # in one tensor
        (40_000, 25 * PAGE, "blank-stretch"),
        (ROWS * COLUMNS * 2 - 40_000, 20 * PAGE, "blank-stretch"),  # over a border of tensors
        (200_000, 200 * PAGE, "blank-stretch"),  # over two whole tensors
        (200_000, 10_000_000, "blank-stretch"),  # to the end: room that was reserved for a download
    ],
)
def test_zeros_from_page_to_page(cli, tmp_path: Path, whole, start: int, length: int, kind: str) -> None:
    data, at = whole
    begin = _page(at["blk.0.one.weight"] + start)
    damaged = bytearray(data)
    damaged[begin : begin + length] = bytes(min(length, len(data) - begin))
    path = tmp_path / "m.gguf"
    path.write_bytes(damaged)
    code, faults, notes = _kinds(cli, path)
    assert (code, faults) == (1, [kind])
    assert "zero-tensor" not in notes
    found = cli("verify", "--data", path).out
    assert f"bytes {begin:,} to" in found


def test_a_buffer_that_was_written_again_and_again(cli, tmp_path: Path, whole) -> None:
    data, at = whole
    begin = _page(at["blk.0.two.weight"] + 20_000)
    damaged = bytearray(data)
    for i in range(1, 40):
        damaged[begin + i * PAGE : begin + (i + 1) * PAGE] = data[begin : begin + PAGE]
    path = tmp_path / "m.gguf"
    path.write_bytes(damaged)
    assert _kinds(cli, path)[:2] == (1, ["repeated-stretch"])


def test_two_faults_at_once(cli, tmp_path: Path, whole) -> None:
    data, at = whole
    first, second = _page(at["blk.0.one.weight"] + 9000), _page(at["blk.0.four.weight"] + 9000)
    damaged = bytearray(data)
    damaged[first : first + 20 * PAGE] = bytes(20 * PAGE)
    damaged[second : second + 20 * PAGE] = b"\x33" * (20 * PAGE)
    path = tmp_path / "m.gguf"
    path.write_bytes(damaged)
    assert _kinds(cli, path)[:2] == (1, ["blank-stretch", "repeated-stretch"])


def test_bytes_that_were_never_written(cli, tmp_path: Path, whole) -> None:
    data, at = whole
    begin = _page(at["blk.0.one.weight"] + 40_000)
    path = tmp_path / "m.gguf"
    with open(path, "wb") as f:
        f.write(data[:begin])
        f.seek(begin + 30 * PAGE)
        f.write(data[begin + 30 * PAGE :])
    assert _kinds(cli, path)[:2] == (1, ["blank-stretch"])


NAMES = (
    "tokens that were never trained: zero rows", "a tensor of zeros", "two tensors of zeros, side by side",
    "all zeros: a model that was never trained", "a tensor of ones", "zeros from anywhere to anywhere",
    "zero rows of 4,096 bytes",
)  # fmt: skip


@cache
def _sound() -> dict[str, bytes]:
    out: dict[str, bytes] = {}
    row = COLUMNS * 2
    base = bytearray(_model().bytes())
    header = parse_bytes(bytes(base))
    at = {t.name: header.where(t)[0] for t in header.tensors}
    one = at["blk.0.one.weight"]
    edited = bytearray(base)
    edited[one + 100 * row : one + 200 * row] = bytes(100 * row)
    out["tokens that were never trained: zero rows"] = bytes(edited)
    edited = bytearray(base)
    edited[one : one + ROWS * row] = bytes(ROWS * row)
    out["a tensor of zeros"] = bytes(edited)
    edited = bytearray(base)
    edited[one : one + 2 * ROWS * row] = bytes(2 * ROWS * row)
    out["two tensors of zeros, side by side"] = bytes(edited)
    edited = bytearray(base)
    edited[one:] = bytes(len(base) - one)
    out["all zeros: a model that was never trained"] = bytes(edited)
    edited = bytearray(base)
    edited[one : one + ROWS * row] = b"\x00\x3c" * (ROWS * COLUMNS)
    out["a tensor of ones"] = bytes(edited)
    edited = bytearray(base)
    edited[one + 5000 : one + 5000 + 80_001] = bytes(80_001)
    out["zeros from anywhere to anywhere"] = bytes(edited)
    # Rows of whole pages: there a row is no other border than a page.
    wide = bytearray(_model(64, 2048).bytes())
    header = parse_bytes(bytes(wide))
    place = next(header.where(t)[0] for t in header.tensors if t.name == "blk.0.two.weight")
    wide[place + 10 * PAGE : place + 40 * PAGE] = bytes(30 * PAGE)
    out["zero rows of 4,096 bytes"] = bytes(wide)
    return out


@pytest.mark.parametrize("name", NAMES)
def test_what_a_model_itself_holds_of_zeros(cli, tmp_path: Path, name: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(_sound()[name])
    code, faults, _ = _kinds(cli, path)
    assert (code, faults) == (0, [])


@pytest.mark.parametrize("start", [0, 4096, 1, 4095, 70_000])
@pytest.mark.parametrize("seed", range(6))
def test_runs_of_equal_pages_are_those_that_comparing_every_page_finds(start: int, seed: int) -> None:
    """By comparing each page with the next; four equal ones are the least that count."""
    rng = random.Random(seed)
    kinds = [
        bytes(PAGE),
        bytes([0, 0, 7, 0]) * (PAGE // 4),
        rng.randbytes(PAGE),
        bytes(2) + b"\1" + rng.randbytes(4093),
    ]
    data = (
        rng.randbytes(-start % PAGE) + b"".join(rng.choice(kinds) * rng.randrange(1, 9) for _ in range(40)) + b"x" * 9
    )
    first = -start % PAGE
    pages = [data[i : i + PAGE] for i in range(first, len(data) - PAGE + 1, PAGE)]
    wanted, at = [], 0
    while at < len(pages):
        end = at
        while end < len(pages) and pages[end] == pages[at]:
            end += 1
        if end - at >= 4:
            wanted.append((start + first + at * PAGE, start + first + end * PAGE, pages[at][:16]))
        at = end
    assert equal_pages(data, start) == equal_pages(memoryview(bytearray(data)), start) == wanted
    assert wanted


@pytest.mark.parametrize("ends", [(8192, 200_704), (8192 + 100, 200_704 + 9), (12_288, 12_288 + 65_536)], ids=str)
def test_what_was_never_written_is_what_zeros_are(ends: tuple[int, int], tmp_path: Path) -> None:
    """A hole is stepped over; the same bytes written down are gone through page by page."""
    begin, end = ends
    data = bytearray(b"\1" * 400_000)
    data[begin:end] = bytes(end - begin)
    dense, sparse = tmp_path / "dense", tmp_path / "sparse"
    dense.write_bytes(data)
    write_sparse(str(sparse), bytes(data))
    inside = -(-begin // 4096) * 4096
    for first in (inside, inside + 4096 * 3):
        found = []
        for path in (dense, sparse):
            source = LocalFile(str(path))
            found.append(stretches(source, [(first, first + 4 * 4096, bytes(16))], 0))
            source.close()
        assert found[0] == found[1] == [(begin, end, bytes(4096))]
