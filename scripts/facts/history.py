"""When the converter began to write a key of `constants.json`: what `measured.json` holds as ``later``.

    python scripts/facts/history.py DATE=TREE DATE=TREE …

Each TREE is a llama.cpp source tree, or what of one has the converter and `gguf-py`, DATE the day it was published. A
key is printed when a tree knows the architecture and writes files of it without the key.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from constants import always
from conversions import conversions

DATA = Path(__file__).resolve().parents[2] / "gguftool" / "facts" / "data"


def main(arguments: list[str]) -> int:
    """Run it; the exit code."""
    trees = sorted(word.split("=", 1) for word in arguments if "=" in word)
    if not trees:
        print(__doc__, file=sys.stderr)
        return 2
    read = [(date, conversions(Path(tree), date)[0]) for date, tree in trees]
    measured = json.loads(Path(__file__).with_name("measured.json").read_text(encoding="utf-8"))["constants"]
    for arch, keys in json.loads((DATA / "constants.json").read_text(encoding="utf-8"))["constants"].items():
        have = [(date, always(old["classes"][arch], old["rows"])) for date, old in read if arch in old["classes"]]
        for key in keys:
            written = [date for date, found in have if key in found]
            practice = key in measured["practice"].get(arch, ())  # written under a condition to this day
            if not practice and len(written) < len(have):
                print(f"{arch} {key}: {min(written, default='never')}, the architecture {have[0][0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
