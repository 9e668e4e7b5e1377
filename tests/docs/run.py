"""Runs the blocks of a page one after the other, and tells what does not hold; or writes what is printed into it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

from tests.docs import grammar, shelf, things
from tests.docs.blocks import ROOT, Block, Step, blocks
from tests.docs.shown import difference, kept_marks, matches
from tests.docs.terminal import Terminal, Unknown, world

Told = Callable[[Block, Step, list[str], int], None]
"""Takes a block, a step of it, what it printed and its exit code."""


def walk(page: Path, told: Told, *, slow: bool) -> None:
    """Run every block of the page that is to be run, those that take long only if ``slow``."""
    with ExitStack() as outer:
        terminal: Terminal | None = None
        inner = ExitStack()
        outer.callback(lambda: inner.close())
        for block in blocks(page):
            if not block.steps or block.reason or (block.slow and not slow):
                continue
            if block.new or terminal is None:
                inner.close()
                inner = ExitStack()
                terminal = inner.enter_context(world())
                inner.callback(shelf.give_back)
            _prepare(terminal, block, inner)
            for step in block.steps:
                told(block, step, terminal.run(step.text), terminal.code)


def _prepare(terminal: Terminal, block: Block, stack: ExitStack) -> None:
    for name, thing in block.things.items():
        if name == "hub":
            things.hub(terminal, stack)
        else:
            things.made(thing, Path(terminal.real(name)))
    text = "\n".join(step.text for step in block.steps)
    for name, thing in things.USUAL.items():
        if name in text.split() and not os.path.exists(name):
            things.made(thing, Path(name))


def faults(page: Path, *, slow: bool = True) -> Iterator[str]:
    """What is wrong with the page, block for block; what takes long is only parsed unless ``slow``."""
    said: list[str] = []

    def told(block: Block, step: Step, printed: list[str], code: int) -> None:
        place = f"{page.relative_to(ROOT)}:{step.line}: $ {step.text}"
        if code != step.exit:
            said.append(f"{place}\nexit code {code}, not {step.exit}:\n" + "\n".join(printed))
        elif step.shown is not None and not matches(step.shown, printed):
            said.append(f"{place}\n{difference(step.shown, printed)}")

    for block in blocks(page):
        if block.reason or block.slow:
            said += [f"{block.place}: {wrong}" for step in block.steps if (wrong := grammar.wrong(step.text))]
    try:
        walk(page, told, slow=slow)
    except (Unknown, KeyError) as error:
        said.append(f"{page.relative_to(ROOT)}: {error}")
    yield from said


def rewrite(page: Path) -> bool:
    """Write what the commands print into the page, where it shows something else; True when it changed."""
    lines = page.read_text().splitlines()
    changes: list[tuple[int, int, list[str]]] = []

    def told(block: Block, step: Step, printed: list[str], code: int) -> None:
        if code != step.exit:
            # What it prints then is hardly what the page is to show.
            print(f"{page.relative_to(ROOT)}:{step.line}: exit code {code}, not {step.exit}: {step.text}")
        elif step.shown is not None and not matches(step.shown, printed):
            first = step.line - 1 + len(step.typed)
            new = [f"{block.indent}{line}".rstrip() for line in kept_marks(step.shown, printed)]
            changes.append((first, first + len(step.shown), new))

    walk(page, told, slow=True)
    for first, last, new in sorted(changes, reverse=True):
        lines[first:last] = new
    if changes:
        page.write_text("\n".join(lines) + "\n")
    return bool(changes)
