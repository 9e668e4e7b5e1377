"""Does a model know what every language model knows? With whatever of llama.cpp is at hand."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gguftool.api.launch import plan_launch
from gguftool.errors import GgufToolError
from gguftool.files.small import scratch_folder
from gguftool.hub import file_of, opened
from gguftool.model.embedder import DECIDES, embedder
from gguftool.run.engine import at_hand, choose
from gguftool.run.known import BROKEN, UNJUDGED, Known
from gguftool.run.kvtest import kv_test
from gguftool.run.measurer import available
from gguftool.run.serve import prove, serving
from gguftool.run.wishes import Wishes

if TYPE_CHECKING:
    from gguftool.model import Model

CONTEXT = 1536
"""Tokens that the long text, and conversations of the longest templates, find room in."""
READ = 256
"""Tokens of the packaged text that the library reads; the second half is scored."""


def known_text(
    model: Model | str | os.PathLike[str],
    *,
    llama_cpp: str | None = None,
    text_only: bool = False,
    timeout: float = 600.0,
) -> Known:
    """Whether a model knows a well-known text and well-known words; never raises for what the model does.

    Args:
        model: a path, an address, or an open model.
        llama_cpp: folder or program of llama.cpp to use; None: what is found, else the library.
        text_only: the text is enough, where the library can score it.
        timeout: seconds for loading it.

    Returns:
        The verdict; ``unjudged`` with the reason where nothing could be scored.
    """
    file = file_of(model)
    with opened(file) as m:
        e = embedder(m)
        if e is not None and e.sure and e.kind != DECIDES:
            return Known(UNJUDGED, "it gives embeddings, it does not write")
        path = m.name
    try:
        if text_only and llama_cpp is None and available():
            return kv_test(path, (), tokens=READ, chunk=READ, engine="library", timeout=timeout).reference
        return _served(path, llama_cpp, timeout)
    except GgufToolError as error:
        return Known(UNJUDGED, f"it did not run: {error}" + (f" ({error.hint})" if error.hint else ""))


def _served(path: str, llama_cpp: str | None, timeout: float) -> Known:
    wishes = Wishes(ctx=CONTEXT, parallel=1, port=0, server=llama_cpp, smoke=True)
    plan = plan_launch(path, wishes, engine=at_hand(choose(wishes)), check=False)
    stops = [o for o in plan.obstacles if o.severity == "error" or o.where == "room"]
    if stops:
        return Known(UNJUDGED, f"it was not started: {stops[0].message}")
    with scratch_folder() as folder, serving(plan, os.path.join(folder, "log")) as running:
        outcome = prove(running, plan, seconds=timeout, with_smoke=True)
    if outcome.smoke is None:
        error = outcome.judged.error
        return Known(UNJUDGED, f"it did not start: {error.cause if error else outcome.ended or 'not ready in time'}")
    tested = outcome.smoke
    if tested.known is not None:
        return tested.known
    verdict = UNJUDGED if tested.ok is None else BROKEN
    return Known(verdict, tested.why)
