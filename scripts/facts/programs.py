"""`options.json`: the options of every program of llama.cpp, from the sources that parse them.

Most programs share `common/arg.cpp`: each option names the sets of programs that have it, and a program names its set.
The others compare their words themselves; which of their options take a value is read from the branch that follows.
Names, kinds of values and variables are taken, no sentence.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from source import body, without_comments

Row = dict[str, Any]
TEXT = r'"((?:\\.|[^"\\])*)"'
SETS = re.compile(r"LLAMA_EXAMPLE_(\w+)")
NAMED = re.compile(r"initializer_list<enum llama_example> (\w+) = \{([^}]*)\}")
PARSED = re.compile(r"common_params_parse\([^;{]*?LLAMA_EXAMPLE_(\w+)")
TARGET = re.compile(r"set\(TARGET\s+([\w-]+)\)|add_(?:executable|library)\s*\(\s*([\w${}-]+)([^)]*)\)")
OWN = re.compile(rf"\b(?:arg|\w*\bargv\[\w+\])\s*==\s*{TEXT}|strcmp\(\s*argv\[\w+\],\s*{TEXT}\)\s*==\s*0")
APP = re.compile(rf"\{{{TEXT},\s*{TEXT},\s*\{{([^}}]*)\}},\s*[\w]+,\s*(llama_\w+)\s*\}}")
SHARED = "COMMON"
ALONE = "DOWNLOAD"
"""The one set that does not take in what is common (`arg.cpp:common_params_parser_init`)."""


def programs(root: Path, build: str) -> tuple[Row, list[str]]:
    """The data file, and what could not be read."""
    missing: list[str] = []
    options = list(_shared(root, missing))
    sets = set(re.findall(r"\bLLAMA_EXAMPLE_(\w+),", (root / "common" / "common.h").read_text(encoding="utf-8")))
    unknown = {name for o in options for name in (*o.get("in", ()), *o.get("not", ()))} - sets
    missing += [f"arg.cpp: no set {name}" for name in sorted(unknown)]
    found: dict[str, Any] = {}
    for name, files in sorted(_targets(root).items()):
        text = "\n".join(without_comments(f.read_text(encoding="utf-8")) for f in files)
        if (uses := PARSED.search(text)) is not None:
            found[name] = {"set": uses[1]}
        elif own := list(_own(text)):
            found[name] = {"options": own}
    for script in ("convert_hf_to_gguf.py", "convert_lora_to_gguf.py", *_scripts(root)):
        if own := list(_python(root / script)):
            found[Path(script).name] = {"options": own}
    for name in ("llama-server", "llama-quantize", "llama-bench", "llama-gguf-split", "convert_hf_to_gguf.py"):
        if name not in found:
            missing.append(f"{name}: no options found")
    app = without_comments((root / "app" / "llama.cpp").read_text(encoding="utf-8"))
    commands = {
        word: "llama-download" if function == "llama_download" else function.replace("_", "-")
        for name, _, aliases, function in APP.findall(app)
        for word in (name, *re.findall(TEXT, aliases))
    }
    if "serve" not in commands:
        missing.append("app/llama.cpp: no command serve")
    found["llama-download"] = {"set": ALONE}
    return {
        "source": f"common/arg.cpp, tools, examples ({build})",
        "programs": found,
        "app": commands,
        "shared": options,
    }, missing


def _shared(root: Path, missing: list[str]) -> Iterator[Row]:
    """The options of `arg.cpp`, in order; those of presets are no words of a command line."""
    text = without_comments((root / "common" / "arg.cpp").read_text(encoding="utf-8"))
    named = {name: SETS.findall(inside) for name, inside in NAMED.findall(text)}
    at = 0
    while (at := text.find("add_opt(common_arg(", at)) >= 0:
        inner = _closed(text, at + len("add_opt(common_arg"))
        whole = _closed(text, at + len("add_opt"))
        modifiers = whole[whole.index(inner) + len(inner) :]
        row = _option(inner, modifiers, named)
        if row is None:
            missing.append(f"arg.cpp: an option is not read: {inner[:60]!r}")
        else:
            yield row
        at += len("add_opt(common_arg(")


def _closed(text: str, parenthesis: int) -> str:
    """What stands between the parenthesis at that place and its partner, texts skipped."""
    depth = 0
    for m in re.finditer(rf"{TEXT}|'(?:\\.|[^'\\])'|[()]", text[parenthesis:]):
        depth += (m[0] == "(") - (m[0] == ")")
        if depth == 0:
            return text[parenthesis + 1 : parenthesis + m.start()]
    raise ValueError("unbalanced parentheses")


def _option(inner: str, modifiers: str, named: dict[str, list[str]]) -> Row | None:
    head = re.match(r"\s*\{([^}]*)\}\s*,\s*(?:\{([^}]*)\}\s*,\s*)?(.*)", inner, re.S)
    if head is None:
        return None
    row: Row = {"names": re.findall(TEXT, head[1])}
    if not row["names"]:
        return None
    if head[2]:
        row["off"] = re.findall(TEXT, head[2])
    handler = inner[at:] if (at := inner.find("[](common_params")) >= 0 else ""
    takes = re.match(r"\[\]\(common_params &[^,)]*,?\s*(const std::string\s*&|int|bool)?[^,)]*(,)?", handler)
    kind = takes[1] if takes else None
    if kind and kind != "bool":
        hint = re.match(TEXT, head[3])
        row["value"] = _plain(hint[1]) if hint else "VALUE"
        if takes and takes[2]:
            second = re.match(rf"{TEXT}\s*,\s*{TEXT}", head[3])
            row["value"] += " " + (_plain(second[2]) if second else "VALUE")
        row |= _kind(kind, handler)
    if env := re.search(rf"set_env\({TEXT}\)", modifiers):
        row["env"] = env[1]
    for word, key in (("set_examples", "in"), ("set_excludes", "not")):
        if m := re.search(rf"{word}\(([^)]*)\)", modifiers):
            row[key] = SETS.findall(m[1]) or named[m[1].strip()]
    if "arg_removed(" in handler:
        row["removed"] = True
    return row


def _kind(kind: str, handler: str) -> Row:
    """How the value is read: ``int`` (as `std::stoi` does), ``float``, or one of a list."""
    inside = handler[handler.index("{") :]
    if kind == "int":
        return {"kind": "int"}
    if "value ==" not in inside and "value.find" not in inside:
        if re.search(r"= std::sto(?:i|ul|ull|l)\(value\)", inside):
            return {"kind": "int"}
        if re.search(r"= std::sto[fd]\(value\)", inside):
            return {"kind": "float"}
    listed = re.findall(rf"\bvalue == {TEXT}", inside)
    refused = "throw std::invalid_argument" in inside or "invalid value" in inside
    if len(listed) > 1 and refused and "is_truthy" not in inside and "string_split" not in inside:
        return {"values": list(dict.fromkeys(listed))}
    return {}


def _plain(text: str) -> str:
    return str(json.loads(f'"{text}"'))


def _targets(root: Path) -> dict[str, list[Path]]:
    """Source files by program."""
    out: dict[str, list[Path]] = {}
    for listing in (*root.glob("tools/*/CMakeLists.txt"), *root.glob("examples/*/CMakeLists.txt")):
        target = ""
        for m in TARGET.finditer(re.sub(r"#[^\n]*", "", listing.read_text(encoding="utf-8"))):
            if m[1]:
                target = m[1]
                continue
            name = (target if "TARGET" in m[2] else m[2]).removesuffix("-impl")
            files = [listing.parent / w for w in m[3].split() if w.endswith(".cpp")]
            if name.startswith(("llama-", "ggml-")):
                out.setdefault(name, []).extend(f for f in files if f.is_file())
    return {name: files for name, files in out.items() if files}


def _own(text: str) -> Iterator[Row]:
    """Options that a program compares itself: the names of one branch, and whether it steps to a word behind."""
    seen: dict[str, Row] = {}
    for m in re.finditer(r"\bif\s*\(", text):
        condition = _closed(text, m.end() - 1)
        names = [a or b for a, b in OWN.findall(condition) if (a or b).startswith("-")]
        brace = text.find("{", m.end() + len(condition))
        if not names or brace < 0 or names[0] in seen or "!=" in condition:
            continue
        inside = body(text, brace)
        row: Row = {"names": names}
        if re.search(r"\+\+\s*(?:i|arg_idx)\b|\b(?:i|arg_idx)\s*\+\+|\bi \+ 1 < argc", condition + inside):
            row["value"] = "VALUE"
        seen.update(dict.fromkeys(names, row))
        yield row


def _scripts(root: Path) -> list[str]:
    return [str(p.relative_to(root)) for p in sorted(root.glob("gguf-py/gguf/scripts/gguf_*.py"))]


def _python(path: Path) -> Iterator[Row]:
    """Options of a script of Python: what `argparse` is told."""
    if not path.is_file():
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"
        ):
            continue
        names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
        if not names or not names[0].startswith("-"):
            continue
        said = {k.arg: k.value for k in node.keywords}
        row: Row = {"names": names}
        action = said.get("action")
        if not (isinstance(action, ast.Constant) and str(action.value).startswith(("store_", "version"))):
            row["value"] = "VALUE"
        choices = said.get("choices")
        if isinstance(choices, ast.List | ast.Tuple):
            row["values"] = [c.value for c in choices.elts if isinstance(c, ast.Constant)]
        yield row
