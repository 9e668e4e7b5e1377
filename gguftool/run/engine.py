"""What will serve: a llama-server, or the server inside the xllamacpp wheel."""

from __future__ import annotations

import os
import sys

from gguftool import programs
from gguftool.brief import short_repr
from gguftool.errors import ToolFailed
from gguftool.programs import SERVER, Tool
from gguftool.records import dataclass
from gguftool.run.capabilities import Capabilities, capabilities, known
from gguftool.run.wishes import Wishes

NONE = "there is no llama-server and no xllamacpp on this machine"
TO_GET_ONE = "pip install 'gguftool[server]' brings llama.cpp as a library; a llama-server of yours: --llama-cpp PATH"


@dataclass(frozen=True, slots=True)
class Engine:
    """What will serve.

    Attributes:
        name: ``llama-server`` or ``library``.
        prefix: the words before the arguments.
        tool: the program, None for the library or when none was found.
        build: what it takes.
    """

    name: str
    prefix: tuple[str, ...]
    tool: Tool | None
    build: Capabilities

    __repr__ = short_repr


def no_engine() -> Engine:
    """For a command that is only printed: spelled as the build we know takes it."""
    return Engine(SERVER, (SERVER,), None, known())


def engine_of(build: int | str) -> Engine:
    """For a command that is only printed: spelled as that build takes it, ``b8179`` or its number.

    Raises:
        UsageError: it is no build of llama.cpp.
    """
    from gguftool.facts.timeline import build_number
    from gguftool.run.bybuild import of_build

    number = build if isinstance(build, int) else build_number(build)
    return Engine(SERVER, (SERVER,), None, of_build(number))


def library_engine() -> Engine:
    """The server inside the xllamacpp wheel."""
    from gguftool.run import embedded

    return Engine("library", (sys.executable, "-m", embedded.MODULE), None, embedded.capabilities())


def at_hand(engine: Engine) -> Engine:
    """The engine, when it can be started.

    Raises:
        ToolFailed: nothing was found: it spells commands for a llama-server elsewhere.
    """
    if engine.tool is None and engine.build.assumed:
        raise ToolFailed(NONE, TO_GET_ONE)
    return engine


def choose(wishes: Wishes, *, printed: bool = False) -> Engine:
    """The engine that was asked for, else the best at hand.

    Args:
        wishes: ``engine`` and ``server`` of them.
        printed: the command is only printed, and may be for a llama-server elsewhere.

    Raises:
        ToolFailed: what was asked for is not there.
    """
    choice = wishes.engine
    if choice != "library" and (found := programs.find(SERVER, wishes.server)):
        # Wherever the command is started from: a unit of systemd starts in /.
        return Engine(SERVER, (os.path.abspath(found.path),), found, capabilities(found))
    if choice != SERVER and not (printed and choice == "auto"):
        # Its table of options is made where it may serve.
        from gguftool.run import embedded

        if embedded.available():
            return library_engine()
    if choice == "library":
        raise ToolFailed("the package xllamacpp is not installed", "pip install 'gguftool[server]'")
    if choice == SERVER and not printed:
        raise ToolFailed(
            "there is no llama-server on this machine", "name one with --llama-cpp, or see: gguftool doctor"
        )
    return no_engine()
