"""How far weights are apart: every figure held against numpy over what the ``gguf`` package dequantises."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, dequantize

import gguftool
from gguftool.build import kernels
from gguftool.build.apart import Distance
from gguftool.build.datadiff import ABORTING
from gguftool.build.distance import Job, distance, distances
from gguftool.errors import FormatError, ToolFailed
from gguftool.records import replace
from tests.build import GGUF, TENSOR

WIDTH, ROWS = 512, 6
MAKES = kernels.find()
needs_ggml = pytest.mark.skipif(not MAKES.parallel, reason="libggml-python is not installed")


def normal(seed: int, rows: int = ROWS, width: int = WIDTH) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.03, (rows, width)).astype("<f4")


def one(path: Path, kind: str, data: bytes, shape: tuple[int, ...] = (WIDTH, ROWS)) -> gguftool.Tensor:
    g = GGUF().kv("general.architecture", "llama").tensor("blk.0.ffn_up.weight", shape, kind.lower(), data=data)
    return gguftool.open(g.write(path)).tensors["blk.0.ffn_up.weight"]


def expected(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    x, y = x.astype("f8").ravel(), y.astype("f8").ravel()
    d = x - y
    return {
        "relative": float((d**2).sum() / (x**2).sum()),
        "cosine": float((x * y).sum() / np.sqrt((x**2).sum() * (y**2).sum())),
        "largest": float(np.abs(d).max()),
        "mean": float(np.abs(d).mean()),
    }


def agrees(found: Distance, wanted: dict[str, float]) -> None:
    for name, value in wanted.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6), name


@needs_ggml
@pytest.mark.parametrize("kind", sorted(MAKES.writes & {k.upper() for k in TENSOR} - {"F32"}))
def test_every_type_that_the_kernels_know(tmp_path: Path, kind: str) -> None:
    x = normal(1)
    data = bytes(MAKES.convert(x.tobytes(), "F32", kind, ROWS, WIDTH, None))
    a, b = one(tmp_path / "a.gguf", "f32", x.tobytes()), one(tmp_path / "b.gguf", kind, data)
    y = dequantize(np.frombuffer(data, np.uint8).reshape(ROWS, -1), GGMLQuantizationType[kind])
    agrees(distance(a, b), expected(x, y))
    assert distance(a, kind).relative == pytest.approx(expected(x, y)["relative"], rel=1e-6), "our own quantiser"


@needs_ggml
def test_types_that_only_the_kernels_make(tmp_path: Path) -> None:
    """Of those that no other row here has; the smaller ones of them take seconds to begin with."""
    x = normal(2)
    ones = np.ones(WIDTH, "<f4").tobytes()
    a = one(tmp_path / "a.gguf", "f32", x.tobytes())
    for kind in ("IQ3_XXS", "TQ1_0"):
        data = bytes(MAKES.convert(x.tobytes(), "F32", kind, ROWS, WIDTH, ones))
        y = dequantize(np.frombuffer(data, np.uint8).reshape(ROWS, -1), GGMLQuantizationType[kind])
        found = distance(a, kind, importance=ones)
        agrees(found, expected(x, y))
        assert found.weighted == pytest.approx(found.relative, rel=1e-9), "all columns count the same"


def test_without_the_library(tmp_path: Path) -> None:
    x = normal(3)
    y = x.astype("<f2")
    a, b = one(tmp_path / "a.gguf", "f32", x.tobytes()), one(tmp_path / "b.gguf", "f16", y.tobytes())
    agrees(distance(a, b, kernels=kernels._numpy()), expected(x, y))


def test_columns_that_matter_more(tmp_path: Path) -> None:
    x, y = normal(4), normal(4)
    y[:, 7] *= 1.5
    weights = np.zeros(WIDTH, "<f4")
    weights[7] = 2.0
    a, b = one(tmp_path / "a.gguf", "f32", x.tobytes()), one(tmp_path / "b.gguf", "f32", y.tobytes())
    assert distance(a, b, importance=weights.tobytes()).weighted == pytest.approx(0.25, rel=1e-5)
    with pytest.raises(FormatError, match="another width"):
        distance(a, b, importance=weights[:-1].tobytes())


def test_each_expert_has_its_own_importances(tmp_path: Path) -> None:
    x = normal(5, 8, 32)
    y = x.copy()
    y[:4] *= 2.0
    by_expert = np.concatenate([np.zeros(32), np.ones(32)]).astype("<f4")
    shape = (32, 4, 2)
    a, b = one(tmp_path / "a.gguf", "f32", x.tobytes(), shape), one(tmp_path / "b.gguf", "f32", y.tobytes(), shape)
    assert distance(a, b, importance=by_expert.tobytes()).weighted == 0.0, "only the first expert differs"
    assert distance(a, b).weighted is None


def test_nothing_and_no_numbers(tmp_path: Path) -> None:
    zero, x = np.zeros((ROWS, WIDTH), "<f4"), normal(6)
    bad = x.copy()
    bad[2, 3] = np.nan
    a, b = one(tmp_path / "a.gguf", "f32", zero.tobytes()), one(tmp_path / "b.gguf", "f32", x.tobytes())
    c = one(tmp_path / "c.gguf", "f32", bad.tobytes())
    found = list(distances([Job(a, a), Job(a, b), Job(b, c), Job(b, a)]))
    same, from_nothing, broken, to_nothing = found
    assert isinstance(same, Distance)
    assert (same.relative, same.cosine) == (0.0, None)
    assert isinstance(from_nothing, Distance)
    assert from_nothing.relative is None
    assert isinstance(broken, FormatError)
    assert "NaN" in str(broken)
    assert isinstance(to_nothing, Distance)
    assert to_nothing.relative == pytest.approx(1.0), "as far off as nothing at all"


def test_a_sample_is_whole_rows_and_the_same_on_both_sides(tmp_path: Path) -> None:
    x = normal(7, 64)
    y = x.copy()
    y[0, 0] += 1.0  # in the first row, which every sample has
    shape = (WIDTH, 64)
    a, b = one(tmp_path / "a.gguf", "f32", x.tobytes(), shape), one(tmp_path / "b.gguf", "f32", y.tobytes(), shape)
    found = distance(a, b, most=8 * WIDTH)
    assert found.count == 8 * WIDTH
    assert found.largest == pytest.approx(1.0, rel=1e-6)
    assert distance(a, b).count == 64 * WIDTH


@needs_ggml
def test_a_tensor_that_was_quantised_twice_is_found(cli, tmp_path: Path) -> None:
    """Q4_0 first, then Q4_K, beside one that went straight to Q4_K; and one whose rows lie wrong."""
    x = normal(8, 64)

    def made(kind: str, floats: np.ndarray) -> bytes:
        return bytes(MAKES.convert(floats.tobytes(), "F32", kind, 64, WIDTH, None))

    coarse = dequantize(np.frombuffer(made("Q4_0", x), np.uint8).reshape(64, -1), GGMLQuantizationType.Q4_0)
    rows = {"once": x, "twice": coarse.astype("<f4"), "moved": np.roll(x, 1, axis=0)}
    a, b = GGUF().kv("general.architecture", "llama"), GGUF().kv("general.architecture", "llama")
    for number, (name, floats) in enumerate(rows.items()):
        where = f"blk.{number}.{name}.weight"
        a.tensor(where, (WIDTH, 64), "f32", data=x.tobytes())
        b.tensor(where, (WIDTH, 64), "q4_k", data=made("Q4_K", np.ascontiguousarray(floats)))
    found = gguftool.diff(a.write(tmp_path / "a.gguf"), b.write(tmp_path / "b.gguf"), data=True)
    times = {c.name.split(".")[2]: c.times for c in found.data}
    assert times["once"] == pytest.approx(1.0, abs=1e-9)
    assert 1.5 < times["twice"] < 4, "two errors of about the same size add up"
    assert times["moved"] > 100, "other weights altogether"


@needs_ggml
def test_what_needs_importances_is_refused_without(tmp_path: Path) -> None:
    """`ggml.c:ggml_quantize_requires_imatrix`: the kernel would end the process."""
    a = one(tmp_path / "a.gguf", "f32", normal(9).tobytes())
    for kind in ("IQ2_XXS", "IQ2_XS", "IQ1_S"):
        with pytest.raises(FormatError, match="importance matrix"):
            distance(a, kind)


@needs_ggml
def test_an_assertion_of_a_kernel_is_an_error_with_the_tensor(tmp_path: Path, capfd) -> None:
    """`llama-quantize` b11434 dies of it: GGML_ASSERT(grid_index >= 0), exit code 134."""
    a = one(tmp_path / "a.gguf", "f32", normal(10).tobytes())
    with pytest.raises(
        ToolFailed, match=r"blk\.0\.ffn_up\.weight: ggml gave up making IQ3_S: .*GGML_ASSERT\(grid"
    ) as caught:
        distance(a, "IQ3_S", importance=np.full(WIDTH, -1, "<f4").tobytes())
    assert caught.value.exit_code == 6
    assert "gdb" not in capfd.readouterr().err
    assert distance(a, a).relative == 0.0, "the next one is measured"


@needs_ggml
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="finds the child through /proc")
def test_a_child_that_dies_is_an_error(tmp_path: Path) -> None:
    a = one(tmp_path / "a.gguf", "f32", normal(11).tobytes())
    begun = []

    def kill(job: Job) -> None:
        begun.append(job)
        if len(begun) == 2:
            (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            os.kill(int(child), signal.SIGKILL)

    with pytest.raises(ToolFailed, match=r"was killed at blk\.0\.ffn_up\.weight"):
        list(distances([Job(a, a)] * 50, threads=1, tell=kill))
    assert not Path(f"/proc/self/task/{os.getpid()}/children").read_text()


@needs_ggml
def test_the_child_says_the_same_to_the_last_bit(tmp_path: Path) -> None:
    """Sums of odd numbers, rows of one side and of two, many in a batch; one row that is longer than what is shared."""
    x, weights = normal(12, 300), np.random.default_rng(13).random(WIDTH).astype("<f4").tobytes()
    data = bytes(MAKES.convert(x.tobytes(), "F32", "Q4_0", 300, WIDTH, None))
    shape = (WIDTH, 300)
    a, b = one(tmp_path / "a.gguf", "f32", x.tobytes(), shape), one(tmp_path / "b.gguf", "q4_0", data, shape)
    long = one(tmp_path / "long.gguf", "f32", normal(14, 1, 2 << 20).tobytes(), (2 << 20, 1))
    jobs = [Job(a, b), Job(a, b, None, weights), Job(a, None, "Q5_K", weights, 9 * WIDTH), Job(long, long), Job(b, a)]
    here = replace(MAKES, library=None)
    assert list(distances(jobs, MAKES, threads=2)) == list(distances(jobs, here, threads=1))


def test_types_whose_kernels_end_the_process_are_not_tried_on_files_of_others() -> None:
    """`ggml-quants.c` (b11434): GGML_ABORT and asserts stand in the functions of these only."""
    assert {k[:4] for k in MAKES.writes if k.startswith(ABORTING)} <= {"IQ1_", "IQ2_", "IQ3_"}


def test_memory_does_not_grow_with_the_tensor(tmp_path: Path) -> None:
    """A tensor of 160 MiB in a sparse file; the peak is that of a few slabs, not of the tensor."""
    rows = 5 << 10
    script = (
        "import sys, gguftool\n"
        "a, b = (gguftool.open(p).tensors['w.weight'] for p in sys.argv[1:])\n"
        "from gguftool.build.distance import distance\n"
        "assert distance(a, b).count == a.info.elements\n"
        "from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage\n"
        "print(max(getrusage(who).ru_maxrss for who in (RUSAGE_SELF, RUSAGE_CHILDREN)))\n"
    )
    peaks = []
    for factor in (1, 8):
        paths = []
        for name in ("a", "b"):
            g = GGUF().kv("general.architecture", "llama").tensor("w.weight", (1024, rows * factor), "f32", data=b"")
            path = tmp_path / f"{name}{factor}.gguf"
            path.write_bytes(g.header())
            with open(path, "r+b") as file:
                file.truncate(len(g.header()) + 64 + 4 * 1024 * (rows * factor))
            paths.append(path)
        done = subprocess.run([sys.executable, "-c", script, *paths], capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout))
    assert peaks[1] - peaks[0] < 40 << 10, "KiB"
