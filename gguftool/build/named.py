"""What is known of a source folder besides its weights: what the model is called, where it is from, on what terms.

The converter takes a folder's name where the source says none, and a cache calls its folders by commits.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.edit.ops import Operation, Set
from gguftool.edit.publish import Told, fill
from gguftool.errors import GgufToolError
from gguftool.model import from_source
from gguftool.model.called import bare, no_name, place_of, speaks
from gguftool.model.card import Card, card_of
from gguftool.model.filename import unlabelled
from gguftool.model.terms import terms_of
from gguftool.reading import json_file
from gguftool.records import dataclass
from gguftool.regex import regex
from gguftool.source import Memory

NAME = "general.name"
_OF_NAME = (NAME, "general.organization", "general.basename", "general.finetune", "general.version")
_TOGETHER = ("general.base_model.", "general.license", "general.source.")
"""Beginnings of keys that stand together: where the converter has one of them, the others are its own, too."""
_TRAINED = ("trainer_state.json", "training_args.bin", "optimizer.pt")
_HEADING = regex(r"^#\s+(?:model\s+card\s+for\s+)?`?([^\s`]+)`?\s*$", re.I | re.M)
_EMPTY = b"GGUF" + struct.pack("<IQQ", 3, 0, 0)


@dataclass(frozen=True, slots=True)
class Named:
    """What a source is called.

    Attributes:
        name: as a repository would be named, or words; "" where nothing tells.
        told_by: what tells it, in words; "" where nothing does.
        own: the converter comes to it by itself.
        repo: ``owner/name`` on the Hub, "" when it is not known to be there.
    """

    name: str
    told_by: str
    own: bool = False
    repo: str = ""

    __repr__ = short_repr


def called(path: str, card: Card | None, output: str = "", given: str = "") -> Named:
    """What the model in a folder is called, by the first that tells it.

    Args:
        path: the folder; its config.json is read.
        card: its README.md.
        output: the file that is to be made.
        given: what the user says.
    """
    place = place_of(path)
    repo = place.repo if place is not None and place.hub else ""
    if given:
        return Named(given, "--name", repo=repo)
    front = next((text for key in ("name", "model_name") if (text := card.said(key) if card else "")), "")
    if front and not no_name(front):
        return Named(front, "the card", own=True, repo=repo)
    here = os.path.basename(os.path.abspath(path))
    said = _config(path).get("_name_or_path")
    taken = said if isinstance(said, str) and said.count("/") <= 1 else None
    if place is not None:
        own = not front and taken is None and here == place.name
        return Named(bare(place.name), place.told_by, own, repo)
    if taken and not no_name(bare(taken)) and not _is_base(path, taken, card):
        # `out/my-tune` is a path: the converter would take `out` for its maker.
        maker = taken.rpartition("/")[0]
        return Named(bare(taken), "config.json", own=not front and not (maker and no_name(maker)))
    if not no_name(here):
        return Named(here, "the folder", own=not front and taken is None)
    if text := _in_card(card):
        return Named(text, "the card")
    made = unlabelled(output)
    return Named(made, "the output") if len(made) > 2 and not no_name(made) else Named("", "")


def told(path: str, found: Named, card: Card | None, parameters: int) -> Told:
    """What can be filled into a file made of a folder."""
    return Told(
        card=card,
        source=found.repo,
        name="" if found.own else found.name,
        terms=terms_of(path, card, found.repo),
        parameters=parameters,
    )


def rows(found: Named, known: Told) -> list[dict[str, object]]:
    """What the converter is to write besides its own fields, in the form of `converter_driver.py:add_fields`."""
    with from_source(Memory(_EMPTY, "model.gguf")) as nothing:
        ops: Sequence[Operation] = fill(nothing, known)
    out = []
    for op in ops:
        if isinstance(op, Set):
            value = found.name if op.key == NAME and found.told_by == "--name" else op.value
            out.append(row(op.key, value, op.type or "str", over=op.key in _OF_NAME and not found.own))
    if not found.own:
        there = {one["key"] for one in out}
        out += [row(key, None, "str", over=True) for key in _OF_NAME if key not in there]
    return out


def asked(more: Sequence[str]) -> tuple[str, frozenset[str]]:
    """What the user's arguments for the converter say: a name, and the keys of a file of metadata."""
    said: dict[str, str] = {}
    for word, following in zip(more, [*more[1:], ""], strict=False):
        name, has_value, value = word.partition("=")
        said[name] = value if has_value else following
    try:
        found = json_file(said["--metadata"]) if said.get("--metadata") else {}
    except GgufToolError:
        found = {}  # the converter says what is wrong with it
    return said.get("--model-name", ""), frozenset(map(str, found)) if isinstance(found, Mapping) else frozenset()


def row(key: str, value: object, type_: str = "str", *, over: bool = False) -> dict[str, object]:
    """One field; with ``over`` it takes the place of the converter's, which goes where there is no value."""
    unless = next((head for head in _TOGETHER if key.startswith(head)), "")
    return {"key": key, "type": type_, "value": value, "unless": unless, "over": over}


def card(path: str) -> Card | None:
    """The card of a folder; None where there is none that can be read."""
    try:
        return card_of(path)
    except GgufToolError:
        return None


def _config(path: str) -> Mapping[str, object]:
    try:
        found = json_file(os.path.join(path, "config.json"))
    except GgufToolError:
        return {}
    return found if isinstance(found, Mapping) else {}


def _is_base(path: str, name: str, card: Card | None) -> bool:
    """Whether what config.json names is the model that this one was trained from."""
    bases = card.bases if card is not None else ()
    return name in bases or any(os.path.exists(os.path.join(path, mark)) for mark in _TRAINED)


def _in_card(card: Card | None) -> str:
    """The name in the metadata of evaluations, or the heading of a card."""
    if card is None:
        return ""
    index = card.front.get("model-index")
    first = index[0] if isinstance(index, list) and index else None
    named = first.get("name") if isinstance(first, Mapping) else None
    heading = _HEADING.search(card.body)
    found = (named, heading[1] if heading else None)
    return next((bare(text) for text in found if isinstance(text, str) and speaks(bare(text))), "")
