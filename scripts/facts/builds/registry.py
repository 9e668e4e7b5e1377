"""What the package registries have: the lists of releases, and single files of them, by the clients' own parts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

# pip has no command that lists a package's files with their dates, nor one that downloads a source package without
# building it; its own parts do both, with the index, the proxy and the certificates that the user has set.
_PIP = """
import json, sys
from pip._internal.commands import create_command
command = create_command("download")
options, _ = command.parse_args([])
package, name, target = sys.argv[1:]
with command.main_context():
    session = command.get_default_session(options)
    finder = command._build_package_finder(options, session)
    files = []
    for index in finder.search_scope.index_urls:
        if index.startswith("http"):
            wants = {"Accept": "application/vnd.pypi.simple.v1+json"}
            answer = session.get(index.rstrip("/") + "/" + package + "/", headers=wants)
            if answer.ok and "json" in answer.headers.get("Content-Type", ""):
                files += answer.json()["files"]
    if not files:
        # A mirror that has pages only, or a folder, says no dates.
        links = [candidate.link for candidate in finder.find_all_candidates(package)]
        files = [{"filename": link.filename, "url": link.url_without_fragment} for link in links]
    if not name:
        print(json.dumps([[f["filename"], f.get("upload-time", ""), f.get("size", 0)] for f in files]))
        sys.exit()
    for file in files:
        if file["filename"] == name:
            answer = session.get(file["url"])
            answer.raise_for_status()
            open(target, "wb").write(answer.content)
            break
    else:
        sys.exit(f"no file {name}")
"""


class CannotFetch(Exception):
    """The registry does not answer, or has no such release."""


def _run(command: list[str]) -> str:
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900)
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise CannotFetch(f"{command[0]}: {fault}") from fault
    if done.returncode != 0:
        raise CannotFetch(f"{' '.join(command[-3:])}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def python_files(package: str) -> list[tuple[str, str, int]]:
    """Name, time of upload and size of every file of a Python package."""
    rows: list[list[Any]] = json.loads(_run([sys.executable, "-c", _PIP, package, "", ""]))
    return [(str(name), str(when), int(size)) for name, when, size in rows]


def python_file(package: str, name: str, target: Path) -> None:
    """Write one file of a Python package to ``target``."""
    _run([sys.executable, "-c", _PIP, package, name, str(target)])


def node_versions(package: str) -> dict[str, str]:
    """Time of publication by version of a Node package."""
    said = json.loads(_run(["npm", "view", package, "versions", "time", "--json"]))
    versions = said["versions"] if isinstance(said["versions"], list) else [said["versions"]]
    return {version: said["time"][version] for version in versions}


def node_file(package: str, version: str, folder: Path) -> Path:
    """The archive of one version of a Node package, in ``folder``."""
    name = _run(["npm", "pack", f"{package}@{version}", "--silent", "--pack-destination", str(folder)]).split()[-1]
    return folder / name
