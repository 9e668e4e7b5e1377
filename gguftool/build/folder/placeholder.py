"""Files that are not there yet, or only in name: pointers, empty files, downloads that have not ended."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import CONFIG, Seen, missing_parts, pointer
from gguftool.build.safetensors import is_lfs_pointer
from gguftool.hub.stores.folders import ARIA, PARTS
from gguftool.records import replace
from gguftool.regex import regex

_READ = (".safetensors", ".bin", ".json", ".model", ".jinja", ".txt")
_WEIGHTS = regex(r"(?:model|pytorch_model).*\.(?:safetensors|bin)")
_UNFINISHED = (*PARTS, ARIA, ".!ut", ".fdmdownload", ".opdownload", ".download", ".!qB", ".filepart")
"""Endings that programs put behind the name of a file they are still fetching."""
_MOST_BELOW = 10_000


def empty(seen: Seen) -> Iterator[Problem]:
    """Files of no bytes, and links that lead nowhere."""
    told = " ".join(p.message for p in seen.unread)
    for name in seen.names:
        if not name.endswith(_READ):
            continue
        if seen.sizes.get(name) == 0 and name not in told and _needed(seen, name):
            yield Problem("empty-file", f"{seen.path}: {name} is empty", "download it again")
        elif name not in seen.sizes and os.path.islink(seen.at(name)):
            half = os.path.realpath(seen.at(name)) + ".incomplete"
            begun = f"; {os.path.getsize(half):,} bytes of it are there" if os.path.isfile(half) else ""
            yield Problem(
                "missing-weights" if _WEIGHTS.match(name) else "missing-file",
                f"{seen.path}: {name} is a link to a file that is not there{begun}",
                "go on with its download",
                fatal=_needed(seen, name),
            )


def pointers(seen: Seen) -> Iterator[Problem]:
    """Small files that the converter reads, and that are pointers of Git LFS; the weights have been read already."""
    for name in seen.names:
        told = name == CONFIG or name.endswith(".index.json") or _tokenizer(name)
        if name.endswith((".json", ".jinja")) and not told and is_lfs_pointer(seen.at(name)):
            yield replace(pointer(seen.path, name), fatal=name.endswith(".jinja"))


def unfinished(seen: Seen) -> Iterator[Problem]:
    """Downloads that have not ended: beside the file, or in the notes of `hf download --local-dir`."""
    begun = [n for n in seen.names if n.endswith(_UNFINISHED) and _WEIGHTS.match(n)]
    # aria2 makes the file in full size at once: only its notes say that there are holes.
    fatal = any(n.endswith(ARIA) and seen.has(n.removesuffix(ARIA)) for n in begun)
    if begun:
        more = f" and {len(begun) - 1} more" if len(begun) > 1 else ""
        known = _complete(seen)
        yield Problem(
            "half-download",
            f"{seen.path}: {begun[0]}{more} is a download that has not ended",
            "let it end, or download it again" if fatal or not known else "the weights are whole without it",
            fatal=fatal or not known,
        )
    elif left := _left_by_hub(seen):
        yield Problem(
            "half-download",
            f"{seen.path}: the last download into this folder has not ended ({left})",
            "run hf download with the same --local-dir again",
            fatal=not _complete(seen),
        )


def _complete(seen: Seen) -> bool:
    """Whether there are weights, and neither index nor numbers tell of a file that is missing."""
    return bool(seen.files) and all(n in seen.sizes for n in set(seen.index.values())) and not missing_parts(seen.files)


def _left_by_hub(seen: Seen) -> str:
    notes = os.path.join(seen.path, ".cache", "huggingface", "download")
    try:
        with os.scandir(notes) as found:
            for entry, _ in zip(found, range(_MOST_BELOW), strict=False):
                if entry.name.endswith(".incomplete"):
                    return f"{entry.name[:60]}, {entry.stat().st_size:,} bytes"
    except OSError:
        pass
    return ""


def _needed(seen: Seen, name: str) -> bool:
    if _WEIGHTS.match(name):
        return name in seen.files or not seen.files
    return name == CONFIG or _tokenizer(name)


def _tokenizer(name: str) -> bool:
    return name.startswith(("tokenizer", "vocab", "merges", "spiece", "special_tokens", "tekken"))
