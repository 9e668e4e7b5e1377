"""Write every generated file of `gguftool/facts/data` anew from a llama.cpp source tree.

    ./dev facts SOURCE [SERVER] [--output FOLDER] [--build bN]
    ./dev facts --builds        the timeline of other builds, then their maps: see builds/timeline.py
    ./dev facts --builds maps   their maps alone: see builds/maps.py

SOURCE is the top of the tree, SERVER a llama-server of the same build, whose `--help` gives the options (or
that text, recorded: `help.txt.gz`). What could not be read is listed, and the exit code is 1; what differs from the
data in use is listed by architecture. `gguftool/facts/data/README.md` tells what each file holds.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from architectures import architectures
from backends import backends
from build import NoBuild, build_number
from constants import constants
from conversions import conversions
from converters import converters
from defaults import Defaults
from differences import differences
from flags import server_flags
from load_map import load_maps
from markers import markers
from messages import messages
from programs import programs
from projectors import projectors
from readers import readers
from source import tables
from switches import switches
from tensornames import tensor_names
from vocabulary import vocabulary

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[1] / "gguftool" / "facts" / "data"
NUMBER = HERE.parents[1] / "gguftool" / "facts" / "__init__.py"


def dense(data: Any) -> str:
    """One line."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False)


def apart(data: dict[str, Any], *parts: str) -> str:
    """As `dense`, but each entry of these parts on a line, to be read alone (`gguftool.facts.data.Entries`)."""

    def entries(part: dict[str, Any]) -> str:
        return "{\n" + ",\n".join(f"{dense(name)}:{dense(value)}" for name, value in part.items()) + "\n}"

    return "{" + ",".join(f"{dense(k)}:" + (entries(v) if k in parts else dense(v)) for k, v in data.items()) + "}"


def lines(data: dict[str, Any]) -> str:
    """An entry a line, so that a change shows as the lines it touches."""

    def inner(value: Any) -> str:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        rows = [
            (json.dumps(k, ensure_ascii=False) + ": " if isinstance(value, dict) else "")
            + json.dumps(v, ensure_ascii=False)
            for k, v in items
        ]
        left, right = ("{", "}") if isinstance(value, dict) else ("[", "]")
        return f"{left}\n  " + ",\n  ".join(rows) + f"\n {right}"

    long = (dict, list)
    parts = [
        f' "{k}": {inner(v) if isinstance(v, long) else json.dumps(v, ensure_ascii=False)}' for k, v in data.items()
    ]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def everything(source: Path, server: str | None, named: str | None) -> tuple[str, dict[str, str], list[str]]:
    """Build, text of every file by name, and what could not be read.

    Raises:
        NoBuild: the tree does not say which release it is.
        OSError, ValueError: the server cannot be asked, or the tree lacks a file.
    """
    measured = json.loads((HERE / "measured.json").read_text(encoding="utf-8"))
    options, number = server_flags(server) if server else (None, None)
    build = build_number(source, named, number)
    if server and number is None:
        print(f"{server} does not tell which release it is: its options are taken for those of {build}")
    t = tables(source / "src")
    gaps: list[str] = []

    def noted(found: tuple[Any, list[str]]) -> Any:
        gaps.extend(found[1])
        return found[0]

    maps = noted(load_maps(t, measured, build))
    written = noted(conversions(source, build))
    out = {
        "load_maps.json": apart(maps, "classes", "graph", "unused"),
        "architectures.json": apart(noted(architectures(t, maps, measured, build)), "architectures"),
        "readers.json": lines(noted(readers(source, t, maps, measured, build))),
        "vocabulary.json": lines(noted(vocabulary(t, build))),
        "projectors.json": dense(noted(projectors(t, build))),
        "markers.json": lines(noted(markers(t, build))),
        "messages.json": lines(noted(messages(source, build))),
        "backends.json": lines(noted(backends(source, build))),
        "conversions.json": lines(written),
        "constants.json": apart(constants(written, Defaults(t), measured["constants"]), "constants"),
        "converters.json": lines(noted(converters(source, build))),
        "tensor_names.json": lines(noted(tensor_names(source, build))),
        "options.json": lines(noted(programs(source, build))),
        "switches.json": lines(noted(switches(source, build))),
    }
    if options is not None:
        out["flags.json"] = lines({"build": int(build[1:]), "options": options})
    return build, out, gaps


def main() -> int:
    """Run it; the exit code."""
    if "--builds" in sys.argv[1:]:
        from builds.maps import main as maps
        from builds.timeline import main as timeline

        rest = [word for word in sys.argv[1:] if word != "--builds"]
        return maps(rest[1:]) if rest[:1] == ["maps"] else timeline(rest) or maps([])
    words = argparse.ArgumentParser(prog="./dev facts", description=(__doc__ or "").partition("\n")[0])
    words.add_argument("source", type=Path, help="top folder of a llama.cpp source tree")
    words.add_argument("server", nargs="?", help="a llama-server of that build: its --help gives the options")
    words.add_argument("--output", type=Path, default=DATA, help="folder to write to instead of the package's data")
    words.add_argument("--build", help="the release, where the tree does not tell: b11434")
    asked = words.parse_args()
    try:
        build, files, gaps = everything(asked.source, asked.server, asked.build)
    except (NoBuild, OSError, ValueError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 2
    for line in differences(DATA, files):
        print(line)
    asked.output.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (asked.output / name).write_text(text, encoding="utf-8")
    print(f"{asked.output}: {', '.join(files)} of {build}")
    measured = json.loads((HERE / "measured.json").read_text(encoding="utf-8"))["build"]
    if measured != build:
        print(f"taken over from {measured}, to be measured again: {HERE.name}/measured.json")
    if "flags.json" not in files:
        print("flags.json: not written, no server was named")
    if asked.output == DATA:
        _stamp(build)
        # In a process of its own: here the rows of before have been read.
        subprocess.run([sys.executable, str(HERE / "read_by.py")], check=True)
    for gap in gaps:
        print(f"not read: {gap}", file=sys.stderr)
    return 1 if gaps else 0


def _stamp(build: str) -> None:
    """Write the number where all messages take it from."""
    old = NUMBER.read_text(encoding="utf-8")
    new = re.sub(r'^BUILD = "b\d+"$', f'BUILD = "{build}"', old, flags=re.M)
    if new != old:
        NUMBER.write_text(new, encoding="utf-8")
        print(f"gguftool/facts/__init__.py: BUILD is now {build}")


if __name__ == "__main__":
    sys.exit(main())
