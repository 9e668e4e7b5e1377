"""What came out of a conversion, counted against what went in: tensors, parameters, layers, bytes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gguftool.build.folder.look import Folder
from gguftool.build.judged import Check, looked
from gguftool.build.left import OTHER, Left
from gguftool.build.runs import is_encoder
from gguftool.build.safetensors import Entry
from gguftool.format.types import TENSOR_TYPE_BY_NAME
from gguftool.model import Model
from gguftool.model.role import role
from gguftool.quantity import human
from gguftool.regex import regex
from gguftool.verify.result import Fault

FAR_TOO_SMALL = 0.25
"""Share of the parameters below which a result is a failure."""
SMALL = 0.95
"""Share below which it is worth a word: no converter leaves out as much without parts that it does not know."""
_SOURCE_LAYER = regex(r"^(?:(.*?)\.)?(\d+)\.")
_LAYER = regex(r"^((?:\w+\.)?blk)\.(\d+)\.")


def counts(model: Model, folder: Folder, outtype: str, layers: int | None = None, left: Sequence[Left] = ()) -> Check:
    """Count a converted model, or a projector, against its source.

    Args:
        model: what came out, opened with ``strict=False``.
        folder: what went in.
        outtype: the type that was asked for.
        layers: layers that config.json names.
        left: what is known to be in none of the files that were made.
    """
    tensors = [t.info for t in model.all_tensors()]
    size = sum(part.source.size for part in model.parts)
    projector = role(model) == "mmproj"
    gone = {name for one in left if one.kind == "tensors" and one.what != OTHER for name in one.names}
    if not any(t.name == "output.weight" for t in tensors) and folder.config.text.get("tie_word_embeddings", True):
        gone.add("lm_head.weight")  # it is the embedding once more
    went_in = [e for e in _of_part(folder.tensors, tower=projector) if e.name not in gone]
    there = sum(entry.elements for entry in went_in)
    here = sum(t.elements for t in tensors)
    said = f"{len(tensors):,} tensors, {here:,} parameters"
    said += f" ({there:,} in the source)" if there else ""
    faults: list[Fault] = []
    notes = [Fault("tensors-left", one.line) for one in left if one.kind == "tensors" and one.what == OTHER]
    if not tensors:
        message = f"it holds no tensors ({human(size)}): nothing of the weights went into it"
        return looked("counts", message, [Fault("no-tensors", message, "file", _way(folder))])
    share = here / there if there else 1.0
    if share < FAR_TOO_SMALL:
        message = f"it holds {here:,} parameters, the source {there:,}: most of the weights are missing"
        faults.append(Fault("far-too-small", message, "file", _way(folder)))
    elif share < SMALL:
        what = "the part it was made of" if projector else "the source"
        notes.append(Fault("fewer-parameters", f"it holds {here:,} parameters, {what} {there:,}"))
    # Twice is what numbers kept wider than was asked for come to at most: norms, tensors of one dimension.
    expected = _bytes(there, outtype)
    if there and size < FAR_TOO_SMALL * expected and not faults:
        message = f"it has {human(size)}, the weights in {outtype} take {human(expected)}"
        faults.append(Fault("far-too-small", message, "file", _way(folder)))
    lost = _layers_lost([t.name for t in tensors], went_in, layers) if not projector else None
    if lost is not None:
        message = f"it has {lost[0]} layers, the source {lost[1]}"
        faults.append(Fault("layers-lost", message, "field:block_count", _way(folder)))
    return looked("counts", faults[0].message if faults else said, faults, notes)


def _way(folder: Folder) -> str:
    return (
        "the weights are of a kind that this converter passes over: a newer llama.cpp may take them (--llama-cpp DIR)"
        if folder.tensors
        else "what the log of the converter says of the weights"
    )


def _of_part(entries: Iterable[Entry], *, tower: bool) -> Iterator[Entry]:
    """Those of the towers, or those of the language model; all of them where the names tell no parts."""
    rows = list(entries)
    part = [e for e in rows if is_encoder(e.name) is tower]
    yield from part or rows


def _bytes(parameters: int, outtype: str) -> int:
    kind = TENSOR_TYPE_BY_NAME.get("F16" if outtype == "auto" else outtype.upper())
    return parameters * kind.block_bytes // kind.block_size if kind is not None else 0


def _layers_lost(names: Iterable[str], source: Iterable[Entry], layers: int | None) -> tuple[int, int] | None:
    """Layers of the result and of the source, where it has fewer."""
    here: dict[str, set[int]] = defaultdict(set)
    for name in names:
        if found := _LAYER.match(name):
            here[found[1]].add(int(found[2]))
    there: dict[str, set[int]] = defaultdict(set)
    for entry in source:
        if (found := _SOURCE_LAYER.match(entry.name)) and len(found[2]) < 9:
            there[found[1] or ""].add(int(found[2]))
    if not here or not there:
        return None
    had = max(len(numbers) for numbers in there.values())
    had = min(had, layers) if layers else had
    has = max(len(numbers) for numbers in here.values())
    return (has, had) if has < had else None
