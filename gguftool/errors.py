"""The errors of gguftool, each with its exit code.

::

    GgufToolError                70  a bug if it is raised bare; every subclass owns its code
    ├── UsageError                2  a wrong option, value or configuration file
    │   └── MissingFile           2  the path does not exist
    ├── FormatError               3  the bytes are not readable as GGUF (offset, key)
    │   └── NotGguf               3  it is something else: LFS pointer, HTML page, safetensors …
    ├── Unreadable                3  the operating system does not let us read it
    ├── Refused                   4  safe to do only in another way; the hint names it
    │   └── ChangedMeanwhile      4  the file is no longer the one that was planned for
    ├── NoRoom                    5  not enough disk or memory
    ├── ToolFailed                6  another program or the network failed or is missing
    ├── Bug                      70  gguftool itself failed; the name of the exception is in the message
    └── EditPending               7  an interrupted or damaged edit stands in the way
        ├── InterruptedEdit       7  a journal lies beside the file: `gguftool recover`
        ├── EditInProgress        7  another gguftool is editing this file now
        └── DamagedJournal        7  the journal itself cannot be trusted

Every error says what is wrong and where; ``hint`` says what to type next.
"""

from __future__ import annotations

import os


class GgufToolError(Exception):
    """Base of all errors gguftool raises on purpose.

    Args:
        message: what is wrong and where, one line.
        hint: what helps, usually a command to type.
    """

    exit_code = 70
    code = "internal"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Bug(GgufToolError):
    """Gguftool itself failed.

    Args:
        what: the class of the exception, and what it says (see `named`).
        where: the file it happened at, "" when that is not known.
    """

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(
            f"{where}: this is a bug in gguftool: {what}" if where else f"this is a bug in gguftool: {what}",
            "run the same command with GGUFTOOL_DEBUG=1 and report the traceback together with the command and "
            "`gguftool --version` (see CONTRIBUTING.md)",
        )


def named(error: BaseException) -> str:
    """Class and text of an exception that is not ours; the text may be as long as a file has it."""
    text = str(error)
    return f"{type(error).__name__}: {text if len(text) <= 500 else text[:499] + '…'}"


class UsageError(GgufToolError):
    """A wrong option, value or configuration file."""

    exit_code = 2
    code = "usage"


class MissingFile(UsageError):
    """The named file does not exist."""

    code = "missing-file"


class FormatError(GgufToolError):
    """The bytes are not readable as GGUF.

    Args:
        message: what is wrong.
        offset: byte offset in the file where it was noticed.
        key: metadata key or tensor name being read, when known.
        kind: short kebab-case name of the fault, see `gguftool.format.header.Problem`.
    """

    exit_code = 3
    code = "not-readable"

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        offset: int | None = None,
        key: str | None = None,
        kind: str = "malformed",
    ) -> None:
        super().__init__(message, hint)
        self.offset = offset
        self.key = key
        self.kind = kind


class NotGguf(FormatError):
    """The file is something other than GGUF; ``kind`` and ``facts`` say what."""

    code = "not-gguf"

    def __init__(
        self, message: str, hint: str | None = None, *, kind: str, facts: dict[str, object] | None = None
    ) -> None:
        super().__init__(message, hint, offset=0, kind=kind)
        self.facts = facts or {}


class Unreadable(GgufToolError):
    """The operating system refuses the read: no permission, a folder, a device."""

    exit_code = 3
    code = "unreadable"


class Refused(GgufToolError):
    """Refused for safety; the hint says the way on."""

    exit_code = 4
    code = "refused"


class ChangedMeanwhile(Refused):
    """The file changed between planning and doing, or while it was read."""

    code = "changed-meanwhile"


class NoRoom(GgufToolError):
    """Not enough disk or memory."""

    exit_code = 5
    code = "no-room"


class ToolFailed(GgufToolError):
    """Another program or the network failed or is missing."""

    exit_code = 6
    code = "tool-failed"


class EditPending(GgufToolError):
    """An edit of this file is unfinished."""

    exit_code = 7
    code = "edit-pending"


class InterruptedEdit(EditPending):
    """A journal lies beside the file: an edit was interrupted."""

    code = "interrupted-edit"


class EditInProgress(EditPending):
    """Another process is editing this file right now."""

    code = "edit-in-progress"


class DamagedJournal(EditPending):
    """The journal beside the file cannot be trusted; nothing was touched."""

    code = "damaged-journal"


def of_one(error: Exception, name: str) -> GgufToolError:
    """What one file of many caused, as an error to show beside the results of the others.

    With GGUFTOOL_DEBUG in the environment a bug is raised as it is, for its traceback.

    Args:
        error: what was raised while only that file was looked at.
        name: of the file.
    """
    if isinstance(error, GgufToolError):
        return error
    if isinstance(error, FileNotFoundError):
        return MissingFile(f"{name}: no such file")
    if isinstance(error, OSError):
        return Unreadable(f"{name}: {(error.strerror or str(error) or type(error).__name__).lower()}")
    if isinstance(error, MemoryError):
        return NoRoom(f"{name}: not enough memory")
    if os.environ.get("GGUFTOOL_DEBUG"):
        raise error
    return Bug(named(error), name)
