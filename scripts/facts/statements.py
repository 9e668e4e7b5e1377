"""C++ statements of the loading functions as rows of the load map."""

from __future__ import annotations

import json
import re
from typing import Any

from cpp_ends import Ends
from cpp_operators import Unsupported
from expressions import Expressions
from words import NUMBERS, SILENT, TYPE_WORDS

Row = list[Any]


class Statements(Ends, Expressions):
    """Reads a function body statement by statement; ``skipped`` says what it could not read."""

    skipped: list[str]
    started = 0

    def rows(self) -> list[Row]:
        self.skipped = getattr(self, "skipped", [])
        out: list[Row] = []
        while not self.sees("}") and self.peek()[0] != "end":
            try:
                out += self.statement()
            except Unsupported as gap:
                self.skipped.append(str(gap))
                out.append(["unknown", str(gap)[:80]])
                self._skip()
        return out

    def _skip(self) -> None:
        """Go behind the statement that was begun last."""
        self.at, depth = self.started, 0
        while self.peek()[0] != "end":
            kind, word, _ = self.next()
            if kind != "op":
                continue
            depth += (word in "([{") - (word in ")]}")
            over = word == "}" and not (self.sees(";") or self.sees("else") or self.sees(")"))
            if depth == 0 and (word == ";" or over):
                return

    def block(self) -> list[Row]:
        if not self.eats("{"):
            return self.statement()
        outer = dict(self.alias)
        out = self.rows()
        self.needs("}")
        self.alias = outer
        return out

    def statement(self) -> list[Row]:
        self.started = self.at
        if self.eats(";"):
            return []
        word = self.peek()[1]
        if word == "{":
            return self.block()
        special = getattr(self, f"_do_{word.replace('std::', '')}", None)
        if special is not None:
            self.next()
            return special()  # type: ignore[no-any-return]
        if word in SILENT:
            self.next()
            self._call()
            return []
        m = re.match(r"llama_model_(\w+)::load_arch_(hparams|tensors)$", word)
        if m:
            self.next()
            self._call()
            return [["include", m[1], m[2]]]
        if word == "layers" and self.peek(1)[1] == ".":
            self._skip()
            return []
        if word == "hparams" and self.peek(2)[1] in ("set_swa_pattern", "set_recr_pattern"):
            self.at += 2
            return self._pattern(self.next()[1])
        if word in TYPE_WORDS or word.startswith(("std::", "llama_")):
            return self._declaration()
        return self._assignment()

    # -- control flow

    def _do_LLAMA_LOAD_LOCALS(self) -> list[Row]:
        self.eats(";")
        return []

    def _do_LLAMA_LOG_WARN(self) -> list[Row]:
        raw = self._call()
        return [["warn", json.loads(raw[0]).strip(), raw[1:]]]

    def _do_if(self) -> list[Row]:
        self.needs("(")
        if self.peek()[1] in ("const", "auto"):
            raise Unsupported("declaration in a condition")
        condition = self.expression()
        self.needs(")")
        yes, no = self.block(), []
        if self.eats("else"):
            no = self.statement() if self.sees("if") else self.block()
        return [["if", condition, yes, no]]

    def _do_for(self) -> list[Row]:
        self.needs("(")
        while self.sees("&") or (self.peek()[0] == "id" and (self.peek(1)[0] == "id" or self.peek(1)[1] == "&")):
            self.next()
        name = self.next()[1]
        if self.eats(":"):
            items = self.expression()
            self.needs(")")
            return [["foreach", name, items, self.block()]]
        self.needs("=")
        low = self.expression()
        self.needs(";")
        self.needs(name)
        self.needs("<")
        high = self.expression()
        self.needs(";")
        if "".join(self.next()[1] for _ in range(2)) not in ("++" + name, name + "++"):
            raise Unsupported("a loop that does not count up")
        self.needs(")")
        return [["for", name, low, high, self.block()]]

    def _do_switch(self) -> list[Row]:
        self.needs("(")
        value = self.expression()
        self.needs(")")
        self.needs("{")
        cases: list[tuple[list[str], list[Row]]] = []
        out: list[Row] = []
        while not self.eats("}"):
            labels: list[str | None] = []
            while self.sees("case") or self.sees("default"):
                labels.append(self.expression() if self.next()[1] == "case" else None)
                self.needs(":")
            rows: list[Row] = []
            while not (self.sees("case") or self.sees("default") or self.sees("}")):
                rows += self._case_body()
            if None in labels:
                out = rows
            else:
                cases.append(([label for label in labels if label is not None], rows))
        for some, rows in reversed(cases):
            tests = [f"({value} == {label})" for label in some]
            out = [["if", tests[0] if len(tests) == 1 else f"({' or '.join(tests)})", rows, out]]
        return out

    def _case_body(self) -> list[Row]:
        if self.eats("break"):
            self.needs(";")
            return []
        if not self.eats("{"):
            return self.statement()
        rows: list[Row] = []
        while not self.eats("}"):
            rows += self._case_body()
        return rows

    def _do_GGML_ABORT(self) -> list[Row]:
        return [["abort", self._call()[0].strip('"')]]

    def _do_return(self) -> list[Row]:
        self.eats(";")
        return [["return"]]

    def _do_break(self) -> list[Row]:
        raise Unsupported("break")

    def _do_continue(self) -> list[Row]:
        self.needs(";")
        return [["continue"]]

    def _do_try(self) -> list[Row]:
        body = self.block()
        self.needs("catch")
        self.raw_arguments()
        return [["try", body, self.block()]]

    # -- calls

    def _do_fill(self) -> list[Row]:
        a = self._call()
        m = re.match(r"hparams\.(\w+)\.begin\(\)", a[0])
        if m is None:
            raise Unsupported(f"fill {a[0]}")
        return [["set", "h." + m[1], f"filled({self.translated(a[2])})"]]

    def _do_load_swa_pattern(self) -> list[Row]:
        a = self._call()
        return [["do", f"swa_pattern({self.translated(a[1])}, {a[2].capitalize() if len(a) > 2 else 'False'})"]]

    def _pattern(self, name: str) -> list[Row]:
        a = self._call()
        return [["do", f"{name}({self.translated(a[0])}, {a[1].capitalize() if len(a) > 1 else 'False'})"]]

    def _do_create_tensor_qkv(self) -> list[Row]:
        a = self._call()
        m = re.fullmatch(r"layers\[(.*)\]", a[0])
        layer = self.alias[a[0]][0] if a[0] in self.alias else self.translated(m[1]) if m else ""
        parts = [self.translated(x) for x in a[1:]]
        parts += ["0"] * (6 - len(parts))
        return [["do", f"qkv({', '.join(parts if layer == parts[0] else [*parts, layer])})"]]

    def _do_create_tensor_gate_up_exps(self) -> list[Row]:
        return [["do", f"gate_up_exps({', '.join(self.translated(x) for x in self._call()[1:])})"]]

    def _do_create_tensor(self) -> list[Row]:
        out = self.tensor("")
        self.needs(";")
        return [["do", out]]

    # -- names

    def _declaration(self) -> list[Row]:
        words: list[str] = []
        while True:
            kind, word, _ = self.peek()
            if kind == "id" and (word in TYPE_WORDS or word.startswith(("std::", "llama_"))):
                words.append(self.next()[1])
            elif word == "<":
                depth, text = 0, ""
                while depth or not text:
                    part = self.next()[1]
                    text += part
                    depth += (part == "<") - (part == ">")
                words[-1] += text
            elif word in ("*", "&"):
                words.append(self.next()[1])
            else:
                break
        name = self.next()[1]
        base = next((w for w in words if w not in ("const", "static", "*", "&")), "")
        if base:
            self.types[name] = base
        if self.eats(";"):
            if base in NUMBERS:
                return [["let", name, "0"]]
            return [["let", name, "[]"]] if "vector" in base or "array" in base else []
        if self.sees("{"):
            self._skip()
            return []
        self.needs("=")
        if self.sees("{"):
            self.braced()
            self.needs(";")
            return [["let", name, "[]"]]
        if self.sees("["):
            return self._lambda(name)
        if "&" in words and (self.sees("layers") or self.peek()[1] in self.alias):
            self.alias[name] = self._path()
            self.needs(";")
            return []
        value = self.expression()
        self.needs(";")
        narrow = base in ("int", "int32_t") and re.fullmatch(r"h\.\w+", value)
        return [["let", name, f"i32({value})" if narrow else value]]

    def _path(self) -> tuple[str, tuple[str, ...]]:
        """``layers[i].nextn`` as number and path."""
        word = self.next()[1]
        if word == "layers":
            self.needs("[")
            layer, path = self.expression(), []
            self.needs("]")
        else:
            layer, path = self.alias[word][0], list(self.alias[word][1])
        while self.eats("."):
            path.append(self.next()[1])
        return layer, tuple(path)

    def _lambda(self, name: str) -> list[Row]:
        self.needs("[")
        while not self.eats("]"):
            self.next()
        self.needs("(")
        parameters = []
        while not self.eats(")"):
            kind = []
            while self.peek(1)[1] not in (",", ")", "="):
                kind.append(self.next()[1])
            if "&" in kind or any(w.startswith("llm_tensor") for w in kind):
                raise Unsupported(f"lambda {name}")
            parameters.append(self.next()[1])
            if self.eats("="):
                self.expression()
            self.eats(",")
        while not self.sees("{"):
            self.next()
        body = self.block()
        self.needs(";")
        self.procs[name] = parameters
        return [["proc", name, parameters, body]]

    def _assignment(self) -> list[Row]:
        start = self.at
        kind, word, _ = self.next()
        if word in self.procs and self.eats("("):
            arguments = self.arguments()
            self.needs(";")
            return [["call", word, arguments]]
        if word == "hparams":
            return self._set_hparam(start)
        if word == "layers" or word in self.alias:
            self.at = start
            layer, path = self._path()
            return self._store(".".join(path), layer)
        if kind == "id" and self.peek()[1] in ("=", "|=", "+=", "-=", "*=", "/=", "&="):
            return self._store(word, "-1") if self.peek(1)[1] == "create_tensor" else self._set(word, start)
        if kind == "id" and self.eats("["):
            index = self.expression()
            self.needs("]")
            return self._set(word, start, index)
        if kind == "id" and word not in ("ml", "model") and self.sees("."):
            path = [word]
            while self.eats("."):
                path.append(self.next()[1])
            if self.sees("("):
                raise Unsupported(f"call of {'.'.join(path)}")
            return self._store(".".join(path), "-1")
        return self._value(start)

    def _value(self, start: int) -> list[Row]:
        self.at = start
        value = self.expression()
        self.needs(";")
        return [["do", value]]

    def _set_hparam(self, start: int) -> list[Row]:
        self.needs(".")
        name = self.next()[1]
        while self.sees(".") and self.peek(1)[1] not in ("set", "fill"):
            self.next()
            name += "_" + self.next()[1]
        if self.eats("["):
            index = self.expression()
            self.needs("]")
            return self._set("h." + name, start, index)
        if self.eats("."):
            method = self.next()[1]
            self.needs("(")
            arguments = self.arguments()
            self.needs(";")
            if method != "set":
                raise Unsupported(method)
            return [["item", "h." + name, arguments[0], "1"]]
        return self._set("h." + name, start)

    def _set(self, name: str, start: int, index: str | None = None) -> list[Row]:
        op = self.next()[1]
        if op not in ("=", "|=", "+=", "-=", "*=", "/=", "&="):
            return self._value(start)
        if self.sees("{"):
            raise Unsupported("braces assigned")
        value = self.expression()
        self.needs(";")
        if op != "=":
            old = name if index is None else f"{name}[{index}]"
            whole = op == "/=" and not re.search(r"\.\d", value)
            value = f"({old} {'//' if whole else op[0]} {value})"
        return [["set", name, value]] if index is None else [["item", name, index, value]]

    def _store(self, slot: str, layer: str) -> list[Row]:
        """Something put into the place of a tensor."""
        self.needs("=")
        if self.eats("create_tensor"):
            out = self.tensor(f"{slot}@{layer}")
            self.needs(";")
            return [["do", out]]
        value = self.expression()
        self.needs(";")
        if not slot:
            source = re.fullmatch(r"has\('', (.*)\)", value)
            if source is None:
                raise Unsupported("a layer assigned")
            return [["alias", layer, source[1]]]
        return [["slot", slot, layer, value]]
