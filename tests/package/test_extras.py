"""Every extra that users install: what asks for it names it. `./dev test-package extras` installs and uses each."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "scripts" / "package"))
from extras import EXTRAS, MODEL, SOURCE  # noqa: E402

from sbom import FOR_DEVELOPERS  # noqa: E402

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_every_extra_is_there() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - set(FOR_DEVELOPERS)


def test_every_extra_is_told() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    for name in EXTRAS:
        assert f"| `{name}` |" in page, name


@pytest.mark.parametrize("name", EXTRAS)
def test_what_is_missing_is_named(name: str, cli, tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """As if its packages were not installed, nor what the system has in their place."""
    extra = EXTRAS[name]
    shutil.copy(ROOT / "fixtures" / MODEL, tmp_path)
    (tmp_path / SOURCE).mkdir()
    shutil.copy(ROOT / "tests/data/building/tokenizers/bpe.json", tmp_path / SOURCE / "tokenizer.json")
    (tmp_path / SOURCE / "config.json").write_text('{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}')
    monkeypatch.chdir(tmp_path)
    # The environment of the converter has tokenizers, too.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found = importlib.util.find_spec

    def hidden(module: str, package: str | None = None) -> object:
        return None if module.partition(".")[0] in extra.packages else found(module, package)

    monkeypatch.setattr(importlib.util, "find_spec", hidden)
    for module in [m for m in sys.modules if m.partition(".")[0] in extra.packages]:
        monkeypatch.delitem(sys.modules, module)
    for module in extra.packages:
        monkeypatch.setitem(sys.modules, module, None)
    for module, own in list(sys.modules.items()):
        if module.startswith("gguftool.") and getattr(own, "find_spec", None) is found:
            monkeypatch.setattr(own, "find_spec", hidden)
    if name == "hash":
        import ctypes

        from gguftool.verify import digests

        monkeypatch.setattr(ctypes, "CDLL", lambda *_: (_ for _ in ()).throw(OSError("none")))
        digests._xxh64.cache_clear()
    done = cli(*extra.command)
    if name == "hash":
        digests._xxh64.cache_clear()
    assert (done.code, f"pip install 'gguftool[{name}]'" in done.out + done.err) == (extra.code, True), done.err
