"""Killed at any moment, in a container where every process is number 1: the same command works, nothing lingers."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gguftool.files import draft as drafts
from gguftool.files.leftovers import MARK
from tests.build import llama
from tests.files.writers import NAMES, Writer, writer

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
STEPS = ("pwrite", "fsync", "link", "rename", "replace", "unlink", "ftruncate", "fchmod", "open", "mkdir")
"""Calls before which the process is killed."""


IN_STEPS = ("split", "repair", "prepare")
"""These need a hidden name for a moment: sets and what replaces another file."""


def killed(argv: tuple[object, ...], at: int, nameless: bool) -> bool:
    """Run a command in a child that is killed before its step ``at``; whether it came to that."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    try:
        real_pid = os.getpid()
        os.getpid = lambda: 1
        for fd in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)
        if not nameless:
            drafts.nameless = lambda path: -1
        count = 0

        def dying(name: str):
            real = getattr(os, name)

            def call(*args, **kwargs):
                nonlocal count
                writes = name != "open" or (len(args) > 1 and args[1] & (os.O_CREAT | getattr(os, "O_TMPFILE", 0)))
                count += bool(writes)
                if writes and count == at:
                    os.kill(real_pid, signal.SIGKILL)
                return real(*args, **kwargs)

            setattr(os, name, call)

        for step in STEPS:
            dying(step)
        from gguftool.cli.main import main

        main([str(arg) for arg in argv])
    finally:
        os._exit(0)


def drafts_in(folder: Path) -> list[str]:
    return [str(p) for p in folder.rglob(f"*{MARK}*")]


def reference(name: str, folder: Path, cli) -> dict[str, bytes]:
    folder.mkdir()
    made = writer(name, folder)
    assert cli(*made.argv).code == 0
    return {p.name: content(p) for p in made.made()}


def content(path: Path) -> bytes:
    """Of a manifest only what does not depend on where it lies."""
    return path.read_bytes()


def finished(made: Writer, cli, wanted: dict[str, bytes], whole: bool) -> None:
    """Run it again: it works, or it was done already."""
    result = cli(*made.argv)
    if result.code == 4 and whole:
        assert "exists already" in result.err
    else:
        assert result.code == 0, result.err
    assert {p.name: content(p) for p in made.made()} == wanted


@pytest.mark.parametrize("nameless", [True, False], ids=["without a name", "with a hidden name"])
@pytest.mark.parametrize("name", NAMES)
def test_at_every_step(name: str, nameless: bool, tmp_path: Path, cli, thin):
    wanted = reference(name, tmp_path / "reference", cli)
    points = 0
    for at in (*range(1, 14), *range(14, 90, 8)):
        folder = tmp_path / f"at-{at}"
        folder.mkdir()
        made = writer(name, folder)
        before = {p: p.read_bytes() for p in made.sources}
        if not thin(killed, tuple(map(str, made.argv)), at, nameless):
            break
        points += 1
        for path, data in before.items():
            assert path.read_bytes() in (data, wanted.get(path.name)), f"step {at}: a source was changed"
        now = {p.name: content(p) for p in made.made()}
        assert all(data in (wanted[n], before.get(folder / n)) for n, data in now.items()), f"step {at}: half a file"
        if nameless and name not in IN_STEPS:
            assert not drafts_in(folder), f"step {at}"
        finished(made, cli, wanted, whole=now == wanted)
        assert not drafts_in(folder), f"step {at}"
        shutil.rmtree(folder)
    assert points >= 4


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare")
@pytest.mark.parametrize("name", NAMES)
def test_in_a_real_container(name: str, tmp_path: Path, cli):
    wanted = reference(name, tmp_path / "reference", cli)
    space = ["unshare", "-pf", "--mount-proc", "--kill-child"]
    if subprocess.run([*space, "true"], capture_output=True).returncode:
        pytest.skip("no new namespaces here")
    folder = tmp_path / "c"
    folder.mkdir()
    made = writer(name, folder)
    argv = [sys.executable, "-m", "gguftool", *map(str, made.argv)]
    for wait in (0.1, 0.25, 0.4):
        child = subprocess.Popen([*space, *argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(wait)
        child.kill()
        child.wait()
    now = {p.name: content(p) for p in made.made()}
    if now == wanted and name not in ("repair", "manifest", "prepare"):
        for path in made.made():
            path.unlink()
    done = subprocess.run([*space, *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {p.name: content(p) for p in made.made()} == wanted
    assert not drafts_in(folder)


def test_a_draft_that_is_held_or_not_ours_stays(tmp_path: Path, cli):
    made = writer("merge", tmp_path)
    fd, held = drafts.hidden_file(str(tmp_path / "out.gguf"))
    os.write(fd, b"another run writes this now")
    strangers = {f".out.gguf.notes{MARK}": b"x", f".out.gguf.12345678{MARK}": b"x", ".out.gguf.draft": b"x"}
    for other, data in strangers.items():
        (tmp_path / other).write_bytes(data)
    assert cli(*made.argv).code == 0
    assert os.path.exists(held)
    assert all((tmp_path / other).read_bytes() == data for other, data in strangers.items())
    os.close(fd)
    (tmp_path / "out.gguf").unlink()
    assert cli(*made.argv).code == 0
    assert not os.path.exists(held)


def test_a_copy_of_a_draft_is_not_ours(tmp_path: Path, cli):
    """Its name has the inode number of another file."""
    made = writer("merge", tmp_path)
    fd, left = drafts.hidden_file(str(tmp_path / "out.gguf"))
    os.write(fd, b"data")
    os.close(fd)
    kept = Path(left)
    data = kept.read_bytes()
    kept.rename(tmp_path / "aside")
    kept.write_bytes(data)
    assert cli(*made.argv).code == 0
    assert kept.read_bytes() == data


def test_a_long_name(tmp_path: Path, cli):
    made = writer("quantize", tmp_path)
    out = tmp_path / ("ü" * 122 + ".gguf")
    assert cli("quantize", made.sources[0], out, "Q8_0", "--engine", "builtin", "--overwrite").code == 0
    assert cli("quantize", made.sources[0], out, "Q8_0", "--engine", "builtin", "--overwrite").code == 0
    assert not drafts_in(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_signal_while_a_draft_gets_its_name(tmp_path: Path, number: signal.Signals, what: str):
    """Between the making of the file and the moment its owner knows its name; `convert` left one there."""
    llama().write(tmp_path / "in.gguf")
    script = (
        "import os, sys\n"
        "from gguftool.files import draft, unnamed\n"
        "from gguftool.cli.main import main\n"
        "draft.nameless = lambda path: -1\n"
        "real = unnamed.lock\n"
        f"unnamed.lock = lambda fd: (os.kill(os.getpid(), {number.value}), real(fd))[1]\n"
        "if sys.argv[1] == 'folder':\n"
        "    from gguftool.edit import plan\n"
        "    plan._write_output = lambda *a: draft.draft_folder('out').__enter__()\n"
        "sys.exit(main(sys.argv[2:]))\n"
    )
    command = [sys.executable, "-c", script, what, "fix", "in.gguf", "--set", "general.name=x", "-o", "out.gguf"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 128 + number, done.stderr
    assert os.listdir(tmp_path) == ["in.gguf"]
