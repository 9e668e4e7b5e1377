"""Who would measure a plan: the library inside the xllamacpp wheel, or `llama-fit-params`. Nothing is asked here."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from gguftool.errors import MissingFile
from gguftool.programs import SERVER, Tool, find, named

if TYPE_CHECKING:
    from gguftool.memory.plan import Planner
    from gguftool.run.deploy import Deployment

PACKAGE = "xllamacpp"
VERSION = "2026.10.11549"
"""The structures in `gguftool.run.abi` are those of this build (b11549), and are checked against its defaults."""
LIBRARY = f"llama.cpp library b11549 (xllamacpp {VERSION})"
FIT_PARAMS = "llama-fit-params"


def at_hand(d: Deployment, planner: Planner) -> str:
    """Who would measure this plan, for people; "": nobody is there to ask.

    Args:
        d: what is to be started.
        planner: the model on its machine.
    """
    if planner.machine.devices:
        tool = fit_params(d)
        return tool.path if tool is not None else ""
    try:
        tool = named(FIT_PARAMS, d.wishes.server)
    except MissingFile:
        return ""
    return tool.path if tool is not None else LIBRARY if available() else ""


def fit_params(d: Deployment) -> Tool | None:
    """The program that is named, found, or lies beside the llama-server that is."""
    tool = find(FIT_PARAMS, d.wishes.server, may_lack=True)
    server = find(SERVER, d.wishes.server, may_lack=True) if tool is None else None
    return find(FIT_PARAMS, os.path.dirname(server.path), may_lack=True) if server is not None else tool


def available() -> bool:
    """Whether the pinned library is installed. Nothing is imported."""
    # Beside the package, as wheels are laid; importlib.metadata takes a tenth of a plan's time.
    beside = f"{PACKAGE}-{VERSION}.dist-info"
    if not any(os.path.isdir(os.path.join(folder, beside)) for folder in sys.path):
        return False
    from importlib.util import find_spec

    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return False
    return os.path.isdir(os.path.join(os.path.dirname(os.path.dirname(spec.origin)), beside))
