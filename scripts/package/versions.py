"""`./dev test-versions`: the suite's relevant part with the lowest and the newest versions of what gguftool needs.

    ./dev test-versions                   every set on every Python that is found
    ./dev test-versions lowest            one set
    ./dev test-versions --python 3.12     one Python (a version, or the path of one); repeatable

A set is installed from wheels alone, into an environment under .venv-versions, which is kept. The table of results is
printed in the form of docs/install.md. Exit code 1 when a test failed; a set that cannot be had on a Python is told.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sbom import FOR_DEVELOPERS, canonical

ROOT = Path(__file__).resolve().parents[2]
PLACE = ROOT / ".venv-versions"
UV = str(Path(sys.executable).parent / "uv")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HOLDS_BACK = "tokenizer"
"""The extra whose packages want huggingface-hub below 2."""
RUNNERS = (
    "pytest", "pytest-timeout", "pytest-xdist", "hypothesis", "jsonschema", "moto[server]", "prometheus-client",
    "cyclonedx-python-lib[json-validation]", "dask-jobqueue", "docker", "cryptography",
)  # fmt: skip
"""What the tests run with; always the newest."""


@dataclass(frozen=True, slots=True)
class Versions:
    """A set of versions.

    Attributes:
        resolution: of uv.
        without: extras that users install, but not in this set.
        pins: of single packages, by name.
        only: the packages whose tests are run; none: all.
    """

    resolution: str
    without: tuple[str, ...] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()


SETS = {
    "lowest": Versions("lowest-direct"),
    "newest": Versions("highest", (HOLDS_BACK,)),
    "with-tokenizers": Versions("highest", only=("tokenizers", "huggingface-hub")),
    "hub-1.0": Versions("highest", (HOLDS_BACK,), {"huggingface-hub": "==1.0.*"}, ("huggingface-hub",)),
}
TESTS = {
    "click": ("tests/cross/test_help.py", "tests/cli/test_values.py", "tests/cli/test_diff.py"),
    "gguf": ("tests/building/test_builtin.py",),
    "numpy": ("tests/verify/test_data.py",),
    "huggingface-hub": (
        "tests/hub/test_pull.py", "tests/hub/test_stall.py", "tests/hub/test_proxies.py", "tests/hub/test_glance.py",
    ),
    "jinja2": ("tests/chat/test_sandbox.py",),
    "pyyaml": ("tests/cli/test_push_card.py",),
    "tabulate": ("tests/report/test_text.py",),
    "matplotlib": ("tests/memory/test_plan_cli.py::test_plot",),
    "xxhash": ("tests/verify/test_hashes.py::test_one_pass_gives_all_hashes",),
    "tokenizers": ("tests/lint/test_tokenizer_texts.py",),
    "fsspec": ("tests/hub/test_beyond.py",),
    "distributed": ("tests/fleet/test_cluster.py",),
    "watchfiles": ("tests/fleet/test_watch_files.py",),
    "libggml-python": ("tests/building/test_builtin.py",),
    "xllamacpp": ("tests/lint/test_tokenizer_texts.py",),
    "textual": ("tests/screen",),
}  # fmt: skip
"""By what is declared: where the suite uses it."""


def declared(without: tuple[str, ...] = ()) -> list[str]:
    """The names of all packages that a user's installation declares."""
    lines = list(PROJECT["dependencies"])
    for extra, more in PROJECT["optional-dependencies"].items():
        if extra not in (*FOR_DEVELOPERS, *without):
            lines += more
    return list(dict.fromkeys(canonical(found[0]) for line in lines if (found := re.match(r"[\w.-]+", line))))


def extras(without: tuple[str, ...]) -> list[str]:
    """The extras of a set."""
    return [e for e in PROJECT["optional-dependencies"] if e not in (*FOR_DEVELOPERS, *without)]


def uv(*words: str) -> tuple[int, str]:
    """One call of uv: exit code, and what it said."""
    done = subprocess.run([UV, *words], cwd=ROOT, text=True, check=False, capture_output=True)
    return done.returncode, (done.stdout + done.stderr).strip()


def python(version: str) -> str | None:
    """The path of a Python: in PATH, among uv's own, among those of pyenv."""
    if os.path.sep in version:
        return version
    code, said = uv("python", "find", "--no-python-downloads", "--no-project", version)
    if not code and said:
        return said.splitlines()[-1]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python"))
    return str(found[-1]) if found else None


def install(name: str, said: Versions, which: str, folder: Path) -> str | None:
    """Make the environment of a set; None, or why it cannot be had."""
    done = folder / ".done"
    mark = f"{said} {RUNNERS} {(ROOT / 'pyproject.toml').read_text(encoding='utf-8')}"
    if done.is_file() and done.read_text(encoding="utf-8") == mark:
        return None
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(exist_ok=True)
    code, told = uv("venv", "-q", "-p", which, str(folder))
    if code:
        return told
    chosen = [word for e in extras(said.without) for word in ("--extra", e)]
    common = ("-q", "--only-binary", ":all:", "-p", str(folder / "bin" / "python"))
    code, told = uv(
        "pip", "compile", *common, "--no-header", "--no-annotate", "--resolution", said.resolution, *chosen,
        "pyproject.toml",
    )  # fmt: skip
    if code:
        return told
    # Of what is declared the very versions; of what that needs whatever fits.
    wanted = set(declared(said.without)) - set(said.pins)
    lines = [line for line in told.splitlines() if canonical(line.partition("==")[0]) in wanted and "==" in line]
    limits = folder / "versions.txt"
    limits.write_text("\n".join([*lines, *(f"{n}{v}" for n, v in said.pins.items())]) + "\n", encoding="utf-8")
    sets = ",".join(extras(said.without))
    code, told = uv(
        "pip", "install", *common, "--no-binary", "gguftool", "-c", str(limits), *RUNNERS, "-e", f".[{sets}]"
    )
    if code:
        return told
    done.write_text(mark, encoding="utf-8")
    return None


def present(folder: Path) -> dict[str, str]:
    """Names and versions of an environment."""
    _, said = uv("pip", "list", "-q", "--format", "freeze", "-p", str(folder / "bin" / "python"))
    pairs = (line.split("==") for line in said.splitlines() if "==" in line)
    return {canonical(name): version for name, version in pairs}


def tests(there: Mapping[str, str], said: Versions) -> list[str]:
    """The tests for what is there."""
    names = (n for n in declared(said.without) if n in there and (not said.only or n in said.only))
    return list(dict.fromkeys(t for n in names for t in TESTS.get(n, ()) if (ROOT / t.partition("::")[0]).exists()))


def run(name: str, which: str, jobs: str) -> tuple[bool, str]:
    """One set on one Python: whether it went well, and its row of the table."""
    said = SETS[name]
    short = subprocess.run([which, "-c", "import sys; print('%d.%d.%d' % sys.version_info[:3])"], text=True, check=True,
                           capture_output=True).stdout.strip()  # fmt: skip
    folder = PLACE / f"{name}-{short}"
    if (why := install(name, said, which, folder)) is not None:
        print(why[-1500:], file=sys.stderr)
        return False, f"| {short} | {name} | not to be had | {why.splitlines()[-1]} |"
    there = present(folder)
    words = [str(folder / "bin" / "python"), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", jobs]
    done = subprocess.run([*words, *tests(there, said)], cwd=ROOT, text=True, check=False, capture_output=True)
    last = done.stdout.strip().splitlines()[-1:] or [done.stderr.strip()[-300:]]
    for line in done.stdout.splitlines():
        if line.startswith(("FAILED", "ERROR", "E  ", "SKIPPED")):
            print(line[:300], file=sys.stderr)
    versions = ", ".join(f"{n} {there[n]}" for n in declared(said.without) if n in there)
    return not done.returncode, f"| {short} | {name} | {last[0].partition(' in ')[0]} | {versions} |"


def main() -> None:
    """Print the table; exit with 1 when a test failed or a set cannot be had."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="*", metavar="SET", help=", ".join(SETS))
    parser.add_argument("--python", action="append", metavar="VERSION")
    parser.add_argument("-n", default="2", metavar="JOBS")
    given = parser.parse_args()
    if unknown := set(given.sets) - set(SETS):
        parser.error(f"there is no set {', '.join(sorted(unknown))}: {', '.join(SETS)}")
    rows, good = ["| Python | set | tests | versions |", "|---|---|---|---|"], True
    for version in given.python or PYTHONS:
        which = python(version)
        if which is None:
            rows.append(f"| {version} | | not on this machine | |")
            continue
        for name in given.sets or SETS:
            fine, row = run(name, which, given.n)
            good &= fine
            rows.append(row)
            print(row, file=sys.stderr, flush=True)
    print("\n".join(rows))
    sys.exit(not good)


if __name__ == "__main__":
    main()
