"""The cache of huggingface-hub: data in ``blobs`` named by its hash, links to it in ``snapshots``, commits in ``refs``.

Since 1.x of huggingface-hub a blob may itself be a link into a store that all repositories share.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.errors import GgufToolError
from gguftool.hub.stores.kept import Contents, File, Kept, Name, Walk
from gguftool.model.shards import is_gguf
from gguftool.reading import file_bytes
from gguftool.records import dataclass, field
from gguftool.regex import regex

FOLDERS = ("models--", "datasets--", "spaces--")
"""How folders of repositories begin (`repo_folder_name`)."""
COMMIT = regex(r"[0-9a-f]{40}")
_SHA256 = regex(r"[0-9a-f]{64}")
_SHARED = "blobs"
"""Folder of the data that repositories share (`_shared_blobs.py`)."""
_INCOMPLETE = ".incomplete"
_IGNORED = (".DS_Store",)
"""Files that huggingface-hub leaves out of account (`FILES_TO_IGNORE`)."""


@dataclass(slots=True)
class _Repo:
    """A repository while it is read: who names which blob."""

    name: str
    path: str
    refs: set[str] = field(default_factory=set)
    stuck: bool = False
    links: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    """Blob, as the link has it -> commit, path in the repository, path of the link."""
    lost: list[tuple[str, str, str, str]] = field(default_factory=list)
    commits: set[str] = field(default_factory=set)


def read(root: str) -> Contents:
    """The GGUF files in a cache."""
    found = Contents()
    walk = Walk(found)
    used: set[str] = set()
    for entry in walk.entries(root):
        if entry.name.startswith(FOLDERS) and entry.is_dir():
            repo = _Repo(_called(entry.name), entry.path)
            _read_refs(repo, walk)
            _read_snapshots(repo, walk)
            repo.stuck = repo.stuck or bool(repo.lost) or not repo.refs <= repo.commits
            found.kept += _models(repo, walk)
            found.kept += _others(repo, walk, used)
    found.kept += _shared(root, walk, used)
    return found


def _called(folder: str) -> str:
    kind, _, name = folder.partition("--")
    return ("" if kind == "models" else f"{kind}/") + name.replace("--", "/")


def _read_refs(repo: _Repo, walk: Walk) -> None:
    for path in walk.files(os.path.join(repo.path, "refs")):
        if os.path.basename(path) in _IGNORED:
            continue
        try:
            text = file_bytes(path, 1 << 12).decode("ascii", "replace")
        except GgufToolError as e:
            walk.found.unread.append((path, str(e).removeprefix(f"{path}: ")))
            continue
        repo.refs.add(text.strip())


def _read_snapshots(repo: _Repo, walk: Walk) -> None:
    for snapshot in walk.entries(os.path.join(repo.path, "snapshots")):
        if snapshot.name in _IGNORED:
            continue
        if not snapshot.is_dir(follow_symlinks=False):
            repo.stuck = True
            continue
        repo.commits.add(snapshot.name)
        for path in walk.files(snapshot.path):
            try:
                to = os.path.normpath(os.path.join(os.path.dirname(path), os.readlink(path)))
            except OSError:
                to = path
            inside = os.path.relpath(path, snapshot.path)
            if os.path.exists(to):
                repo.links.setdefault(to, []).append((snapshot.name, inside, path))
            else:
                repo.lost.append((snapshot.name, inside, path, to))


def _models(repo: _Repo, walk: Walk) -> Iterator[Kept]:
    """What has a name, and names whose data is gone."""
    current = {path for links in repo.links.values() for commit, path, _ in links if commit in repo.refs}
    for blob, links in repo.links.items():
        named = [x for x in links if x[1].lower().endswith(".gguf")]
        file = walk.file(blob) if named else None
        if file is None:
            continue
        names = tuple(_name(repo, current, *x) for x in named)
        base = os.path.basename(blob)
        sha256 = base if _SHA256.fullmatch(base) and os.path.basename(os.path.dirname(blob)) == "blobs" else ""
        yield Kept("model", file.path, names, file, sha256, group=repo.name, stuck=repo.stuck)
    for commit, inside, link, to in repo.lost:
        if inside.lower().endswith(".gguf"):
            yield Kept("lost", to, (_name(repo, current, commit, inside, link),), group=repo.name, stuck=True)


def _name(repo: _Repo, current: set[str], commit: str, inside: str, link: str) -> Name:
    # One that was fetched by its commit has no name either: it is old only where there is a newer one of that path.
    old = commit not in repo.refs and inside in current
    return Name(f"{repo.name}/{inside.replace(os.sep, '/')}", link, old=old, revision=commit)


def _others(repo: _Repo, walk: Walk, used: set[str]) -> Iterator[Kept]:
    """Blobs that nothing names."""
    named = any(path.lower().endswith(".gguf") for links in repo.links.values() for _, path, _ in links)
    for blob in walk.entries(os.path.join(repo.path, "blobs")):
        file = walk.file(blob.path)
        if file is None:
            continue
        used.add(file.path)
        if blob.path in repo.links:
            continue
        if blob.name.endswith(_INCOMPLETE):
            if is_gguf(file.path) or (_hollow(file) and (named or "gguf" in repo.name.lower())):
                yield Kept("part", file.path, (Name(repo.name, blob.path),), file, group=repo.name, stuck=repo.stuck)
        elif is_gguf(file.path):
            sha256 = blob.name if _SHA256.fullmatch(blob.name) else ""
            # Of one that is a link, that link is what nobody needs.
            path = blob.path if blob.is_symlink() else file.path
            yield Kept("orphan", path, (), file, sha256, group=repo.name, stuck=repo.stuck)


def _hollow(file: File) -> bool:
    """Whether a file does not say what it is: its beginning has not come yet."""
    try:
        with open(file.path, "rb") as f:
            return not f.read(4).strip(b"\0")
    except OSError:
        return False


def _shared(root: str, walk: Walk, used: set[str]) -> Iterator[Kept]:
    """Data that repositories shared, and none of them has any more."""
    for path in walk.files(os.path.join(root, _SHARED)):
        if not _SHA256.fullmatch(os.path.basename(path)) or not is_gguf(path):
            continue
        file = walk.file(path)
        if file is not None and file.path not in used:
            manifest = path + ".refs"
            yield Kept("orphan", file.path, (), file, beside=(manifest,) if os.path.exists(manifest) else ())
