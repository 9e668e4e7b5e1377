"""Writes docs/rules.md, and the catalogue that is shipped: the documentation of every rule, out of its docstring.

``--check`` only compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "rules.md"
TABLE = ROOT / "gguftool" / "lint" / "catalogue.json"
HEAD = """# Rules of lint

Made from the rules' docstrings by `./dev docs`; a test keeps it in step. `gguftool rules RULE` shows one of them, and
[lint.md](lint.md) tells how to run, select, configure and fix.

Severity is that of most findings of the rule; some findings are milder or harder. "Looks at" says what a rule needs:
the header alone (works on remote files too), the size of the file, all shards, the source folder (`--against`), or the
tensor data (`--data`).

"""
SCOPES = {
    "header": "the header",
    "file": "header and size",
    "set": "all shards",
    "source": "the source folder",
    "data": "the tensor data",
}


def reference() -> str:
    """The page as it should be."""
    from gguftool.lint.rules import FAMILIES, catalogue, family

    parts = [HEAD, f"{len(catalogue())} rules in {len(FAMILIES)} families:\n\n"]
    parts.append("| family | rules | about |\n|---|---|---|\n")
    for name in FAMILIES:
        parts.append(f"| [{name}](#{name}) | {len(family(name))} | {_about(name)} |\n")
    for name in FAMILIES:
        parts.append(f"\n## {name}\n\n{_about(name)}\n")
        for r in family(name):
            parts.append(f"\n### {r.id}\n\n**{r.title}.**\n\n")
            idle = "" if r.changes_run else " · changes no run: `launch` tells it and starts"
            parts.append(f"*{r.severity.value} · looks at {SCOPES[r.scope.value]} · since {r.since}{idle}*\n\n")
            for title, body in r.sections.items():
                parts.append(f"- **{title.capitalize()}:** {_escaped(body)}\n")
    return "".join(parts)


def table() -> str:
    """The catalogue as it should be: a line for each rule, in the order of `gguftool.lint.catalogue.Described`."""
    from gguftool.lint.rules import catalogue

    rows = ([r.id, r.family, r.severity.value, r.scope.value, r.since, r.changes_run, r.text] for r in catalogue())
    return "[\n" + ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n]\n"


def _about(name: str) -> str:
    """The first sentence of a family's module."""
    import importlib

    text = (importlib.import_module(f"gguftool.lint.rules.{name}").__doc__ or "").strip()
    first = " ".join(text.split("\n\n")[0].split())
    return _escaped(first.partition(": ")[2] or first)


def _escaped(text: str) -> str:
    """Angle brackets and pipes outside of code would be HTML and table cells."""
    out = []
    for i, piece in enumerate(text.split("`")):
        out.append(piece if i % 2 else piece.replace("<", "&lt;").replace("|", "\\|").replace("*", "\\*"))
    return "`".join(out)


def main() -> None:
    """Write the page, or with ``--check`` exit 1 when it is out of step."""
    for path, text in ((PAGE, reference()), (TABLE, table())):
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.is_file() or path.read_text() != text:
            sys.exit(f"{path.name} is out of step: ./dev docs")


if __name__ == "__main__":
    main()
