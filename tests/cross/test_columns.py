"""Every command on a terminal of few columns: nothing is wider but what must stay whole; a pipe gets whole lines."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

import pytest

from gguftool.cli.main import main
from gguftool.report.lines import width
from tests.cross.test_streams import CALLS
from tests.cross.test_streams import ready as ready

MORE = """
    --help
    help lint
    launch --help
    dump m.gguf --overview
    dump m.gguf --layout
    dump m.gguf --tokens 0:5
    dump wide.gguf
    lint wide.gguf --no-config
    lint bad.gguf --no-config
    lint bad.gguf --no-config --statistics
    lint --show-settings
    plan m.gguf --vram 1GiB,2GiB
    plan m.gguf --vram 16
    verify bad.gguf
    diff m.gguf edited.gguf
    diff m.gguf wide.gguf
    compat wide.gguf
    scan . --statistics
    scan --stores .
    rules deploy
    rules kv-cache-type-slow
    explain llama.context_length
    explain --flag=--kv-cache-block-size
    fix m.gguf
    fix m.gguf --set general.name=x --dry-run
    undo edited.gguf --list
    quantize m.gguf --fits 1GB
    quantize m.gguf Q8_0 --dry-run
    render wide.gguf --diff m.gguf
    doctor
    doctor --symptom nonsense
    check-log log.txt
    launch m.gguf --print
    launch --translate './main -m m.gguf --ctk q4_0 --no-rope-shift --kv-cache-block-size 32'
    push-check wide.gguf
    report m.gguf --output r.html
    lint --contxt 5 m.gguf
    lint none.gguf
    split m.gguf
    frobnicate
""".strip().splitlines()
LINES = [f"{name} {args}" for name, (args, _) in CALLS.items() if args != "bash"] + [line.strip() for line in MORE]
COMMAND = re.compile(r"(?:^|: |\$ |`|  )(?:\S*/)?(?:gguftool|hf|pip|llama-[a-z-]+|jq|curl) \S")


class Screen(io.TextIOWrapper):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(scope="module")
def there(ready: Path) -> Path:
    """With a file of long and wide names, and one that is broken."""
    from tests.build import llama

    wide = (
        llama()
        .replace("general.name", "一つの模型の名前はとても長い" * 4)
        .kv("a.key.that.goes.on." + "and.on." * 8 + "日本", "x")
    )
    wide.kv("tokenizer.chat_template", "{% for m in messages %}{{ m['content'] }}{% endfor %} 🙂 e\u0301 " + "語" * 90)
    wide.tensor("a.tensor.with.a.long.name." + "x" * 30 + ".weight", (32, 32, 2, 2), "f32").write(ready / "wide.gguf")
    bad = llama().kv("llama.rope.scaling.type", "spiral").kv("llama.context_length", 0).kv("general.name", "twice")
    bad.kv("tokenizer.chat_template", "{% for %}").write(ready / "bad.gguf")
    (ready / "log.txt").write_text(
        "error: something failed in a line that goes on for longer than any terminal is wide\n" * 3
    )
    return ready


def shown(line: str, most: int, monkeypatch: pytest.MonkeyPatch, *, tty: bool = True) -> list[str]:
    """The lines of both streams."""
    import shlex

    monkeypatch.setenv("COLUMNS", str(most))
    kind = Screen if tty else io.TextIOWrapper
    out, err = (kind(io.BytesIO(), encoding="utf-8", write_through=True) for _ in "12")
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main(shlex.split(line))
    text = b"".join(s.buffer.getvalue() for s in (out, err)).decode()  # type: ignore[attr-defined]
    # A progress line is written over: what counts is what stands there in the end.
    return [re.sub(r"\x1b\[[0-9;]*[mK]", "", row).rpartition("\r")[2] for row in text.split("\n")]


def must_stay(row: str) -> bool:
    """A command to copy, or one word: a path, a hash, a name."""
    return bool(COMMAND.search(row)) or len(row.split()) == 1


CASES = [(line, 60) for line in LINES] + [(line, 40) for line in LINES[1::6]]


@pytest.mark.parametrize(("line", "most"), CASES)
def test_nothing_is_wider_than_the_terminal(there: Path, tmp_path: Path, monkeypatch, line: str, most: int):
    folder = there
    if CALLS.get(line.split()[0], ("", None))[1] or "--output" in line:
        folder = tmp_path
        for path in there.iterdir():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.chdir(folder)
    rows = shown(line, most, monkeypatch)
    assert rows != [""]
    assert [row for row in rows if width(row) > most and not must_stay(row)] == []


@pytest.mark.parametrize(
    "line", ["dump wide.gguf", "lint bad.gguf --no-config", "rules deploy", "plan m.gguf --ram 1GiB"]
)
def test_a_pipe_is_not_folded(there: Path, tmp_path: Path, monkeypatch, line: str):
    """What grep finds in a pipe stands on one line, whatever the terminal has."""
    monkeypatch.chdir(there)
    assert shown(line, 40, monkeypatch, tty=False) == shown(line, 200, monkeypatch, tty=False)
