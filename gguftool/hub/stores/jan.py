"""jan's data folder: ``llamacpp/models/ID/model.yml`` names the files of a model, there or anywhere else.

Older versions kept theirs in ``models``, with another form of that file.
"""

from __future__ import annotations

import os
import re

from gguftool.hub.stores.folders import entry, finished_name, is_model, part
from gguftool.hub.stores.kept import Contents, Kept, Name, Walk
from gguftool.model.shards import naming
from gguftool.regex import regex

MODELS, OLD = os.path.join("llamacpp", "models"), "models"
DESCRIPTION = "model.yml"
LARGEST = 1 << 20
"""Bytes of a description that is read."""
_FILES = {"model_path": "", "mmproj_path": "projector"}
_LINE = regex(r"(model_path|mmproj_path|model_sha256|mmproj_sha256)[ \t]*:[ \t]*(.*?)[ \t]*\r?")
_SHA256 = regex(r"[0-9a-fA-F]{64}")


def read(root: str) -> Contents:
    """The GGUF files that jan knows, and what lies in its folders besides."""
    found = Contents()
    walk = Walk(found)
    told: set[str] = set()
    top = os.path.join(root, MODELS)
    below = list(walk.files(top, follow=True))
    there = set(below)
    for path in below:
        if os.path.basename(path) == DESCRIPTION:
            for kept in _described(root, top, path, walk, there):
                told.add(kept.path)
                found.kept.append(kept)
    # The other shards of a set have no line: llama.cpp finds them by their names.
    sets = {(os.path.dirname(p), said.stem) for p in told if (said := naming(p)) is not None}
    for path in below:
        if is_model(path):
            one = entry(walk, path, Name(os.path.relpath(path, top), path), there)
            if one.path not in told:
                said = naming(path)
                known = said is not None and (os.path.dirname(path), said.stem) in sets
                found.kept.append(one if known or one.file is None else _nameless(one))
        elif base := finished_name(path):
            found.kept += part(walk, path, Name(os.path.relpath(base, top), path), there)
    for path in walk.files(os.path.join(root, OLD), follow=True):
        if is_model(path):
            one = entry(walk, path, Name(os.path.relpath(path, os.path.join(root, OLD)), path), ())
            if one.path not in told:
                found.kept.append(one)
    return found


def _nameless(one: Kept) -> Kept:
    return Kept("orphan", one.path, (), one.file, beside=one.beside, group=one.group)


def _described(root: str, top: str, path: str, walk: Walk, there: set[str]) -> list[Kept]:
    """The files that a description names."""
    data = walk.small(path, LARGEST)
    if data is None:
        return []
    said = _said(data.decode("utf-8", "replace"))
    called = os.path.relpath(os.path.dirname(path), top)
    out = []
    for key, what in _FILES.items():
        if not (place := said.get(key)) or "\0" in place:
            continue
        full = os.path.normpath(os.path.join(root, place))
        one = entry(walk, full, Name(called, path, what), there)
        sha256 = said.get(key.replace("path", "sha256"), "").lower()
        # What the file should be, not what it is: but jan has checked it when it fetched it.
        good = bool(_SHA256.fullmatch(sha256)) and full.startswith(os.path.join(root, ""))
        out.append(Kept(one.state, one.path, one.names, one.file, sha256 if good else "", one.beside, called))
    if not out:
        walk.found.unread.append((path, "names no file of a model"))
    return out


def _said(text: str) -> dict[str, str]:
    """Values of the lines that matter, as `serde_yaml` writes them: plain, or in quotes of either kind."""
    out: dict[str, str] = {}
    for line in text.split("\n"):
        if m := _LINE.fullmatch(line):
            out[m[1]] = _plain(m[2])
    return out


def _plain(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == "'":
        return value[1:-1].replace("''", "'")
    if len(value) > 1 and value[0] == value[-1] == '"':
        return re.sub(r"\\(.)", r"\1", value[1:-1])
    return "" if value in ("null", "~") else value
