"""The machine, what is installed on it, and whether a model has room: what ``gguftool doctor`` shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.api.upgrade import Upgrade, upgrade
from gguftool.brief import short_repr
from gguftool.build.survey import Found, survey
from gguftool.facts.timeline import build_number
from gguftool.hub import opened
from gguftool.hub.stores import stores
from gguftool.programs import SERVER, find
from gguftool.records import dataclass
from gguftool.run.bybuild import of_build
from gguftool.run.devices import devices, host_memory
from gguftool.run.doctor import Examination, examine
from gguftool.run.launch import LaunchPlan, plan_launch
from gguftool.run.wishes import Wishes

if TYPE_CHECKING:
    from gguftool.model import Model


@dataclass(frozen=True, slots=True)
class Health:
    """What `doctor` found.

    Attributes:
        examination: programs, devices, memory, model caches, known traps.
        builders: what converts and quantises.
        upgrade: the llama-server at hand among all builds: its age, what it cannot load, what changes for commands.
        plan: how the model would be launched here; None when none was named.
    """

    examination: Examination
    builders: tuple[Found, ...]
    upgrade: Upgrade
    plan: LaunchPlan | None = None

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """False when the model named has no room, or a newer build would break a saved command."""
        return self.upgrade.ok and (self.plan is None or self.plan.memory.fits is not False)


def doctor(
    model: Model | str | os.PathLike[str] | None = None,
    *,
    llama_cpp: str | None = None,
    commands: Sequence[str] = (),
    build: str | int | None = None,
) -> Health:
    """Look at the machine; starts programs with ``--help``, ``--version`` and ``--list-devices`` only.

    Args:
        model: a path, an address or an open model, to be planned for this machine.
        llama_cpp: folder or program of llama.cpp to prefer.
        commands: files with commands of llama-server: a unit, a compose file, a llama-swap.yaml, a script.
        build: number of the build that the caches and commands are for; None: that of the llama-server at hand.

    Raises:
        MissingFile: what is named as llama.cpp is not there.
        UsageError: no command of llama-server stands in such a file.
    """
    found = examine(list(stores()), llama_cpp=llama_cpp)
    builders = survey(llama_cpp)
    server = next((p.build for p in found.programs if p.tool.name == SERVER and p.build), None)
    if build is not None:
        server = of_build(build if isinstance(build, int) else build_number(build))
    among = upgrade(server, found.stores, commands)
    if model is None:
        return Health(found, builders, among)
    with opened(model) as m:
        seen = devices(find(SERVER, llama_cpp, may_lack=True))
        return Health(found, builders, among, plan_launch(m, Wishes(), None, seen, host_memory()))
