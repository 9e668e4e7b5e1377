"""`projectors.json`: what llama.cpp does when it loads a projector, as a program that runs as it stands.

`clip.cpp` reads the keys and tensors and builds the graph once to measure it, so a shape that does not fit ends the
load. Its functions, those of `models/*.cpp` that build graphs, and those of `ggml.c` that make nodes become rows.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from cplus_units import Class, Unit, enumerators, macros, plain
from cpp_operators import Unsupported
from source import Tables, body, without_comments

Row = list[Any]
KEYS = {
    "get_u32": "u32", "get_i32": "i32", "get_f32": "f32", "get_bool": "bool", "get_string": "str",
    "get_arr_int": "arr i32", "get_arr_f32": "arr f32",
}  # fmt: skip
HEADERS = ("clip.h", "clip-impl.h", "clip-model.h", "clip-graph.h", "models/models.h")
TAKEN = (
    "clip_n_mmproj_embd clip_n_output_tokens clip_get_image_max_tokens clip_get_graph_builder "
    "clip_model_n_temporal_merge clip_get_projector_type clip_get_hparams"
).split()
"""Functions of `clip.cpp` beside the methods of its classes."""
LOADER = (
    "load_hparams load_tensors get_dummy_batch set_llava_uhd_res_candidates set_internvl_dhr_res_candidates"
).split()
CONSTANTS = {
    "INT32_MAX": 2**31 - 1, "INT_MAX": 2**31 - 1, "UINT32_MAX": 2**32 - 1, "INT64_MAX": 2**63 - 1,
    "FLT_MAX": 3.4028234663852886e38, "GGML_MAX_DIMS": 4, "GGML_MAX_SRC": 10, "M_PI": 3.141592653589793,
    "GGML_MROPE_SECTIONS": 4, "GGML_MAX_OP_PARAMS": 64, "INFINITY": 3.4e38, "LLAMA_TOKEN_NULL": -1,
}  # fmt: skip


class ClipUnit(Unit):
    """A file of clip, with the calls that read keys into variables."""

    def statement(self) -> list[Row]:
        word = self.peek()[1]
        if word in KEYS and self.peek(1)[1] == "(":
            self.next()
            self.needs("(")
            given = self.arguments()
            self.needs(";")
            return [["key", KEYS[word], given[0], given[1], given[2] if len(given) > 2 else "True"]]
        if word == "string_replace_all":
            self.next()
            self.needs("(")
            given = self.arguments()
            self.needs(";")
            return [["set", given[0], f"replaced({', '.join(given)})"]]
        return super().statement()


class Clip:
    """Everything that is read of one source tree."""

    def __init__(self, t: Tables) -> None:
        self.t = t
        self.root = t.src.parent / "tools" / "mtmd"
        self.ggml = t.src.parent / "ggml"
        self.structs: set[str] = {"clip_ctx", "ggml_tensor"}
        self.enums: dict[str, dict[str, int]] = {}
        self.macros: dict[str, str] = {"PRId64": "'ld'", "PRIu64": "'lu'"}
        self.constants: dict[str, Any] = dict(CONSTANTS)
        self.skipped: list[str] = []
        for path in (*(self.root / h for h in HEADERS), self.ggml / "include" / "ggml.h"):
            text = plain(self.read(path))
            self.structs |= set(re.findall(r"\bstruct (\w+)", text))
            self.enums |= enumerators(text)
        for m in re.finditer(r'^#define (\w+)\s+("[^"\n]*")[ \t]*$', self.read(self.root / "clip-impl.h"), re.M):
            self.macros[m[1]] = repr(ast.literal_eval(m[2]))
        numbers_of = r"^#define (GGML_ROPE_TYPE_\w+|GGML_SCALE_\w+)\s+(\d+)\s*$"
        for name, value in re.findall(numbers_of, self.read(self.ggml / "include" / "ggml.h"), re.M):
            self.constants[name] = int(value)
        for numbers in self.enums.values():
            self.constants |= numbers

    @staticmethod
    def read(path: Path) -> str:
        return without_comments(path.read_text(encoding="utf-8"))

    def macros_of_expressions(self) -> dict[str, tuple[list[str], str]]:
        """`CLIP_ALIGN` and the like."""
        out: dict[str, tuple[list[str], str]] = {}
        for header in HEADERS:
            out |= macros(self.read(self.root / header))
        return out

    def unit(self, path: Path) -> ClipUnit:
        text = re.sub(r"'(\\?.)'", lambda m: str(ord(m[1][-1])), plain(self.read(path)))
        unit = ClipUnit(text, self.t)
        unit.structs, unit.enums = frozenset(self.structs), frozenset(self.enums)
        unit.constants, unit.skipped = dict(self.macros), []
        unit.survey()
        return unit


def projectors(t: Tables, build: str) -> tuple[dict[str, Any], list[str]]:
    """The whole data file, and what could not be read."""
    clip = Clip(t)
    classes: dict[str, Class] = {}
    functions: dict[str, Row] = {}
    given: dict[str, str] = {}
    units = [clip.unit(clip.root / h) for h in HEADERS]
    for unit in units:
        classes |= unit.classes
        given |= unit.globals
    main = clip.unit(clip.root / "clip.cpp")
    loader = main.classes["clip_model_loader"]
    sources = [main, *(clip.unit(p) for p in sorted((clip.root / "models").glob("*.cpp")))]
    for unit in sources:
        given |= unit.globals
        unit.skipped.clear()
        for name in unit.places:
            owner, _, short = name.rpartition("::")
            if unit is main and not (owner.startswith("clip_graph") or name in TAKEN):
                continue
            _place(unit, name, owner.rpartition("::")[2], short, classes, functions)
        clip.skipped += unit.skipped
    for unit in units[:2]:
        if "dsv4_get_block_layout" in unit.places:
            functions["dsv4_get_block_layout"] = unit.body_of("dsv4_get_block_layout")
            functions["clip_anyres_unpad"] = unit.body_of("clip_anyres_unpad")
    for name, (parameters, text) in clip.macros_of_expressions().items():
        value = units[0].translated(text)
        if parameters:
            functions[name] = [[[p, ""] for p in parameters], [["return", value]]]
        else:
            given[name] = value
    functions |= {name: loader.methods[name] for name in LOADER}
    classes["clip_ctx"] = main.classes["clip_ctx"]
    classes["clip_ctx"].start = None
    functions["load_tensors"] = _without_the_data(clip)
    functions |= _preprocessors(clip)
    clip.skipped += _nodes(clip, classes, functions)
    used = _reached(classes, functions)
    return {
        "build": build,
        "types": _types(clip),
        "constants": {k: v for k, v in clip.constants.items() if k in used or k.startswith("PROJECTOR_TYPE_")},
        "globals": {k: v for k, v in given.items() if k in used},
        "functions": dict(sorted(functions.items())),
        "classes": {k: _class(c) for k, c in sorted(classes.items()) if k in used and k != "clip_model_loader"},
    }, [f"projectors: {gap}" for gap in clip.skipped]


def _place(
    unit: ClipUnit, name: str, owner: str, short: str, classes: dict[str, Class], functions: dict[str, Row]
) -> None:
    try:
        body = unit.body_of(name)
    except Unsupported as gap:
        unit.skipped.append(f"{name}: {gap}")
        return
    if not owner:
        functions[short] = body
    elif owner == short:
        classes[owner].start = classes[owner].start or body
        if short == "clip_graph" and len(body[0]) == 2:
            classes[owner].start = body
    else:
        declared = classes[owner].declared.get(short, body[0])
        body[0][:] = [p if len(p) > 2 else [*p, *d[2:]] for p, d in zip(body[0], declared, strict=True)]
        classes[owner].methods[short] = body


def _types(clip: Clip) -> dict[str, str]:
    """Names of projector types in a file, by what the source calls them."""
    text = clip.read(clip.root / "clip-impl.h")
    return dict(re.findall(r'\{\s*(PROJECTOR_TYPE_\w+),\s*"([^"]+)"\s*\}', text))


def _without_the_data(clip: Clip) -> Row:
    """`load_tensors` from its first tensor up to the reading of data; what it reads with is the machine's."""
    text = plain(clip.read(clip.root / "clip.cpp"))
    at = text.index("void load_tensors(clip_ctx & ctx_clip)")
    start = text.index("const char * prefix", at)
    seanet = text.index("auto load_seanet", start)
    first = text.index("model.class_embedding = get_tensor", start)
    end = text.index("std::vector<uint8_t> read_buf;", first)
    head = text[start : text.index(";", start) + 1] + text[seanet : text.index("auto get_vector", seanet)]
    code = "auto & model = ctx_clip.model; auto & hparams = model.hparams;" + head
    code += text[first : text.rindex("{", first, end)]
    # The entry of a map that is given in braces does not say its type.
    code = code.replace("clamp_info_map[name] = {", "clamp_info_map[name] = clamp_info{")
    unit = ClipUnit(code, clip.t)
    unit.structs, unit.enums = frozenset(clip.structs), frozenset(clip.enums)
    unit.constants, unit.skipped, unit.function = dict(clip.macros), [], "load_tensors"
    rows = unit.rows()
    clip.skipped += unit.skipped
    return [[["ctx_clip", ""]], rows]


def _preprocessors(clip: Clip) -> dict[str, Row]:
    """`init_vision` and `init_audio` of `mtmd.cpp`: which types have something that prepares their input."""
    text = plain(clip.read(clip.root / "mtmd.cpp"))
    clip.constants |= {k: v for e in enumerators(text).values() for k, v in e.items()}
    text = re.sub(r"std::make_unique<mtmd_\w+>\(\w+\)", "1", text)
    text = re.sub(r"\w+_preproc(?:\.reset|->initialize)\(\);", "", text)
    out: dict[str, Row] = {}
    for name in ("init_vision", "init_audio"):
        at = text.index(f"void {name}() {{")
        unit = ClipUnit(body(text, text.index("{", at)), clip.t)
        unit.structs, unit.enums = frozenset(clip.structs), frozenset(clip.enums)
        unit.constants, unit.skipped, unit.function = dict(clip.macros), [], name
        kind = "image_preproc" if name == "init_vision" else "audio_preproc"
        out[name] = [[], [["let", kind, "0"], *unit.rows()]]
        clip.skipped += unit.skipped
    return out


def _nodes(clip: Clip, classes: dict[str, Class], functions: dict[str, Row]) -> list[str]:
    """Functions of `ggml.c` that are called and not the machine's own."""
    from gguftool.facts.machine.ggml import natives

    unit = clip.unit(clip.ggml / "src" / "ggml.c")
    unit.skipped.clear()
    own = set(natives())
    waiting = _called(classes, functions)
    while waiting:
        name = waiting.pop()
        if name in own or name in functions or name not in unit.places:
            continue
        try:
            functions[name] = unit.body_of(name)
        except Unsupported as gap:
            unit.skipped.append(f"{name}: {gap}")
            continue
        waiting |= set(_names(functions[name]))
    return unit.skipped


def _called(classes: dict[str, Class], functions: dict[str, Row]) -> set[str]:
    out: set[str] = set()
    for rows in (*functions.values(), *(m for c in classes.values() for m in c.methods.values())):
        out |= set(_names(rows))
    return out


def _names(rows: Any) -> list[str]:
    if isinstance(rows, str):
        return re.findall(r"\w+", rows)
    return [name for part in rows for name in _names(part)] if isinstance(rows, list) else []


def _reached(classes: dict[str, Class], functions: dict[str, Row]) -> set[str]:
    """Every word of the program, so that what nothing names is left out."""
    out = _called(classes, functions) | {"clip_ctx", "clip_model", "clip_image_f32", "clip_image_f32_batch"}
    for name, about in classes.items():
        if name.startswith("clip_graph"):
            out.add(name)
        out |= set(about.bases) | set(_names(about.start or [])) | set(_names(about.fields))
    return out


MEMORY = ("ctx0_ptr", "ggml_new_graph_custom", "buf_compute_meta", "buf.resize", "buf.clear", "ctx0_ptr.get")
"""Where memory is got for numbers that nothing here looks at."""


def _shapes_only(rows: list[Row]) -> list[Row]:
    """The rows without those that get memory."""
    out: list[Row] = []
    for row in rows:
        if row[0] == "if":
            out.append([*row[:2], *(_shapes_only(part) for part in row[2:])])
        elif not (row[0] in ("do", "set", "let") and any(m in part for m in MEMORY for part in row[1:3])):
            out.append(row)
    return out


def _class(about: Class) -> dict[str, Any]:
    out: dict[str, Any] = {"fields": about.fields}
    about.methods = {n: [p, _shapes_only(rows), *code] for n, (p, rows, *code) in about.methods.items()}
    if about.start is not None:
        about.start = [about.start[0], _shapes_only(about.start[1])]
    if about.bases:
        out["bases"] = about.bases
    if about.methods:
        out["methods"] = about.methods
    if about.start is not None and about.start[1]:
        out["start"] = about.start
    out.setdefault("methods", {})
    return out
