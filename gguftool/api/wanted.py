"""Which file of the Hub an address means: the one it names, or the best that fits; and the projector for it."""

from __future__ import annotations

import os
from collections.abc import Callable

from gguftool.api.glance import OVER, PARTLY, UNKNOWN, glance
from gguftool.api.plan import plan
from gguftool.brief import short_repr
from gguftool.errors import FormatError, GgufToolError, MissingFile, NoRoom, UsageError
from gguftool.hub import is_remote, opened
from gguftool.hub.address import OllamaName, StoreAddress
from gguftool.hub.address import parse as parse_address
from gguftool.hub.api import endpoint
from gguftool.hub.cache import ollama_blob
from gguftool.hub.repo import Collection, Listed, collection, place_on_hub
from gguftool.model.overview import overview
from gguftool.model.pieces import of_sure_name
from gguftool.model.role import role, sidecar_by_name
from gguftool.predict.pairs import misfits
from gguftool.quantity import human
from gguftool.records import dataclass, replace
from gguftool.regex import regex
from gguftool.run.args import masked, own_words
from gguftool.run.wishes import Wishes
from gguftool.shell import gguftool, path_word, shell
from gguftool.wire import without_login

_REPOSITORY = regex(r"[\w.-]+/[\w.-]+")
"""As people write the name of a repository of the Hub."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One model of a repository.

    Attributes:
        there: the repository.
        listed: the model, or the one file that was named.
        side: the projector that goes with it; None: none, or none is wanted.
        chosen: of how many it is which, and why; "" when the address named it.
    """

    there: Collection
    listed: Listed
    side: Listed | None = None
    chosen: str = ""

    __repr__ = short_repr


def find(
    spec: str,
    said: Wishes,
    build: str | int | None,
    projector: bool | str,
    tell: Callable[[str], None] = lambda text: None,
) -> str | Wanted:
    """The blob of a model of Ollama; else the model of a repository that an address means.

    Args:
        spec: an address.
        said: how it is to be launched: of several quantisations the best that fits is meant.
        build: number of the build that will serve.
        projector: whether its projector is wanted, too, or the address of the one that is.
        tell: called with what takes a while.

    Raises:
        UsageError: it cannot be pulled, or it is not clear which file is meant.
        MissingFile, ToolFailed: as `gguftool.hub.repo.collection`.
        FormatError: a shard of it is not in the repository.
        NoRoom: none of the quantisations fits.
    """
    if not is_remote(spec):
        way = f"name hf://owner/repo; a file that is here: {gguftool('verify', path_word(spec))}"
        if _REPOSITORY.fullmatch(spec) and not os.path.exists(spec):
            way = f"of the Hub: {gguftool('pull', f'hf://{spec}')}"
        raise UsageError(f"{spec}: is no address", way)
    hub = place_on_hub(spec)
    if hub is None:
        address = parse_address(spec, endpoint())
        if isinstance(address, OllamaName):
            return ollama_blob(address)
        text = without_login(spec)
        if isinstance(address, StoreAddress):
            from gguftool.hub.beyond import fetching

            raise UsageError(f"{text}: is not on the Hub", f"{fetching(text)}; then gguftool verify and lint the file")
        raise UsageError(
            f"{text}: is not on the Hub: pull fetches what huggingface-hub and its cache know",
            f"{shell(['curl', '-fLO', '-C', '-', text])}; then gguftool verify and gguftool lint the file",
        )
    file = hub.path if hub.path.lower().endswith(".gguf") or of_sure_name(hub.path) else ""
    there = collection(str(replace(hub, path="" if file else hub.path)))
    if there is None:
        raise MissingFile(f"{hub}: the repository has no such file or folder")
    if file:
        listed = next((x for x in there.every if x.name == file or any(f.path == file for f in x.files)), None)
        if listed is None:
            names = ", ".join(x.name for x in there.models[:8])
            raise MissingFile(f"{hub}: the repository has no such file", f"there are {names}" if names else None)
    elif not there.models:
        quant = f" with {hub.quant} in its name" if hub.quant else ""
        raise MissingFile(f"{hub}: there is no .gguf file{quant} in this repository")
    elif len(there.models) == 1:
        listed = there.models[0]
    else:
        tell(f"{len(there.models)} quantisations: looking at their headers for the best that fits")
        return _best(there, said, build, projector)
    if len(listed.files) < listed.count:
        have = f"{len(listed.files)} of {listed.count}"
        text = f"{listed.spec}: the repository has {have} of its files: it is no model without the others"
        raise FormatError(text, "look for another repository, or another revision", kind="shard-missing")
    return Wanted(there, listed, _side(there, listed, projector))


def _side(there: Collection, listed: Listed, projector: bool | str) -> Listed | None:
    """The projector that is wanted.

    Raises:
        UsageError: one is named that is not in the repository.
    """
    if not isinstance(projector, str):
        return projector_of(there, listed) if projector else None
    hub = place_on_hub(projector)
    found = next((x for x in there.every if hub is not None and any(f.path == hub.path for f in x.files)), None)
    if found is None or there.address is None or hub is None or hub.repo != there.address.repo:
        raise UsageError(
            f"--mmproj {projector}: is no file of {there.spec}",
            f"pull it first, and name the file: {gguftool('pull', path_word(projector))}",
        )
    return found


def _best(there: Collection, said: Wishes, build: str | int | None, projector: bool | str) -> Wanted:
    """The best of several that fits, with its projector.

    Raises:
        UsageError: it is not clear which is meant.
        NoRoom: none of them fits.
    """
    g = glance(there, said, build=build, since=False)
    table = shell(["gguftool", "plan", path_word(there.spec), *masked(own_words(said))])
    fitting = [x for x in g.models if x.standing <= PARTLY]
    if len(g.groups) > 1 and fitting:
        raise UsageError(f"{there.spec}: holds several models", f"name one of them; {table} lists them")
    for x in fitting:
        side = _side(there, x.listed, projector)
        if side is None or plan(x.listed.spec, replace(said, mmproj=side.spec), build=build).fits:
            bits = f"{x.bits_per_weight:.2f} bits a weight" if x.bits_per_weight else "by its header"
            chosen = f"the best of {len(fitting)} that fit here, of {len(g.models)}: {bits}"
            return Wanted(there, x.listed, side, chosen)
    if fitting:
        raise NoRoom(f"{there.spec}: none of them fits together with its projector", "--no-mmproj leaves it out")
    if any(x.standing == UNKNOWN for x in g.models):
        raise UsageError(
            f"{there.spec}: which of {len(g.models)} quantisations? How much memory there is is not known",
            f"name --vram and --ram, or one of them; {table} lists them",
        )
    over = next((x for x in g.models if x.standing == OVER), None)
    if over is not None:
        text = f"{there.spec}: none of its {len(g.models)} quantisations fits; {over.listed.name} is the least over"
        raise NoRoom(f"{text}, by {human(over.over)}", f"name one to have it all the same; {table} lists them")
    raise UsageError(f"{there.spec}: none of its {len(g.models)} files can be used", f"{table} says why")


def projector_of(there: Collection, listed: Listed) -> Listed | None:
    """The projector of the repository that goes with a model: of several that nearest to its bits a weight.

    As `llama-server -hf` takes one along (`common/download.cpp:find_best_mmproj`, b11434), which goes by the names.

    Args:
        there: the repository.
        listed: the model in it.
    """
    candidates = [x for x in there.beside if sidecar_by_name(x.name) == "mmproj"]
    if listed in there.beside or not candidates:
        return None
    fitting: list[tuple[int, float, str, Listed]] = []
    with opened(listed.spec) as m:
        bits = overview(m).bits_per_weight or 0.0
        for x in candidates:
            try:
                with opened(x.spec) as side:
                    if role(side) == "mmproj" and not any(w.stops for w in misfits(m, side, "mmproj")):
                        depth = len(os.path.commonpath(["/" + x.name, "/" + listed.name]))
                        apart = abs((overview(side).bits_per_weight or 0.0) - bits)
                        fitting.append((-depth, apart, x.name, x))
            except GgufToolError:
                continue
    return min(fitting)[3] if fitting else None
