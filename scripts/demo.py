"""`./dev demo`: the main job on a real model, each step explained in one line.

Fetches SmolLM2-135M-Instruct (98 MB, Apache-2.0) once into the user's cache; without network it takes the small
fixture and says so. Works on a copy in ``.demo/``; exits with the first step that does not end as it should.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.real_models import SMOLLM2, CannotFetch, ensure  # noqa: E402

FOLDER = ROOT / ".demo"
CONTEXT = "8192"


def say(text: str) -> None:
    """One line of explanation."""
    print(f"\n\033[1m# {text}\033[0m" if sys.stdout.isatty() else f"\n# {text}", flush=True)


def run(*args: str, expect: int = 0, timeout: int = 300) -> None:
    """Show a command line, run it, and stop the demo when its exit code is not the expected one."""
    print("$ gguftool " + " ".join(args), flush=True)
    code = subprocess.run(
        [sys.executable, "-m", "gguftool", *args], cwd=FOLDER, check=False, timeout=timeout
    ).returncode
    if code != expect:
        sys.exit(f"demo: expected exit code {expect}, got {code}")


def hash_data(model: str) -> str:
    """sha256 of the data section, from the line that `gguftool hash` prints for it."""
    command = [sys.executable, "-m", "gguftool", "hash", "--data-section", model]
    print("$ gguftool " + " ".join(command[3:]), flush=True)
    out = subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True, timeout=300).stdout
    print(out, end="", flush=True)
    return next(line.split()[0] for line in out.splitlines() if line.endswith(":data"))


def main() -> None:
    """The way from a download to a launched model."""
    FOLDER.mkdir(exist_ok=True)
    try:
        say("A real model: SmolLM2-135M-Instruct, 98 MB, fetched once and kept in the user's cache.")
        source = ensure(SMOLLM2)
    except CannotFetch as error:
        source = ROOT / "fixtures" / "tiny-llama.gguf"
        say(f"No network ({error}): taking the fixture {source.name} instead, a whole but untrained model of 0.2 MB.")
    model = source.name
    for old in FOLDER.glob(model + "*"):
        old.unlink()
    shutil.copyfile(source, FOLDER / model)

    say("What is it, how big, which context, which quantisation, is it whole?")
    run("dump", "--overview", model)
    say("Is it ready to be served at long context with a quantised KV cache? Exit code 1: there are findings.")
    run("lint", "--ctx", CONTEXT, "--cache-type", "q8_0", model, expect=1)
    say("The tensor data has this hash before the repair.")
    before = hash_data(model)
    say("Repair: write the missing deploy fields into the file, in place and undoable.")
    run("fix", "--context-length", CONTEXT, "--rope-freq-scale", "1.0", "--cache-type", "q8_0", model)
    say("Ready now? Exit code 0: nothing left to find.")
    run("lint", "--ctx", CONTEXT, "--cache-type", "q8_0", model)
    say("Not a byte of tensor data has changed.")
    after = hash_data(model)
    if before != after:
        sys.exit("demo: the tensor data changed")
    print(f"the same before and after: {before == after}", flush=True)
    say("Is the file whole?")
    run("verify", model)
    say("How much memory will it take?")
    run("plan", "--ctx", CONTEXT, model)
    say("The exact command for llama-server.")
    run("launch", "--print", model)
    if source.name != "tiny-llama.gguf" and find_spec("xllamacpp"):
        say("And for real: start llama.cpp embedded, prove from its log what was planned, ask for a few words, stop.")
        run("launch", "--engine", "library", "--port", "0", "--smoke", "--check-only", "--ctx", "4096", model)
    say("From an F32 file to one that is ready, with the built-in engine alone (a tiny untrained model, for speed).")
    (FOLDER / "tiny-q8_0.gguf").unlink(missing_ok=True)
    shutil.rmtree(FOLDER / "tiny-q8_0.gguf.prepare", ignore_errors=True)
    (FOLDER / "tiny-q8_0.gguf.manifest").unlink(missing_ok=True)
    ready = ("--quantize", "Q8_0", "--engine", "builtin", "--ctx", "2048", "--cache-type", "f16")
    run("prepare", "../fixtures/tiny-llama.gguf", "-o", "tiny-q8_0.gguf", *ready)
    say(f"Done. The repaired model is {FOLDER.name}/{model}; `gguftool undo` gives back the original, byte for byte.")


if __name__ == "__main__":
    main()
