"""The converter's Python as tables: its model classes, the keys its writer writes, the numbers of its enumerations.

Nothing is imported: the files are read with `ast`. Older trees have one `convert_hf_to_gguf.py` in place of the
folder `conversion`; both are read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

METHOD = "set_gguf_parameters"
OLD = ("convert_hf_to_gguf.py", "convert-hf-to-gguf.py")
VALUES = {
    "add_uint32": "u32",
    "add_int32": "i32",
    "add_float32": "f32",
    "add_bool": "bool",
    "add_string": "str",
    "add_array": "arr",
}
"""Types by the writer's own methods."""


@dataclass(frozen=True)
class Write:
    """A method of the writer.

    Attributes:
        key: without the architecture.
        type: type of the value; ``u32 or arr`` where it takes both.
        plain: what is handed over is written as it is, or as the value of its enumeration.
    """

    key: str
    type: str
    plain: bool


@dataclass
class Class:
    """A class of the converter.

    Attributes:
        name: its own.
        bases: names of its parents.
        archs: architectures it writes.
        names: of `config.json`, which it is registered for.
        made: entries of the configuration that its beginning sets: ``[config]NAME``; ``self.…`` when the whole is new.
        methods: by name.
        constants: values of the class.
    """

    name: str
    bases: list[str]
    archs: list[str]
    names: list[str]
    made: list[str]
    methods: dict[str, ast.FunctionDef]
    constants: dict[str, ast.expr] = field(default_factory=dict)


def _files(root: Path) -> list[Path]:
    folder = root / "conversion"
    if folder.is_dir():
        return sorted(folder.glob("*.py"))
    return [path for name in OLD if (path := root / name).is_file()][:1]


def classes(root: Path, archs: dict[str, str]) -> dict[str, Class]:
    """Every class by its name.

    Args:
        root: top of the tree.
        archs: architecture by the name of its number: ``LLAMA`` to ``llama``.
    """
    out: dict[str, Class] = {}
    for path in _files(root):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef):
                out[node.name] = _class(node, archs)
                # One that only chooses between the classes inside it.
                for inner in node.body:
                    if isinstance(inner, ast.ClassDef):
                        out[inner.name] = _class(inner, archs)
                        out[inner.name].names = out[node.name].names
    return out


def _class(node: ast.ClassDef, archs: dict[str, str]) -> Class:
    methods = {s.name: s for s in node.body if isinstance(s, ast.FunctionDef)}
    constants: dict[str, ast.expr] = {}
    for s in node.body:
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Name):
            constants[s.targets[0].id] = s.value
        elif isinstance(s, ast.AnnAssign) and isinstance(s.target, ast.Name) and s.value is not None:
            constants[s.target.id] = s.value
    found = _arch(constants["model_arch"], archs) if "model_arch" in constants else []
    if "__init__" in methods:
        # Some decide in their beginning which of two they are.
        for s in ast.walk(methods["__init__"]):
            if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) in ("self.model_arch", "model_arch"):
                found += _arch(s.value, archs)
    return Class(
        node.name,
        [ast.unparse(b).rpartition(".")[2] for b in node.bases],
        list(dict.fromkeys(found)),
        list(_registered(node)),
        list(_made(methods["__init__"])) if "__init__" in methods else [],
        methods,
        constants,
    )


_CONFIG = {"self.hparams": "config", "hparams": "config", "config": "config", "self.rope_parameters": "rope"}


def _made(init: ast.FunctionDef) -> Iterator[str]:
    """Entries of the configuration that do not come from the file."""
    for s in ast.walk(init):
        if isinstance(s, ast.Assign) and isinstance(s.targets[0], ast.Subscript):
            base, key = _CONFIG.get(ast.unparse(s.targets[0].value)), s.targets[0].slice
            filled = isinstance(key, ast.Constant) and f".get({key.value!r}, " in ast.unparse(s.value)
            if base and not filled:
                yield f"[{base}]{key.value}" if isinstance(key, ast.Constant) else ""
        elif isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == "self.rope_parameters":
            yield "self.rope_parameters"
        elif isinstance(s, ast.Call) and isinstance(s.func, ast.Attribute) and s.func.attr in ("update", "pop"):
            base = _CONFIG.get(ast.unparse(s.func.value))
            if base and s.func.attr == "update":
                yield ast.unparse(s.func.value)
            elif base and s.args and isinstance(s.args[0], ast.Constant):
                yield f"[{base}]{s.args[0].value}"


def _arch(value: ast.expr, archs: dict[str, str]) -> list[str]:
    names = [n.attr for n in ast.walk(value) if isinstance(n, ast.Attribute) and "MODEL_ARCH" in ast.unparse(n.value)]
    return [archs[n] for n in names if n in archs]


def _registered(node: ast.ClassDef) -> Iterator[str]:
    """Names in `config.json` that the class converts."""
    for d in node.decorator_list:
        if isinstance(d, ast.Call) and ast.unparse(d.func).endswith(".register"):
            yield from (a.value for a in d.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def lineage(name: str, known: dict[str, Class]) -> list[str]:
    """The class and its parents in Python's order of looking methods up."""
    if name not in known:
        return []
    rest = [lineage(b, known) for b in known[name].bases]
    rest = [r for r in [*rest, [b for b in known[name].bases if b in known]] if r]
    out = [name]
    while rest:
        head = next((r[0] for r in rest if not any(r[0] in other[1:] for other in rest)), rest[0][0])
        out.append(head)
        rest = [r for r in ([x for x in one if x != head] for one in rest) if r]
    return out


def _constants(root: Path) -> ast.Module:
    return ast.parse((root / "gguf-py" / "gguf" / "constants.py").read_text(encoding="utf-8"))


def architectures(root: Path) -> dict[str, str]:
    """Architecture by the name of its number."""
    for node in _constants(root).body:
        target = getattr(node, "target", None) or (node.targets[0] if isinstance(node, ast.Assign) else None)
        value = getattr(node, "value", None)
        if target is not None and ast.unparse(target) == "MODEL_ARCH_NAMES" and isinstance(value, ast.Dict):
            return {
                k.attr: v.value
                for k, v in zip(value.keys, value.values, strict=True)
                if isinstance(k, ast.Attribute) and isinstance(v, ast.Constant)
            }
    return {}


def enumerations(root: Path) -> dict[str, ast.expr]:
    """Values by ``Enumeration.NAME``."""
    out: dict[str, ast.expr] = {}
    for node in _constants(root).body:
        if isinstance(node, ast.ClassDef):
            for s in node.body:
                if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant):
                    out[f"{node.name}.{ast.unparse(s.targets[0])}"] = s.value
    return out


def _keys(root: Path) -> dict[str, str]:
    """Texts of keys by ``Keys.LLM.NAME``."""
    out: dict[str, str] = {}
    for node in _constants(root).body:
        if isinstance(node, ast.ClassDef) and node.name == "Keys":
            for group in node.body:
                if isinstance(group, ast.ClassDef):
                    for s in group.body:
                        if isinstance(s, ast.Assign) and isinstance(s.value, ast.Constant):
                            out[f"Keys.{group.name}.{ast.unparse(s.targets[0])}"] = str(s.value.value)
    return out


def writer(root: Path) -> dict[str, Write]:
    """What each method of the writer writes under the architecture; whole keys and those of projectors are left out."""
    keys = _keys(root)
    out: dict[str, Write] = {}
    tree = ast.parse((root / "gguf-py" / "gguf" / "gguf_writer.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("add_"):
            continue
        found: dict[str, list[tuple[str, ast.expr]]] = {}
        for call in ast.walk(node):
            if isinstance(call, ast.Call) and ast.unparse(call.func).removeprefix("self.") in VALUES:
                key = keys.get(_key(call.args[0], node), "")
                if key.startswith("{arch}.") and "{" not in key[7:]:
                    kind = VALUES[ast.unparse(call.func).removeprefix("self.")]
                    found.setdefault(key[7:], []).append((kind, call.args[1]))
        if len(found) == 1 and len(node.args.args) == 2:
            ((key, writes),) = found.items()
            given = node.args.args[1].arg
            plain = all(ast.unparse(v) in (given, f"{given}.value") for _, v in writes)
            out[node.name] = Write(key, " or ".join(dict.fromkeys(kind for kind, _ in writes)), plain)
    return out


def _key(node: ast.expr, inside: ast.FunctionDef) -> str:
    """``Keys.LLM.NAME`` of a key as it is handed over, also by way of a variable."""
    if isinstance(node, ast.Name):
        for s in ast.walk(inside):
            if isinstance(s, ast.Assign) and ast.unparse(s.targets[0]) == node.id:
                return _key(s.value, inside)
    return ast.unparse(node).partition(".format")[0]
