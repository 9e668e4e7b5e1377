"""Options of llama-quantize: the same files, and what has no effect is told."""

from __future__ import annotations

import hashlib
import platform
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.model import open_model
from tests.building.models import DENSE, model
from tests.building.option_cases import CASES, recorded, write
from tests.conftest import Result

Cli = Callable[..., Result]
exact = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="recorded on x86-64: rounding differs")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("options")
    write(made)
    return made


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch, built_in: None) -> Path:
    monkeypatch.chdir(folder)
    return folder


def made(folder: Path) -> dict[str, str]:
    found = {p.name.removeprefix("out"): hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.glob("out*")}
    for path in folder.glob("out*"):
        path.unlink()
    return found


def words(case: str) -> tuple[list[str], str, str]:
    *options, source, kind = shlex.split(case.replace("\\", "\\\\"))
    return options, source, kind


def test_all_cases_are_recorded():
    assert set(recorded()) == set(CASES)
    assert sum(not files for files in recorded().values()) == 4


@exact
@pytest.mark.parametrize("case", CASES)
def test_the_files_are_those_of_llama_quantize(cli: Cli, here: Path, case: str):
    options, source, kind = words(case)
    told = cli("quantize", source, "out.gguf", kind, *options, "--no-provenance", "--dry-run", "--format", "json")
    assert made(here) == {}
    result = cli("quantize", source, "out.gguf", kind, *options, "--no-provenance", "--format", "json")
    wanted = recorded()[case]
    if not wanted:
        assert result.code in (2, 3)
        return
    assert result.code == 0, result.err
    sizes = [(here / f["path"]).stat().st_size for f in result.json["files"]]
    assert [f["size"] for f in told.json["files"]] == sizes
    assert sum(sizes) == told.json["file_size"] == result.json["size"]
    assert made(here) == wanted


OTHERS = (CASES[10], CASES[12], CASES[13], CASES[18], CASES[20])


@exact
@pytest.mark.oracle
@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("engine", ["library", "llama-quantize"])
def test_other_engines_get_the_options_too(
    cli: Cli, here: Path, tmp_path: Path, llama_cpp: Path, monkeypatch: pytest.MonkeyPatch, engine: str, case: str
):
    """The library of the packages is older than what was recorded; these five it writes alike."""
    import sys

    options, source, kind = words(case)
    place = llama_cpp
    if engine == "llama-quantize":
        root = Path(__file__).resolve().parents[2]
        script = tmp_path / "llama-quantize"
        stand_in = root / "tests" / "building" / "llama_quantize.py"
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{root}" exec "{sys.executable}" "{stand_in}" "$@"\n')
        script.chmod(0o755)
        monkeypatch.setenv("LIBLLAMA", str(llama_cpp))
        place = tmp_path
    args = ("--no-provenance", "--engine", engine, "--llama-cpp", place)
    result = cli("quantize", source, "out.gguf", kind, *options, *args)
    assert result.code == 0, result.err
    assert made(here) == recorded()[case]


def test_a_set_that_stayed_one_is_what_split_and_merge_take(cli: Cli, here: Path, tmp_path: Path):
    out = tmp_path / "out.gguf"
    assert cli("quantize", "s-00001-of-00003.gguf", out, "Q8_0", "--keep-split").code == 0
    first = tmp_path / "out-00001-of-00003.gguf"
    assert cli("verify", first).code == 0
    assert cli("merge", first, "-o", tmp_path / "one.gguf").code == 0
    assert cli("quantize", "d.gguf", tmp_path / "whole.gguf", "Q8_0").code == 0
    with open_model(tmp_path / "one.gguf") as merged, open_model(tmp_path / "whole.gguf") as whole:
        assert {n: merged.read(n) for n in merged.tensors} == {n: whole.read(n) for n in whole.tensors}
    assert cli("split", tmp_path / "whole.gguf", "--max-tensors", 9, "-o", tmp_path / "again.gguf").code == 0


def test_a_set_is_all_there_or_nothing(cli: Cli, here: Path, tmp_path: Path):
    taken = tmp_path / "out-00002-of-00003.gguf"
    taken.write_text("mine")
    result = cli("quantize", "s-00001-of-00003.gguf", tmp_path / "out.gguf", "Q8_0", "--keep-split")
    assert (result.code, taken.name in result.err) == (4, True)
    assert [p.name for p in tmp_path.iterdir()] == [taken.name]
    assert taken.read_text() == "mine"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("Q4_0 --tensor-type ffn_dwon=q8_0", "ffn_dwon=Q8_0 matches no tensor of this model; it has ffn_down"),
        ("Q4_0 --tensor-type attn_norm=q8_0", "changes nothing: blk.0.attn_norm.weight is never quantised"),
        ("Q4_0 --tensor-type attn=q8_0 --tensor-type attn_q=q5_0", "attn_q=Q5_0 changes nothing: a pattern before it"),
        ("Q4_0 --output-tensor-type q8_0 --tensor-type ^output=q5_0", "another option names its type"),
        ("F16 --tensor-type attn=q8_0", "no effect, F16 is a conversion"),
        ("COPY --tensor-type attn=q8_0 --pure", "no effect, COPY copies every tensor"),
        ("Q4_0 --include-weights attn", "--include-weights attn: no effect without --imatrix"),
        ("Q4_0 --imatrix im.gguf --exclude-weights nope", "--exclude-weights nope matches no entry"),
        ("Q4_0 --imatrix im.gguf --include-weights nope", "nothing of the importance matrix is left"),
        ("Q4_0 --override-kv llama.block_count=int:1", "depends on: layers 2 -> 1"),
        ("Q4_0 --override-kv llama.context_length=str:512", "is u32 in the source, and becomes str"),
        ("Q4_0 --override-kv x=int:-7", "llama-quantize writes 7"),
    ],
)
def test_what_has_no_effect_is_told(cli: Cli, here: Path, options: str, said: str):
    kind, *rest = options.split()
    result = cli("quantize", "d.gguf", "out.gguf", kind, *rest, "--dry-run")
    assert result.code == 0, result.err
    assert said in result.err.replace("\n", " ")


def test_a_list_for_other_models_is_told_shortly(cli: Cli, here: Path, tmp_path: Path):
    (tmp_path / "types.txt").write_text("".join(f"blk.{i}.attn_q=q8_0\n" for i in range(40)))
    args = ("--tensor-type-file", tmp_path / "types.txt", "--dry-run", "--format", "json")
    said = cli("quantize", "d.gguf", "Q4_0", *args).json["warnings"]
    assert len(said) == 6
    assert said[-1] == "and 33 more of --tensor-type that change nothing"


def test_what_has_its_effect_is_not_told(cli: Cli, here: Path):
    options = ("--tensor-type", "attn_q=q8_0", "--tensor-type", "ffn_down=q8_0", "--imatrix", "im.gguf")
    result = cli("quantize", "d.gguf", "Q4_0", *options, "--exclude-weights", "ffn_up", "--dry-run", "--format", "json")
    assert [text for text in result.json["warnings"] if "no entry for" not in text] == []


def test_fewer_layers_are_what_was_asked_for(cli: Cli, source: Path, tmp_path: Path, built_in: None):
    out = tmp_path / "out.gguf"
    result = cli("quantize", source, out, "Q8_0", "--prune-layers", 0, "--format", "json")
    assert (result.code, result.json["warnings"]) == (0, [])
    with open_model(out) as m:
        assert m.arch.block_count == 1
        assert m["general.file_type"] == 7
    assert cli("lint", out, "--fail-on", "error").code == 0


def test_a_result_that_would_not_load_is_refused(cli: Cli, source: Path, built_in: None):
    """A model that llama.cpp loads: with another width its heads are others, too."""
    plain = cli("quantize", source, "Q8_0", "--dry-run", "--override-kv", "general.name=str:x")
    assert (plain.code, plain.err) == (0, "")
    result = cli("quantize", source, "Q8_0", "--dry-run", "--override-kv", "llama.embedding_length=int:96")
    assert (result.code, "would refuse it after this change" in result.out) == (4, True), result.out
    assert "leave out the key that it follows from" in result.err


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        ("Q4_0 --tensor-type attn_q", 2, "expected NAME=TYPE"),
        ("Q4_0 --tensor-type attn_q=", 2, "expected NAME=TYPE"),
        ("Q4_0 --tensor-type attn_q=q8_1", 2, "Q8_1 is a tensor type that nothing is quantised to"),
        ("Q4_0 --tensor-type (?<=k)x=q8_0", 2, "(?!"),
        ("Q4_0 --tensor-type a(=q8_0", 2, "a parenthesis is not closed"),
        ("Q4_0 --tensor-type-file none.txt", 2, "no such file"),
        ("Q4_0 --prune-layers 9", 2, "there is no layer 9 in this model"),
        ("Q4_0 --prune-layers x", 2, "is no number of a layer"),
        ("Q4_0 --prune-layers 0,1", 4, "no layer would be left"),
        ("Q4_0 --override-kv a=u32:1", 2, "TYPE one of int, float, bool, str"),
        ("Q4_0 --override-kv a=int:x", 2, "expected a whole number"),
        ("Q4_0 --override-kv a=int:4294967296", 2, "written as u32"),
        ("Q4_0 --override-kv a=float:1e99", 2, "that an f32 holds"),
        ("Q4_0 --override-kv a=bool:yes", 2, "a bool is true or false"),
        ("Q4_0 --override-kv general.alignment=int:64", 2, "does not load"),
        ("Q4_0 --override-kv a=int:1 --override-kv a=int:2", 2, "a is named twice"),
        ("Q4_0 --include-weights a --exclude-weights b", 2, "cannot be used together"),
        ("UD-Q4_K_XL", 2, "UD- and _XL are mixtures of others; did you mean"),
        ("Q4_0 out.gguf", 2, "TYPE stands behind OUT: gguftool quantize d.gguf out.gguf Q4_0"),
        ("MXFP4", 2, "did you mean MXFP4_MOE"),
        ("99", 2, "no quantisation with the number 99"),
        ("Q4_0 --keep-split --prune-layers 1", 4, "nothing would be left in file 3"),
    ],
)
def test_wrong_wishes(cli: Cli, here: Path, options: str, code: int, said: str):
    kind, *rest = options.split()
    source = "d.gguf"
    if "--keep-split" in rest:
        # Everything of the second layer in a file of its own.
        with open_model("d.gguf") as m:
            second = [n for n in m.tensors if n.startswith("blk.1.")]
            parts = [[n for n in m.tensors if n.startswith(p)] for p in ("blk.0", "output", "blk.1", "token")]
        assert len(second) == len(parts[2])
        for no, names in enumerate(parts):
            part = model(DENSE, "f16").drop_tensor(*(n for group in parts if group is not names for n in group))
            part.shard(no, 4, sum(map(len, parts))).write(here / f"x-{no + 1:05d}-of-00004.gguf")
        source = "x-00001-of-00004.gguf"
    result = cli("quantize", source, kind, *rest, "--dry-run")
    assert (result.code, said in result.err) == (code, True), result.err


def test_negative_importances_are_told_before_a_kernel_dies_of_them(cli: Cli, here: Path):
    import numpy as np

    from tests.building.models import importances

    built = importances("llama").retensor("blk.1.ffn_up.weight.in_sum2", data=np.full(256, -1, "<f4").tobytes())
    built.write(here / "neg.gguf")
    for kind in ("IQ2_XS", "IQ3_S"):
        result = cli("quantize", "d.gguf", "out.gguf", kind, "--imatrix", "neg.gguf")
        assert (result.code, "values below zero for 1 tensors" in result.err) == (4, True), result.err
        assert "blk.1.ffn_up.weight" in result.err
    result = cli("quantize", "d.gguf", "out.gguf", "Q4_0", "--imatrix", "neg.gguf", "--dry-run")
    assert (result.code, "which no sum of squares is: blk.1.ffn_up.weight" in result.err) == (0, True)


def test_the_table_takes_the_options(cli: Cli, here: Path):
    args = ("--prune-layers", 0, "--tensor-type", "ffn_down=q8_0", "--override-kv", "general.name=str:Tiny")
    table = cli("quantize", "d.gguf", "--fits", "1MiB", *args, "--format", "json").json
    sizes = {row["type"]: row["file_size"] for row in table["targets"]}
    assert cli("quantize", "d.gguf", "out.gguf", "Q4_0", *args).code == 0
    assert sizes["Q4_0"] == (here / "out.gguf").stat().st_size
    made(here)


def test_prepare_takes_them_too(cli: Cli, source: Path, tmp_path: Path, built_in: None):
    out, types = tmp_path / "out.gguf", tmp_path / "types.txt"
    types.write_text("attn_q=q4_0 ffn_down=q5_0")
    args = ("--prune-layers", 0, "--override-kv", "general.name=str:Tiny", "--tensor-type-file", types)
    result = cli("prepare", source, "-o", out, "--quantize", 7, *args, "--fail-on", "never")
    assert result.code == 0, result.err
    with open_model(out) as m:
        assert (m.arch.block_count, m["general.name"]) == (1, "Tiny")
        kinds = {n: t.type_name for n, t in m.tensors.items()}
    assert (kinds["blk.0.attn_q.weight"], kinds["blk.0.attn_k.weight"]) == ("Q4_0", "Q8_0")
    assert kinds["blk.0.ffn_down.weight"] == "Q5_0"
    again = cli("prepare", source, "-o", out, "--quantize", 7, "--fail-on", "never")
    assert (again.code, "exists" in again.err) == (4, True)
