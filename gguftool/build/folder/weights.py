"""The files of the weights: which are there, and whether they belong together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen

_FOREIGN = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf")


def index(seen: Seen) -> Iterator[Problem]:
    """Whether the index and the files belong together."""
    if not seen.index or seen.only_adapter:
        return
    path = seen.path
    missing = sorted(n for n in set(seen.index.values()) if not seen.has(n))
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        yield Problem("missing-weights", f"{path}: {missing[0]}{more} is missing; the index names it", "download it")
        return
    have = seen.tensors
    absent = [n for n in seen.index if n not in have]
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
    foreign = [n for n in seen.names if n.endswith(_FOREIGN)]
    yield Problem(
        "no-weights",
        f"{path}: has no weights the converter reads (model*.safetensors, pytorch_model*.bin)"
        + (f"; there is {', '.join(foreign[:3])}" if foreign else ""),
        "save the model with save_pretrained" if foreign else "download the weights",
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
