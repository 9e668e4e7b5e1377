"""C++ expressions of programs that are run as they stand (`projectors.py`), in the words of the small machine.

An expression becomes one in Python's grammar: members with a dot, ``->`` as a dot, casts and constructors as calls.
What it means is the machine's business (`gguftool/facts/machine/cplus.py`), so nothing here knows what a program is
about.
"""

from __future__ import annotations

import ast
import json
import keyword
from typing import Any

from cpp_operators import Operators, Unsupported

Row = list[Any]
CODES = {
    "int": "i", "int32_t": "i", "uint32_t": "u", "unsigned": "u", "uint8_t": "B", "int64_t": "l", "long": "l",
    "size_t": "z", "uint64_t": "z", "float": "f", "double": "f", "bool": "b", "string": "s", "char": "c",
    "void": "v", "auto": "", "ptrdiff_t": "l", "float_t": "f",
}  # fmt: skip
"""How a value of a type is kept: ``i`` 32 bits with sign …; a pointer or a class is kept as it is."""
QUALIFIERS = frozenset("const static constexpr struct enum mutable inline virtual explicit volatile".split())
TEMPLATES = frozenset(
    "vector array map pair set unordered_set function unique_ptr make_unique static_cast reinterpret_cast const_cast "
    "max min numeric_limits".split()
)
CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})
ASSIGNS = {"=": "", "+=": "+", "-=": "-", "*=": "*", "/=": "/", "|=": "|", "&=": "&"}


def name_of(word: str) -> str:
    """A C++ name as one of Python's; ``h`` alone is the machine's word for hyperparameters."""
    word = word.removeprefix("std::").removeprefix("ggml::")
    if "::" in word:
        word = word.rpartition("::")[2]
    return word + "_" if keyword.iskeyword(word) or word == "h" else word


class CPlus(Operators):
    """Reads expressions; ``hoisted`` holds the lambdas met on the way, as rows to stand before the statement."""

    constants: dict[str, str]
    hoisted: list[Row]
    structs: frozenset[str] = frozenset()
    enums: frozenset[str] = frozenset()
    function = ""
    lambdas = 0

    # -- operators that the load map does not have

    def expression(self) -> str:
        left = self._either()
        if self.eats("?"):
            yes = self.expression()
            self.needs(":")
            return f"({yes} if {left} else {self.expression()})"
        return left

    def _bits(self) -> str:
        left = self._ands()
        while self.sees("|") or self.sees("^"):
            left = f"({left} {self.next()[1]} {self._ands()})"
        return left

    def _ands(self) -> str:
        return self._chain(("&",), self._equal)

    def _equal(self) -> str:
        return self._chain(("==", "!="), self._order)

    def _order(self) -> str:
        return self._chain(("<", ">", "<=", ">="), self._shift)

    def _shift(self) -> str:
        return self._chain(("<<", ">>"), self._sum)

    def _product(self) -> str:
        return self._chain(("*", "/", "%"), self._unary)

    def _unary(self) -> str:
        if self.eats("!"):
            return f"(not {self._unary()})"
        if self.eats("-"):
            return f"(-{self._unary()})"
        if self.eats("+") or self.eats("&") or self.eats("*"):
            return self._unary()
        if self.eats("sizeof"):
            return f"sizeof({', '.join(map(repr, self.raw_arguments()))})"
        at = self.at
        if self.eats("("):
            kind = self.type_here()
            if kind is not None and self.eats(")") and self._starts():
                value = self._unary()
                code = self.code(*kind)
                return f"cast({code!r}, {value})" if code else value
            self.at = at
        return self._postfix(self._primary())

    def _starts(self) -> bool:
        kind, word, _ = self.peek()
        return kind in ("id", "num", "str") or word in ("(", "-", "&", "*", "!")

    # -- types

    def known_type(self, word: str) -> bool:
        bare = word.removeprefix("std::").rpartition("::")[2]
        return bare in CODES or bare in self.structs or bare in self.enums or bare in TEMPLATES - CASTS - {"max", "min"}

    def type_here(self) -> tuple[str, str] | None:
        """A type at the cursor: its name and its stars; None leaves the cursor anywhere."""
        while self.peek()[1] in QUALIFIERS:
            self.next()
        kind, word, _ = self.peek()
        if kind != "id" or not self.known_type(word):
            return None
        self.next()
        word = word.removeprefix("std::").rpartition("::")[2]
        if word in ("unsigned", "long") and self.peek()[1] in ("int", "long", "char"):
            self.next()
        if self.sees("<"):
            word += self.template()
        stars = ""
        while self.peek()[1] in ("*", "&", "const", "&&"):
            stars += self.next()[1].replace("const", "")
        return word, stars

    def template(self) -> str:
        """``<…>`` at the cursor."""
        depth, out = 0, ""
        while True:
            _, word, _ = self.next()
            out += word
            depth += word.count("<") - word.count(">")
            if depth <= 0:
                return out

    @staticmethod
    def code(base: str, stars: str) -> str:
        return CODES.get(base, "") if "*" not in stars else ""

    # -- names and calls

    def _primary(self) -> str:
        kind, word, at = self.next()
        if kind == "num":
            return self._number(word)
        if kind == "str":
            while self.peek()[0] == "str" or self.constants.get(self.peek()[1], "").startswith("'"):
                if self.peek()[0] != "str":
                    word = word[:-1] + json.dumps(ast.literal_eval(self.constants[self.next()[1]]))[1:]
                else:
                    word = word[:-1] + self.next()[1][1:]
            return repr(json.loads(word))
        if word == "(":
            return self.in_brackets()
        if word == "{":
            self.at -= 1
            return self.braced()
        if word == "[":
            return self._lambda()
        if kind != "id":
            raise Unsupported(f"expression at {self.text[at:][:40]!r}")
        if word == "__func__":
            return repr(self.function)
        if word in self.constants:
            return self.constants[word]
        if word in ("nullptr", "NULL"):
            return "None"
        if word in ("true", "false"):
            return word.capitalize()
        return self._named(word)

    @staticmethod
    def _number(word: str) -> str:
        if word.startswith("0x"):
            return word.rstrip("uUlL")
        plain = word.rstrip("fFuUlL")
        return plain + "0" if plain.endswith(".") else plain

    def _named(self, word: str) -> str:
        bare = word.removeprefix("std::").rpartition("::")[2]
        if bare in TEMPLATES and self.sees("<"):
            self.at -= 1
            self.next()
            return self._templated(bare, self.template())
        if bare in CODES and self.sees("("):
            self.next()
            return f"cast({CODES[bare]!r}, {', '.join(self.arguments())})"
        if bare in self.structs and self.peek()[1] in ("(", "{"):
            if self.sees("{"):
                return f"make({bare!r}, {self.braced()})"
            self.next()
            return f"new({', '.join([repr(bare), *self.arguments()])})"
        name = name_of(word)
        if self.eats("("):
            return f"{name}({', '.join(self.arguments())})"
        return name

    def _templated(self, bare: str, what: str) -> str:
        inner = what[1:-1].removeprefix("std::")
        if bare in CASTS:
            self.needs("(")
            value = self.expression()
            self.needs(")")
            code = "" if "*" in inner else CODES.get(inner.removeprefix("const"), "")
            return f"cast({code!r}, {value})" if code else value
        if bare == "numeric_limits":
            for part in ("::", "max", "(", ")"):
                self.needs(part)
            return {"float": "FLT_MAX"}.get(inner, "INT32_MAX")
        if self.sees("{"):
            return self.braced()
        self.needs("(")
        given = self.arguments()
        if bare in ("make_unique", "unique_ptr"):
            return f"new({', '.join([repr(inner), *given])})"
        return f"{bare}({', '.join(given)})"

    def _postfix(self, left: str) -> str:
        while True:
            if self.eats(".") or self.eats("->"):
                name = name_of(self.next()[1])
                left = f"{left}.{name}"
                if self.eats("("):
                    left = f"{left}({', '.join(self.arguments())})"
            elif self.eats("["):
                index = self.expression()
                self.needs("]")
                left = f"{left}[{index}]"
            elif self.eats("("):
                left = f"invoke({', '.join([left, *self.arguments()])})"
            else:
                return left

    def _lambda(self) -> str:
        raise Unsupported("a lambda where no statement is read")
