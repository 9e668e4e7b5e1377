"""Values of programs in C++ that the machine runs: objects, vectors, maps, strings, and what their members do.

A vector is a list, a map a dict, a pointer the thing itself or None. What C++ leaves undefined ends as it does there:
a null pointer and an empty vector kill the process; anything else that cannot be told is `Unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gguftool.facts.machine.cnumbers import coerced
from gguftool.facts.machine.ends import Abort, Unknown

NULL_POINTER = "null pointer (SIGSEGV)"
_ABSENT: Any = object()


class Scope(dict[str, Any]):
    """Names of one block; what is not among them is asked of the block around it."""

    __slots__ = ("up",)

    def __init__(self, up: Scope | None = None) -> None:
        super().__init__()
        self.up = up

    def __missing__(self, name: str) -> Any:
        place: Scope | None = self
        while place is not None:
            found = place.own(name)
            if found is not _ABSENT:
                return found
            place = place.up
        if name.endswith("()"):
            return self[name[:-2]]  # a function kept in a variable
        raise KeyError(name)

    def own(self, name: str) -> Any:
        """What this block itself knows under that name."""
        return dict.get(self, name, _ABSENT)

    def known(self, name: str) -> Any:
        """The value of a variable, None for one that is not there."""
        try:
            return self[name]
        except KeyError:
            return None

    def assign(self, name: str, value: Any) -> None:
        """Give the nearest variable of that name another value."""
        place: Scope | None = self
        while place is not None:
            if dict.__contains__(place, name):
                place.keep(name, value)
                return
            place = place.up
        dict.__setitem__(self, name, value)

    def keep(self, name: str, value: Any) -> None:
        """Give a variable of this very block a value."""
        dict.__setitem__(self, name, value)


class Thing(Scope):
    """An object of a class: its members, and its methods bound to it.

    Attributes:
        kind: name of the class.
        methods: finds a method by name and number of arguments.
    """

    __slots__ = ("codes", "kind", "methods")

    def __init__(self, kind: str, up: Scope, methods: Callable[[Thing, str], Any]) -> None:
        super().__init__(up)
        self.kind = kind
        self.methods = methods
        self.codes: dict[str, str] = {}
        dict.__setitem__(self, "this", self)

    def own(self, name: str) -> Any:
        found = dict.get(self, name, _ABSENT)
        if found is _ABSENT and name.endswith("()"):
            bound = self.methods(self, name[:-2])
            return _ABSENT if bound is None else bound
        return found

    def keep(self, name: str, value: Any) -> None:
        code = self.codes.get(name)
        dict.__setitem__(self, name, coerced(code, value) if code else value)

    def __bool__(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__  # type: ignore[assignment]


class Entry:
    """What `find` of a map gives."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


_PLAIN = (int, float, str, bytes, list, dict, set, tuple)
"""What Python knows members of that C++ does not."""


def member(thing: Any, name: str) -> Any:
    """``thing.name`` or ``thing->name``."""
    if thing is None:
        raise Abort(NULL_POINTER)
    if isinstance(thing, Thing):
        found = dict.get(thing, name, _ABSENT)
        if found is _ABSENT:
            raise Unknown(f"{thing.kind} has no member {name} here")
        return found
    if isinstance(thing, list) and name in ("first", "second"):
        return thing[name == "second"]
    if isinstance(thing, _PLAIN):
        raise Unknown(f"no member {name} here")
    try:
        return getattr(thing, name)
    except AttributeError:
        raise Unknown(f"no member {name} here") from None


def item(items: Any, index: Any) -> Any:
    """``items[index]``."""
    if items is None:
        raise Abort(NULL_POINTER)
    if isinstance(items, dict):
        return items.get(index)
    if isinstance(items, Sequence) and 0 <= index < len(items):
        return items[index]
    if isinstance(items, Vector) and not items:
        raise Abort(NULL_POINTER)
    raise Unknown("the load map reads an array beyond its end")


class Vector(list[Any]):
    """A vector that C++ keeps on the heap: an empty one has no memory at all.

    Attributes:
        fresh: makes an element, where they are objects. A file may ask for many that are never looked at, so each is
            made when it is.
    """

    __slots__ = ("fresh",)

    def __init__(self, values: Any = (), fresh: Callable[[], Any] | None = None) -> None:
        super().__init__(values)
        self.fresh = fresh

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        if found is _ABSENT and self.fresh is not None:
            found = self[index] = self.fresh()
        return found

    def __iter__(self) -> Iterator[Any]:
        return super().__iter__() if self.fresh is None else (self[i] for i in range(len(self)))


def store(thing: Any, name: str, value: Any) -> None:
    """``thing.name = value``."""
    if thing is None:
        raise Abort(NULL_POINTER)
    if isinstance(thing, Thing):
        thing.keep(name, value)
    else:
        setattr(thing, name, value)


def put(items: Any, index: Any, value: Any) -> None:
    """``items[index] = value``."""
    if items is None:
        raise Abort(NULL_POINTER)
    if isinstance(items, dict) or 0 <= index < len(items):
        items[index] = value
    else:
        raise Unknown("the program writes beyond the end of an array")


def method(thing: Any, name: str, given: list[Any]) -> Any:
    """``thing.name(…)``."""
    if thing is None:
        raise Abort(NULL_POINTER)
    if isinstance(thing, Thing):
        bound = thing.own(f"{name}()")
        if bound is _ABSENT:
            bound = dict.get(thing, name)
        if bound is None:
            raise Abort(NULL_POINTER)
        return bound(*given)
    known = _METHODS.get(name)
    if known is None:
        raise Unknown(f"no method {name} here")
    return known(thing, *given)


def _resize(v: list[Any], n: int, fill: Any = None) -> None:
    if n < 0 or n > 1 << 40:
        raise Unknown("a vector of a length that no memory holds")
    if n > 1 << 20:
        raise Unknown("a vector too long to follow")
    del v[n:]
    made_later = isinstance(v, Vector) and v.fresh is not None
    v.extend([_ABSENT if made_later else fill] * (n - len(v)))


def _assign(v: list[Any], first: Any, last: Any) -> None:
    v[:] = [last] * first if isinstance(first, int) else first


def _find(where: Any, key: Any) -> Any:
    return Entry(key, where[key]) if key in where else None


_METHODS: dict[str, Callable[..., Any]] = {
    "size": len,
    "length": len,
    "empty": lambda v: not v,
    "clear": lambda v: v.clear(),
    "c_str": lambda v: v,
    "str": lambda v: v,
    "data": lambda v: v,
    "get": lambda v: v,
    "begin": lambda v: v,
    "end": lambda v: None,
    "at": item,
    "front": lambda v: item(v, 0),
    "back": lambda v: item(v, len(v) - 1),
    "push_back": lambda v, x: v.append(x),
    "emplace_back": lambda v, *x: v.append(x[0] if len(x) == 1 else list(x)),
    "reserve": lambda v, n: None,
    "resize": _resize,
    "assign": _assign,
    "insert": lambda v, x: v.append(x),
    "find": _find,
    "count": lambda v, x: int(x in v),
}
"""Methods of vectors, maps, sets and strings."""
