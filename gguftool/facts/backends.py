"""What the backends of ggml can do, by llama.cpp's own word (`ggml/src/*: get_props`)."""

from __future__ import annotations

from functools import cache

from gguftool.facts.data import load
from gguftool.records import dataclass

COPIES: int = load("backends.json")["copies"]
"""`GGML_SCHED_MAX_COPIES`: how often the inputs of a graph exist when several devices work in a pipeline."""
OTHER_NAMES = {"rocm": "hip"}
"""What we call a backend, and the folder of its source."""


@dataclass(frozen=True, slots=True)
class Backend:
    """What a build of it can do unless it was built or started otherwise.

    Attributes:
        pipelines: works asynchronously and has events, so that several such devices make a pipeline.
        pinned_host: has a kind of host memory of its own, pinned for it.
        offloads: does the large batches of what lies on the host.
        pads_rows: quantised tensors get room for one row rounded up to 512 elements.
    """

    pipelines: bool
    pinned_host: bool
    offloads: bool
    pads_rows: bool


@cache
def backend(kind: str) -> Backend:
    """The backend of that name; one that is not known counts as CUDA."""
    every = load("backends.json")["backends"]
    row = every.get(OTHER_NAMES.get(kind, kind)) or every["cuda"]
    return Backend(row["async"] and row["events"], row["host_buffer"], row["offload"], row["pads_rows"])
