"""The record of an edit: read back as it was written, and nothing else is taken for one."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from gguftool.edit.journal import INSERTED, ROLLBACK, STARTED, Record, pack, pack_phase, read
from gguftool.edit.ops import Realign, Reserve, Set
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.records import undo_records
from gguftool.verify.proof import original
from tests.build import llama

RECORD = Record(
    strategy="insert",
    shift=8192,
    old_size=100_000,
    new_size=108_192,
    old_front=4000,
    new_front=12_192,
    old_sha="a" * 64,
    new_sha="b" * 64,
    saved=((0, 4096),),
    moved=((4096, 12_288, 95_904),),
    operations=("set a to b",),
    argv=("fix", "m.gguf"),
    time=1.5,
    payload=bytes(range(256)) * 16,
)


def back(tmp_path: Path, data: bytes) -> tuple[Record, int] | None:
    path = tmp_path / "j"
    path.write_bytes(data)
    layer = OsLayer()
    fd = layer.open(str(path), write=False)
    try:
        return read(layer, fd)
    finally:
        layer.close(fd)


@pytest.mark.parametrize("phase", [STARTED, INSERTED, ROLLBACK])
def test_what_was_written_is_read(phase: int, tmp_path: Path):
    data = pack(RECORD, phase)
    assert len(data) % BLOCK == 0
    assert back(tmp_path, data) == (RECORD, phase)


def test_every_damage_is_noticed(tmp_path: Path):
    data = pack(RECORD)
    for at in (*range(0, 700, 7), 2000, len(data) - BLOCK - 1000):
        damaged = bytearray(data)
        if damaged[at] == 0 and at > 4096:
            continue
        damaged[at] ^= 0x40
        assert back(tmp_path, bytes(damaged)) in (None, (RECORD, STARTED)), at
    for cut in (0, 10, 31, 500, 4096, len(data) - 1, len(data) - BLOCK):
        assert back(tmp_path, data[:cut]) is None
    assert back(tmp_path, data + b"\0") is None


def test_a_torn_mark_reads_as_no_mark(tmp_path: Path):
    data = pack(RECORD)
    mark = pack_phase(RECORD, INSERTED)
    for cut in (1, 8, 12, 40, 43):
        torn = mark[:cut] + bytes(BLOCK - cut)
        assert back(tmp_path, data[:-BLOCK] + torn) == (RECORD, STARTED)
    other = replace(RECORD, new_sha="c" * 64)
    assert back(tmp_path, data[:-BLOCK] + pack_phase(other, INSERTED)) == (RECORD, STARTED)


@pytest.mark.parametrize(
    "change",
    [
        {"shift": 100},
        {"shift": -4096},
        {"strategy": "something"},
        {"strategy": "patch"},
        {"new_size": 5},
        {"old_size": -1},
        {"saved": ((0, 4095),)},
        {"saved": ((4, 4096),)},
        {"saved": ((99_000, 4096),)},
        {"saved": ()},
        {"moved": ((0, 0, 10**9),)},
        {"moved": ((-5, 0, 1),)},
        {"old_front": "many"},
    ],
    ids=str,
)
def test_a_record_of_impossible_numbers_is_none(change: dict[str, object], tmp_path: Path):
    """It may have come with the model, from anywhere: its checksum says nothing."""
    assert back(tmp_path, pack(replace(RECORD, **change))) is None  # type: ignore[arg-type]


def test_json_of_another_shape_is_none(tmp_path: Path):
    for text in (b"[]", b"{}", b"nonsense", json.dumps({"strategy": 1}).encode()):
        body = struct.pack("<16sQQ", b"gguftool-record\x01", len(text), 0) + text
        body += hashlib.sha256(body).digest()
        data = body + bytes(-len(body) % BLOCK) + bytes(BLOCK)
        assert back(tmp_path, data) is None


def test_hash_of_the_published_file_without_undoing(tmp_path: Path):
    path = llama().write(tmp_path / "m.gguf")
    published = hashlib.sha256(path.read_bytes()).hexdigest()
    edits = [
        [Set("general.author", "me")],
        [Set("llama.context_length", 7)],
        [Realign(64)],
        [Set("general.description", "x" * 70_000)],
        [Reserve(200_000)],
    ]
    for number, ops in enumerate(edits, start=1):
        plan_edit(path, ops).commit()
        assert original(str(path), published) == number
    assert [number for number, _ in undo_records(path)] == [5, 4, 3, 2, 1]
    assert os.path.getsize(f"{path}-undo-1") < 20_000


def test_a_record_is_packed_with_one_copy_of_its_payload():
    payload = bytes(range(256)) * (32 << 10)
    record = replace(RECORD, payload=payload, saved=((0, len(payload)),))
    tracemalloc.start()
    try:
        packed = pack(record)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert packed.count(payload) == 1
    assert peak < 1.5 * len(payload)
