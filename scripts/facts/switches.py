"""`switches.json`: options of the build, old names of them, and variables of the environment that the code reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from source import without_comments

OPTION = re.compile(r'^\s*option\s*\(\s*(\w+)\s+"[^"]*"\s*([^)\s]*)', re.M)
CACHED = re.compile(r'^\s*set\s*\(\s*(\w+)\s+("[^"]*"|\S*)\s+CACHE\s+(?:STRING|BOOL|PATH|FILEPATH)', re.M)
RENAMED = re.compile(r"^\s*llama_option_depr\(\s*(FATAL_ERROR|WARNING)\s+(\w+)\s*(\w*)\s*\)", re.M)
READ = re.compile(r'\b(?!set_env)(?:\w*getenv\w*|get_env|env_\w+|\w+_env)\s*\([^;"]{0,40}"([A-Za-z_][A-Za-z0-9_]{2,})"')
FOLDERS = ("ggml/src", "src", "common", "tools", "app")
SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".cu", ".cuh", ".m"}
ANYBODYS = frozenset("HOME USERPROFILE TEMP TERM PORT APPDATA LOCALAPPDATA PROGRAMDATA".split())
COMPILER = re.compile(r"^CMAKE_|_INSTALL_DIR$|^KLEIDIAI_|^USE_ACL|^EMDAWN")


def switches(root: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    missing: list[str] = []
    found: dict[str, str] = {}
    renamed: dict[str, Any] = {}
    for listing in (root / "CMakeLists.txt", root / "ggml" / "CMakeLists.txt", *sorted(root.glob("*/*/CMakeLists.txt")),
                    *sorted(root.glob("ggml/src/*/CMakeLists.txt"))):  # fmt: skip
        text = re.sub(r"#[^\n]*", "", listing.read_text(encoding="utf-8"))
        for name, default in (*OPTION.findall(text), *CACHED.findall(text)):
            if not COMPILER.search(name):
                found.setdefault(name, default.strip('"') if "$" not in default else "")
        for how, old, new in RENAMED.findall(text):
            renamed[old] = {"now": new, "refused": how == "FATAL_ERROR"}
    for name in ("GGML_CUDA", "GGML_METAL", "LLAMA_OPENSSL"):
        if name not in found:
            missing.append(f"CMakeLists.txt: no option {name}")
    for name in ("LLAMA_CUBLAS", "LLAMA_CUDA"):
        if name not in renamed:
            missing.append(f"CMakeLists.txt: no old option {name}")
    variables = _variables(root)
    if "GGML_CUDA_ENABLE_UNIFIED_MEMORY" not in variables:
        missing.append("ggml: no variable GGML_CUDA_ENABLE_UNIFIED_MEMORY is read")
    return {
        "source": f"CMakeLists.txt, getenv ({build})",
        "switches": dict(sorted(found.items())),
        "renamed": dict(sorted(renamed.items())),
        "variables": dict(sorted(variables.items())),
    }, missing


def _variables(root: Path) -> dict[str, str]:
    """Who reads a variable: the first folder, or the backend."""
    out: dict[str, str] = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in SUFFIXES:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            for name in READ.findall(without_comments(text)):
                if name == name.upper() and name not in ANYBODYS:
                    out.setdefault(name, _reader(path.relative_to(root)))
    return out


def _reader(path: Path) -> str:
    parts = path.parts
    if parts[0] == "ggml" and len(parts) > 3:
        return parts[2]
    return "/".join(parts[:2]) if parts[0] == "tools" else parts[0]
