"""The llama.cpp at hand among all builds: how old it is, what it cannot load, what changes for saved commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

from gguftool.brief import short_repr
from gguftool.errors import Bug, of_one
from gguftool.facts import NUMBER, shipping
from gguftool.hub import opened
from gguftool.hub.stores import Store
from gguftool.predict import predict
from gguftool.predict.needs import needs, sentence
from gguftool.records import dataclass
from gguftool.run.bybuild import between
from gguftool.run.capabilities import Capabilities, known
from gguftool.run.changed import OptionChange, changes
from gguftool.run.saved import Saved, saved

MOST_MODELS = 200
"""Models of the caches that are looked at: a header takes a fraction of a second."""


@dataclass(frozen=True, slots=True)
class Unloadable:
    """A model that the llama.cpp at hand does not load.

    Attributes:
        path: its file.
        line: llama.cpp's first line.
        needs: what it needs, as a sentence; "" where names do not tell.
        bug: not llama.cpp fails, but gguftool; ``line`` says how.
    """

    path: str
    line: str
    needs: str
    bug: bool = False

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class SavedCommand:
    """A saved command and what changes for it.

    Attributes:
        file: where it stands.
        command: its place and words.
        changes: what is not the same in the newest build that is known.
    """

    file: str
    command: Saved
    changes: tuple[OptionChange, ...]

    __repr__ = short_repr

    @property
    def breaks(self) -> bool:
        """The newer build would not start with it, or read it otherwise."""
        return any(c.said and c.kind != "default" for c in self.changes)


@dataclass(frozen=True, slots=True)
class Upgrade:
    """The llama.cpp at hand among all builds.

    Attributes:
        build: its number; of one that does not say it, the first that it can be by its options; None: not known.
        last: the last that it can be; ``build`` where it says its number.
        date: when it was made; "" where that is not known.
        days: how long ago that is; None where it is not known.
        newest: the newest build that is known.
        looked: models of the caches that were looked at.
        cannot: those that it does not load.
        commands: saved commands, and what changes for them.
    """

    build: int | None
    last: int | None
    date: str
    days: int | None
    newest: int
    looked: int
    cannot: tuple[Unloadable, ...]
    commands: tuple[SavedCommand, ...]

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """No saved command breaks."""
        return not any(c.breaks for c in self.commands)


def upgrade(server: Capabilities | None, stores: Sequence[Store] = (), files: Iterable[str] = ()) -> Upgrade:
    """Hold the llama.cpp at hand against the newest that is known.

    Args:
        server: what it is; None: there is none, and only files are read.
        stores: caches whose models are looked at.
        files: files with commands (`gguftool.run.saved`).

    Raises:
        MissingFile, Unreadable, UsageError: a file is not there, or holds no command of llama-server.
    """
    build = last = server.build if server is not None else None
    if build is None and server is not None:
        build, last = between(server) or (None, None)
    paths = [m.opened for s in stores for m in s.models if m.state == "model" and m.opened.lower().endswith(".gguf")]
    looked = paths[:MOST_MODELS] if build is not None else []
    made = shipping.date(build) if build is not None else ""
    commands = [
        SavedCommand(file, one, tuple(changes(one.words, server or known(), known())))
        for file in files
        for one in saved(file)
    ]
    return Upgrade(build, last, made, _days(made), NUMBER, len(looked), tuple(_cannot(looked, build)), tuple(commands))


def _days(made: str) -> int | None:
    try:
        return (date.today() - date.fromisoformat(made)).days if made else None
    except ValueError:
        return None


def _cannot(paths: Sequence[str], build: int | None) -> Iterable[Unloadable]:
    for path in paths:
        try:
            with opened(path) as m:
                load = predict(m, build)
                if load.ends:
                    yield Unloadable(path, load.reason, sentence(needs(m)))
        except Exception as error:
            failed = of_one(error, path)
            yield Unloadable(path, str(failed), "", isinstance(failed, Bug))
