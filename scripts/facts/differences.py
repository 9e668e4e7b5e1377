"""What the new data says otherwise than the data in use, by architecture."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def differences(folder: Path, files: dict[str, str]) -> Iterator[str]:
    """Lines of a report: what came, went and changed in each file."""
    for name, text in files.items():
        try:
            old = json.loads((folder / name).read_text(encoding="utf-8"))
        except OSError:
            yield f"{name}: new"
            continue
        new = json.loads(text)
        compare = {"load_maps.json": _maps, "architectures.json": _archs, "projectors.json": _program}.get(name, _plain)
        for line in compare(old, new):
            yield f"{name}: {line}"


def _maps(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    yield from _came_and_went("architecture", old["arch"], new["arch"])
    if old.get("common") != new["common"]:
        yield "what every architecture reads differs"
    for arch in sorted(set(old["arch"]) & set(new["arch"])):
        parts = [part for part in ("hparams", "tensors") if _rows(old, arch, part) != _rows(new, arch, part)]
        parts += [k for k in ("graph", "needs", "unused", "decode") if old[k].get(arch) != new[k].get(arch)]
        if parts:
            yield f"{arch}: {', '.join(parts)}"


def _rows(maps: dict[str, Any], arch: str, part: str) -> Any:
    family = maps["arch"][arch]
    family = family if isinstance(family, str) else family[part == "tensors"]
    return maps["classes"][family][part]


def _archs(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    a, b = old["architectures"], new["architectures"]
    yield from _came_and_went("architecture", a, b)
    for arch in sorted(set(a) & set(b)):
        words = sorted(k for k in {*a[arch], *b[arch]} if a[arch].get(k) != b[arch].get(k))
        if words:
            yield f"{arch}: " + ", ".join(f"{k} {a[arch].get(k, '-')} -> {b[arch].get(k, '-')}" for k in words)


def _program(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for part in ("types", "classes", "functions"):
        yield from _came_and_went(part, old[part], new[part])
        for name in sorted(set(old[part]) & set(new[part])):
            if old[part][name] != new[part][name]:
                yield f"{part} {name} differs"


def _plain(old: dict[str, Any], new: dict[str, Any]) -> Iterator[str]:
    for part in new:
        was, now = old.get(part), new[part]
        if isinstance(now, dict) and isinstance(was, dict):
            yield from _came_and_went(part, was, now)
            for key in sorted(set(was) & set(now)):
                if was[key] != now[key]:
                    yield f"{part} {key}: {was[key]} -> {now[key]}"
        elif isinstance(now, list) and isinstance(was, list):
            yield from _came_and_went(part, [_named(x) for x in was], [_named(x) for x in now])
        elif was != now:
            yield f"{part}: {was} -> {now}"


def _named(entry: Any) -> str:
    return ", ".join(entry["names"]) if isinstance(entry, dict) else str(entry)


def _came_and_went(what: str, old: Any, new: Any) -> Iterator[str]:
    if came := sorted(set(new) - set(old)):
        yield f"{what} new: {', '.join(came)}"
    if went := sorted(set(old) - set(new)):
        yield f"{what} gone: {', '.join(went)}"
