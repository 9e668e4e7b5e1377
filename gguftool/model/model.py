"""The typed view of one model, in one file or in a set of shards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gguftool.brief import Named, line, shown, table
from gguftool.errors import UsageError
from gguftool.facts.arch import Hparams
from gguftool.facts.data import INSTEAD
from gguftool.format.header import MANY, Field, Header, Problem
from gguftool.format.types import ARR, BOOL, STR
from gguftool.model.part import Part, Tensor
from gguftool.near import near_names
from gguftool.shell import gguftool, path_word

if TYPE_CHECKING:
    from gguftool.model.shards import Shard


class Model(Mapping[str, object]):
    """One model: metadata of the first shard, tensors of all. As a mapping it is its metadata, decoded.

    Attributes:
        parts: the files, in shard order (a missing shard has no part).
        problems: faults noticed while reading, of all parts.
        missing_shards: numbers (from 1) of shards that were not found.
        shard_names: the file names that llama.cpp looks for; empty for a whole model and when no name tells.
        by_content: files that were found by what is in them; their names do not say that they are of this set.
        strangers: files with the name of a shard of this set and the split keys of another; no part of the model.
        kept: what was found out about it once, by name; it dies with the model, so it must not hold the model.
        shared: the same about its fields alone; drafts of the model, which have most fields from it, have it together.
    """

    def __init__(
        self,
        parts: tuple[Part, ...],
        missing_shards: tuple[int, ...] = (),
        shard_count: int = 1,
        by_content: tuple[str, ...] = (),
        shard_names: tuple[str, ...] = (),
        strangers: tuple[Shard, ...] = (),
    ) -> None:
        self.parts = parts
        self.by_content = by_content
        self.shard_names = shard_names
        self.strangers = strangers
        self.missing_shards = missing_shards
        self.shard_count = shard_count
        self.kept: dict[str, Any] = {}
        self.shared: dict[str, Any] = {}

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __bool__(self) -> bool:
        """True, also of a model without any metadata."""
        return True

    def __repr__(self) -> str:
        facts = [shown(self.name), self.architecture[:40] or "no architecture", f"{len(self):,} keys"]
        return line("Model", [*facts, f"{len(self.tensors):,} tensors", f"{self.file_size:,} bytes"])

    def _repr_html_(self) -> str:
        rows = ((f.key, f.type_name, f.shown()) for f in self.fields.values())
        title = f"{self.name}: {self.architecture}, {len(self.tensors):,} tensors, {self.file_size:,} bytes"
        return table(title, ("key", "type", "value"), rows)

    @property
    def name(self) -> str:
        """Path or URL of the first part."""
        return self.parts[0].name

    @property
    def paths(self) -> tuple[str, ...]:
        """The files on this machine that it is made of."""
        return tuple(part.path for part in self.parts if part.path is not None)

    @property
    def header(self) -> Header:
        """Header of the first part: it carries the metadata."""
        return self.parts[0].header

    @property
    def missing_names(self) -> tuple[str, ...]:
        """File names of the missing shards, as far as they are known."""
        return tuple(self.shard_names[no - 1] for no in self.missing_shards) if self.shard_names else ()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Faults noticed while reading."""
        return tuple(p for part in self.parts for p in part.header.problems)

    @property
    def file_size(self) -> int:
        """Bytes of all parts together."""
        return sum(part.size for part in self.parts)

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """Metadata of the first shard by key; of duplicates the first."""
        out: dict[str, Field] = Named()
        for f in self.header.fields:
            out.setdefault(f.key, f)
        return out

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """Tensors of all shards by name; of duplicates the first."""
        out: dict[str, Tensor] = Named()
        for t in self.all_tensors():
            out.setdefault(t.name, t)
        return out

    def all_tensors(self) -> Iterator[Tensor]:
        """Tensors in file order, duplicates included."""
        for part in self.parts:
            for info in part.header.tensors:
                yield Tensor(info, part)

    def __getitem__(self, key: str) -> object:
        """Decoded value of a key; KeyError when it is absent."""
        return self.fields[key].value

    def __iter__(self) -> Iterator[str]:
        """The keys, in file order."""
        return iter(self.fields)

    def __len__(self) -> int:
        """Number of different keys."""
        return len(self.fields)

    def __contains__(self, key: object) -> bool:
        return key in self.fields

    # Without the exception that a mapping's own `get` raises and catches: absent keys are the rule.
    def get(self, key: str, default: object = None) -> object:
        """Decoded value of a key, or ``default``; of a string of more than 1 MiB the beginning (`Field.told`)."""
        f = self.fields.get(key)
        if f is None or (f.count or 0) <= MANY:
            return default if f is None else f.told
        if f.element_type not in (STR, BOOL, ARR):
            return f.value
        # Rules ask for the same key again and again, also where it is an array that should be none.
        name = f"value of {key}"
        if name not in self.kept:
            self.kept[name] = f.value
        return self.kept[name].copy()

    @property
    def reading(self) -> Callable[[str], object]:
        """`get` as a function that does not hold the model, for what is kept on it."""
        fields = self.fields

        def get(key: str) -> object:
            found = fields.get(key)
            return None if found is None else found.told

        return get

    def field(self, key: str) -> Field:
        """The field of a key as a person types it (the architecture prefix may be left out).

        Raises:
            UsageError: no such key; the hint names near ones.
        """
        f = self.fields.get(key) or self.fields.get(f"{self.architecture}.{key}")
        if f is not None:
            return f
        near = near_names(key, self.fields, 3, 0.5)
        hint = f"did you mean {' or '.join(near)}?" if near else gguftool("dump", "--no-tensors", path_word(self.name))
        raise UsageError(f"{self.name}: has no key {key}", hint)

    @cached_property
    def architecture(self) -> str:
        """`general.architecture`, or "" when absent or not a string."""
        value = self.get("general.architecture")
        return value if isinstance(value, str) else ""

    @cached_property
    def arch(self) -> Hparams:
        """Hyperparameters under the file's own architecture prefix."""
        # Functions that do not hold the model: one in a circle lives until the collector comes by.
        fields, tensors = self.fields, self.tensors

        def count(key: str) -> int:
            found = fields.get(key)
            return 0 if found is None else found.count or 0

        def shape(name: str) -> tuple[int, ...] | None:
            tensor = tensors.get(name)
            return None if tensor is None else tensor.shape

        # Of a set that is not whole the tensors say nothing.
        return Hparams(self.architecture, self.reading, None if self.missing_shards or not tensors else shape, count)

    def once(self, name: str, compute: Callable[[], Any]) -> Any:
        """What was found out by the facts of the newest build, kept under ``name``; by those of another each time."""
        if INSTEAD.get() is not None:
            return compute()
        if name not in self.kept:
            self.kept[name] = compute()
        return self.kept[name]

    def full_key(self, key: str) -> str:
        """A key as a person types it: ``context_length`` becomes ``qwen2.context_length``; known whole keys stay.

        A key without a dot has no prefix of its own, also when nobody knows it; one that is in the file stays.

        Raises:
            UsageError: a prefix is needed and the file names no architecture.
        """
        known = (
            "general.",
            "tokenizer.",
            "split.",
            "adapter.",
            "clip.",
            "quantize.",
            "imatrix.",
            "gguftool.",
            "xielu.",
        )
        arch = self.architecture
        if key.startswith(known) or key in self.fields or (arch and key.startswith(arch + ".")):
            return key
        first, dot, _ = key.partition(".")
        if first not in _ARCH_KEY_HEADS and (dot or not arch):
            return key
        if not arch:
            raise UsageError(f"{key} needs an architecture prefix, and the file has no general.architecture")
        return f"{arch}.{key}"

    def read(self, name: str) -> bytes:
        """Raw bytes of a tensor.

        Raises:
            KeyError: no such tensor.
            FormatError: unknown type, or the data passes the end of the file.
        """
        return self.tensors[name].read()

    def close(self) -> None:
        """Give back file descriptors."""
        for part in self.parts:
            part.source.close()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


_ARCH_KEY_HEADS = frozenset(
    "vocab_size context_length embedding_length embedding_length_out embedding_length_per_layer_input block_count "
    "feed_forward_length attention rope expert_count expert_used_count expert_shared_count expert_group_count "
    "expert_group_used_count expert_feed_forward_length expert_shared_feed_forward_length expert_weights_scale "
    "expert_weights_norm expert_gating_func leading_dense_block_count nextn_predict_layers pooling_type "
    "use_parallel_residual logit_scale embedding_scale residual_scale final_logit_softcapping attn_logit_softcapping "
    "router_logit_softcapping kv_cache_type ssm wkv shortconv kda full_attention_interval classifier "
    "interleave_moe_layer_step moe_every_n_layers tensor_data_layout".split()
)
