"""What was meant by a source that is no folder: a model on the Hub, a file of the folder, an archive, a GGUF model."""

from __future__ import annotations

import os

from gguftool.elsewhere import meant
from gguftool.errors import NotGguf, Unreadable
from gguftool.format.sniff import HEAD, identify
from gguftool.regex import regex
from gguftool.shell import gguftool, path_word, shell

_NAME = regex(r"[\w][\w.-]*")
_PARTS = (".safetensors", ".bin", ".json")
_ALONE = "config.json and the tokenizer belong to it: put them into one folder and name that"


def not_there(path: str) -> str | None:
    """What helps where there is no such folder; None when nothing is known."""
    if (hint := meant(path)) is not None:
        return hint
    owner, slash, name = path.partition("/")
    if not slash or not _NAME.fullmatch(owner) or not _NAME.fullmatch(name) or os.path.isdir(owner):
        return None
    return "a model on the Hub: " + gguftool("convert", f"hf://{path}")


def as_file(path: str) -> Unreadable:
    """What a file is that was given in place of a folder, and what to name."""
    folder, name = os.path.split(path)
    if name.endswith(_PARTS) and os.path.isfile(os.path.join(folder, "config.json")):
        return Unreadable(f"{path}: is a file", "name its folder: " + gguftool("convert", path_word(folder or ".")))
    if not os.path.isfile(path):
        return Unreadable(f"{path}: is neither a file nor a folder", "name the folder with config.json in it")
    try:
        with open(path, "rb") as f:
            head, size = f.read(HEAD), os.fstat(f.fileno()).st_size
    except OSError as error:
        return Unreadable(f"{path}: {(error.strerror or str(error)).lower()}")
    found = identify(head, size, path)
    if found is None:
        way = f"it needs no converting: {gguftool('lint', path_word(path))}"
        return Unreadable(f"{path}: is a GGUF model already", way)
    what = str(found).removeprefix(f"{path}: not a GGUF file: ")
    ways = {"zip": "unpack it: " + shell(("unzip", path_word(path))), "safetensors": _ALONE, "pytorch": _ALONE}
    way = ways.get(found.kind, "") if isinstance(found, NotGguf) else ""
    return Unreadable(
        f"{path}: is a file, not a folder: {what}", way or found.hint or "name the folder with config.json in it"
    )
