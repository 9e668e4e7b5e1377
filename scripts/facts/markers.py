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
            around, tokens = _texts(AROUND, body), _texts(LOOKED_UP, body)
            for name in re.findall(r"PROJECTOR_TYPE_\w+", types):
                if (around or tokens) and name not in names:
                    missing.append(f"mtmd.cpp: {name} has no name in clip-impl.h")
                elif around or tokens:
                    out[names[name]] = {"of": of, "around": around, "tokens": tokens}
    if not out:
        missing.append("mtmd.cpp: no markers")
    return {"source": f"mtmd.cpp:mtmd_context ({build})", "types": out}, missing


def _texts(pattern: re.Pattern[str], body: str) -> list[str]:
    found = (json.loads(f'"{x}"') for x in pattern.findall(body))
    # Blanks are in every vocabulary, one way or the other.
    return list(dict.fromkeys(x for x in found if x.strip()))
