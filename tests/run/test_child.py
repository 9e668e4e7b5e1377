"""A child that is talked with: what it says, and what is said where it says nothing any more."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gguftool.errors import NoRoom, ToolFailed, UsageError
from gguftool.run.child import converse, talking

ECHO = """
import json, os, sys
for line in sys.stdin:
    said = json.loads(line)
    if said.get("die"):
        sys.stderr.write("GGML_ASSERT(grid_index >= 0)\\n")
        sys.exit(said["die"])
    print(json.dumps({"note": "at work"}), flush=True)
    print(json.dumps(said), flush=True)
"""


@pytest.fixture(autouse=True)
def echo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "echo_child.py").write_text(ECHO)
    (tmp_path / "deaf_child.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def test_one_request_with_notes_and_its_answer():
    notes: list[object] = []
    assert converse("echo_child", {"tokens": 7}, notes.append, 60) == {"tokens": 7}
    assert notes == ["at work"]


def test_several_requests_to_one_child():
    with talking("echo_child", 60) as child:
        for number in range(3):
            child.say({"number": number})
            assert [child.hear(), child.hear()] == [{"note": "at work"}, {"number": number}]


@pytest.mark.parametrize(("more", "kind"), [({}, ToolFailed), ({"usage": True}, UsageError), ({"room": True}, NoRoom)])
def test_what_it_says_is_raised(more: dict[str, object], kind: type[Exception]):
    with pytest.raises(kind, match=r"^it cannot$"):
        converse("echo_child", {"error": "it cannot", **more}, lambda _: None)


def test_one_that_ends_tells_its_last_words():
    with talking("echo_child") as child:
        child.say({"die": 3})
        with pytest.raises(ToolFailed, match=r"ended with code 3 .*GGML_ASSERT\(grid_index >= 0\)"):
            child.hear()
        # Nobody hears it; that it has gone is told once more.
        child.say({})
        with pytest.raises(ToolFailed, match="ended with code 3"):
            child.hear()


def test_one_that_takes_too_long_is_ended():
    start = time.monotonic()
    with pytest.raises(ToolFailed, match="took longer than it was given") as caught:
        converse("deaf_child", {}, lambda _: None, 1)
    assert caught.value.hint == "--timeout SECONDS"
    assert time.monotonic() - start < 60
