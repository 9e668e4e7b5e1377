"""The llama-server command that runs a memory plan."""

from __future__ import annotations

from gguftool.run.args import masked, server_command
from gguftool.run.capabilities import known
from gguftool.run.wishes import Wishes


def planned_command(model: str, first: str, said: Wishes) -> list[str]:
    """Program and arguments, in the spelling of the build that our facts are from; without its secrets.

    Args:
        model: the model as the user named it.
        first: path of its first file.
        said: everything the plan rests on.
    """
    return masked(["llama-server", *_source(model, first), *server_command("", said, known()).args])


def _source(model: str, first: str) -> list[str]:
    """How llama-server gets the model: a path, or by itself from where it was read."""
    if model.startswith(("http://", "https://")):
        return ["-mu", model]
    if model.startswith("hf://"):
        owner, _, rest = model.removeprefix("hf://").partition("/")
        repository, _, file = rest.partition("/")
        return ["-hf", f"{owner}/{repository}", *(["-hff", file] if file else [])]
    return ["-m", first]
