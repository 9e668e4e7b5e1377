"""The llama-server command that runs a memory plan."""

from __future__ import annotations

import os

from gguftool.run.args import masked, server_command
from gguftool.run.capabilities import Capabilities, known
from gguftool.run.wishes import Wishes


def planned_command(model: str, first: str, said: Wishes, build: Capabilities | None = None) -> list[str]:
    """Program and arguments, without its secrets.

    Args:
        model: the model as the user named it.
        first: path of its first file.
        said: everything the plan rests on.
        build: what the program takes; None: what the build does that our facts are from.
    """
    return masked(["llama-server", *_source(model, first), *server_command("", said, build or known()).args])


def _source(model: str, first: str) -> list[str]:
    """How llama-server gets the model: the file that was read, or by itself from where it was read."""
    from gguftool.hub import is_remote

    if not is_remote(model) or os.path.isfile(first):
        return ["-m", first]
    from gguftool.hub.address import HubAddress, WebAddress, parse
    from gguftool.hub.api import endpoint

    address = parse(model, endpoint())
    if isinstance(address, HubAddress) and address.revision == "main":
        label = f":{address.quant}" if address.quant else ""
        return ["-hf", f"{address.repo}{label}", *(["-hff", address.path] if address.path else [])]
    if isinstance(address, HubAddress):
        # llama-server takes no revision; the file has an address of its own.
        path = parse(first, endpoint()) if is_remote(first) else address
        inside = path.path if isinstance(path, HubAddress) else address.path
        return ["-mu", f"{endpoint()}/{address.repo}/resolve/{address.revision}/{inside}"]
    return ["-mu", address.url if isinstance(address, WebAddress) else model]
