"""Which files are one set: names and contents as evidence. No command edits, copies or shows another model's file.

Two models a and b, cut alike: same shard count, same tensor names and counts, other weights and other descriptions,
which is what two fine-tunes or two quantisations in one folder are.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gguftool
from gguftool.errors import FormatError, InterruptedEdit, Refused
from gguftool.model import open_model
from gguftool.model.shards import naming, shard_name
from tests.build import GGUF
from tests.verify.sets import pieces, typed, write

COUNT = 2


def model(letter: str) -> GGUF:
    """Six layers; every tensor's data and one key say whose it is."""
    g = typed("f16", file_type=1)
    g.kv("general.description", f"model {letter}")
    for t in g._tensors:
        rows = 1
        for n in t["shape"][1:]:
            rows *= n
        size = t["shape"][0] * rows * (4 if t["type"] == "f32" else 2)
        t["data"] = (letter.encode() * size)[:size]
    return g


@pytest.fixture
def a(tmp_path: Path) -> list[Path]:
    return write(pieces(model("a"), [20]), tmp_path, "a")


@pytest.fixture
def b(tmp_path: Path) -> list[Path]:
    return write(pieces(model("b"), [20]), tmp_path, "b")


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


RENAMED = {
    "padding": ["a-1-of-2.gguf", "a-2-of-2.gguf"],
    "mixed padding": ["a-00001-of-00002.gguf", "a-2-of-2.gguf"],
    "case of the ending": ["a-00001-OF-00002.GGUF", "a-00002-of-00002.gguf"],
    "old splitters": ["a.gguf-00001-of-00002", "a.gguf-00002-of-00002"],
    "parts": ["a-part1.gguf", "a-part2.gguf"],
    "underlines": ["a_1.gguf", "a_2.gguf"],
    "part of": ["a.part1of2.gguf", "a.part2of2.gguf"],
}


@pytest.mark.parametrize("names", RENAMED.values(), ids=[n.replace(" ", "-") for n in RENAMED])
@pytest.mark.parametrize("entry", [0, 1])
def test_names_of_other_forms_are_names(
    cli, tmp_path: Path, a: list[Path], b: list[Path], names: list[str], entry: int
) -> None:
    """Both files say the same set and their own numbers: that is proof enough, and b stays out of it."""
    paths = [path.rename(tmp_path / name) for path, name in zip(a, names, strict=True)]
    with open_model(paths[entry]) as m:
        assert [part.name for part in m.parts] == [str(p) for p in paths]
        assert m.by_content == ()
    result = cli("merge", "-o", tmp_path / "m.gguf", paths[entry])
    assert result.code == 0
    with open_model(tmp_path / "m.gguf") as m:
        assert m["general.description"] == "model a"
        assert set(m.read("blk.5.ffn_down.weight")) == {ord("a")}
    before = listing(tmp_path)
    assert cli("fix", "--set", "general.description=I am A", paths[entry]).code == 0
    after = listing(tmp_path)
    assert {name for name, data in before.items() if after[name] != data} == {names[0]}


UNNAMED = {
    "hashes": ["sha256-" + "1" * 64, "sha256-" + "2" * 64],
    "any": ["first.gguf", "second.gguf"],
    "other models": ["qwen-1.gguf", "llama-2.gguf"],
    "numbers that contradict": ["a-part2.gguf", "a-part1.gguf"],
    "one usual": ["first.gguf", "a-00002-of-00002.gguf"],
}


@pytest.mark.parametrize("names", UNNAMED.values(), ids=[n.replace(" ", "-") for n in UNNAMED])
def test_what_only_the_content_ties_is_told_and_never_written_from(
    cli, tmp_path: Path, a: list[Path], names: list[str]
) -> None:
    paths = [path.rename(tmp_path / name) for path, name in zip(a, names, strict=True)]
    before = listing(tmp_path)
    for command in ("split", "merge", "quantize"):
        result = cli(*WRITERS[command](paths[0]))
        assert result.code == 4, command
        assert names[1] in result.err
        assert "verify --repair-names" in result.err
    if names[1] == UNNAMED["one usual"][1]:
        assert cli(*WRITERS["fix"](paths[1])).code == 3
    else:
        result = cli(*WRITERS["fix"](paths[1]))
        assert result.code == 4
        assert names[0] in result.err
        with pytest.raises(Refused):
            library_edit(paths[1])
    assert listing(tmp_path) == before
    # Reading commands find it and name it.
    for command in ("dump", "plan", "hash", "diff"):
        result = cli(*READERS[command](paths[0]))
        assert result.code == 0
        assert names[1] in result.err
        assert "taken for shard 2 of 2 by what is in it" in result.err
    # The user's own word is proof; and the file that was typed is the user's own word.
    assert cli("merge", "-o", tmp_path / "m.gguf", *paths).code == 0
    assert cli(*WRITERS["fix"](paths[0])).code == 0


def test_where_the_set_has_a_name_a_file_without_one_is_offered_not_taken(cli, tmp_path: Path, a: list[Path]) -> None:
    a[0].rename(tmp_path / "first.gguf")
    for command in ("fix", "split", "merge"):
        result = cli(*WRITERS[command](a[1]))
        assert result.code == 3
        assert "a-00001-of-00002.gguf" in result.err
        assert "first.gguf" in result.err
    result = cli("plan", a[1])
    assert result.code == 0
    assert f"a-00001-of-00002.gguf is missing; {tmp_path}/first.gguf: taken for shard 1 of 2" in result.err
    assert cli("verify", "--repair-names", "--yes", a[1]).code == 0
    assert cli("plan", a[1]).code in (0, 5)


def test_several_claim_a_number_and_no_name_decides(tmp_path: Path, a: list[Path], b: list[Path]) -> None:
    first = a[0].rename(tmp_path / "x.gguf")
    a[1].rename(tmp_path / "y.gguf")
    b[0].unlink()
    b[1].rename(tmp_path / "z.gguf")
    with pytest.raises(FormatError, match="shard 2 of 2 is missing"):
        open_model(first)


def test_a_set_that_is_whole_by_itself_lends_nothing(tmp_path: Path, a: list[Path], b: list[Path]) -> None:
    first = a[0].rename(tmp_path / "x.gguf")
    a[1].unlink()
    with pytest.raises(FormatError, match="shard 2 of 2 is missing"):
        open_model(first)


class TestLinks:
    def test_link_to_a_shard(self, cli, tmp_path: Path, a: list[Path], b: list[Path]) -> None:
        other = tmp_path / "elsewhere"
        other.mkdir()
        link = other / "link.gguf"
        link.symlink_to(a[1])
        with open_model(link) as m:
            assert [Path(p.name).name for p in m.parts] == [a[0].name, "link.gguf"]
            assert m.by_content == ()
        before = listing(tmp_path)
        assert cli("fix", "--set", "general.description=I am A", link).code == 0
        assert {name for name, data in listing(tmp_path).items() if before.get(name, data) != data} == {a[0].name}

    def test_hugging_face_cache(self, cli, tmp_path: Path, a: list[Path], b: list[Path]) -> None:
        """Blobs are named by their hash, the snapshot's links carry the names: by either the set is known."""
        blobs, snap = tmp_path / "models--o--r" / "blobs", tmp_path / "models--o--r" / "snapshots" / ("c" * 40)
        blobs.mkdir(parents=True)
        snap.mkdir(parents=True)
        hashed: dict[str, Path] = {}
        for digit, path in zip("1234", [*a, *b], strict=True):
            hashed[path.name] = path.rename(blobs / (digit * 64))
            (snap / path.name).symlink_to(hashed[path.name])
        for path in (snap / b[1].name, hashed[b[1].name]):
            with open_model(path) as m:
                assert m["general.description"] == "model b"
                assert m.by_content == ()
        (snap / b[0].name).unlink()
        with pytest.raises(FormatError, match="shard 1 of 2 is missing"):
            open_model(snap / b[1].name)
        with open_model(hashed[b[1].name]) as m:  # no name ties it any more, and it is told
            assert m.by_content == (str(hashed[b[0].name]),)
        hashed[b[0].name].unlink()
        with pytest.raises(FormatError, match="shard 1 of 2 is missing"):
            open_model(hashed[b[1].name])


def test_folder_of_two_broken_sets_is_no_model(cli, tmp_path: Path, a: list[Path], b: list[Path]) -> None:
    a[0].unlink()
    b[1].unlink()
    before = listing(tmp_path)
    for command in ("dump", "plan"):
        assert cli(command, tmp_path).code == 2
    result = cli("fix", "--set", "general.description=x", tmp_path)
    assert result.code == 2
    assert "holds 2 models" in result.err
    assert listing(tmp_path) == before


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("m-00002-of-00003.gguf", ("m", 1, 3)),
        ("d/m.gguf-00002-of-00003", ("m", 1, 3)),
        ("m-2-of-3.GGUF", ("m", 1, 3)),
        ("m.part2of3.gguf", ("m", 1, 3)),
        ("model12-1-of-3.gguf", ("model12", 0, 3)),
        ("part2.gguf", ("", 1, 0)),
        ("a-3b-00001-of-00002.gguf", ("a-3b", 0, 2)),
        ("m.gguf", None),
        ("sha256-" + "1" * 64, None),
    ],
)
def test_what_a_name_says(name: str, wanted: tuple[str, int, int] | None) -> None:
    said = naming(name)
    assert (None if said is None else (said.stem, said.no, said.count)) == wanted


def test_hostile_names_take_no_time() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "from gguftool.model.shards import naming; naming('1-of-' * 50_0 + 'x'); naming('-' * 255)",
        ],
        timeout=20,
        check=False,
    )
    assert done.returncode == 0
