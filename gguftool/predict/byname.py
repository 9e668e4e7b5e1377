"""A build whose loading code is not stored, judged by the names in a file: what the timeline of builds alone can tell.

The order is llama.cpp's: tensor types are read with the file, then the architecture, then the vocabulary. The lines are
those of the builds of that age (`ggml.c`, `gguf.cpp`, `llama.cpp` of b1492 to b7347).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gguftool.facts import editions, llama_cpp, timeline
from gguftool.facts.marks import SINCE
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import Model
from gguftool.predict.needs import ARCH, KEY, PRE, TOKENIZER, TYPE, Need, needs
from gguftool.predict.verdict import ABORTS, LOAD_ERROR, LOADS, REFUSED, UNKNOWN, Prediction

_ORDER = (TYPE, ARCH, TOKENIZER, PRE)
_STAGE = {TYPE: "file", ARCH: "architecture", TOKENIZER: "vocabulary", PRE: "vocabulary"}
NOT_COMPARED = "only names were compared, not keys and tensors: no loading code of that age is stored"
UNREADABLE = "it cannot read the names in this header, so there is nothing to compare"
STAGES_NAMED = (1600, 8800)
"""Between about these builds the line names the stage it ends in: ``error loading model architecture:`` …"""
TYPE_ASSERTED, TYPE_SANITIZED = 3995, 4440
"""Up to about the first an unknown tensor type ends the process, up to about the second the line was another one."""


def edition(model: Model, build: int, stored: Sequence[int]) -> tuple[int | None, str]:
    """Which stored loading code speaks for a build, and why none does for sure.

    That of the nearest older build; of the next newer one where the build knows a name of the file that the older one
    does not know yet.

    Args:
        model: opened with ``strict=False``.
        build: number of the build.
        stored: builds whose loading code is stored.

    Returns:
        A build (None: names alone can be compared), and what is open ("": nothing).
    """
    if build in stored:
        return build, ""
    older = max((b for b in stored if b <= build), default=None)
    newer = min((b for b in stored if b > build), default=None)
    if newer is not None and any((older or 0) < since <= build for since in _refused_since(model)):
        return newer, ""
    asked = needs(model)
    for n in asked:
        # What is in the older rows is there, what is not even in the newer ones is not.
        if (older is not None and _listed(n, older)) or (newer is not None and _listed(n, newer) is False):
            continue
        if n.there(build) is None and n.since is not None and (older is None or n.there(older) is not True):
            return older, f"whether {llama_cpp(build)} knows {n.what} is not known: {span(n)}"
    if older is not None and newer is not None and any(n.there(build) and n.there(older) is False for n in asked):
        return newer, ""
    return older, ""


def _refused_since(model: Model) -> Iterator[int]:
    """Builds since which keys of the file end the reading, or end it in other words."""
    keys = [f.key for f in model.header.fields]
    if "" in keys:
        yield SINCE["empty-key"]
    if "" in keys or len(set(keys)) < len(keys):
        yield SINCE["key-twice"]


def _listed(n: Need, stored: int) -> bool | None:
    """Whether the lists of a stored build have a name; None: there is no list of its kind, or it needs none."""
    if n.there(stored) is not None:
        return n.there(stored)
    lists = editions.edition(stored).lists
    if n.kind == TYPE:
        known = TENSOR_TYPE_BY_NAME.get(n.name)
        return None if known is None else known.id in lists["types"]["known"]
    place = {ARCH: "arch", TOKENIZER: "tokenizers"}.get(n.kind)
    found = lists[place] if place else lists["vocabulary"]["pre"] if n.kind == PRE else None
    return None if not found else n.name in found


def by_names(model: Model, build: int) -> Prediction:
    """What a build does with a file, as far as names tell."""
    if not model.header.complete or model.header.big_endian:
        return Prediction(UNKNOWN, "file", not_evaluated=(UNREADABLE,), build=None)
    found, open_ = needs(model), [NOT_COMPARED]
    asked = [n for kind in _ORDER for n in found if n.kind == kind]
    for n in asked:
        there = n.there(build)
        if there is None:
            why = f"whether {llama_cpp(build)} knows {n.what} is not known: {span(n)}"
            return Prediction(UNKNOWN, _STAGE[n.kind], where=n.where, not_evaluated=(why,), build=None)
        if there:
            continue
        if (ended := _ended(n, build, model)) is not None:
            return ended
        open_.insert(0, f"it does not know the {n.what} and goes on: it cuts text otherwise than was meant")
    return Prediction(LOADS, "done", not_evaluated=tuple(open_), build=None)


def span(n: Need) -> str:
    """What is known of a name that came between two builds."""
    if n.since is None:
        return "it was seen in none"
    if n.gone is not None:
        return f"it was last seen in b{n.last}, and is not in b{n.gone}"
    return f"it is in b{n.since}" + (f", and not in b{n.not_in}" if n.not_in is not None else "")


def _ended(n: Need, build: int, model: Model) -> Prediction | None:
    """How the load ends at a name that the build does not know; None where it goes on."""
    named = STAGES_NAMED[0] <= build < STAGES_NAMED[1]
    start = LOAD_ERROR if build >= STAGES_NAMED[0] else "error loading model: "
    if n.kind == TYPE:
        return _of_type(n, build, model)
    if n.kind == ARCH:
        line = start + ("error loading model architecture: " if named else "")
        return _refused(n, f"{line}unknown model architecture: '{n.name}'")
    line = f"{start}error loading model vocabulary: "
    if n.kind == TOKENIZER:
        # Builds of before took any other word for SentencePiece, with a warning.
        return _refused(n, f"{line}unknown tokenizer: '{n.name}'") if build > TOKENIZER_REFUSED else None
    key = timeline.interval(KEY, "tokenizer.ggml.pre")
    return None if key is None or build < key.since else _refused(n, f"{line}unknown pre-tokenizer type: '{n.name}'")


TOKENIZER_REFUSED = 3166
"""The last build that is known to go on with a tokenizer it does not know."""


def _of_type(n: Need, build: int, model: Model) -> Prediction:
    name = n.where.partition(":")[2]
    number = next((t.info.type_id for t in model.all_tensors() if t.name == name), -1)
    if build <= TYPE_ASSERTED:
        line = "GGML_ASSERT(0 <= info->type && info->type < GGML_TYPE_COUNT) failed"
        return Prediction(ABORTS, "file", (line,), where=n.where, build=None)
    if build <= TYPE_SANITIZED:
        return _refused(n, f"gguf_tensor_info_sanitize: invalid type ({number})")
    return _refused(n, f"gguf_init_from_file_impl: tensor '{name}' has invalid ggml type {number} (NONE)")


def _refused(n: Need, line: str) -> Prediction:
    return Prediction(REFUSED, _STAGE[n.kind], (line,), where=n.where, build=None)
