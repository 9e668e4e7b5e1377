"""What people type where a path is wanted: addresses of other stores, and words that the shell left as they are."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from gguftool.regex import regex
from gguftool.shell import path_word, shell

_REPO = r"[\w.-]+/[\w.-]+"
_HUB = regex(
    rf"(?:hf:/?|hugging(?:face)?:/*|(?:www\.)?(?:huggingface\.co|hf\.co)/|git@hf\.co:)({_REPO}(?:[:/].*)?)", re.I
)
_SHORT = regex(rf"{_REPO}:[\w.-]+")
_DRIVE = regex(r"([A-Za-z]):[\\/](.*)")


def meant(path: str) -> str | None:
    """What helps when a path names no file; None when nothing is known of its form.

    Args:
        path: as it was typed.
    """
    scheme, sign, rest = path.partition("://")
    if sign and (hint := _OF_SCHEME.get(scheme.lower())) is not None:
        return hint(path, rest)
    expanded = os.path.expanduser(os.path.expandvars(path))
    if expanded != path:
        return f"the shell leaves ~ and $ in quotes as they are; without quotes it is {shell([path_word(expanded)])}"
    if path.startswith("~"):
        return "there is no user of that name; ~/ is your own folder"
    if (hub := _HUB.fullmatch(path)) is not None:
        return f"write hf://{hub[1].removesuffix('.git')}"
    if path.lower().startswith("ollama:"):
        return f"write ollama://{path[7:].lstrip('/')}"
    if (drive := _DRIVE.fullmatch(path)) is not None and os.sep == "/":
        there = f"/mnt/{drive[1].lower()}/" + drive[2].replace("\\", "/")
        return f"a path of Windows; in WSL it is {shell([there])}"
    if path.startswith("magnet:"):
        return "a torrent: fetch the file with a torrent program first"
    return f"a model on the Hub is written hf://{path}" if _SHORT.fullmatch(path) else None


def _file(path: str, rest: str) -> str:
    from urllib.parse import unquote

    where = unquote(rest)
    host, slash, below = where.partition("/")
    local = f"/{below}" if slash and host in ("", "localhost") else where
    return f"name the file itself: {shell([path_word(local)])}"


def _with(*words: str) -> Callable[[str, str], str]:
    """The command of another program that fetches it; PATH and REST stand for the address and what follows its ``://``."""

    def hint(path: str, rest: str) -> str:
        return "fetch it first: " + shell([{"PATH": path, "REST": rest}.get(word, word) for word in words])

    return hint


_OF_SCHEME: dict[str, Callable[[str, str], str]] = {
    "file": _file,
    "azure": lambda path, rest: f"write az://{rest}",
    "docker": _with("docker", "model", "pull", "REST"),
    "huggingface": lambda path, rest: f"write hf://{rest}",
    "modelscope": lambda path, rest: f"write https://modelscope.cn/models/{rest}/resolve/master/FILE",
    "ipfs": lambda path, rest: f"write https://ipfs.io/ipfs/{rest}",
}
"""Scheme of an address that is not read here -> what works."""
