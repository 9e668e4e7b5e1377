"""The options that name a llama.cpp: a build, a program, a version of a package."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gguftool.cli.spelled import option

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.run.target import Target

F = TypeVar("F", bound=Callable[..., Any])


def build_options(function: F) -> F:
    """``--build``, ``--llama-cpp`` and ``--llama-cpp-python``."""
    for decorate in (
        option("--llama-cpp-python", metavar="VERSION", help="Judge by the llama.cpp inside that package."),
        option(
            "--llama-cpp",
            aliases=("--server",),
            metavar="PATH",
            help="Judge by this llama.cpp: its folder, or a program of it; or --server.",
        ),
        option("--build", metavar="BUILD", help="Judge by that build of llama.cpp: b8179."),
    ):
        function = decorate(function)
    return function


def asked(session: Session, build: str | None, llama_cpp: str | None, llama_cpp_python: str | None) -> Target | None:
    """The llama.cpp that these options name; what is to be known of it is told."""
    if build is None and llama_cpp is None and llama_cpp_python is None:
        return None
    from gguftool.report.text import safe
    from gguftool.run.target import target

    found = target(build, llama_cpp, llama_cpp_python)
    for text in found.notes if found is not None else ():
        session.note(f"note: {safe(text)}")
    return found
