"""How much memory a model takes, and with which settings it fits.

Sizes of KV caches and states are exact; weights are exact by tensor and device; compute buffers are estimated unless
they were measured. Nothing here opens a file or starts a program.

The package can be called: ``gguftool.memory(model, context=32768, cache_type=("q8_0", "q8_0"))`` is
`gguftool.memory.plan.memory`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that is also the function named like it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gguftool.memory.plan import memory

        return memory(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
