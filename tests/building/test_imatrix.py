"""Importance matrices read, merged, written and judged: against files that llama-imatrix made (tests/data/imatrix)."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path

import numpy as np
import pytest

from gguftool.build.imatrix import read
from gguftool.build.imatrix.coverage import coverage, flaws
from gguftool.build.imatrix.matrix import Entry, Matrix, load
from gguftool.build.imatrix.merge import merge
from gguftool.build.imatrix.statistics import layer_of, layer_statistics, tensor_statistics
from gguftool.build.imatrix.write import save
from gguftool.errors import Refused
from gguftool.model import open_model

DATA = Path(__file__).parent.parent / "data" / "imatrix"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the recorded files."""
    folder = tmp_path_factory.mktemp("imatrix")
    for packed in DATA.glob("*.gz"):
        (folder / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))
    return folder


def arrays(path: Path) -> dict[str, np.ndarray]:
    with open_model(str(path)) as m:
        return {t.name: np.frombuffer(t.read(), "<f4") for t in m.all_tensors()}


def same_but_for_figures(ours: Path, theirs: Path) -> None:
    """Every byte but those of the figures, which sums in another order give to the last bit or the one before."""
    a, b = arrays(ours), arrays(theirs)
    assert list(a) == list(b)
    for name in a:
        if name.endswith(".stats"):
            np.testing.assert_allclose(a[name], b[name], rtol=3e-7)
        else:
            assert a[name].tobytes() == b[name].tobytes(), name
    with open_model(str(ours)) as one, open_model(str(theirs)) as other:
        assert one.header.data_offset == other.header.data_offset
        assert [bytes(f.buffer) for f in one.header.fields] == [bytes(f.buffer) for f in other.header.fields]
        assert one.file_size == other.file_size


def entry(*rows: list[float], counts: list[int]) -> Entry:
    return Entry(np.array(rows, np.float32), np.array(counts, np.int64))


def test_one_file_comes_back_as_llama_imatrix_wrote_it(made: Path, tmp_path: Path) -> None:
    whole, notes = merge([load(str(made / "moe.gguf"))])
    assert notes == ()
    assert save(str(tmp_path / "again.gguf"), whole) == ()
    same_but_for_figures(tmp_path / "again.gguf", made / "moe.gguf")


def test_the_older_form_byte_for_byte(made: Path, tmp_path: Path) -> None:
    whole, _ = merge([load(str(made / "moe.gguf"))])
    (note,) = save(str(tmp_path / "old.dat"), whole, "dat")
    assert "plain sums" in note
    assert (tmp_path / "old.dat").read_bytes() == (made / "moe.dat").read_bytes()


def test_both_forms_merged(made: Path, tmp_path: Path) -> None:
    whole, _ = merge([load(str(made / "moe.dat")), load(str(made / "moe.gguf"))])
    save(str(tmp_path / "both.gguf"), whole)
    same_but_for_figures(tmp_path / "both.gguf", made / "both.gguf")


def test_the_figures_of_tensors_and_layers(made: Path) -> None:
    matrix = load(str(made / "moe.gguf"))
    found = tensor_statistics(matrix)
    theirs = arrays(made / "moe.gguf")
    assert len(found) == 17
    for one in found:
        np.testing.assert_allclose(one.row, theirs[f"{one.name}.stats"], rtol=3e-7, err_msg=one.name)
    table = [
        re.split(r"[|\s]+", line.strip()) for line in (DATA / "moe.layers.txt").read_text().splitlines() if "|" in line
    ]
    for told, one in zip(table[1:], layer_statistics(found), strict=True):
        assert int(told[0]) == one.layer
        ours = (one.energy, one.gain, one.distance, one.cosine, one.pearson, one.covariance)
        np.testing.assert_allclose(ours, [float(word) for word in told[1:]], atol=0.0051, rtol=1e-4)


def test_which_columns_stand_out() -> None:
    matrix = Matrix({"blk.0.ffn_up.weight": entry([10.0, 10.0, 10.0, 10.0, 400.0], counts=[10])})
    (one,) = tensor_statistics(matrix)
    assert (one.strongest, one.strongest_share) == (4, pytest.approx(40 / 44))
    assert one.zd == pytest.approx(0.2), "one of five is more than a deviation above the mean"
    assert (one.energy, one.layer, one.of_squares) == (pytest.approx(44.0), 0, True)
    shares = [1 / 44] * 4 + [40 / 44]
    assert one.entropy == pytest.approx(-sum(p * math.log2(p) for p in shares))


def test_layers_in_names() -> None:
    names = {"blk.12.attn_q.weight": 12, "enc.blk.3.ffn.weight": 3, "output.weight": None, "blk.x.a": None, "blk": None}
    assert {name: layer_of(name) for name in names} == names


def test_matrices_of_different_models_are_not_merged() -> None:
    one = Matrix({"a.weight": entry([1.0, 2.0], counts=[1])}, path="one")
    with pytest.raises(Refused, match=r"other: a.weight has 3 values, 2 in those before it"):
        merge([one, Matrix({"a.weight": entry([1.0, 2.0, 3.0], counts=[1])}, path="other")])
    with pytest.raises(Refused, match="no tensor in common"):
        merge([one, Matrix({"b.weight": entry([1.0, 2.0], counts=[1])}, path="other")])
    four = Matrix({"a.weight": entry(*[[1.0]] * 4, counts=[1, 2, 3, 4])}, path="four")
    with pytest.raises(Refused, match=r"a.weight has 2 experts, 4 in those before it"):
        merge([four, Matrix({"a.weight": entry(*[[1.0, 1.0]] * 2, counts=[1, 1])}, path="two")])


def test_one_count_of_an_older_file_stands_for_all_experts() -> None:
    old = Matrix({"a.weight": entry([1.0, 2.0, 3.0, 4.0], counts=[2])}, legacy=True, path="old")
    new = Matrix({"a.weight": entry([1.0, 1.0], [1.0, 1.0], counts=[5, 0])}, chunk_size=8, path="new")
    whole, _ = merge([new, old])
    assert whole.entries["a.weight"].counts.tolist() == [5 + 2 * 8, 0 + 2 * 8]
    assert whole.entries["a.weight"].squares.tolist() == [[1 + 8, 1 + 16], [1 + 24, 1 + 32]]
    assert (whole.chunk_size, whole.chunks) == (8, 3), "21 tokens, rounded to chunks of 8"


def test_what_merging_tells(made: Path) -> None:
    one = load(str(made / "moe.gguf"))
    _, notes = merge([one, one])
    assert "named twice" in notes[0]
    small = Matrix(dict(list(one.entries.items())[:3]), chunk_size=32, path="small")
    _, notes = merge([one, small])
    assert any("chunks of 32 tokens, the first in 64" in note for note in notes)
    assert any("14 of 17 tensors are not in all of them" in note for note in notes)


def test_coverage_of_experts() -> None:
    matrix = Matrix({
        "blk.0.ffn_up_exps.weight": entry(*[[1.0, 2.0]] * 4, counts=[0, 99, 100, 5000]),
        "blk.0.attn_q.weight": entry([1.0, 0.0], counts=[5000]),
        "blk.1.attn_q.weight": entry([0.0, 0.0], counts=[0]),
    }, chunks=10, chunk_size=512)  # fmt: skip
    found = coverage(matrix)
    (experts,) = found.experts
    assert (experts.unseen, experts.rare, experts.least, experts.most) == ((0,), (1,), 0, 5000)
    assert (found.empty, found.zero, found.tokens) == (("blk.1.attn_q.weight",), (("blk.0.attn_q.weight", 1),), 5000)
    told = [(flaw.outcome, flaw.message) for flaw in flaws(matrix, found)]
    assert [outcome for outcome, _ in told] == ["harm", "harm", "doubt", "doubt", "doubt"]
    assert "1 of 4 experts in 1 tensors saw no token" in told[1][1]
    assert "importances of 1" in told[1][1]
    assert "10 chunks of 512 tokens" in told[4][1]


@pytest.mark.parametrize(
    ("value", "outcome"), [(math.nan, "refused"), (math.inf, "refused"), (-1.0, "aborts"), (3.0, None)]
)
def test_values_that_no_measurement_gives(value: float, outcome: str | None) -> None:
    matrix = Matrix({"blk.0.attn_q.weight": entry([1.0, value], counts=[5])}, chunks=100, chunk_size=512)
    assert [flaw.outcome for flaw in flaws(matrix, coverage(matrix))] == ([outcome] if outcome else [])


def test_counts_that_are_no_numbers(tmp_path: Path) -> None:
    from tests.build import GGUF

    built = GGUF("").kv("general.type", "imatrix").kv("imatrix.datasets", ["a"]).kv("imatrix.chunk_count", 1)
    built.kv("imatrix.chunk_size", 512).tensor("a.weight.in_sum2", (2, 3), "f32", np.ones(6, "<f4").tobytes())
    built.tensor("a.weight.counts", (1, 3), "f32", np.array([math.nan, math.inf, 2.0], "<f4").tobytes())
    path = tmp_path / "m.gguf"
    path.write_bytes(built.bytes())
    assert load(str(path)).entries["a.weight"].counts.tolist() == [0, 0, 2]
    assert np.frombuffer(read(str(path)).entries["a.weight"], "<f4").tolist() == [1, 1, 1, 1, 0.5, 0.5]


@pytest.mark.parametrize("name", ["gguf", "dat"])
def test_quantise_tells_what_a_matrix_does_not_know(cli, tmp_path: Path, name: str) -> None:
    """One home: the size of an entry, what has none, and experts that saw nothing, before a byte is written."""
    from tests.building.models import MOE, importances, model

    source, matrix = tmp_path / "m.gguf", tmp_path / f"i.{name}"
    source.write_bytes(model(MOE, "f16").bytes())
    (tmp_path / "whole.gguf").write_bytes(importances("qwen3moe").bytes())
    whole, _ = merge([load(str(tmp_path / "whole.gguf"))])
    kept = {name: entry for name, entry in whole.entries.items() if "attn_q" not in name}
    save(str(matrix), Matrix(kept, whole.datasets, 10, 512), name)
    done = cli("quantize", source, "Q4_K_M", "--imatrix", matrix, "--dry-run", "--format", "json")
    assert done.code == 0, done.err
    told = " ".join(done.json["warnings"])
    assert "has no entry for 2 of" in told
    assert ("6 of 24 experts in 6 tensors saw no token" in told) == (name == "gguf"), "the older form does not tell"
    shown = cli("imatrix", "--show", matrix, source, "--format", "json")
    assert shown.code == 0
    (bare,) = [flaw for flaw in shown.json["flaws"] if "no entry" in flaw["message"]]
    assert "no entry for 2 of 14 weights, for example blk.0.attn_q.weight" in bare["message"]
    assert shown.json["coverage"]["experts_unseen"] == (6 if name == "gguf" else 0)


def test_what_no_measurement_writes_is_bounded(tmp_path: Path) -> None:
    """A name of megabytes, and data that only a sparse file has."""
    from gguftool.errors import FormatError
    from tests.build import GGUF

    long = tmp_path / "long.gguf"
    built = GGUF("").kv("general.type", "imatrix").tensor("a" * 5000 + ".in_sum2", (2,), "f32")
    long.write_bytes(built.tensor("a" * 5000 + ".counts", (1,), "f32").bytes())
    with pytest.raises(FormatError, match="is no importance matrix"):
        load(str(long))
    large = tmp_path / "large.dat"
    with open(large, "wb") as file:
        file.write(b"\1\0\0\0")
        file.truncate(9 << 30)
    with pytest.raises(Refused, match="more than an importance matrix of any model has"):
        load(str(large))
