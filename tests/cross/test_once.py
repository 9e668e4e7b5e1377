"""What a command reads: the header of each file once, its vocabulary once, whatever the command then does with it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gguftool.format import parse
from gguftool.model import tokenlist
from gguftool.run.measurer import available
from tests.beside import control_vector, lora, projector
from tests.build import llama
from tests.cross.test_streams import CALLS, matrix

# What `test_streams` asks of a command says little of what it reads: the help, a model that is like that already …
MORE = {
    "diff": ["diff m.gguf s.gguf", "diff m.gguf s.gguf --data"],
    "fix": [
        "fix m.gguf --set llama.context_length=128",
        "fix m.gguf --set tokenizer.ggml.eos_token_id=3",
        "fix m.gguf --set my.key:str=hello --dry-run",
        "fix m.gguf",
        "fix m.gguf --auto",
        "fix m.gguf --from s.gguf --copy general.name",
        "fix m.gguf --set general.name=there --output new.gguf",
        "fix m.gguf --set general.name=there --patch-out p.json",
    ],
    "hash": ["hash m.gguf --tensors"],
    "launch": ["launch m.gguf --print", "launch m.gguf --ctx 32 --print"],
    "lint": ["lint m.gguf s.gguf", "lint m.gguf --fix", "lint twice.gguf --fix", "lint m.gguf --with i.gguf"],
    "plan": ["plan m.gguf --ctx 32 --vram 8G"],
    "prepare": [],
    "scan": ["scan m.gguf s.gguf --jobs 1"],
    "verify": ["verify m.gguf --data", "verify m.gguf --hash"],
}
SET = [
    f"{words} s-00001-of-00002.gguf{more}"
    for words, more in (
        ("dump", ""), ("lint", ""), ("verify", " --data"), ("plan", ""), ("hash", ""), ("launch", " --print"),
        ("scan --jobs 1", ""), ("push-check --exit-zero", ""), ("compat", ""),
        ("fix", " --set general.name=there"), ("fix --auto", ""),
    )
]  # fmt: skip
BESIDE = [
    f"{words} m.gguf {files}"
    for words in ("plan", "launch --print", "launch --print --format json", "launch --emit k8s")
    for files in (
        "--mmproj by/p.gguf", "-md by/d.gguf", "-md by/d.gguf --spec-type ngram-mod", "--lora by/l.gguf",
        "--control-vector by/v.gguf", "--mmproj by/p.gguf -md by/d.gguf --lora by/l.gguf",
    )
] + ["lint m.gguf --with by/p.gguf --with by/d.gguf", "scan by --jobs 1"]  # fmt: skip
# Command line -> file -> how often its header may be read, and why it is more than once.
TWICE = {
    # One file under two arguments is two models, as two files would be.
    "diff m.gguf m.gguf": {"m.gguf": 2},
    # What was written is read again, which is a check.
    "lint m.gguf --fix": {"m.gguf": 2},
    "lint twice.gguf --fix": {"twice.gguf": 2},
    # It has a row of its own, and stands beside the model, which keeps what it knows of it no longer than it is open.
    "scan by --jobs 1": {"p.gguf": 2},
}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> tuple[Counter[str], Counter[str]]:
    """How often the header of a file was walked, and a list of tokens taken apart; by the names of the files."""
    headers, lists = Counter[str](), Counter[str]()
    walk, start = parse._collect, tokenlist.TokenList.__init__
    named: dict[int, str] = {}

    def walked(it: Any, until: str | None = None) -> Any:
        name = Path(str(getattr(it.source, "path", None) or it.source.name)).name
        headers[name] += 1
        header = walk(it, until)
        named.update({id(f.buffer.obj): name for f in header.fields})
        kept.append(header)
        return header

    def started(self: Any, f: Any, *more: Any) -> None:
        if f is not None:
            lists[named.get(id(f.buffer.obj), "made")] += 1
        start(self, f, *more)

    kept: list[Any] = []
    monkeypatch.setattr(parse, "_collect", walked)
    monkeypatch.setattr(tokenlist.TokenList, "__init__", started)
    return headers, lists


def _lines() -> list[str]:
    usual = {name: [f"{name} {args}".strip()] for name, (args, _) in CALLS.items() if "--help" not in args}
    return [*(line for name in CALLS for line in (*usual.get(name, ()), *MORE.get(name, ()))), *SET, *BESIDE]


needs_library = pytest.mark.skipif(not available(), reason="xllamacpp is not installed in the version we know")
COMPUTED = [
    pytest.param(line, marks=needs_library)
    for line in ("kv-test m.gguf --tokens 64 --chunk 64", "quant-test m.gguf s.gguf --tokens 64 --chunk 64")
]


@pytest.mark.parametrize("line", [*_lines(), *COMPUTED])
def test_each_header_and_each_vocabulary_once(
    line: str,
    cli: Callable[..., Any],
    read: tuple[Counter[str], Counter[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GGUFTOOL_OFFLINE", "1")
    for name in ("m", "s", "edited"):
        (tmp_path / f"{name}.gguf").write_bytes(llama(tokens=64).replace("general.name", name).bytes())
    (tmp_path / "twice.gguf").write_bytes(llama().kv("general.name", "again").bytes())
    (tmp_path / "i.gguf").write_bytes(matrix().bytes())
    (tmp_path / "by").mkdir()
    for name, made in {"d": llama(tokens=64), "p": projector(), "l": lora(), "v": control_vector()}.items():
        (tmp_path / "by" / f"{name}.gguf").write_bytes(made.bytes())
    if line.startswith("undo"):
        assert cli("fix", "edited.gguf", "--set", "general.name=there").code == 0
    if "s-00001" in line:
        assert cli("split", "s.gguf", "--max-tensors", "8").code == 0
    headers, lists = read
    headers.clear()
    lists.clear()
    done = cli(*shlex.split(line))
    assert done.code in (0, 1) or line.startswith("convert"), done.err
    may = TWICE.get(line, {})
    assert {name: n for name, n in headers.items() if n > may.get(name, 1)} == {}
    assert {name: n for name, n in lists.items() if n > may.get(name, 1)} == {}
