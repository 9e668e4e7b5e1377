"""The file of `scan --resume`: a line of JSON for every row, with the settings it was made with."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, cast

from gguftool.errors import FormatError, Refused
from gguftool.files.faults import plain
from gguftool.files.small import append
from gguftool.fleet.row import Row, stamp
from gguftool.fleet.want import Want
from gguftool.reading import Malformed, from_json
from gguftool.records import fields, is_dataclass
from gguftool.version import __version__

LINE = 8 << 20
"""Bytes of a line; a row is bounded, and shorter."""


class Kept:
    """Rows of earlier runs, by path; only where each stands in the file is held in memory.

    Args:
        path: the file; "" keeps nothing.
        want: what rows must have been made for.

    Raises:
        Refused: the file holds something else.
    """

    def __init__(self, path: str, want: Want) -> None:
        self._path = path
        self._settings = settings(want)
        self._places: dict[int, int] = {}
        self._file: IO[bytes] | None = None
        if path:
            self._open(path)

    def _open(self, path: str) -> None:
        try:
            self._file = open(path, "rb")  # noqa: SIM115 - read from as long as the scan goes on
        except FileNotFoundError:
            return
        except OSError as error:
            raise plain(error, path) from error
        if self._file.read(1) not in (b"", b"{"):
            raise self._foreign()
        self._file.seek(0)
        at = 0
        while line := self._file.readline(LINE):
            if len(line) == LINE:
                raise self._foreign()
            row = self._row(line)
            if row is not None:
                self._places[hash(row["path"])] = at
            at += len(line)

    def _foreign(self) -> Refused:
        self.close()
        return Refused(f"{self._path}: exists already and holds no rows of a scan", "name another file")

    def _row(self, line: bytes) -> Row | None:
        """The row of a line, if it was made with the same settings; None for any other, also one that was cut off."""
        try:
            row = from_json(line, halves=True)
        except Malformed:
            return None
        if not isinstance(row, dict) or row.pop("settings", None) != self._settings or not fits(row):
            return None
        return cast(Row, row)

    def __call__(self, path: str) -> Row | None:
        """The row of a path whose files are what they were; one of a set that is not whole is made anew."""
        place = self._places.get(hash(path))
        if place is None or self._file is None:
            return None
        self._file.seek(place)
        row = self._row(self._file.readline(LINE))
        if row is None or row["path"] != path or row["stamp"] is None or stamp(row["files"]) != row["stamp"]:
            return None
        if row["error"] is not None and row["error"]["code"] != FormatError.code:
            # What a disk, the network or a bug did says nothing of the file.
            return None
        return None if row["set"] is not None and not row["set"]["ok"] else row

    def add(self, row: Row) -> None:
        """Put a row behind the others.

        Raises:
            NoRoom, Refused, MissingFile: it cannot be written.
        """
        if self._path and row["stamp"] is not None:
            append(self._path, [json.dumps({"settings": self._settings, **row})])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def settings(want: Want) -> str:
    """What a row depends on beside its files, as one word."""
    from hashlib import sha256

    return sha256(f"{__version__} {_told(want)}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _told(value: Any) -> str:
    if is_dataclass(value):
        return f"({', '.join(_told(getattr(value, f.name)) for f in fields(value))})"
    return repr(dict(value) if isinstance(value, Mapping) else value)


def fits(row: Mapping[str, Any]) -> bool:
    """Whether an object out of a file has what a row holds: every name, each with a value of its kind."""
    return set(row) == set(_KINDS) and all(_is(row[name], kinds) for name, kinds in _KINDS.items())


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, dict):
        return isinstance(value, dict) and all(_is(value.get(name), part) for name, part in kind.items())
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(one, kind[0]) for one in value)
    if isinstance(kind, tuple):
        return any(_is(value, one) for one in kind)
    return value is None if kind is None else isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


_KINDS: dict[str, Any] = {
    "path": str,
    "stamp": (str, None),
    "files": [str],
    "ok": bool,
    "problems": [{"kind": str, "message": str, "where": str}],
    "set": ({"count": int, "present": int, "ok": bool}, None),
    "facts": (
        {
            "architecture": str, "role": str, "name": str, "size": int, "parameters": int, "quantisation": str,
            "bits_per_weight": (float, int, None), "context_length": (int, None), "tensors": int,
        },
        None,
    ),
    "lint": ({"error": int, "warning": int, "info": int}, None),
    "findings": [{"rule": str, "severity": str, "message": str, "where": str, "digest": str}],
    "load": (str, None),
    "build": (int, None),
    "said": (str, None),
    "bill": (dict, None),
    "error": ({"code": str, "message": str, "hint": (str, None)}, None),
}  # fmt: skip
"""What is in a row, and of which kind: what a list holds, what an object has, or one of several."""
