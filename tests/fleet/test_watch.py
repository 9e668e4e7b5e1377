"""`scan --watch` with the events of the kernel: what lands is told, a signal ends it well, numbers for Prometheus."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import gguftool
from gguftool.fleet.hear import Heard, Notified
from gguftool.fleet.tally import Says, Tally
from gguftool.report.metrics import metrics
from tests.build import llama
from tests.pace import slowness

pytest.importorskip("watchfiles")
WHOLE = llama().bytes()


@pytest.fixture
def longest() -> float:
    """Seconds after which a test no longer waits; on a quiet machine it takes two."""
    return 30 * slowness()


def test_what_lands_is_told(tmp_path: Path, longest: float):
    root = tmp_path / "root"
    root.mkdir()
    (root / "old.gguf").write_bytes(WHOLE)
    rows = gguftool.watch(root, lint=False, settle=0.05, lasts=longest)

    def told() -> tuple[str, str, bool]:
        event = next(rows)
        return event["event"], os.path.relpath(event["path"], root), event["ok"]

    # As old as the clock's next tick at least.
    assert told() in (("found", "old.gguf", True), ("new", "old.gguf", True))

    def later(act):  # type: ignore[no-untyped-def]
        threading.Timer(0.1, act).start()
        return told()

    assert later(lambda: (root / "new.gguf").write_bytes(WHOLE)) == ("new", "new.gguf", True)

    def deep() -> None:
        # Nothing is heard of what is in a folder before it is listened to.
        (root / "a" / "b").mkdir(parents=True)
        (root / "a" / "b" / "m.gguf").write_bytes(WHOLE)

    assert later(deep) == ("new", "a/b/m.gguf", True)
    # A name that is no text, which ends the library's listening.
    odd = os.fsencode(root) + b"/\xff.gguf"
    assert later(lambda: Path(os.fsdecode(odd)).write_bytes(WHOLE))[::2] == ("new", True)
    assert later(lambda: (root / "a").rename(tmp_path / "away")) == ("deleted", "a/b/m.gguf", False)

    def anew() -> None:
        shutil.rmtree(root)
        root.mkdir()
        (root / "after.gguf").write_bytes(WHOLE)

    threading.Timer(0.1, anew).start()
    seen = [told() for _ in range(4)]
    while seen[-1][1] != "after.gguf" or len([s for s in seen if s[0] == "deleted"]) < 3:
        seen.append(told())
    assert ("new", "after.gguf", True) in seen
    rows.close()


def test_a_signal_ends_it_well(tmp_path: Path, longest: float):
    root, numbers = tmp_path / "root", tmp_path / "m.prom"
    root.mkdir()
    (root / "m.gguf").write_bytes(WHOLE)
    argv = [
        *(sys.executable, "-m", "gguftool", "scan", "--watch", "--no-lint", "--no-config", "--settle", "0.2"),
        *("--for", str(longest), "--format", "jsonl", "--metrics", str(numbers), str(root)),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        first = json.loads(process.stdout.readline())
        (root / "cut.gguf").write_bytes(b"<html>" + bytes(99))
        second = json.loads(process.stdout.readline())
        (root / "more.gguf").write_bytes(WHOLE)
        third = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGTERM)
        rest, said = process.communicate(timeout=longest)
    events = [first, second, third, *map(json.loads, rest.splitlines())]
    # What was written just before it began may be found, or land after that.
    at_first = events[0]["event"]
    assert at_first in ("found", "new")
    assert [(e["event"], os.path.basename(e["path"]), e["ok"]) for e in events] == [
        (at_first, "m.gguf", True),
        ("new", "cut.gguf", False),
        ("new", "more.gguf", True),
    ]
    assert (process.returncode, said) == (0, "")
    assert f'gguftool_models{{paths="{root}",state="whole"}} ' in numbers.read_text()


def test_as_text_and_for_a_while(cli, tmp_path: Path):
    (tmp_path / "m.gguf").write_bytes(WHOLE)
    done = cli("scan", "--watch", "--for", "0", "--settle", "0", tmp_path, "--no-config")
    assert (done.code, done.err) == (0, "")
    assert "found     m.gguf" in done.out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "json"), "--watch has none"),
        (("--stores",), "do not go together"),
        (("--fail-on", "error"), "does nothing with --watch"),
        (("--scheduler", "tcp://h:1"), "--scheduler has no"),
        (("hf://owner/repo",), "folders of this machine"),
        ((__file__,), "is no folder"),
        (("/nowhere",), "no such file or folder"),
    ],
)
def test_what_does_not_go_with_it(cli, tmp_path: Path, words: tuple[str, ...], said: str):
    done = cli("scan", "--watch", tmp_path, *words, "--no-config")
    assert done.code == 2, done.err
    assert said in done.err


def test_its_options_are_for_it(cli, tmp_path: Path):
    done = cli("scan", tmp_path, "--settle", "1")
    assert (done.code, "--settle is for --watch" in done.err) == (2, True)


def test_without_the_library(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    done = cli("scan", "--watch", tmp_path, "--no-config")
    assert done.code == 6
    assert "pip install 'gguftool[watch]'" in done.err


def test_where_nothing_can_be_heard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The system has no watch left: said once, counted, and folders are looked through."""

    def none(*words: object) -> None:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr("watchfiles._rust_notify.RustNotify", none)
    said: list[str] = []
    hear = Notified([str(tmp_path)], said.append)
    assert [hear(0.001) for _ in range(3)] == [Heard(lost=True)] * 3
    assert len(said) == 1
    assert "OS file watch limit reached" in said[0]


def test_metrics_are_read_by_the_real_parser(tmp_path: Path):
    parser = pytest.importorskip("prometheus_client.parser")
    name = 'a\\b"c\nd\udcff\\n é'
    tally = Tally(errors=2, scanned=1.5)
    tally.add("whole", Says((("error", 1), ("warning", 3)), "loads"))
    tally.add("broken", Says((), "refused"))
    text = metrics(tally, [name], ("new",))
    families = {f.name: f for f in parser.text_string_to_metric_families(text)}
    assert all(f.documentation and f.type in ("gauge", "counter") for f in families.values())
    found = {
        (s.name, *(v for k, v in s.labels.items() if k != "paths")): s.value
        for f in families.values()
        for s in f.samples
    }
    assert {s.labels["paths"] for f in families.values() for s in f.samples} == {name.replace("\udcff", "\\udcff")}
    assert found["gguftool_models", "whole"] == found["gguftool_models", "broken"] == 1
    assert found["gguftool_models", "waiting"] == 0
    assert (found["gguftool_findings", "warning"], found["gguftool_load_verdicts", "refused"]) == (3, 1)
    assert (found["gguftool_last_scan_timestamp_seconds",], found["gguftool_scan_errors_total",]) == (1.5, 2)


def test_metrics_of_a_scan_that_ends(cli, tmp_path: Path):
    (tmp_path / "m.gguf").write_bytes(WHOLE)
    (tmp_path / "cut.gguf").write_bytes(WHOLE[:-5])
    numbers = tmp_path / "m.prom"
    done = cli("scan", tmp_path, "--no-lint", "--metrics", numbers, "--no-config")
    assert done.code == 1
    assert f'gguftool_models{{paths="{tmp_path}",state="broken"}} 1\n' in numbers.read_text()
    assert numbers.stat().st_mode & 0o444 == 0o444 & ~_umask()
    (tmp_path / "mine.txt").write_text("do not touch")
    refused = cli("scan", tmp_path, "--no-lint", "--metrics", tmp_path / "mine.txt", "--no-config")
    assert (refused.code, (tmp_path / "mine.txt").read_text()) == (4, "do not touch")


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before
