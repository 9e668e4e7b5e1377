"""Turn a command out of an article into one that the build at hand takes; say what each wrong flag was meant to be."""

from __future__ import annotations

from collections.abc import Callable

from gguftool.errors import UsageError
from gguftool.run.capabilities import Capabilities
from gguftool.run.translation.judge import judge
from gguftool.run.translation.result import Answer, Script, Translation
from gguftool.run.translation.windows import read

Find = Callable[[str], str | None]


def translate_script(text: str, build: Capabilities, find: Find = lambda _: None) -> Script:
    """What becomes of each command of a text.

    Args:
        text: one command or several, as an article or a script has them: comments, continued lines, pipes and all.
        build: what the llama-server at hand takes.
        find: path of a program by name, None when it is not installed.

    Raises:
        UsageError: it is no command (unbalanced quotes, empty), or nothing in it has anything to do with models.
    """
    script = judge(read(text), build, find)
    if not any(isinstance(part, Translation | Answer) for part in script.parts):
        raise UsageError("there is no command to translate")
    if not script.text:
        refused = next(part for part in script.parts if isinstance(part, Answer))
        raise UsageError(f"{refused.name} is no program of llama.cpp: {refused.why}", refused.way)
    return script


def translate(command: str, build: Capabilities, find: Find = lambda _: None) -> Translation:
    """The one command of llama.cpp in a text, for this build.

    Args:
        command: what the article says, backslashes at line ends and all.
        build: what the llama-server at hand takes.
        find: path of a program by name, None when it is not installed.

    Raises:
        UsageError: there is none, or more than one.
    """
    script = translate_script(command, build, find)
    found = [part for part in script.parts if isinstance(part, Translation)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"there are {len(found)} commands", "`gguftool launch --translate` says each")
    told = next(part for part in script.parts if isinstance(part, Answer))
    raise UsageError(f"{told.name} is no program of llama.cpp: {told.why}", told.line or told.way)
