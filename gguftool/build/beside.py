"""The projector that was made of the same folder as a model: not empty, loaded by llama.cpp, and of that model."""

from __future__ import annotations

import os

from gguftool.build.folder.look import Folder
from gguftool.build.runs import is_encoder
from gguftool.errors import ToolFailed
from gguftool.model import open_model
from gguftool.model.filename import holds, relabelled
from gguftool.predict.pairs import misfits

WITHOUT = "--no-mmproj makes the language model alone"


def judge(model: str, projector: str) -> tuple[str, ...]:
    """Hold a projector against its model, before either has its name.

    Returns:
        What does not stop llama.cpp, and the user should know.

    Raises:
        ToolFailed: llama.cpp would not take it.
    """
    with open_model(model, strict=False) as text, open_model(projector, strict=False) as side:
        found = misfits(text, side, given_as="mmproj")
    for misfit in found:
        if misfit.stops:
            raise ToolFailed(f"the projector that the converter made is of no use: {misfit.message}", WITHOUT)
    return tuple(f"the projector: {misfit.message}" for misfit in found)


def expected_name(output: str, folder: Folder, outtype: str) -> str:
    """Path of the projector beside ``output``, as far as it can be told before it is made."""
    label = {"f32": "F32", "f16": "F16", "bf16": "BF16"}.get(outtype)
    if label is None:
        # The converter keeps the type of the first matrix, and makes F16 of F32.
        own = (e.dtype for e in folder.tensors if is_encoder(e.name) and len(e.shape) > 1)
        label = "BF16" if next(own, folder.dtype) == "BF16" else "F16"
    return _beside(output, label)


def name(output: str, made: str) -> str:
    """Path of the projector beside ``output``: with ``mmproj-`` in front, as llama.cpp looks for it, and its type."""
    with open_model(made, strict=False) as side:
        own, most, _ = holds(side)
        return _beside(output, own or most)


def _beside(output: str, label: str) -> str:
    folder, base = os.path.split(output)
    return os.path.join(folder, f"mmproj-{relabelled(base, label)}.gguf")
