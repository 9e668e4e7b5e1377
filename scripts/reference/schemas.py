"""docs/reference/schemas.md: what `--format json` prints, out of the schemas that tests hold the output against."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kept import DOCS, ROOT, keep, prose, table

PAGE = DOCS / "reference" / "schemas.md"
FOLDER = ROOT / "gguftool" / "schemas"
HEAD = """# JSON

Made from the schemas in [gguftool/schemas](../../gguftool/schemas) by `./dev docs`; a test keeps it in step, and the
tests of every command hold what it prints against its schema.

`--format json` prints one object on stdout, also when the command fails. `format` is the name of the schema and its
version. Sizes are bytes, times seconds, hashes lower-case hex, places in a file bytes from its beginning.

"""


def kind(schema: dict[str, Any] | bool, whole: dict[str, Any]) -> str:
    """A type in a few words."""
    if isinstance(schema, bool):
        return "anything"
    if "$ref" in schema:
        there, _, inner = str(schema["$ref"]).removeprefix("gguftool:").partition("#")
        part = f"`{inner.rpartition('/')[2]}`" if inner else ""
        return " of ".join(filter(None, (part, f"[{there}](#{there})" if there else "")))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return ", ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    for some in ("oneOf", "anyOf"):
        if some in schema:
            return " or ".join(dict.fromkeys(kind(one, whole) for one in schema[some]))
    said = schema.get("type", "anything" if "properties" not in schema else "object")
    if isinstance(said, list):
        return " or ".join(said)
    if said == "array":
        return f"list of {kind(schema.get('items', True), whole)}"
    if said == "object" and isinstance(more := schema.get("additionalProperties"), dict):
        return f"object: name → {kind(more, whole)}"
    return str(said)


def rows(schema: dict[str, Any], whole: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """The properties of an object."""
    required = set(schema.get("required", ())) | set(schema.get("then", {}).get("required", ()))
    for name, value in schema.get("properties", {}).items():
        about = "" if isinstance(value, bool) else str(value.get("description", ""))
        yield f"`{name}`" + ("" if name in required else " (may be missing)"), kind(value, whole), prose(about)


def section(path: str, schema: dict[str, Any]) -> str:
    """One schema, with the objects it names."""
    out = [
        f"## {path}\n\n{prose(str(schema.get('title', '')))}: "
        f"[{path}.schema.json](../../gguftool/schemas/{path}.schema.json)\n"
    ]
    if about := schema.get("description"):
        out.append(f"\n{prose(str(about))}\n")
    if found := list(rows(schema, schema)):
        out.append("\n" + table("field", "type", "meaning", rows=found))
    for name, inner in schema.get("$defs", {}).items():
        if found := list(rows(inner, schema)):
            out.append(f"\n`{name}`:\n\n" + table("field", "type", "meaning", rows=found))
    return "".join(out) + "\n"


def page() -> str:
    """The page as it should be."""
    found = {path.name.removesuffix(".schema.json"): json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    order = sorted(found, key=lambda name: (name != "envelope", name))
    return HEAD + "".join(section(name, found[name]) for name in order).rstrip("\n") + "\n"


if __name__ == "__main__":
    keep({PAGE: page()})
