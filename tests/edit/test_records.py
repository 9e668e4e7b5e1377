"""The history of a file: every state back to the first stays in reach; records are found, told apart and kept."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from gguftool.edit.job import make_record
from gguftool.edit.joining import join
from gguftool.edit.journal import Record, pack, undo_path
from gguftool.edit.ops import Delete, Operation, Realign, Reserve, Set, Strip
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.plan import plan_edit
from gguftool.edit.records import record_at, undo_numbers
from gguftool.edit.recover import recover
from gguftool.edit.undo import undo
from gguftool.errors import GgufToolError, Refused
from gguftool.format.parse import parse_bytes
from gguftool.verify.proof import original
from tests.edit.crash import power_run
from tests.edit.scenarios import NAME, SCENARIOS, Prepared, model, prepare

EDITS: tuple[tuple[Operation, str | None], ...] = (
    (Set("llama.context_length", 4096), "patch"),
    (Set("general.description", "d" * 900), "insert"),
    (Set("general.description", "e" * 9000), "insert"),
    (Reserve(70_000), None),
    (Set("general.url", "u" * 50), None),
    (Set("tokenizer.ggml.tokens", ("t" * 50,) * 60), None),
    (Delete("tokenizer.ggml.tokens"), None),
    (Realign(128), None),
    (Realign(32), None),
    (Strip(), None),
    (Set("general.name", "n" * 70), "rewrite"),
)


def before(record: Record, new: bytes) -> bytes:
    """The old file, by what the record says of the new one; straight from the description of the format."""
    old = bytearray(record.old_size)
    for start, n, saved, now in record.pieces():
        old[start : start + n] = record.payload[saved : saved + n] if saved is not None else new[now : now + n]
    return bytes(old)


@pytest.mark.parametrize("seed", range(12))
def test_two_records_in_a_row_are_one(seed: int, tmp_path: Path):
    """Any edits in any order: the joined record leads from the last state to the first, byte for byte."""
    rng = random.Random(seed)
    path = tmp_path / NAME
    model().write(path)
    states, records = [path.read_bytes()], []
    while len(records) < 5:
        op, strategy = rng.choice(EDITS)
        try:
            plan = plan_edit(path, [op], strategy=strategy)
        except GgufToolError:
            continue
        if plan.strategy == "none":
            continue
        fd = os.open(path, os.O_RDONLY)
        records.append(make_record(plan.job, OsLayer(), fd))
        os.close(fd)
        plan.commit()
        states.append(path.read_bytes())
    joined = records[0]
    for record, state in zip(records[1:], states[2:], strict=True):
        again = join(joined, record)
        assert again is not None
        joined = again
        assert before(joined, state) == states[0]
        packed = tmp_path / "packed"
        packed.write_bytes(pack(joined))
        assert record_at(OsLayer(), str(packed)) == joined
    assert join(records[1], records[0]) is None or records[1].new_sha == records[0].old_sha


@pytest.mark.parametrize("kind", ["patch", "insert", "mixed"])
def test_after_any_number_of_edits_undo_gives_every_state_and_the_first(kind: str, tmp_path: Path):
    path = tmp_path / NAME
    model().write(path)
    states = [path.read_bytes()]
    for i in range(12):
        if kind == "patch":
            ops: list[Operation] = [Set("llama.context_length", 100 + i)]
        elif kind == "insert":
            ops = [Set(f"my.key{i}", "x" * 5000, "str"), Reserve(64)]
        else:
            ops = [
                [Set("llama.context_length", 100 + i)],
                [Set(f"my.key{i}", "x" * 5000, "str")],
                [Realign(64 if i % 2 else 128)],
            ][i % 3]
        plan_edit(path, ops).commit()
        states.append(path.read_bytes())
    assert undo_numbers(OsLayer(), str(path)) == [12, 11, 10, 9, 8]
    import hashlib

    assert original(str(path), hashlib.sha256(states[0]).hexdigest()) == 5
    for state in (11, 10, 9, 8):
        undo(path)
        assert path.read_bytes() == states[state]
    done = undo(path)
    assert path.read_bytes() == states[0]
    assert done.left == 0
    assert os.listdir(tmp_path) == [NAME]


def test_an_edit_without_a_record_does_not_make_them_pile_up(tmp_path: Path):
    path = tmp_path / NAME
    model().write(path)
    plan_edit(path, [Set("llama.context_length", 1)]).commit()
    plan_edit(path, [Set("llama.context_length", 2)], keep_undo=False).commit()
    start = path.read_bytes()
    for i in range(9):
        plan_edit(path, [Set("llama.context_length", 100 + i)]).commit()
    assert undo_numbers(OsLayer(), str(path)) == [10, 9, 8, 7, 1]
    for _ in range(4):
        undo(path)
    assert path.read_bytes() == start


def test_a_killed_join_is_finished_by_the_next(tmp_path: Path):
    """The joined record has the place of the younger one, and the older one is still there."""
    path = tmp_path / NAME
    model().write(path)
    first = path.read_bytes()
    for i in range(3):
        plan_edit(path, [Set("llama.context_length", 100 + i)]).commit()
    layer = OsLayer()
    older, younger = (record_at(layer, undo_path(str(path), n)) for n in (1, 2))
    assert older is not None
    assert younger is not None
    joined = join(older, younger)
    assert joined is not None
    Path(undo_path(str(path), 2)).write_bytes(pack(joined))
    for i in range(3, 9):
        plan_edit(path, [Set("llama.context_length", 100 + i)]).commit()
    assert len(undo_numbers(layer, str(path))) == 5
    while undo(path).left:
        pass
    assert path.read_bytes() == first


def test_power_failures_while_records_are_joined():
    """Whatever stops it: the state before is in reach, as the file itself or by its undo."""
    base = next(s for s in SCENARIOS if s.name == "patch-scalar")
    many = base.__class__("many", tuple((Set("llama.context_length", i),) for i in range(5)), base.operations, "patch")
    prepared: Prepared = prepare(many)
    for seed in range(60):
        for faulty in (False, True):
            layer = power_run(prepared, seed, faulty=faulty)
            numbers = undo_numbers(layer, f"/disk/{NAME}")  # type: ignore[arg-type]
            state = layer.content(f"/disk/{NAME}")
            for number in numbers:
                record = record_at(layer, undo_path(f"/disk/{NAME}", number))  # type: ignore[arg-type]
                assert record is not None
                assert state is not None
                if before(record, state)[: record.old_front] == state[: record.old_front]:
                    continue  # left over from a join or an undo: it leads to where the file is
                state = before(record, state)
            assert state is not None
            assert parse_bytes(state).get("llama.context_length").value == 2048  # type: ignore[union-attr]


# -- names


@pytest.mark.parametrize(
    "odd", ["m.gguf-undo-007", "m.gguf-undo-0", "m.gguf-undo-x", "m.gguf-undo-9/", "m.gguf-undo-2"]
)
def test_what_only_looks_like_a_record_is_left_alone(odd: str, tmp_path: Path, cli):
    path = model().write(tmp_path / NAME)
    first = path.read_bytes()
    other = tmp_path / odd
    if odd.endswith("/"):
        other.mkdir()
    else:
        other.write_bytes(b"notes of mine\n")
    for i in range(9):
        assert cli("fix", path, "--set", f"general.name=n{i}").code == 0
    listed = cli("undo", "--list", path)
    assert listed.code == 0
    result = cli("undo", path, "--all")
    assert result.code == 0, result.err
    assert path.read_bytes() == first
    assert other.exists()
    assert other.is_dir() or other.read_bytes() == b"notes of mine\n"


def test_a_file_with_the_name_of_the_journal_is_not_deleted(tmp_path: Path, cli):
    """Only what can be the beginning of a journal is: nothing of it is lost with that."""
    path = model().write(tmp_path / NAME)
    mine = tmp_path / f"{NAME}-journal"
    mine.write_text("my diary\n")
    result = cli("recover", path)
    assert result.code == 0, result.err
    kept = tmp_path / f"{NAME}-journal.1"
    assert kept.read_text() == "my diary\n"
    assert str(kept) in result.out
    mine.write_text("more of it\n")
    assert cli("recover", path, "--format", "json").json["kept"] == f"{mine}.2"
    for begun in (b"", bytes(5000), b"gguftool-rec", b"gguftool-record\x01\x05"):
        mine.write_bytes(begun)
        assert cli("recover", path).code == 0
        assert sorted(os.listdir(tmp_path)) == [NAME, f"{NAME}-journal.1", f"{NAME}-journal.2"]
    mine.mkdir()
    refused = cli("fix", path, "--set", "general.name=x")
    assert refused.code == 7
    assert "move it away" in refused.err


@pytest.mark.parametrize("damage", ["cut", "flip", "empty"])
def test_a_damaged_record_is_told_by_undo_and_by_its_list(damage: str, tmp_path: Path, cli):
    path = model().write(tmp_path / NAME)
    plan_edit(path, [Set("general.name", "n")]).commit()
    record = tmp_path / f"{NAME}-undo-1"
    raw = bytearray(record.read_bytes())
    raw[60] ^= 1
    record.write_bytes({"cut": bytes(raw[:200]), "flip": bytes(raw), "empty": b""}[damage])
    refused = cli("undo", path)
    assert refused.code == 4
    assert "m.gguf-undo-1: is damaged" in refused.err
    listed = cli("undo", "--list", path)
    assert listed.code == 0
    assert "damaged" in listed.out
    assert cli("undo", "--list", path, "--format", "json").json["records"][0]["damaged"] is True
    assert record.exists()


def test_records_follow_a_renamed_model(tmp_path: Path, cli):
    path = model().write(tmp_path / "a.gguf")
    first = path.read_bytes()
    plan_edit(path, [Set("general.name", "one")]).commit()
    plan_edit(path, [Set("general.name", "two")]).commit()
    moved = tmp_path / "b.gguf"
    path.rename(moved)
    listed = cli("undo", "--list", moved)
    assert "set general.name to two" in listed.out
    assert sorted(os.listdir(tmp_path)) == ["a.gguf-undo-1", "a.gguf-undo-2", "b.gguf"]
    assert cli("fix", moved, "--set", "general.name=three").code == 0
    assert cli("undo", "--all", moved).code == 0
    assert moved.read_bytes() == first
    assert os.listdir(tmp_path) == ["b.gguf"]


def test_a_renamed_model_is_undone_at_once(tmp_path: Path, cli):
    path = model().write(tmp_path / "a.gguf")
    first = path.read_bytes()
    plan_edit(path, [Set("general.name", "one")]).commit()
    path.rename(tmp_path / "b.gguf")
    assert cli("undo", tmp_path / "b.gguf").code == 0
    assert (tmp_path / "b.gguf").read_bytes() == first


def test_records_of_a_model_that_is_still_there_are_not_taken(tmp_path: Path, cli):
    path = model().write(tmp_path / "a.gguf")
    plan_edit(path, [Set("general.name", "one")]).commit()
    (tmp_path / "copy.gguf").write_bytes(path.read_bytes())
    refused = cli("undo", tmp_path / "copy.gguf")
    assert refused.code == 4
    assert "no edit to undo" in refused.err
    assert (tmp_path / "a.gguf-undo-1").exists()


@pytest.mark.parametrize("length", [230, 243, 244, 247, 248, 255])
def test_long_names(length: int, tmp_path: Path, cli):
    path = tmp_path / ("ä" * 50 + "x" * (length - 105) + ".gguf")
    assert len(os.fsencode(path.name)) == length
    model().write(path)
    first = path.read_bytes()
    assert cli("fix", path, "--set", "general.name=a").code == 0
    assert cli("fix", path, "--set", "general.name=b", "--strategy", "rewrite").code == 0
    assert cli("undo", path, "--all").code == 0
    assert path.read_bytes() == first
    assert os.listdir(tmp_path) == [path.name]


# -- a journal that is gone


def in_the_middle(path: Path, ops: list[Operation], strategy: str, at: int) -> None:
    """The state after sync number ``at`` of an edit, its journal put away."""

    class Stop(OsLayer):
        syncs = 0

        def fsync(self, fd: int) -> None:
            Stop.syncs += 1
            super().fsync(fd)
            if Stop.syncs == at:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        plan_edit(path, ops, strategy=strategy, layer=Stop()).commit()


@pytest.mark.parametrize(
    ("strategy", "at"), [("patch", 3), ("patch", 4), ("insert", 4), ("insert", 5), ("insert", 6)], ids=str
)
def test_an_undo_record_stands_in_for_a_lost_journal(strategy: str, at: int, tmp_path: Path, cli):
    if strategy == "insert" and not OsLayer().insert_unit(str(tmp_path)):
        pytest.skip("no insertion here")
    path = model().write(tmp_path / NAME)
    old = path.read_bytes()
    op: list[Operation] = [
        Set("general.name", "N" * 10) if strategy == "patch" else Set("general.description", "d" * 900)
    ]
    in_the_middle(path, op, strategy, at)
    assert path.read_bytes()[:4] != b"GGUF"
    os.rename(tmp_path / f"{NAME}-journal", tmp_path / f"{NAME}-undo-1")
    result = cli("recover", path)
    assert result.code == 0, result.err
    raw = path.read_bytes()
    assert raw == old or parse_bytes(raw).get(op[0].key).value == op[0].value  # type: ignore[union-attr, attr-defined]
    assert not (tmp_path / f"{NAME}-journal").exists()
    if raw != old:
        assert cli("undo", path).code == 0
        assert path.read_bytes() == old
    assert os.listdir(tmp_path) == [NAME]


def test_a_record_that_does_not_fit_is_not_used(tmp_path: Path, cli):
    path = model().write(tmp_path / NAME)
    plan_edit(path, [Set("general.name", "n" * 10)]).commit()
    raw = bytearray(path.read_bytes())
    raw[:4] = b"GGTX"
    raw[200] ^= 1  # in the part that the record has not saved a front for
    size = len(raw)
    path.write_bytes(bytes(raw) + b"more")
    refused = cli("recover", path)
    assert refused.code == 7
    assert "nothing was touched" in refused.err
    assert path.stat().st_size == size + 4


# -- what undo does not write


@pytest.mark.parametrize("copy", [False, True], ids=["in-place", "by-copy"])
@pytest.mark.parametrize("strategy", ["patch", "insert"])
def test_undo_leaves_tensor_bytes_as_they_are_now(strategy: str, copy: bool, tmp_path: Path, cli):
    """The block that header and tensors share is saved whole; what was mended in it since must stay."""
    path = model().write(tmp_path / NAME)
    good = path.read_bytes()
    start = parse_bytes(good).data_offset
    bad = bytearray(good)
    bad[start + 8 : start + 16] = b"YYYYYYYY"
    path.write_bytes(bytes(bad))
    value = "n" * 10 if strategy == "patch" else "n" * 3000
    plan_edit(path, [Set("general.name", value)], strategy=strategy).commit()
    edited = bytearray(path.read_bytes())
    now = parse_bytes(bytes(edited)).data_offset
    edited[now + 8 : now + 16] = good[start + 8 : start + 16]
    with open(path, "r+b") as f:
        f.seek(now + 8)
        f.write(edited[now + 8 : now + 16])
    result = cli("undo", path, *(("--in-use", "rewrite") if copy else ()))
    assert result.code == 0, result.err
    assert path.read_bytes() == good
    assert "same bytes as before" not in result.out
    assert "tensor data" in result.out


def test_a_record_of_another_edit_is_not_removed_by_an_undo(tmp_path: Path):
    path = model().write(tmp_path / NAME)
    plan_edit(path, [Set("general.name", "one")]).commit()
    layer = OsLayer()

    class Swapped(OsLayer):
        """Somebody puts another file in the place of the record while the edit is taken back."""

        def rename(self, old: str, new: str) -> None:
            super().rename(old, new)

        def fsync(self, fd: int) -> None:
            super().fsync(fd)
            Path(undo_path(str(path), 1)).write_bytes(b"not a record")

    undo(path, layer=Swapped())
    assert Path(undo_path(str(path), 1)).read_bytes() == b"not a record"
    assert recover(path, layer).state == "CLEAN"
    with pytest.raises(Refused, match="damaged"):
        undo(path)
