"""What the two bills of materials share: when they were made, what names a thing in them, which words are harmless."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any

from gguftool.regex import regex
from gguftool.report.envelope import dumps
from gguftool.report.scan.shown import Row, Shown, reason, short
from gguftool.version import __version__

MOST = 20
"""Findings of a model that are told each, the worst first; the numbers count all."""
DATA = frozenset({"imatrix", "vocab", "metadata", "nothing"})
"""Roles of files that are no model."""
_URL = regex(r"https?://[^\s<>\"{}|\\^`\x00-\x20\x7f-\U0010ffff]{3,500}")
_REPO = regex(r"[\w-][\w.-]{0,95}/[\w-][\w.-]{0,95}", re.ASCII)


class State:
    """What is kept from row to row until the end; small, for a fleet has many rows.

    Attributes:
        said: objects of other lists than that of the models, by a word to sort them.
        known: identifiers given, so that none is given twice.
        noted: what the rules say, in words, and of which models: thousands may share a sentence.
        at: when it is made: SOURCE_DATE_EPOCH where it is set (reproducible-builds.org), else now.
    """

    def __init__(self) -> None:
        said = os.environ.get("SOURCE_DATE_EPOCH", "")
        plain = said.isascii() and said.isdecimal() and len(said) < 12
        made = datetime.fromtimestamp(int(said), UTC) if plain else datetime.now(UTC)
        self.at = made.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.said: dict[str, list[tuple[str, str]]] = {}
        self.known: dict[str, str] = {}
        self.noted: dict[str, list[str]] = {}
        self._rows: list[bytes] = []

    def add(self, kind: str, order: str, what: object) -> None:
        """One object for the list ``kind``."""
        self.said.setdefault(kind, []).append((order, dumps(what, compact=True)))

    def listed(self, kind: str) -> str:
        """All objects of a list as JSON, in order."""
        return f"[{','.join(text for _, text in sorted(self.said.get(kind, [])))}]"

    def row(self, text: str) -> str:
        """The text of a row, remembered for the number of the whole."""
        self._rows.append(hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()[:8])
        return text

    @property
    def serial(self) -> str:
        """A UUID that the same rows at the same time give again, in whatever order they were made."""
        whole = b"".join(sorted(self._rows)) + self.at.encode() + __version__.encode()
        return str(uuid.uuid5(uuid.NAMESPACE_URL, hashlib.sha256(whole).hexdigest()))


def state(shown: Shown) -> State:
    """What the format keeps of this scan."""
    found = shown.kept.setdefault("bills", State())
    if not isinstance(found, State):
        raise TypeError("another format's")
    return found


def ref(path: str) -> str:
    """What names a model, or a file of one, within the bill."""
    return hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def place(row: Row, shown: Shown) -> str:
    """Where it lies, below the folder that was asked for."""
    return short(row, shown.folder)


def called(row: Row) -> str:
    """What to call the model."""
    return str((row["bill"] or {}).get("name") or os.path.basename(str(row["path"])) or row["path"])


def url(text: str) -> str:
    """An address that every reader takes; "" for any other text."""
    return text if _URL.fullmatch(text) else ""


def purl(repository: str) -> str:
    """The package URL of a repository on the Hub; "" where it is none."""
    return f"pkg:huggingface/{repository}" if _REPO.fullmatch(repository) else ""


def ancestors(row: Row) -> Iterable[Mapping[str, str]]:
    """What it was made of: what was converted, then its bases; each once."""
    bill = row["bill"] or {}
    seen: set[str] = set()
    for one in [*([bill["source"]] if bill.get("source") else []), *bill.get("bases", ())]:
        name = shown_name(one)
        if name and name not in seen:
            seen.add(name)
            yield one


def shown_name(one: Mapping[str, str]) -> str:
    """What to call a model that another one was made of."""
    return one["repository"] or " ".join(x for x in (one["organization"], one["name"]) if x) or one["url"] or one["doi"]


def facts(row: Row, shown: Shown) -> list[tuple[str, str]]:
    """Facts that no field of a bill has a place for, as names and values."""
    f, bill = row["facts"] or {}, row["bill"] or {}
    bits, licence = f.get("bits_per_weight"), bill.get("licence") or {}
    found: list[tuple[str, Any]] = [
        ("path", place(row, shown)),
        ("role", f.get("role")),
        ("architecture", f.get("architecture")),
        ("parameters", f.get("parameters")),
        ("quantization", (bill.get("quantisation") or {}).get("label")),
        ("imatrix", "yes" if (bill.get("quantisation") or {}).get("imatrix") else None),
        ("bits_per_weight", f"{bits:.2f}" if bits else None),
        ("context_length", f.get("context_length")),
        ("size", f.get("size")),
        ("quantized_by", bill.get("quantized_by")),
        ("chat_template_sha256", bill.get("template_sha256")),
        ("licence_restricts", licence.get("use")),
        ("languages", ", ".join(bill.get("languages", ()))),
        ("whole", "yes" if row["ok"] else "no"),
        ("loads", row["load"]),
        *((f"findings_{level}", n) for level, n in (row["lint"] or {}).items() if n),
    ]
    if row["error"]:
        found.append(("error", reason(row)))
    return [(name, str(value)) for name, value in found if value not in (None, "", 0)]


def findings(row: Row) -> list[Mapping[str, str]]:
    """What the rules say of it, the worst first; what is wrong with its bytes before that."""
    broken = [
        {"rule": p["kind"], "severity": "error", "message": p["message"], "where": p["where"]} for p in row["problems"]
    ]
    return [*broken, *row["findings"]][:MOST]


@cache
def about_security() -> frozenset[str]:
    """Rules about what was put into a file to do harm: content that hides, templates that run code."""
    from gguftool.lint.rules import catalogue

    rooms = (".safety.content", ".template.code", ".template.hidden")
    return frozenset(r.id for r in catalogue() if r.check.__module__.endswith(rooms)) - {"not-a-model"}
