"""What the source that a file names says of its hash: the repository in its keys, or in the folders of a store.

First the copy in the Hub's cache on this machine, whose blob is named by its hash; then the Hub.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from gguftool.errors import GgufToolError
from gguftool.hub.address import HubAddress, WebAddress, parse
from gguftool.hub.api import endpoint
from gguftool.hub.cache import cached
from gguftool.model import Model
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.verify.expect import Expectation, around
from gguftool.verify.published import published

KEYS = (
    "general.repo_url", "general.url", "general.source.huggingface.repository", "general.source.repo_url",
    "general.source.url",
)  # fmt: skip
"""Keys that name where a file, or what it was made of, is published (`gguf-py/gguf/constants.py`)."""
_REPO = regex(r"[\w.-]+/[\w.-]+", re.ASCII)
_STORE = regex(r"[/\\](?:\.lmstudio|lm-studio)[/\\]models[/\\]([\w.-]+)[/\\]([\w.-]+)[/\\]", re.ASCII)
"""LM Studio keeps a file under the names of its repository."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What came of asking the sources.

    Attributes:
        said: statements by path.
        repositories: those that the file names, as addresses.
        why: why the last one did not tell; "" when one did, or none was asked.
    """

    said: dict[str, list[Expectation]]
    repositories: tuple[str, ...]
    why: str = ""


def repositories(model: Model) -> tuple[str, ...]:
    """Repositories of the Hub that a file says it is from, as addresses; the likeliest first."""
    found = [f"{m[1]}/{m[2]}" for part in model.parts if (m := _STORE.search(os.path.abspath(part.name)))]
    for key in KEYS:
        text = model.get(key)
        if isinstance(text, str) and (repo := _repository(text.strip())):
            found.append(repo)
    return tuple(f"hf://{repo}" for repo in dict.fromkeys(found))


def _repository(text: str) -> str:
    if _REPO.fullmatch(text):
        return text
    try:
        address = parse(text, endpoint())
    except GgufToolError:
        return ""
    hub = address.hub if isinstance(address, WebAddress) else address
    if isinstance(hub, HubAddress):
        return hub.repo
    found = re.fullmatch(r"https?://(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+)/?", text, re.ASCII)
    return found[1] if found else ""


def ask(model: Model, paths: Sequence[str]) -> Asked:
    """Ask the sources that a file names, until one tells.

    Args:
        model: open model; its header is enough.
        paths: its files.
    """
    named = repositories(model)
    why = ""
    for name in named:
        try:
            said = {path: [x] for path, x in _told(name, paths)}
        except GgufToolError as error:
            why = str(error)
            continue
        if said:
            return Asked(said, named)
        why = f"{name} has no file of that name"
    return Asked({}, named, why)


def _told(name: str, paths: Sequence[str]) -> Iterator[tuple[str, Expectation]]:
    left = []
    for path in paths:
        copy = cached(HubAddress(name.removeprefix("hf://"), os.path.basename(path)))
        blob = next((x for x in around(copy) if x.source.startswith("Hugging Face")), None) if copy else None
        if blob is not None:
            yield path, Expectation(f"the copy of {name} in the cache", blob.entry)
        else:
            left.append(path)
    if left:
        yield from published(name, left)
