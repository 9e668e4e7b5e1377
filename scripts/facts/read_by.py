"""`read_by.json`: which architectures read a key, as what; out of the rows of `load_maps.json`.

    python scripts/facts/read_by.py

`./dev facts` runs it when the load maps are written; a test holds the file equal to the rows.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT)]

from gguftool.facts import BUILD  # noqa: E402
from gguftool.facts.known import mapped  # noqa: E402
from gguftool.facts.reads import reads  # noqa: E402

OUT = ROOT / "gguftool" / "facts" / "data" / "read_by.json"


def read_by() -> dict[str, Any]:
    """The table: architectures, and by key rows of kind, element, required, condition and numbers of architectures."""
    archs = [name for name in mapped() if reads(name)]
    keys: dict[str, dict[tuple[str, ...], list[int]]] = {}
    for number, arch in enumerate(archs):
        for key, r in reads(arch).items():
            row = (r.kind, r.element, r.required, r.condition)
            keys.setdefault(key, {}).setdefault(row, []).append(number)
    rows = {key: [[*row, numbers] for row, numbers in found.items()] for key, found in keys.items()}
    return {"build": BUILD, "archs": archs, "keys": rows}


def text() -> str:
    """As it stands in the file: a key a line, so that one can be read alone (`gguftool.facts.data.Entries`)."""
    table = read_by()
    keys = ",\n".join(
        f"{json.dumps(k)}:{json.dumps(v, ensure_ascii=False, separators=(',', ':'))}" for k, v in table["keys"].items()
    )
    archs = json.dumps(table["archs"], separators=(",", ":"))
    return f'{{"build":"{table["build"]}","archs":{archs},"keys":{{\n{keys}\n}}}}'


if __name__ == "__main__":
    OUT.write_text(text(), encoding="utf-8")
    print(OUT.relative_to(ROOT))
