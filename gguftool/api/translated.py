"""Commands out of articles as ones that work here: translated, then held against what `launch` would refuse."""

from __future__ import annotations

import os

from gguftool import programs
from gguftool.api.launch import plan_launch
from gguftool.errors import GgufToolError
from gguftool.records import replace
from gguftool.run.args import MODEL
from gguftool.run.engine import Engine, choose, engine_of
from gguftool.run.options.behind import planned_words
from gguftool.run.translate import translate as translated
from gguftool.run.translate import translate_script as translated_script
from gguftool.run.translation.result import Part, Script, Translation
from gguftool.run.translation.server import ENDS
from gguftool.run.translation.words import POSIX
from gguftool.run.wishes import Wishes
from gguftool.shell import Expands

OF_THIS_MACHINE = ("room", "network", "context")
"""Obstacles of `launch` that do not keep a server from starting."""


def translate(command: str, *, server: str | None = None, build: str | int | None = None) -> Translation:
    """A command out of an article as one that works with the llama-server at hand.

    Args:
        command: what the article says, backslashes at line ends and all.
        server: llama-server or folder of llama.cpp to spell it for; None: the one found, else the build we know.
        build: number of the build to spell it for, in place of a program.

    Raises:
        UsageError: it is no command, or one of a program that is not llama.cpp's; or there are several.
    """
    engine = _engine(server, build)
    made = translated(command, engine.build, lambda name: installed(name, server) if build is None else None)
    return checked(made, engine)


def translate_script(text: str, *, server: str | None = None, build: str | int | None = None) -> Script:
    """The same for a text with several commands: each is translated, checked, answered or kept.

    Args:
        text: the lines of an article or a script, for a POSIX shell, cmd.exe or PowerShell.
        server: as in `translate`.
        build: as in `translate`.

    Raises:
        UsageError: no shell could read it, or nothing in it has anything to do with models.
    """
    engine = _engine(server, build)
    script = translated_script(text, engine.build, lambda name: installed(name, server) if build is None else None)
    return replace(script, parts=tuple(_part(part, engine) for part in script.parts))


def _engine(server: str | None, build: str | int | None) -> Engine:
    if build is None:
        return choose(Wishes(server=server), printed=True)
    return engine_of(build)


def installed(name: str, llama_cpp: str | None = None) -> str | None:
    """Path of a program of llama.cpp by name, None when there is none."""
    tool = programs.find(name, llama_cpp, may_lack=True)
    return tool.path if tool else None


def _part(part: Part, engine: Engine) -> Part:
    return checked(part, engine) if isinstance(part, Translation) else part


def checked(t: Translation, engine: Engine) -> Translation:
    """The translation with the reasons why it would not start, where its model is here to tell."""
    if t.program != programs.SERVER or t.dialect != POSIX or t.environment:
        return t
    args = list(t.args)
    at = next((i for i, word in enumerate(args[:-1]) if word in MODEL), None)
    if at is None or any(isinstance(word, Expands) for word in args) or set(args) & ENDS:
        return t
    model = args[at + 1]
    if not os.path.isfile(model):
        return t
    del args[at : at + 2]
    # What stands for another model, or overturns a plan, is a reason against a plan, not against a start.
    try:
        plan = plan_launch(model, Wishes(extra=planned_words(args)), engine=engine)
    except GgufToolError as error:
        return replace(t, stops=(f"{error}",))
    found = (o.message for o in plan.obstacles if o.severity == "error" and o.where not in OF_THIS_MACHINE)
    return replace(t, stops=tuple(found))
