"""No warning of numpy reaches the terminal, whatever numbers a file holds; what came of them is judged."""

from __future__ import annotations

import struct
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from gguftool.build import imatrix, kernels
from gguftool.errors import FormatError
from tests.build import GGUF, llama

NAN, INF = float("nan"), float("inf")
HOSTILE = {
    (NAN, 1.0): False, (INF, INF): True, (INF, 3.0): False, (1e38, 1e-45): True, (1.0, NAN): True, (-INF, 0.0): True,
    (INF, 0.4): True, (NAN, NAN): True, (3e38, -3e38): True,
}  # fmt: skip
"""Sum and count, and whether llama.cpp finds a number: 1 where the count is not above 0 (`quantize.cpp`, b11434)."""
SIGNALING = {"f32": b"\x01\x00\xa0\x7f", "f16": b"\x01\x7d", "f64": b"\x01" + bytes(5) + b"\xf0\x7f"}


@pytest.fixture(autouse=True)
def loud() -> Iterator[None]:
    """Every warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def _matrix(value: float, count: float) -> bytes:
    made = GGUF("").kv("general.type", "imatrix").kv("imatrix.datasets", ["a.txt"]).kv("imatrix.chunk_count", 2)
    made.tensor("blk.0.attn_q.weight.in_sum2", (32,), "f32", data=struct.pack("<f", value) * 32)
    return made.tensor("blk.0.attn_q.weight.counts", (1,), "f32", data=struct.pack("<f", count)).bytes()


@pytest.mark.parametrize(("given", "good"), HOSTILE.items(), ids=str)
def test_importances(given: tuple[float, float], good: bool, cli, tmp_path: Path) -> None:
    path = tmp_path / "imatrix.gguf"
    path.write_bytes(_matrix(*given))
    if good:
        assert set(struct.unpack("<32f", imatrix.read(str(path)).entries["blk.0.attn_q.weight"])) == {1.0}
    else:
        with pytest.raises(FormatError, match="NaN or infinity"):
            imatrix.read(str(path))
    assert cli("lint", "--no-config", path).code in (0, 1)


def test_importances_in_their_old_form(tmp_path: Path) -> None:
    path = tmp_path / "imatrix.dat"
    for value in (NAN, INF):
        path.write_bytes(struct.pack("<iii", 1, 1, 1)[:8] + b"q" + struct.pack("<ii2f", 2, 2, value, 1.0))
        with pytest.raises(FormatError, match="NaN or infinity"):
            imatrix.read(str(path))


def _change(cli, *paths: Path) -> dict[str, object]:
    rows = cli("diff", "--data", "--format", "json", *paths).json["data"]["differ"]
    return next(row for row in rows if row["name"] == "a.weight")


@pytest.mark.parametrize("kind", SIGNALING)
def test_data_that_is_no_number(kind: str, cli, tmp_path: Path) -> None:
    """`verify --data` names it, `diff --data` measures no distance to it."""
    bad = SIGNALING[kind] * 64
    one = llama().tensor("a.weight", (64,), kind, data=bad).write(tmp_path / "a.gguf")
    two = llama().tensor("a.weight", (64,), "f32", data=struct.pack("<f", 1.0) * 64).write(tmp_path / "b.gguf")
    done = cli("verify", "--data", one)
    assert (done.code, "a.weight" in done.out and "64 NaN of 64 elements" in done.out) == (1, True), done.out + done.err
    change = _change(cli, one, two)
    assert (change["name"], change["mean"], change["why"]) == ("a.weight", None, "holds NaN or infinity")


def test_the_widest_distance_there_is(cli, tmp_path: Path) -> None:
    """3e38 and -3e38 are further apart than any float32."""
    pair = [
        llama().tensor("a.weight", (32,), "f32", data=struct.pack("<f", v) * 32).write(tmp_path / f"{v}.gguf")
        for v in (3e38, -3e38)
    ]
    change = _change(cli, *pair)
    assert change["mean"] == pytest.approx(6e38)
    assert change["cosine"] == pytest.approx(-1.0)


def test_the_kernels_of_numpy() -> None:
    """Quantising what is too large for its scale, and too small for it."""
    pytest.importorskip("gguf")
    numpy = kernels._numpy()
    for value in (3e38, 1e-45, -1e-40):
        numpy.convert(struct.pack("<f", value) * 32, "F32", "Q8_0", 1, 32, None)
    assert not numpy.valid("Q8_0", b"\x00\x7e" + b"\x7f" * 32)
    numpy.convert(b"\x00\x7e" + b"\x7f" * 32, "Q8_0", "F32", 1, 32, None)
