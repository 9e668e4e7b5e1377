"""NOTICE.md, made of the table REUSE.toml: what others gave to gguftool, and under which licence.

``--check`` only compares.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "NOTICE.md"
HEAD = """\
# Notice

gguftool is under the MIT licence ([LICENSE](LICENSE)), and holds what others gave. Made from
[REUSE.toml](REUSE.toml) by `./dev docs`; the texts of the licences are in [LICENSES](LICENSES). How each
file of data was made stands beside it ([facts](gguftool/facts/data/README.md), [tests](tests/data/README.md)).
Packages that gguftool needs are installed beside it, each under its own licence, and no part of it.
"""
PARTS = (
    ("In the installed package", lambda path: path.startswith("gguftool/")),
    ("In the source archive and the repository alone", lambda path: not path.startswith("gguftool/")),
)


def several(value: str | list[str]) -> list[str]:
    """One value or a list of them, as REUSE.toml has it."""
    return [value] if isinstance(value, str) else value


def entries() -> list[dict[str, Any]]:
    """The rows of REUSE.toml, in their order."""
    return list(tomllib.loads((ROOT / "REUSE.toml").read_text(encoding="utf-8"))["annotations"])


def notice() -> str:
    """The page."""
    parts = [HEAD]
    for title, belongs in PARTS:
        parts.append(f"\n## {title}\n")
        for entry in entries():
            paths = [path for path in several(entry["path"]) if belongs(path)]
            if not paths or "SPDX-FileComment" not in entry:
                continue
            whose = [c for c in several(entry["SPDX-FileCopyrightText"]) if c != "NONE"]
            parts.append(f"\n**{entry['SPDX-FileComment']}**\n\n")
            parts.append(f"- Licence: {entry['SPDX-License-Identifier']}\n")
            parts += [f"- Copyright (c) {c}\n" for c in whose]
            parts.append("- Files: " + ", ".join(f"`{path}`" for path in paths) + "\n")
    return "".join(parts)


def main() -> None:
    """Write the page, or with ``--check`` exit 1 when it is out of step."""
    text = notice()
    if "--check" in sys.argv[1:]:
        sys.exit(
            0 if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text else "NOTICE.md is out of step: ./dev docs"
        )
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
