"""Common mistakes, and the commands that their messages print: each runs as it stands, and leads on."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.build import GGUF, llama
from tests.cross.test_streams import gguf

MISTAKES = """
    dump none.gguf
    dump notes.txt
    dump models
    dump deep
    dump m.gguf --raw no.such.key
    dump m.gguf --keys no*
    dump m.gguf --tensors no*
    dump m.gguf --tokens 0:5
    dump m.gguf --fulll
    diff m.gguf
    diff m.gguf none.gguf
    render m.gguf
    render none.gguf
    render m.gguf --conversation no
    report m.gguf --output there.html
    rules no-such-rule
    explain general.nam
    explain
    explain --flag=--kv-cache-type
    lint
    lint none.gguf
    lint deep
    lint m.gguf --select no-such
    lint m.gguf --contxt 5
    lint m.gguf
    lint bad.gguf --fix
    verify none.gguf
    verify cut.gguf
    verify m.gguf --sums none.txt
    verify s-00001-of-00002.gguf
    compat m.gguf --build newest
    compat none.gguf
    push-check m.gguf
    hash none.gguf
    fix m.gguf
    fix m.gguf --set general.name
    fix m.gguf --set no.such.key=5
    fix m.gguf --set context_lenght=5
    fix m.gguf --delete no.such.key
    fix m.gguf --delete general.architecture
    fix m.gguf --ctx 99999999999999
    fix locked.gguf --set general.name=x
    fix cut.gguf --set general.name=x
    fix m.gguf --set-file a.key=none.txt
    undo m.gguf
    recover m.gguf
    split m.gguf
    split cut.gguf --max-tensors 1
    merge s-00001-of-00002.gguf
    merge m.gguf -o joined.gguf
    convert none
    convert m.gguf
    quantize m.gguf
    quantize m.gguf Q9_K
    quantize q.gguf Q4_0
    prepare none -o out.gguf
    prepare m.gguf -o there.gguf
    plan none.gguf
    plan m.gguf --vram 16
    plan m.gguf --ctx 10000000 --vram 1MiB --ram 1MiB
    plan models
    pull m.gguf
    launch none.gguf --print
    launch m.gguf --print --ctx 1000
    launch m.gguf --emit no
    launch
    check-log none.txt
    check-log notes.txt
    kv-test none.gguf
    kv-test m.gguf --types q9
    diagnose none.gguf
    diagnose m.gguf --no-run
    doctor --error nonsense-that-nobody-prints
    doctor --symptom gibberish
    scan none
    scan empty
    scan . --emit no
    completion tcsh
    frobnicate
    lnt m.gguf
    show none.gguf
    upload m.gguf
    set m.gguf general.name x --dry-run
    m.gguf --nosuch
""".strip().splitlines()
BLANK = re.compile(
    r"…|\b(?:MODEL|FILE|FOLDER|NAME|TEXT|COMMAND|VALUE|OWNER|OUT|SOURCE|DIR|PATH|BUILD|KEY|REPO|COPY|LOG)\b"
)
"""A word that a person puts something in place of."""
STARTS = ("launch", "kv-test", "pull", "convert", "prepare")
"""Commands that start programs or ask the network: their words are looked at, they are not run."""


def commands(said: str) -> list[str]:
    """The command lines of ours in a text: in backquotes, or at the end of a line."""
    found = re.findall(r"`(gguftool [^`]*)`", said)
    for line in said.splitlines():
        hit = re.search(r"(?:^|hint: |: |; |-> )(gguftool [a-z-]+ [^`]*)$", re.sub(r"`[^`]*`", "", line))
        if hit:
            found.append(hit[1])
    # A command's name alone is how prose calls it.
    named = [line for line in dict.fromkeys(found) if len(line.split()) > 2]
    return [line for line in named if not BLANK.search(line)]


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("models", "deep", "deep/a", "empty"):
        (tmp_path / name).mkdir()
    for name in ("m.gguf", "models/a.gguf", "models/b.gguf", "deep/a/x.gguf", "locked.gguf"):
        (tmp_path / name).write_bytes(gguf().bytes())
    (tmp_path / "locked.gguf").chmod(0o444)
    (tmp_path / "cut.gguf").write_bytes(gguf().bytes()[:-100])
    (tmp_path / "s-00001-of-00002.gguf").write_bytes(llama().shard(0, 2, 99).bytes())
    llama().kv("llama.rope.scaling.type", "spiral").write(tmp_path / "bad.gguf")
    GGUF("llama").kv("general.file_type", 7).tensor("token_embd.weight", (32, 32), "q8_0").write(tmp_path / "q.gguf")
    for name in ("notes.txt", "there.html", "there.gguf"):
        (tmp_path / name).write_text("some words\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", [line.strip() for line in MISTAKES])
def test_what_is_printed_runs(cli, there: Path, line: str):
    first = cli(*shlex.split(line))
    assert first.code in range(8), first.err
    said = first.err + first.out
    assert first.code == 0 or len(said) > 20
    for command in commands(said):
        words = shlex.split(command)[1:]
        if words[0] in STARTS and "--help" not in words:
            continue
        if command == f"gguftool {line}":
            pytest.fail(f"{command} again: {said}")
        done = cli(*words)
        assert done.code not in (2, 70), f"{command}: {done.err}"
        assert done.code == 0 or words[0] in ("lint", "verify", "scan", "push-check", "diagnose", "diff"), (
            command,
            done.err,
        )
