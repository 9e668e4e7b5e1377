"""Fetch what a converter needs of a repository on the Hub: configuration, tokenizer, weights."""

from __future__ import annotations

import os
from fnmatch import fnmatch, fnmatchcase

from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.hub.address import hub_address
from gguftool.hub.api import listing, offline
from gguftool.hub.cache import snapshot
from gguftool.hub.pull import fetch, there
from gguftool.records import replace

PATTERNS = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja", "*.jsonl", "*.tiktoken", "README.md")
"""What a converter reads."""
TERMS = ("LICENSE*", "LICENCE*", "COPYING*", "license*")
"""What belongs to it: the converter does not look at it, and the licence of the result comes from it."""


def model_folder(spec: str) -> str:
    """Folder in the Hugging Face cache that holds ``hf://owner/repo[@revision]``, downloaded when it is not there.

    Raises:
        UsageError: the address names a file.
        MissingFile: no such repository, or nothing in it that a converter reads.
        ToolFailed: the Hub cannot be asked, or refuses, or sends nothing any more.
    """
    address = hub_address(spec)
    if address.path or address.quant:
        raise UsageError(f"{spec}: names a file; to convert, name the repository: hf://{address.repo}")
    if offline():
        here = snapshot(address)
        if here is None:
            raise ToolFailed(f"{spec}: is not in the cache, and HF_HUB_OFFLINE forbids to fetch it")
        return here
    there_is = listing(address)
    wanted = [r for r in there_is if any(fnmatch(r.path, pattern) for pattern in PATTERNS)]
    if not wanted:
        raise MissingFile(f"{spec}: holds nothing that a converter reads")
    wanted += [r for r in there_is if r not in wanted and any(fnmatchcase(r.path, pattern) for pattern in TERMS)]
    folder = ""
    for record in sorted(wanted, key=lambda r: r.size):
        path = (folder and there(address, record, None)) or fetch(address, record, None, force=False, shown=True)
        if not folder:
            # The commit that the first one is of: a branch may go on meanwhile.
            folder = path.removesuffix(record.path.replace("/", os.sep)).rstrip(os.sep)
            address = replace(address, revision=os.path.basename(folder))
    return folder
