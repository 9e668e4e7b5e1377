"""A file that comes piece by piece, over more than one run: under another name until it is whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from gguftool.files.faults import writing
from gguftool.files.names import make_folder


@contextmanager
def partial(part: str, whole: str, most: int) -> Iterator[BinaryIO]:
    """What is there of a file, open to be gone on with; it gets its name when the block ends without an error.

    Args:
        part: path of what is unfinished, which stays when the block does not end well.
        whole: path of the file, in the folder of the other or on its disk.
        most: bytes it will have; what is longer is begun anew.

    Raises:
        NoRoom, Refused, MissingFile: it cannot be begun or named.
    """
    for path in (part, whole):
        with writing(path):
            make_folder(os.path.dirname(path))
    with writing(part):
        stream = open(part, "ab")  # noqa: SIM115 - closed below
    try:
        if stream.tell() > most:
            stream.truncate(0)
            stream.seek(0)
        yield stream
    finally:
        stream.close()
    with writing(whole):
        os.replace(part, whole)
