"""Foreign C code: its verdict on data, and what comes of it when it ends the process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest

from gguftool.build import builtin, imatrix, kernels
from gguftool.build.ftypes import target
from gguftool.build.mixture import Overrides
from gguftool.build.plan import plan_quantize
from gguftool.errors import ToolFailed
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import open_model
from tests.building.models import DENSE, importances, model


@pytest.mark.parametrize(
    "kind", ["F32", "F16", "BF16", "Q8_0", "Q4_K", "IQ1_M", "MXFP4", "F64", "I32", "Q8_1", "NVFP4"]
)
@pytest.mark.parametrize("of", ["ggml", "numpy"])
def test_data_is_judged_as_llama_quantize_judges_it(kind: str, of: str):
    """Zeros and all bits set, with `ggml_validate_row_data` of b11434."""
    chosen = kernels.find() if of == "ggml" else kernels._numpy()
    assert (chosen.library is None) == (of == "numpy")
    size = 4 * TENSOR_TYPE_BY_NAME[kind].block_bytes
    zeros, ones = bytes(size), b"\xff" * size
    # Integers and E4M3 scales have no number that is none; Q8_1 is no type of a file.
    wanted = {"I32": (True, True), "NVFP4": (True, True), "Q8_1": (False, False)}.get(kind, (True, False))
    assert (chosen.valid(kind, zeros), chosen.valid(kind, memoryview(bytearray(ones)))) == wanted


@pytest.mark.parametrize("name", ["Q8_0", "F16", "F32"])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_what_is_only_copied_is_looked_at_too(cli, tmp_path: Path, name: str, bad: float):
    """`llama-quantize` b11434: tensor 'output_norm.weight' has invalid data."""
    values = np.ones(256, "<f4")
    values[200] = bad
    source = model(DENSE, "f16").retensor("output_norm.weight", data=values.tobytes()).write(tmp_path / "in.gguf")
    result = cli("quantize", source, tmp_path / "out.gguf", name, "--engine", "builtin")
    assert result.code == 3
    assert "output_norm.weight, row 0: the source data (F32) holds NaN or infinity" in result.err
    assert "gguftool verify --data" in result.err
    assert os.listdir(tmp_path) == ["in.gguf"]


def test_an_assertion_of_a_kernel_is_an_error_with_the_tensor(tmp_path: Path, capfd):
    """`llama-quantize` b11434 dies of it: GGML_ASSERT(grid_index >= 0), exit code 134."""
    built = importances("llama").retensor("blk.1.ffn_up.weight.in_sum2", data=np.full(256, -1, "<f4").tobytes())
    matrix = imatrix.read(str(built.write(tmp_path / "m.gguf")))
    with open_model(model(DENSE, "f16").write(tmp_path / "in.gguf")) as m:
        plan = plan_quantize(m, target("IQ3_S"), imatrix=matrix.sizes)
        with pytest.raises(
            ToolFailed, match=r"blk\.1\.ffn_up\.weight, rows 0 to 319: ggml gave up making IQ3_S"
        ) as caught:
            builtin.quantize(plan, str(tmp_path / "out.gguf"), kernels.find(), imatrix=matrix.entries, threads=2)
    assert "GGML_ASSERT(grid_index >= 0)" in str(caught.value)
    assert caught.value.exit_code == 6
    assert sorted(os.listdir(tmp_path)) == ["in.gguf", "m.gguf"]
    assert "gdb" not in capfd.readouterr().err


@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="finds the child through /proc")
@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL], ids=lambda n: n.name)
def test_a_child_that_dies_takes_nothing_with_it(tmp_path: Path, number: signal.Signals):
    """Whatever ends it: the tensor it was at is named, and no draft stays."""

    def kill(done: int, total: int) -> None:
        (child,) = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        os.kill(int(child), number)

    with open_model(model(DENSE, "f32").write(tmp_path / "in.gguf")) as m:
        plan = plan_quantize(m, target("IQ3_S"), Overrides(embedding_type="IQ3_S"))
        with pytest.raises(ToolFailed, match=r"the built-in quantiser .* at .*\.weight") as caught:
            builtin.quantize(plan, str(tmp_path / "out.gguf"), kernels.find(), threads=1, progress=kill)
    assert caught.value.exit_code == 6
    assert os.listdir(tmp_path) == ["in.gguf"]
