"""Rules over one model: findings, with fixes as data, and what llama.cpp would do when it loads the file.

The package can be called: ``gguftool.lint("model.gguf", context_length=32768)`` is `gguftool.lint.call.lint`.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any


class _Callable(ModuleType):
    """A package that is also the function named like it."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from gguftool.lint.call import lint

        return lint(*args, **kwargs)


sys.modules[__name__].__class__ = _Callable
