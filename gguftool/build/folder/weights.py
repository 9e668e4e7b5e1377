"""The files of the weights: which are there, and whether they belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen, missing_parts, weight_files
from gguftool.build.safetensors import BITS, Entry
from gguftool.facts.converters import packaged
from gguftool.model.otherkinds import held

_FOREIGN = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf")
_PLAIN = frozenset({"safetensors", "pytorch", "tokenizer", "archive", "data-set"})
"""What may lie in a folder of a model besides, so that it says nothing of missing weights."""
_OFF = 0.01
"""How far the total of an index may be from the truth: some count what is tied twice, or buffers."""


def index(seen: Seen) -> Iterator[Problem]:
    """Whether the index and the files belong together."""
    if not seen.index or seen.only_adapter:
        return
    path = seen.path
    missing = sorted(n for n in set(seen.index.values()) if n not in seen.sizes)
    if missing and not seen.files and "model.safetensors" in seen.sizes and seen.index_name.startswith("model."):
        yield Problem(
            "stale-index",
            f"{path}: {seen.index_name} names {missing[0]}, which is not there; model.safetensors is, and is not read",
            f"the index is of older weights: move {seen.index_name} away",
        )
    elif missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield Problem("missing-weights", f"{path}: {missing[0]}{more} is missing; the index names it", "download it")
    elif _needs_names(seen):
        yield Problem(
            "weights-below",
            f"{path}: the index names files in folders below ({seen.files[0]}); without model*.safetensors beside it "
            "this converter finds no weights",
            "move the files up and take the folder out of the names in the index; newer converters take it as it is",
        )
    if any(n not in seen.headers for n in seen.files):
        return
    have = seen.tensors
    absent = [n for n, file in seen.index.items() if n not in have and file in seen.sizes]
    if have and absent:
        yield Problem(
            "missing-tensors",
            f"{path}: {len(absent)} tensors of the index are in none of the files, for example {absent[0]}",
            "index and weights belong to different versions; download both again",
        )
    extra = [n for n in have if n not in seen.index]
    if extra:
        yield Problem(
            "unlisted-tensors",
            f"{path}: {len(extra)} tensors are not in the index, for example {extra[0]}",
            "index and weights belong to different versions; download both again",
        )
    elsewhere = next((e for e in have.values() if seen.index.get(e.name, e.file).rpartition("/")[2] != e.file), None)
    if elsewhere is not None and not absent and not extra:
        yield Problem(
            "moved-tensors",
            f"{path}: {elsewhere.name} is in {elsewhere.file}, the index has it in {seen.index[elsewhere.name]}",
            "the converter finds it all the same; transformers does not: download the index again",
            fatal=False,
        )
    total = sum(e.nbytes for e in have.values())
    if seen.total_size is not None and abs(seen.total_size - total) > _OFF * total and not (missing or absent or extra):
        yield Problem(
            "wrong-total-size",
            f"{path}: the index speaks of {seen.total_size:,} bytes of weights, the files hold {total:,}",
            "the index may be of another version; the converter does not look at this number",
            fatal=False,
        )


def _needs_names(seen: Seen) -> bool:
    """Whether the packaged converter looks for safetensors by their names, and finds none (`index_tensors`, 0.1.1)."""
    below = bool(seen.files) and all("/" in n for n in seen.files)
    beside = any(n.startswith("model") and n.endswith(".safetensors") for n in seen.names)
    return below and not beside and (seen.registry or packaged()) == packaged()


def files(seen: Seen) -> Iterator[Problem]:
    """Whether there are weights the converter reads."""
    if seen.index or seen.only_adapter:
        return
    path = seen.path
    if seen.files:
        if seen.files[0].endswith(".bin"):
            yield Problem(
                "pickle",
                f"{path}: the weights are pickle files, which may run code when they are loaded",
                "prefer safetensors",
                fatal=False,
            )
        return
    if seen.has("adapter_config.json"):
        yield Problem(
            "lora-only",
            f"{path}: holds a LoRA adapter, not a model",
            "merge it into its base model first (peft: merge_and_unload)",
        )
        return
    if weight_files(seen.names):
        return  # links that lead nowhere
    lacks = f"{path}: has no weights the converter reads (model*.safetensors, pytorch_model*.bin)"
    other = held(path)
    if other is not None and other.kind not in _PLAIN:
        yield Problem("no-weights", f"{lacks}; it holds {other.what}", other.way)
        return
    foreign = [n for n in seen.names if n.endswith(_FOREIGN)]
    yield Problem(
        "no-weights",
        lacks + (f"; there is {', '.join(foreign[:3])}" if foreign else ""),
        "save the model with save_pretrained" if foreign else "download the weights",
    )


def numbered(seen: Seen) -> Iterator[Problem]:
    """Whether a part of a numbered set is missing where no index tells."""
    if seen.index or seen.only_adapter:
        return
    for name, count in missing_parts(seen.files).items():
        yield Problem(
            "missing-weights",
            f"{seen.path}: {count} of the files of the weights are missing, for example {name}",
            "download them; model.safetensors.index.json, too",
        )


def duplicates(seen: Seen) -> Iterator[Problem]:
    """Whether a tensor is there twice."""
    twice = [name for name, count in Counter(e.name for e in seen.entries).items() if count > 1]
    if twice:
        yield Problem(
            "duplicate-tensors",
            f"{seen.path}: {len(twice)} tensors are in more than one of {', '.join(seen.files[:4])}, for example "
            f"{twice[0]}",
            "two sets of weights lie in this folder; move one of them away",
        )


def places(seen: Seen) -> Iterator[Problem]:
    """Whether each tensor has as many bytes as its shape needs, and each byte one tensor."""
    wrong = [e for e in seen.entries if e.dtype in BITS and 8 * e.nbytes != e.elements * BITS[e.dtype]]
    if wrong:
        e = wrong[0]
        needs = -(-e.elements * BITS[e.dtype] // 8)
        yield Problem(
            "wrong-size",
            f"{seen.path}: {e.name} ({e.dtype}, {shown(e.shape)}) needs {needs:,} bytes and has {e.nbytes:,}"
            + (f"; {len(wrong) - 1} more like it" if len(wrong) > 1 else ""),
            "the file was written wrongly: download it again",
        )
        return
    for name in seen.files:
        entries = seen.headers.get(name, ())
        if said := _gap(entries):
            yield Problem(
                "gaps",
                f"{seen.path}: {name}: {said}",
                "the converter reads it; transformers refuses the file",
                fatal=False,
            )


def _gap(entries: Sequence[Entry]) -> str:
    at = 0
    for e in sorted(entries, key=lambda e: (e.begin, e.nbytes)):
        if e.begin > at:
            return f"{e.begin - at:,} bytes before {e.name} belong to no tensor"
        if e.begin < at:
            return f"{e.name} shares bytes with the tensor before it"
        at = e.begin + e.nbytes
    return ""


def shown(shape: Sequence[int]) -> str:
    """A shape, for a sentence."""
    return " × ".join(f"{n:,}" for n in shape) or "a single number"
