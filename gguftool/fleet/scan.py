"""Many models looked at in parallel: rows as they are done, from files that are found meanwhile."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing

from gguftool.files.patterns import Patterns
from gguftool.fleet.find import models, there, told_empty
from gguftool.fleet.kept import Kept
from gguftool.fleet.row import Row
from gguftool.fleet.todo import Todo
from gguftool.fleet.want import Task, Want
from gguftool.fleet.work import Hands, Here, Processes
from gguftool.hub import is_remote, named
from gguftool.model import Model
from gguftool.processors import processors

FEW = 3
"""Up to so many models another process costs more than it gives."""


def scan(
    paths: Model | str | os.PathLike[str] | Sequence[Model | str | os.PathLike[str]],
    *,
    jobs: int | None = None,
    lint: bool = True,
    resume: str | os.PathLike[str] | None = None,
    build: int | None = None,
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    scheduler: str = "",
    bill: bool = False,
    hashes: bool = False,
) -> Iterator[Row]:
    """Look at many models: one row each, in the order they are done. Headers are read, tensor data is not.

    Args:
        paths: files, open models, folders with their subfolders, ``hf://owner/repo``, ``hf://owner``; of a set one row
            is made.
        jobs: models at a time; the number of processors when None.
        lint: run the rules too, and predict what llama.cpp does.
        resume: file that keeps the rows; models whose size and time are the same are taken from it.
        build: number of the build of llama.cpp to judge by; None: the newest that is known.
        select: rule ids and families to run; all when empty.
        ignore: rule ids and families to leave out.
        include: patterns of the files of folders that are looked at (`gguftool.files.patterns`); ``*.gguf`` when empty.
        exclude: patterns of files and folders that are left out.
        scheduler: address of a scheduler of Dask, ``tcp://host:8786``, whose workers do the work.
        bill: with what a bill of materials holds: licence, what it was made of, hash of the template (docs/publish.md).
        hashes: the bill with the SHA-256 of the files, for which they are read whole.

    Raises:
        MissingFile: a path that does not exist.
        UsageError: an unknown rule.
        Refused: ``resume`` is a file of another kind.
        ToolFailed: the Hub cannot be asked, or the scheduler.
    """
    wanted = [paths] if isinstance(paths, (Model, str, os.PathLike)) else paths
    want = Want(lint=lint, build=build, select=tuple(select), ignore=tuple(ignore), bill=bill or hashes, hashes=hashes)
    patterns = Patterns(tuple(include), tuple(exclude))
    kept = os.fspath(resume) if resume is not None else ""
    yield from rows([named(one) for one in wanted], want, patterns, jobs=jobs, resume=kept, scheduler=scheduler)


def rows(
    paths: Sequence[str],
    want: Want,
    patterns: Patterns | None = None,
    *,
    jobs: int | None = None,
    resume: str = "",
    scheduler: str = "",
    linked: list[str] | None = None,
) -> Iterator[Row]:
    """Rows as `scan` gives them.

    Args:
        paths: files, folders, addresses.
        want: what a row shall hold.
        patterns: which files of folders.
        jobs: models at a time.
        resume: file that keeps the rows; "" keeps none.
        scheduler: address of a scheduler of Dask, whose workers look; "" for processes of this machine. Paths are made
            absolute for them.
        linked: gets the folders that are links, which are not entered.
    """
    with (
        closing(Kept(resume, want)) as kept,
        closing(told(paths, want, patterns, kept, jobs=jobs, scheduler=scheduler, linked=linked)) as found,
    ):
        for row, new in found:
            if new:
                kept.add(row)
            yield row


def told(
    paths: Sequence[str],
    want: Want,
    patterns: Patterns | None,
    kept: Kept,
    *,
    jobs: int | None = None,
    scheduler: str = "",
    linked: list[str] | None = None,
    empty: bool = True,
) -> Generator[tuple[Row, bool]]:
    """Rows as `rows` gives them, each with whether it is new: not one of those that were kept.

    Without ``empty`` a folder that holds nothing is none.
    """
    if want.lint:
        from gguftool.lint.run import selected

        selected(want.select, want.ignore)
    if scheduler:
        there(paths)
        paths = [path if is_remote(path) else os.path.abspath(path) for path in paths]
    found = models(paths, patterns, linked)
    todo = Todo(told_empty(paths, found, patterns or Patterns()) if empty else found, kept, want.build)
    first: list[Task] = []
    while not scheduler and len(first) <= FEW:
        while todo.ready:
            yield todo.ready.popleft()
        task = todo.next()
        if task is not None:
            first.append(task)
        elif not todo.ready:
            break
    with closing(_hands(want, paths, scheduler, jobs or processors() if len(first) > FEW else 1)) as work:
        yield from through(todo, work, first)


def _hands(want: Want, paths: Sequence[str], scheduler: str, workers: int) -> Hands:
    if scheduler:
        from gguftool.fleet.cluster import Cluster

        return Cluster(scheduler, want, paths)
    return Processes(want, workers) if workers > 1 else Here(want)


def through(todo: Todo, hands: Hands, first: Sequence[Task] = ()) -> Iterator[tuple[Row, bool]]:
    """Everything there is to do, through those who do it."""
    begin = iter(first)
    while True:
        while todo.ready:
            yield todo.ready.popleft()
        task = (next(begin, None) or todo.next()) if hands.room else None
        if task is not None:
            hands.give(task)
        elif todo.ready:
            continue
        elif not hands.busy:
            return
        else:
            for found in hands.take():
                todo.done(found)
