"""What a build of llama-server understands, read from its own ``--help`` and ``--version``.

Options of llama.cpp are renamed, gain a value or go away between builds, so nothing is assumed: a spelling is used
when the program at hand lists it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, cached_property

from gguftool.brief import short_repr
from gguftool.errors import ToolFailed
from gguftool.facts.data import load
from gguftool.programs import Tool, run
from gguftool.records import dataclass
from gguftool.regex import regex

_NAME = regex(r"(-{1,2}[A-Za-z0-9][\w.-]*)")
_ENV = regex(r"\(env: ([A-Z][A-Z0-9_]*)\)")
_DEFAULT = regex(r"\(default: ([^)]*?)\s*\)")
_BUILDS = (
    regex(r"version: \S+ \(build (?P<build>\d{1,9}), commit (?P<commit>[0-9a-f]+|\w+)\)"),
    regex(r"version: (?P<build>\d{1,9}) \((?P<commit>[0-9a-f]+|\w+)\)"),
    regex(r"\bb(?P<build>\d{3,6})-(?P<commit>[0-9a-f]{6,})"),
)
_NUMBER = regex(r"-?[0-9]{1,9}(?![0-9.])")
_STARTS = regex(r" {0,4}-(?!-{3})")
SMALLEST_BUILD = 100
"""Lower numbers come from a build outside its repository (0, 1) and say nothing."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option: all its spellings.

    Attributes:
        names: as listed, for example ``("-fa", "--flash-attn")``.
        value: how the help names the value, for example ``N`` or ``[on|off|auto]``; "" for a switch.
        env: environment variable that sets it, or "".
        default: the default as the help words it, or "".
        removed: still parsed, but only to say that it is gone.
        deprecated: still works, but another option is meant to be used.
    """

    names: tuple[str, ...]
    value: str = ""
    env: str = ""
    default: str = ""
    removed: bool = False
    deprecated: bool = False

    __repr__ = short_repr


@dataclass(frozen=True)
class Capabilities:
    """The options of one build.

    Attributes:
        options: all of them.
        build: build number, None when the program does not tell.
        commit: commit hash, or "".
        assumed: read from our table instead of a program.
    """

    options: tuple[Option, ...]
    build: int | None = None
    commit: str = ""
    assumed: bool = False

    __repr__ = short_repr

    @cached_property
    def by_name(self) -> Mapping[str, Option]:
        """Option by any of its spellings."""
        return {name: option for option in self.options for name in option.names}

    def spelling(self, names: Iterable[str]) -> str | None:
        """The first of ``names`` that this build takes and that still does something."""
        for name in names:
            option = self.by_name.get(name)
            if option is not None and not option.removed:
                return name
        return None

    def takes(self, name: str) -> bool:
        """Whether this build knows the spelling ``name``."""
        option = self.by_name.get(name)
        return option is not None and not option.removed

    def number(self, names: Iterable[str]) -> int | None:
        """The default of an option, where the help says it as a number."""
        name = self.spelling(names)
        default = self.by_name[name].default if name is not None else ""
        # As nearly all are, and no expression has to be made for them.
        if len(default) < 10 and default.isascii() and default.isdecimal():
            return int(default)
        found = _NUMBER.match(default)
        return int(found[0]) if found else None

    def nearest(self, name: str) -> list[str]:
        """Spellings that resemble ``name``, best first."""
        from gguftool.near import near_names

        return near_names(name, self.by_name)


def parse_help(text: str) -> tuple[Option, ...]:
    """The options in the output of ``--help``: one starts at the left margin (or nearly), its text is indented."""
    out: list[Option] = []
    head, body = "", list[str]()
    for line in [*text.splitlines(), "-"]:
        if _STARTS.match(line):
            if head:
                option = _option(head, " ".join(body))
                if option is not None:
                    out.append(option)
            # The text starts at least two blanks after the names, or on the next line.
            names, _, rest = _split_head(line.strip())
            head, body = names, [rest]
        elif head:
            body.append(line.strip())
    return tuple(out)


def _split_head(line: str) -> tuple[str, str, str]:
    """Names and value on the left, text on the right; short names are padded with blanks after their comma."""
    end = 0
    for gap in re.finditer(r" {2,}", line):
        if not line[: gap.start()].rstrip().endswith(","):
            end = gap.start()
            return line[:end], line[gap.start() : gap.end()], line[gap.end() :]
    return line, "", ""


def _option(head: str, text: str) -> Option | None:
    names: list[str] = []
    at = 0
    while match := _NAME.match(head, at):
        names.append(match[1])
        at = match.end()
        if head[at : at + 1] != ",":
            break
        at += len(head[at:]) - len(head[at:].lstrip(", "))
    if not names:
        return None
    env, default = _ENV.search(text), _DEFAULT.search(text)
    return Option(
        tuple(names),
        head[at:].strip(),
        env[1] if env else "",
        default[1].strip("'") if default else "",
        removed="argument has been removed" in text,
        deprecated="DEPRECATED" in text,
    )


def parse_version(text: str) -> tuple[int | None, str]:
    """Build number and commit in the output of ``--version`` (or in a log); (None, "") when they are not there."""
    for pattern in _BUILDS:
        if match := pattern.search(text):
            build = int(match["build"])
            commit = match["commit"] if match["commit"] != "unknown" else ""
            return (build if build >= SMALLEST_BUILD else None), commit
    return None, ""


def capabilities(tool: Tool) -> Capabilities:
    """What the program takes, from its own ``--help`` and ``--version``.

    Raises:
        ToolFailed: it does not run, or what it prints is no help text of llama.cpp.
    """
    helped = run(tool, "--help")
    options = parse_help(helped.stdout or helped.stderr)
    if not options:
        said = (helped.stderr or helped.stdout).strip().splitlines()
        raise ToolFailed(
            f"{tool.path}: --help says nothing of options"
            + (f"; it says: {said[-1][:200]}" if said else f" (exit code {helped.returncode})"),
            "gguftool doctor",
        )
    versioned = run(tool, "--version")
    build, commit = parse_version(versioned.stdout + versioned.stderr)
    return Capabilities(options, build, commit)


@cache
def known() -> Capabilities:
    """The options of the build that our facts are from, for when no program can be asked."""
    table = load("flags.json")
    return Capabilities(
        tuple(
            Option(
                tuple(e["names"]), e.get("value", ""), e.get("env", ""), e.get("default", ""), e.get("removed", False)
            )
            for e in table["options"]
        ),
        build=table["build"],
        assumed=True,
    )
