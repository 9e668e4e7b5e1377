"""What models would say next, position by position, against what the first of them says: the one home of that.

`kv-test` reads with one model over several caches, `quant-test` and `mix` with several models: Kullback-Leibler
divergence, perplexity, how often the first choice is the same, and how the probability of the truth changes. The real
library does the work in a child process (`gguftool.run.divergencechild`), or the program ``llama-perplexity``
(`gguftool.run.perplexity`). Statistics are those of `perplexity.cpp:kl_divergence` (b11434).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.errors import ToolFailed, UsageError
from gguftool.facts import data
from gguftool.processors import processors
from gguftool.programs import Tool, find, named
from gguftool.records import dataclass
from gguftool.run import perplexity
from gguftool.run.child import converse
from gguftool.run.known import UNJUDGED, Known, Subject, of_perplexity
from gguftool.run.measurer import PACKAGE, VERSION, available

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CHILD = "gguftool.run.divergencechild"
ENGINES = ("auto", "library", perplexity.PROGRAM)
LIBRARY = f"{PACKAGE} {VERSION}"
OWN_TEXT = "Alice's Adventures in Wonderland"
"""What the packaged text is from."""
FEWEST = 16
"""Tokens of a chunk at least."""

GRADES = ((0.01, 1.005, "next to no loss"), (0.03, 1.02, "a slight loss"), (0.1, 1.06, "a noticeable loss"))
"""Mean divergence up to (nats), perplexity against the reference up to, and what to call it."""
WORST = "a severe loss"
UNREAD = Known(UNJUDGED, "no text was read of which it is known what a model makes of it")
SURE = 2.0
"""Standard errors that a difference must have to be called one."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A model that reads: its file (the first of a set), and the types of its cache."""

    path: str
    type_k: str = "f16"
    type_v: str = "f16"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one reader came to, against the first.

    Attributes:
        reader: which.
        refused: why llama.cpp does not take it, "" when it does; then the rest is 0.
        cache_bytes: bytes llama.cpp allocated for cache and state.
        perplexity, perplexity_error: of the second halves of the chunks, and its standard error.
        perplexity_ratio, ratio_error: divided by that of the first, and the standard error of its logarithm.
        divergence, divergence_error: mean Kullback-Leibler divergence from the first in nats, its standard error.
        median, divergence_high, highest, largest: of the divergence: median, 99 and 99.9 of 100, maximum.
        same_first, same_error: share of positions where the most likely token is the same.
        change, change_error: mean change of the probability of the token that follows, from -1 to 1.
        change_rms, rms_error: root of the mean square of that change.
        prompt_speed, write_speed: tokens a second, reading and writing.
        surprises, divergences: position by position, nats; empty where the program measured.
    """

    reader: Reader
    refused: str = ""
    cache_bytes: int = 0
    perplexity: float = 0.0
    perplexity_error: float = 0.0
    perplexity_ratio: float = 1.0
    ratio_error: float = 0.0
    divergence: float = 0.0
    divergence_error: float = 0.0
    median: float = 0.0
    divergence_high: float = 0.0
    highest: float = 0.0
    largest: float = 0.0
    same_first: float = 0.0
    same_error: float = 0.0
    change: float = 0.0
    change_error: float = 0.0
    change_rms: float = 0.0
    rms_error: float = 0.0
    prompt_speed: float = 0.0
    write_speed: float = 0.0
    surprises: tuple[float, ...] = ()
    divergences: tuple[float, ...] = ()

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Compared:
    """A measurement.

    Attributes:
        outcomes: one a reader, in their order.
        tokens: tokens read by each.
        compared: positions that were compared.
        engine: what computed.
    """

    outcomes: tuple[Outcome, ...]
    tokens: int
    compared: int
    engine: str

    __repr__ = short_repr


def divergence(
    readers: Sequence[Reader],
    *,
    text: str | None = None,
    tokens: int = 512,
    chunk: int = 512,
    threads: int | None = None,
    timeout: float = 3600.0,
    engine: str = "auto",
    llama_cpp: str | None = None,
    write: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Compared:
    """Let all read the same text and compare each with the first.

    All models are in memory at once; whether they fit is for the caller to know.

    Args:
        readers: the reference first.
        text: path of a text; None: the packaged one, `OWN_TEXT`.
        tokens: how many tokens to read; whole chunks are.
        chunk: tokens of a chunk; the second half of each is compared.
        threads: threads to compute with; None: all cores.
        timeout: seconds for all of it (for each reader with the program).
        engine: one of `ENGINES`; ``auto``: the program of a llama.cpp that somebody named, else the library where it
            is installed.
        llama_cpp: folder or program of llama.cpp to use; None: as `gguftool.programs.find` does.
        write: measure the speed of writing, too (the library only).
        tell: called with a line about progress.

    Raises:
        UsageError: the text is too short, the models cut it in different ways, or the sizes make no sense.
        ToolFailed: there is neither library nor program, it does not load a model, or it ended.
    """
    program = program_of(engine, llama_cpp)
    if program is None and (engine == perplexity.PROGRAM or not available()):
        what = LIBRARY if engine == "library" else f"{LIBRARY} or {perplexity.PROGRAM}"
        raise ToolFailed(f"this needs {what}, which is not installed", "pip install 'gguftool[server]'")
    if chunk < FEWEST or tokens < chunk:
        raise UsageError(f"{tokens} tokens in chunks of {chunk}: at least one chunk of {FEWEST} tokens is needed")
    request: dict[str, Any] = {
        "readers": [(os.path.abspath(r.path), r.type_k, r.type_v) for r in readers],
        "text": os.path.abspath(text or data.path("alice.txt")),
        "tokens": tokens,
        "chunk": chunk,
        "threads": threads or processors(),
        "write": write,
    }
    answer = (
        perplexity.measure(program, request, timeout, tell)
        if program
        else converse(CHILD, request, lambda note: tell(str(note)), timeout)
    )
    rows: list[Mapping[str, Any]] = answer["results"]
    outcomes = tuple(_outcome(r, row, rows[0]) for r, row in zip(readers, rows, strict=True))
    compared = answer["tokens"] // chunk * max(0, chunk - chunk // 2 - 1)
    return Compared(outcomes, answer["tokens"], compared, program.path if program else LIBRARY)


def program_of(engine: str, llama_cpp: str | None) -> Tool | None:
    """The program that shall compute, None for the library.

    Args:
        engine: one of `ENGINES`.
        llama_cpp: see `divergence`.
    """
    if engine == "library":
        return None
    if engine == "auto" and (chosen := named(perplexity.PROGRAM, llama_cpp)):
        return chosen
    return None if engine == "auto" and available() else find(perplexity.PROGRAM, llama_cpp)


def _outcome(reader: Reader, row: Mapping[str, Any], base: Mapping[str, Any]) -> Outcome:
    """The row as it is, or what its positions come to."""
    if "surprises" not in row:
        return Outcome(reader, **row)
    import numpy as np

    own, first = np.array(row["surprises"]), np.array(base["surprises"])
    apart, same = np.array(row["divergences"]), np.array(row["same"], dtype=np.float64)
    change = np.exp(-own) - np.exp(-first)
    squares = float(np.mean(change**2))
    share = float(same.mean())
    median, high, highest = (float(x) for x in np.quantile(apart, (0.5, 0.99, 0.999)))
    ppl = _exp(float(own.mean()))
    return Outcome(
        reader,
        cache_bytes=row["cache_bytes"],
        perplexity=ppl,
        perplexity_error=ppl * _error_of_mean(own),
        perplexity_ratio=_exp(float((own - first).mean())),
        ratio_error=_error_of_mean(own - first),
        divergence=float(apart.mean()),
        divergence_error=_error_of_mean(apart),
        median=median,
        divergence_high=high,
        highest=highest,
        largest=float(apart.max()),
        same_first=share,
        same_error=math.sqrt(share * (1 - share) / max(1, len(same) - 1)),
        change=float(change.mean()),
        change_error=_error_of_mean(change),
        change_rms=math.sqrt(squares),
        rms_error=0.5 / math.sqrt(squares) * _error_of_mean(change**2) if squares > 0 else 0.0,
        prompt_speed=row["prompt_speed"],
        write_speed=row["write_speed"],
        surprises=tuple(row["surprises"]),
        divergences=tuple(row["divergences"]),
    )


def _exp(x: float) -> float:
    return math.exp(max(-700.0, min(x, 700.0)))


def _error_of_mean(x: Floats) -> float:
    return float(x.std(ddof=1) / math.sqrt(len(x))) if len(x) > 1 else 0.0


def grade(divergence: float, ratio: float, ratio_error: float) -> str:
    """What a mean divergence and a ratio of perplexities mean; of the latter what is surely above the noise."""
    sure = ratio / math.exp(SURE * ratio_error)
    return next((name for most, more, name in GRADES if divergence <= most and sure <= more), WORST)


def soundness(found: Compared, about: Subject, text: str | None) -> Known:
    """Whether the first is sound; of another text nobody knows what it should be, only that it must be a number.

    Args:
        found: what was measured.
        about: what is known of the first.
        text: what was read; None: the packaged text.
    """
    read = found.outcomes[0].perplexity
    if text is not None and math.isfinite(read):
        return UNREAD
    return of_perplexity(read, about, found.compared)


def apart(a: Outcome, b: Outcome) -> tuple[float, float]:
    """How much more the second diverges than the first, in nats, and the standard error of that.

    Where positions are known, each is compared with itself: both read the same words, so that says far more than the
    errors of the two means. Else those are added.
    """
    if not a.divergences or len(a.divergences) != len(b.divergences):
        return b.divergence - a.divergence, math.hypot(a.divergence_error, b.divergence_error)
    import numpy as np

    more = np.array(b.divergences) - np.array(a.divergences)
    return float(more.mean()), _error_of_mean(more)
