"""What a rule, a finding and a fix are.

A rule is a decorated generator function; its name is its id, its module the family, its docstring the documentation::

    @rule(Severity.ERROR, scope=Scope.HEADER, since="0.1")
    def tensor_offset_gap(m: Model, ctx: Context) -> Drafts:
        \"\"\"Tensor data must follow without gaps.

        Why. llama.cpp computes every offset itself and refuses a file whose stored offset differs.
        Evidence. `gguf.cpp:gguf_init_from_reader` (b11434).
        Example. tensor 'blk.0.attn_q.weight' has offset 4128, expected 4096
        Fix. `gguftool fix --repack` rewrites the data section.
        \"\"\"
        yield found("…", where="tensor:blk.0.attn_q.weight", fix=Fix("rewrite the data section", (Repack(),)))

A rule never opens files and never prints. One that cannot judge yields `not_evaluated`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from gguftool.brief import short_repr
from gguftool.records import dataclass, field
from gguftool.regex import regex
from gguftool.shell import FILE, Blank, Words, blank

if TYPE_CHECKING:
    from gguftool.edit.ops import Operation
    from gguftool.lint.against import HfFolder
    from gguftool.lint.policy import Policy
    from gguftool.lint.publishing import Publishing
    from gguftool.lint.tokenized import Compared
    from gguftool.model import Model

T = TypeVar("T")


MOST_WRITTEN = 1 << 19
"""Elements of the longest array that a fix writes anew; the largest vocabulary has 262,144 tokens."""


class Severity(StrEnum):
    """How bad a finding is: an error breaks the load or the answers, a warning may, info is worth knowing."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"

    @property
    def rank(self) -> int:
        """0 for error, 1 for warning, 2 for info: sorts the worst first."""
        return _RANK[self.value]


_RANK = {"error": 0, "warning": 1, "info": 2}


class Scope(StrEnum):
    """What a rule must see: the header alone, the file's size too, tensor bytes, all shards, or the source folder."""

    HEADER = "header"
    FILE = "file"
    DATA = "data"
    SET = "set"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Fix:
    """What repairs a finding, as data.

    Attributes:
        title: what it does, imperative: ``rename llama.context_length to qwen2.context_length``.
        operations: edits to apply; empty when only a person can choose the value (then ``command`` says how).
        safe: changes nothing that llama.cpp computes, or puts right what it could not load at all; `--fix` applies it.
            A rule proposes it, `gguftool.lint.offer` decides.
        command: words of the command for a fix without operations, or with operations too long to type
            (`gguftool.shell`: `FILE` stands for the file); a `Blank` among them is for a person to fill in.
    """

    title: str
    operations: tuple[Operation, ...] = ()
    safe: bool = False
    command: Words | None = None

    __repr__ = short_repr

    @property
    def complete(self) -> bool:
        """Whether the command runs as it stands, with no value left for a person to choose."""
        return not any(isinstance(word, Blank) for word in self.command or ())


def to_choose(title: str, option: str, key: str) -> Fix | None:
    """A fix whose value a person must find: ``option KEY=…`` of ``gguftool fix``; None for a key it cannot spell."""
    from gguftool.edit.spelled import spellable_key

    return Fix(title, command=edit(option, blank(f"{key}="))) if spellable_key(key) else None


def edit(*options: str) -> Words:
    """The words of ``gguftool fix`` with these options, for the file that the finding is about."""
    return ("gguftool", "fix", FILE, *options)


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault in one file.

    Attributes:
        rule: id of the rule, kebab-case.
        family: the rule's family.
        severity: how bad it is here.
        message: one line, with the values that matter.
        path: the file.
        where: ``field:KEY``, ``tensor:NAME``, ``shard:N`` (from 1), ``header`` or ``file``.
        span: start and end in the file in bytes, when there is such a place.
        fix: what repairs it.
        data: values for programs; every value has a JSON form.
        changes_run: see `Rule`.
    """

    rule: str
    family: str
    severity: Severity
    message: str
    path: str
    where: str
    span: tuple[int, int] | None = None
    fix: Fix | None = None
    data: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    changes_run: bool = True

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Draft:
    """A finding before the runner completes it."""

    message: str
    where: str
    severity: Severity | None
    fix: Fix | None
    span: tuple[int, int] | None
    path: str | None
    data: Mapping[str, object]
    changes_run: bool | None = None


@dataclass(frozen=True, slots=True)
class NotEvaluated:
    """A rule that could not judge this file, and why; ``failed``: for a fault of its own, which is a bug."""

    why: str
    rule: str = ""
    failed: bool = False

    __repr__ = short_repr


Drafts = Iterator[Draft | NotEvaluated]


def found(
    message: str,
    *,
    where: str,
    fix: Fix | None = None,
    severity: Severity | None = None,
    span: tuple[int, int] | None = None,
    path: str | None = None,
    changes_run: bool | None = None,
    **data: object,
) -> Draft:
    """A finding as a rule yields it; the runner adds rule, family, path and the span of ``where``.

    Args:
        message: one line with the values that matter.
        where: ``field:KEY``, ``tensor:NAME``, ``shard:N`` (from 1), ``header`` or ``file``.
        fix: what repairs it.
        severity: other than the rule's own.
        span: bytes in the file, when it is not the record of ``where``.
        path: other than the file that ``where`` leads to.
        changes_run: other than the rule says.
        data: values for programs; those that are None are left out.
    """
    return Draft(
        message, where, severity, fix, span, path, {k: v for k, v in data.items() if v is not None}, changes_run
    )


def not_evaluated(why: str) -> NotEvaluated:
    """What a rule yields when it cannot judge: never passed, never failed."""
    return NotEvaluated(why)


@dataclass(frozen=True, slots=True)
class Wish:
    """What the deployment wants of the file: context in tokens, and the pair of cache types (K, V)."""

    context_length: int | None = None
    cache_type: tuple[str, str] | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Context:
    """What rules may look at beside the model.

    Attributes:
        wish: what the deployment wants.
        against: the Hugging Face folder to compare with.
        policy: what the user's policy file demands.
        data: tensor bytes may be read.
        models_folder: root of an LM Studio models folder that the file lies in.
        beside: files that are to be used with the model, opened with ``strict=False``.
        tokenized: compares the tokenizer with the source's; None when nobody asked for it. It starts programs, which
            a rule must not: `gguftool.api.tokenizer` hands it in.
        build: number of the llama.cpp that will load the file; None: the newest that is known.
        publishing: what the file is to be published with; None when it stays where it is.
        memo: values computed once a run; use `once` and `value`.
    """

    wish: Wish = Wish()
    against: HfFolder | None = None
    policy: Policy | None = None
    data: bool = False
    models_folder: str | None = None
    beside: tuple[Model, ...] = ()
    tokenized: Callable[[Model], Compared] | None = None
    build: int | None = None
    publishing: Publishing | None = None
    memo: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    __repr__ = short_repr

    def once(self, name: str, compute: Callable[[], T]) -> T:
        """``compute()``, remembered for this run under ``name``."""
        if name not in self.memo:
            self.memo[name] = compute()
        value: T = self.memo[name]
        return value

    def value(self, m: Model, key: str) -> Any:
        """Decoded value of a key or None; arrays are decoded once a run."""
        return self.once(f"value {key}", lambda: m.get(key))


Check = Callable[["Model", Context], Drafts]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    Attributes:
        id: kebab-case name.
        family: module it lives in.
        severity: of its findings, unless a finding says otherwise.
        scope: what it must see.
        since: version of gguftool that brought it.
        role: ``model``: only for files that hold a model; ``any``: for every file; else the roles it is for
            (`gguftool.model.role.ROLES`), with blanks between them.
        known_arch: needs an architecture that llama.cpp knows.
        whole: needs a header that could be read to its end.
        chat: is about conversations: says nothing of a model that gives embeddings.
        changes_run: what it finds matters when llama.cpp runs the file; False: it is about a record, a label, or
            what other programs make of the file, so a launch tells it and goes on.
        check: the function.
    """

    id: str
    family: str
    severity: Severity
    scope: Scope
    since: str
    role: str
    known_arch: bool
    whole: bool
    chat: bool
    changes_run: bool
    check: Check

    __repr__ = short_repr

    @property
    def text(self) -> str:
        """The documentation: the docstring, dedented."""
        from inspect import cleandoc

        return cleandoc(self.check.__doc__ or "")

    @property
    def title(self) -> str:
        """First line of the documentation."""
        return title_of(self.text)

    @property
    def sections(self) -> dict[str, str]:
        """The parts of the documentation by name: why, evidence, example, fix (those that are there)."""
        return sections_of(self.text)


def title_of(text: str) -> str:
    """First line of a rule's documentation."""
    return text.partition("\n")[0].rstrip(".")


def sections_of(text: str) -> dict[str, str]:
    """The parts of a rule's documentation by name: why, evidence, example, fix (those that are there)."""
    out: dict[str, str] = {}
    for match in _SECTION.finditer(text):
        out[match["name"].lower()] = " ".join(match["body"].split())
    return out


_SECTION = regex(
    r"^(?P<name>Why|Evidence|Example|Fix)[.:]\s(?P<body>.*?)(?=^(?:Why|Evidence|Example|Fix)[.:]\s|\Z)", re.M | re.S
)


def rule(
    severity: Severity,
    *,
    scope: Scope = Scope.HEADER,
    since: str = "0.1",
    role: str = "model",
    known_arch: bool = False,
    whole: bool = True,
    chat: bool = False,
    changes_run: bool = True,
) -> Callable[[Check], Rule]:
    """Make a generator function a rule; see the module's docstring for the shape of its documentation.

    Args:
        severity: of its findings, unless a finding says otherwise.
        scope: what it must see. SOURCE runs only with a folder to compare with, DATA only when asked for.
        since: version of gguftool that brought it.
        role: ``model``, ``any``, or roles with blanks between them: ``adapter control-vector``.
        known_arch: skip it (as not evaluated) when llama.cpp does not know the architecture.
        whole: skip it (as not evaluated) when the header breaks off.
        chat: skip it for a model that gives embeddings, or says by its name that it does.
        changes_run: False where nothing that it finds changes what llama.cpp loads, computes or answers.
    """

    def make(check: Check) -> Rule:
        family = check.__module__.partition("lint.rules.")[2].partition(".")[0]
        return Rule(
            check.__name__.rstrip("_").replace("_", "-"),
            family,
            severity,
            scope,
            since,
            role,
            known_arch,
            whole,
            chat,
            changes_run,
            check,
        )

    return make
