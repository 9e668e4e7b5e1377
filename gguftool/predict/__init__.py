"""What llama.cpp does with a file, told from its header and size alone.

`predict` runs the checks in llama.cpp's own order, so that the first fault it names is the one llama.cpp names::

    file → architecture, splits → hyperparameters → vocabulary → tensors → data → context → first decode

Each stage is a module; what differs between architectures is data (`load_maps.json`), read by a small machine
(`gguftool/facts/machine/`). What the header cannot tell is said to be not evaluated, never guessed. Names are loaded on
first use: most edits need none of it (`idle.py`).

The package can be called: ``gguftool.predict("m.gguf")`` is `gguftool.api.models.predict`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.door import also_function, inner

if TYPE_CHECKING:
    from gguftool.predict.solver import Solution, solve
    from gguftool.predict.stages import predict
    from gguftool.predict.surveyed import Survey, survey
    from gguftool.predict.verdict import AfterLoad, Prediction
    from gguftool.predict.worse import Harm, harm, judge, setback

__all__ = [
    "AfterLoad",
    "Harm",
    "Prediction",
    "Solution",
    "Survey",
    "harm",
    "judge",
    "predict",
    "setback",
    "solve",
    "survey",
]
_HOMES = {
    "predict": "stages",
    "Solution": "solver",
    "solve": "solver",
    "Survey": "surveyed",
    "survey": "surveyed",
    "AfterLoad": "verdict",
    "Prediction": "verdict",
    "Harm": "worse",
    "harm": "worse",
    "judge": "worse",
    "setback": "worse",
}


__getattr__ = inner(__name__, _HOMES)


also_function(__name__)
