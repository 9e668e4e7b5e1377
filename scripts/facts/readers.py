"""`readers.json`: every key that some program of llama.cpp reads, with its type and its readers.

Keys under an architecture that the model loader reads are rows of `load_maps.json`; here stand all others, and the
names of all keys, read or not. Every place in the sources that looks a key up must resolve to the key's text; one that
does not is a gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from source import Tables, body, without_comments

ARCH = "{arch}."
CODES = (
    ("src/llama-adapter.cpp", "A"),
    ("src/llama-quant.cpp", "Q"),
    ("src/", "L"),
    ("ggml/src/", "L"),
    ("tools/mtmd/", "M"),
    ("tools/quantize/", "Q"),
    ("tools/imatrix/", "I"),
    ("common/imatrix-loader.cpp", "I"),
    ("tools/gguf-split/", "T"),
    ("tools/export-lora/", "A"),
    ("common/", "S"),
    ("tools/", "S"),
    ("app/", "S"),
    ("examples/", "S"),
)
"""Program by folder, the first that fits: L loader, A adapters, Q quantize, M projectors, I importance matrices,
T gguf-split, S llama-server and the rest."""
LEFT_OUT = (
    *("src/llama-arch.", "src/llama-model-saver.cpp", "ggml/src/ggml", "tools/mtmd/debug", "tools/ui"),
    *("examples/gguf/", "examples/gguf-hash/", "examples/convert-llama2c-to-ggml/", "examples/llama.android/"),
)
"""Tables and writers, parts that read no key, and examples that are no programs for models."""
CALLS = {
    "gguf_find_key": 1,
    "llama_model_meta_val_str": 1,
    "llama_adapter_meta_val_str": 1,
    "decision_meta_str": 1,
    r"gguf_kv\.find": 0,
    "get_kv_str": -1,
    "get_kv_f32": -1,
    "get_int32": 0,
    "get_float": 0,
    "get_bool": 0,
    "get_i32": 0,
    "get_u32": 0,
    "get_f32": 0,
    "get_string": 0,
    "get_arr_int": 0,
    "get_arr_f32": 0,
}
"""Functions that look a key up, with the place of the key among their arguments."""
TYPES = {
    "get_bool": "bool",
    "get_i32": "i32",
    "get_u32": "u32",
    "get_f32": "f32",
    "get_string": "str",
    "get_arr_int": "[i32]",
    "get_arr_f32": "[f32]",
    "get_kv_str": "str",
    "get_kv_f32": "f32",
}
HELPERS = re.compile(
    r"(?:\b(?:{})\s*(?:= \[[^\]]*\])?\(|::(?:find_key|get_kv|find|get_arr|get_arr_n|get_key|get_key_or_arr|get_meta)\()"
    r"[^()]*(?:\([^()]*\)[^()]*)*\b(?:key|name|findkey)\b[^()]*\)\s*(?:const\s*)?(?:->\s*[\w:]+\s*)?\{{".format(
        "|".join(CALLS)
    )
)
"""The heads of such functions themselves: the key is their parameter, its text stands where they are called."""
GENERIC = ("src/llama-model-loader.cpp", "src/llama-model.cpp", "ggml/src/gguf.cpp")
"""Files whose functions take any key; who calls them names it."""
CONSTANT = re.compile(
    r"(?:#define\s+([A-Z]\w+)\s+"
    r"|(?:static |inline |constexpr |const )+(?:char\s*\*\s*(?:const )?|std::string |auto )([A-Z]\w+)\s*=\s*)"
    r'"((?:\\.|[^"\\])*)"'
)
CASE = re.compile(r'case (LLAMA_MODEL_META_KEY_\w+):\s*return "([^"]*)"')
ROW = "row"
"""In the place of a type: a row of the load maps has it."""
PLACES = ("vision", "audio", "gen.audio")
"""What `%s` of a projector's key stands for (`clip.cpp:load_hparams`)."""
VOCABULARY = {"std::string": "str", "bool": "bool", "uint32_t": "u32", "llama_token": "u32", "float": "f32"}


def _sources(root: Path) -> Iterator[tuple[str, str]]:
    for folder in ("src", "ggml/src", "common", "tools", "app", "examples"):
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in (".cpp", ".h") and not name.startswith(LEFT_OUT) and path.is_file():
                yield name, without_comments(path.read_text(encoding="utf-8", errors="replace"))


def _code(name: str) -> str:
    return next(code for start, code in CODES if name.startswith(start))


def _arguments(text: str, at: int) -> list[str]:
    """Arguments of the call whose bracket opens there."""
    depth, start, out = 0, at + 1, []
    for i in range(at, min(len(text), at + 2000)):
        depth += (text[i] in "([{") - (text[i] in ")]}")
        if depth == 0:
            return [*out, text[start:i].strip()]
        if text[i] == "," and depth == 1:
            out.append(text[start:i].strip())
            start = i + 1
    return out


class Resolver:
    """Text of key expressions of one file."""

    def __init__(self, t: Tables, constants: dict[str, str], text: str) -> None:
        self.t, self.constants, self.text = t, constants, text

    def keys(self, expression: str, at: int, depth: int = 0) -> list[str]:
        """All keys an expression may be; empty when its text is not known."""
        e = re.sub(r"\.c_str\(\)$", "", expression.strip())
        while (
            e.startswith("(")
            and e.endswith(")")
            and body(e.replace("(", "{").replace(")", "}"), 0) == (e[1:-1].replace("(", "{").replace(")", "}"))
        ):
            e = e[1:-1].strip()
        if m := re.fullmatch(r"std::string\((.*)\)", e, re.S):
            return self.keys(m[1], at, depth)
        if m := re.fullmatch(r'"((?:\\.|[^"\\])*)"', e):
            return [m[1]]
        if m := re.fullmatch(r"(?:ml\.|ml->)?(?:kv|llm_kv|LLM_KV\(\w+->arch\)|tn_kv)\((LLM_KV_\w+)\)", e):
            return [self.named(m[1])]
        if m := re.fullmatch(r"llama_model_meta_key_str\((\w+)\)", e):
            return [self.constants[m[1]]] if m[1] in self.constants else []
        if m := re.fullmatch(r"string_format\((\w+),\s*(.*)\)", e, re.S):
            return self._formatted(m[1], m[2])
        if e in self.constants:
            return [self.constants[e]]
        if "+" in e:
            return self._joined(e, at, depth)
        if "general.architecture" in e or e == "shape.arch":
            return [ARCH.rstrip(".")]
        if re.fullmatch(r"\w+", e) and depth < 4:
            return self._variable(e, at, depth)
        return []

    def named(self, label: str) -> str:
        return self.t.keys.get(label, "").replace("%s.", ARCH, 1)

    def _formatted(self, name: str, value: str) -> list[str]:
        pattern = self.constants.get(name)
        if pattern is None:
            return []
        places = (value.strip('"'),) if value.startswith('"') else PLACES
        return [pattern.replace("%s", p, 1) for p in places]

    def _joined(self, e: str, at: int, depth: int) -> list[str]:
        left, _, right = e.partition("+")
        heads = self.keys(left, at, depth + 1)
        tails = self.keys(right, at, depth + 1)
        return [h + t for h in heads for t in tails]

    def _variable(self, name: str, at: int, depth: int) -> list[str]:
        start = max(0, at - 4000)
        piece = self.text[start:at]
        if re.search(rf'"general\.architecture", {name}\b', piece):
            return [ARCH.rstrip(".")]
        before = list(re.finditer(rf"\b{name}\s*=\s*([^;=][^;]*);", piece))
        if not before:
            return []
        value = before[-1][1].strip()
        if re.search(r"get_val_str\(.*arch", value):
            return [ARCH.rstrip(".")]
        return self.keys(value, start + before[-1].start(), depth + 1)


def _type(call: str, text: str, at: int) -> str:
    """Type a value is taken with, "" where any is."""
    if call in TYPES:
        return TYPES[call]
    before = text[max(0, at - 60) : at]
    if direct := re.search(r"gguf_get_val_(\w+)\([^,;]*,\s*$", before):
        return direct[1]
    name = re.search(r"(\w+)\s*=\s*$", before)
    if name is None:
        return ""
    after = text[at : at + 2500]
    scalar = re.search(rf"gguf_get_val_(\w+)\([^,;]*,\s*{name[1]}\)", after)
    if scalar and scalar[1] != "data":
        return scalar[1]
    array = re.search(rf"gguf_get_arr_type\([^,;]*,\s*{name[1]}\)[^;]*?GGUF_TYPE_(\w+)", after)
    if array and array[1] != "COUNT":
        return f"[{_short(array[1])}]"
    return "[str]" if re.search(rf"gguf_get_arr_str\([^,;]*,\s*{name[1]}\b", after) else ""


def _short(name: str) -> str:
    words = {"STRING": "str", "INT": "i", "UINT": "u", "FLOAT": "f", "BOOL": "bool"}
    m = re.fullmatch(r"([A-Z]+)(\d*)", name)
    return words.get(m[1], name.lower()) + m[2] if m else name.lower()


def readers(
    root: Path, t: Tables, maps: dict[str, Any], measured: dict[str, Any], build: str
) -> tuple[dict[str, Any], list[str]]:
    """The data file, and the places whose key could not be told."""
    rows = set(re.findall(r"'=([^']+)'", repr([maps["common"], maps["classes"]])))
    files = dict(_sources(root))
    constants: dict[str, str] = {}
    for text in files.values():
        constants |= {a or b: value for a, b, value in CONSTANT.findall(text)} | dict(CASE.findall(text))
    gguf = without_comments((root / "ggml/include/gguf.h").read_text(encoding="utf-8"))
    llama = without_comments((root / "include/llama.h").read_text(encoding="utf-8"))
    constants |= {a or b: value for a, b, value in CONSTANT.findall(gguf + llama)}
    found: dict[str, dict[str, set[str]]] = {}
    gaps: list[str] = []
    vocabulary: set[str] = set()

    def add(key: str, code: str, kind: str) -> None:
        entry = found.setdefault(key, {"by": set(), "type": set()})
        entry["by"].add(code)
        if kind:
            entry["type"].add(kind)

    for name, text in files.items():
        code, r = _code(name), Resolver(t, constants, text)
        helpers = [(m.start(), m.end() + len(body(text, m.end() - 1))) for m in HELPERS.finditer(text)]
        for m in re.finditer(rf"\b({'|'.join(CALLS)})\(", text):
            arguments = _arguments(text, m.end() - 1)
            place = CALLS[re.escape(m[1]) if "." in m[1] else m[1]]
            if (
                not arguments
                or len(arguments) <= place
                or re.search(r"[\w>] $|\b(auto|void|bool) $", text[: m.start()][-6:])
            ):
                continue  # a declaration
            keys = r.keys(arguments[place], m.start())
            if not keys and (
                any(a <= m.start() < b for a, b in helpers)
                or (name in GENERIC and arguments[place] in ("key", "key.c_str()"))
            ):
                continue
            if not keys:
                gaps.append(f"{name}: {m[1]}({', '.join(arguments)[:60]})")
            for key in keys:
                add(key, code, _type(m[1], text, m.start()))
        if "llama_model_meta_key_by_index" in text:
            for m in re.finditer(r"string_starts_with\(key, (\w+)\)", text):
                for key in r.keys(m[1], m.start()):
                    add(key + "{name}", code, "")
        if name == "src/llama-vocab.cpp":
            vocabulary |= {r.named(label) for label, _ in _mentions(text, t.keys)}
        if code in "LQA":
            for label, kind in _mentions(text, t.keys):
                add(r.named(label), code, kind)
    for key, by in measured["by"].items():
        found.setdefault(key, {"type": set()})["by"] = set(by)
    for key, kind in measured["types"].items():
        if key in found:
            found[key]["type"] = {kind}
    for key, when in measured["when"].items():
        if key in found:
            found[key]["when"] = {when}
    for key in [k for k in found if k.startswith(ARCH) and found[k]["by"] == {"L"} and k not in vocabulary]:
        del found[key]  # a row of the load maps
    for key in rows & set(found):
        found[key]["type"] = found[key]["type"] or {ROW}
    return _document(found, t, constants, build, gaps), gaps


def _mentions(text: str, known: dict[str, str]) -> Iterator[tuple[str, str]]:
    """Names of keys in the library's sources, without those it only writes; with the type where a variable tells."""
    for line in text.splitlines():
        if re.search(r"gguf_(set_val|remove_key|set_arr)", line):
            continue
        for label in re.findall(r"\bLLM_KV_\w+", line):
            if label not in known:
                continue
            kind = ""
            if m := re.search(rf"get_key\((?:llm_kv\()?{label}\)?,\s*([\w.]+)", line):
                declared = re.search(
                    rf"\b(std::string|bool|uint32_t|uint16_t|llama_token|float)\s+{m[1].split('.')[-1]}\b", text
                )
                kind = {"uint16_t": "u16", **VOCABULARY}[declared[1]] if declared else ""
            elif re.search(rf"\{{\s*{label},\s*special_\w+_id", line):
                kind = "u32"
            yield label, kind


def _document(
    found: dict[str, dict[str, set[str]]], t: Tables, constants: dict[str, str], build: str, gaps: list[str]
) -> dict[str, Any]:
    order = "LSMQAIT"
    keys = {}
    for key in sorted(found):
        kinds = sorted(found[key]["type"])
        by = "".join(sorted(found[key]["by"], key=order.index))
        if len(kinds) > 1:
            gaps.append(f"{key}: read as {' and as '.join(kinds)}")
        if kinds == [ROW]:
            continue
        if not kinds:
            gaps.append(f"{key}: the type is not known (measured.json: types)")
        keys[key] = {"by": by, "type": kinds[0] if kinds else ""} | {
            k: min(found[key][k]) for k in ("when",) if k in found[key]
        }
    names = {v.replace("%s.", ARCH, 1) for v in t.keys.values()}
    names |= {v.replace("%s", p, 1) for v in constants.values() if v.startswith("clip.") for p in PLACES}
    return {"build": build, "keys": keys, "names": sorted(names | set(found))}
