"""What names say of a set: other forms, links, stores; and what only the content ties."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.errors import FormatError, Refused
from gguftool.model import open_model
from gguftool.model.shards import naming
from tests.build import GGUF
from tests.model.test_sets import READERS, WRITERS, library_edit, listing

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
    assert cli("dump", tmp_path).code == 2
    plan = cli("plan", tmp_path)
    assert (plan.code, plan.out.count("1 of 2"), "shard 1 is missing" in plan.out) == (1, 2, True)
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


@pytest.mark.parametrize(("count", "kind"), [(65535, "u16"), (1 << 31, "u32")])
def test_hostile_counts_cost_nothing(cli, tmp_path: Path, count: int, kind: str) -> None:
    g = GGUF("llama").kv("split.no", 1, "u16").kv("split.count", count, kind).kv("split.tensors.count", 9, "i32")
    path = g.tensor("a", (32,)).write(tmp_path / f"m-00002-of-{count:05d}.gguf")
    for command in ("dump", "verify", "merge", "fix"):
        result = cli(*{**READERS, **WRITERS, "verify": lambda p: ["verify", p]}[command](path))
        assert len(result.err) + len(result.out) < 10_000
    if count == 65535:
        assert "shard 1, 3, 4, 5" in cli("plan", path).err
        assert "(65,534 in all)" in cli("plan", path).err


def test_prepare_copies_nothing_that_only_fits(cli, tmp_path: Path, a: list[Path], b: list[Path]) -> None:
    a[1].unlink()
    b[1].rename(tmp_path / "zz.gguf")
    b[0].unlink()
    out = tmp_path / "out"
    out.mkdir()
    result = cli("prepare", "--quantize", "Q8_0", a[0], "-o", out / "p.gguf")
    assert result.code == 3
    assert "a-00002-of-00002.gguf" in result.err
    assert list(out.glob("*.gguf")) == []


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
