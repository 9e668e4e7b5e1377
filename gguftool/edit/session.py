"""``with gguftool.edit(path) as e:`` — collect changes, commit them on a clean exit, none on an exception."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

from gguftool.edit.ops import Delete, Operation, Rename, Set, SetElement
from gguftool.edit.plan import EditPlan, Result, plan_edit
from gguftool.edit.recover import pending, recover
from gguftool.model import Model, open_model


class edit:
    """Change a model in a ``with`` block; everything is committed at its end, or nothing when it raises.

    Args:
        path: a ``.gguf`` file, or any shard of a set.
        options: as for `gguftool.edit.plan.plan_edit`.

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
        self._model: Model | None = None

    def __enter__(self) -> edit:
        if pending(self.path):
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
        """Give a key a value; the type by the schema of known keys unless named."""
        self.operations.append(Set(self._full(key), value, type))

    def set_element(self, key: str, index: int, value: object) -> None:
        """Give one element of an array another value."""
        self.operations.append(SetElement(self._full(key), index, value))

    def rename(self, old: str, new: str) -> None:
        """Give a field another key."""
        self.operations.append(Rename(self._full(old), new))

    def __setitem__(self, key: str, value: object) -> None:
        self.set(key, value)

    def __delitem__(self, key: str) -> None:
        self.operations.append(Delete(self._full(key)))

    def __getitem__(self, key: str) -> object:
        """The value as it stands in the file (changes of this block are not in it yet)."""
        return self._opened()[self._full(key)]

    def _full(self, key: str) -> str:
        return self._opened().full_key(key)

    def _opened(self) -> Model:
        if self._model is None:
            self._model = open_model(self.path, strict=False)
        return self._model

    def _close(self) -> None:
        if self._model is not None:
            self._model.close()
            self._model = None
