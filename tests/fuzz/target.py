"""What a target is, and what is wrong with a run of it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from random import Random

from gguftool.errors import Bug, GgufToolError
from tests.json_schemas import check_schema, validator

HERE = Path(__file__).parent
KEPT = HERE.parent / "data" / "fuzz"
SLOWEST = 5.0
"""Seconds of CPU for one call."""


class Wrong(AssertionError):
    """A finding."""


@dataclass(frozen=True)
class Target:
    """What is fuzzed.

    Attributes:
        corpus: inputs to begin with.
        mutate: another input, made of them.
        run: look at one input in a folder that is empty; raises for a finding.
    """

    corpus: Callable[[], Sequence[bytes]]
    mutate: Callable[[Random, Sequence[bytes]], bytes]
    run: Callable[[bytes, Path, Random], None]


def names() -> list[str]:
    """All targets."""
    return sorted(path.stem for path in (HERE / "targets").glob("[a-z]*.py"))


@cache
def target(name: str) -> Target:
    """One of them."""
    found = import_module(f"tests.fuzz.targets.{name}").TARGET
    assert isinstance(found, Target)
    return found


@cache
def corpus(name: str) -> tuple[bytes, ...]:
    """Its inputs, and what was found before."""
    return (*target(name).corpus(), *(path.read_bytes() for path in sorted((KEPT / name).glob("*"))))


def made(name: str, number: int) -> tuple[bytes, Random]:
    """The input of one execution, and the chance that goes on with it."""
    rng = Random(f"{name} {number}")
    return target(name).mutate(rng, corpus(name)), rng


@contextlib.contextmanager
def loud():
    """A warning of Python or numpy over the values of a file is a finding: it would reach the terminal."""
    with warnings.catch_warnings():
        for kind in (RuntimeWarning, SyntaxWarning, FutureWarning, UserWarning):
            warnings.simplefilter("error", kind)
        yield


@contextlib.contextmanager
def ours():
    """Our own errors are what is wanted; a bug is none of them."""
    start = time.process_time()
    try:
        with loud():
            yield
    except Bug as e:
        raise Wrong(str(e)) from e
    except GgufToolError:
        pass
    if (took := time.process_time() - start) > SLOWEST:
        raise Wrong(f"{took:.1f} seconds of CPU")


class _Stdin(io.StringIO):
    def __init__(self, text: bytes) -> None:
        super().__init__(text.decode("utf-8", "surrogateescape"))
        self.buffer = io.BytesIO(text)


def cli(*args: str | Path, stdin: bytes = b"", codes: Sequence[int] = range(8)) -> str:
    """Run gguftool in this process.

    Returns:
        What it wrote to stdout.

    Raises:
        Wrong: an exit code that is none of its table, a traceback, a sign that drives a terminal, JSON that its schema
            does not describe, or much time.
    """
    from gguftool.cli.main import main

    words = [os.fspath(a) for a in args]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace", write_through=True) for _ in "12")
    was, start = sys.stdin, time.process_time()
    sys.stdin = _Stdin(stdin)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), loud():
            code = main(words)
    finally:
        sys.stdin = was
    took = time.process_time() - start
    said, told = (x.buffer.getvalue().decode("utf-8", "replace") for x in (out, err))
    what = f"gguftool {' '.join(words)!r}: "
    if code not in codes or "Traceback" in said + told:
        raise Wrong(f"{what}exit code {code}\n{told[-6000:]}")
    if any(c in said + told for c in "\x1b\x07\x9b") or "\u202e" in told:
        raise Wrong(f"{what}a sign that drives the terminal")
    if took > SLOWEST:
        raise Wrong(f"{what}{took:.1f} seconds of CPU")
    form = words[words.index("--format") + 1] if "--format" in words else ""
    try:
        if form == "json":
            check_schema(json.loads(said))
        elif form == "jsonl":
            for line in said.splitlines():
                found = json.loads(line)
                if found["format"] == "gguftool.scan-row/1":
                    validator("scan-row").validate(found)
                else:
                    check_schema(found)
        elif form == "sarif" and said:
            json.loads(said)
    except Exception as e:
        raise Wrong(f"{what}{type(e).__name__}: {str(e)[:1500]}") from None
    return said
