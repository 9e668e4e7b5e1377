"""What llama.cpp's quantiser and library on this machine can do."""

from __future__ import annotations

import os
import re
import subprocess

from gguftool import programs
from gguftool.quantity import whole
from gguftool.records import dataclass


@dataclass(frozen=True, slots=True)
class Tool:
    """One program or library.

    Attributes:
        kind: ``llama-quantize`` or ``libllama``.
        path: of the program, library or script.
        version: as far as it tells, else None.
        flags: long options it names in its help, without dashes.
    """

    kind: str
    path: str
    version: str | None = None
    flags: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """Name and version, for people and for the provenance keys."""
        return f"{self.kind} {self.version}" if self.version else self.kind


def llama_quantize(llama_cpp: str | None = None) -> Tool | None:
    """The llama-quantize program; None when there is none, or what is named has other things only.

    Raises:
        MissingFile: what is named is not there.
    """
    found = programs.find(programs.QUANTIZE, llama_cpp, may_lack=True)
    return Tool(found.name, found.path) if found else None


def libllama(llama_cpp: str | None = None) -> Tool | None:
    """The llama library with the function that quantises; None when there is none.

    Raises:
        MissingFile: what is named is not there.
    """
    path = programs.library("llama_model_quantize", llama_cpp)
    if path is None:
        return None
    match = re.search(r"libllama\.(v[\d.]*\d)\.(?:so|dylib)", os.path.basename(path))
    return Tool("libllama", path, match[1] if match else None)


def probe(tool: Tool, timeout: float = 20.0) -> Tool:
    """The same tool with the options it knows and, where it tells, its version."""
    if tool.kind != "llama-quantize":
        return tool
    text = _output([tool.path, "--help"], timeout)
    flags = frozenset(re.findall(r"--([a-z][a-z0-9-]+)", text))
    return Tool(tool.kind, tool.path, version_in(text) or _sibling_version(tool.path, timeout), flags)


def _sibling_version(path: str, timeout: float) -> str | None:
    """llama-quantize does not tell its version; the server beside it does."""
    for name in ("llama-server", "llama-cli"):
        other = os.path.join(os.path.dirname(path), name)
        if os.access(other, os.X_OK):
            return version_in(_output([other, "--version"], timeout))
    return None


def version_in(text: str) -> str | None:
    """The version in what llama.cpp prints: ``b11434`` or ``v0.6.0-dev``."""
    match = re.search(r"(?m)^(?:main: )?build = (\d+)|^version: (\S+)(?: \((?:build )?(\w+)[,)])?", text)
    if match is None:
        return None
    number = match[1] or match[3]
    if number and (whole(number) or 0) > 1:
        return f"b{number}"
    word = match[2]
    if word is None or word == "0":
        return None
    return f"b{word}" if whole(word) is not None else f"v{word}"


def _output(argv: list[str], timeout: float) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode("utf-8", "replace")
