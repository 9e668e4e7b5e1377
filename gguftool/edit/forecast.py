"""What llama.cpp does with a file before and after an edit, worked out when first asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING

from gguftool.brief import short_repr
from gguftool.format.header import Header
from gguftool.format.types import ARR, VALUE_TYPES
from gguftool.model import Model, Part
from gguftool.model.headers import Headers
from gguftool.model.shards import split_keys
from gguftool.records import dataclass, field
from gguftool.source import LocalFile

if TYPE_CHECKING:
    from gguftool.predict import Harm, Prediction


@dataclass(frozen=True)
class Forecast:
    """Two predictions and the judgement between them.

    Attributes:
        path: the file that is edited.
        old, new: its header as it is and as it would be.
        size: bytes of the whole new file.
        model: the model, where it is open already and stays so.
        known: headers that need not be read again, and what was found out about them.
    """

    path: str
    old: Header
    new: Header
    size: int
    model: Model | None = None
    known: Headers = field(default_factory=Headers)

    __repr__ = short_repr

    @cached_property
    def harm(self) -> Harm | None:
        """What the edit breaks; None when nothing, or when it cannot be known."""
        from gguftool.predict.idle import all_the_same

        if all_the_same(self.old, self.new):
            return None
        from gguftool.model import with_header
        from gguftool.predict import harm

        with self._opened() as model:
            return harm(model, with_header(model, self.new, self.size))

    @cached_property
    def role(self) -> str:
        """What the file is for, a key of `gguftool.model.role.ROLES`."""
        from gguftool.model.role import role

        with self._opened() as model:
            return role(model)

    @cached_property
    def before(self) -> Prediction:
        """Of the file as it is."""
        from gguftool.predict import predict

        with self._opened() as model:
            return predict(model)

    @cached_property
    def after(self) -> Prediction:
        """Of the file as it would be."""
        from gguftool.model import with_header
        from gguftool.predict import predict

        with self._opened() as model:
            return predict(with_header(model, self.new, self.size))

    def _opened(self) -> AbstractContextManager[Model]:
        """The file is open only while a question is answered: an edit must find it alone."""
        if self.model is not None:
            return nullcontext(self.model)
        # A value type that llama.cpp does not know is not judged from a header that stepped over it.
        odd = any((f.element_type if f.type == ARR else f.type) not in VALUE_TYPES for f in self.old.fields)
        if odd or split_keys(self.old) is not None:
            from gguftool.model import open_model

            return open_model(self.path, strict=False, known=self.known)
        model = Model((Part(self.path, LocalFile(self.path), self.old),))
        model.shared = self.known.shared
        return model
