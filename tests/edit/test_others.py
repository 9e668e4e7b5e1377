"""What other readers, writers and scanners stumble over: the alignment key, empty arrays, room in the header."""

from __future__ import annotations

from pathlib import Path

import pytest

import gguftool
from gguftool.edit.layout import fit
from gguftool.edit.ops import Reserve, Set, apply
from gguftool.format.header import align
from gguftool.format.parse import parse_bytes
from tests.build import GGUF, llama

SCANNED = 8192
"""c4nary 0.3.1, rule MET002 (a warning): "Oversized metadata field" is a string of more characters."""


@pytest.mark.parametrize("n", [64, 4096])
def test_realign_32_gives_the_file_of_before(cli, tmp_path: Path, n: int):
    path = llama().write(tmp_path / "m.gguf")
    before = path.read_bytes()
    done = cli("fix", path, "--realign", n)
    assert done.code == 0
    assert "modelaudit" in done.err
    assert "gguf-py 0.6.0" in done.err
    assert "Ollama" in done.err
    assert parse_bytes(path.read_bytes()).get("general.alignment").value == n
    done = cli("fix", path, "--realign", 32)
    assert (done.code, "modelaudit" in done.err) == (0, False)
    assert path.read_bytes() == before


def test_nothing_is_offered_for_a_file_whose_data_begins_far_behind(cli, tmp_path: Path):
    path = llama().kv("general.alignment", 1 << 28, "u32").write(tmp_path / "m.gguf")
    with path.open("r+b") as f:
        f.truncate(1 << 29)
    found = cli("lint", path, "--format", "json").json["files"][0]["findings"]
    assert any(f["rule"] == "alignment-unusual" for f in found)
    assert not [f for f in found if f["fix"] and f["fix"]["command"]]
    done = cli("fix", path, "--force", "--output", tmp_path / "o.gguf", "--set", "general.name=x")
    assert done.code == 4
    assert "the data begins at 268,435,456 bytes" in done.err
    assert not (tmp_path / "o.gguf").exists()


def test_who_stumbles_is_in_the_json_too(cli, tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    body = cli("fix", path, "--realign", 64, "--dry-run", "--format", "json").json
    assert any("modelaudit" in note for note in body["notes"])


def test_an_empty_array_is_told(cli, tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    done = cli("fix", path, "--set", "general.tags:[str]=[]")
    assert done.code == 0
    assert "gguf-py's writers" in done.err
    assert "--delete general.tags" in done.err
    assert "gguf-py" not in cli("fix", path, "--set", "general.name=other").err


def test_gguf_py_really_refuses_it():
    gguf = pytest.importorskip("gguf")
    writer = gguf.GGUFWriter(None, "llama")
    writer.add_array("x.n", [])
    with pytest.raises(ValueError, match=r"[Ee]mpty"):
        writer._pack_val([], gguf.GGUFValueType.ARRAY, add_vtype=True)


@pytest.mark.parametrize("text", ["x", "x" * 5_000, "x" * 100_000])
def test_the_room_trips_no_scanner(tmp_path: Path, text: str):
    path = llama().write(tmp_path / "m.gguf")
    with gguftool.edit(path) as e:
        e["general.description"] = text
    with gguftool.edit(path) as e:
        del e["general.description"]
    with gguftool.edit(path) as e:
        e["general.name"] = text[:3000]
    pads = [f for f in parse_bytes(path.read_bytes()).fields if f.key.startswith("gguftool.")]
    assert pads
    if len(text) < 60_000:
        assert max(len(f.value) for f in pads) <= SCANNED


def test_the_room_of_a_large_model_is_in_several_keys():
    raw = llama().bytes()
    old = parse_bytes(raw)
    ops = [Set("general.description", "x" * 5_000)]
    front = raw[: old.data_offset]
    large = fit(old, apply(ops, old), ops, front, 5 << 30)
    pads = [f for f in parse_bytes(large.front).fields if f.key.startswith("gguftool.pad")]
    assert 32 << 10 < sum(len(f.buffer) for f in pads) == large.filler <= 72 << 10
    assert max(len(f.value) for f in pads) <= SCANNED
    assert len({f.key for f in pads}) == len(pads) <= 9
    # Room that somebody asked for is in one key, and stays there.
    ops = [Reserve(100_000)]
    asked = fit(old, old, ops, front, 1 << 20)
    again = parse_bytes(asked.front + bytes(1 << 20))
    more = fit(again, apply([Set("general.name", "y")], again), [], asked.front, 1 << 20)
    assert [f.key for f in parse_bytes(more.front).fields if "pad" in f.key] == ["gguftool.pad"]


def test_every_size_of_room_can_be_met():
    from gguftool.edit.layout import filler_fields

    layout = parse_bytes(llama().bytes()).layout
    for room in [*range(32, 200, 7), *range(8100, 8300), *range(16_300, 16_500), 65_536, 65_568, 1 << 20, 8 << 20]:
        made = filler_fields(room, layout, 8 << 10)
        assert sum(len(f.buffer) for f in made) == room
        assert len({f.key for f in made}) == len(made)


def test_diff_does_not_count_the_room(cli, tmp_path: Path):
    a, b = llama().write(tmp_path / "a.gguf"), llama().write(tmp_path / "b.gguf")
    assert cli("fix", b, "--reserve", "256K").code == 0
    for pair in ((a, b), (b, a)):
        done = cli("diff", *pair)
        assert done.code == 0
        assert "differ only in room for edits" in done.out
        body = cli("diff", *pair, "--format", "json", "--data").json
        assert (body["same"], body["room"], body["keys"]) == (True, True, [])
    assert cli("fix", b, "--reserve", "300K", "--set", "general.name=z").code == 0
    done = cli("diff", a, b)
    assert (done.code, "1 key and 0 tensors differ" in done.out) == (1, True)
    assert cli("diff", a, a, "--format", "json").json["room"] is False


# --- a header written with another alignment than its key says


def misplaced(alignment: int | None, written: int) -> tuple[bytes, bytes]:
    """(the file as it should be, with its header padded to ``written``)."""
    made = llama()
    if alignment is not None:
        made = made.align(alignment)
    good = bytearray(made.bytes())
    header = parse_bytes(bytes(good))
    # Weights that are no zeros, as in every real model.
    for t in header.tensors:
        start, stop = header.where(t)
        good[start:stop] = bytes((i * 7 + 1) % 251 + 1 for i in range(stop - start))
    end = header.end
    return bytes(good), bytes(good[:end]) + bytes(-end % written) + bytes(good[header.data_offset :])


CASES = [(4096, 32), (64, 32), (1 << 14, 32), (None, 64), (None, 4096), (64, 4096)]


@pytest.mark.parametrize(("alignment", "written"), [c for c in CASES if len(set(misplaced(*c))) == 2])
def test_a_header_with_another_alignment_is_named_and_mended(cli, tmp_path: Path, alignment: int | None, written: int):
    good, bad = misplaced(alignment, written)
    path = tmp_path / "m.gguf"
    path.write_bytes(bad)
    said = alignment or 32
    checked = cli("verify", path)
    assert checked.code == 1
    named = f"an alignment of {written:,}" if written < said else "a larger alignment"
    assert f"written with {named}" in checked.out
    assert "nothing is missing" in checked.out
    assert "download" not in checked.out
    linted = cli("lint", path, "--no-config", "--format", "json").json
    [found] = [f for f in linted["files"][0]["findings"] if f["rule"] == "data-start-elsewhere"]
    assert f"--realign {said}" in found["fix"]["command"]
    assert not {"data-truncated", "trailing-bytes"} & {f["rule"] for f in linted["files"][0]["findings"]}
    assert found["fix"]["safe"] is (written < said)
    refused = cli("fix", path, "--set", "general.name=x")
    assert (refused.code, f"--realign {said}" in refused.err) == (4, True)
    assert path.read_bytes() == bad
    assert cli("fix", path, "--realign", said).code == 0
    assert path.read_bytes() == good
    assert cli("verify", path).code == 0
    assert cli("undo", path).code == 0
    assert path.read_bytes() == bad


@pytest.mark.parametrize("words", [("lint", "--no-config", "--exit-zero", "--fix"), ("fix", "--auto")])
def test_the_safe_fixes_mend_it(cli, tmp_path: Path, words: tuple[str, ...]):
    good, bad = misplaced(4096, 32)
    path = tmp_path / "m.gguf"
    path.write_bytes(bad)
    assert cli(*words, path).code == 0
    mended, right = parse_bytes(path.read_bytes()), parse_bytes(good)
    for a, b in zip(mended.tensors, right.tensors, strict=True):
        assert path.read_bytes()[slice(*mended.where(a))] == good[slice(*right.where(b))]
    assert cli("verify", path).code == 0


def test_llama_cpp_refuses_such_a_file_and_that_is_predicted(cli, tmp_path: Path):
    _, bad = misplaced(4096, 32)
    path = tmp_path / "m.gguf"
    path.write_bytes(bad)
    linted = cli("lint", path, "--no-config")
    assert "is not within the file bounds, model is corrupted or incomplete" in linted.out


@pytest.mark.parametrize("cut", [16, 32, 3712 + 1, 5000])
def test_a_file_that_is_cut_off_stays_that(cli, tmp_path: Path, cut: int):
    good, _ = misplaced(4096, 32)
    header = parse_bytes(good)
    assert align(header.end, 4096) - align(header.end, 32) != cut
    path = tmp_path / "m.gguf"
    path.write_bytes(good[: header.data_end() - cut])
    assert "cut off" in cli("verify", path).out


def test_zeros_behind_the_last_tensor_are_no_other_alignment(cli, tmp_path: Path):
    good, _ = misplaced(None, 64)
    end = parse_bytes(good).end
    path = tmp_path / "m.gguf"
    path.write_bytes(good + bytes(align(end, 4096) - align(end, 32)))
    assert "bytes too long" in cli("verify", path).out


def test_small_models_without_padding_at_their_end(cli, tmp_path: Path):
    """A file may lack the last padding; it is whole all the same."""
    made = GGUF("llama").align(4096).tensor("output_norm.weight", (33,), "f32")
    path = tmp_path / "m.gguf"
    path.write_bytes(made.bytes())
    header = parse_bytes(path.read_bytes())
    path.write_bytes(path.read_bytes()[: header.data_end()])
    assert "written with an alignment" not in cli("verify", path).out
