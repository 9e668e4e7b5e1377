"""What a name means, and whose it is: an option, a switch of the build, a variable, a word of another program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from gguftool.brief import short_repr
from gguftool.facts.data import load
from gguftool.records import dataclass, replace
from gguftool.regex import regex
from gguftool.run import tools
from gguftool.run.capabilities import Capabilities, Option, known
from gguftool.run.flags import foreign, meaning_of, normal, notes, substitutes

BUILD = "llama.cpp's build"
CODE = "llama.cpp's code"
_DEFINED = regex(r"-D\s*([A-Za-z]\w*)(?::\w+)?(?:=.*)?", re.ASCII | re.DOTALL)
_UPPER = regex(r"[A-Z][A-Z0-9_]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class FlagAnswer:
    """What there is to say about an option, a switch of the build, a variable.

    Attributes:
        flag: as it was asked for.
        exists: llama.cpp has it: the llama-server at hand, another of its programs, its build or its code.
        kind: ``option``, ``switch``, ``variable``, ``parameter``, ``value`` or ``word``; "" for what is not known.
        whose: whose it is, for people; "" for what is not known.
        programs: the programs of llama.cpp that take it.
        names, value, env, default: of the option that exists, its own or the one to use.
        meaning: what it does, "" when there is no note.
        becomes: for a wrong or foreign one: what to write instead, "" for nothing.
        why: for a wrong one: what it was meant to be.
        near: spellings that resemble it.
        build: the build that was asked, None for our table.
    """

    flag: str
    exists: bool
    names: tuple[str, ...] = ()
    value: str = ""
    env: str = ""
    default: str = ""
    meaning: str = ""
    becomes: str = ""
    why: str = ""
    near: tuple[str, ...] = ()
    build: str = ""
    kind: str = ""
    whose: str = ""
    programs: tuple[str, ...] = ()

    __repr__ = short_repr


def explain_flag(flag: str, build: Capabilities | None = None) -> FlagAnswer:
    """What an option, a switch of the build or a variable does and whose it is, or what a wrong one was meant to be.

    Args:
        flag: as an article writes it: ``-fa``, ``--ctx-size=4096``, ``-DGGML_CUDA=ON``, ``OLLAMA_HOST``.
        build: the build to ask; None: the one our facts are from.
    """
    build = build or known()
    label = f"b{build.build}" if build.build else build.commit
    found = _found(flag.strip(), build) or _unknown(flag.strip(), build)
    return replace(found, flag=flag, build=label)


def _found(typed: str, build: Capabilities) -> FlagAnswer | None:
    defined = _DEFINED.fullmatch(typed)
    bare = (defined[1] if defined else typed.removeprefix("export ").lstrip("$")).partition("=")[0].strip("{}\"' ")
    if _UPPER.fullmatch(bare) and (found := _named(bare, build)) is not None:
        return found
    if not typed.startswith("-"):
        exact = _foreign().get(bare)
        if exact is not None and not build.takes(normal(f"--{bare}")):
            return _of_another(bare, exact, build)
    return _option(typed.partition("=")[0], build)


def _named(name: str, build: Capabilities) -> FlagAnswer | None:
    """A name in capitals: a switch of the build, an old one, a variable."""
    table = load("switches.json")
    meaning = notes()["switches"].get(name, "")
    if name in table["switches"]:
        read = (
            f" A variable of that name is read by {table['variables'][name]}, too."
            if name in table["variables"]
            else ""
        )
        way = f"-D{name}=ON" if table["switches"][name] in ("ON", "OFF", "") else f"-D{name}=VALUE"
        said = f"{meaning or 'Given to CMake.'}{read} It is set when llama.cpp is built, no option of a program."
        return FlagAnswer(
            "", True, (name,), default=table["switches"][name], meaning=said, becomes=way, kind="switch", whose=BUILD
        )
    if (now := _renamed(name, table)) is not None:
        new, why = now
        way = f"-D{new}=ON" if new and not new.endswith("_VENDOR") else f"-D{new}=VALUE" if new else ""
        meaning = notes()["switches"].get(new, "")
        return FlagAnswer("", False, meaning=meaning, becomes=way, why=why, kind="switch", whose=BUILD)
    option = _by_variable(name, build)
    if option is not None:
        takes = tools.programs()
        programs = tuple(p for p in tools.having(option.names[0]) if takes[p].by_name[option.names[0]].env)
        said = f"The same as {option.names[-1]}, which comes before it. {meaning_of(option.names)}".strip()
        if "LLAMA_ARG_NO_" in name:
            said = f"Set to anything: the opposite of {option.names[0]}."
        return FlagAnswer(
            "", True, option.names, option.value, option.env, option.default, said, kind="variable",
            whose=_these(programs), programs=programs,
        )  # fmt: skip
    row = _foreign().get(name)
    if name in table["variables"]:
        said = meaning or (row or {}).get("why", "") or f"Read by {table['variables'][name]} when a program runs."
        return FlagAnswer(
            "", True, (name,), meaning=said, kind="variable", whose=f"{CODE} ({table['variables'][name]})"
        )
    if row is not None:
        return _of_another(name, row, build)
    if name.startswith("LLAMA_ARG_"):
        return FlagAnswer("", False, why="llama.cpp reads no such variable.", kind="variable", whose="")
    return None


def _renamed(name: str, table: Any) -> tuple[str, str] | None:
    """Today's name of an old switch, "" for none, and what to know."""
    by_hand = notes()["old_switches"].get(name)
    if name in table["renamed"]:
        row = table["renamed"][name]
        new = row["now"] or (by_hand[0] if by_hand else "")
        how = "CMake stops at it." if row["refused"] else "CMake still takes it, with a warning." if row["now"] else ""
        return new, " ".join(x for x in ("An old name.", how, by_hand[1] if by_hand else "") if x)
    if by_hand is not None:
        return by_hand[0], by_hand[1] or "An old name: CMake ignores it."
    new = name.replace("LLAMA_", "GGML_", 1)
    if name.startswith("LLAMA_") and new in table["switches"]:
        return new, "Its name since 2024 begins with GGML_; CMake ignores the old one."
    return None


def _by_variable(name: str, build: Capabilities) -> Option | None:
    asked = (build, *(c for c in tools.programs().values()))
    spelled = {name, name.replace("LLAMA_ARG_NO_", "LLAMA_ARG_", 1)}
    return next((o for c in asked for o in c.options if o.env in spelled), None)


def _option(typed: str, build: Capabilities) -> FlagAnswer | None:
    if not typed.startswith("-"):
        typed = f"--{typed}" if len(typed) > 3 else f"-{typed}"
    name = normal(typed)
    option = build.by_name.get(name)
    if option is not None and not option.removed:
        meaning = meaning_of(option.names)
        if name in substitutes() and option.deprecated:
            meaning = f"Still taken, but on its way out. {substitutes()[name].why}"
        programs = tuple(p for p in tools.having(name) if p != tools.SERVER)
        return FlagAnswer(
            "", True, option.names, option.value, option.env, option.default, meaning, kind="option",
            whose=_these((tools.SERVER, *programs)), programs=(tools.SERVER, *programs),
        )  # fmt: skip
    wrong = substitutes().get(name)
    having = tuple(tools.having(name))
    if having and (wrong is None or wrong.owner):
        other = tools.programs()[having[0]].by_name[name]
        said = f"{meaning_of(other.names)} Not an option of llama-server.".strip()
        return FlagAnswer(
            "", True, other.names, other.value, other.env, other.default, said, kind="option",
            whose=_these(having), programs=having,
        )  # fmt: skip
    row = _foreign().get(name) or _foreign().get(typed)
    if row is not None and (wrong is None or wrong.owner):
        return _of_another(name, row, build)
    if wrong is not None:
        return _instead(wrong.becomes, wrong.why, build)
    if option is not None:
        return FlagAnswer("", False, why="It has been removed.", near=tuple(build.nearest(name)), whose=tools.SERVER)
    return None


def _instead(becomes: str | None, why: str, build: Capabilities) -> FlagAnswer:
    instead = (becomes or "").replace("{value}", "VALUE")
    target = build.by_name.get(instead.split(" ")[0]) if instead else None
    names = target.names if target else ()
    return FlagAnswer(
        "", False, names, target.value if target else "", target.env if target else "",
        target.default if target else "", meaning_of(names), instead, why,
    )  # fmt: skip


def _of_another(name: str, row: Any, build: Capabilities) -> FlagAnswer:
    owner = foreign()["owners"][row["of"]]
    if row["of"] == "cmake":
        said = f"{row['why']} It is given to CMake."
        return FlagAnswer("", True, (name,), meaning=said, becomes=f"-D{name}=VALUE", kind="switch", whose="CMake")
    base = _instead(row.get("becomes"), row.get("why", ""), build)
    return replace(base, names=base.names, kind=row["kind"], whose=owner["name"], why=base.why or f"{owner['about']}.")


@cache
def _foreign() -> Mapping[str, Any]:
    """Rows of other programs by name; options as llama.cpp would normalise them."""
    return {normal(name): row for row in reversed(foreign()["names"]) for name in row["names"]}


def _these(programs: tuple[str, ...]) -> str:
    shown = ", ".join(programs[:4])
    return f"{shown} and {len(programs) - 4} more" if len(programs) > 4 else shown


def _unknown(typed: str, build: Capabilities) -> FlagAnswer:
    word = typed.partition("=")[0]
    name = normal(word if word.startswith("-") else f"--{word}" if len(word) > 3 else f"-{word}")
    why = (
        "It is not an option of the programs known here: llama.cpp's, forks of it, Ollama, llama-cpp-python and others."
    )
    near = () if _UPPER.fullmatch(word.lstrip("-D")) and "_" in word else tuple(build.nearest(name))
    return FlagAnswer("", False, why=why, near=near)
