"""The built-in quantiser writes what the real library writes, and nothing half."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.build import builtin, imatrix, kernels
from gguftool.build.ftypes import TARGETS, target
from gguftool.build.mixture import Overrides
from gguftool.build.plan import plan_quantize
from gguftool.build.provenance import fields, with_imatrix
from gguftool.errors import FormatError, Refused, ToolFailed
from gguftool.files import disk
from gguftool.files.leftovers import MARK
from gguftool.model import open_model
from tests.building.models import CASES, DENSE, importances, model
from tests.conftest import Result

RECORDED = json.loads((Path(__file__).parent.parent / "data" / "building" / "quantize_bytes.json").read_text())[
    "sha256"
]
# These search long for each block.
SLOW = {"IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ2_M", "IQ3_XXS", "IQ3_XS", "IQ3_S", "IQ3_M", "MXFP4_MOE"}
exact = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="recorded on x86-64: rounding differs")


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The models of `CASES` and their importance matrices (``ARCH.imatrix``)."""
    folder = tmp_path_factory.mktemp("models")
    made = {name: model(keys, kind).write(folder / f"{name}.gguf") for name, (keys, kind) in CASES.items()}
    for arch in ("llama", "qwen3moe"):
        made[f"{arch}.imatrix"] = importances(arch).write(folder / f"{arch}-imatrix.gguf")
    return made


def hash_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def quantised(source: Path, output: Path, name: str, matrix: Path | None = None, numpy: bool = False) -> str:
    found = imatrix.read(str(matrix)) if matrix else None
    with open_model(source) as m:
        plan = plan_quantize(m, target(name), imatrix=found.sizes if found else None, allow_requantize=True)
        chosen = kernels._numpy() if numpy else kernels.find()
        builtin.quantize(plan, str(output), chosen, threads=2, imatrix=found.entries if found else None)
    assert output.stat().st_size == plan.file_size
    return hash_of(output)


def is_slow(case: str, key: str) -> bool:
    name, _, matrix = key.partition("+")
    return name in SLOW or bool(matrix and case in ("dense-f32", "dense-q8_0"))


def cases(slow: bool) -> list[tuple[str, str]]:
    return [
        (case, key)
        for case, rows in RECORDED.items()
        for key, value in rows.items()
        # IQ1_M: see the test that compares its blocks.
        if is_slow(case, key) == slow and not (key.startswith("IQ1_M") and value)
    ]


def check(sources: dict[str, Path], tmp_path: Path, case: str, key: str) -> None:
    name, _, with_matrix = key.partition("+")
    matrix = sources[f"{CASES[case][0]['general.architecture']}.imatrix"] if with_matrix else None
    wanted = RECORDED[case][key]
    if wanted is None:
        with pytest.raises(Refused):
            quantised(sources[case], tmp_path / "out.gguf", name, matrix)
    else:
        assert quantised(sources[case], tmp_path / "out.gguf", name, matrix) == wanted


@exact
@pytest.mark.parametrize(("case", "key"), cases(slow=False))
def test_the_file_is_the_one_the_real_library_writes(sources, tmp_path: Path, case: str, key: str):
    check(sources, tmp_path, case, key)


@exact
@pytest.mark.slow
@pytest.mark.parametrize(("case", "key"), cases(slow=True))
def test_the_file_of_a_slow_type_is_the_one_the_real_library_writes(sources, tmp_path: Path, case: str, key: str):
    check(sources, tmp_path, case, key)


@exact
@pytest.mark.parametrize("name", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "BF16", "F16", "F32"])
def test_numpy_kernels_write_the_same_where_the_wheel_is_missing(sources, tmp_path: Path, name: str):
    if name in ("Q4_0", "Q4_1", "Q5_0", "Q5_1"):
        # output.weight would be Q6_K, which numpy cannot make.
        with open_model(sources["dense-f16"]) as m:
            plan = plan_quantize(m, target(name), Overrides(pure=True))
            files = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
            for path, chosen in zip(files, (kernels._numpy(), kernels.find()), strict=True):
                builtin.quantize(plan, str(path), chosen)
        assert hash_of(files[0]) == hash_of(files[1])
    else:
        assert quantised(sources["dense-f16"], tmp_path / "out.gguf", name, numpy=True) == RECORDED["dense-f16"][name]


def test_numpy_kernels_say_what_they_lack(sources, tmp_path: Path):
    with pytest.raises(ToolFailed, match="Q4_K") as caught:
        quantised(sources["dense-f16"], tmp_path / "out.gguf", "Q4_K_M", numpy=True)
    assert "gguftool[quant]" in str(caught.value.hint)
    assert not (tmp_path / "out.gguf").exists()


def test_all_types_of_the_wheel_are_tried():
    assert {t.default for t in TARGETS.values()} <= kernels.find().writes


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["Q8_0", "Q4_K_M"])
def test_a_real_model_is_quantised_as_the_real_library_does_it(
    cli, gemma3: Path, llama_cpp: Path, tmp_path: Path, name
):
    def run(out: str, engine: str, *more: object) -> Path:
        path = tmp_path / out
        args = (gemma3, path, name, "--allow-requantize", "--no-provenance", "--engine", engine, *more)
        result: Result = cli("quantize", *args, "--format", "json")
        assert result.code == 0, result.err
        assert result.json["size"] == path.stat().st_size == result.json["file_size"]
        return path

    ours = run("ours.gguf", "builtin")
    theirs = run("theirs.gguf", "library", "--llama-cpp", llama_cpp)
    assert hash_of(ours) == hash_of(theirs)


@pytest.mark.oracle
def test_library_takes_overrides_imatrix_and_provenance(cli, sources, llama_cpp: Path, tmp_path: Path):
    def run(engine: str, *more: object) -> Path:
        path = tmp_path / f"{engine}.gguf"
        args = (sources["moe-bf16"], path, "Q4_K_M", "--imatrix", sources["qwen3moe.imatrix"])
        result = cli("quantize", *args, "--tensor-type", "attn_q=q8_0", "--engine", engine, *more)
        assert result.code == 0, result.err
        return path

    with open_model(run("builtin")) as ours, open_model(run("library", "--llama-cpp", llama_cpp)) as theirs:
        assert [f.key for f in ours.header.fields] == [f.key for f in theirs.header.fields]
        different = [k for k in ours.fields if ours[k] != theirs[k]]
        assert different == ["gguftool.quantize.engine"]
        assert theirs["gguftool.quantize.engine"] == "libllama v0.5.0"
        assert theirs["quantize.imatrix.entries_count"] == 14
        assert theirs["quantize.imatrix.chunks_count"] == 10
        assert theirs["quantize.imatrix.dataset"] == "calibration.txt"
        for name, tensor in ours.tensors.items():
            assert theirs.tensors[name].type_name == tensor.type_name
            assert theirs.read(name) == ours.read(name), name
        assert ours.tensors["blk.0.attn_q.weight"].type_name == "Q8_0"


def test_provenance_and_imatrix_keys_stand_at_the_end(sources, tmp_path: Path):
    found = imatrix.read(str(sources["llama.imatrix"]))
    extra = fields({"gguftool.version": "0", **with_imatrix(found)})
    with open_model(sources["dense-f16"]) as m:
        plan = plan_quantize(m, target("Q4_0"), imatrix=found.sizes, extra_fields=extra)
        builtin.quantize(plan, str(tmp_path / "out.gguf"), kernels.find(), imatrix=found.entries)
    with open_model(tmp_path / "out.gguf") as made:
        assert [f.key for f in made.header.fields][-7:] == [
            "general.quantization_version",
            "general.file_type",
            "gguftool.version",
            "quantize.imatrix.file",
            "quantize.imatrix.dataset",
            "quantize.imatrix.entries_count",
            "quantize.imatrix.chunks_count",
        ]
        assert made["general.file_type"] == 2


def test_nan_in_the_source_is_found_and_nothing_is_left(tmp_path: Path):
    import numpy as np

    values = np.zeros((256, 320), np.float16)
    values[200, 3] = np.nan
    path = model(DENSE, "f16").retensor("blk.1.ffn_down.weight", data=values.tobytes()).write(tmp_path / "nan.gguf")
    with pytest.raises(FormatError, match=r"blk\.1\.ffn_down\.weight, rows .*NaN"):
        quantised(path, tmp_path / "out.gguf", "Q8_0")
    assert os.listdir(tmp_path) == ["nan.gguf"]


def test_an_existing_file_is_not_replaced(sources, tmp_path: Path):
    (tmp_path / "out.gguf").write_text("mine")
    with pytest.raises(Refused, match="exists"):
        quantised(sources["dense-f16"], tmp_path / "out.gguf", "Q8_0")
    assert (tmp_path / "out.gguf").read_text() == "mine"


def test_a_file_that_appears_meanwhile_is_not_replaced(sources, tmp_path: Path):
    output = tmp_path / "out.gguf"

    def appear(done: int, total: int) -> None:
        output.write_text("mine")

    with open_model(sources["dense-f16"]) as m, pytest.raises(Refused, match="appeared"):
        builtin.quantize(plan_quantize(m, target("Q8_0")), str(output), kernels.find(), progress=appear)
    assert output.read_text() == "mine"
    assert not [n for n in os.listdir(tmp_path) if n.endswith(MARK)]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="needs /proc")
def test_memory_stays_bounded(tmp_path: Path):
    """A tensor of 512 MiB goes through in slabs: the process and its child stay far below its size."""
    built = model(DENSE, "f32").drop_tensor("output.weight").tensor("output.weight", (256, 1 << 19), "f32", b"")
    path = tmp_path / "big.gguf"
    path.write_bytes(built.header())
    with open_model(path, strict=True) as m:
        end = m.header.data_end()
        assert end is not None
    os.truncate(path, end)
    # Not ru_maxrss for itself: Linux counts the process that started this one there.
    script = (
        "import re, resource as r, sys; from gguftool.cli.main import main; code = main(sys.argv[1:]);"
        "print(code, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], "
        "r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss)"
    )
    args = ["-q", "quantize", path, tmp_path / "out.gguf", "Q8_0", "--engine", "builtin", "--format", "json"]
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True)
    code, *peaks = map(int, done.stdout.splitlines()[-1].split())
    assert code == 0, done.stderr
    assert len(peaks) == 2
    assert all(10 * 1024 < peak < 150 * 1024 for peak in peaks), f"{peaks} KiB"


def test_shards_come_out_as_one_file(tmp_path: Path, sources):
    whole = quantised(sources["dense-f16"], tmp_path / "whole.gguf", "Q8_0")
    names = list(open_model(sources["dense-f16"]).tensors)
    for no in range(2):
        part = model(DENSE, "f16").drop_tensor(*(names[6:] if no == 0 else names[:6])).shard(no, 2, len(names))
        part.write(tmp_path / f"m-{no + 1:05d}-of-00002.gguf")
    assert quantised(tmp_path / "m-00001-of-00002.gguf", tmp_path / "joined.gguf", "Q8_0") == whole


def test_a_draft_that_a_killed_run_left_is_swept(sources, tmp_path: Path):
    def draft(target: str) -> Path:
        made = tmp_path / "made"
        made.write_bytes(b"x")
        return made.rename(tmp_path / f".{target}.{made.stat().st_ino}{MARK}")

    draft("out.gguf")
    held, other = draft("out.gguf"), draft("other.gguf")
    copied = tmp_path / f".out.gguf.1{MARK}"
    copied.write_bytes(b"somebody else's")
    with open(held) as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        quantised(sources["dense-f16"], tmp_path / "out.gguf", "Q8_0")
    assert sorted(os.listdir(tmp_path)) == sorted([held.name, other.name, copied.name, "out.gguf"])


def test_a_source_that_changes_meanwhile(sources, tmp_path: Path):
    from gguftool.build import quantize as build
    from gguftool.errors import ChangedMeanwhile

    source = tmp_path / "in.gguf"
    source.write_bytes(sources["dense-f16"].read_bytes())

    def touch(done: int, total: int) -> None:
        os.utime(source, ns=(1, 1))

    with pytest.raises(ChangedMeanwhile):
        build.quantize(str(source), str(tmp_path / "out.gguf"), "Q8_0", progress=touch)
    assert os.listdir(tmp_path) == ["in.gguf"]


@pytest.mark.parametrize("overrides", [{"embedding_type": "Q4_K"}, {"output_type": "Q4_K"}])
def test_rows_that_cannot_hold_the_type_asked_for(tmp_path: Path, overrides: dict[str, str]):
    """llama-quantize would die in an assertion here."""
    built = model(DENSE, "f16")
    for name in ("token_embd.weight", "output.weight"):
        built.retensor(name, shape=(96, 256))
    with open_model(built.write(tmp_path / "in.gguf")) as m:
        plan = plan_quantize(m, target("Q8_0"), Overrides(**overrides))
    assert [r for r in plan.refusals if "rows of 96 do not divide" in r]


@pytest.mark.parametrize("name", ["IQ2_XXS", "IQ2_XS", "IQ1_S"])
def test_types_that_need_importances_never_reach_the_kernels_without(sources, name: str):
    """ggml ends the process there."""
    with open_model(sources["dense-f16"]) as m:
        plan = plan_quantize(m, target("Q4_K_M"), Overrides(embedding_type=name))
    assert "importance matrix" in plan.refusals[0]


def test_integers_are_not_converted(tmp_path: Path):
    built = model(DENSE, "f16").retensor("blk.0.attn_q.weight", type="i32", data=bytes(256 * 256 * 4))
    with open_model(built.write(tmp_path / "in.gguf")) as m:
        assert [r for r in plan_quantize(m, target("Q8_0")).refusals if "is I32, which cannot be converted" in r]


def test_another_alignment_is_kept(tmp_path: Path, sources):
    wide = model(DENSE, "f16").align(64).write(tmp_path / "wide.gguf")
    quantised(wide, tmp_path / "out.gguf", "Q8_0")
    quantised(sources["dense-f16"], tmp_path / "plain.gguf", "Q8_0")
    with open_model(tmp_path / "out.gguf") as ours, open_model(tmp_path / "plain.gguf") as plain:
        assert ours.header.alignment == 64
        assert all(t.info.offset % 64 == 0 for t in ours.tensors.values())
        assert all(ours.read(name) == plain.read(name) for name in plain.tensors)


@pytest.mark.parametrize("version", [2, 3])
def test_older_versions_become_version_3(tmp_path: Path, sources, version: int):
    old = model(DENSE, "f16").version(version).write(tmp_path / "old.gguf")
    quantised(old, tmp_path / "out.gguf", "Q8_0")
    assert hash_of(tmp_path / "out.gguf") == quantised(sources["dense-f16"], tmp_path / "plain.gguf", "Q8_0")


def test_a_full_disk_is_told_and_leaves_nothing(sources, tmp_path: Path):
    """A limit on the size of files stands in for a full disk."""
    script = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000));"
        "from gguftool.cli.main import main; sys.exit(main(sys.argv[1:]))"
    )
    args = ["quantize", sources["dense-f16"], tmp_path / "out.gguf", "Q8_0", "--engine", "builtin"]
    done = subprocess.run([sys.executable, "-c", script, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 5, done.stderr
    assert "disk is full" in done.stderr
    assert os.listdir(tmp_path) == []


def test_a_disk_that_is_too_small_is_told_before_anything_is_written(cli, sources, tmp_path: Path, monkeypatch):
    monkeypatch.setattr(disk, "free_bytes", lambda path: 1000)
    result = cli("quantize", sources["dense-f16"], tmp_path / "out.gguf", "Q8_0", "--engine", "builtin")
    assert result.code == 5
    assert "1,000 are free" in result.err
    assert os.listdir(tmp_path) == []


@pytest.mark.slow
@pytest.mark.oracle
def test_iq1_m_differs_in_few_blocks_and_is_as_good(cli, sources, llama_cpp: Path, tmp_path: Path):
    """Its search compares sums of floats that compilers add up in different orders: about 1 block of 100 differs."""
    import numpy as np
    from gguf import GGMLQuantizationType, quants

    args = ("IQ1_M", "--imatrix", sources["llama.imatrix"], "--no-provenance")
    for engine, more in (("builtin", ()), ("library", ("--llama-cpp", llama_cpp))):
        out = tmp_path / f"{engine}.gguf"
        assert cli("quantize", sources["dense-f32"], out, *args, "--engine", engine, *more).code == 0
    blocks = different = 0
    with (
        open_model(tmp_path / "builtin.gguf") as ours,
        open_model(tmp_path / "library.gguf") as theirs,
        open_model(sources["dense-f32"]) as source,
    ):
        for name, tensor in ours.tensors.items():
            assert tensor.type_name == theirs.tensors[name].type_name
            if tensor.type_name != "IQ1_M":
                assert ours.read(name) == theirs.read(name)
                continue
            wanted = np.frombuffer(source.read(name), "<f4").reshape(-1, 256)
            pair = [np.frombuffer(m.read(name), np.uint8).reshape(-1, 56) for m in (ours, theirs)]
            blocks += len(pair[0])
            different += int((pair[0] != pair[1]).any(axis=1).sum())
            errors = [np.square(quants.dequantize(x, GGMLQuantizationType.IQ1_M) - wanted).mean() for x in pair]
            assert abs(errors[0] / errors[1] - 1) < 0.001, name
    assert blocks > 1000
    assert different < 0.02 * blocks
