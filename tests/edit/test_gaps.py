"""Where the inserted room is found, whatever holes the file had and wherever moving stopped."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gguftool.edit import gaps, recover
from gguftool.edit.journal import MOST_HOLES, Record, pack, read
from gguftool.edit.ops import Reserve, Set
from gguftool.edit.oslayer import BLOCK, OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.undo import undo
from gguftool.errors import Refused
from tests.build import GGUF
from tests.edit.crash import Broken, power_run
from tests.edit.scenarios import SCENARIOS, holed, prepare, write_sparse


class Blocks:
    """A file in memory: blocks of bytes, None for a hole. What is read of a block that was written is not zero."""

    def __init__(self, blocks: list[bool], size: int) -> None:
        self.blocks, self.size = blocks, size

    def fstat(self, fd: int) -> os.stat_result:
        return os.stat_result((0o100644, 1, 1, 1, 0, 0, self.size, 0, 0, 0))

    def read(self, fd: int, offset: int, n: int) -> bytes:
        first, last = offset // BLOCK, -(-(offset + n) // BLOCK)
        there = [i < len(self.blocks) and self.blocks[i] for i in range(first, last)]
        return b"".join((b"x" if t else b"\0") * BLOCK for t in there)[offset - first * BLOCK :][:n]

    def hole(self, fd: int, start: int) -> tuple[int, int]:
        at = start
        while at < self.size and at // BLOCK < len(self.blocks) and self.blocks[at // BLOCK]:
            at = (at // BLOCK + 1) * BLOCK
        end = at
        while end < self.size and not (end // BLOCK < len(self.blocks) and self.blocks[end // BLOCK]):
            end = (end // BLOCK + 1) * BLOCK
        return (self.size, self.size) if at >= self.size else (at, min(end, self.size))


def record(layer: Blocks, shift: int) -> Record:
    holes = gaps.movable_holes(layer, 0, 100)  # type: ignore[arg-type]
    assert holes is not None
    size, sha = layer.size, "0" * 64
    saved, rest = ((0, BLOCK),), ((BLOCK, BLOCK + shift, size - BLOCK),)
    return Record(
        "insert", shift, size, size + shift, 100, 100, sha, sha, saved, rest, holes=holes, payload=b"y" * BLOCK
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_room_is_found_wherever_moving_stopped(seed: int):
    """Taking out what was found gives the old map back: in the middle of a hole any place of it does."""
    rng = random.Random(seed)
    blocks = [True, *(rng.random() < 0.6 for _ in range(rng.randint(1, 14)))]
    old = Blocks(blocks, len(blocks) * BLOCK - rng.choice((0, 1, 700, BLOCK - 1)))
    room = rng.choice((1, 2, 5))
    saved = record(old, room * BLOCK)
    for stop in range(len(blocks) + 1):
        now = Blocks([*blocks[:stop], *[False] * room, *blocks[stop:]], old.size + room * BLOCK)
        at = gaps.find_gap(now, 0, saved)  # type: ignore[arg-type]
        assert at is not None
        assert at % BLOCK == 0
        first = at // BLOCK
        after = [*now.blocks[:first], *now.blocks[first + room :]]
        assert [*after, *[False] * 20][:20] == [*blocks, *[False] * 20][:20], (blocks, stop, at)


def test_holes_that_do_not_fit_are_not_guessed_at():
    blocks = [True, True, False, True, True]
    saved = record(Blocks(blocks, 5 * BLOCK), BLOCK)
    # A block more has become a hole: it could be the room, and something else has changed the file.
    now = Blocks([True, False, False, True, True, True], 6 * BLOCK)
    assert gaps.find_gap(now, 0, saved) is None  # type: ignore[arg-type]


def test_without_the_holes_in_the_journal_the_wrong_room_is_taken_out(monkeypatch: pytest.MonkeyPatch):
    """That is why sparse files were not moved in place before."""
    monkeypatch.setattr(recover, "find_gap", lambda layer, model, record: layer.hole(model, 0)[0])
    prepared = prepare(next(s for s in SCENARIOS if s.name == "insert-sparse"))
    with pytest.raises(Broken, match="neither old nor new"):
        for seed in range(100):
            power_run(prepared, seed)


def test_a_record_keeps_holes_and_refuses_strange_ones(tmp_path: Path):
    good = record(Blocks([True, True, False, True, False], 5 * BLOCK), BLOCK)
    assert good.holes == ((2 * BLOCK, BLOCK), (4 * BLOCK, BLOCK))

    def back(holes: object) -> Record | None:
        path = tmp_path / "r"
        raw = pack(good).replace(b'"holes":[[8192,4096],[16384,4096]]', b'"holes":' + str(holes).encode())
        n = len(raw) - len(pack(good))
        # The text is longer or shorter: lengths and hash anew.
        path.write_bytes(_again(raw, n))
        fd = os.open(path, os.O_RDONLY)
        try:
            found = read(OsLayer(), fd)
        finally:
            os.close(fd)
        return None if found is None else found[0]

    assert back([[8192, 4096], [16384, 4096]]) == good
    for holes in (
        [[0, 4096]],
        [[8192, 0]],
        [[8192, -5]],
        [[8192, 4096], [8192, 4096]],
        [[16384, 4096], [8192, 4096]],
        [[8192, 1 << 40]],
        [[8192.0, 4096]],
        [["a", "b"]],
        [[8192]],
        [8192],
        7,
        [[BLOCK + i * 2, 1] for i in range(MOST_HOLES + 1)],
    ):
        assert back(holes) is None, holes


def _again(raw: bytes, longer: int) -> bytes:
    import hashlib
    import struct

    magic, n_text, n_payload = struct.unpack_from("<16sQQ", raw)
    body = struct.pack("<16sQQ", magic, n_text + longer, n_payload) + raw[32 : 32 + n_text + longer + n_payload]
    whole = body + hashlib.sha256(body).digest()
    return whole + bytes(-len(whole) % BLOCK) + bytes(BLOCK)


def test_a_file_without_holes_has_a_record_that_older_versions_read():
    assert b"holes" not in pack(record(Blocks([True] * 4, 4 * BLOCK), BLOCK))


needs_holes = pytest.mark.skipif(not OsLayer().insert_unit("."), reason="this file system cannot insert")


def blocks_of(path: Path) -> int:
    return path.stat().st_blocks * 512


@needs_holes
def test_there_and_back_allocates_no_more_than_the_room(tmp_path: Path):
    path, data = tmp_path / "m.gguf", holed()
    write_sparse(str(path), data)
    before = blocks_of(path)
    plan = plan_edit(path, [Set("general.description", "d" * 900), Reserve(64)], force=True)
    assert plan.strategy == "insert"
    shift = plan.shift
    plan.commit()
    assert blocks_of(path) <= before + shift + 2 * BLOCK
    done = undo(path)
    assert done.strategy == "collapse"
    assert path.read_bytes() == data
    assert blocks_of(path) <= before + 2 * BLOCK


@needs_holes
@pytest.mark.parametrize("many", [False, True])
def test_a_hole_in_the_header_or_very_many_are_written_anew(many: bool, tmp_path: Path):
    path = tmp_path / "m.gguf"
    if many:
        body = (b"x" * BLOCK + bytes(2 * BLOCK)) * (MOST_HOLES + 1)
        g = GGUF("llama").kv("llama.block_count", 1).tensor("a.weight", (len(body) // 4,), data=body)
    else:
        g = GGUF("llama").kv("llama.block_count", 1).kv("my.text", "\0" * 5 * BLOCK).tensor("a.weight", (64,))
    write_sparse(str(path), g.bytes())
    before, data = blocks_of(path), path.read_bytes()
    edit = [Set("general.description", "d" * 90000)]
    with pytest.raises(Refused, match="holes"):
        plan_edit(path, edit, force=True, strategy="insert")
    plan = plan_edit(path, edit, force=True)
    assert plan.strategy == "rewrite"
    plan.commit()
    if many:
        # On the disk it lies in a thousand pieces, which take some blocks to list.
        assert blocks_of(path) < before + 500_000
    assert undo(path).strategy == "rewrite"
    assert path.read_bytes() == data


@needs_holes
def test_undo_looks_at_the_holes_of_now(tmp_path: Path):
    """What was a hole when the file was edited may have been written since, and the other way round."""
    path, data = tmp_path / "m.gguf", holed()
    write_sparse(str(path), data)
    plan_edit(path, [Set("general.description", "d" * 900), Reserve(64)], force=True).commit()
    fd = os.open(path, os.O_RDWR)
    try:
        first, end = OsLayer().hole(fd, 0)
        os.pwrite(fd, bytes(end - first), first)
        last, _ = OsLayer().hole(fd, end)
        OsLayer().punch(fd, last - BLOCK, BLOCK)
    finally:
        os.close(fd)
    changed = path.read_bytes()
    assert undo(path).strategy == "collapse"
    shift = len(changed) - len(data)
    assert path.read_bytes() == data[:BLOCK] + changed[BLOCK + shift :]


def test_undo_by_copying_asks_for_what_it_writes(tmp_path: Path):
    """A file of 64 GiB with holes is taken back where some hundred KiB are free."""
    path = tmp_path / "m.gguf"
    n = 64 << 30
    raw = GGUF("llama").kv("llama.block_count", 1).tensor("a.weight", (1 << 17, 1 << 17), data=b"").bytes()

    class Little(OsLayer):
        def free_bytes(self, folder: str) -> int:
            return 400_000

        def insert_unit(self, folder: str) -> int:
            return 0

        def can_clone(self, folder: str) -> bool:
            return False

    with open(path, "wb") as f:
        f.write(raw)
        f.truncate(len(raw) + n)
        f.seek(n // 2)
        f.write(b"in the middle")
    size = path.stat().st_size
    plan = plan_edit(path, [Set("my.key", "hello", "str")], force=True, layer=Little())
    assert plan.strategy == "rewrite"
    assert plan.space_needed < 400_000
    plan.commit()
    assert blocks_of(path) < 200_000
    assert undo(path, layer=Little()).strategy == "rewrite"
    assert path.stat().st_size == size
    assert blocks_of(path) < 100_000
    with open(path, "rb") as f:
        assert f.read(len(raw)) == raw
        f.seek(n // 2)
        assert f.read(20) == b"in the middle" + bytes(7)
