"""Which llama.cpp a question is about: a build by number, an installed program, a package of Python."""

from __future__ import annotations

from gguftool import programs
from gguftool.brief import short_repr
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.facts import NUMBER
from gguftool.programs import PROGRAMS, SERVER, Tool
from gguftool.records import dataclass
from gguftool.run.capabilities import Capabilities, capabilities, parse_version

PYTHON = "llama-cpp-python"


@dataclass(frozen=True, slots=True)
class Target:
    """A llama.cpp that is asked about.

    Attributes:
        build: its number; None: it is not known, and the newest that is known stands for it.
        last: the newest build it can be, where only a range is known; else ``build``.
        name: what to call it: a path, ``llama-cpp-python 0.3.9``; "" for a number alone.
        notes: what is to be known of the answer.
    """

    build: int | None = None
    last: int | None = None
    name: str = ""
    notes: tuple[str, ...] = ()

    __repr__ = short_repr


def target(
    build: str | int | None = None, llama_cpp: str | None = None, llama_cpp_python: str | None = None
) -> Target | None:
    """The llama.cpp that is named; None when none is.

    Args:
        build: number of the build, ``b8179`` or ``8179``.
        llama_cpp: a program of llama.cpp, or its folder: its own ``--version`` says the build.
        llama_cpp_python: version of that package.

    Raises:
        UsageError: two are named, it is no number, or no version that is known.
        MissingFile: what is named is not there.
        ToolFailed: the program does not run.
    """
    given = [x for x in (build, llama_cpp, llama_cpp_python) if x is not None]
    if len(given) > 1:
        raise UsageError("one llama.cpp at a time: a build, a program, or a version of a package")
    if build is not None:
        from gguftool.facts import timeline

        number = build if isinstance(build, int) else timeline.build_number(build)
        return Target(number, number, "", tuple(remarks(number)))
    if llama_cpp is not None:
        return of_program(llama_cpp)
    return of_package(PYTHON, llama_cpp_python) if llama_cpp_python is not None else None


def of_program(path: str) -> Target:
    """The llama.cpp that a program, or one in a folder, is of.

    Raises:
        MissingFile, ToolFailed: there is none, or it does not run.
    """
    tool = next((t for name in PROGRAMS if (t := programs.find(name, path, may_lack=True))), None)
    if tool is None:
        raise MissingFile(f"{path}: holds no program of llama.cpp", "name one, or its folder")
    number = build_of(tool)
    if number is None and (range_ := by_options(tool)) is not None:
        note = f"{tool.path} does not say which build it is; its options are those of b{range_[0]} to b{range_[1]}"
        return Target(*range_, tool.path, (note,))
    if number is None:
        note = f"{tool.path} does not say which build it is: it is judged as b{NUMBER}, the newest known"
        return Target(None, None, tool.path, (note,))
    return Target(number, number, tool.path, tuple(remarks(number)))


def by_options(tool: Tool) -> tuple[int, int] | None:
    """First and last build that a program can be of by its ``--help``; None where that does not tell."""
    from gguftool.run.bybuild import between

    try:
        return between(capabilities(tool))
    except ToolFailed:
        return None


def build_of(tool: Tool) -> int | None:
    """The number of the build that a program is of, as it says itself; None where it does not.

    Raises:
        ToolFailed: it does not run.
    """
    said = programs.run(tool, "--version")
    return parse_version(said.stdout + said.stderr)[0]


def of_package(package: str, version: str) -> Target:
    """The llama.cpp inside a version of a package.

    Raises:
        UsageError: no such version is known.
    """
    from gguftool.facts import shipping

    known = {s.version: s for s in shipping.shipped() if s.package == package}
    found = known.get(version.strip().removeprefix("v").removeprefix("=="))
    if found is None:
        from gguftool.near import near_names

        near = near_names(version, known, 3)
        way = f"known: {', '.join(near)}" if near else f"known: {len(known)} versions"
        raise UsageError(f"which llama.cpp is in {package} {version} is not known", way)
    notes = list(remarks(found.since))
    if found.since != found.last:
        notes.append(f"{package} {found.version} holds a llama.cpp between b{found.since} and b{found.last}")
    return Target(found.since, found.last, f"{package} {found.version}", tuple(notes))


def at_hand(llama_cpp: str | None = None) -> int | None:
    """The number of the llama-server at hand where it is older than the newest known; None: that speaks for it.

    Raises:
        MissingFile: what is named as llama.cpp is not there.
    """
    tool = programs.find(SERVER, llama_cpp, may_lack=True)
    try:
        return older(capabilities(tool)) if tool is not None else None
    except ToolFailed:
        return None


def older(build: Capabilities | None) -> int | None:
    """The number of a build that is older than the newest known, which alone need not speak for it; else None.

    Of one that does not say its number, the first that it can be by its options.
    """
    number = number_of(build)
    return number if number is not None and number < NUMBER else None


def number_of(build: Capabilities | None) -> int | None:
    """The number of a build; of one that does not say it, the first that it can be by its options; None: not known."""
    if build is None or build.build is not None:
        return build.build if build is not None else None
    from gguftool.run.bybuild import between

    range_ = between(build)
    return range_[0] if range_ is not None else None


def build_name(build: Capabilities) -> str:
    """What the build of a program is called, in every report: its number, else what is known instead."""
    if build.build is not None:
        return f"b{build.build}"
    from gguftool.run.bybuild import between

    range_ = between(build)
    span = f"b{range_[0]} to b{range_[1]} by its options" if range_ is not None else ""
    return ", ".join(x for x in (span, f"commit {build.commit}" if build.commit else "") if x) or "unknown build"


def remarks(number: int | None) -> list[str]:
    """What is to be known of an answer about a build."""
    if number is None or number == NUMBER:
        return []
    if number > NUMBER:
        return [f"b{number} is newer than b{NUMBER}, the newest known here: it is judged as that"]
    from gguftool.facts import timeline

    if number < timeline.oldest():
        return [f"b{number} is older than b{timeline.oldest()}, the oldest that was looked at"]
    return []
