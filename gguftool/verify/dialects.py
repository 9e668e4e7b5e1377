"""Hashes in the text of others: what programs and people write, line by line, as a table, as CSV, as JSON.

Known: GNU and BSD sums, openssl, certutil, PowerShell's Get-FileHash (table, list, CSV), ``sha256:HEX NAME`` and the
name first, Markdown tables, JSON of any shape that pairs names and hashes (the Hub's tree among them). Bytes are read
by their byte-order mark: PowerShell writes UTF-16, Windows' editors UTF-8 with a mark.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gguftool.reading import Malformed, from_json
from gguftool.records import dataclass, field
from gguftool.regex import regex

LENGTHS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Hexadecimal digits of a hash -> what it most likely is, where nobody says."""
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"),
)  # fmt: skip
_HEX = regex(
    r"(?<![0-9A-Za-z])(?:(?P<label>[A-Za-z]+[0-9]*(?:[-_][0-9]+)*)[:=-] ?)?"
    r"(?P<hex>[0-9a-fA-F]{128}|[0-9a-fA-F]{96}|[0-9a-fA-F]{64}|[0-9a-fA-F]{56}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32})(?![0-9A-Za-z])"
)
_GNU = regex(r"^(\\?)([0-9a-fA-F]{32,128})(?: [ *]|\t)(.+)$")
_BSD = regex(r"^(\\?)([A-Za-z][A-Za-z0-9/_-]*) ?\((.+)\) ?= ?([0-9a-fA-F]{32,128})$")
_CERTUTIL = regex(r"^([A-Za-z0-9]+)\b[^:]*(?<=\s)(\S.*?):$")
_ROW = regex(r"^([A-Z][A-Z0-9]+)\s+([0-9A-F]{32,128})\s+(.+)$")
_PAIR = regex(r"^(Algorithm|Hash|Path)\s*:(.*)$")
_NAMES = ("path", "rfilename", "filename", "file", "name", "file_name")
_DIGESTS = ("sha256", "sha-256", "sha256sum", "sha_256", "hash", "digest", "checksum", "oid")
_ALGORITHMS = frozenset({*LENGTHS.values(), "sha3-256", "blake2b", "blake2s", "blake3", "b3", "crc32"})
_CUT = ("...", "…")
_DEEPEST = 32


@dataclass(frozen=True, slots=True)
class Said:
    """One hash of a list.

    Attributes:
        name: of the file, "" where none is said.
        algorithm: as ``sha256``.
        digest: hexadecimal, in small letters.
        size: in bytes, where it is said.
    """

    name: str
    algorithm: str
    digest: str
    size: int | None = None


@dataclass(slots=True)
class Found:
    """What a text says, and which of its lines look like hashes and are not understood."""

    said: list[Said] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def decode(data: bytes) -> str:
    """Bytes as text: by their byte-order mark, else UTF-16 where every other byte is nothing, else UTF-8."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "surrogateescape" if encoding == "utf-8-sig" else "replace")
    front = data[:200]
    if len(front) >= 8 and not any(front[1::2]) and all(front[::2]):
        return data.decode("utf-16-le", "replace")
    if len(front) >= 8 and not any(front[::2]) and all(front[1::2]):
        return data.decode("utf-16-be", "replace")
    return data.decode("utf-8", "surrogateescape")


def named(label: str) -> str:
    """The name of an algorithm as it is written here: ``SHA-256``, ``SHA2-256`` and ``sha_256`` are sha256."""
    plain = label.lower().replace("_", "-")
    short = plain.replace("-", "")
    for known in LENGTHS.values():
        if short in (known, known.replace("sha", "sha2")) and known != "sha1":
            return known
    return "sha1" if short == "sha1" else plain


def unescape(name: str, mark: str) -> str:
    """The name of a sum whose line begins with a backslash, as GNU's programs escape it."""
    if not mark:
        return name
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), name)


def read(text: str) -> Found:
    """All hashes of a text, in order."""
    found = Found()
    if text.lstrip()[:1] in ("{", "[") and _json(text, found):
        return found
    # Names may hold what Python takes for the end of a line.
    lines = [row.removesuffix("\r") for row in text.split("\n")]
    if sum(1 for line in lines if _PAIR.match(line)) >= 2:
        return _pairs(lines, found)
    if (columns := _header(lines)) is not None:
        return _csv(lines, columns, found)
    above = ""
    for line in lines:
        if line.startswith("#") or not line.strip():
            continue
        one = _line(line, above)
        if one is not None:
            found.said.append(one)
        elif any(len(m["hex"]) in LENGTHS for m in _HEX.finditer(line)):
            found.unread.append(line)
        above = line if _CERTUTIL.match(line.strip()) else ""
    return found


def _line(line: str, above: str) -> Said | None:
    """The hash of one line; ``above``: the line in front of it, where it is a title of certutil's."""
    if m := _GNU.match(line):
        return _of(m[2], "", unescape(m[3], m[1]))
    if m := _BSD.match(line):
        return _of(m[4], m[2], unescape(m[3], m[1]))
    if m := _ROW.match(line):
        return _of(m[2], m[1], "" if m[3].rstrip().endswith(_CUT) else m[3].strip())
    whole = "".join(line.split())
    title = _CERTUTIL.match(above.strip())
    if title and named(title[1]) in _ALGORITHMS and re.fullmatch("[0-9a-fA-F]+", whole):
        return _of(whole, title[1], title[2].removeprefix("of file ").removeprefix("file "))
    hits = list(_HEX.finditer(line))
    if len(hits) != 1:
        return None
    hit = hits[0]
    label = hit["label"] or ""
    if label and named(label) not in _ALGORITHMS:
        return _of(hit["hex"], "", _rest(line[: hit.start("hex")], line[hit.end() :]))
    return _of(hit["hex"], label, _rest(line[: hit.start()], line[hit.end() :]))


def _of(digest: str, label: str, name: str | None, size: int | None = None) -> Said | None:
    algorithm = named(label) if label else LENGTHS.get(len(digest), "")
    if not algorithm or name is None or (algorithm in LENGTHS.values() and LENGTHS.get(len(digest)) != algorithm):
        return None
    return Said(name, algorithm, digest.lower(), size)


def _rest(before: str, after: str) -> str | None:
    """The name that is left of a line without its hash; None where more than one thing could be it."""
    cells = [_bare(cell) for part in (before, after) for cell in re.split(r"[|,;\t]", part)]
    cells = [c for c in cells if c and named(c) not in _ALGORITHMS]
    if len(cells) > 1:
        cells = [c for c in cells if re.search(r"\.[A-Za-z][A-Za-z0-9]*$", c)]
        return cells[0] if len(cells) == 1 else None
    return cells[0] if cells else ""


def _bare(cell: str) -> str:
    """A cell without what lists and tables put around it: bullets, quotes, bold, links, the sign between two values."""
    text = cell.strip()
    text = re.sub(r"^(?:[-*+]|[0-9]+\.)\s+", "", text)
    text = re.sub(r"^\[([^\]]+)\]\([^)]*\)$", r"\1", text)
    return text.strip(" `\"'*<>()").removesuffix(":").removesuffix("=").removesuffix("->").strip(" `\"'*=")


def _pairs(lines: list[str], found: Found) -> Found:
    """Get-FileHash as a list: a value that is too long for the window goes on in the next line, under itself."""
    rows: list[dict[str, str]] = []
    key = ""
    for line in lines:
        m = _PAIR.match(line)
        if m:
            if not rows or m[1] in rows[-1]:
                rows.append({})
            key = m[1]
            rows[-1][key] = m[2].strip()
        elif line.startswith("  ") and rows and key:
            rows[-1][key] += line.strip() if key == "Hash" else line[len(line) - len(line.lstrip()) :].rstrip()
        elif not line.strip():
            key = ""
    for row in rows:
        one = _of(row.get("Hash", ""), row.get("Algorithm", ""), row.get("Path", ""))
        if one is not None:
            found.said.append(one)
        else:
            found.unread.append(" ".join(row.values()))
    return found


def _header(lines: list[str]) -> tuple[int, str, dict[str, int]] | None:
    """Where a CSV's title stands, its sign between cells, and the columns of name, hash and algorithm."""
    for at, line in enumerate(lines[:5]):
        for sign in (",", ";", "\t"):
            cells = [c.strip().strip('"').lower() for c in line.split(sign)]
            digest = next((i for i, c in enumerate(cells) if c in _DIGESTS), None)
            name = next((i for i, c in enumerate(cells) if c in _NAMES), None)
            if len(cells) > 1 and digest is not None and name is not None:
                columns = {"name": name, "digest": digest}
                labelled = next((i for i, c in enumerate(cells) if c == "algorithm"), None)
                return at, sign, columns | ({"algorithm": labelled} if labelled is not None else {})
    return None


def _csv(lines: list[str], title: tuple[int, str, dict[str, int]], found: Found) -> Found:
    at, sign, columns = title
    try:
        for cells in csv.reader((line for line in lines[at + 1 :] if line.strip()), delimiter=sign):
            row = {what: cells[i].strip() for what, i in columns.items() if i < len(cells)}
            m = _HEX.fullmatch(row.get("digest", ""))
            label = row.get("algorithm") or (m["label"] if m else "") or ""
            one = _of(m["hex"], label, row.get("name", "")) if m else None
            if one is not None:
                found.said.append(one)
            elif any(cells):
                found.unread.append(sign.join(cells))
    except csv.Error as e:
        found.unread.append(str(e))
    return found


def _json(text: str, found: Found) -> bool:
    try:
        body = from_json(text, halves=True)
    except Malformed:
        return False
    found.said.extend(_walk(body, "", 0))
    return True


def _walk(value: Any, name: str, depth: int) -> Iterator[Said]:
    """Pairs of name and hash anywhere in a JSON value; ``name``: what the place is called by what holds it."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from _walk(one, "", depth + 1)
        return
    if isinstance(value, str):
        if (m := _HEX.fullmatch(value.strip())) and (one := _of(m["hex"], m["label"] or "", name)):
            yield one
        return
    if not isinstance(value, Mapping):
        return
    keys = {str(k).lower(): v for k, v in value.items()}
    own = next((v for k in _NAMES if isinstance(v := keys.get(k), str) and v), name)
    stored = keys.get("lfs")
    if isinstance(stored, Mapping) and any(isinstance(stored.get(k), str) for k in ("oid", "sha256")):
        # Of a file in Git LFS, the ``oid`` beside it is Git's own.
        yield from _walk(
            {"sha256": stored.get("sha256") or stored.get("oid"), "size": stored.get("size")}, own, depth + 1
        )
        return
    texts = {k: v.strip() for k in _DIGESTS if isinstance(v := keys.get(k), str)}
    label = keys.get("algorithm")
    for key, digest in texts.items():
        m = _HEX.fullmatch(digest)
        said = label if isinstance(label, str) and key in ("hash", "digest", "checksum") else ""
        if m and not (key == "oid" and len(m["hex"]) == 40):
            one = _of(m["hex"], said or m["label"] or "", own, _size(keys.get("size")))
            if one is not None:
                yield one
                return
    for key, inner in value.items():
        if str(key).lower() in (*_NAMES, *_DIGESTS):
            continue
        if isinstance(inner, (Mapping, list)) or not texts:
            yield from _walk(inner, str(key), depth + 1)


def _size(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None
