"""SIGTERM, SIGHUP and Ctrl-C clean up in every command that takes long; children end with their parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.files.leftovers import MARK
from tests.files.writers import NAMES, writer

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes through /proc")
SLOW = """
import os, sys, time
from gguftool.files import draft, unnamed
from gguftool.cli.main import main
if {named}:
    draft.nameless = lambda path: -1
finish = draft.Draft.finish
def slow(self):
    print("here", flush=True)
    time.sleep(30)
    finish(self)
draft.Draft.finish = slow
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT], ids=lambda n: n.name)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_left(name: str, number: signal.Signals, tmp_path: Path):
    made = writer(name, tmp_path)
    before = {p: p.read_bytes() for p in made.sources}
    script = SLOW.format(named=number == signal.SIGHUP)
    argv = [sys.executable, "-c", script, *map(str, made.argv)]
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "here\n"
    child.send_signal(number)
    _, err = child.communicate(timeout=20)
    assert child.returncode == 128 + number, err
    assert "Traceback" not in err
    assert {p: p.read_bytes() for p in made.sources} == before
    assert not list(tmp_path.rglob(f"*{MARK}*"))
    assert name == "repair" or not made.made()


def until(what: Callable[[], object], seconds: float = 30) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.05)
    return False


def children(pid: int) -> list[int]:
    try:
        return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def works(pid: int, word: str) -> bool:
    """Whether a process with that word in its command has computed for a while."""
    try:
        if word not in Path(f"/proc/{pid}/cmdline").read_text():
            return False
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[11]) > 50


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.real
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL], ids=lambda n: n.name)
def test_kv_test_takes_its_child_along(number: signal.Signals, smollm2: Path, tmp_path: Path):
    pytest.importorskip("xllamacpp")
    argv = [sys.executable, "-m", "gguftool", "kv-test", smollm2, "--tokens", "2048", "--chunk", "512"]
    parent = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found: list[int] = []
        assert until(lambda: found.extend(p for p in children(parent.pid) if works(p, "divergencechild")) or found)
        parent.send_signal(number)
        code = parent.wait(30)
        assert code == (-number if number == signal.SIGKILL else 128 + number)
        assert until(lambda: gone(found[0]), 10)
    finally:
        parent.kill()
        parent.wait()


@pytest.mark.real
def test_imatrix_takes_its_child_along_and_leaves_no_draft(smollm2: Path, tmp_path: Path):
    pytest.importorskip("xllamacpp")
    argv = [sys.executable, "-m", "gguftool", "imatrix", smollm2, "--engine", "library", "-o", tmp_path / "m.gguf"]
    parent = subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        found: list[int] = []
        assert until(lambda: found.extend(p for p in children(parent.pid) if works(p, "imatrixchild")) or found)
        parent.send_signal(signal.SIGTERM)
        assert parent.wait(30) == 128 + signal.SIGTERM
        assert until(lambda: gone(found[0]), 10)
        assert list(tmp_path.iterdir()) == []
    finally:
        parent.kill()
        parent.wait()


def test_the_workers_of_a_scan_end_with_it(tmp_path: Path):
    for i in range(6):
        (tmp_path / str(i)).mkdir()
        writer("quantize", tmp_path / str(i))
    script = (
        "import sys, time; from gguftool.fleet import want; from gguftool.cli.main import main\n"
        "def slow(path): time.sleep(60)\n"
        "want.beginning = slow\n"
        "sys.exit(main(['scan', '--jobs', '2', sys.argv[1]]))"
    )
    parent = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    try:
        assert until(lambda: len(children(parent.pid)) >= 2)
        found = children(parent.pid)
        time.sleep(0.3)
        parent.kill()
        parent.wait(20)
        assert until(lambda: all(gone(pid) for pid in found), 10)
    finally:
        parent.kill()


def test_ctrl_c_while_modules_are_loaded_is_no_traceback():
    code = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from gguftool.cli.main import main\n"
        "class Struck:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'gguftool.cli.boundary': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Struck())\n"
        "sys.argv = ['gguftool', 'rules']\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == -signal.SIGINT
    assert (done.stdout, done.stderr) == ("", "")


def test_a_second_signal_does_not_stop_the_cleaning_up():
    from gguftool.endings import Ended, cancelling

    cleaned = False
    with pytest.raises(Ended) as found, cancelling():
        try:
            signal.raise_signal(signal.SIGHUP)
        finally:
            signal.raise_signal(signal.SIGTERM)
            cleaned = True
    assert cleaned
    assert found.value.exit_code == 129


def test_what_is_ignored_stays_ignored():
    """Nohup."""
    from gguftool.endings import cancelling

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with cancelling():
            signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_signal_while_a_program_is_started_is_not_lost(monkeypatch: pytest.MonkeyPatch):
    """In the hooks of a fork Python would drop the exception; it comes when the program runs, and ends it."""
    from gguftool.endings import Ended, cancelling, start

    real, made = subprocess.Popen, []

    def popen(*args, **kwargs):
        signal.raise_signal(signal.SIGTERM)
        made.append(real(*args, **kwargs))
        return made[0]

    monkeypatch.setattr(subprocess, "Popen", popen)
    with pytest.raises(Ended), cancelling():
        start(["sleep", "60"])
    assert made[0].returncode == -signal.SIGKILL
