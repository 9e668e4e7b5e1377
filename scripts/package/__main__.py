"""`./dev package`: the wheel and the source archive of a release, checked, in dist/.

Builds three times and compares the bytes, looks at the contents, asks the programs that judge packages, licences,
citations and Dockerfiles, and writes hashes and a bill of materials beside the two files.

    ./dev package                 build and check
    ./dev test-package [PART …]   that, then installs it and runs it: what installed.py lists
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterable, Sequence
from pathlib import Path

import contents
import installed
import making

import sbom

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
BIN = Path(sys.executable).parent


def judges(made: making.Made) -> Iterable[tuple[str, Sequence[str]]]:
    """Programs that end with 0 when they find nothing, and what each is asked."""
    yield "description and metadata", (str(BIN / "twine"), "check", "--strict", str(made.wheel), str(made.sdist))
    yield "contents of the wheel", (str(BIN / "check-wheel-contents"), str(made.wheel))
    yield "pyproject.toml", (str(BIN / "validate-pyproject"), "pyproject.toml")
    yield "licences (REUSE)", (str(BIN / "reuse"), "lint", "--quiet")
    yield "CITATION.cff", (str(BIN / "cffconvert"), "--validate")
    yield "Dockerfile", (str(BIN / "hadolint"), "Dockerfile")


def checked(made: making.Made) -> list[str]:
    """What is wrong with the two files, and with what goes along."""
    known = contents.tracked(ROOT, new=True)
    found = contents.faults_of_wheel(contents.in_wheel(made.wheel), known)
    found += contents.faults_of_sdist(contents.in_sdist(made.sdist), known)
    for what, words in judges(made):
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        print(f"{'ok' if not done.returncode else 'FAULT':6}{what}: {Path(words[0]).name}")
        if done.returncode:
            found.append(f"{what}: {(done.stdout + done.stderr).strip()}")
    return found


def written(made: making.Made) -> list[Path]:
    """Hashes, and the bill of materials of an installation, which has every version that pip chose today."""
    hashes = {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in (made.wheel, made.sdist)}
    with tempfile.TemporaryDirectory(prefix="gguftool-sbom-") as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        subprocess.run([python, "-m", "pip", "install", "-qq", str(made.wheel)], check=True)
        bill = sbom.text(sbom.bill(sbom.in_environment(python), hashes))
    bom = DIST / f"{made.sdist.name.removesuffix('.tar.gz')}.cdx.json"
    bom.write_text(bill, encoding="utf-8")
    hashes[bom.name] = hashlib.sha256(bom.read_bytes()).hexdigest()
    sums = DIST / "SHA256SUMS"
    sums.write_text("".join(f"{digest}  {name}\n" for name, digest in sorted(hashes.items())), encoding="utf-8")
    return [made.wheel, made.sdist, bom, sums]


def main() -> None:
    """Exit with 1 when anything is wrong."""
    made, found = making.built(ROOT, DIST)
    print(f"{'FAULT' if found else 'ok':6}three builds under other circumstances: the same bytes")
    found += checked(made)
    for file in written(made):
        print(f"      {file.relative_to(ROOT)}: {file.stat().st_size:,} bytes")
    if sys.argv[1:2] == ["test"]:
        found += installed.tried(ROOT, made, sys.argv[2:])
    sys.exit("\n".join(("", *(f"fault: {line}" for line in found))) if found else 0)


if __name__ == "__main__":
    main()
