"""The built-in quantiser judges what stands in its file, not what it meant to write; nobody reads it a second time."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import numpy as np
import pytest

from gguftool.build import builtin, kernels, slabs
from gguftool.build.ftypes import target
from gguftool.build.plan import plan_quantize
from gguftool.build.quantize import Options, quantize
from gguftool.errors import ChangedMeanwhile, FormatError
from gguftool.model import open_model
from gguftool.source import LocalFile
from gguftool.verify.data import check_data, judge
from tests.building.models import DENSE, model

WIDTH, ROWS, PAGE = 576, 96, 4096


def one(tmp_path: Path) -> tuple[slabs.Task, LocalFile, LocalFile]:
    """A tensor of F16 to become Q8_0 behind 64 bytes of something else, its file and the output."""
    values = np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype("<f2")
    (tmp_path / "in").write_bytes(bytes(32) + values.tobytes())
    (tmp_path / "out").write_bytes(bytes(64 + ROWS * WIDTH // 32 * 34))
    files = LocalFile(tmp_path / "in"), LocalFile.given(os.open(tmp_path / "out", os.O_RDWR), "out")
    return slabs.Task("w", 0, 32, (WIDTH, ROWS), "F16", "Q8_0", 0, 64), *files


def work(task: slabs.Task, source: LocalFile, output: LocalFile) -> tuple[int, list[tuple[int, int, bytes]]]:
    [slab] = slabs.slabs([task])
    return slabs.work(slab, [source], [output], kernels.find(), {}, slabs.Room())


def test_what_another_writes_in_its_place_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    task, *files = one(tmp_path)

    def damaged(fd: int, offset: int, data: bytes) -> None:
        whole = bytearray(data)
        whole[34 * 7 : 34 * 7 + 2] = struct.pack("<H", 0x7C00)
        write_at(fd, offset, bytes(whole))

    write_at = slabs.write_at
    assert work(task, *files) == (ROWS * WIDTH * 2, [])
    monkeypatch.setattr(slabs, "write_at", damaged)
    with pytest.raises(FormatError, match=r"^w, rows 0 to 95: quantising to Q8_0 gave invalid values$"):
        work(task, *files)


def test_a_file_that_somebody_cuts_is_no_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    task, *files = one(tmp_path)
    write_at = slabs.write_at

    def cut(fd: int, offset: int, data: bytes) -> None:
        write_at(fd, offset, data)
        (tmp_path / "out").open("r+b").truncate(100)

    monkeypatch.setattr(slabs, "write_at", cut)
    with pytest.raises(ChangedMeanwhile, match=r"^out: became shorter"):
        work(task, *files)


def test_a_stretch_in_the_result_is_told_as_a_second_reading_would(tmp_path: Path):
    """Zeros from page to page of the result, over slabs and tensors: a note of the check that gives it its name."""
    rng = np.random.default_rng(2)
    built = model(DENSE, "f16")
    for name in ("blk.0.one.weight", "blk.0.two.weight"):
        built.tensor(name, (WIDTH, 4096), "f16", data=rng.normal(1, 0.1, (4096, WIDTH)).astype("<f2").tobytes())
    source = built.write(tmp_path / "in.gguf")
    options = Options(engine="builtin", provenance=False)
    clean = quantize(source, tmp_path / "clean.gguf", "F16", options)
    assert (clean.checks[0].name, clean.checks[0].verdict) == ("data", "ok")
    name = "blk.0.one.weight"
    with open_model(clean.path) as made, open_model(source) as m:
        ours, theirs = made.tensors[name].offset, m.tensors[name].offset
    # It begins in one tensor, and ends in the middle of a row of the next.
    begin = -(-(ours + 3_000_000) // PAGE) * PAGE - ours + theirs
    data = bytearray(source.read_bytes())
    data[begin : begin + 500 * PAGE] = bytes(500 * PAGE)
    source.write_bytes(data)
    made_of_it = quantize(source, tmp_path / "out.gguf", "F16", options)
    [note] = made_of_it.checks[0].notes
    start = begin - theirs + ours
    assert (note.kind, note.span) == ("blank-stretch", (start, start + 500 * PAGE))
    with open_model(made_of_it.path) as made:
        part = made.parts[0]
        assert judge(check_data(part.source, part.header), part.source)[0] == [note]


def test_what_was_seen_comes_with_the_files(tmp_path: Path):
    """Every output has its own list, of sound data an empty one."""
    told: list[object] = []
    with open_model(model(DENSE, "f16").write(tmp_path / "in.gguf")) as m:
        plan = plan_quantize(m, target("Q8_0"))
        builtin.quantize(plan, str(tmp_path / "o.gguf"), kernels.find(), check=lambda paths, seen: told.append(seen))
    assert told == [[[]]]
