"""Nothing of a model stays in the process when it is closed: no cache, no circle, no memory."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import gguftool
from gguftool.errors import GgufToolError
from tests.build import GGUF, llama


def strange(i: int) -> GGUF:
    """A model whose names no other file has."""
    word = f"zz{i}"
    g = llama(arch=f"arch{word}" if i % 2 else "llama").kv(f"{word}.foo", 1).kv(f"llama.{word}", 2)
    g.kv(f"general.{word}", word).kv(f"tokenizer.ggml.{word}", 1).kv("tokenizer.ggml.pre", word)
    g.kv("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}{# " + word + " #}")
    return g.tensor(f"blk.0.{word}.weight").tensor(word)


QUESTIONS: dict[str, Callable[[Any], object]] = {
    "lint": gguftool.lint,
    "plan": gguftool.plan,
    "predict": gguftool.predict,
    "compat": gguftool.compat,
    "overview": gguftool.overview,
    "diagnose": gguftool.diagnose,
    "verify": gguftool.verify,
    "report": gguftool.report,
    "diff": lambda m: gguftool.diff(m, m),
    "render": lambda m: gguftool.render(m, [{"role": "user", "content": "Hello"}]),
}


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("number", [0, 1])
def test_a_closed_model_is_dead_at_once(tmp_path: Path, question: str, number: int, no_collector: None) -> None:
    m = gguftool.open(strange(number).write(tmp_path / "m.gguf"))
    reference = weakref.ref(m)
    with m, contextlib.suppress(GgufToolError):
        QUESTIONS[question](m)
    del m
    assert reference() is None


def kept() -> dict[str, int]:
    """How much lies in every cache and every container of the package's modules."""
    found = {}
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "gguftool":
            for word, value in list(vars(module).items()):
                if hasattr(value, "cache_info"):
                    found[f"{name}.{word}"] = value.cache_info().currsize
                elif isinstance(value, dict | list | set) and not word.startswith("__"):
                    found[f"{name}.{word}"] = len(value)
    return found


def test_no_cache_grows_with_the_models(tmp_path: Path) -> None:
    def ask(number: int) -> None:
        path = strange(number).write(tmp_path / f"{number}.gguf")
        for question in QUESTIONS.values():
            with gguftool.open(path) as m, contextlib.suppress(GgufToolError):
                question(m)

    for number in range(3):
        ask(number)
    before = kept()
    for number in range(3, 6):
        ask(number)
    after = kept()
    assert {name for name in after if after[name] != before.get(name)} == set()


MANY = """
import sys, gguftool
def resident():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
for n in range(1, 51):
    with gguftool.open(sys.argv[1]) as m:
        gguftool.lint(m)
    if n in (5, 50):
        print(resident())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_fifty_lints_take_no_more_memory_than_five(tmp_path: Path) -> None:
    path = llama(tokens=20_000).write(tmp_path / "m.gguf")
    done = subprocess.run([sys.executable, "-c", MANY, str(path)], capture_output=True, text=True, check=True)
    five, fifty = map(int, done.stdout.split())
    assert fifty <= five * 1.1
