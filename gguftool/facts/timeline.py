"""Since which build llama.cpp knows a name: architectures, types, keys, options, messages, and until when.

`./dev facts --builds` writes the data from the sources of the builds themselves; docs/builds.md tells how. A kind is
read when it is first asked, a few kilobytes each.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from gguftool.errors import UsageError
from gguftool.facts.data import newest as load
from gguftool.records import dataclass, replace
from gguftool.regex import regex

KINDS = (
    "architecture", "loaded_architecture", "pre_tokenizer", "tokenizer_model", "tensor_type", "key", "tensor_name",
    "projector", "template_engine", "required_key", "option", "option_value", "default", "log",
)  # fmt: skip
"""What is known by build.

``architecture`` are the names that are not refused as unknown; ``loaded_architecture`` those whose tensors are loaded:
some had a name long before. Keys have ``%s`` in place of the architecture, tensors ``%d`` in place of the layer.
``required_key`` are keys that are asked for without a condition, of all architectures (``%s.block_count``) or of one
(``gemma3.attention.layer_norm_rms_epsilon``). Options are llama-server's, as they are spelled; an ``option_value`` is
``--split-mode row``, a ``default`` is ``--ctx-size 4096``. A ``log`` is a message as it is printed, ``{}`` for values.
"""
_NUMBER = regex(r"b?([0-9]{1,6})", re.IGNORECASE)
_VERSION = regex(r"v?\d+\.\d+(\.\d+)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Interval:
    """Where in the row of builds a name is known.

    Attributes:
        since: first build it was seen in.
        not_in: last older build seen without it; None: it is in the oldest one that was looked at.
        gone: first build without it after that; None: still there in the newest.
        last: last build seen with it, where it went.
        evidence: what it was read from: ``sources``.
    """

    since: int
    not_in: int | None
    gone: int | None
    last: int | None
    evidence: str

    def holds(self, build: int) -> bool | None:
        """Whether a build has it; None in the gap between the last without it and the first with it.

        Before the oldest and after the newest build that was looked at, the answer is that one's.
        """
        if self.not_in is not None and build <= self.not_in:
            return False
        if self.gone is not None and build >= self.gone:
            return False
        if self.not_in is not None and build < self.since:
            return None
        return None if self.last is not None and build > self.last else True


def build_number(text: str) -> int:
    """``b8179`` or ``8179`` as a number.

    Raises:
        UsageError: it is no build of llama.cpp.
    """
    hit = _NUMBER.fullmatch(text.strip())
    if hit is None:
        hint = "builds are written b8179 or 8179; llama-server --version says yours"
        if _VERSION.fullmatch(text.strip()):
            # What articles call «llama.cpp v0.3.1».
            version = text.strip().lstrip("vV")
            hint = f"llama.cpp counts builds (b8179); of llama-cpp-python: --llama-cpp-python {version}"
        raise UsageError(f"{text!r} is no build of llama.cpp", hint)
    return int(hit[1])


def builds(below: int = sys.maxsize) -> tuple[int, ...]:
    """Numbers of the builds that were looked at, oldest first; those before ``below``."""
    return tuple(n for first, last in _index()["looked_at"] for n in range(first, min(last + 1, below)))


def oldest() -> int:
    """The oldest build that was looked at: the one that brought GGUF."""
    return int(_index()["looked_at"][0][0])


def newest() -> int:
    """The newest build that was looked at."""
    return int(_index()["looked_at"][-1][1])


def names(kind: str, build: int) -> frozenset[str]:
    """What a build has of one kind; of a build between two that were read, what both have."""
    return frozenset(name for name, runs in _runs(kind).items() if any(run.holds(build) for run in runs))


def default(option: str, build: int) -> str | None:
    """What a build takes for an option of llama-server that is not given, as its sources write it; None: not known."""
    begin = f"{option} "
    return next((name.removeprefix(begin) for name in names("default", build) if name.startswith(begin)), None)


def allowed(option: str, build: int) -> tuple[str, ...]:
    """Values that a build lists for an option of llama-server; empty where it lists none."""
    begin = f"{option} "
    return tuple(sorted(n.removeprefix(begin) for n in names("option_value", build) if n.startswith(begin)))


def intervals(kind: str) -> Mapping[str, Interval]:
    """Every name of one kind (`KINDS`), older ones first."""
    return _kind(kind)


def interval(kind: str, name: str) -> Interval | None:
    """Where one name is known; None: in no build that was looked at.

    Keys and tensors may be asked as they stand in a file: ``gemma3.block_count`` is found as ``%s.block_count``,
    ``blk.3.attn_q.weight`` as ``blk.%d.attn_q``.
    """
    rows = _rows(kind)
    spellings = _SPELLINGS[kind](name) if kind in _SPELLINGS else (name,)
    found = [_whole(rows[x]) for x in dict.fromkeys(spellings) if x in rows]
    if len(found) < 2:
        return found[0] if found else None
    # One name written in two ways, one after the other: ``clip.vision.block_count`` became ``clip.%s.block_count``.
    first = min(found, key=lambda x: x.since)
    end = max(found, key=lambda x: x.gone or sys.maxsize)
    return Interval(first.since, first.not_in, end.gone, end.last, first.evidence)


def _key(name: str) -> Iterator[str]:
    head, _, rest = name.partition(".")
    yield name
    yield f"%s.{rest}"
    yield f"{head}.%s.{rest.partition('.')[2]}"
    yield f"{head}.%s.{'.'.join(rest.split('.')[2:])}"
    yield f"{name.rpartition('.')[0]}.%s"


def _tensor(name: str) -> Iterator[str]:
    # By hand: three expressions that nobody else needs take longer to compile than all names of a model to spell.
    parts = name.split(".")
    parts[1:-1] = ["%d" if x and not x.strip("0123456789") else x for x in parts[1:-1]]
    plain = ".".join(parts)
    bare = next((plain.removesuffix(end) for end in _ENDS if plain.endswith(end)), plain)
    for text in (plain, bare, f"{bare}.%s"):
        yield text
        head, dot, rest = text.partition(".")
        yield f"%s.{rest}" if dot and head.isascii() and head.isalpha() and head.islower() else text


_ENDS = (".weight", ".bias", ".input_scale", ".scale")
_SPELLINGS: Mapping[str, Callable[[str], Iterable[str]]] = {"key": _key, "tensor_name": _tensor}


@cache
def _index() -> Any:
    return load("builds/builds.json")


@cache
def _runs(kind: str) -> Mapping[str, tuple[Interval, ...]]:
    """Every stretch of builds that has a name: one was taken out and brought back now and then."""
    return {name: _stretches(row) for name, row in _rows(kind).items()}


def _rows(kind: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = load(f"builds/{kind}.json")["names"]
    return found


def _stretches(row: Sequence[Any]) -> tuple[Interval, ...]:
    return tuple(_interval(*run) for run in (row if isinstance(row[0], list) else [row]))


def _whole(row: Sequence[Any]) -> Interval:
    """From the first build that has a name to the last."""
    runs = _stretches(row)
    return replace(runs[0], gone=runs[-1].gone, last=runs[-1].last) if len(runs) > 1 else runs[0]


def _interval(since: int, *rest: int | None) -> Interval:
    not_in, gone, last = [*rest, None, None][:3] if rest else (since - 1, None, None)
    return Interval(since, not_in, gone, last, "sources")


@cache
def _kind(kind: str) -> Mapping[str, Interval]:
    return {name: _whole(row) for name, row in _rows(kind).items()}
