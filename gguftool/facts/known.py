"""Answers that are kept by name, without the names that strangers make up: those would stay for ever."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import cache, wraps
from typing import Any, TypeVar

from gguftool.facts.data import newest

T = TypeVar("T")


def by_known(names: Callable[[], Container[str]]) -> Callable[[Callable[[str], T]], Callable[[str], T]]:
    """`functools.cache` for a function of a name out of a file: what is not among ``names()`` is asked as ""."""

    def decorate(function: Callable[[str], T]) -> Callable[[str], T]:
        kept = cache(function)

        @wraps(function)
        def answer(name: str) -> T:
            return kept(name if name in names() else "")

        answer.cache_info = kept.cache_info  # type: ignore[attr-defined]
        return answer

    return decorate


def mapped() -> Mapping[str, Any]:
    """Architectures that llama.cpp has a loading function for."""
    found: Mapping[str, Any] = newest("load_maps.json")["arch"]
    return found
