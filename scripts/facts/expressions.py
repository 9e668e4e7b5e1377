"""Names, keys and tensors in C++ expressions of the loading functions."""

from __future__ import annotations

import json
import re

from cpp_operators import Operators, Unsupported
from source import RAW
from words import METHODS, MODEL_TENSORS

SCALARS = {"uint32_t": "u32", "int32_t": "u32", "float": "f32", "bool": "bool", "std::string": "str"}
SCALARS |= {"llama_pooling_type": "u32", "llama_token": "u32"}
ELEMENTS = {"uint32_t": "u32", "int32_t": "i32", "int": "i32", "llama_token": "i32", "float": "f32"}
ELEMENTS |= {"uint64_t": "u64", "std::string": "str"}

OWN = ("unique_count", "largest", "rope_scaling_of", "vocabulary_size")
"""Functions of the evaluator that stand for what the sources say in many words (`patches.py`, `builds/layouts.py`)."""


class Expressions(Operators):
    """Expressions with the names llama.cpp's loading functions use."""

    def _primary(self) -> str:
        kind, word, at = self.next()
        if kind == "num":
            plain = word.rstrip("uUlL")
            return plain if plain.startswith("0x") else plain.rstrip("fF")
        if kind == "str":
            while self.peek()[0] == "str":
                word = word[:-1] + self.next()[1][1:]
            return repr(json.loads(word))
        if word == "(":
            return self.in_brackets()
        if kind != "id":
            raise Unsupported(f"expression at {self.text[at:][:40]!r}")
        if word in self.constants:
            return self.constants[word]
        if word.startswith("LLM_TYPE_"):
            return repr(word[9:])
        if word.startswith("LLM_ARCH_"):
            return repr(self.tables.archs[word])
        special = getattr(self, f"_on_{word.replace('std::', '')}", None)
        return special() if special else self._plain(word)

    def _plain(self, word: str) -> str:
        if word in self.alias:
            return self._slot(*self.alias[word])
        if word in self.procs:
            self.needs("(")
            return f"{word}({', '.join(self.arguments())})"
        if self.sees("(") and word in ("int64_t", "uint32_t", "int", *OWN):
            self.needs("(")
            out = ", ".join(self.arguments())
            return f"{word}({out})" if word in OWN else out
        if self.sees("(") and word in ("std::sqrt", "float", "std::pow", "sqrtf", "powf", "logf"):
            self.needs("(")
            return f"sqrt({', '.join(self.arguments())})"
        if self.sees("("):
            raise Unsupported(f"call of {word}")
        if self.sees("->"):
            path = []
            while self.eats("->"):
                path.append(self.next()[1])
            if path[-1] != "ne":
                raise Unsupported(f"{word}->{'->'.join(path)}")
            self.needs("[")
            index = self.expression()
            self.needs("]")
            return f"ne({word}, {index})"
        if self.sees("."):
            if self.peek(1)[1] != "size":
                raise Unsupported(f"member {word}.{self.peek(1)[1]}")
            for part in (".", "size", "(", ")"):
                self.needs(part)
            return f"len({word})"
        if self.eats("["):
            index = self.expression()
            self.needs("]")
            return f"{word}[{index}]"
        return f"has('{word}', -1)" if word in MODEL_TENSORS else word

    def _slot(self, layer: str, path: tuple[str, ...]) -> str:
        rest = list(path)
        while self.sees(".") or self.sees("->"):
            self.next()
            rest.append(self.next()[1])
        return f"has({'.'.join(rest)!r}, {layer})"

    def _on_max(self) -> str:
        return self._extreme("max")

    def _on_min(self) -> str:
        return self._extreme("min")

    def _extreme(self, name: str) -> str:
        if self.eats("<"):
            while not self.eats(">"):
                self.next()
        self.needs("(")
        return f"{name}({', '.join(self.arguments())})"

    def _on_static_cast(self) -> str:
        self.needs("<")
        words = []
        while not self.eats(">"):
            words.append(self.next()[1])
        self.needs("(")
        value = self.expression()
        self.needs(")")
        return f"i32({value})" if words == ["int"] and re.fullmatch(r"h\.\w+", value) else value

    def _on_hparams(self) -> str:
        self.needs(".")
        name = self.next()[1]
        if self.eats("("):
            arguments = self.arguments()
            if name not in METHODS:
                raise Unsupported(f"method {name}")
            return f"{name}({', '.join(arguments)})"
        if self.eats("."):
            name += "_" + self.next()[1]
        if self.eats("["):
            index = self.expression()
            self.needs("]")
            return f"h.{name}[{index}]"
        return "h." + name

    def _on_layers(self) -> str:
        self.needs("[")
        layer = self.expression()
        self.needs("]")
        return self._slot(layer, ())

    def _on_ml(self) -> str:
        if not self.eats("."):
            self.needs("->")
        name = self.next()[1]
        if name in ("get_key", "get_arr", "get_key_or_arr", "get_arr_n"):
            return self._key(name)
        if name in ("get_weight", "get_tensor_meta"):
            text = re.sub(r"\.str\(\)$", "", re.sub(r"\.c_str\(\)$", "", self.raw_arguments()[0]))
            if text.startswith("tn("):
                tensor, index, _ = self.tensor_name(text)
                return f"stored({tensor!r}, [{', '.join(index)}])"
            return f"stored({self.translated(text)}, [])"
        if name == "load_mtp":
            return "False"
        if name == "llm_kv":
            return f"full('{self._key_name(self.raw_arguments()[0])}')"
        raise Unsupported(f"ml.{name}")

    def _on_create_tensor(self) -> str:
        return self.tensor("")

    def _on_to_string(self) -> str:
        self.needs("(")
        return f"str({', '.join(self.arguments())})"

    def _on_string(self) -> str:
        self.needs("(")
        return ", ".join(self.arguments())

    def _on_arch_name(self) -> str:
        self.needs("(")
        self.needs(")")
        return "arch"

    def _on_format(self) -> str:
        self.needs("(")
        return f"text({', '.join(self.arguments())})"

    # -- keys and tensors

    def _key_name(self, word: str) -> str:
        name = self.tables.keys[word]
        return name[3:] if name.startswith("%s.") else "=" + name

    def _destination(self, text: str) -> tuple[str, str]:
        m = re.fullmatch(r"hparams\.(\w+(?:\.\w+)?)", text.strip())
        if m:
            return "h." + m[1].replace(".", "_"), self.tables.types.get(m[1], "uint32_t")
        if not re.fullmatch(r"\w+", text.strip()):
            raise Unsupported(f"destination {text}")
        name = text.strip()
        return name, self.types.get(name) or self.tables.types.get("m." + name, "uint32_t")

    def _key(self, how: str) -> str:
        a = self.raw_arguments()
        required = "True"
        optional = a[-1] in ("true", "false", "0", "0.0f") and len(a) > 2
        if optional and not (how == "get_key_or_arr" and len(a) == 3 and a[-1] == "0"):
            required = str(a.pop() == "true")
        if not a[0].startswith("LLM_KV_"):
            raise Unsupported(f"key {a[0]}")
        if len(a) not in {"get_key_or_arr": (2, 3)}.get(how, (2,)):
            raise Unsupported(f"{how} with {len(a)} arguments: {', '.join(a)}")
        key = self._key_name(a[0])
        target, kind = self._destination(a[1])
        fixed = re.match(r"std::array<(\w+),\s*(\w+)>", kind)
        if how == "get_key" and kind in SCALARS:
            return f"key('{key}', '{SCALARS[kind]}', '{target}', {required})"
        if how == "get_arr_n":
            return f"arr_n('{key}', '{target}', {required})"
        if how == "get_key_or_arr" and len(a) == 2:
            return f"scalar('{key}', '{target}', {required})"
        if how == "get_arr":
            free = re.match(r"std::vector<([\w:]+)>", kind)
            if not (fixed or free):
                raise Unsupported(f"array {a} {kind}")
            element = ELEMENTS[(fixed or free)[1]]  # type: ignore[index]
            most = self.constants.get(fixed[2], fixed[2]) if fixed else "0"
            return f"arr('{key}', '{element}', {most}, '{target}', {required})"
        if how == "get_key_or_arr" and fixed:
            n, most = self.translated(a[2]), self.constants.get(fixed[2], fixed[2])
            return f"each('{key}', '{ELEMENTS[fixed[1]]}', {n}, {most}, '{target}', {required})"
        raise Unsupported(f"{how} {a} {kind}")

    def tensor_name(self, text: str) -> tuple[str, list[str], str]:
        """Pattern, numbers and id of ``tn(LLM_TENSOR_X, "weight", i)``."""
        m = re.fullmatch(r"tn\((.*)\)(?:\.str\(\))?", text, re.S)
        parts = [p.strip() for p in m[1].split(",")] if m else [""]
        if parts[0] not in self.tables.tensors:
            raise Unsupported(f"tensor {text}")
        name, rest = self.tables.tensors[parts[0]], parts[1:]
        if name.startswith(RAW):
            return name.removeprefix(RAW), [], parts[0]
        if rest and rest[0].startswith('"'):
            name += "." + rest.pop(0).strip('"')
        return name, [self.translated(x) for x in rest], parts[0]

    def tensor(self, slot: str) -> str:
        """A call of create_tensor whose result goes to ``slot@layer``."""
        a = [x for x in self.raw_arguments() if x not in ("*ml", "ml")]
        name, index, _ = self.tensor_name(a[0])
        flags = self.translated(a[2]) if len(a) > 2 else "0"
        if self.tables.asks_by_bool:
            flags = {"False": "OPTIONAL", "True": "0"}.get(flags, flags)
        return f"tensor({name!r}, [{', '.join(index)}], {self.translated(a[1])}, {flags}, {slot!r})"
