"""``gguftool imatrix``: measured by the real library and by a program that stands for llama-imatrix, shown, merged."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from gguftool.build.imatrix.matrix import load
from gguftool.run.imatrix import Wanted, measure_imatrix
from gguftool.run.imatrixchild import plain_name
from gguftool.run.measurer import available
from tests.building.moe import TEXT, moe
from tests.json_schemas import check_schema

DATA = Path(__file__).parent.parent / "data" / "imatrix"
needs_library = pytest.mark.skipif(not available(), reason="xllamacpp is not installed in the version we know")
SETTINGS = ("--text", "text.txt", "--chunk", "64", "--process-output")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the model, its text and the recorded matrix."""
    folder = tmp_path_factory.mktemp("measured")
    (folder / "moe.gguf").write_bytes(moe().bytes())
    (folder / "text.txt").write_text(TEXT)
    for name in ("moe.gguf.gz", "moe.dat.gz"):
        (folder / f"recorded.{name[4:-3]}").write_bytes(gzip.decompress((DATA / name).read_bytes()))
    return folder


@pytest.fixture
def here(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(made)
    for name in ("LLAMA_CPP_DIR", "GGUFTOOL_LLAMA_IMATRIX"):
        monkeypatch.delenv(name, raising=False)
    return made


def listed(folder: Path) -> set[str]:
    return set(os.listdir(folder))


@needs_library
def test_the_library_measures_what_llama_imatrix_does(cli, here: Path, tmp_path: Path) -> None:
    before = listed(tmp_path)
    done = cli("imatrix", "moe.gguf", *SETTINGS, "--chunks", 2, "-o", tmp_path / "m.gguf", "--engine", "library",
               "--format", "json")  # fmt: skip
    assert done.code == 0, done.err
    assert listed(tmp_path) - before == {"m.gguf"}
    check_schema(done.json)
    assert done.json["perplexity"] == pytest.approx(288.8592, rel=1e-3), "the program's: 288.8592 +/- 0.84197"
    ours, theirs = load(str(tmp_path / "m.gguf")), load("recorded.gguf")
    assert (ours.chunks, ours.chunk_size, ours.datasets) == (2, 64, ("text.txt",))
    assert set(ours.entries) == set(theirs.entries), "experts, routers and, as asked, the output"
    for name, there in theirs.entries.items():
        own = ours.entries[name]
        assert own.counts.tolist() == there.counts.tolist(), name
        np.testing.assert_allclose(own.squares, there.squares, rtol=5e-3, err_msg=name)
        size = np.sqrt(there.squares * np.maximum(there.counts[:, None], 1))
        assert np.all(np.abs(own.sums - there.sums) <= 5e-3 * size), name


@needs_library
def test_resumed_and_saved_in_between_is_the_same(here: Path, tmp_path: Path) -> None:
    def measure(name: str, **more: object) -> Path:
        wanted = Wanted(text="text.txt", chunk=64, engine="library", threads=1, **more)  # type: ignore[arg-type]
        done = measure_imatrix("moe.gguf", str(tmp_path / name), wanted)
        return Path(done.path)

    whole = measure("whole.gguf", chunks=4)
    measure("parts.gguf", chunks=2, every=1)
    parts = measure("parts.gguf", chunks=4, resume=True)
    one, other = load(str(whole)), load(str(parts))
    assert (other.chunks, other.datasets) == (4, ("text.txt",))
    for name, entry in one.entries.items():
        assert other.entries[name].counts.tolist() == entry.counts.tolist()
        np.testing.assert_allclose(other.entries[name].squares, entry.squares, rtol=1e-5)
    assert listed(tmp_path) == {"whole.gguf", "parts.gguf"}


@needs_library
def test_a_text_that_is_too_short(cli, here: Path, tmp_path: Path) -> None:
    done = cli(
        "imatrix", "moe.gguf", "--text", "text.txt", "--chunk", 2000, "-o", tmp_path / "m.gguf", "--engine", "library"
    )
    assert done.code == 2
    assert "which are 0 chunks of 2,000" in done.err
    assert listed(tmp_path) == set()


@needs_library
def test_a_model_that_does_not_load(cli, here: Path, tmp_path: Path) -> None:
    from tests.build import GGUF

    bad = tmp_path / "m.gguf"
    bad.write_bytes(GGUF().kv("general.architecture", "llama").tensor("token_embd.weight").bytes())
    done = cli("imatrix", bad, "-o", tmp_path / "x.gguf", "--engine", "library")
    assert done.code == 6
    assert "key not found" in done.err
    assert listed(tmp_path) == {"m.gguf"}


@pytest.mark.real
@needs_library
def test_a_real_model(cli, smollm2: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.dat"
    done = cli("imatrix", smollm2, "--chunk", 32, "--chunks", 1, "-o", out, "--engine", "library", "--format", "json")
    assert done.code == 0, done.err
    assert (done.json["form"], done.json["coverage"]["tensors"]) == ("dat", 210), "seven matrices in each of 30 layers"
    shown = cli("imatrix", "--show", out, smollm2)
    assert shown.code == 0, shown.out
    assert "it goes with this model" in shown.out


PROGRAM = """#!{python}
import json, os, sys
if "--help" in sys.argv:
    print("-m, --model FNAME\\n        model\\n--chunks N\\n        chunks\\n--from-chunk N\\n        first\\n{more}")
    sys.exit()
out = sys.argv[sys.argv.index("-o") + 1]
json.dump([sys.argv[1:], os.getcwd()], open({said!r}, "w"))
if {fails!r}:
    print("collect_imatrix: non-finite values detected in blk.0.attn_q.weight")
    sys.exit(1)
print("compute_imatrix: computing over 2 chunks, n_ctx=64")
print("[1]289.3627,[2]288.8592,")
print("Final estimate: PPL = 288.8592 +/- 0.84197")
open(out, "wb").write(open({result!r}, "rb").read())
"""


def stand_in(folder: Path, result: Path, *, more: str = "", fails: bool = False) -> Path:
    """A llama-imatrix that writes a recorded file."""
    path = folder / "llama-imatrix"
    text = PROGRAM.format(python=sys.executable, said=str(folder / "said"), result=str(result), more=more, fails=fails)
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("kind", "more"), [("gguf", "--output-format {gguf,dat}\\n        form"), ("dat", "")])
def test_the_program_is_driven(cli, here: Path, tmp_path: Path, kind: str, more: str) -> None:
    program = stand_in(tmp_path, here / f"recorded.{kind}", more=more)
    out = tmp_path / "out" / "m.gguf"
    out.parent.mkdir()
    done = cli("imatrix", here / "moe.gguf", "--text", "text.txt", "--chunk", 64, "--chunks", 2, "--from-chunk", 3,
               "--threads", 2, "-o", out, "--llama-cpp", tmp_path, "--format", "json")  # fmt: skip
    assert done.code == 0, done.err
    assert done.json["engine"] == str(program)
    assert done.json["perplexity"] == 288.8592
    words, folder = json.loads((tmp_path / "said").read_text())
    assert folder == str(here), "so that the file names the text by its name alone"
    said = dict(zip(words[::2], words[1::2], strict=False))
    assert {k: said[k] for k in ("-m", "-f", "-c", "-b", "-t", "--chunks", "--from-chunk")} == {
        "-m": str(here / "moe.gguf"), "-f": "text.txt", "-c": "64", "-b": "64", "-t": "2", "--chunks": "2",
        "--from-chunk": "3",
    }  # fmt: skip
    assert ("--output-format" in said) == bool(more)
    assert listed(out.parent) == {"m.gguf"}
    found, recorded = load(str(out)), load(str(here / f"recorded.{kind}"))
    assert (found.legacy, found.chunk_size, found.datasets) == (False, 64, ("text.txt",))
    for name, entry in recorded.entries.items():
        np.testing.assert_allclose(found.entries[name].means().ravel(), entry.means().ravel(), rtol=1e-6)


def test_a_program_that_fails_or_lacks_an_option(cli, here: Path, tmp_path: Path) -> None:
    stand_in(tmp_path, here / "recorded.gguf", fails=True)
    ask = ("imatrix", here / "moe.gguf", "--text", "text.txt", "-o", tmp_path / "m.gguf", "--llama-cpp", tmp_path)
    done = cli(*ask)
    assert done.code == 6
    assert "non-finite values detected in blk.0.attn_q.weight" in done.err
    assert listed(tmp_path) == {"llama-imatrix", "said"}
    done = cli(*ask, "--parse-special")
    assert done.code == 6
    assert "has no option --parse-special" in done.err


def test_shown_and_checked_against_a_model(cli, here: Path) -> None:
    shown = cli("imatrix", "--show", "recorded.gguf", "moe.gguf", "--tensors")
    assert shown.code == 0, shown.err
    assert "24 in 6 tensors: 0 saw no token, 24 fewer than 100" in shown.out
    assert "blk.1.ffn_down_exps.weight" in shown.out
    told = cli("imatrix", "--show", "recorded.dat", "--format", "json")
    assert told.code == 0
    check_schema(told.json)
    assert told.json["form"] == "dat"


def test_a_matrix_of_another_model(cli, here: Path, tmp_path: Path) -> None:
    from tests.building.models import DENSE, model

    other = tmp_path / "dense.gguf"
    other.write_bytes(model(DENSE, "f16").bytes())
    done = cli("imatrix", "--show", "recorded.gguf", other, "--format", "json")
    assert done.code == 0, "what both have is of one width"
    (strange,) = [f for f in done.json["flaws"] if "this model does not have" in f["message"]]
    assert strange["outcome"] == "doubt"
    from tests.build import llama

    narrow = tmp_path / "narrow.gguf"
    narrow.write_bytes(llama(layers=2).bytes())
    done = cli("imatrix", "--show", "recorded.gguf", narrow)
    assert done.code == 1
    assert "it does not go with this model" in done.out
    assert "measured on another model" in done.out


def test_merged_by_the_command(cli, here: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.dat"
    assert cli("imatrix", "--merge", "recorded.gguf").code == 2, "it has to be told where to"
    done = cli("imatrix", "--merge", "recorded.gguf", "-o", out, "--format", "json")
    assert done.code == 0, done.err
    check_schema(done.json)
    assert out.read_bytes() == (here / "recorded.dat").read_bytes()
    again = cli("imatrix", "--merge", "recorded.gguf", "-o", out)
    assert again.code == 4
    assert "--overwrite" in again.err
    assert cli("imatrix", "--merge", "recorded.gguf", "-o", out, "--overwrite").code == 0
    assert cli("imatrix", "--merge", out, "-o", out, "--overwrite").code == 2, "its own source"


def test_what_makes_no_sense(cli, here: Path) -> None:
    assert cli("imatrix", "--show", "--merge", "recorded.gguf").code == 2
    assert cli("imatrix", "moe.gguf", "recorded.gguf").code == 2
    assert cli("imatrix", "recorded.gguf", "-o", "x.gguf").code == 2
    assert cli("imatrix", "moe.gguf", "--nextn", "--save-every", 2, "-o", "x.gguf").code == 2
    assert cli("imatrix", "--show", "moe.gguf").code == 3, "a model is no matrix"
    assert cli("imatrix", "moe.gguf", "--engine", "llama-imatrix", "--llama-cpp", here, "-o", "x.gguf").code == 2


def test_names_of_copies_on_devices() -> None:
    names = {b"blk.0.attn_k.weight": 1, b"CUDA0#blk.0.attn_k.weight#0": 1, b"CUDA0#blk.0.attn_k.weight": 1}
    assert {plain_name(name) for name in names} == {"blk.0.attn_k.weight"}
