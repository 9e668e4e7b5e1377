"""What llama.cpp does with a file, told from its header and size alone.

`predict` runs the checks in llama.cpp's own order, so that the first fault it names is the one llama.cpp names::

    file → architecture, splits → hyperparameters → vocabulary → tensors → data → context → first decode

Each stage is a module; what differs between architectures is data (`load_maps.json`), read by a small machine
(`gguftool/facts/machine/`). What the header cannot tell is said to be not evaluated, never guessed.

The package can be called: ``gguftool.predict("m.gguf")`` is `gguftool.api.models.predict`.
"""

from __future__ import annotations

from gguftool.door import also_function
from gguftool.predict.harm import Harm, harm, judge
from gguftool.predict.stages import predict
from gguftool.predict.survey import Survey, survey
from gguftool.predict.verdict import AfterLoad, Prediction

__all__ = ["AfterLoad", "Harm", "Prediction", "Survey", "harm", "judge", "predict", "survey"]

also_function(__name__)
