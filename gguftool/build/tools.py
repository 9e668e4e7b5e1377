"""Find llama.cpp's quantiser, library and converter on this machine, and what they can do.

Looked for in this order: the folder the user names, ``LLAMA_CPP_DIR``, PATH, and for the converter the environment that
``gguftool convert --setup`` made. A folder may be a source tree, a build folder or an unpacked release.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

from gguftool.errors import MissingFile

_BELOW = (
    "",
    "bin",
    "build/bin",
    "build/bin/Release",
    "lib",
    "lib64",
    "build/lib",
    "build/src",
    "bins/linux-x64",
    "package/bins/linux-x64",
)
_LIBRARIES = ("libllama.so", "libllama.*.so", "libllama.so.*", "libllama.dylib", "libllama.*.dylib", "llama.dll")
CONVERTER = "convert_hf_to_gguf.py"
HOW_TO_GET_LLAMA_CPP = (
    "get llama.cpp (https://github.com/ggml-org/llama.cpp: releases, or build it), then name its folder with "
    "--llama-cpp DIR or LLAMA_CPP_DIR"
)


@dataclass(frozen=True, slots=True)
class Tool:
    """One program or library.

    Attributes:
        kind: ``llama-quantize``, ``libllama`` or ``converter``.
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


def folders(llama_cpp: str | None = None) -> Iterator[str]:
    """Folders to look in, best first; PATH is not among them.

    Raises:
        MissingFile: the folder the user named does not exist.
    """
    for root, named in ((llama_cpp, True), (os.environ.get("LLAMA_CPP_DIR"), False)):
        if not root:
            continue
        if not os.path.isdir(root):
            if named:
                raise MissingFile(f"{root}: no such folder", "name the folder of llama.cpp")
            continue
        for below in _BELOW:
            path = os.path.join(root, below) if below else root
            if os.path.isdir(path):
                yield path


def llama_quantize(llama_cpp: str | None = None) -> Tool | None:
    """The llama-quantize program; None when there is none."""
    for folder in folders(llama_cpp):
        for name in ("llama-quantize", "llama-quantize.exe"):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return Tool("llama-quantize", path)
    found = shutil.which("llama-quantize")
    return Tool("llama-quantize", found) if found else None


def libllama(llama_cpp: str | None = None) -> Tool | None:
    """The llama library with the function that quantises; None when there is none."""
    for folder in folders(llama_cpp):
        for pattern in _LIBRARIES:
            for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
                if _has_symbol(path, b"llama_model_quantize"):
                    match = re.search(r"libllama\.(v[\d.]*\d)\.(?:so|dylib)", os.path.basename(path))
                    return Tool("libllama", path, match[1] if match else None)
    return None


def _has_symbol(path: str, name: bytes) -> bool:
    """Whether a library names a symbol, without loading it."""
    import mmap

    try:
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(b"\0" + name + b"\0") >= 0
    except (OSError, ValueError):
        return False


def converter_script(llama_cpp: str | None = None) -> str | None:
    """Path of ``convert_hf_to_gguf.py``; None when there is none."""
    roots = [r for r in (llama_cpp, os.environ.get("LLAMA_CPP_DIR")) if r and os.path.isdir(r)]
    for root in roots:
        for path in (os.path.join(root, CONVERTER), os.path.join(root, "llama.cpp", CONVERTER)):
            if os.path.isfile(path):
                return path
    return shutil.which(CONVERTER)


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
    if number and number.isdigit() and int(number) > 1:
        return f"b{number}"
    word = match[2]
    if word is None or word == "0":
        return None
    return f"b{word}" if word.isdigit() else f"v{word}"


def _output(argv: list[str], timeout: float) -> str:
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return (done.stdout + done.stderr).decode("utf-8", "replace")
