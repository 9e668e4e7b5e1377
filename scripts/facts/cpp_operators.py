"""Tokens and operators of C++ expressions, translated into the language of the load map."""

from __future__ import annotations

import re
from collections.abc import Callable

from source import Tables
from words import CONSTANTS, METHODS

TOKEN = re.compile(
    r'\s*(?:(?P<str>"(?:\\.|[^"\\])*")'
    r"|(?P<num>0x[0-9a-fA-F]+[uUlL]*|\d+\.?\d*(?:e[+-]?\d+)?[fFuUlL]*)"
    r"|(?P<id>[A-Za-z_]\w*(?:::[A-Za-z_~]\w*)*)"
    r"|(?P<op><<=|>>=|->|\+\+|--|&&|\|\||==|!=|<=|>=|\+=|-=|\*=|/=|\|=|&=|<<|>>|::|[-+*/%&|^!~<>=?:;,.(){}\[\]']))"
)
CASTS = {"int", "int64_t", "uint32_t", "int32_t", "float", "double", "size_t", "uint64_t", "llama_token"}
CASTS |= {"std::string", "bool", "*"}


class Unsupported(Exception):
    """A construct the parser does not read."""


class Operators:
    """A cursor over the tokens of one function body.

    Attributes:
        alias: names that stand for a layer (``auto & layer = layers[i]``): its number and the path below it.
        types: C++ types of local names.
        widths: for translated expressions, ``u``/``i`` (32 bits), ``c`` constant, ``l`` 64 bits.
        procs: names of lambdas.
    """

    def __init__(self, text: str, tables: Tables, outer: Operators | None = None) -> None:
        self.text, self.tables = text, tables
        self.tokens = self._tokens(text.rstrip())
        self.at = 0
        self.alias: dict[str, tuple[str, tuple[str, ...]]] = outer.alias if outer else {}
        self.types: dict[str, str] = outer.types if outer else {}
        self.widths: dict[str, str] = outer.widths if outer else {}
        self.procs: dict[str, list[str]] = outer.procs if outer else {}
        self.constants: dict[str, str] = outer.constants if outer else CONSTANTS | tables.constants

    @staticmethod
    def _tokens(text: str) -> list[tuple[str, str, int]]:
        out, at = [], 0
        while at < len(text):
            m = TOKEN.match(text, at)
            if m is None:
                raise Unsupported(f"token {text[at : at + 30]!r}")
            kind = m.lastgroup or ""
            out.append((kind, m[kind], m.start(kind)))
            at = m.end()
        return [*out, ("end", "", len(text))]

    # -- tokens

    def peek(self, n: int = 0) -> tuple[str, str, int]:
        return self.tokens[min(self.at + n, len(self.tokens) - 1)]

    def next(self) -> tuple[str, str, int]:
        self.at += 1
        return self.tokens[self.at - 1]

    def sees(self, word: str) -> bool:
        return self.peek()[1] == word and self.peek()[0] != "str"

    def eats(self, word: str) -> bool:
        if self.sees(word):
            self.at += 1
            return True
        return False

    def needs(self, word: str) -> None:
        if not self.eats(word):
            raise Unsupported(f"{word} before {self.text[self.peek()[2] :][:60]!r}")

    def in_brackets(self) -> str:
        """What follows a bracket up to the one that closes it."""
        inner = self.expression()
        self.needs(")")
        return inner if re.fullmatch(r"\(.*\)|[\w.]+", inner) else f"({inner})"

    # -- operators, loosest first

    def expression(self) -> str:
        condition = self._either()
        if self.eats("?"):
            yes = self.expression()
            self.needs(":")
            return f"({yes} if {condition} else {self.expression()})"
        return condition

    def _either(self) -> str:
        left = self._both()
        while self.eats("||"):
            left = f"({left} or {self._both()})"
        return left

    def _both(self) -> str:
        left = self._bits()
        while self.eats("&&"):
            if self.peek()[0] == "str":  # the text of an assertion
                while self.peek()[0] == "str":
                    self.next()
                continue
            left = f"({left} and {self._bits()})"
        return left

    def _bits(self) -> str:
        left = self._equal()
        while self.eats("|"):
            left = f"({left} | {self._equal()})"
        return left

    def _equal(self) -> str:
        left = self._order()
        while self.peek()[0] == "op" and self.peek()[1] in ("==", "!="):
            op = self.next()[1]
            right = self._order()
            if "None" in (left, right):
                value = left if right == "None" else right
                left = f"(not {value})" if op == "==" else f"bool({value})"
            else:
                left = f"({left} {op} {right})"
        return left

    def _order(self) -> str:
        return self._chain(("<", ">", "<=", ">="), self._sum)

    def _sum(self) -> str:
        return self._chain(("+", "-"), self._product)

    def _chain(self, ops: tuple[str, ...], below: Callable[[], str]) -> str:
        left = below()
        while self.peek()[0] == "op" and self.peek()[1] in ops:
            op = self.next()[1]
            left = f"({left} {op} {below()})"
        return left

    def width(self, text: str) -> str:
        """How wide a translated expression is in C++."""
        text = text.strip()
        if text in self.widths:
            return self.widths[text]
        call = re.match(r"(\w+)\(", text)
        if re.fullmatch(r"\d+", text):
            return "c"
        if re.fullmatch(r"h\.\w+", text) or (call and call[1] in METHODS):
            return "u"
        if re.fullmatch(r"\w+", text):
            kind = self.types.get(text)
            if kind is None and text in ("n_layer", "n_layer_all", "n_layer_nextn"):
                return "i"
            return {"uint32_t": "u", "int": "i", "int32_t": "i"}.get(kind or "", "l")
        return "l"

    def _product(self) -> str:
        left = self._unary()
        while self.peek()[0] == "op" and self.peek()[1] in ("*", "/", "%", "&"):
            op = self.next()[1]
            right = self._unary()
            real = re.search(r"\d\.\d|sqrt|f_|float", left + right)
            widths = {self.width(left), self.width(right)}
            out = f"({left} {op if op != '/' or real else '//'} {right})"
            if op == "*" and widths <= {"u", "i"} and not real:
                kind = "u" if "u" in widths else "i"  # the product wraps at 32 bits
                out = f"{kind}32({out})"
                self.widths[out] = kind
            elif widths <= {"u", "i", "c"}:
                self.widths[out] = "u" if "u" in widths else "i" if "i" in widths else "c"
            left = out
        return left

    def _unary(self) -> str:
        if self.eats("!"):
            return f"(not {self._unary()})"
        if self.eats("-"):
            return f"(-{self._unary()})"
        if self.sees("&") or self.sees("*"):
            self.next()
            return self._unary()
        if self.sees("("):
            j, words = self.at + 1, []
            while self.tokens[j][0] == "id" or self.tokens[j][1] == "*":
                words.append(self.tokens[j][1])
                j += 1
            if words and self.tokens[j][1] == ")" and set(words) <= CASTS:
                self.at = j + 1
                return self._cast(words, self._unary())
        return self._primary()

    @staticmethod
    def _cast(words: list[str], value: str) -> str:
        narrow = words == ["int32_t"] or (words == ["int"] and re.fullmatch(r"h\.\w+", value))
        return f"i32({value})" if narrow else value

    # -- arguments

    def arguments(self, close: str = ")") -> list[str]:
        out: list[str] = []
        while not self.eats(close):
            out.append(self.braced() if self.sees("{") else self.expression())
            if not self.sees(close):
                self.needs(",")
        return out

    def braced(self) -> str:
        self.needs("{")
        return "[" + ", ".join(self.arguments("}")) + "]"

    def raw_arguments(self) -> list[str]:
        """Arguments as they stand in the source."""
        self.needs("(")
        depth, start, parts = 1, self.peek()[2], []
        while True:
            kind, word, at = self.next()
            if kind == "end":
                raise Unsupported("unbalanced call")
            if kind != "op":
                continue
            depth += (word in "([{") - (word in ")]}")
            if depth == 0:
                return [*parts, self.text[start:at].strip()]
            if word == "," and depth == 1:
                parts.append(self.text[start:at].strip())
                start = self.peek()[2]

    def translated(self, text: str) -> str:
        """A piece of source as an expression of its own."""
        inner = type(self)(text, self.tables, self)
        return inner.braced() if text.startswith("{") else inner.whole()

    def whole(self) -> str:
        out = self.expression()
        if self.peek()[0] != "end":
            raise Unsupported(f"rest of {self.text!r}")
        return out

    def _primary(self) -> str:
        """A literal, a name or a call."""
        raise Unsupported("names are read by a subclass")
