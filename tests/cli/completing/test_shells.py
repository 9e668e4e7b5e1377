"""The probes in each shell."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cli.completing import served
from tests.cli.completing.probes import PROBES, Probe, folder
from tests.cli.completing.terminal import Seen, Terminal, fish

SHELLS = ("bash", "zsh", "fish")
EVERY = "GGUFTOOL_TEST_EVERY_PROBE"
ROOT = Path(__file__).parents[3]


@dataclass(frozen=True)
class Place:
    """A home with the files of the probes, a folder with ``gguftool`` in it, and one for what is told."""

    home: Path
    path: Path
    out: Path


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    base = tmp_path_factory.mktemp("c")
    made = Place(base / "home", base / "bin", base / "out")
    for path in (made.home, made.path, made.out):
        path.mkdir()
    folder(made.home)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here, which is what the stub is written in")
    command = [sys.executable, "-m", "tests.cli.completing.served", str(made.home)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        served.stub(made.path, bash, int(server.stdout.readline()))
        yield made
        server.kill()


def script(place: Place, shell: str, cli) -> Path:  # type: ignore[no-untyped-def]
    path = place.out / f"script.{shell}"
    path.write_text(cli("completion", shell).out)
    return path


def fits(offered: str, wanted: str, shell: str, typed: str) -> bool:
    """Whether what a shell was given makes ``wanted``: all of it, or what stands behind the place it puts it."""
    given = offered
    if shell == "bash":
        open_ = next((q for q in "'\"" if typed.count(q) % 2), "")
        given = shlex.split(open_ + offered + open_)[0]
    return bool(given) and wanted.rstrip("/").endswith(given.rstrip("/")) and len(given) + len(typed) >= len(wanted)


def check(probe: Probe, seen: Seen, shell: str) -> str:
    """What is wrong; "" when nothing is."""
    typed = probe.line.split(" -")[-1].split("lint ")[-1]
    for word in probe.has:
        if not any(fits(o, word, shell, typed) for o in seen.offered):
            return f"{word!r} is not offered: {seen.offered[:9]}"
    if probe.only is not None:
        for offered in seen.offered:
            if not any(fits(offered, word, shell, typed) for word in probe.only):
                return f"{offered!r} is offered"
    if seen.line is None or probe.word is None:
        return ""
    line = seen.line.removesuffix(probe.behind) if probe.behind else seen.line
    if not probe.word:
        return "" if line.rstrip() == probe.line.rstrip() else f"the line became {line!r}"
    try:
        # An interactive zsh takes the backslash off in double quotes, too.
        last = shlex.split(line.replace("\\!", "!") if shell == "zsh" else line)[-1]
    except ValueError as error:
        return f"{line!r}: {error}"
    if last != probe.word:
        return f"the line became {line!r}"
    return "" if line.endswith(" ") != probe.open or probe.behind else f"a blank too many or too few: {line!r}"


@pytest.mark.parametrize("shell", SHELLS)
def test_probes(place: Place, cli, shell: str) -> None:  # type: ignore[no-untyped-def]
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    # Two thirds of what it is tried with, another third left out of each; all: `python -m tests.cli.completing`.
    mine = [p for p in PROBES if shell in p.shells]
    probes = mine if EVERY in os.environ else [p for i, p in enumerate(mine) if i % 3 != SHELLS.index(shell)]
    assert len(probes) >= 40
    before = sorted(os.listdir(place.home))
    source = script(place, shell, cli)
    if shell == "fish":
        seen = fish([p.line for p in probes], source, place.home, place.path)
    else:
        out = place.out / shell
        out.mkdir()
        with Terminal(shell, source, place.home, place.path, out) as terminal:
            seen = [terminal.tab(p.line, p.behind) for p in probes]
    wrong = {p.line: found for p, s in zip(probes, seen, strict=True) if (found := check(p, s, shell))}
    assert not wrong, "\n".join(f"{line}: {what}" for line, what in wrong.items())
    left = [name for name in sorted(os.listdir(place.home)) if name not in before and name[0] != "."]
    assert not left, "something was run"


ASK = {
    "bash": 'source {start}; COMP_LINE="gguftool lint --select kv-cache-type-s" COMP_POINT=38; COMP_WORDS=(x)\n'
    '_gguftool_completion gguftool; echo "$COMPREPLY"',
    "fish": "complete -C 'gguftool lint --select kv-cache-type-s'",
}


@pytest.mark.parametrize("how", ["file", "line"])
@pytest.mark.parametrize("shell", SHELLS)
def test_installed_as_it_is_said(tmp_path: Path, cli, shell: str, how: str) -> None:  # type: ignore[no-untyped-def]
    """The printed lines, run as they stand in a new home; then the real program, asked by a shell that starts anew."""
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "gguftool"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m gguftool "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "HOME": str(tmp_path), "PATH": f"{tmp_path}/bin:{os.environ['PATH']}", "LC_ALL": "C.UTF-8"}
    env = {k: v for k, v in env.items() if not k.startswith("XDG_") and k != "ZDOTDIR"}

    def run(*words: str) -> str:
        done = subprocess.run(words, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = cli("completion", shell, "--install").out.splitlines()
    assert said[0] == f"# {shell}"
    [_, make, write, comment, line] = said
    assert comment.startswith("# ")
    start = tmp_path / "start"
    if how == "file" or shell == "zsh":
        run(shell, "-c", f"{make}; {write}")
    if shell == "bash":
        file = tmp_path / ".local/share/bash-completion/completions/gguftool"
        start.write_text(f"source {file}\n" if how == "file" else f"{line}\n")
        assert run("bash", "--norc", "-c", ASK["bash"].format(start=start)).strip() == "kv-cache-type-slow"
    elif shell == "fish":
        (tmp_path / ".config/fish").mkdir(parents=True, exist_ok=True)
        if how == "line":
            (tmp_path / ".config/fish/config.fish").write_text(f"{line}\n")
        assert run("fish", "-c", ASK["fish"]).startswith("kv-cache-type-slow")
    elif how == "file":
        (tmp_path / ".zshrc").write_text(f"{line}\n")
        assert run("zsh", "-i", "-c", "echo $_comps[gguftool]").strip() == "_gguftool"
