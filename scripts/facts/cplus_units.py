"""Functions, classes, macros and enumerations of a C++ file: what stands in it, and the rows of what is asked for."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from cplus import name_of
from cplus_statements import CPlusStatements
from cpp_operators import Unsupported
from source import Tables

Row = list[Any]


@dataclass
class Class:
    """Bases, fields as ``[name, value, code]``, methods and constructor as ``[parameters, rows]``.

    ``declared``: parameters of methods whose body stands elsewhere, with the defaults that only stand here.
    """

    bases: list[str] = field(default_factory=list)
    fields: list[list[str]] = field(default_factory=list)
    methods: dict[str, Row] = field(default_factory=dict)
    declared: dict[str, Row] = field(default_factory=dict)
    start: Row | None = None


def plain(text: str) -> str:
    """Without preprocessor lines; of a choice by the preprocessor both sides stay."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.M)


def enumerators(text: str) -> dict[str, dict[str, int]]:
    """Enumerations with their names and numbers; one without a name under the name of its first."""
    out: dict[str, dict[str, int]] = {}
    for m in re.finditer(r"\benum\s+(?:class\s+)?(\w*)\s*(?::\s*\w+\s*)?\{([^}]*)\}", text):
        numbers: dict[str, int] = {}
        at = 0
        for part in m[2].split(","):
            name, _, value = (p.strip() for p in part.partition("="))
            if not re.fullmatch(r"\w+", name):
                continue
            if value:
                known = {**{k: v for e in out.values() for k, v in e.items()}, **numbers}
                at = _number(value, known)
            numbers[name] = at
            at += 1
        if numbers:
            out[m[1] or next(iter(numbers))] = numbers
    return out


def _number(text: str, known: dict[str, int]) -> int:
    total = 0
    for part in text.strip("() ").split("|"):
        left, shift, right = part.strip("() ").partition("<<")
        left = left.strip()
        value = known[left] if left in known else int(left.rstrip("uU"), 0)
        total |= value << int(right.strip().rstrip("uU")) if shift else value
    return total


def macros(text: str) -> dict[str, tuple[list[str], str]]:
    """Macros that are expressions, with their parameters; texts and plain numbers are not among them."""
    out: dict[str, tuple[list[str], str]] = {}
    for m in re.finditer(r"^#define (\w+)(\(([\w, ]*)\))?[ \t]+(\(.*\))[ \t]*$", text, re.M):
        out[m[1]] = ([p.strip() for p in (m[3] or "").split(",") if p.strip()], m[4])
    return out


class Unit(CPlusStatements):
    """One file; ``places`` are the functions in it that have a body, with the token that opens their parameters."""

    def __init__(self, text: str, tables: Tables, outer: Any = None) -> None:
        super().__init__(text, tables, outer)
        self.places: dict[str, tuple[int, int]] = {}
        self.classes: dict[str, Class] = {}
        self.globals: dict[str, str] = {}
        self.last: Row = []

    def survey(self) -> None:
        """Find what stands in the file; classes are read at once."""
        self.skipped = getattr(self, "skipped", [])
        while self.peek()[0] != "end":
            self._top("")

    def _top(self, prefix: str) -> None:
        """One definition of the file, or of a class whose name is the prefix."""
        start, opened = self.at, -1
        depth = 0
        while self.peek()[0] != "end":
            kind, word, _ = self.peek()
            if kind == "op":
                if word == "(" and depth == 0 and opened < 0 and self.tokens[self.at - 1][0] == "id":
                    opened = self.at
                if depth == 0 and word in (";", "{", "}"):
                    break
                depth += (word in "([") - (word in ")]")
            self.next()
        words = [t[1] for t in self.tokens[start : self.at]]
        if self.eats("}") or self.eats(";"):
            self._constant(start, words)
            return
        if self.peek()[0] == "end":
            return
        if words[:1] in (["namespace"], ["extern"]):
            self.next()
        elif "enum" in words[:2] or (opened < 0 and "=" in words):
            self._balanced()
            if "enum" not in words[:2]:
                self._constant(start, words)
            self.eats(";")
        elif opened < 0 and "struct" in words:
            self._class(prefix, words)
        else:
            name = self.tokens[opened - 1][1] if opened > 0 else ""
            self.places.setdefault(prefix + name, (start, opened))
            self._balanced()
            self.eats(";")

    def _balanced(self) -> None:
        depth = 0
        while True:
            kind, word, _ = self.next()
            depth += (word in "([{") - (word in ")]}") if kind == "op" else 0
            if depth == 0 or kind == "end":
                return

    def _constant(self, start: int, words: list[str]) -> None:
        """``static constexpr int X = 8;``"""
        if "constexpr" not in words and words[:2] != ["static", "const"]:
            return
        end, self.at = self.at, start
        try:
            rows = self._declaration() or []
        except Unsupported:
            rows = []
        self.globals |= {row[1]: row[2] for row in rows if row[0] == "let"}
        self.at = end

    # -- classes

    def _class(self, prefix: str, words: list[str]) -> None:
        name = words[words.index("struct") + 1]
        made = self.classes[name] = Class()
        if ":" in words:
            made.bases = [name_of(w) for w in words[words.index(":") + 1 :] if w not in (",", "public")]
        self.needs("{")
        while not self.eats("}"):
            if self.peek()[1] in ("public", "private", "protected"):
                self.next()
                self.needs(":")
                continue
            if self.peek()[1] == "using":
                self._until(";")
                continue
            if self.peek()[1] == "struct" and self.peek(2)[1] in ("{", ":"):
                inner = []
                while not self.sees("{"):
                    inner.append(self.next()[1])
                self._class("", inner)
                continue
            self._member(name, made)
        if not self.eats(";"):
            self._until(";")

    def _member(self, owner: str, made: Class) -> None:
        self.skip_qualifiers()
        if self.eats("~"):
            self._to_end()
            return
        if self.peek()[1] == owner and self.peek(1)[1] == "(":
            self.next()
            made.start = self.constructor(owner) or made.start
            return
        at = self.at
        kind = self.type_here()
        if kind is None:
            self.at = at
            self._to_end()
            return
        if self.peek()[1] == "operator" or (self.peek()[0] == "id" and self.peek(1)[1] == "("):
            name = name_of(self.next()[1])
            if name == "operator":
                self._to_end()
                return
            found = self.function_here(f"{owner}::{name}", name)
            if found is None:
                made.declared[name] = self.last
            else:
                made.methods[f"{name}" if name not in made.methods else f"{name}/{len(found[0])}"] = self.returning(
                    found, kind
                )
            return
        while True:
            name, code, size = name_of(self.next()[1]), self.code(*kind), None
            if self.eats("["):
                size = self.expression()
                self.needs("]")
            value = self.fresh(*kind, size)
            if self.eats("="):
                given = self.expression()
                value = f"array_of({given}, {size})" if size else given
                fixed = re.match(r"array<.*,\s*(\d+)>", kind[0])
                value = f"array_of({given}, {fixed[1]})" if fixed and given != "[None]" else value
                value = f"array_of([], {fixed[1]}, None)" if fixed and given == "[None]" else value
            elif self.sees("{"):
                value = self.braced()
            made.fields.append([name, value, *([code] if code and size is None else [])])
            if self.eats(";"):
                return
            self.needs(",")

    def _to_end(self) -> None:
        """Behind a member that is not read."""
        while True:
            if self.eats(";"):
                return
            if self.sees("{"):
                self._balanced()
                self.eats(";")
                return
            self.next()

    # -- functions

    def function_here(self, full: str, name: str) -> Row | None:
        """Parameters and rows of the function whose parameters begin here; None for a declaration."""
        self.function = name
        parameters = self.last = self.parameters()
        while self.peek()[1] in ("const", "override", "noexcept"):
            self.next()
        if self.eats("="):
            self._until(";")
            return None
        if self.eats(";"):
            return None
        gaps = len(self.skipped)
        rows = self.block()
        self.skipped[gaps:] = [f"{full}: {gap}" for gap in self.skipped[gaps:]]
        return [parameters, rows]

    def constructor(self, owner: str) -> Row | None:
        """Parameters and rows of a constructor; ``super`` rows for its bases."""
        self.function = owner
        parameters = self.parameters()
        rows: list[Row] = []
        if self.eats(":"):
            while not self.sees("{"):
                name = name_of(self.next()[1])
                self.needs("(")
                given = self.arguments()
                base = name in self.structs
                rows.append(["super", name, given] if base else ["set", f"this.{name}", given[0] if given else "[]"])
                self.eats(",")
        elif self.eats(";"):
            return None
        return [parameters, rows + self.block()]

    def body_of(self, name: str) -> Row:
        """Parameters and rows of a function of `places`."""
        start, opened = self.places[name]
        short = name.rpartition("::")[2]
        self.at = opened
        if name.endswith(f"{short}::{short}"):
            return self.constructor(short) or [[], []]
        self.at = start
        kind = self.type_here()
        self.at = opened
        found = self.function_here(name, short)
        return self.returning(found or [[], []], kind)

    def returning(self, found: Row, kind: tuple[str, str] | None) -> Row:
        """A function with the type of what it gives, where that changes numbers."""
        code = self.code(*kind) if kind is not None else ""
        return [*found, code] if code in ("i", "u", "l", "z", "f", "b") else found
