"""`backends.json`: what each backend of ggml says it can do, and what the scheduler makes of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from source import body, without_comments

PROPS = re.compile(r"^static void \w+_get_props\([^)]*ggml_backend_dev_props \* *props\) *\{", re.M)
LISTED = re.compile(r"props->caps\s*=\s*(?:\w+\s*)?\{([^}]*)\}")
SET = re.compile(r"props->caps\.(\w+)\s*=\s*(true|false);")
FIELDS = re.compile(r"struct ggml_backend_dev_caps \{(.*?)\};", re.S)
NEVER = re.compile(r"(?:#ifdef (\w+)\s+)?bool (\w+) = (true|false);(?:\s+#else\s+bool \2 = (true|false);)?")
UNSET = re.compile(r'bool (\w+) = getenv\("(\w+)"\) == nullptr;')
OFFLOAD = re.compile(r"/\* *\.offload_op *= *\*/ *(\w+),")
PADS = re.compile(r"_buffer_type_get_alloc_size\([^)]*\) *\{")
SHARED = re.compile(r"^#(?:ifdef |elif defined\()GGML_USE_(\w+)", re.M)
OURS = frozenset("cuda hip vulkan metal sycl rpc cpu musa cann opencl hexagon webgpu openvino".split())
"""Backends whose devices a plan may have."""
COPIES = re.compile(r"#define GGML_SCHED_MAX_COPIES (\d+)")


def backends(source: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    root = source / "ggml"
    header = without_comments((root / "include" / "ggml-backend.h").read_text(encoding="utf-8"))
    names = re.findall(r"bool (\w+);", (FIELDS.search(header) or [None, ""])[1])
    copies = COPIES.search((root / "src" / "ggml-backend.cpp").read_text(encoding="utf-8"))
    out: dict[str, Any] = {}
    missing = [] if names else ["ggml-backend.h: no ggml_backend_dev_caps"]
    if copies is None:
        missing.append("ggml-backend.cpp: no GGML_SCHED_MAX_COPIES")
    for folder in sorted((root / "src").glob("ggml-*/")):
        files = [p for p in sorted(folder.iterdir()) if p.suffix in (".cpp", ".cu", ".mm")]
        texts = [p.read_text(encoding="utf-8", errors="replace") for p in files]
        props = next(
            (body(t, m.end() - 1) for t in map(without_comments, texts) if "caps" in t for m in PROPS.finditer(t)), None
        )
        offload = next((m[1] for t in texts for m in OFFLOAD.finditer(t)), None)
        if props is None or offload is None:
            continue
        found, unread = _caps(props, names)
        missing += [f"{folder.name}: {name}" for name in unread]
        found["offload"] = offload != "NULL"
        found["pads_rows"] = any("MATRIX_ROW_PADDING" in body(t, m.end() - 1) for t in texts for m in PADS.finditer(t))
        out[folder.name.removeprefix("ggml-")] = found
    # HIP and MUSA compile the sources of CUDA under names of their own.
    for name in SHARED.findall((root / "include" / "ggml-cuda.h").read_text(encoding="utf-8")):
        out[name.lower()] = out.get("cuda", {})
    missing += [f"{name}: no properties of its devices" for name in sorted(OURS - set(out))]
    where = f"ggml/src/*: get_props, offload_op, get_alloc_size ({build})"
    return {"source": where, "copies": int(copies[1]) if copies else 0, "backends": out}, missing


def _caps(props: str, names: list[str]) -> tuple[dict[str, Any], list[str]]:
    """Each capability as a build has it by default; ``unless``: the switches that take one away."""
    known = {"true": True, "false": False}
    unless: dict[str, str] = {}
    variables: dict[str, bool] = {}
    for switch, name, first, other in NEVER.findall(props):
        variables[name] = known[other or first]
        if switch and other:
            unless[name] = switch
    for name, switch in UNSET.findall(props):
        variables[name] = True
        unless[name] = switch
    listed = LISTED.search(props)
    given = [x.strip() for x in listed[1].split(",") if x.strip()] if listed else []
    said = dict(zip(names, given, strict=False)) | dict(SET.findall(props))
    found: dict[str, Any] = {}
    unread = []
    for name in ("async", "events", "host_buffer", "buffer_from_host_ptr"):
        value = said.get(name)
        # What a remote end answers is not in the source; llama.cpp's own word comes after it.
        if value is None and not listed:
            value = "false"
        answer = known.get(value or "", variables.get(value or ""))
        if answer is None:
            unread.append(f"{name} = {value}")
            continue
        found[name] = answer
        if value in unless:
            found.setdefault("unless", {})[name] = unless[value]
    return found, unread
