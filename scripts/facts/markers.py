"""`markers.json`: texts that llama.cpp puts around an image or a sound, and tokens it looks up, by projector type."""

from __future__ import annotations

import json
import re
from typing import Any

from source import Tables, without_comments

TEXT = r'"((?:\\.|[^"\\])*)"'
CASE = re.compile(r"((?:case PROJECTOR_TYPE_\w+:\s*)+)\{(.*?)\} break;", re.S)
AROUND = re.compile(rf"\b(?:img|aud)_(?:beg|end)\s*=\s*{TEXT}")
LOOKED_UP = re.compile(rf"lookup_token\({TEXT}\)")
SET = re.compile(r"\btok_(\w+)\s*=\s*\{(.*?)\};")
WHOLE = ("ov_img_start", "ov_img_end")
"""What stands around the image as a whole; where that has texts of its own, these are for images in tiles alone."""


def markers(t: Tables, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    root = t.src.parent / "tools" / "mtmd"
    names = dict(
        re.findall(rf"\{{\s*(PROJECTOR_TYPE_\w+),\s*{TEXT}\s*\}}", (root / "clip-impl.h").read_text(encoding="utf-8"))
    )
    text = without_comments((root / "mtmd.cpp").read_text(encoding="utf-8"))
    out: dict[str, Any] = {}
    missing: list[str] = []
    for of, start, end in (
        ("an image", "void init_vision() {", "void init_audio() {"),
        ("a sound", "void init_audio() {", "get_clip_ctx"),
    ):
        piece = text.partition(start)[2].partition(end)[0]
        if not piece:
            missing.append(f"mtmd.cpp: no {start}")
        for types, body in CASE.findall(piece):
            around = _texts(AROUND, body)
            found = [(name, _texts(LOOKED_UP, row)) for name, row in SET.findall(body)]
            tokens = list(dict.fromkeys(x for name, row in found for x in row if name in WHOLE and not around))
            tiles = list(dict.fromkeys(x for _, row in found for x in row if x not in tokens))
            for name in re.findall(r"PROJECTOR_TYPE_\w+", types):
                if (around or tokens or tiles) and name not in names:
                    missing.append(f"mtmd.cpp: {name} has no name in clip-impl.h")
                elif around or tokens or tiles:
                    out[names[name]] = {"of": of, "around": around, "tokens": tokens, "tiles": tiles}
    if not out:
        missing.append("mtmd.cpp: no markers")
    return {"source": f"mtmd.cpp:mtmd_context ({build})", "types": out}, missing


def _texts(pattern: re.Pattern[str], body: str) -> list[str]:
    found = (json.loads(f'"{x}"') for x in pattern.findall(body))
    # Blanks are in every vocabulary, one way or the other.
    return list(dict.fromkeys(x for x in found if x.strip()))
