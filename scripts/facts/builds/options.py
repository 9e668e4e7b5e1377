"""Options of llama-server: their spellings, the values that are listed for them, what holds when they are not given.

Since September 2024 every option is a call in `common/arg.cpp`; before that `gpt_params_parse` of `common/common.cpp`
(and `examples/server/server.cpp` beside it) compared words one by one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from programs import NAMED, SETS, TEXT, _closed
from source import body, without_comments

from builds.names import LLAMA
from builds.trees import Tree, Unread

FILES = r"common/(?:arg|common)\.(?:cpp|h)$|examples/server/server\.cpp$"
PARSERS = ("common/arg.cpp", "common/common.cpp", "examples/server/server.cpp")
ADDED = re.compile(r"add_opt\((?:common|llama|gpt)_arg(?=\()")
COMPARED = re.compile(rf"\barg\s*==\s*{TEXT}")
ASSIGNED = re.compile(r"\b(s?params)\.([\w.]+)\s*=(?!=)")
VALUE = re.compile(rf"(?:value|arg_next|\bs|argv\[i\]|kind)\s*==\s*{TEXT}|strcmp\(argv\[i\],\s*{TEXT}\)\s*==\s*0")
STRUCT = re.compile(r"\bstruct (\w+)(?:\s*:\s*\w+)?\s*\{")
FIELD = re.compile(r"^\s*(?:enum |struct |const )*([\w:]+(?:<[^;=]*>)?)\s+(\w+)\s*(?:=\s*([^;]+)|\{([^};]*)\})?;", re.M)
OURS = {"SERVER", "COMMON"}
"""Sets of programs that llama-server is in."""
PLACE = re.compile(r"\.+|[A-Z_]+|dev[0-9]")
"""What stands for any value in a list of values."""
CACHE_TYPES = re.compile(r"kv_cache_types\s*=\s*\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: its spellings, the values it lists, the fields that it sets, and how its value is read."""

    names: list[str]
    values: list[str]
    field: str
    handler: str


def options(tree: Tree) -> list[Option]:
    """All of the server.

    Raises:
        Unread: there is neither a call nor a comparison.
    """
    texts = [without_comments(tree.read(path) or "") for path in PARSERS]
    found = [option for text in texts for option in _added(text)]
    if not found:
        found = [option for text in texts for option in _compared(text)]
    if len(found) < 20:
        raise Unread(f"only {len(found)} options found")
    return found


def _added(text: str) -> Iterator[Option]:
    named = {name: SETS.findall(inside) for name, inside in NAMED.findall(text)}
    for m in ADDED.finditer(text):
        inner = _closed(text, m.end())
        whole = _closed(text, m.start() + len("add_opt"))
        after = whole[whole.index(inner) + len(inner) :]
        sets = {w: _sets(after, w, named) for w in ("set_examples", "set_excludes")}
        if (sets["set_examples"] and not OURS & set(sets["set_examples"])) or "SERVER" in sets["set_excludes"]:
            continue
        head = re.match(r"\s*\{([^}]*)\}\s*,\s*(?:\{([^}]*)\}\s*,\s*)?(.*)", inner, re.S)
        if head is None or "arg_removed(" in inner:
            continue
        names = re.findall(TEXT, head[1] + "," + (head[2] or ""))
        at = head[3].find("[](")
        handler = head[3][at:] if at >= 0 else ""
        hint = re.match(TEXT, head[3])
        listed = re.fullmatch(r"[\[{<(]([\w|,. -]+)[\]}>)]", hint[1]) if hint else None
        words = re.split(r"[|,]", listed[1]) if listed and re.search(r"[|,]", listed[1]) else []
        values = [w.strip() for w in words if not PLACE.fullmatch(w.strip())]
        yield _option(names, values, handler)


def _sets(after: str, word: str, named: dict[str, list[str]]) -> list[str]:
    hit = re.search(rf"{word}\(([^)]*)\)", after)
    return SETS.findall(hit[1]) or named.get(hit[1].strip(), []) if hit else []


def _compared(text: str) -> Iterator[Option]:
    for m in re.finditer(r"\bif\s*\(", text):
        condition = _closed(text, m.end() - 1)
        names = [n for n in COMPARED.findall(condition) if n.startswith("-")]
        brace = text.find("{", m.end() + len(condition))
        if names and brace >= 0 and "!=" not in condition:
            yield _option(names, [], body(text, brace))


def _option(names: list[str], values: list[str], handler: str) -> Option:
    told = [a or b for a, b in VALUE.findall(handler)]
    fields = [f"{who}.{path}" for who, path in ASSIGNED.findall(handler)]
    return Option(names, list(dict.fromkeys([*values, *(v for v in told if v)])), fields[0] if fields else "", handler)


def names(tree: Tree) -> set[str]:
    """Every spelling."""
    return {name for option in options(tree) for name in option.names}


def long(option: Option) -> list[str]:
    """The spellings that a value or a default is kept under."""
    return [n for n in option.names if n.startswith("--")] or option.names


def values(tree: Tree) -> set[str]:
    """``--split-mode row``: a value that is listed or compared."""
    found = options(tree)
    out = {f"{name} {value}" for option in found for value in option.values for name in long(option)}
    cached = [o for o in found if "cache_type" in o.field or "kv_cache_type_from_str" in o.handler]
    kinds = _cache_types(tree)
    out |= {f"{name} {kind}" for option in cached for name in long(option) for kind in kinds}
    templates = _templates(tree)
    return out | {f"--chat-template {name}" for name in templates if any("--chat-template" in o.names for o in found)}


def _cache_types(tree: Tree) -> list[str]:
    for path in ("common/arg.cpp", "common/common.cpp", *LLAMA):
        text = without_comments(tree.read(path) or "")
        if hit := CACHE_TYPES.search(text):
            return [t.lower() for t in re.findall(r"GGML_TYPE_(\w+)", hit[1])]
        if (at := text.find("kv_cache_type_from_str(const std::string")) >= 0:
            inside = body(text, text.index("{", at))
            if found := re.findall(rf"\bs(?:tr)?\s*==\s*{TEXT}", inside):
                return found
    return []


def _templates(tree: Tree) -> list[str]:
    text = without_comments(tree.read("src/llama-chat.cpp") or tree.read("src/llama.cpp") or "")
    hit = re.search(r"LLM_CHAT_TEMPLATES\s*=\s*\{", text)
    return re.findall(rf"\{{\s*{TEXT},\s*LLM_CHAT_TEMPLATE_\w+", text[hit.end() :]) if hit else []


def defaults(tree: Tree) -> set[str]:
    """``--ctx-size 4096``: what the field that an option sets starts with."""
    found = options(tree)
    header = without_comments(tree.read("common/common.h") or "")
    server = without_comments(tree.read("examples/server/server.cpp") or "")
    structs = _structs(header) | {k: v for k, v in _structs(server).items() if k == "server_params"}
    tops = {"params": ("common_params", "gpt_params"), "sparams": ("server_params",)}
    out = set()
    for option in found:
        who, _, path = option.field.partition(".")
        top = next((n for n in tops.get(who, ()) if n in structs), None)
        start = _start(structs, top, path.split(".")) if top else None
        if start is not None:
            out |= {f"{name} {start}" for name in long(option)}
    if not out:
        raise Unread("no field of an option has a value to start with")
    return out


def _structs(text: str) -> dict[str, dict[str, tuple[str, str]]]:
    out: dict[str, dict[str, tuple[str, str]]] = {}
    for m in STRUCT.finditer(text):
        inside = body(text, m.end() - 1)
        out[m[1]] = {f[1]: (f[0], (f[2] or f[3]).strip()) for f in FIELD.findall(inside)}
    return out


def _start(structs: dict[str, dict[str, tuple[str, str]]], top: str, path: list[str]) -> str | None:
    kind, start = structs.get(top, {}).get(path[0], ("", ""))
    if len(path) > 1:
        return _start(structs, kind, path[1:])
    if not start and kind in ("std::string",):
        return '""'
    if not start or "(" in start or "{" in start:
        return None
    start = " ".join(start.split())
    if start.startswith('"') and start.endswith('"'):
        return start[1:-1] or '""'
    if re.fullmatch(r"GGML_TYPE_\w+", start):
        return start.removeprefix("GGML_TYPE_").lower()
    if enum := re.fullmatch(r"[A-Z]\w*?_(AUTO|NONE|LAYER|DISABLED|ENABLED|UNSPECIFIED|NORMAL|MEAN|DEEPSEEK)", start):
        return enum[1].lower()
    return re.sub(r"^(-?[0-9]*\.?[0-9]+(?:e-?[0-9]+)?)f$", r"\1", start)
