"""Weights that lie in the folder and are not read: the same model again, or another one.

transformers takes model.safetensors before any index (`modeling_utils.py`, 4.x and 5.x); the converter takes the files
that the index names (`ModelBase.index_tensors`, b11434).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import PART, Seen
from gguftool.build.safetensors import Entry
from gguftool.errors import GgufToolError

_LOOKS = 256
"""Tensors of two files that are compared, and bytes of each."""
_BYTES = 4096


def stale_index(seen: Seen) -> Iterator[Problem]:
    """model.safetensors beside an index that does not name it: transformers reads it, the converter does not."""
    whole = "model.safetensors"
    if not seen.index or whole not in seen.sizes or whole in seen.files or seen.files[:1] == ():
        return
    if not seen.index_name.startswith("model."):
        return
    theirs = seen.others.get(whole)
    said = (
        f"{seen.path}: {whole} is not in {seen.index_name}: transformers reads it, the converter the {len(seen.files)}"
    )
    said += " files of the index"
    if theirs is not None and _same(seen, theirs):
        yield Problem(
            "two-sets", f"{said}; they hold the same", f"one of the two is not needed: remove {whole}", fatal=False
        )
        return
    yield Problem(
        "stale-index",
        said,
        f"if {whole} is the newer one, move the index and its files away; else move {whole} away",
    )


def not_read(seen: Seen) -> Iterator[Problem]:
    """Other sets of weights, by the numbers in their names, in pickle files, or as Mistral names them."""
    sets: dict[str, list[str]] = defaultdict(list)
    for name in seen.sizes:
        if name in seen.files or name == "model.safetensors":
            continue
        part = PART.fullmatch(name)
        stem = part["stem"] if part else name.rpartition(".")[0]
        if name.endswith(".safetensors") and stem.startswith(("model", "consolidated")):
            sets[f"{stem} of {int(part['count'])}" if part else name].append(name)
        elif name.endswith((".bin", ".pth")) and stem.startswith(("pytorch_model", "consolidated")):
            sets[f"{stem}*{name[name.rindex('.') :]}"].append(name)
    have = sum(e.elements for e in seen.entries)
    for names in sets.values():
        own = names[0].startswith("model")
        if have and (own or not _as_large(seen, names, have)):
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            theirs = [e for n in names for e in seen.others.get(n, ())]
            how = "hold the same" if own and _same(seen, theirs) else "differ" if own else "are of different size"
            yield Problem(
                "two-sets",
                f"{seen.path}: {names[0]}{more} is not read by the converter, which takes {seen.files[0]}"
                + (" and its like" if len(seen.files) > 1 else "")
                + f"; the two {how}",
                "move away what does not belong to this model",
                fatal=False,
            )


def _as_large(seen: Seen, names: Sequence[str], have: int) -> bool:
    """Whether a set may hold the same model: as many elements, or as many bytes in one of the usual types."""
    read = [seen.others[n] for n in names if n in seen.others]
    if len(read) == len(names):
        return sum(e.elements for entries in read for e in entries) == have
    total = sum(seen.sizes[n] for n in names)
    return any(0.98 * have * size <= total <= 1.02 * have * size + (1 << 20) for size in (2, 4))


def _same(seen: Seen, theirs: Sequence[Entry]) -> bool:
    """Whether two sets hold the same tensors, as far as a look at some bytes of each tells."""
    ours = seen.tensors
    if {e.name: (e.dtype, e.shape) for e in theirs} != {e.name: (e.dtype, e.shape) for e in ours.values()}:
        return False
    step = max(1, len(theirs) // _LOOKS)
    try:
        return all(seen.some(e, _BYTES) == seen.some(ours[e.name], _BYTES) for e in list(theirs)[::step])
    except GgufToolError:
        return False
