"""Whether the converter will know how a folder's tokenizer cuts texts, told without running the converter."""

from __future__ import annotations

import hashlib
import os

from gguftool.build.converter import Converter
from gguftool.build.folder.look import Folder
from gguftool.build.folder.problem import Problem
from gguftool.errors import GgufToolError
from gguftool.facts.converters import fingerprints, vocabulary
from gguftool.reading import Malformed, file_bytes, from_json
from gguftool.run.hftokens import cut_by_source

FILE = "tokenizer.json"


def unrecognised(folder: Folder, tool: Converter, pre: str | None) -> Problem | None:
    """What speaks against a conversion when the converter's list of BPE pre-tokenizers lacks that of the folder.

    The converter hashes the token ids of one text and looks the hash up (`conversion/base.py:get_vocab_base_pre`,
    b11434); the ids are those of the `tokenizers` library, in our environment or in the converter's.

    Args:
        folder: what was looked at.
        tool: the converter.
        pre: the pre-tokenizer that was named; then the converter does not ask.

    Returns:
        None where it is known, does not matter, or cannot be told.
    """
    path = os.path.join(folder.path, FILE)
    by_hash = "transformers" in vocabulary(folder.architecture)
    others = any(os.path.exists(os.path.join(folder.path, name)) for name in ("tokenizer.model", "tekken.json"))
    if pre or others or not by_hash or not os.path.isfile(path):
        return None
    known = fingerprints(tool.root)
    try:
        data = file_bytes(path)
        document = from_json(data)
        kind = document.get("model") if isinstance(document, dict) else None
        if known is None or not isinstance(kind, dict) or kind.get("type") != "BPE" or kind.get("byte_fallback"):
            return None
        # transformers may leave out what a tokenizer puts around a text.
        ids = [
            cut_by_source(path, data, [known[0]], begin_and_end=around, python=tool.python)[0].ids
            for around in (True, False)
        ]
    except (GgufToolError, Malformed):
        return None
    if {hashlib.sha256(str(list(one)).encode()).hexdigest() for one in ids} & known[1]:
        return None
    return Problem(
        "pre-tokenizer",
        f"{folder.path}: the converter does not know how {FILE} cuts texts, and will stop at it",
        "copy tokenizer.json of the base model into the folder, take a newer llama.cpp, or name the pre-tokenizer to "
        "take: --pre NAME (qwen2, llama-bpe …)",
        fatal=False,
    )
