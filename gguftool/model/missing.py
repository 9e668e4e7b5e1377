"""What is said and done where shards of a set are missing, or not proved to be of it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gguftool.errors import FormatError, Refused
from gguftool.model.shards import ShardSet
from gguftool.shell import gguftool, path_word

FEW = 16
"""Missing shards named one by one."""


def missing_error(path: str, found: ShardSet) -> FormatError:
    """What to say when shards are missing: their numbers, their names, and what may be them."""
    message = f"{path}: {missing_text(found.missing, len(found.paths), found.missing_names)}"
    if found.offers:
        message += f"; {', '.join(map(os.path.basename, found.offers[:3]))} claims to be one, but its name does not"
    return FormatError(message, gguftool("verify", path_word(path)), kind="shard-missing")


def missing_text(missing: Sequence[int], count: int, names: Sequence[str]) -> str:
    """``shard 1 of 2 is missing (a-00001-of-00002.gguf)``."""
    said = f" ({', '.join(names[:4])}{' …' if len(names) > 4 else ''})" if names else ""
    numbers = ", ".join(map(str, missing[:FEW])) + (f" … ({len(missing):,} in all)" if len(missing) > FEW else "")
    return f"shard {numbers} of {count} is missing{said}"


def refuse_unnamed(path: str, by_content: Sequence[str], names: Sequence[str] = ()) -> None:
    """For commands that write: what was found by its content alone is not proved to be of this set.

    Args:
        path: the file that was named.
        by_content: the files found so.
        names: the names that the set's files should have, when its name is known.

    Raises:
        FormatError: there are such files, and the set has names: its own ones are missing.
        Refused: there are such files, and no name tells which set this is.
    """
    if not by_content:
        return
    shown = ", ".join(os.path.basename(p) for p in by_content[:4]) + (" …" if len(by_content) > 4 else "")
    if names:
        gone = [name for name in names if not os.path.isfile(os.path.join(os.path.dirname(path), name))]
        said = f"{path}: missing: {', '.join(gone[:4])}{' …' if len(gone) > 4 else ''}"
        message = f"{said}; {shown} would fit by what is in it, but its name does not say so"
        raise FormatError(message, gguftool("verify", path_word(path)), kind="shard-missing")
    raise Refused(
        f"{path}: {shown} would fit by what is in it, but its name does not say that it is of the same set",
        gguftool("verify", "--repair-names", path_word(path)) + "   (shows the set, names it)",
    )
