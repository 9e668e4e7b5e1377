"""What keeps lint fast, as facts instead of seconds: what is imported, how often tokens are read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gguftool.format import foresee
from gguftool.lint.run import lint
from gguftool.model import open_model, stringlist
from gguftool.model.vocab import TOKENS

HEAVY = ("numpy", "gguf", "jinja2", "huggingface_hub", "requests", "tabulate", "yaml", "asyncio")


def imported(*args: str, cwd: Path) -> set[str]:
    code = (
        "import sys; from gguftool.cli.main import main\n"
        "try: main(sys.argv[1:])\n"
        "finally: sys.stderr.write(' '.join(sorted(sys.modules)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, timeout=120, cwd=cwd, check=False
    )
    return set(done.stderr.split())


@pytest.mark.real
def test_no_heavy_imports(gemma3: Path, tmp_path: Path) -> None:
    modules = imported("lint", str(gemma3), cwd=tmp_path)
    assert "gguftool.lint.run" in modules
    assert sorted(modules & set(HEAVY)) == []
    # families that cannot speak here are not even imported
    assert not modules & {"gguftool.lint.rules.source", "gguftool.lint.rules.data", "gguftool.lint.policy", "tomllib"}


@pytest.mark.real
@pytest.mark.parametrize("known", [True, False])
def test_tokens_are_read_once(gemma3: Path, monkeypatch: pytest.MonkeyPatch, known: bool) -> None:
    reads: list[str] = []
    real = stringlist.StringList.chunks
    monkeypatch.setattr(
        stringlist.StringList, "chunks", lambda self: reads.append("tokenizer.ggml.tokens") or real(self)
    )
    if not known:
        monkeypatch.setattr(foresee, "KNOWN", {})
    with open_model(gemma3, strict=False) as m:
        monkeypatch.setattr(type(m), "get", _counted(type(m).get, reads))
        lint(m)
    # Those of a vocabulary that many models share are not even made into objects.
    assert reads.count(TOKENS) == (0 if known else 1)


def _counted(get, reads):  # type: ignore[no-untyped-def]
    def counted(self, key: str, default: object = None) -> object:  # type: ignore[no-untyped-def]
        if key == "tokenizer.ggml.tokens":
            reads.append(key)
        return get(self, key, default)

    return counted
