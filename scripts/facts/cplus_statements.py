"""C++ statements, functions and classes of programs that are run as they stand, as rows.

Rows: ``let name value code``, ``lets names value``, ``set place value``, ``do value``, ``if``, ``for init test step
body``, ``foreach name values body``, ``while``, ``lambda name parameters body``, ``return``, ``break``, ``continue``,
``fail words``, ``assert test words``, ``abort words``, ``warn words``. ``skipped`` says what could not be read.
"""

from __future__ import annotations

import re
from typing import Any

from cplus import ASSIGNS, QUALIFIERS, CPlus, name_of
from cpp_ends import Ends
from cpp_operators import Unsupported

Row = list[Any]
SILENT = frozenset("LOG_INF LOG_DBG LOG_TRC LOG_CNT GGML_UNUSED UNUSED memcpy memset assert static_assert".split())
ENDLESS = "True"


class CPlusStatements(Ends, CPlus):
    """Reads bodies; one parser for one function."""

    skipped: list[str]

    def rows(self) -> list[Row]:
        self.skipped = getattr(self, "skipped", [])
        out: list[Row] = []
        while not self.sees("}") and self.peek()[0] != "end":
            out += self.guarded()
        return out

    def guarded(self) -> list[Row]:
        """A statement, with its lambdas before it."""
        outer, self.hoisted = getattr(self, "hoisted", []), []
        start = self.at
        try:
            rows = self.statement()
            return [*self.hoisted, *rows]
        except Unsupported as gap:
            self.skipped.append(f"{self.function}: {gap}")
            self._skip(start)
            return [["unknown", str(gap)[:80]]]
        finally:
            self.hoisted = outer

    def _skip(self, start: int) -> None:
        self.at, depth = start, 0
        while self.peek()[0] != "end":
            kind, word, _ = self.next()
            depth += (word in "([{") - (word in ")]}") if kind == "op" else 0
            if kind == "op" and depth == 0 and word in (";", "}") and not self.sees("else"):
                return

    def block(self) -> list[Row]:
        if not self.eats("{"):
            return self.guarded()
        out = self.rows()
        self.needs("}")
        return out

    def statement(self) -> list[Row]:
        if self.eats(";"):
            return []
        word = self.peek()[1]
        if word == "{":
            inner = self.block()
            return [["block", inner]] if inner else []
        special = getattr(self, f"_do_{word}", None)
        if special is not None and self.peek()[0] == "id":
            self.next()
            return special()  # type: ignore[no-any-return]
        if word in SILENT or word in ("std::memcpy", "std::sort"):
            self.next()
            self.raw_arguments()
            self.needs(";")
            return []
        if word == "using":
            self._skip(self.at)
            return []
        declared = self._declaration()
        return declared if declared is not None else self._simple(";")

    def _simple(self, end: str) -> list[Row]:
        """An assignment or a call, up to that word."""
        for op in ("++", "--"):
            if self.eats(op):
                place = self.expression()
                self.needs(end)
                return [["set", place, f"({place} {op[0]} 1)"]]
        left = self.expression()
        word = self.peek()[1]
        if word in ("++", "--"):
            self.next()
            self.needs(end)
            return [["set", left, f"({left} {word[0]} 1)"]]
        if word in ASSIGNS and self.peek()[0] == "op":
            self.next()
            value = self.expression()
            if self.sees("="):
                self.next()
                value2 = self.expression()
                self.needs(end)
                return [["set", value, value2], ["set", left, value]]
            self.needs(end)
            return [["set", left, f"({left} {ASSIGNS[word]} {value})" if ASSIGNS[word] else value]]
        self.needs(end)
        return [["do", left]]

    # -- declarations

    def _declaration(self) -> list[Row] | None:
        at = self.at
        kind = self.type_here()
        if kind is None or self.peek()[0] not in ("id", "op") or not self._declares(kind):
            self.at = at
            return None
        if self.eats("["):  # auto [a, b] = …
            names = []
            while not self.eats("]"):
                names.append(name_of(self.next()[1]))
                self.eats(",")
            self.needs("=")
            value = self.expression()
            self.needs(";")
            return [["lets", names, value]]
        out: list[Row] = []
        while True:
            out += self._declarator(*kind)
            if self.eats(";"):
                return out
            self.needs(",")
            while self.peek()[1] in ("*", "&"):
                self.next()

    def _declares(self, kind: tuple[str, str]) -> bool:
        if kind[0] == "auto" and self.sees("["):
            return True
        return self.peek()[0] == "id" and self.peek(1)[1] in ("=", ";", "{", "(", "[", ",", ":")

    def _declarator(self, base: str, stars: str) -> list[Row]:
        name, code = name_of(self.next()[1]), self.code(base, stars)
        size = None
        if self.eats("["):
            size = "" if self.sees("]") else self.expression()
            self.needs("]")
        if self.eats("="):
            value = self.expression()
            if size:
                value = f"array_of({value}, {size})"
            elif value.startswith("[") and base in self.structs and not stars:
                value = f"make({base!r}, {value})"
            return [["let", name, value, *([code] if code and size is None else [])]]
        if self.sees("{"):
            value = self.braced()
            return [["let", name, f"make({base!r}, {value})" if base in self.structs else value]]
        if self.eats("("):
            given = self.arguments()
            if base in self.structs:
                return [["let", name, f"new({', '.join([repr(base), *given])})"]]
            return [["let", name, f"vector({', '.join(given)})" if base.startswith("vector") else given[0]]]
        return [["let", name, self.fresh(base, stars, size)]]

    def fresh(self, base: str, stars: str, size: str | None) -> str:
        """What a variable without a value starts with."""
        if size is not None:
            return f"array_of([], {size})"
        if "*" in stars or "&" in stars:
            return "None"
        if base in self.structs:
            return f"new({base!r})"
        fixed = re.match(r"array<.*,\s*(\d+)>", base)
        if fixed:
            return f"array_of([], {fixed[1]}{', None' if '*' in base else ''})"
        inner = re.fullmatch(r"vector<(?:\w+::)?(\w+)>", base)
        if inner and inner[1] in self.structs:
            return f"objects({inner[1]!r})"
        if base.startswith(("vector", "unordered_set", "set")):
            return "[]"
        if base.startswith("map"):
            return "mapping()"
        return {"string": "''", "float": "0.0", "double": "0.0", "bool": "False"}.get(
            base, "None" if base.startswith(("function", "unique_ptr")) else "0"
        )

    # -- control flow

    def _do_if(self) -> list[Row]:
        self.needs("(")
        before = self._declaration_in_condition()
        test = self.expression()
        self.needs(")")
        yes, no = self.block(), []
        if self.eats("else"):
            no = self.block()
        rows = [["if", test, yes, *([no] if no else [])]]
        return [["block", [*before, *rows]]] if before else rows

    def _declaration_in_condition(self) -> list[Row]:
        if self.peek()[1] not in ("const", "auto"):
            return []
        found = self._declaration()
        if found is None:
            raise Unsupported("declaration in a condition")
        return found

    def _do_for(self) -> list[Row]:
        self.needs("(")
        at = self.at
        kind = self.type_here()
        if kind is not None and self.peek()[0] == "id" and self.peek(1)[1] == ":":
            name = name_of(self.next()[1])
            self.needs(":")
            values = self.expression()
            self.needs(")")
            return [["foreach", name, values, self.block()]]
        if kind is not None and self.sees("["):
            raise Unsupported("a loop over pairs")
        self.at = at
        first = [] if self.eats(";") else self._declaration()
        if first is None:
            first = self._simple(";")
        test = ENDLESS if self.sees(";") else self.expression()
        self.needs(";")
        step = [] if self.eats(")") else self._simple(")")
        return [["for", first, test, step, self.block()]]

    def _do_while(self) -> list[Row]:
        self.needs("(")
        test = self.expression()
        self.needs(")")
        return [["for", [], test, [], self.block()]]

    def _do_switch(self) -> list[Row]:
        self.needs("(")
        value = self.expression()
        self.needs(")")
        self.needs("{")
        cases: list[Row] = []
        otherwise: list[Row] = []
        while not self.eats("}"):
            labels, default = [], False
            while self.sees("case") or self.sees("default"):
                if self.next()[1] == "case":
                    labels.append(self.expression())
                else:
                    default = True
                self.needs(":")
            rows: list[Row] = []
            while not (self.sees("case") or self.sees("default") or self.sees("}")):
                rows += self._case_body()
            if default:
                otherwise = rows
            if labels:
                cases.append([labels, rows])
        return [["switch", value, cases, otherwise]]

    def _case_body(self) -> list[Row]:
        if self.eats("break"):
            self.needs(";")
            return []
        if not self.sees("{"):
            return self.guarded()
        self.next()
        rows: list[Row] = []
        while not self.eats("}"):
            rows += self._case_body()
        return [["block", rows]] if any(r[0] in ("let", "lets", "lambda") for r in rows) else rows

    def _do_return(self) -> list[Row]:
        if self.eats(";"):
            return [["return", "None"]]
        value = self.expression()
        self.needs(";")
        return [["return", value]]

    def _do_break(self) -> list[Row]:
        self.needs(";")
        return [["break"]]

    def _do_continue(self) -> list[Row]:
        self.needs(";")
        return [["continue"]]

    def _do_GGML_ABORT(self) -> list[Row]:
        raw = self._call()
        return [["abort", f"string_format({', '.join(self.translated(x) for x in raw)})"]]

    def _do_LOG_WRN(self) -> list[Row]:
        raw = self._call()
        return [["warn", f"string_format({', '.join(self.translated(x) for x in raw)})"]]

    def translated(self, text: str) -> str:
        inner = type(self)(text, self.tables, self)
        inner.function, inner.structs, inner.enums = self.function, self.structs, self.enums
        return inner.whole()

    # -- lambdas

    def parameters(self) -> list[list[str]]:
        """``(type name = default, …)``: name, code and default of each."""
        self.needs("(")
        out: list[list[str]] = []
        while not self.eats(")"):
            if self.eats("."):
                continue
            if self.peek()[0] == "end":
                raise Unsupported("parameters without an end")
            kind = self.type_here()
            if kind is None:
                while self.peek(1)[1] not in (",", ")", "="):
                    self.next()
                kind = ("", "*")
            name = name_of(self.next()[1]) if self.peek()[0] == "id" else f"_{len(out)}"
            if self.eats("["):
                self._until("]")
                kind = (kind[0], "*")
            given = [self.expression()] if self.eats("=") else []
            made = kind[0] in self.structs and "*" not in kind[1]
            out.append([name, f"={kind[0]}" if made else self.code(*kind), *given])
            self.eats(",")
        return out

    def _until(self, word: str) -> None:
        while not self.eats(word):
            if self.next()[0] == "end":
                raise Unsupported(f"no {word}")

    def _lambda(self) -> str:
        self._until("]")
        parameters = self.parameters()
        while not self.sees("{"):
            self.next()
        name = f"lambda_{self.lambdas}"
        self.lambdas += 1
        self.hoisted.append(["lambda", name, parameters, self.block()])
        return name

    def skip_qualifiers(self) -> None:
        while self.peek()[1] in QUALIFIERS or self.peek()[1] in ("override", "noexcept"):
            self.next()
