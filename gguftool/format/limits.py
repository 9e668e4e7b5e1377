"""How much of a header is read, also where the file has more: a sparse file of 4 KB can state billions of records.

Above what any real model has. What llama.cpp refuses anyway (an empty or repeated key, a repeated tensor name, an array
of arrays: `gguf.cpp:gguf_init_from_reader`, b11434) is read as long as it is little enough to be mended by hand. Of its
own limits (a string of 1 GiB, 2^30 elements of an array, both since b8146) none keeps a file small.
"""

from __future__ import annotations

from gguftool.records import dataclass, field

HEADER = 1 << 27
"""A header longer than this is refused, in bytes."""
FIELDS = 1 << 16
TENSORS = 1 << 17
STRINGS = 1 << 21
"""Strings in arrays, of all fields together; the largest known vocabulary has 262,144 tokens and 514,906 merges."""
STRING_BYTES = 1 << 25
"""Bytes of all strings in arrays; 262,144 tokens and their merges take 15 MB."""
NUMBERS = 1 << 23
"""Numbers and truth values in arrays, of all fields together."""
NAMES = 1 << 23
"""Bytes of all keys and tensor names together."""
NESTED = 1 << 12
"""Arrays inside arrays, of all fields together."""
FORGIVEN = 64
"""Records of one kind that llama.cpp refuses, and that are read all the same."""


class Over(Exception):
    """There is more of it than is read; ``kind`` of the problem, and the message."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message


@dataclass(slots=True)
class Counted:
    """What was read so far, held against the limits; every method raises `Over`."""

    strings: int = 0
    string_bytes: int = 0
    numbers: int = 0
    names: int = 0
    nested: int = 0
    empty: int = 0
    repeated: int = 0
    seen: set[str] = field(default_factory=set)

    def key(self, key: str, n: int) -> None:
        """A key of ``n`` bytes was read."""
        self._name(n)
        if not key:
            self.empty += 1
            if self.empty > FORGIVEN:
                raise Over("key-empty", f"more than {FORGIVEN} keys are empty")
        elif key in self.seen:
            self.repeated += 1
            if self.repeated > FORGIVEN:
                raise Over("key-duplicate", f"more than {FORGIVEN} keys stand more than once")
        self.seen.add(key)

    def tensors(self) -> None:
        """The keys are over, the tensors begin."""
        self.repeated = 0
        self.seen.clear()

    def tensor(self, name: str, n: int) -> None:
        """The name of a tensor, of ``n`` bytes, was read."""
        self._name(n)
        if name in self.seen:
            self.repeated += 1
            if self.repeated > FORGIVEN:
                raise Over("tensor-duplicate", f"more than {FORGIVEN} tensors have the name of another")
        self.seen.add(name)

    def elements(self, n: int, what: str) -> None:
        """An array of ``n`` is about to be stepped over: ``strings``, ``arrays`` or numbers."""
        if what == "strings":
            self.strings += n
            self._most(self.strings, STRINGS, "strings in arrays")
        elif what == "arrays":
            self.nested += n
            if self.nested > NESTED:
                what = f"{self.nested:,} arrays inside arrays, more than the {NESTED:,} that are read"
                raise Over("nested-array", what)
        else:
            self.numbers += n
            self._most(self.numbers, NUMBERS, "numbers in arrays")

    def strings_of(self, n: int) -> None:
        """Strings of ``n`` bytes in an array were stepped over."""
        self.string_bytes += n
        self._most(self.string_bytes, STRING_BYTES, "bytes of strings in arrays")

    def _name(self, n: int) -> None:
        self.names += n
        self._most(self.names, NAMES, "bytes of keys and tensor names")

    def _most(self, n: int, limit: int, what: str) -> None:
        if n > limit:
            raise Over("too-many", f"{n:,} {what}, more than the {limit:,} that are read")
