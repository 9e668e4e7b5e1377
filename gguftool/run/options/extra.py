"""What stands behind ``--`` and is no option of the table: what each such option does to a launch.

How the words are read is `gguftool.run.options.behind`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

from gguftool.facts.data import load
from gguftool.records import dataclass, field
from gguftool.run.capabilities import Option, known
from gguftool.run.options.table import by_name, normal, options
from gguftool.run.wishes import Wishes


@dataclass(frozen=True, slots=True)
class Role:
    """What an option that is not in the table does to a launch.

    Attributes:
        role: ``free``: neither plan nor proof depend on it; ``rope``: the positions are no longer the file's;
            ``quiet``: it writes no log, so that the endpoints alone can be asked; ``refused``: it would start another
            model, or nothing; ``keys``: it overrides metadata, which is only free for those of the tokenizer.
        why: of a refused one, why and what to do.
        path: as in `gguftool.run.options.row.Option`.
        secret: its value is never shown.
        values: what is allowed, where the help does not list it.
        form: what a value looks like, as a pattern, where `common/arg.cpp` throws at another.
    """

    role: str = "free"
    why: str = ""
    path: str = ""
    secret: bool = False
    values: tuple[str, ...] = ()
    form: str = ""


@dataclass(slots=True)
class Taken:
    """What came of the words behind ``--``.

    Attributes:
        wishes: with all that was taken in; their ``extra`` is what is left.
        problems: why the words cannot be used.
        notes: what is worth knowing.
    """

    wishes: Wishes
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@cache
def roles() -> dict[str, Role]:
    """Role by spelling."""
    out: dict[str, Role] = {}
    for row in load("flag_roles.json")["options"]:
        made = Role(row.get("role", "free"), row.get("why", ""), row.get("path", ""), row.get("secret", False),
                    tuple(row.get("values", ())), row.get("form", ""))  # fmt: skip
        out.update(dict.fromkeys(row["names"], made))
    return out


def silences(extra: Sequence[str]) -> bool:
    """Whether what is left behind ``--`` switches the log off."""
    return any((role := roles().get(normal(word))) is not None and role.role == "quiet" for word in extra)


def changes_rope(extra: Sequence[str]) -> bool:
    """Whether what is left behind ``--`` changes positions, and with them what the log shows of RoPE."""
    return any((role := roles().get(normal(word))) is not None and role.role == "rope" for word in extra)


def mapped(extra: Sequence[str], change: Callable[[str, str, Role], str]) -> tuple[str, ...]:
    """The words behind ``--`` with the value of every option changed that names a file or a secret.

    Args:
        extra: the words, as `take_in` leaves them.
        change: gets a value, its option as it was spelled, and the role of that.
    """
    out: list[str] = []
    words = iter(extra)
    for word in words:
        out.append(word)
        option, role = known().by_name.get(normal(word)), roles().get(normal(word), Role())
        for _ in range(values_of(option) if option else 0):
            if (value := next(words, None)) is not None:
                out.append(change(value, word, role) if role.path or role.secret else value)
    return tuple(out)


def values_of(option: Option) -> int:
    """How many values follow it."""
    return 2 if option.value == "START END" else 1 if option.value else 0


def is_secret(word: str) -> bool:
    """Whether a word is an option whose value nobody may see."""
    if not word.startswith("-"):
        return False
    name = normal(word)
    found = by_name().get(name)
    # What the table has, the file of roles does not say anew.
    return found.option.secret if found is not None else roles().get(name, Role()).secret


def without_secrets(words: Iterable[str]) -> Iterator[str]:
    """The words of a command without the options whose values nobody may see."""
    rest = iter(words)
    for word in rest:
        if not is_secret(word.partition("=")[0]):
            yield word
        elif "=" not in word:
            next(rest, None)


def secret_words(wishes: Wishes) -> list[Any]:
    """Values that nobody may see."""
    found = [getattr(wishes, o.field) for o in options() if o.secret]
    hidden: list[Any] = [x for x in found if x is not None]

    def note(word: str, option: str, role: Role) -> str:
        if role.secret:
            hidden.append(word)
        return word

    mapped(wishes.extra, note)
    return hidden
