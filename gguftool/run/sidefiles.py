"""The files that a command names: all of them go through here.

They must be there, they are named by their absolute path, and a container gets them mounted where its command looks
for them. Which options name files stands in the table (`path`), and for what goes on behind ``--`` in its roles.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gguftool.errors import MissingFile, Unreadable, UsageError
from gguftool.records import dataclass, replace
from gguftool.run.options.extra import Role, mapped
from gguftool.run.options.table import options
from gguftool.run.wishes import Wishes

Change = Callable[[str, str, str, bool], str]
"""What becomes of a path: it gets the path, the option that names it, what is done with it, whether it is secret."""
MODELS, FILES, DATA = "/models", "/files", "/data"
"""Where a container finds the model, single files beside it, and folders to write to."""
KEYS = ("api_key_file", "ssl_key_file")
"""Fields of files that hold a secret."""


@dataclass(frozen=True, slots=True)
class SideFile:
    """A file, or a folder, that a command names.

    Attributes:
        option: the option that names it.
        path: as it was named.
        kind: ``read``, ``write``, ``folder``, or ``made``: a folder that the server makes.
        secret: it holds keys.
    """

    option: str
    path: str
    kind: str
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """One thing of this machine inside a container.

    Attributes:
        source: absolute path here, without symbolic links.
        target: path there.
        folder: a folder; else a single file.
        writable: the container may write to it.
        secret: it holds keys.
    """

    source: str
    target: str
    folder: bool = True
    writable: bool = False
    secret: bool = False


def is_socket(host: str) -> bool:
    """Whether the server listens on a socket of the file system (`server-http.cpp`, b11434), which is a file, too."""
    return host.endswith(".sock") and "," not in host


def side_files(w: Wishes) -> tuple[SideFile, ...]:
    """Every file that these wishes name, behind ``--`` too."""
    out: list[SideFile] = []

    def note(path: str, option: str, kind: str, secret: bool) -> str:
        out.append(SideFile(option, path, kind, secret))
        return path

    _each(w, note)
    return tuple(out)


def checked(w: Wishes) -> Wishes:
    """The wishes with absolute paths.

    Raises:
        MissingFile: a file is not there, or the folder of one that is to be written.
        UsageError: a folder in place of a file, or the other way round.
        Unreadable: it cannot be read.
    """
    for file in side_files(w):
        if "://" not in file.path:
            _there(file)
    found = _each(w, lambda path, option, kind, secret: path if "://" in path else os.path.abspath(path))
    here = w.server and (os.sep in w.server or os.path.exists(w.server))
    return replace(found, server=os.path.abspath(str(w.server)) if here else w.server)


def _there(file: SideFile) -> None:
    path, name = file.path, f"{file.option}: {file.path}"
    if not path:
        raise UsageError(f"{file.option}: a name is missing")
    if file.kind in ("write", "made"):
        folder = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(folder):
            raise MissingFile(f"{name}: there is no folder {folder}")
        if file.kind == "write" and os.path.isdir(path):
            raise UsageError(f"{name}: is a folder")
        return
    if not os.path.exists(path):
        raise MissingFile(f"{name}: no such file" if file.kind == "read" else f"{name}: no such folder")
    if os.path.isdir(path) is not (file.kind == "folder"):
        raise UsageError(f"{name}: is a folder" if file.kind == "read" else f"{name}: is not a folder")
    if not os.access(path, os.R_OK):
        raise Unreadable(f"{name}: permission denied")


def _each(w: Wishes, change: Change) -> Wishes:
    """The wishes with every path changed."""
    made: dict[str, Any] = {}
    for o in options():
        value = getattr(w, o.field)
        if o.path and value:
            secret = o.field in KEYS
            made[o.field] = _in(value, partial(_changed, change, o.ours, o.path, secret))

    if is_socket(w.host):
        made["host"] = change(w.host, "--host", "write", False)

    def behind(word: str, option: str, role: Role) -> str:
        return change(word, option, role.path, False) if role.path else word

    return replace(w, **made, extra=mapped(w.extra, behind))


def _changed(change: Change, option: str, kind: str, secret: bool, path: str) -> str:
    return change(path, option, kind, secret)


def _in(value: Any, change: Callable[[str], str]) -> Any:
    """A path, several, or several with a number each."""
    if isinstance(value, str):
        return change(value)
    return tuple(change(x) if isinstance(x, str) else (change(x[0]), *x[1:]) for x in value)


def replaced(w: Wishes, change: Callable[[SideFile], str]) -> Wishes:
    """The wishes with every path changed."""
    return _each(w, lambda path, option, kind, secret: change(SideFile(option, path, kind, secret)))


def mounted(model: str, files: Sequence[str], w: Wishes) -> tuple[str, Wishes, tuple[Mount, ...]]:
    """A command as it is inside a container.

    Args:
        model: absolute path of the model, of its first shard.
        files: paths of all its shards.
        w: the wishes, with absolute paths.

    Returns:
        the path of the model there, the wishes with paths as they are there, and what has to be mounted.
    """
    inside, mounts = _model(model, files or (model,))
    taken = {m.target for m in mounts}
    known: dict[str, str] = {}

    def place(path: str, option: str, kind: str, secret: bool) -> str:
        if path in known:
            return known[path]
        real, name = os.path.realpath(path), os.path.basename(path)
        if kind == "read":
            target = _free(f"{FILES}/{name}", taken)
            mounts.append(Mount(real, target, folder=False, secret=secret))
        elif kind == "folder":
            target = _free(f"{DATA}/{name or 'folder'}", taken)
            mounts.append(Mount(real, target, writable=True))
        else:
            folder = _free(f"{DATA}/{os.path.basename(os.path.dirname(path)) or 'folder'}", taken)
            mounts.append(Mount(os.path.dirname(real), folder, writable=True))
            target = f"{folder}/{name}"
        known[path] = target
        return target

    return inside, _each(w, place), tuple(mounts)


def _free(target: str, taken: set[str]) -> str:
    """A target that nothing else has."""
    n, out = 1, target
    while out in taken:
        n += 1
        folder, _, name = target.rpartition("/")
        out = f"{folder}/{n}/{name}"
    taken.add(out)
    return out


def _model(model: str, files: Sequence[str]) -> tuple[str, list[Mount]]:
    """The folder of the model; of symbolic links, as the cache of Hugging Face has them, so that they lead somewhere.

    llama.cpp finds further shards by the name of the first, so links of several shards have to stay what they are.
    """
    folder, name = os.path.realpath(os.path.dirname(model)), os.path.basename(model)
    linked = [f for f in files if os.path.islink(f)]
    if not linked:
        return f"{MODELS}/{name}", [Mount(folder, MODELS)]
    targets = [os.path.dirname(os.path.realpath(f)) for f in linked]
    root = os.path.commonpath([folder, *targets])
    if all(_leads_inside(f) for f in linked) and root.count(os.sep) > 1:
        return f"{MODELS}/{os.path.relpath(os.path.join(folder, name), root)}", [Mount(root, MODELS)]
    if len(files) == 1:
        return f"{MODELS}/{os.path.basename(os.path.realpath(model))}", [Mount(targets[0], MODELS)]
    # Links with absolute paths: what they lead to lies at the same place there.
    return f"{MODELS}/{name}", [Mount(folder, MODELS), *(Mount(t, t) for t in dict.fromkeys(targets) if t != folder)]


def _leads_inside(link: str) -> bool:
    """Whether a link is relative and leads to the file in one step, so that it works wherever both are mounted."""
    to = os.readlink(link)
    folder = os.path.realpath(os.path.dirname(link))
    return not os.path.isabs(to) and os.path.normpath(os.path.join(folder, to)) == os.path.realpath(link)
