"""Which files are one set: names and contents as evidence. No command edits, copies or shows another model's file.

Two models a and b, cut alike: same shard count, same tensor names and counts, other weights and other descriptions,
which is what two fine-tunes or two quantisations in one folder are.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import gguftool
from gguftool.errors import FormatError, InterruptedEdit, Refused
from gguftool.model import open_model
from gguftool.model.shards import shard_name

COUNT = 2


def listing(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def library_edit(path: Path) -> None:
    with gguftool.edit(path) as e:
        e["general.name"] = "Foo"


def library_split(path: Path) -> None:
    gguftool.split(path, str(path.parent / "x"), max_tensors=1)


def library_merge(path: Path) -> None:
    gguftool.merge(path, output=path.parent / "m.gguf")


WRITERS = {
    "fix": lambda p: ["fix", "--set", "general.description=I am A", "--yes", p],
    "fix output": lambda p: ["fix", "--set", "general.description=I am A", "--yes", "-o", p.parent / "o.gguf", p],
    "undo": lambda p: ["undo", p],
    "split": lambda p: ["split", "--max-tensors", "1", "-o", p.parent / "x", p],
    "merge": lambda p: ["merge", "-o", p.parent / "m.gguf", p],
    "quantize": lambda p: ["quantize", p, p.parent / "q.gguf", "Q8_0", "--engine", "builtin"],
}  # fmt: skip
READERS = {
    "dump": lambda p: ["dump", p],
    "plan": lambda p: ["plan", p],
    "hash": lambda p: ["hash", p],
    "hash tensors": lambda p: ["hash", "--tensors", p],
    "diff": lambda p: ["diff", p, p],
    "merge dry": lambda p: ["merge", "-n", "-o", p.parent / "m.gguf", p],
}
LIBRARY: dict[str, Callable[[Path], object]] = {
    "edit": library_edit,
    "split": library_split,
    "merge": library_merge,
    "open": gguftool.open,
    "undo": gguftool.undo,
    "diff": lambda p: gguftool.diff(gguftool.open(p), gguftool.open(p)),
}


def only_b_fits(folder: Path) -> Path:
    """The first shard of a is still on its way."""
    (folder / shard_name("a", 0, COUNT)).unlink()
    return folder / shard_name("a", 1, COUNT)


def a_stray_fits(folder: Path) -> Path:
    """The same, and the only file that fits has a name that says nothing."""
    (folder / shard_name("b", 0, COUNT)).rename(folder / "other.gguf")
    (folder / shard_name("b", 1, COUNT)).unlink()
    return only_b_fits(folder)


def the_last_is_missing(folder: Path) -> Path:
    (folder / shard_name("b", 1, COUNT)).rename(folder / "zz.gguf")
    (folder / shard_name("a", 1, COUNT)).unlink()
    return folder / shard_name("a", 0, COUNT)


def cut_in_its_header(folder: Path) -> Path:
    """A stray file that fits is no reason to leave the one aside that has the name."""
    return a_stray_cut(folder)


def a_stray_cut(folder: Path) -> Path:
    first = folder / shard_name("a", 0, COUNT)
    (folder / shard_name("b", 0, COUNT)).rename(folder / "other.gguf")
    first.write_bytes(first.read_bytes()[:500])
    return folder / shard_name("a", 1, COUNT)


def no_gguf_at_all(folder: Path) -> Path:
    path = a_stray_cut(folder)
    (folder / shard_name("a", 0, COUNT)).write_text("<!DOCTYPE html><title>Sign in</title>")
    return path


SITUATIONS = [only_b_fits, a_stray_fits, the_last_is_missing, cut_in_its_header, no_gguf_at_all]


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("command", [*WRITERS, *READERS])
def test_a_missing_shard_is_never_another_models_file(
    cli, tmp_path: Path, a: list[Path], b: list[Path], situation: Callable[[Path], Path], command: str
) -> None:
    path = situation(tmp_path)
    before = listing(tmp_path)
    result = cli(*({**WRITERS, **READERS}[command])(path))
    assert listing(tmp_path) == before or edits_its_own_file(situation, command)
    if not edits_its_own_file(situation, command):
        gone = shard_name("a", 1 if situation is the_last_is_missing else 0, COUNT)
        present = (tmp_path / gone).exists()
        assert gone in result.err + result.out or command == "undo"
        if command == "undo" and (present or situation is the_last_is_missing):
            assert result.code == 4  # there is no edit of this file to take back
        elif command in READERS and situation in (a_stray_fits, the_last_is_missing):
            # To look at, renamed shards are found, and told.
            stray = "other.gguf" if situation is a_stray_fits else "zz.gguf"
            assert result.code == (3 if command == "merge dry" else 0)
            assert stray in result.err
        elif command.startswith("hash") and present:
            assert "other.gguf" not in result.out  # a file is hashed as it is, whatever is in it
        else:
            assert result.code == 3, result.err
    else:
        changed = {name for name, data in listing(tmp_path).items() if before.get(name) != data}
        assert all(name.startswith(("a-", "o.gguf")) for name in changed)


def edits_its_own_file(situation: Callable[[Path], Path], command: str) -> bool:
    """Where the first shard of a is whole, an edit of the metadata is an edit of that file."""
    return situation is the_last_is_missing and command in ("fix", "fix output")


@pytest.mark.parametrize("situation", [only_b_fits, a_stray_fits, no_gguf_at_all])
@pytest.mark.parametrize("name", LIBRARY)
def test_the_library_neither(
    tmp_path: Path, a: list[Path], b: list[Path], situation: Callable[[Path], Path], name: str
) -> None:
    path = situation(tmp_path)
    before = listing(tmp_path)
    if name in ("open", "diff") and situation is a_stray_fits:
        with gguftool.open(path) as m:
            assert m.by_content == (str(tmp_path / "other.gguf"),)
        return
    with pytest.raises((FormatError, Refused) if name == "undo" else FormatError):
        LIBRARY[name](path)
    assert listing(tmp_path) == before


@pytest.mark.parametrize("situation", SITUATIONS)
def test_lint_fix_neither(cli, tmp_path: Path, a: list[Path], b: list[Path], situation: Callable[[Path], Path]) -> None:
    path = situation(tmp_path)
    before = listing(tmp_path)
    result = cli("lint", "--fix", "--fix-unsafe", "--no-config", path)
    assert result.code in (1, 3)
    changed = {name for name, data in listing(tmp_path).items() if before.get(name) != data}
    assert all(name.startswith("a-00001") for name in changed if situation is the_last_is_missing)
    assert situation is the_last_is_missing or not changed


def test_an_undo_of_b_is_not_done_for_a(cli, tmp_path: Path, a: list[Path], b: list[Path]) -> None:
    assert cli("fix", "--set", "general.description=changed", b[0]).code == 0
    a[0].unlink()
    before = listing(tmp_path)
    assert cli("undo", a[1]).code == 3
    assert listing(tmp_path) == before
    assert cli("undo", b[1]).code == 0


@pytest.mark.parametrize("command", ["merge", "split"])
def test_a_shard_in_the_middle_of_an_edit(cli, tmp_path: Path, a: list[Path], b: list[Path], command: str) -> None:
    """Neither with a journal beside it nor with the mark of an edit in it is it a reason to take z.gguf."""
    shutil.copy(a[0], tmp_path / "z.gguf")
    a[0].write_bytes(b"GGTX" + a[0].read_bytes()[4:])
    before = listing(tmp_path)
    result = cli(*WRITERS[command](a[1]))
    assert result.code == 7
    assert f"gguftool recover {a[0]}" in result.err
    assert listing(tmp_path) == before
    with pytest.raises(InterruptedEdit):
        open_model(a[1])
    a[0].write_bytes(b"GGUF" + a[0].read_bytes()[4:])
    (tmp_path / f"{a[0].name}-journal").write_bytes(b"x")
    assert cli(*WRITERS[command](a[1])).code == 7


@pytest.mark.parametrize("command", [name for name in WRITERS if name != "undo"])
def test_two_sets_in_one_folder_stay_apart(cli, tmp_path: Path, a: list[Path], b: list[Path], command: str) -> None:
    before = listing(tmp_path)
    assert cli(*WRITERS[command](b[1])).code == 0
    after = listing(tmp_path)
    assert {name for name, data in before.items() if after[name] != data} <= {b[0].name}
    if command in ("merge", "quantize"):
        with open_model(tmp_path / ("m.gguf" if command == "merge" else "q.gguf")) as m:
            assert m["general.description"] == "model b"
