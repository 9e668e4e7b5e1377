"""All that speaks against converting a folder, and what it will take."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence

from gguftool.build.folder import (
    dtypes,
    head,
    kind,
    layers,
    names,
    placeholder,
    processor,
    quantised,
    shapes,
    template,
    tokenizer,
    twosets,
    weights,
)
from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import Seen, read
from gguftool.build.safetensors import Entry
from gguftool.facts.converters import Registry, known
from gguftool.model.hfconfig import HfConfig
from gguftool.records import dataclass, field

CHECKS: tuple[Callable[[Seen], Iterator[Problem]], ...] = (
    kind.without_config,
    kind.architecture,
    tokenizer.files,
    tokenizer.marked,
    tokenizer.readers,
    tokenizer.ids,
    tokenizer.special,
    processor.preprocessor,
    placeholder.empty,
    placeholder.pointers,
    placeholder.unfinished,
    weights.index,
    weights.files,
    weights.numbered,
    weights.duplicates,
    weights.places,
    twosets.stale_index,
    twosets.not_read,
    names.adapters,
    names.beside,
    names.wrappers,
    names.unmapped,
    quantised.method,
    dtypes.types,
    dtypes.empty,
    layers.counted,
    layers.layers,
    layers.experts,
    layers.rows,
    layers.embedding,
    shapes.shapes,
    shapes.alike,
    head.head,
    template.template,
)
"""In the order in which problems are told."""
MISTRAL = (kind.mistral, placeholder.empty, placeholder.pointers, placeholder.unfinished, weights.places, dtypes.types)
"""Of a folder in Mistral's own format, whose names and sizes are others."""


@dataclass(frozen=True, slots=True)
class Folder:
    """What a Hugging Face folder holds.

    Attributes:
        path: the folder.
        architecture: the name the converter goes by (``Qwen2ForCausalLM``), "" when config.json says none.
        files: weight files the converter will read, by name.
        tensors: of all of them; empty for pytorch_model*.bin, whose content is not looked at.
        weight_bytes: bytes of all weight files.
        parameters: elements of all tensors, 0 when unknown.
        dtype: type most bytes have, "" when unknown.
        problems: what speaks against converting.
        config: config.json; an empty one when that is not there or cannot be read.
        names: all names in the folder.
    """

    path: str
    architecture: str
    files: tuple[str, ...]
    tensors: tuple[Entry, ...]
    weight_bytes: int
    parameters: int
    dtype: str
    problems: tuple[Problem, ...]
    config: HfConfig = field(default_factory=lambda: HfConfig({}))
    names: tuple[str, ...] = ()

    @property
    def fatal(self) -> tuple[Problem, ...]:
        """Problems that stop the conversion."""
        return tuple(p for p in self.problems if p.fatal)

    def output_size(self, outtype: str) -> int:
        """Bytes the converted file will have, about; matrices in ``outtype``, a little for the vocabulary."""
        if not self.parameters:
            return self.weight_bytes
        wide = outtype in ("f16", "bf16", "auto")
        per = {"f32": 4.0, "q8_0": 34 / 32, "tq1_0": 54 / 256, "tq2_0": 66 / 256}.get(outtype, 2.0 if wide else 4.0)
        return int(self.parameters * per) + (16 << 20)


def is_model_folder(path: str) -> bool:
    """Whether a folder looks like a Hugging Face model rather than one of GGUF files."""
    return os.path.isfile(os.path.join(path, "config.json")) or os.path.isfile(os.path.join(path, "params.json"))


def look(
    path: str,
    supported: Registry | Iterable[str] | None = None,
    methods: Iterable[str] = quantised.METHODS,
    arguments: Sequence[str] = (),
) -> Folder:
    """Read what a folder holds and list everything that speaks against converting it.

    Args:
        path: the folder.
        supported: what the converter takes, or the names of models alone; None when there is no converter.
        methods: quantised weights it takes.
        arguments: further arguments that the converter will get, ``--mmproj`` for example.

    Raises:
        MissingFile: no such folder.
        Unreadable: it cannot be listed.
    """
    if supported is None or isinstance(supported, Registry):
        registry = supported
    else:
        registry = Registry(frozenset(supported), top_level=known().top_level)
    seen = read(path, registry, methods, arguments)
    first = tuple(kind.without_config(seen)) if not seen.mistral else ()
    # What is another thing altogether has not all the faults of a model.
    checks = (
        MISTRAL if seen.mistral else CHECKS if not first or first[0].kind == "no-config" else (kind.without_config,)
    )
    problems = [*seen.unread, *(problem for check in checks for problem in seen.once(check))]
    by_type: dict[str, int] = {}
    for entry in seen.entries:
        by_type[entry.dtype] = by_type.get(entry.dtype, 0) + entry.nbytes
    return Folder(
        path=path,
        architecture=seen.architecture,
        files=seen.files,
        tensors=seen.entries,
        weight_bytes=seen.weight_bytes,
        parameters=sum(entry.elements for entry in seen.entries),
        dtype=max(by_type, key=lambda k: by_type[k], default=""),
        problems=tuple(problems),
        config=seen.config,
        names=seen.names,
    )


def _checks(seen: Seen) -> tuple[Callable[[Seen], Iterator[Problem]], ...]:
    """What is another thing altogether has not all the faults of a model."""
    if seen.mistral:
        return MISTRAL
    other = [p for p in seen.once(kind.without_config) if p.kind != "no-config"]
    return (kind.without_config,) if other else CHECKS
