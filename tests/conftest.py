"""Fixtures for all rooms: real models, the command line, JSON schemas.

def test_dump(cli, tmp_path):
    result = cli("dump", path, "--format", "json")
    assert result.code == 0
    assert result.json["summary"]["architecture"] == "gemma3"    # .json checks the schema on the way
"""

from __future__ import annotations

import gc
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gguftool import endings
from tests.called import call
from tests.json_schemas import check_schema
from tests.real_models import GEMMA3, SMOLLM2, CannotFetch, RealModel, ensure
from tests.thin import thin as thin

# GGML_ABORT in a library under test would otherwise start a debugger where one is installed.
os.environ.setdefault("GGML_NO_BACKTRACE", "1")
# What a test fetches it fetches itself.
os.environ["GGUFTOOL_CACHE"] = "off"
# Under nohup a closing terminal is ignored, behind a shell's & Ctrl-C is, and by whatever we start; the tests ask what
# they do.
if threading.current_thread() is threading.main_thread():
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """What the collection of 17,000 tests left is no matter of the garbage collector any more."""
    gc.freeze()


def _model(which: RealModel) -> Path:
    try:
        return ensure(which)
    except CannotFetch as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"{which.filename} is not in the cache and cannot be fetched: {error}")


REAL_FSYNC = os.fsync


@pytest.fixture(scope="session", autouse=True)
def _disk_without_waiting() -> Iterator[None]:
    """A sync of this process looks at its descriptor and does not wait for the disk, which may be busy for seconds.

    No test pulls the plug of this machine: what a sync holds is shown on a modelled disk (tests/edit/powerdisk.py) and
    on a file system in an image (tests/edit/test_ext4.py), which takes the real one back.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: os.fstat(fd if isinstance(fd, int) else fd.fileno()) and None)
        yield


@pytest.fixture(scope="session", autouse=True)
def _children_without_a_copy_of_us() -> Iterator[None]:
    """A program is started without the hook that has it end with us, for which Python would copy this process first.

    It holds what all tests before left in it, and a copy of that takes longer than most programs here run. That
    children end with us is shown by processes of their own (``program``; tests/files/test_signals.py).
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(endings, "AT_START", None)
        yield


@pytest.fixture(scope="session")
def smollm2() -> Path:
    """SmolLM2-135M-Instruct Q4_1 (98 MB, 49,152 tokens). Never write to it: use ``smollm2_copy``."""
    return _model(SMOLLM2)


@pytest.fixture(scope="session")
def gemma3() -> Path:
    """gemma-3-270m Q4_K_M (253 MB, 262,144 tokens). Never write to it: use ``gemma3_copy``."""
    return _model(GEMMA3)


def _copy(source: Path, folder: Path) -> Path:
    target = folder / source.name
    shutil.copyfile(source, target)
    return target


@pytest.fixture
def smollm2_copy(smollm2: Path, tmp_path: Path) -> Path:
    """A copy of SmolLM2 to write to."""
    return _copy(smollm2, tmp_path)


@pytest.fixture
def gemma3_copy(gemma3: Path, tmp_path: Path) -> Path:
    """A copy of gemma-3 to write to."""
    return _copy(gemma3, tmp_path)


@dataclass(frozen=True, slots=True)
class Result:
    """What one call of gguftool did."""

    code: int
    stdout: bytes
    err: str

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.stdout.decode()

    @property
    def json(self) -> Any:
        """Standard output as JSON, checked against the command's schema."""
        found = json.loads(self.stdout)
        check_schema(found)
        return found


@pytest.fixture
def cli(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run gguftool in this process: ``cli("lint", path, "--format", "json")``. Not for crashes, pipes or signals."""
    monkeypatch.setenv("COLUMNS", "100")

    def run(*args: object, stdin: str = "") -> Result:
        out, err = io.BytesIO(), io.BytesIO()
        code = call([os.fspath(arg) if isinstance(arg, os.PathLike) else str(arg) for arg in args], out, err, stdin)
        return Result(code, out.getvalue(), err.getvalue().decode())

    return run


@pytest.fixture
def program() -> Callable[..., Result]:
    """Run gguftool as a process of its own: ``program("dump", path, cwd=..., env={...})``."""

    def run(*args: object, env: dict[str, str] | None = None, timeout: float = 600, **kwargs: Any) -> Result:
        done = subprocess.run(
            [sys.executable, "-m", "gguftool", *map(os.fspath, map(_text, args))],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            env={**os.environ, "COLUMNS": "100", **(env or {})},
            **kwargs,
        )
        return Result(done.returncode, done.stdout, done.stderr.decode(errors="surrogateescape"))

    return run


def _text(value: object) -> str | bytes | os.PathLike[str]:
    return value if isinstance(value, str | bytes | os.PathLike) else str(value)
