"""The token list of a vocabulary as bytes, and its tokens by their text; nothing in it holds the model.

A large list has 262,144 tokens in 4 MB, and making an object of each takes longer than anything else that is asked of a
model. So the bytes stay as they are: a text is searched in them, and a token is found from the places that the parser
left. What takes an object of each is known already where the list is one that many models share (`sound`).
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from typing import Any

from gguftool.facts.tokens import ids
from gguftool.format import again
from gguftool.format.foresee import MERGES, TOKENS
from gguftool.format.header import Field
from gguftool.model.stringlist import StringList

_MOST = 1 << 27
"""Bytes that are searched for texts, after which a map is made: a search in 4 MB takes a millisecond, the map 80."""
_KEPT = 1 << 12
"""Texts of which it is kept where they are: rules ask for the same few names again and again."""
_OFTEN = 1 << 15
"""Places of a bracket that are looked at; where there are more, every text is searched."""
_MARKS = b"<", b"["
_WINDOW = 24
"""Bytes from a bracket on by which a text that has it inside is missed."""
_ZEROS = bytes(7)


class TokenList(StringList):
    """The tokens of a file.

    Attributes:
        told: what else was found out about them, by name.
    """

    def __init__(self, f: Field | None, data: bytes = b"", begin: int = 0, end: int = 0) -> None:
        super().__init__(f, data, begin, end)
        if f is not None and f.key == TOKENS and f.strings is not None:
            self.name = f.strings.name
        self.told: dict[str, Any] = {}
        self._searched = 0
        self._marked: dict[bytes, tuple[frozenset[bytes] | None, bytes | None]] = {}

    @cached_property
    def zero_bytes(self) -> int:
        """Zero bytes among them, lengths included."""
        return 7 * self.count if self.name else self.data.count(0, self.begin, self.end)

    @cached_property
    def different(self) -> AbstractSet[bytes]:
        """The tokens with their lengths; half the time and memory of the map."""
        found: set[bytes] = set()
        for some in self.chunks():
            found.update(some)
        return found

    @property
    def distinct(self) -> int:
        """Number of different ones."""
        return self.count if self.name else len(self.__dict__.get("by_record") or self.different)

    @cached_property
    def by_record(self) -> dict[bytes, int]:
        """Number of each; of equal ones the last one wins, as in llama.cpp's map. It stands for `different`, too."""
        self.__dict__.pop("different", None)
        return {record: i for i, record in enumerate(record for some in self.chunks() for record in some)}

    @cached_property
    def _found(self) -> dict[str, int | None]:
        """Texts that were asked for, and their numbers: at first those that are known of a known list."""
        return dict(ids(self.name)) if self.name else {}

    def record(self, text: str) -> bytes:
        """As it would stand in the list."""
        data = text.encode("utf-8", "surrogateescape")
        return self.prefix.pack(len(data)) + data

    def has(self, text: str) -> bool:
        """Whether one of them has this text."""
        if text in self._found:
            return self._found[text] is not None
        record = self.record(text)
        if "different" in self.__dict__:
            return record in self.different
        if self.name and (some := self._like(record)) is not None:
            return record in some
        return self.find(text) is not None

    def find(self, text: str) -> int | None:
        """Number of a text, of equal ones the last; None when it is not there."""
        if text not in self._found:
            if len(self._found) >= _KEPT:
                self._found.clear()
            self._found[text] = self._find(text)
        return self._found[text]

    def _find(self, text: str) -> int | None:
        record = self.record(text)
        if "by_record" in self.__dict__:
            return self.by_record.get(record)
        if not text and self.name:
            return None
        # What has no text may stand across two others at any place, and whoever asks for it counts them next.
        if not text or "different" in self.__dict__:
            if record not in self.different:
                return None
        elif (some := self._like(record)) is not None and record not in some:
            return None
        if self._searched > _MOST:
            return self.by_record.get(record)
        # The last one, unless all are known to be different: that of a special token is often near the beginning.
        once = self.name or ("different" in self.__dict__ and self.distinct == self.count)
        begin, end = self.begin, self.end
        at = self.data.find(record, begin, end) if once else self.data.rfind(record, begin, end)
        self._searched += at - begin if at >= 0 and once else end - begin
        if at < 0:
            return None
        found = self.index(at)
        # Inside a token, which then has zero bytes: nothing that a search is worth.
        return self.by_record.get(record) if found is None else found

    def _like(self, record: bytes) -> frozenset[bytes] | None:
        """Records among which this one must be; None when that is not known.

        Nearly all names that are asked for have a bracket, and few other tokens do.
        """
        size = self.prefix.size
        if size != 8 or self.big_endian or len(record) > 255 + size:
            return None
        at, mark = next(((at, mark) for mark in _MARKS if (at := record.find(mark, size)) >= 0), (0, b""))
        if not at:
            return None
        if mark not in self._marked:
            self._marked[mark] = self._around(mark)
        beginning, inside = self._marked[mark]
        if at == size:
            return beginning
        # Behind a zero byte it may have been taken for a beginning.
        if inside is None or not record[at - 1]:
            return None
        return None if record[at : at + _WINDOW] in inside else frozenset()

    def _around(self, mark: bytes) -> tuple[frozenset[bytes] | None, bytes | None]:
        """What looks like records that begin with a mark, and what stands where it is not at the beginning."""
        data, end, found, inside = self.data, self.end, set(), []
        at, left = data.find(mark, self.begin, end), _OFTEN
        while at >= 0:
            if data.startswith(_ZEROS, at - 7) and at - self.begin > 7:
                found.add(data[at - 8 : min(at + data[at - 8], end)])
            else:
                inside.append(data[at : min(at + _WINDOW, end)])
            left -= 1
            if not left:
                return None, None
            at = data.find(mark, at + 1, end)
        return frozenset(found), b"".join(inside)


def token_list(f: Field | None) -> TokenList:
    """The token list in a field; None gives an empty one."""
    return TokenList(None) if f is None else again.of(f, "tokens", lambda *where: TokenList(f, *where))


def split_strings(f: Field) -> list[bytes]:
    """The strings of an array field as bytes, each with its length prefix."""
    return StringList(f, *f.stands).records


def unpaired(records: Sequence[bytes], head: int) -> list[int]:
    """Merges that are not two pieces with a blank between them; ``head``: bytes of a length."""
    return [i for i, r in enumerate(records) if r.find(b" ", head + 1) < 0 or r[-1] == 32]


def sound(f: Field) -> bool:
    """What holds for every list that has a digest in `gguftool.format.vocabularies.KNOWN`.

    Every token has a text, no two are equal, and of zero bytes there are only the seven of each length. Every merge is
    two pieces.
    """
    records = split_strings(f)
    if f.key == MERGES:
        return not unpaired(records, f.layout.length_size)
    return len(set(records)) == len(records) and all(len(r) > 8 and r.count(0) == 7 for r in records)
