"""One run of a scenario with failures, the promise checked at every step: loadable means exactly old or exactly new."""

from __future__ import annotations

import random
from typing import Any

from gguftool.edit.recover import recover
from gguftool.errors import GgufToolError, InterruptedEdit
from tests.edit.oslayers import Crashed
from tests.edit.powerdisk import PowerOs
from tests.edit.scenarios import NAME, Prepared

PATH = f"/disk/{NAME}"


class Broken(AssertionError):
    """The promise does not hold."""


def power_run(
    prepared: Prepared, seed: int, *, garble: bool = False, skip: frozenset[str] = frozenset(), faulty: bool = False
) -> PowerOs:
    """Run a scenario on the model of a disk, with one to four failures on the way, and check the promise.

    ``faulty``: a sync fails somewhere on the way, sometimes a second one, and nothing else need happen.

    Raises:
        Broken: the file was loadable and neither old nor new, or the end is neither, or a reported edit was lost.
    """
    rng = random.Random(seed ^ 0x5EED)
    layer = PowerOs(seed, garble=garble, skip=skip, faulty=rng.randint(0, 7) if faulty else None)
    for name, data in prepared.files.items():
        layer.load(f"/disk/{name}", data, sparse=prepared.sparse and name == NAME)
    valid = (prepared.old, prepared.new)

    def check(where: str) -> None:
        data = layer.content(PATH)
        if data is None:
            raise Broken(f"{where}: the file is gone")
        if data[:4] == b"GGUF" and data not in valid:
            raise Broken(f"{where}: loadable, but neither old nor new")

    layer.watch = lambda: check("while running")
    layer.left = rng.randint(0, 30) if not faulty or rng.random() < 0.3 else None
    reported = False
    try:
        prepared.run(PATH, layer)
        reported = True
    except (Crashed, GgufToolError):
        pass
    _fail(layer, rng, check)
    if reported and layer.content(PATH) != prepared.new:
        raise Broken("an edit that was reported done is lost")
    for _ in range(rng.randint(0, 3)):
        layer.left = rng.randint(0, 14) if not faulty or rng.random() < 0.5 else None
        if faulty and rng.random() < 0.5:
            layer.faulty = rng.randint(0, 5)
        try:
            recover(PATH, layer)  # type: ignore[arg-type]
        except (Crashed, InterruptedEdit):
            pass
        _fail(layer, rng, check)
    layer.left = layer.faulty = None
    recover(PATH, layer)  # type: ignore[arg-type]
    end = layer.content(PATH)
    if end not in valid:
        raise Broken("after recovery: neither old nor new")
    if reported and end != prepared.new:
        raise Broken("recovery took back an edit that was reported done")
    # What recovery reported must survive one more power failure.
    layer.reboot()
    recover(PATH, layer)  # type: ignore[arg-type]
    if layer.content(PATH) != end:
        raise Broken("what recovery reported did not last")
    left = {name for name in layer.names if name.endswith(("-journal", ".gguftool-part"))}
    if left:
        raise Broken(f"left behind: {left}")
    return layer


def _fail(layer: PowerOs, rng: random.Random, check: Any) -> None:
    """The process dies; often the power fails as well, at once or a little later."""
    layer.die()
    check("after the process died")
    if rng.random() < (0.4 if layer.lost else 0.75):
        layer.reboot()
        check("after the power came back")
