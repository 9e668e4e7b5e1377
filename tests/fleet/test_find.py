"""Which files a scan looks at: patterns, folders that cannot be listed, links, names of every kind."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gguftool.files.patterns import Patterns
from gguftool.fleet import find
from gguftool.fleet.find import models
from tests.build import llama

TREE = ("a.gguf", "old/b.gguf", "new/c.gguf", "new/old/d.gguf", "new/deep/e.gguf", "new/x.bin", ".git/f.gguf")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    for name in TREE:
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        llama().write(root / name)
    return root


def found(root: Path, include: tuple[str, ...] = (), exclude: tuple[str, ...] = ()) -> set[str]:
    groups = models([str(root)], Patterns(include, exclude))
    return {os.path.relpath(path, root) for group in groups for path in group.paths}


@pytest.mark.parametrize(
    ("include", "exclude", "names"),
    [
        ((), (), "a.gguf old/b.gguf new/c.gguf new/old/d.gguf new/deep/e.gguf"),
        ((), ("old",), "a.gguf new/c.gguf new/deep/e.gguf"),
        ((), ("old/",), "a.gguf new/c.gguf new/deep/e.gguf"),
        ((), ("/old",), "a.gguf new/c.gguf new/old/d.gguf new/deep/e.gguf"),
        ((), ("new/old",), "a.gguf old/b.gguf new/c.gguf new/deep/e.gguf"),
        ((), ("new/*.gguf",), "a.gguf old/b.gguf new/old/d.gguf new/deep/e.gguf"),
        ((), ("**/old",), "a.gguf new/c.gguf new/deep/e.gguf"),
        ((), ("new/**/*.gguf",), "a.gguf old/b.gguf"),
        ((), ("[ab].gguf", "c.*"), "new/old/d.gguf new/deep/e.gguf"),
        ((), ("A.GGUF", "a.gguf/"), "a.gguf old/b.gguf new/c.gguf new/old/d.gguf new/deep/e.gguf"),
        (("*.bin",), (), "new/x.bin"),
        (("new/*",), ("*.bin",), "new/c.gguf"),
        (("a*",), ("a*",), ""),
    ],
)
def test_patterns(tree: Path, include: tuple[str, ...], exclude: tuple[str, ...], names: str):
    assert found(tree, include, exclude) == set(names.split())


def test_a_file_that_is_named_is_taken(cli, tree: Path):
    done = cli("scan", "--no-lint", "--exclude", "*.gguf", tree, tree / "a.gguf", "--format", "jsonl")
    assert [json.loads(line)["path"] for line in done.out.splitlines()] == [str(tree / "a.gguf")]


def test_each_file_once(tree: Path):
    paths = [str(tree / "new"), str(tree), f"{tree}/", str(tree / "a.gguf"), str(tree / "a.gguf")]
    got = [os.path.relpath(path, tree) for group in models(paths) for path in group.paths]
    assert sorted(got) == sorted(set(got)) == sorted(set(TREE) - {"new/x.bin", ".git/f.gguf"})


def test_no_pattern_takes_long():
    names = tuple("a" * 200 for _ in range(20))
    assert not Patterns((), (f"{'*a' * 60}*b", "**/" * 30 + "b")).excludes(names, folder=False)


def test_folders_that_are_links(cli, tmp_path: Path):
    (tmp_path / "real").mkdir()
    llama().write(tmp_path / "real" / "m.gguf")
    (tmp_path / "top").mkdir()
    (tmp_path / "top" / "linked").symlink_to(tmp_path / "real")
    (tmp_path / "top" / "loop").symlink_to(tmp_path / "top")
    done = cli("scan", "--no-lint", tmp_path / "top")
    assert "no model in it or below it" in done.out
    assert "linked" in done.err
    assert "are not entered" in done.err
    assert "1 model, 1 whole" in cli("scan", "--no-lint", tmp_path / "top" / "linked").out


def test_a_folder_that_cannot_be_listed(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "shut").mkdir()
    llama().write(tmp_path / "m.gguf")
    walk = os.walk

    def refuse(top: str, onerror):
        onerror(PermissionError(13, "Permission denied", os.path.join(top, "shut")))
        yield from walk(top)

    monkeypatch.setattr(find.os, "walk", refuse)
    done = cli("scan", "--no-lint", tmp_path, "--format", "json")
    assert done.code == 1
    errors = {os.path.basename(row["path"]): row["error"] for row in done.json["models"]}
    assert errors["shut"]["code"] == "unreadable"
    assert errors["m.gguf"] is None


ODD = {
    "broken link": lambda f: (f / "broken.gguf").symlink_to(f / "nothing"),
    "a link to itself": lambda f: (f / "itself.gguf").symlink_to("itself.gguf"),
    "a pipe": lambda f: os.mkfifo(f / "pipe.gguf"),
    "a folder": lambda f: (f / "folder.gguf").mkdir(),
    "a new line": lambda f: llama().write(f / "two\nlines.gguf"),
    "no UTF-8": lambda f: llama().write(Path(os.fsdecode(os.fsencode(f) + b"/\xff\xfe.gguf"))),
    "a terminal escape": lambda f: llama().write(f / "\x1b[31mred|`<b>.gguf"),
}


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "markdown", "html"])
def test_odd_files(cli, tmp_path: Path, form: str):
    for make in ODD.values():
        make(tmp_path)
    done = cli("scan", "--no-lint", "--jobs", "2", tmp_path, "--format", form)
    assert done.code == 1
    for name in ("broken", "itself", "pipe", "two", "red"):
        assert name in done.out
    assert "\x1b" not in done.out
    assert "two\nlines" not in done.out
    if form == "html":
        assert "<b>.gguf" not in done.out
    if form == "json":
        codes = {os.path.basename(row["path"]): row["error"] and row["error"]["code"] for row in done.json["models"]}
        assert codes["broken.gguf"] == "missing-file"
        assert codes["itself.gguf"] == "missing-file"
        assert codes["pipe.gguf"] == "unreadable"
        assert len(codes) == len(ODD) - 1


def test_rows_of_odd_names_are_kept(cli, tmp_path: Path):
    (folder := tmp_path / "m").mkdir()
    for name in ("a new line", "no UTF-8", "a terminal escape"):
        ODD[name](folder)
    kept = tmp_path / "rows.jsonl"
    first = cli("scan", "--no-lint", "--resume", kept, folder, "--format", "json").json["models"]
    before = kept.read_bytes()
    assert len(first) == 3
    assert cli("scan", "--no-lint", "--resume", kept, folder, "--format", "json").json["models"] == first
    assert kept.read_bytes() == before


def test_a_model_that_changes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from gguftool.fleet import want

    path = llama().write(tmp_path / "m.gguf")
    checked = want.check_here

    def growing(*given: object):
        with open(path, "ab") as f:
            f.write(b"\0" * 32)
        return checked(*given)

    monkeypatch.setattr(want, "check_here", growing)
    row = want.look(str(path), want.Want(lint=False))
    assert (row["ok"], row["error"]["code"]) == (False, "changed-meanwhile")
