"""Fenced blocks of Markdown pages, the commands in them, and what a comment above says of how they run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHELL = ("console", "sh")
"""Languages whose lines are commands: at a prompt, with what they print; or a script."""
NOT_RUN = "not run:"
_FENCE = re.compile(r"^(\s*)(`{3,}|~{3,})\s*(\S*)\s*(.*)$")
_COMMENT = re.compile(r"^\s*<!--\s*console:\s*(.*?)\s*-->\s*$", re.S)


class BadBlock(Exception):
    """A page does not keep to the conventions."""


def pages() -> list[Path]:
    """Every page people read, but what a script writes."""
    tops = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
    folders = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "fixtures").rglob("README.md")]
    return [*(ROOT / name for name in tops), *sorted(folders)]


@dataclass(slots=True)
class Step:
    """One command and what is shown below it.

    Attributes:
        line: number of the command's line in the page, from 1.
        text: the command, continuation lines joined.
        typed: the lines of the page that it stands on.
        shown: what stands below it; None where nothing does.
        exit: exit code that it must end with.
    """

    line: int
    text: str
    typed: list[str]
    shown: list[str] | None = None
    exit: int = 0


@dataclass(slots=True)
class Block:
    """One fenced block.

    Attributes:
        page: where it stands.
        line: number of its opening line, from 1.
        language: word after the fence.
        indent: what stands before the fence.
        body: its lines, without that.
        reason: why it is not run; empty for one that is.
        slow: whether it runs with the slow tests only, and is parsed in the others.
        new: whether it begins in a fresh folder.
        things: what is made before it: name -> thing.
        steps: its commands.
    """

    page: Path
    line: int
    language: str
    indent: str
    body: list[str]
    reason: str = ""
    slow: bool = False
    new: bool = False
    things: dict[str, str] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order.

    Raises:
        BadBlock: a fence without a language or an end, a comment that nobody understands, output without a command.
    """
    return [_understood(block, comment) for block, comment in _fenced(page)]


def _fenced(page: Path) -> Iterator[tuple[Block, str]]:
    """Each block with the ``console:`` comment right above it."""
    lines = page.read_text().splitlines()
    i, comment = 0, ""
    while i < len(lines):
        if lines[i].lstrip().startswith("<!-- console:"):
            end = next((j for j in range(i, len(lines)) if "-->" in lines[j]), None)
            found = _COMMENT.match(" ".join(lines[i : end + 1])) if end is not None else None
            if end is None or not found:
                raise BadBlock(f"{page.name}:{i + 1}: a comment that does not end")
            i, comment = end + 1, found[1] or " "
            continue
        fence = _FENCE.match(lines[i])
        if not fence:
            if comment and lines[i].strip():
                raise BadBlock(f"{page.name}:{i + 1}: a console comment with no block below it")
            i += 1
            continue
        indent, marks, language = fence[1], fence[2], fence[3]
        end = next((j for j in range(i + 1, len(lines)) if lines[j].strip() == marks), None)
        if end is None:
            raise BadBlock(f"{page.name}:{i + 1}: a block without an end")
        body = [line.removeprefix(indent) for line in lines[i + 1 : end]]
        yield Block(page, i + 1, language, indent, body), comment
        i, comment = end + 1, ""


def _understood(block: Block, comment: str) -> Block:
    if not block.language:
        raise BadBlock(f"{block.place}: no language after the fence: console, sh, text, python, yaml …")
    if block.language not in SHELL:
        hidden = [line for line in block.body if re.match(r"\s*(\$ |gguftool [a-z])", line)]
        # The help of a command has its examples in it.
        if block.language == "text" and hidden and not block.body[0].startswith("Usage: "):
            raise BadBlock(f"{block.place}: a command in a block of text: {hidden[0]}")
        if comment:
            raise BadBlock(f"{block.place}: a console comment above {block.language}")
        return block
    exits = _commented(block, comment)
    block.steps = list(_prompted(block) if block.language == "console" else _script(block))
    if not block.steps:
        raise BadBlock(f"{block.place}: no command (a line that begins with `$ `)")
    if len(exits) not in (0, 1, len(block.steps)):
        raise BadBlock(f"{block.place}: {len(exits)} exit codes for {len(block.steps)} commands")
    for step, code in zip(block.steps, exits * len(block.steps) if len(exits) == 1 else exits, strict=False):
        step.exit = code
    return block


def _commented(block: Block, comment: str) -> list[int]:
    """Take in the comment; gives the exit codes that it names."""
    if comment.startswith(NOT_RUN):
        block.reason = comment.removeprefix(NOT_RUN).strip()
        if len(block.reason.split()) < 2:
            raise BadBlock(f"{block.place}: not run, but why?")
        return []
    exits: list[int] = []
    for word in comment.split():
        name, equals, value = word.partition("=")
        if word == "new":
            block.new = True
        elif word == "slow":
            block.slow = True
        elif name == "exit":
            exits = [int(code) for code in value.split(",")]
        else:
            block.things[name] = value if equals else name
    return exits


def _prompted(block: Block) -> Iterator[Step]:
    """Commands at a prompt, each with what it prints."""
    step: Step | None = None
    for number, line in enumerate(block.body, block.line + 1):
        if line.startswith("$ "):
            if step:
                yield _trimmed(step)
            step = Step(number, line[2:], [line])
        elif step is None:
            raise BadBlock(f"{block.place}: output before the first command: {line!r}")
        elif step.shown is None and step.text.endswith("\\") and line.startswith("> "):
            step.text = step.text[:-1] + line[2:]
            step.typed.append(line)
        else:
            step.shown = [*(step.shown or []), line]
    if step:
        yield _trimmed(step)


def _trimmed(step: Step) -> Step:
    """Without the blank lines that part it from the next command."""
    while step.shown and not step.shown[-1].strip():
        step.shown.pop()
    return step


def _script(block: Block) -> Iterator[Step]:
    """Lines of a script; comments and blank lines are no commands."""
    step: Step | None = None
    for number, line in enumerate(block.body, block.line + 1):
        if step is None:
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            step = Step(number, line, [line])
        else:
            step.text += line
            step.typed.append(line)
        if step.text.endswith("\\"):
            step.text = step.text[:-1]
            continue
        yield step
        step = None
    if step:
        yield step
