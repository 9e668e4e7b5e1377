"""Every block of commands in the documentation runs and prints what the page shows, or says why it cannot."""

from __future__ import annotations

import os
import re
from importlib import import_module
from pathlib import Path

import pytest

from gguftool.cli.group import TABLE, Entry
from tests.docs import grammar, shelf
from tests.docs.blocks import ROOT, BadBlock, blocks, pages
from tests.docs.run import faults, rewrite
from tests.docs.shown import kept_marks, matches
from tests.docs.terminal import Unknown, world


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
@pytest.mark.timeout(120)
def test_page(page: Path) -> None:
    assert list(faults(page, slow=False)) == []


@pytest.mark.slow
@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_that_take_long(page: Path) -> None:
    if any(block.slow for block in blocks(page)):
        assert list(faults(page)) == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_are_mentioned_exist(page: Path) -> None:
    assert [said for words in grammar.mentioned(page.read_text()) if (said := grammar.unknown(words))] == []


def test_a_mention_of_what_is_not_is_found() -> None:
    text = "`gguftool lint --frob m`, `gguftool frob`, `gguftool MODEL`, `x`, `gguftool plan --ctx N -- --metrics`\n"
    found = [
        said for words in grammar.mentioned(text + "```sh\ngguftool nay\n```\n") if (said := grammar.unknown(words))
    ]
    assert found == ["gguftool lint --frob m: no --frob", "gguftool frob: no command frob"]


def page_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> Path:
    for module in ("tests.docs.blocks", "tests.docs.run"):
        monkeypatch.setattr(f"{module}.ROOT", tmp_path)
    path = tmp_path / "page.md"
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```\nx\n```\n", "no language"),
        ("```console\nx\n```\n", "before the first command"),
        ("```console\n```\n", "no command"),
        ("```console\n$ x\n", "without an end"),
        ("```text\n$ gguftool lint m.gguf\n```\n", "command in a block of text"),
        ("<!-- console: new -->\nwords\n", "no block below"),
        ("<!-- console: not run: -->\n```console\n$ x\n```\n", "but why"),
        ("<!-- console: exit=1,0,0 -->\n```console\n$ x\n```\n", "3 exit codes"),
        ("<!-- console: new -->\n```yaml\na: 1\n```\n", "above yaml"),
    ],
)
def test_what_is_no_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    with pytest.raises(BadBlock, match=said):
        blocks(page_of(tmp_path, monkeypatch, text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```console\n$ echo a\nb\n```\n", "+a"),
        ("```console\n$ gguftool dump no.gguf\n```\n", "exit code 2"),
        ("<!-- console: exit=1 -->\n```console\n$ echo a\n```\n", "exit code 0, not 1"),
        ("```console\n$ gguftool lint --frobnicate m.gguf\n```\n", "No such option: --frobnicate"),
        ("<!-- console: not run: a GPU -->\n```console\n$ gguftool lint --nay m.gguf\n```\n", "No such option: --nay"),
        ("<!-- console: not run: no shell -->\n```sh\nX=1 gguftool plan --ctx x m\n```\n", "'x'"),
        ("```console\n$ curl x\n```\n", "curl is no program"),
        ("<!-- console: a=no-thing -->\n```console\n$ ls\n```\n", "no-thing"),
    ],
)
def test_what_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str) -> None:
    assert said in "\n".join(faults(page_of(tmp_path, monkeypatch, text)))


def test_blocks_of_a_page_share_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "```console\n$ echo a > f\n```\n```console\n$ cat f\na\n```\n"
    assert list(faults(page_of(tmp_path, monkeypatch, text))) == []
    fresh = text.replace("```console\n$ cat", "<!-- console: new exit=1 -->\n```console\n$ cat").replace(
        "f\na\n", "f\n"
    )
    assert list(faults(page_of(tmp_path, monkeypatch, fresh))) == []


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a|b", "a|b", True),
        ("a", "a|b", False),
        ("a|…", "a|b|c", True),
        ("a|…", "a", True),
        ("…|c", "a|b|c", True),
        ("a|…|c|…", "a|c|c", True),
        ("…|b", "a|b|c", False),
        ("took … s", "took 1.9 s", True),
        ("took … s", "took 1.9 min", False),
        ("…|x", "", False),
        ("…", "", True),
    ],
)
def test_marks(shown: str, printed: str, same: bool) -> None:
    def lines(text: str) -> list[str]:
        return text.split("|") if text else []

    assert matches(lines(shown), lines(printed)) is same


def test_rewriting_keeps_the_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept_marks(["a …", "…", "d", "old"], ["a 1", "b", "c", "d", "new"]) == ["a …", "…", "d", "new"]
    page = page_of(tmp_path, monkeypatch, "  ```console\n  $ printf 'x\\ny\\n'\n  …\n  z\n\n  $ echo b\n  ```\nend\n")
    assert rewrite(page)
    assert page.read_text() == "  ```console\n  $ printf 'x\\ny\\n'\n  x\n  y\n\n  $ echo b\n  ```\nend\n"
    page.write_text("```console\n$ echo a b\nold\n```\n")
    assert rewrite(page)
    assert page.read_text() == "```console\n$ echo a b\na b\n```\n"
    assert not rewrite(page)


def test_the_terminal() -> None:
    with world() as terminal:
        assert terminal.run("echo 'a  b' > f; cat < f | wc -l") == ["1"]
        assert terminal.run("cat nothing && echo no") != []
        assert terminal.code == 1
        assert terminal.run("echo $?") == ["1"]
        assert terminal.run("mkdir -p /srv/models && ls ~ /srv") == ["/home/ann:", "work", "", "/srv:", "models"]
        assert terminal.run("gguftool dump no.gguf 2> err") == []
        assert terminal.run("head -1 err")[0].startswith("error: no.gguf:")
        assert terminal.run("gguftool --version | cut -d' ' -f1") == ["gguftool"]
        with pytest.raises(Unknown):
            terminal.run("echo 'a")


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry.name)
def test_examples_of_the_help_parse(entry: Entry) -> None:
    command = getattr(import_module(f"gguftool.cli.{entry.module}"), entry.module)
    # What an example does stands two blanks behind it, or on a line of its own.
    lines = [re.sub(r" {2,}.*", "", line) for line in command.examples.splitlines() if not line.startswith(" ")]
    assert [said for line in lines if (said := grammar.wrong(line))] == []
    assert [words for line in lines for words in grammar.commands(line)]


def test_a_copy_is_lent_again_only_as_it_was(tmp_path: Path, smollm2: Path) -> None:
    path = tmp_path / "model.gguf"
    shelf.give_back()
    for change in (lambda: None, lambda: path.open("r+b").write(b"x"), lambda: os.truncate(path, 9), lambda: None):
        shelf.lend(path)
        assert path.stat().st_size == smollm2.stat().st_size
        with open(path, "rb") as file, open(smollm2, "rb") as own:
            assert file.read(1000) == own.read(1000)
        change()
        shelf.give_back()
        path.unlink(missing_ok=True)


def test_which_words_are_the_program() -> None:
    assert list(grammar.commands("pip install gguftool")) == []
    assert list(grammar.commands("A=1 gguftool lint x && exec gguftool dump y")) == [["lint", "x"], ["dump", "y"]]
    assert list(grammar.commands("git ls-files | xargs -0 gguftool lint --")) == [["lint", "--"]]
