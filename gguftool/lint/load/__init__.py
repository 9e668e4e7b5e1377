"""What llama.cpp b11434 does with a file, told from its header and size alone.

`predict` runs the checks in llama.cpp's own order, so that the first fault it names is the one llama.cpp names::

    file → architecture, splits → hyperparameters → vocabulary → tensors → data → context → first decode

Each stage is a module; what differs between architectures is data (`gguftool/data/load_maps.json`), read by a small
evaluator (`program.py`). What the header cannot tell is said to be not evaluated, never guessed.
"""

from __future__ import annotations

from gguftool.lint.load.predict import predict, predict_source
from gguftool.lint.load.survey import Survey, survey
from gguftool.lint.load.verdict import BUILD, AfterLoad, LoadPrediction

__all__ = ["BUILD", "AfterLoad", "LoadPrediction", "Survey", "predict", "predict_source", "survey"]
