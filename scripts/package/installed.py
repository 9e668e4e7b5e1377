"""The package as a user has it: installed from its files, far from the checkout, by every usual way."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from extras import EXTRAS, MODEL, SOURCE
from making import Made

COMMANDS: tuple[tuple[int, str, str], ...] = (
    (0, "--version", "gguftool"),
    (0, "--help", "lint"),
    (0, f"dump {MODEL}", "llama"),
    (1, f"lint --no-config {MODEL}", "kv-cache-type-missing"),
    (0, f"fix --yes --auto {MODEL}", "undo: gguftool undo"),
    (0, f"undo {MODEL}", ""),
    (0, f"verify {MODEL}", ""),
    (0, f"hash {MODEL}", MODEL),
    (0, f"plan --ctx 1024 --ram 8GiB {MODEL}", "KV"),
    (0, f"compat {MODEL}", "b"),
    (0, f"quantize {MODEL} q8.gguf Q8_0", "q8.gguf"),
    (1, f"diff {MODEL} q8.gguf", "Q8_0"),
    (0, "scan --no-lint .", "q8.gguf"),
    (0, f"render {MODEL}", "Hi"),
    (0, f"launch {MODEL} --print --ctx 1024 --force --ram 8GiB", "llama-server"),
    (0, f"launch {MODEL} --emit docker-compose --ctx 1024 --force --ram 8GiB", "services:"),
    (0, "rules", "chat-template-missing"),
    (0, "explain --flag=-ngl", "gpu-layers"),
    (0, "kv-test --help", "perplexity"),
    (0, "quant-test --help", "divergence"),
    (0, "completion bash", "complete"),
    (3, f"dump {SOURCE}/tokenizer.json", "a tokenizer of Hugging Face"),
)
"""Exit code, words behind ``gguftool``, and text that stands in the output."""
FROM = "import gguftool, sys; print(gguftool.__file__); sys.exit(not gguftool.__file__.startswith(sys.prefix))"
PARTS = ("venv", "sdist", "pipx", "uvx", "extras")


class Trial:
    """One folder to work in, and what went wrong in it.

    Args:
        work: an empty folder.
        root: the checkout, for the files that are tried.
    """

    def __init__(self, work: Path, root: Path) -> None:
        self.work = work
        self.place = work / "place"
        self.place.mkdir()
        shutil.copy(root / "fixtures" / MODEL, self.place)
        (self.place / SOURCE).mkdir()
        shutil.copy(root / "tests/data/building/tokenizers/bpe.json", self.place / SOURCE / "tokenizer.json")
        (self.place / SOURCE / "config.json").write_text(
            '{"architectures": ["LlamaForCausalLM"], "model_type": "llama"}'
        )
        self.faults: list[str] = []
        dropped = ("PYTHONPATH", "VIRTUAL_ENV", "GGUFTOOL_DEBUG", "LLAMA_CPP_DIR")
        self.env = {k: v for k, v in os.environ.items() if k not in dropped} | {
            "HOME": str(work / "home"), "PIPX_HOME": str(work / "pipx"), "PIPX_BIN_DIR": str(work / "pipx-bin"),
            "UV_TOOL_DIR": str(work / "uv-tools"), "UV_TOOL_BIN_DIR": str(work / "uv-bin"), "UV_NO_CONFIG": "1",
            # Nobody answers there, and nobody is asked twice.
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1", "AWS_ACCESS_KEY_ID": "x",
            "AWS_SECRET_ACCESS_KEY": "x", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }  # fmt: skip

    def run(self, words: Sequence[str]) -> tuple[int, str]:
        """Exit code and all output, in the folder of the model."""
        done = subprocess.run(
            words, cwd=self.place, env=self.env, text=True, stdin=subprocess.DEVNULL, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800,
        )  # fmt: skip
        return done.returncode, done.stdout

    def expect(self, words: Sequence[str], code: int = 0, shows: str = "") -> str:
        """The same, and a fault where it ends otherwise or does not show a text."""
        ended, out = self.run(words)
        name = " ".join([Path(words[0]).name, *words[1:]])
        name = name if len(name) < 110 else name[:109] + "…"
        if ended != code or shows not in out:
            self.faults.append(f"{name}: exit code {ended}, expected {code} and {shows!r}: {out.strip()[-600:]}")
        print(f"{'ok' if ended == code and shows in out else 'FAULT':6}{name}", flush=True)
        return out

    def venv(self, name: str, *what: str) -> Path:
        """A fresh environment with what pip installs: the folder of its programs."""
        folder = self.work / name
        venv.create(folder, with_pip=True)
        if what:
            self.expect([str(folder / "bin" / "python"), "-m", "pip", "install", "-qq", *what])
        return folder / "bin"


def commands(trial: Trial, program: str) -> None:
    """The main commands, with a gguftool that is installed."""
    for code, line, shows in COMMANDS:
        trial.expect([program, *line.split()], code, shows)


def in_venv(trial: Trial, made: Made) -> None:
    """The wheel in a fresh environment."""
    programs = trial.venv("wheel", str(made.wheel))
    trial.expect([str(programs / "python"), "-I", "-c", FROM], 0, "site-packages")
    trial.expect([str(programs / "python"), "-m", "pip", "check"])
    commands(trial, str(programs / "gguftool"))
    trial.expect([str(programs / "python"), "-m", "gguftool", "--version"], 0, "gguftool")


def from_sdist(trial: Trial, made: Made) -> None:
    """The source archive, which pip builds in an environment of its own."""
    programs = trial.venv("sdist", str(made.sdist))
    trial.expect([str(programs / "gguftool"), "lint", "--no-config", MODEL], 1, "kv-cache-type-missing")


def by_pipx(trial: Trial, made: Made) -> None:
    """`pipx run` and `pipx install`, of the file."""
    pipx = str(Path(sys.executable).parent / "pipx")
    trial.expect([pipx, "run", "--spec", str(made.wheel), "gguftool", "dump", MODEL], 0, "llama")
    trial.expect([pipx, "install", "--quiet", str(made.wheel)])
    trial.expect([str(trial.work / "pipx-bin" / "gguftool"), "verify", MODEL])
    trial.expect([pipx, "inject", "gguftool", "xxhash"])


def by_uv(trial: Trial, made: Made) -> None:
    """`uvx` and `uv tool install`, of the file."""
    uv = str(Path(sys.executable).parent / "uv")
    trial.expect(
        [uv + "x", "-q", "--python", sys.executable, "--from", str(made.wheel), "gguftool", "dump", MODEL], 0, "llama"
    )
    trial.expect([uv, "tool", "install", "-q", "--python", sys.executable, f"{made.wheel}[hash]"])
    trial.expect([str(trial.work / "uv-bin" / "gguftool"), "verify", MODEL])


def each_extra(trial: Trial, made: Made) -> None:
    """Each extra in an environment of its own: named where it is missing, at work where the named command was run."""
    import ctypes.util

    for name, extra in EXTRAS.items():
        programs = trial.venv(f"extra-{name}", str(made.wheel))
        program, python = str(programs / "gguftool"), str(programs / "python")
        hint = f"pip install 'gguftool[{name}]'"
        if name != "hash" or not ctypes.util.find_library("xxhash"):
            trial.expect([program, *extra.command], extra.code, hint)
        sets = ",".join((name, *extra.also))
        trial.expect([python, "-m", "pip", "install", "-qq", f"gguftool[{sets}]"])
        trial.expect([python, "-I", "-c", f"import {', '.join(extra.packages)}"])
        stands = {"gguftool": program, "python": python}
        words = [stands.get(w, w) for w in extra.does] or [program, *extra.command]
        if hint in trial.expect(words, extra.ends, extra.shows):
            trial.faults.append(f"{name}: asks for itself though it is installed")
        shutil.rmtree(programs.parent)


WAYS: dict[str, Callable[[Trial, Made], None]] = dict(
    zip(PARTS, (in_venv, from_sdist, by_pipx, by_uv, each_extra), strict=True)
)


def tried(root: Path, made: Made, parts: Iterable[str] = ()) -> list[str]:
    """Try the ways that are named, or all: what went wrong."""
    faults = []
    for part in tuple(parts) or PARTS:
        if part not in WAYS:
            raise SystemExit(f"there is no part {part!r}: {', '.join(PARTS)}")
        with tempfile.TemporaryDirectory(prefix="gguftool-installed-") as work:
            print(f"-- {part}")
            trial = Trial(Path(work), root)
            WAYS[part](trial, made)
            faults += [f"{part}: {fault}" for fault in trial.faults]
    return faults
