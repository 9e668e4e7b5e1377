"""The chat template: which of several the converter writes, and which one is in use."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen
from gguftool.chat.infolder import ADDITIONAL, CONFIG, JINJA, LEGACY, templates
from gguftool.shell import blank, gguftool, path_word

LARGEST = 32 << 20
"""Bytes of a template; the largest real one has 20 kB."""
MOST = 64


def template(seen: Seen) -> Iterator[Problem]:
    """Whether the converter writes the template that the model was trained with."""
    if seen.only_adapter:
        return
    tokenizer, legacy = seen.json(CONFIG), seen.json(LEGACY)
    found = templates(
        seen.names,
        tokenizer if isinstance(tokenizer, dict) else None,
        _text(seen.at(JINJA)),
        legacy.get("chat_template") if isinstance(legacy, dict) else None,
        _additional(seen),
    )
    if not found.apart or found.used is None or not found.used.text.strip():
        return
    by_hand = gguftool("fix", blank(), "--chat-template", path_word(seen.at(found.used.file)))
    way = f"convert and prepare put that one in afterwards; with --no-fix: {by_hand}"
    if found.converted is None:
        said = f"{seen.path}: the converter writes no chat template, {found.used.file} has one"
        yield Problem("template-lost", said, way, fatal=False)
        return
    said = (
        f"{seen.path}: two chat templates: training and transformers take the one in {found.used.file}, the converter "
        f"that of {found.converted.file}"
    )
    yield Problem("two-templates", said, way, fatal=False)


def _additional(seen: Seen) -> dict[str, str]:
    """Named templates beside chat_template.jinja."""
    folder = seen.at(ADDITIONAL)
    try:
        names = sorted(os.listdir(folder))[:MOST] if seen.has(ADDITIONAL) else []
    except OSError:
        return {}
    texts = {n.removesuffix(".jinja"): _text(os.path.join(folder, n)) for n in names if n.endswith(".jinja")}
    return {name: text for name, text in texts.items() if text is not None}


def _text(path: str) -> str | None:
    try:
        if not os.path.isfile(path):
            return None
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read(LARGEST)
    except OSError:
        return None
