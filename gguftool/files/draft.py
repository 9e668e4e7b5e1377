"""A new file that has its name only when it is whole and on the disk.

While it is written it has no name at all where the system can do that (O_TMPFILE, then linkat): when this process is
killed, the kernel takes the space back. Elsewhere, and for files that another program writes, it is a hidden file
beside the target, named after the target and its own inode number, and locked. The next run for the same target
deletes such a file when nobody holds the lock: the inode number proves that it is no copy and no file of anybody
else's, whatever its process was called (in containers all have the same number).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from gguftool.endings import deferred
from gguftool.errors import Refused, Unreadable
from gguftool.files import leftovers
from gguftool.files.attributes import ANYBODY, Readers, copy_attributes, copy_flags
from gguftool.files.disk import O_BINARY, O_CLOEXEC, check_room, lock, sync, sync_folder, write_at
from gguftool.files.faults import writing
from gguftool.files.leftovers import hidden
from gguftool.files.names import MOVE_AWAY, check_free, look, move_new, move_over, second_name
from gguftool.files.unnamed import BY_DESCRIPTOR, hidden_file, hidden_folder, link, nameless


class Draft:
    """A file that is being written; it gets its name by `publish` and vanishes when that never happens.

    Args:
        path: the final name.
        overwrite: replace what has that name, if it is the same file then.
        can_overwrite: the command has ``--overwrite``, for the hint.
        readers: who may read it; see `gguftool.files.attributes.readers_of`.
        like: descriptor of the file that it takes the place of, whose attributes it gets instead.
        named: give it a hidden name in any case, for a program that writes it.
        swept: `clear_way` was called already.

    Raises:
        Refused: something has that name, or the folder may not be written.
        MissingFile: the folder does not exist.
        NoRoom: the disk is full.

    Attributes:
        fd: for reading and writing.
        reading: a path under which this process can open what is written so far.
    """

    def __init__(
        self,
        path: str,
        *,
        overwrite: bool = False,
        can_overwrite: bool = False,
        readers: Readers = ANYBODY,
        like: int | None = None,
        named: bool = False,
        swept: bool = False,
    ) -> None:
        self.path = path
        self.fd = -1
        self._readers, self._like = readers, like
        self._at = 0
        self._published: tuple[int, int] | None = None
        if not swept:
            leftovers.sweep(path)
        self._expected = check_free(path, overwrite=overwrite, can_overwrite=can_overwrite)
        self._name: str | None = None
        try:
            # A signal between the making of the file and its name here would leave it.
            with writing(path), deferred(done=False):
                self.fd = -1 if named else nameless(path)
                if self.fd < 0:
                    self.fd, self._name = hidden_file(path)
                lock(self.fd)
                if like is not None:
                    copy_flags(like, self.fd)
        except BaseException:
            self.close()
            raise

    @classmethod
    def of(cls, made: str, path: str, *, overwrite: bool = False, readers: Readers = ANYBODY) -> Draft:
        """A file that another program has made, to be published as ``path``; it is gone when it is not."""
        draft = cls.__new__(cls)
        draft.path, draft._readers, draft._like, draft._at = path, readers, None, 0
        draft._published = None
        draft._expected = check_free(path, overwrite=overwrite, can_overwrite=True)
        with writing(path):
            draft.fd, draft._name = os.open(made, os.O_RDWR | O_CLOEXEC | O_BINARY), made
        return draft

    @property
    def reading(self) -> str:
        """A path under which this process can open what is written so far."""
        return self._name or f"{BY_DESCRIPTOR}/{self.fd}"

    @property
    def replaces(self) -> bool:
        """Whether it takes the place of another file."""
        return self._expected is not None

    @property
    def at(self) -> int:
        """Bytes written so far by `write`."""
        return self._at

    def write(self, data: bytes | memoryview) -> None:
        """Append all of ``data``.

        Raises:
            NoRoom: the disk is full.
        """
        with writing(self.path):
            write_at(self.fd, self._at, data)
        self._at += len(data)

    def feed(self, data: memoryview, offset: int) -> None:
        """As a sink of `gguftool.verify.stream.run`: append in order."""
        self.write(data)

    def finish(self) -> None:
        """Attributes and content are on the disk when this returns.

        Raises:
            NoRoom, Refused, Unreadable: they are not.
        """
        with writing(self.path):
            self._take_up()
            if self._like is not None:
                copy_attributes(self._like, self.fd)
            else:
                self._readers.apply(self.fd)
            sync(self.fd)

    def publish(self) -> None:
        """Give the file its name, durably; refused when somebody else took that meanwhile.

        Raises:
            Refused: the name is taken.
            NoRoom, Unreadable: the disk is full, or failed.
        """
        self.finish()
        with deferred():
            self.give_name()
            with writing(self.path):
                sync_folder(os.path.dirname(self.path))

    def give_name(self) -> None:
        """As `publish`, when `finish` was called; the folder is not synced."""
        try:
            with writing(self.path):
                self._give_name()
        except Refused as e:
            if isinstance(e.__cause__, FileExistsError):
                raise Refused(
                    f"{self.path}: appeared while it was written; the new file was dropped", MOVE_AWAY
                ) from None
            raise
        s = os.fstat(self.fd)
        self._published = s.st_dev, s.st_ino

    def _give_name(self) -> None:
        if self._name is None and self._expected is None:
            link(self.fd, self.path)
            return
        if self._name is None:
            # A link cannot replace, a rename can; the lock is held already when the name appears.
            name = hidden(self.path, str(os.fstat(self.fd).st_ino))
            link(self.fd, name)
            self._name = name
        move_over(self._name, self.path, self._expected)
        self._name = None

    def _take_up(self) -> None:
        """What stands under the hidden name now: a program may have made a file of its own there."""
        if self._name is None:
            return
        there, mine = look(self._name), os.fstat(self.fd)
        if there is None:
            raise Unreadable(f"{self.path}: what was written so far was deleted meanwhile", "run the command again")
        if (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            fd = os.open(self._name, os.O_RDWR | O_CLOEXEC | O_BINARY | os.O_NOFOLLOW)
            os.close(self.fd)
            self.fd = fd

    def withdraw(self) -> None:
        """Take the file away again, if `publish` put it there and it is still that one; nothing comes back by that."""
        there = None if self.replaces else look(self.path)
        if self._published and there is not None and (there.st_dev, there.st_ino) == self._published:
            with contextlib.suppress(OSError):
                os.unlink(self.path)
        self._published = None

    def close(self) -> None:
        """Close it; a draft that was not published is gone."""
        if self._name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._name)
            self._name = None
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Draft:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def clear_way(paths: Iterable[str], *, overwrite: bool = False, can_overwrite: bool = False) -> None:
    """Before any work: what killed runs left of these files goes, and nothing has their names.

    Raises:
        Refused: something has one of the names.
        MissingFile: a folder does not exist.
    """
    wanted = list(paths)
    leftovers.sweep(*wanted)
    for path in wanted:
        check_free(path, overwrite=overwrite, can_overwrite=can_overwrite)


def publish_all(drafts: list[Draft]) -> None:
    """Publish several files: all of them or none, also when this process is killed in between.

    Some of a set under their final names would look like a set with shards lost. So the names are written down first,
    in a file that the next run finds (`gguftool.files.leftovers`).

    Raises:
        Refused, NoRoom, Unreadable: as `Draft.publish`; none is published then.
    """
    if len(drafts) == 1:
        drafts[0].publish()
        return
    for draft in drafts:
        draft.finish()
    folder = os.path.dirname(drafts[0].path)
    with contextlib.ExitStack() as stack:
        # Around the intent, so that no signal comes between the names and its end.
        stack.enter_context(deferred())
        if not any(draft.replaces for draft in drafts):
            with writing(drafts[0].path):
                stack.enter_context(_intent(drafts))
        try:
            for draft in drafts:
                draft.give_name()
            with writing(drafts[0].path):
                sync_folder(folder)
        except BaseException:
            for draft in drafts:
                draft.withdraw()
            raise


@contextlib.contextmanager
def _intent(drafts: list[Draft]) -> Iterator[None]:
    fd, name = -1, ""
    try:
        with deferred(done=False):
            fd, name = hidden_file(drafts[0].path)
        lock(fd)
        write_at(fd, 0, leftovers.intent([(os.path.basename(d.path), os.fstat(d.fd)) for d in drafts]))
        sync(fd)
        sync_folder(os.path.dirname(name))
        yield
    finally:
        if fd >= 0:
            # Where a full disk copies on write, the first try may be what makes the room for the second.
            for _ in range(2):
                with contextlib.suppress(OSError):
                    os.unlink(name)
                    break
            os.close(fd)


def publish_beside(made: str, path: str, *, overwrite: bool = False) -> None:
    """Give a finished file its final name; it keeps the one it has, where the file system has hard links.

    Raises:
        Refused: something has that name.
        NoRoom, Unreadable: the disk is full, or failed.
    """
    expected = check_free(path, overwrite=overwrite, can_overwrite=True)
    with writing(path):
        if expected is None:
            if not second_name(made, path):
                move_new(made, path)
        else:
            second = hidden(path, str(os.stat(made).st_ino))
            with contextlib.suppress(FileNotFoundError):
                os.unlink(second)
            move_over(second if second_name(made, second) else made, path, expected)
        sync_folder(os.path.dirname(path))


@contextlib.contextmanager
def whole_file(
    path: str, size: int, *, overwrite: bool = False, readers: Readers = ANYBODY, named: bool = False
) -> Iterator[Draft]:
    """A file of known size; it is published when the block ends well, else it is gone.

    Args:
        path: final name.
        size: bytes of the file; there must be room for them.
        overwrite: replace an existing file.
        readers: who may read it.
        named: see `Draft`.

    Raises:
        Refused, MissingFile, NoRoom: see `Draft`.
    """
    with Draft(path, overwrite=overwrite, can_overwrite=True, readers=readers, named=named) as draft:
        check_room(os.path.dirname(path), size)
        with writing(path):
            if not named:
                os.ftruncate(draft.fd, size)
            yield draft
        draft.publish()


@contextlib.contextmanager
def draft_folder(path: str) -> Iterator[str]:
    """A hidden folder beside ``path``, for programs that make several files; it is gone at the end.

    Raises:
        Refused, MissingFile, NoRoom: it cannot be made.
    """
    import shutil

    leftovers.sweep(path)
    place, held = "", -1
    try:
        with writing(path), deferred(done=False):
            place, held = hidden_folder(os.path.abspath(path))
        yield place
    finally:
        if held >= 0:
            shutil.rmtree(place, ignore_errors=True)
            os.close(held)
