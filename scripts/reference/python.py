"""docs/reference/python.md: every public name of the library, out of its docstring and its signature."""

from __future__ import annotations

import dataclasses
import enum
import functools
import inspect
import re
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from kept import DOCS, keep, prose

PAGE = DOCS / "reference" / "python.md"
HEAD = """# Python

Made from the docstrings by `./dev docs`; a test keeps it in step, and finds a name that is not told. Examples, each
of which is run: [library](../library.md). Everything is at the top: `gguftool.lint`, `gguftool.Model`. Where a function
takes a model, that is a path, an address (`hf://owner/repo/file.gguf`) or an open `Model`. Sizes are bytes, contexts
tokens, shapes in GGUF's order (the first dimension is the one whose elements lie side by side). Errors:
[exit codes](exit-codes.md#errors-of-the-library).

"""
GROUPS = (
    ("Functions", inspect.isroutine),
    ("Errors", lambda value: inspect.isclass(value) and issubclass(value, Exception)),
    ("Classes", inspect.isclass),
    ("Constants", lambda value: True),
)
SECTIONS = ("Args", "Returns", "Yields", "Raises", "Attributes", "Example", "Examples", "Note", "Warns")
TITLES = {"Args": "Arguments", "Example": "Example", "Examples": "Example"}


def parts(text: str) -> Iterator[tuple[str, str]]:
    """A docstring in Google's form: the prose first, under "", then each section."""
    title, lines = "", []
    for line in text.split("\n"):
        found = re.fullmatch(r"(\w+):", line)
        if found and found[1] in SECTIONS:
            yield title, "\n".join(lines).strip("\n")
            title, lines = found[1], []
        else:
            lines.append(line)
    yield title, "\n".join(lines).strip("\n")


def items(text: str) -> Iterator[tuple[str, str]]:
    """``name: what it is`` entries of a section."""
    for entry in re.split(r"\n(?=\S)", inspect.cleandoc(text)):
        name, _, about = entry.partition(": ")
        if not about:
            name, _, about = entry.partition(":")
        yield name.strip(), " ".join(about.split())


def running(text: str) -> str:
    """Prose of a docstring: paragraphs, and blocks that follow ``::``."""
    out = []
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("    "):
            out.append("```python\n" + inspect.cleandoc(block) + "\n```")
        else:
            out.append(prose(block.removesuffix("::").rstrip() + (":" if block.endswith("::") else "")))
    return "\n\n".join(one for one in out if one.strip()) + "\n"


def documented(value: Any) -> str:
    """The docstring as Markdown."""
    out = []
    for title, text in parts(inspect.getdoc(value) or ""):
        if not title:
            out.append(running(text))
        elif title in ("Args", "Raises", "Attributes"):
            rows = "".join(f"- {_names(name)}: {prose(about)}\n" for name, about in items(text))
            out.append(f"{TITLES.get(title, title)}:\n\n{rows}")
        elif title.startswith("Example"):
            out.append(f"{TITLES[title]}:\n\n```python\n{inspect.cleandoc(text)}\n```\n")
        else:
            out.append(f"{title}: {prose(' '.join(text.split()))}\n")
    return "\n".join(one for one in out if one.strip())


def _names(text: str) -> str:
    """The names in front of an entry as code."""
    return ", ".join(f"`{name.strip()}`" for name in text.split(","))


def signature(name: str, value: Any) -> str:
    """How it is called, as it stands in the source."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return name
    kept = [p for p in found.parameters.values() if p.name not in ("self", "cls")]
    bare = found.replace(parameters=[p.replace(default=_default(p.default)) for p in kept])
    text = re.sub(r"'([^']*)'(?=[,)= ]|$)", r"\1", f"{name}{bare}")
    text = re.sub(r"\b(?:gguftool|collections\.abc|typing|os|pathlib)\.(?:[a-z_]+\.)*(?=[A-Z])", "", text)
    if len(text) <= 100:
        return text
    inside, _, after = text.removeprefix(f"{name}(").rpartition(")")
    lines = "".join(f"    {piece.strip()},\n" for piece in _split(inside))
    return f"{name}(\n{lines}){after}"


class _Said:
    """A default that shows itself as it is to be read."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text


def _default(value: Any) -> Any:
    if value is inspect.Parameter.empty or isinstance(value, (str, int, float, bool, type(None))):
        return value
    if isinstance(value, enum.Enum):
        return _Said(str(value))
    shown = repr(value)
    return _Said(shown if len(shown) <= 30 and " at 0x" not in shown else "…")


def _split(text: str) -> Iterator[str]:
    """Parameters, cut at commas that stand in no brackets."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    yield text[start:]


def members(cls: type) -> Iterator[tuple[str, str, Any]]:
    """Public methods and properties that have a docstring: shown form, name, object."""
    fields = {f.name for f in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    for name, value in vars(cls).items():
        if name.startswith("_") or name in fields:
            continue
        inner = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
        if isinstance(inner, (property, functools.cached_property)) and inner.__doc__:
            yield f"{cls.__name__}.{name}", name, inner
        elif inspect.isfunction(inner) and inner.__doc__:
            yield signature(f"{cls.__name__}.{name}", inner), name, inner


def entry(name: str, value: Any) -> str:
    """One public name."""
    out = [f"### {name}\n\n"]
    if inspect.isroutine(value) or (inspect.isclass(value) and not issubclass(value, Exception)):
        called = signature(name, value) if inspect.isroutine(value) or dataclasses.is_dataclass(value) else name
        out.append(f"```python\n{called}\n```\n\n")
    if inspect.isclass(value) or inspect.isroutine(value):
        out.append(documented(value) + "\n")
    else:
        out.append(f"`{value!r}`\n\n")
    if inspect.isclass(value) and not issubclass(value, (Exception, enum.Enum)):
        for shown, inner, member in members(value):
            about = documented(member)
            out.append(f"#### {value.__name__}.{inner}\n\n```python\n{shown}\n```\n\n{about}\n")
    if inspect.isclass(value) and issubclass(value, enum.Enum):
        out.append("Values: " + ", ".join(f"`{one.name}`" for one in value) + ".\n\n")
    return "".join(out)


def page() -> str:
    """The page as it should be."""
    import gguftool
    from gguftool.door import public_names

    left = {name: getattr(gguftool, name) for name in sorted(public_names(), key=str.lower)}
    left = {name: _function(value) for name, value in left.items()}
    out = [HEAD]
    for title, fits in GROUPS:
        these = {name: value for name, value in left.items() if fits(value)}
        left = {name: value for name, value in left.items() if name not in these}
        if these:
            out.append(f"## {title}\n\n")
            out += [entry(name, value) for name, value in these.items()]
    return re.sub(r"\n{3,}", "\n\n", "".join(out)).rstrip("\n") + "\n"


def _function(value: Any) -> Any:
    """A room that is called as a function (`gguftool.lint`) is that function."""
    return inspect.unwrap(value) if isinstance(value, ModuleType) else value


if __name__ == "__main__":
    keep({PAGE: page()})
