"""Every place where llama.cpp's converter raises or asserts, as the end of a traceback would show it.

    python -m tests.building.raises SOURCE     writes tests/data/building/converter_raises.json.gz

A row is file, line, function, class of the exception, its message with ``X`` for values, the first line of source.
"""

from __future__ import annotations

import ast
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

DATA = Path(__file__).parents[1] / "data" / "building" / "converter_raises.json.gz"
Row = tuple[str, int, str, str, str, str]


def rows(root: Path) -> Iterator[Row]:
    """All of them, in the order of the files."""
    files = [*sorted((root / "conversion").glob("*.py")), root / "convert_hf_to_gguf.py"]
    for path in (*files, *sorted((root / "gguf-py" / "gguf").glob("*.py"))):
        if path.name == "gguf_reader.py":
            continue  # reads files that are there; the converter does so for vocabularies it brings itself
        text = path.read_text(encoding="utf-8")
        name = f"{path.parent.name}/{path.name}" if path.parent.name in ("conversion", "gguf") else path.name
        yield from _walk(ast.parse(text), text.splitlines(), name, "<module>")


def _walk(node: ast.AST, lines: list[str], name: str, function: str) -> Iterator[Row]:
    for child in ast.iter_child_nodes(node):
        inner = child.name if isinstance(child, ast.FunctionDef) else function
        line = lines[child.lineno - 1].strip() if isinstance(child, ast.stmt) else ""
        if isinstance(child, ast.Raise) and child.exc is not None:
            call = child.exc
            error = ast.unparse(call.func) if isinstance(call, ast.Call) else ast.unparse(call)
            message = _text(call.args[0]) if isinstance(call, ast.Call) and call.args else ""
            yield name, child.lineno, inner, error, repr(message) if error == "KeyError" else message, line
        elif isinstance(child, ast.Assert):
            yield name, child.lineno, inner, "AssertionError", _text(child.msg) if child.msg else "", line
        yield from _walk(child, lines, name, inner)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(v) if isinstance(v, ast.Constant) else _value(v) for v in node.values)
    if isinstance(node, ast.BinOp):
        return _text(node.left) + _text(node.right)
    return "X"


def _value(node: ast.expr) -> str:
    return "'X'" if isinstance(node, ast.FormattedValue) and node.conversion == ord("r") else "X"


def recorded() -> list[Row]:
    """What was written for b11434."""
    return [tuple(row) for row in json.loads(gzip.decompress(DATA.read_bytes()))]


def main() -> None:
    """Write them."""
    found = list(rows(Path(sys.argv[1])))
    with gzip.GzipFile(DATA, "wb", mtime=0) as f:
        f.write(json.dumps(found).encode())
    print(len(found))


if __name__ == "__main__":
    main()
