"""From a Hugging Face folder to a file that was judged before it got its name."""

from __future__ import annotations

import os
from collections.abc import Callable

from gguftool.api.judged import How, Judged, judge, mend
from gguftool.brief import short_repr
from gguftool.build import convert as build
from gguftool.build.convert import Drafted, Options
from gguftool.build.judged import Check
from gguftool.lint.against import read_folder
from gguftool.lint.rule import Context
from gguftool.lint.run import Report, lint
from gguftool.model import open_model
from gguftool.records import dataclass
from gguftool.shell import gguftool, path_word
from gguftool.verify.stream import Progress


@dataclass(frozen=True, slots=True)
class Converted(build.Converted):
    """What was made, and how it was found.

    Attributes:
        checks: what was looked at before it got its name.
        repaired: what was put back that the converter had lost.
        report: what lint says.
    """

    checks: tuple[Check, ...] = ()
    repaired: tuple[str, ...] = ()
    report: Report | None = None

    __repr__ = short_repr

    @property
    def ok(self) -> bool:
        """No fault was found in it."""
        return all(check.ok for check in self.checks)


def convert(
    source: str | os.PathLike[str],
    output: str | os.PathLike[str],
    options: Options | None = None,
    progress: Callable[[int], None] | None = None,
    *,
    repair: bool = True,
    scanned: Progress | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Converted:
    """Convert a Hugging Face folder, and judge what came out before it gets its name.

    Tensors, parameters and layers are counted against the source, all data is read for numbers that are none, the load
    is predicted, chat template and tokenizer are compared with those of the source, and a well-known text is read where
    the llama library is there. What could not be looked at says so. A result with a fault gets no name, unless
    ``options.force`` says so.

    Args:
        source: folder with config.json, tokenizer and weights.
        output: file to write; when the converter splits, its name is the stem of the shards' names.
        options: see `gguftool.build.convert.Options`.
        progress: called with the percentage written.
        repair: put back what the converter lost where that is safe.
        scanned: called with the bytes of tensor data that were looked at, from several threads.
        tell: called with what is done next.

    Returns:
        ``ok`` is False, and ``paths`` empty, where a fault was found.

    Raises:
        Refused: the folder cannot be converted, or the output exists.
        NoRoom: input and output do not fit.
        ToolFailed: no converter, or it failed; the message says why in plain words.
    """
    folder, out = os.fspath(source), os.fspath(output)
    chosen = options or Options()
    found: list[Judged] = []
    how = How(repair=repair, again=again(folder, out, chosen), progress=scanned, tell=tell)

    def look(drafted: Drafted) -> bool:
        found.append(judge(drafted, chosen, how))
        return found[0].ok or chosen.force

    made = build.convert(folder, out, chosen, progress, look)
    (one,) = found
    return Converted(
        made.paths,
        made.size,
        made.converter,
        made.seconds,
        made.notes,
        made.projector,
        made.left,
        one.checks,
        one.repaired,
        one.report,
    )


def again(source: str, output: str, options: Options) -> Callable[..., str]:
    """Makes the command that converts once more, with further words in place of what they say otherwise."""

    def command(*words: str) -> str:
        said = {
            "--outtype": None if options.outtype == "auto" else options.outtype,
            "--pre": options.pre,
            "--llama-cpp": options.llama_cpp,
            "--name": options.name,
        }
        kept = [w for flag, value in said.items() if value and flag not in words for w in (flag, value)]
        kept += [] if options.projector else ["--no-mmproj"]
        more = [f"--converter-arg={arg}" for arg in options.more]
        return gguftool("convert", path_word(source), "-o", path_word(output), *kept, *more, *words)

    return command


def check_converted(
    model: str | os.PathLike[str], folder: str | os.PathLike[str], *, repair: bool = True
) -> tuple[list[str], Report]:
    """Compare a converted model with its source, repair what the converter lost where that is safe, and lint it.

    Args:
        model: the file the converter made.
        folder: the Hugging Face folder it came from.
        repair: write what can be repaired safely.

    Returns:
        What was repaired, and what lint says now.
    """
    path, against = os.fspath(model), read_folder(folder)
    repaired = mend(path, against) if repair else []
    with open_model(path, strict=False) as opened:
        return repaired, lint(opened, Context(against=against))
