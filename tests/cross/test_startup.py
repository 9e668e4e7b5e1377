"""What starting costs: heavy packages are loaded by the functions that need them, not at start-up."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from gguftool.cli import wishes
from tests.build import llama

HEAVY = {"numpy", "gguf", "huggingface_hub", "jinja2", "tabulate", "requests", "httpx", "asyncio", "xllamacpp", "ggml"}


def modules_after(*args: object) -> set[str]:
    """Names of the modules a gguftool process has loaded in the course of one command line."""
    command = [sys.executable, "-X", "importtime", "-m", "gguftool", *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL)
    assert done.returncode in (0, 1), done.stderr
    rows = [line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")]
    assert "gguftool.cli.main" in rows
    return set(rows)


def test_version_loads_not_even_click():
    loaded = modules_after("--version")
    assert not loaded & HEAVY
    assert "click" not in loaded


def test_help_loads_no_command():
    loaded = modules_after("--help")
    assert not loaded & HEAVY
    assert "gguftool.cli.completion" not in loaded
    assert {module for module in loaded if module.startswith("gguftool.cli.")} == {
        "gguftool.cli.main",
        "gguftool.cli.boundary",
        "gguftool.cli.group",
        "gguftool.cli.helped",
        "gguftool.cli.names",
        "gguftool.cli.options",
        "gguftool.cli.spelled",
        "gguftool.cli.streams",
        "gguftool.cli.values",
    }


@pytest.mark.parametrize("command", ["dump", "lint", "verify"])
@pytest.mark.parametrize("form", ["text", "json"])
def test_a_small_file_needs_nothing_heavy(command: str, form: str, tmp_path: Path):
    if find_spec(f"gguftool.cli.{command}") is None:
        pytest.skip(f"there is no {command} yet")
    path = tmp_path / "small.gguf"
    path.write_bytes(llama().bytes())
    assert not modules_after(command, path, "--format", form) & HEAVY


def test_import_gguftool_loads_nothing_heavy():
    code = "import sys, gguftool; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert not set(done.stdout.split()) & (HEAVY | {"click"})


def test_options_that_nobody_names_are_not_made(cli, monkeypatch: pytest.MonkeyPatch):
    def made(*asked: object) -> None:
        raise KeyError("made")

    monkeypatch.delitem(sys.modules, "gguftool.cli.plan", raising=False)
    monkeypatch.setattr(wishes, "made", made)
    try:
        assert cli("plan", "nowhere.gguf", "--format", "json").code == 2
        assert "made" in cli("plan", "nowhere.gguf", "--ctx", "8192").err
    finally:
        sys.modules.pop("gguftool.cli.plan", None)


SELDOM = {
    "dataclasses",
    "email",
    "gettext",
    "hashlib",
    "http",
    "inspect",
    "locale",
    "logging",
    "shutil",
    "socket",
    "ssl",
    "tempfile",
    "urllib",
    "uuid",
}
"""Of the standard library: some ms each, and for few files."""
if sys.platform == "linux":
    SELDOM.add("platform")
if sys.version_info < (3, 12):
    SELDOM.add("datetime")
ROOMS = {"build", "chat", "edit", "fleet", "lint", "memory", "predict", "run", "screen"}
ROOMS |= {"model.projector", "model.adapter", "model.imatrix", "facts.machine.clip"}
CALLED_FOR = {
    "dump": {"memory"},
    "verify": set(),
    "diff": set(),
    # What is taken back is known by its digest.
    "undo": {"edit", "hashlib"},
}


@pytest.mark.parametrize("command", CALLED_FOR)
def test_a_command_loads_what_the_file_calls_for(command: str, tmp_path: Path):
    path = tmp_path / "small.gguf"
    path.write_bytes(llama().bytes())
    if command == "undo":
        edit = [sys.executable, "-m", "gguftool", "fix", "--yes", "--set", "general.name=other", path]
        subprocess.run(edit, capture_output=True, timeout=60, check=True)
    loaded = modules_after(command, path, *([path] if command == "diff" else []))
    assert not loaded & (SELDOM - CALLED_FOR[command])
    rooms = {f"gguftool.{room}" for room in ROOMS - CALLED_FOR[command]}
    assert not {name for name in loaded if rooms & {name, name.rpartition(".")[0]}}


def test_what_is_not_loaded_yet_is_there_when_it_is_asked_for():
    code = (
        "import sys\n"
        "from gguftool.cli import main\n"
        "print(main.main())\n"
        "print('ast' in sys.modules)\n"
        "early = sys.modules['inspect']\n"
        "import inspect\n"
        "print(early is inspect, 'ast' in sys.modules)\n"
        "print(early.cleandoc(' a'), 'ast' in sys.modules, sys.modules['inspect'] is not early)\n"
        "from datetime import MAXYEAR, datetime\n"
        "print(MAXYEAR, datetime is sys.modules['datetime'].datetime, datetime.strptime('2026', '%Y').year)\n"
        "import platform\n"
        "print(platform.system(), bool(platform.python_version()), sys.modules['platform'].system())\n"
        "import uuid\n"
        "from click.types import uuid as early_uuid\n"
        "print('_uuid' in sys.modules, uuid.UUID(int=1).int, early_uuid.UUID is sys.modules['uuid'].UUID)\n"
        "import click\n"
        "print(click.UUID.convert('0' * 32, None, None), click.UUID.name)\n"
        "from inspect import signature\n"
        "print(signature(lambda x: 1), signature is early.signature)\n"
        "try: early.nothing\n"
        "except AttributeError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, "rules", "--format", "nonsense"], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["2", "False", "True False"]
    assert lines[3:5] == ["a True True", "9999 True 2026"]
    assert lines[5] == f"{platform.system()} True {platform.system()}"
    assert lines[6:8] == ["False 1 True", "00000000-0000-0000-0000-000000000000 uuid"]
    assert lines[8:] == ["(x) True", "module 'inspect' has no attribute 'nothing'"]


def test_the_process_ends_at_once_but_not_before_what_is_to_be_done_at_its_end():
    code = (
        "import atexit, sys, threading, time\n"
        "from gguftool.cli import main\n"
        "def later():\n"
        "    time.sleep(0.2); print('thread')\n"
        "def run():\n"
        "    atexit.register(print, 'last')\n"
        "    threading.Thread(target=later).start()\n"
        "    print('first')\n"
        "    return 7\n"
        "class Never:\n"
        "    def __del__(self): print('taken to pieces')\n"
        "never = Never()\n"
        "main.main = run\n"
        "sys.exit(main.script())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["first", "thread", "last"]
    assert done.returncode == 7
