"""`tensor_names.json`: what the converter calls the tensors of a model, by the names that Hugging Face gives them.

`gguf-py/gguf/tensor_mapping.py` and `constants.py` are read with `ast`, nothing is imported. ``{bid}`` stands for the
number of the layer. A class that changes names or leaves tensors out by a method of its own is not among ``plain``:
there the map alone does not tell what is refused.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

from pyclasses import Class, architectures, classes, lineage

_OWN = ("modify_tensors", "filter_tensors", "index_tensors", "get_tensors", "map_tensor_name")
"""Methods by which a class handles names (`conversion/base.py:ModelBase`)."""


def tensor_names(root: Path, build: str) -> tuple[dict[str, Any], list[str]]:
    """The data file, and what could not be read."""
    gguf = root / "gguf-py" / "gguf"
    constants = ast.parse((gguf / "constants.py").read_text(encoding="utf-8"))
    mapping = ast.parse((gguf / "tensor_mapping.py").read_text(encoding="utf-8"))
    own = {k: str(ast.literal_eval(v)) for k, v in _pairs(_assigned(constants, "TENSOR_NAMES"))}
    # By the converter's own word for a tensor: two of them may have one name in the file.
    names: dict[str, list[str]] = {}
    for table in ("mappings_cfg", "block_mappings_cfg"):
        for tensor, value in _pairs(_assigned(mapping, table)):
            names[tensor] = _unique([*names.get(tensor, ()), *ast.literal_eval(value)])
    archs, special = architectures(root), {}
    by_arch = _pairs(_assigned(mapping, "arch_block_mappings_cfg"))
    apart = {tensor for _, value in by_arch for tensor, _ in _pairs(value)} - set(names)
    names |= {tensor: [] for tensor in sorted(apart)}
    order = {tensor: i for i, tensor in enumerate(names)}
    for arch, value in by_arch:
        special[archs[arch]] = {order[tensor]: _unique(ast.literal_eval(v)) for tensor, v in _pairs(value)}
    tensors = {}
    for arch, value in _pairs(_assigned(constants, "MODEL_TENSORS")):
        listed = [n.attr for n in getattr(value, "elts", ()) if isinstance(n, ast.Attribute)]
        if arch in archs:
            here = special.get(archs[arch], {})
            listed = [t for t in listed if t in order and (t not in apart or order[t] in here)]
            tensors[archs[arch]] = sorted({order[tensor] for tensor in listed})
    known = classes(root, archs)
    text = [c for c in known.values() if "TextModel" in lineage(c.name, known)]
    models = {name: c.archs or _archs(c.name, known) for c in text for name in c.names}
    plain = sorted({name for c in text if _plain(c.name, known) for name in c.names})
    gaps = [f"tensor names: {what} is empty" for what, found in (("names", names), ("tensors", tensors)) if not found]
    out = {"build": build, "names": [[own[k], *v] for k, v in names.items()], "special": special, "tensors": tensors}
    return {**out, "models": {k: v for k, v in sorted(models.items()) if v}, "plain": plain}, gaps


def _assigned(tree: ast.Module, name: str) -> ast.expr | None:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == name:
            return node.value
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return node.value
    return None


def _pairs(value: ast.expr | None) -> list[tuple[str, ast.expr]]:
    """Entries of a table by the names of its keys: ``MODEL_TENSOR.OUTPUT`` is ``OUTPUT``."""
    if not isinstance(value, ast.Dict):
        return []
    return [(k.attr, v) for k, v in zip(value.keys, value.values, strict=True) if isinstance(k, ast.Attribute)]


def _unique(names: Any) -> list[str]:
    return list(dict.fromkeys(names))


def _archs(name: str, known: dict[str, Class]) -> list[str]:
    """The architectures of the nearest parent that has any."""
    return next((known[c].archs for c in lineage(name, known) if known[c].archs), [])


def _plain(name: str, known: dict[str, Class]) -> bool:
    order = lineage(name, known)
    return not any(m in known[c].methods for c in order[: order.index("TextModel")] for m in _OWN)
