"""Regular expressions that are compiled when they are first used.

A command loads some hundred of them and uses a few; compiling one takes 0.1 ms and more. Type checkers are given
`re.compile` itself, and an object of `regex` has what a compiled one has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from re import compile as regex
else:
    import re

    _METHODS = "findall", "finditer", "fullmatch", "match", "search", "split", "sub", "subn"
    _FACTS = "flags", "groupindex", "groups", "pattern"

    class _Later:
        # The methods of the compiled expression stand in slots of their own from the first use on: a call costs what
        # it costs without this class.
        __slots__ = ("_flags", "_text", *_METHODS, *_FACTS)

        def __init__(self, text, flags):
            self._text, self._flags = text, flags

        def __getattr__(self, name):
            if name not in _METHODS and name not in _FACTS:
                raise AttributeError(name)
            compiled = re.compile(self._text, self._flags)
            for each in (*_METHODS, *_FACTS):
                setattr(self, each, getattr(compiled, each))
            return getattr(compiled, name)

        def __repr__(self):
            return f"regex({self._text!r}, {self._flags!r})"

    def regex(pattern, flags=0):
        """A regular expression; as `re.compile`, but an error in it is told at the first use."""
        return _Later(pattern, flags)


__all__ = ["regex"]
