"""A file beside a model, judged for an older build: names by the timeline, the rest by the newest build.

What llama.cpp asks of projectors, adapters, control vectors and importance matrices is known of the newest build alone;
since when a build knows the type of a projector, or reads such a file as GGUF at all, of every build.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gguftool.facts import NUMBER, llama_cpp, timeline
from gguftool.facts.editions import builds, reading
from gguftool.model import Model
from gguftool.predict.byname import edition, span
from gguftool.predict.needs import ARCH, KEY, PROJECTOR, SIDE, TYPE, Need, needs
from gguftool.predict.verdict import REFUSED, UNKNOWN, Prediction
from gguftool.records import replace

_WORDED = 5308
"""From this build on, at the latest, an unknown type is told in today's words (`clip.cpp`)."""
_KNOWN = {
    "mmproj": "the type of the projector",
    "adapter": "the architecture of the adapter",
    "control-vector": "that it reads control vectors",
    "imatrix": "that it reads importance matrices in GGUF",
}
"""What is known of the build that is asked."""


def side(model: Model, own: str, build: int, newest: Callable[[], Prediction]) -> Prediction:
    """What a build does with a file beside a model.

    Args:
        model: the file.
        own: the role it is used in, a key of `stages.OTHERS`.
        build: number of the build, older than the newest.
        newest: what the newest does with it.

    Returns:
        The prediction; its ``build`` is the newest where that one's checks were run, None where names alone decided.
    """
    for n in needs(model):
        there = n.there(build)
        if there is None:
            return _open(n.where, f"whether {llama_cpp(build)} knows {n.what} is not known: {span(n)}")
        if not there and n.kind in (PROJECTOR, SIDE):
            lines = _lines(n, build, model)
            lacks = () if lines else (f"it does not know {n.what}",)
            return Prediction(REFUSED, "hyperparameters", lines, where=n.where, not_evaluated=lacks, build=None)
        if not there and n.kind not in (TYPE, ARCH):
            return _open(n.where, f"{llama_cpp(build)} does not know {n.what}")
    if own == "mmproj":
        for key in _unread(model, build):
            return _open(f"field:{key}", f"{llama_cpp(build)} does not read {key}: what it takes instead is not known")
    stored, why = edition(model, build, builds())
    if stored is None or why:
        return _open("file", why or f"what {llama_cpp(build)} does with it: no code of that age is stored")
    # Tensor types and architectures are those of the build: the newest checks ask for them.
    with reading(stored):
        found = newest()
    if found.stage == "file" and found.ends:
        return replace(found, build=stored)
    why = f"of {llama_cpp(build)} only {_KNOWN[own]} is known"
    return replace(found, build=NUMBER, not_evaluated=(*found.not_evaluated, why))


def _unread(model: Model, build: int) -> Iterator[str]:
    """Keys that say what a projector is, and that a build does not look at yet."""
    from gguftool.facts.machine.clip import ENCODERS
    from gguftool.model.projector import named_type

    for modality, (has, _) in ENCODERS.items():
        if model.get(has) is True:
            for key in (has, named_type(model, modality)[1]):
                known = timeline.interval(KEY, key)
                if known is not None and known.holds(build) is False:
                    yield key


def _lines(n: Need, build: int, model: Model) -> tuple[str, ...]:
    """The first line, where the words of that age are known."""
    if n.kind != PROJECTOR or build < _WORDED:
        return ()
    return (f"clip_init: failed to load model '{model.name}': load_hparams: unknown projector type: {n.name}",)


def _open(where: str, why: str) -> Prediction:
    return Prediction(UNKNOWN, "file", where=where, not_evaluated=(why,), build=None)
