"""The words behind ``--``, read with the same table as everything else.

An option of the table is taken in, as if it stood before the dashes. One that is declared to touch neither the plan nor
the proof (`facts/data/flag_roles.json`) goes to llama-server as it is, its value checked. What would start another
model, or nothing, is refused. An option of a build that the table does not know goes on with a note.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gguftool.errors import UsageError
from gguftool.facts.data import load
from gguftool.quantity import is_number
from gguftool.records import replace
from gguftool.regex import regex
from gguftool.run.capabilities import Capabilities, Option, known
from gguftool.run.options import kinds
from gguftool.run.options.extra import Role, Taken, roles, values_of
from gguftool.run.options.table import Spelling, by_name, normal, options, with_value
from gguftool.run.wishes import Wishes

_LISTED = regex(r"[\[{<]([^\[\]{}<>]+)[\]}>]")
_WORD = regex(r"[a-z0-9][a-z0-9_+-]*", re.ASCII)


def take_in(wishes: Wishes, build: Capabilities | None = None) -> Taken:
    """Read what stands behind ``--``.

    Args:
        wishes: with the words in ``extra``.
        build: what will read them; None: the build that our facts are from.
    """
    build = build or known()
    out = Taken(replace(wishes, extra=()))
    said: set[str] = set()
    words = list(wishes.extra)
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if not word.startswith("-") or is_number(word):
            out.problems.append(f"{word!r} stands alone: llama-server takes no arguments without an option")
            continue
        name = normal(word)
        before = name.partition("=")[0]
        if "=" in word and (ours(normal(before)) or normal(before) in build.by_name):
            word, _, value = word.partition("=")
            words.insert(0, value)
            name = normal(word)
        if name == "--":
            continue
        if (found := ours(name)) is not None:
            _of_the_table(out, wishes, found, word, words, said)
        else:
            rest += _of_the_build(out, build, word, name, words)
    out.wishes = replace(out.wishes, extra=tuple(rest))
    return out


def _of_the_table(out: Taken, before: Wishes, found: Spelling, word: str, words: list[str], said: set[str]) -> None:
    o = found.option
    if found.takes and not words:
        out.problems.append(f"{word} takes a value, and none was given")
        return
    text = words.pop(0) if found.takes else ""
    try:
        again = with_value(out.wishes, found, text)
    except UsageError as error:
        out.problems.append(f"{word}: {error}" + (f" ({error.hint})" if error.hint else ""))
        return
    given = getattr(before, o.field)
    changed = getattr(again, o.field) != given
    if given != o.default and changed and not o.kind.many and o.field not in said:
        out.problems.append(f"{word} says something else than {o.ours} before the --: say it once, with {o.ours}")
        return
    said.add(o.field)
    out.wishes = again


def _of_the_build(out: Taken, build: Capabilities, word: str, name: str, words: list[str]) -> list[str]:
    """The words of an option that the table does not have, when it may go on."""
    option = build.by_name.get(name)
    role = roles().get(name)
    if option is None:
        near = build.nearest(name)
        guess = f"; did you mean {' or '.join(near)}?" if near else ""
        out.problems.append(f"this build has no option {word}{guess}")
        if words and not words[0].startswith("-"):
            words.pop(0)
        return []
    count = values_of(option)
    values = [words.pop(0) for _ in range(min(count, len(words)))]
    if option.removed:
        out.problems.append(f"the option {word} has been removed from this build")
        return []
    if role is not None and role.role == "refused":
        out.problems.append(f"{word}: {role.why}")
        return []
    if len(values) < count:
        out.problems.append(f"{word} takes a value, and none was given")
        return []
    if values and (why := refused_value(word, values[0], option)[0]):
        out.problems.append(f"{word}: {why}")
        return []
    if role is not None and role.role == "keys" and not _tokenizers(values[0]):
        out.problems.append(f"{word} {values[0]}: {role.why}")
        return []
    if role is None:
        out.notes.append(f"whether {word} touches the plan is not known: it is newer than our table")
    return [word, *values]


def _tokenizers(value: str) -> bool:
    """Whether an ``--override-kv`` names keys of the tokenizer alone: no size depends on those."""
    return all(part.strip().startswith("tokenizer.") for part in kinds.row(value))


def refused_value(name: str, value: str, option: Option) -> tuple[str, str]:
    """Why a build would refuse a value of an option, and the value that may be meant; both empty: it takes it.

    Args:
        name: the option, in any spelling.
        value: the value.
        option: the option of the build.
    """
    found, role = ours(normal(name)), roles().get(normal(name), Role())
    allowed = (found.option.kind.values if found and found.takes else role.values) or listed(option)
    try:
        if found and found.takes:
            found.option.kind.parse(value)
        elif allowed and value not in allowed and kinds.ON_OFF_WORDS.get(value) not in allowed:
            raise UsageError(f"{value!r} is not one of " + ", ".join(allowed))
        elif role.form and not re.fullmatch(role.form, value):
            raise UsageError(f"{value!r} is no value of {name} ({option.value}): llama.cpp ends with it")
    except UsageError as error:
        return str(error), _meant(value.lower(), allowed, option)
    return "", ""


def _meant(value: str, allowed: Sequence[str], option: Option) -> str:
    """The values that are allowed for what somebody wrote, item by item; "" where one of them is not known."""
    said: dict[str, str] = next(
        (found for name, found in load("flag_notes.json")["values"].items() if name in option.names), {}
    )
    out = []
    for item in (x.strip() for x in value.split(",")):
        near = [x for x in allowed if item == x] or [x for x in allowed if item in x.split("-")]
        out.append(said[item] if item in said else near[0] if len(near) == 1 else "")
    return ",".join(out) if all(out) else ""


def ours(name: str) -> Spelling | None:
    """What a spelling of llama.cpp means in our table; None for one of gguftool alone, such as ``--timeout``."""
    found = by_name().get(name)
    if found is None or not (found.option.names or found.option.sides or found.option.constants):
        return None
    return found


def listed(option: Option) -> tuple[str, ...]:
    """The values that the help of a build lists for an option: ``{a,b}``, ``[on|off]``, ``<0|1>``; empty: any."""
    text = option.value
    found = _LISTED.fullmatch(text)
    parts = re.split(r"[|,]", found[1] if found else "")
    return tuple(parts) if len(parts) > 1 and all(_WORD.fullmatch(p) for p in parts) else ()


def planned_words(words: Sequence[str]) -> tuple[str, ...]:
    """The words of a command without what a plan refuses and llama-server takes: another model, other metadata."""
    out: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        role, option = roles().get(normal(word), Role()), known().by_name.get(normal(word))
        values = [rest.pop(0) for _ in range(min(values_of(option) if option else 0, len(rest)))]
        if role.role not in ("refused", "keys"):
            out += [word, *values]
    return tuple(out)


def declared() -> set[str]:
    """Every spelling that the table or the file of roles knows."""
    return {n for o in options() for n in by_name() if by_name()[n].option is o} | set(roles())
