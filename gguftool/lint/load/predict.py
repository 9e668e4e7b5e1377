"""The stages in llama.cpp's order."""

from __future__ import annotations

from gguftool.errors import FormatError
from gguftool.lint.load.file import check_bounds, check_file
from gguftool.lint.load.verdict import UNKNOWN, LoadEnds, LoadPrediction
from gguftool.model import Model, from_source
from gguftool.source import Source


def predict(model: Model) -> LoadPrediction:
    """What llama.cpp b11434 does with a model.

    Args:
        model: opened with ``strict=False``, so that faults are seen rather than raised.
    """
    stage = "file"
    try:
        check_file(model.parts[0])
        stage = "data"
        check_bounds(model.parts[0])
    except LoadEnds as end:
        not_evaluated = (end.messages[0],) if end.verdict == UNKNOWN else ()
        messages = () if end.verdict == UNKNOWN else end.messages
        return LoadPrediction(end.verdict, stage, messages, (), end.where, None, not_evaluated, end.data)
    return LoadPrediction(UNKNOWN, stage, not_evaluated=("stages after the file are not evaluated",))


def predict_source(source: Source) -> LoadPrediction:
    """`predict` for bytes that may not even be GGUF."""
    try:
        model = from_source(source, strict=False)
    except FormatError:
        from gguftool.lint.load.walk import walk

        try:
            walk(source, source.name)
        except LoadEnds as end:
            return LoadPrediction(end.verdict, "file", end.messages, (), end.where)
        return LoadPrediction(UNKNOWN, "file", not_evaluated=("not readable as GGUF here",))
    return predict(model)
