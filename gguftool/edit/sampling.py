"""Sampler settings that a person types, as operations."""

from __future__ import annotations

import math

from gguftool.edit.ops import Operation, Set
from gguftool.edit.schema import key_types
from gguftool.errors import UsageError
from gguftool.format.values import parse_text
from gguftool.near import near_names

_SAMPLING = "general.sampling."
SAMPLING: dict[str, tuple[float | None, float | None]] = {
    "temp": (0, None), "top_k": (0, None), "top_p": (0, 1), "min_p": (0, 1), "xtc_probability": (0, 1),
    "xtc_threshold": (0, 1), "penalty_last_n": (-1, None), "penalty_repeat": (0, None), "mirostat": (0, 2),
    "mirostat_tau": (0, None), "mirostat_eta": (0, None), "sequence": (None, None),
}  # fmt: skip
"""Sampler settings and the bounds that llama.cpp's samplers make sense in; None: no bound."""
_ALIASES = {"temperature": "temp", "repeat_penalty": "penalty_repeat", "repeat_last_n": "penalty_last_n"}


def sampling_operations(text: str) -> list[Operation]:
    """``temp=0.3,top_k=40`` as operations on `general.sampling.*`, which llama.cpp takes where no flag is given."""
    out: list[Operation] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        name, equals, value = part.partition("=")
        name = name.strip().lower().replace("-", "_")
        name = _ALIASES.get(name, name)
        if name not in SAMPLING or not equals:
            near = near_names(name, SAMPLING, 1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise UsageError(f"--sampling {part}: unknown setting", f"{hint}settings: {', '.join(SAMPLING)}")
        key = _SAMPLING + name
        (kind,) = key_types(key, "")
        number = parse_text(kind, value.strip(), f"--sampling {name}")
        low, high = SAMPLING[name]
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            bad = (
                not math.isfinite(number) or (low is not None and number < low) or (high is not None and number > high)
            )
            if bad:
                bounds = f"from {low} to {high}" if high is not None else f"{low} or more"
                raise UsageError(f"--sampling {name}={value}: must be {bounds}")
        out.append(Set(key, number, kind))
    if not out:
        raise UsageError("--sampling: name at least one setting", "for example --sampling temp=0.3,top_k=40")
    return out
