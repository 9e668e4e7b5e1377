"""``with gguftool.edit(path) as e:`` — collect changes, commit them on a clean exit, none on an exception."""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping
from types import TracebackType
from typing import Any

from gguftool.brief import line, shown
from gguftool.edit.ops import Delete, Operation, Rename, Set, SetElement, apply
from gguftool.edit.plan import EditPlan, Result, plan_edit
from gguftool.edit.schema import key_types
from gguftool.edit.steps import pending
from gguftool.edit.texts import refuse_texts
from gguftool.edit.which import metadata_file
from gguftool.edit.whole import editable
from gguftool.format.values import plain, type_of
from gguftool.model import Model, Part, with_header
from gguftool.source import LocalFile


class edit(MutableMapping[str, object]):
    """Change a model in a ``with`` block; everything is committed at its end, or nothing when it raises.

    As a mapping it is the metadata as it will be: what was set in the block is there, what was deleted is not. Keys
    without a prefix get the architecture's: ``context_length`` is ``qwen2.context_length``.

    Args:
        path: a ``.gguf`` file, or any shard of a set.
        options: as for `gguftool.edit.plan.plan_edit`; ``harm="allow"`` also makes changes after which llama.cpp would
            not load or run the model any more.

    Raises:
        UsageError: at once, for a key, type or value that is not possible; nothing is written then.
        Refused: at the end of the block, when the edit is not safe; the hint says the way on.

    ::

        with gguftool.edit("m.gguf") as e:
            e["general.name"] = "Foo"
            e.set("my.key", 5, "u32")
            del e["general.url"]
        print(e.result.undo)
    """

    def __init__(self, path: str | os.PathLike[str], **options: Any) -> None:
        self.path = os.fspath(path)
        self.options = options
        self.operations: list[Operation] = []
        self.result: Result | None = None
        self._opened: Model | None = None
        self._pending: Model | None = None

    __hash__ = object.__hash__
    __eq__ = object.__eq__

    def __repr__(self) -> str:
        state = "done" if self.result is not None else f"{len(self.operations):,} changes"
        return line("edit", [shown(self.path), state])

    def __enter__(self) -> edit:
        if pending(self.path):
            from gguftool.edit.recover import recover

            recover(self.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closed first: an open descriptor of our own would look like somebody else's.
        self._close()
        if kind is None and self.operations:
            self.result = self.plan().commit()

    def plan(self) -> EditPlan:
        """What leaving the block would do."""
        return plan_edit(self.path, self.operations, **self.options)

    def set(self, key: str, value: object, type: str | None = None) -> None:
        """Give a key a value; the type by the schema of known keys unless named, of others that of a numpy value."""
        whole = self._full(key)
        if type is None and whole not in self._model and not key_types(whole, self._model.architecture):
            type = type_of(value)
        self._do(Set(whole, plain(value), type))

    def set_element(self, key: str, index: int, value: object) -> None:
        """Give one element of an array another value."""
        self._do(SetElement(self._full(key), index, plain(value)))

    def rename(self, old: str, new: str) -> None:
        """Give a field another key."""
        self._do(Rename(self._full(old), self._full(new)))

    def do(self, *operations: Operation) -> None:
        """Add operations as they are: those of a fix, `Repack`, `Reserve` …"""
        for operation in operations:
            self._do(operation)

    def __setitem__(self, key: str, value: object) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        if key not in self:
            raise KeyError(key)
        self._do(Delete(self._full(key)))

    def __getitem__(self, key: str) -> object:
        """The value as it will be; KeyError when there will be none."""
        return self._model[self._full(key)]

    def __contains__(self, key: object) -> bool:
        model = self._model
        return key in model or (isinstance(key, str) and model.architecture != "" and model.full_key(key) in model)

    def __iter__(self) -> Iterator[str]:
        """The keys as they will be, in the order of the file; changes may be made meanwhile."""
        return iter(list(self._model))

    def __len__(self) -> int:
        return len(self._model)

    @property
    def _model(self) -> Model:
        """The model as it will be."""
        if self._pending is None:
            path = metadata_file(self.path)
            source = LocalFile(path)
            self._opened = self._pending = Model((Part(path, source, editable(source, path)),))
        return self._pending

    def _do(self, operation: Operation) -> None:
        model = self._model
        force, nul = bool(self.options.get("force")), self.options.get("harm") == "allow"
        refuse_texts([operation], model.header, force=force, nul=nul)
        header = apply([operation], model.header, force=force)
        self._pending = with_header(model, header)
        self.operations.append(operation)

    def _full(self, key: str) -> str:
        return self._model.full_key(key)

    def _close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = self._pending = None
