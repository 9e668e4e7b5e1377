"""Measure an importance matrix: by llama.cpp's program where there is one, else with the real library in a child.

Both read the same chunks of the same text and add up the same products; a file of the library's sums is the program's
to the precision of f32 (`gguftool.run.imatrixchild`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gguftool.brief import short_repr
from gguftool.build.imatrix.coverage import Coverage, coverage, judged
from gguftool.build.imatrix.matrix import Entry, Matrix, load
from gguftool.build.imatrix.merge import merge
from gguftool.build.imatrix.write import save
from gguftool.build.process import run
from gguftool.errors import Refused, ToolFailed, UsageError
from gguftool.facts import data
from gguftool.files.attributes import readers_of
from gguftool.files.draft import clear_way, draft_folder
from gguftool.files.names import look
from gguftool.hub import file_of, opened
from gguftool.model import Model
from gguftool.model.role import only_runnable
from gguftool.predict.pairs.imatrix import unfit
from gguftool.predict.pairs.misfit import Misfit
from gguftool.processors import processors
from gguftool.programs import Tool, find
from gguftool.records import dataclass, field, replace
from gguftool.regex import regex
from gguftool.run.capabilities import capabilities
from gguftool.run.child import converse
from gguftool.run.diagnose import explain_text
from gguftool.run.measurer import PACKAGE, VERSION, available

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PROGRAM = "llama-imatrix"
ENGINES = ("auto", PROGRAM, "library")
CHILD = "gguftool.run.imatrixchild"
DEFAULT_TEXT = "alice.txt"
BATCH = 2048
"""Tokens that llama-imatrix reads at once, if not told otherwise."""
_SCORE = regex(r"\[(\d{1,9})\]([0-9.]{1,30}|nan|inf)")
_FINAL = regex(r"Final estimate: PPL = ([0-9.]+)")
_COUNT = regex(r"computing over (\d{1,9}) chunks")
_PARTS = regex(rb"\r\n|\n|\r|,(?=\[|\Z)")
"""Ends of what it says: the scores of the chunks stand in one line, and come one by one."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure.

    Attributes:
        text: path of the text; None: the first pages of Alice's Adventures in Wonderland, enough for a trial.
        chunk: tokens of a chunk.
        chunks: most chunks of the text that are read; None for all.
        first: chunks at the beginning that are left out.
        special: names of control tokens in the text stand for these.
        output: measure the output matrix, too (llama.cpp's advice is not to).
        nextn: measure the layers that predict further tokens, too; the program can, the library cannot.
        add: matrices measured before, whose sums are added.
        resume: go on with the output file where it ended.
        every: write the output every so many chunks; 0: at the end.
        form: ``gguf`` or ``dat``.
        threads: to compute with; None for all cores.
        engine: one of `ENGINES`.
        llama_cpp: folder or program of llama.cpp to use.
        overwrite: replace an existing output.
        log: file for what the program says.
    """

    text: str | None = None
    chunk: int = 512
    chunks: int | None = None
    first: int = 0
    special: bool = False
    output: bool = False
    nextn: bool = False
    add: tuple[str, ...] = ()
    resume: bool = False
    every: int = 0
    form: str = "gguf"
    threads: int | None = None
    engine: str = "auto"
    llama_cpp: str | None = None
    overwrite: bool = False
    log: str | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Measured:
    """A matrix that was made.

    Attributes:
        path: the file.
        matrix: what it holds.
        coverage: what of the model it knows.
        flaws: what speaks against it, the worst first.
        engine: what computed.
        chunks: that were read now, of ``chunk`` tokens.
        text: what was read.
        perplexity: of the second halves of the chunks, None when the engine does not tell.
        seconds: it took.
        notes: what the user should know about merging and writing.
    """

    path: str
    matrix: Matrix
    coverage: Coverage
    flaws: tuple[Misfit, ...]
    engine: str
    chunks: int
    chunk: int
    text: str
    perplexity: float | None
    seconds: float
    notes: tuple[str, ...] = field(default=())

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class _Job:
    """What an engine gets: the model's file, the text, what is wanted, matrices to add, a folder for its files."""

    path: str
    text: str
    wanted: Wanted
    before: tuple[Matrix, ...]
    folder: str
    output: str
    tell: Callable[[int, int, float | None], None]


def measure_imatrix(
    model: Model | str | os.PathLike[str],
    output: str | os.PathLike[str],
    wanted: Wanted | None = None,
    tell: Callable[[int, int, float | None], None] = lambda done, total, perplexity: None,
) -> Measured:
    """Measure ``model`` on a text and write the matrix.

    Args:
        model: a path, an address, or an open model.
        output: file to write; it has its name only when it is whole.
        wanted: see `Wanted`.
        tell: called with chunks done, chunks in all, and the perplexity so far.

    Raises:
        UsageError: it is no model that runs, the text is too short, or options contradict each other.
        Refused: the output exists, or what is to be added is of another model.
        ToolFailed: there is neither program nor library, or it failed.
        NoRoom: the disk is full.
    """
    wish, output = wanted or Wanted(), os.fspath(output)
    program = _program(wish)
    file = file_of(model)
    with opened(file) as m:
        only_runnable(m)
        path, readers = m.name, readers_of([p for part in m.parts if (p := part.path) is not None])
        wish, before = _before(m, output, wish)
        clear_way([output], overwrite=wish.overwrite, can_overwrite=True)
        began = time.monotonic()
        with draft_folder(output) as folder:
            text = os.path.abspath(wish.text or data.path(DEFAULT_TEXT))
            job = _Job(os.path.abspath(path), text, wish, before, folder, output, tell)
            found = _by_program(program, job) if program else _by_library(job)
            whole, notes = _whole(found.matrix, job)
            notes += save(output, whole, wish.form, overwrite=wish.overwrite or found.saved, readers=readers)
        known = coverage(whole)
        return Measured(
            output, whole, known, judged(m, whole, known), program.path if program else f"{PACKAGE} {VERSION}",
            found.chunks, wish.chunk, wish.text or "Alice's Adventures in Wonderland", found.perplexity,
            time.monotonic() - began, notes,
        )  # fmt: skip


def _program(wish: Wanted) -> Tool | None:
    """The program that shall compute, None for the library.

    Raises:
        ToolFailed: neither is there, or not the one that can do what is wanted.
    """
    if wish.nextn and wish.every:
        raise UsageError(f"only {PROGRAM} measures --nextn, and only the library writes with --save-every")
    engine = wish.engine
    if engine == "auto" and wish.every and available():
        engine = "library"
    found = None if engine == "library" else find(PROGRAM, wish.llama_cpp, may_lack=engine == "auto")
    if found is not None:
        if wish.every:
            raise UsageError(f"--save-every: only the library can; {PROGRAM} was chosen", "say --engine library")
        return found
    if wish.nextn:
        raise ToolFailed(f"--nextn needs {PROGRAM}, which was not found", "name llama.cpp's folder with --llama-cpp")
    if engine == PROGRAM or not available():
        what = {"library": f"{PACKAGE} {VERSION}", PROGRAM: PROGRAM}.get(engine, f"{PROGRAM} or {PACKAGE} {VERSION}")
        raise ToolFailed(f"imatrix needs {what}, which was not found", "pip install 'gguftool[server]'")
    return None


def _before(m: Model, output: str, wish: Wanted) -> tuple[Wanted, tuple[Matrix, ...]]:
    """Matrices to add; with ``resume`` the output itself, and what is left to do.

    Raises:
        Refused: one is of another model, or was measured otherwise.
    """
    before = [load(path) for path in wish.add]
    if wish.resume and look(output) is not None:
        old = load(output)
        name = os.path.basename(wish.text or DEFAULT_TEXT)
        if old.legacy or old.chunk_size != wish.chunk:
            raise Refused(
                f"{output}: was measured in chunks of {old.chunk_size or '?'} tokens, not {wish.chunk}",
                "give the same --chunk, or another --output",
            )
        if name not in old.datasets:
            raise Refused(
                f"{output}: was measured on {', '.join(old.datasets) or 'an unknown text'}, not on {name}",
                "give the same --text, or another --output",
            )
        left = None if wish.chunks is None else wish.chunks - old.chunks
        if left is not None and left <= 0:
            raise Refused(f"{output}: has {old.chunks} chunks already", "give more --chunks, or leave out --resume")
        wish = replace(wish, first=wish.first + old.chunks, chunks=left, overwrite=True)
        before.append(old)
    for one in before:
        wrong = next((misfit for misfit in unfit(m, one.sizes) if misfit.stops), None)
        if wrong is not None:
            raise Refused(f"{one.path}: {wrong.message}", wrong.hint)
    return wish, tuple(before)


@dataclass(frozen=True, slots=True)
class _Found:
    """What an engine gives: sums of this run, chunks it read; ``saved``: the output was written in between."""

    matrix: Matrix
    chunks: int
    perplexity: float | None
    saved: bool = False


def _whole(found: Matrix, job: _Job) -> tuple[Matrix, tuple[str, ...]]:
    """The sums of this run and of those before it."""
    name = os.path.basename(job.text)
    texts = () if job.wanted.resume and any(name in one.datasets for one in job.before) else (name,)
    return merge([*job.before, replace(found, datasets=texts, chunk_size=job.wanted.chunk)], job.wanted.chunk)


def _by_library(job: _Job) -> _Found:
    wish = job.wanted
    sums = os.path.join(job.folder, "sums")
    request: dict[str, Any] = {
        "path": job.path, "text": job.text, "chunk": wish.chunk, "chunks": wish.chunks, "first": wish.first,
        "special": wish.special, "output": wish.output, "every": wish.every, "sums": sums,
        "threads": wish.threads or processors(),
    }  # fmt: skip
    saved = False

    def hear(note: Mapping[str, Any]) -> None:
        nonlocal saved
        if "saved" in note:
            whole, _ = _whole(_read_sums(note["saved"], note["index"]), job)
            os.unlink(note["saved"])
            save(job.output, whole, wish.form, overwrite=wish.overwrite or saved)
            saved = True
        else:
            job.tell(note["done"], note["of"], note["perplexity"])

    answer = converse(CHILD, request, hear)
    return _Found(_read_sums(sums, answer["index"]), answer["chunks"], answer["perplexity"], saved)


def _read_sums(path: str, index: Sequence[Sequence[Any]]) -> Matrix:
    """The child's file of sums."""
    import numpy as np

    found: dict[str, Entry] = {}
    with open(path, "rb") as file:

        def take(kind: str, *shape: int) -> NDArray[Any]:
            wide = np.dtype(kind).itemsize
            return np.frombuffer(file.read(wide * int(np.prod(shape))), kind).reshape(shape)

        for name, experts, columns, counts in index:
            squares: NDArray[np.float32] = take("<f4", experts, columns)
            plain: NDArray[np.float32] = take("<f4", experts, columns)
            seen: NDArray[np.int64] = take("<i8", counts)
            found[name] = Entry(squares.reshape(counts, -1), seen, plain.reshape(counts, -1))
    return Matrix(found)


def _by_program(tool: Tool, job: _Job) -> _Found:
    """Let llama-imatrix do it; its own file is read back, whichever form this build writes.

    Raises:
        ToolFailed: it fails, or wrote nothing that can be read.
    """
    made = os.path.join(job.folder, "imatrix.gguf")
    total, done, scores = 0, 0, dict[int, float]()

    def hear(line: str) -> None:
        nonlocal total, done
        if (count := _COUNT.search(line)) is not None:
            total = int(count[1])
        for number, score in _SCORE.findall(line):
            done = int(number)
            scores[done] = float(score) if score not in ("nan", "inf") else 0.0
            job.tell(done, max(total, done), scores[done] or None)

    # In the folder of the text: the name that it is given by stands in the file afterwards.
    ended = run(
        _arguments(tool, job, made), log=job.wanted.log, on_line=hear, env={"GGML_NO_BACKTRACE": "1"},
        cwd=os.path.dirname(job.text), line_end=_PARTS,
    )  # fmt: skip
    text = "\n".join(ended.tail)
    if ended.code or look(made) is None:
        raise _failure(tool, text, ended.reason)
    final = _FINAL.search(text)
    return _Found(load(made), total or done, float(final[1]) if final else scores.get(done))


def _arguments(tool: Tool, job: _Job, made: str) -> list[str]:
    wish, build = job.wanted, capabilities(tool)
    out = [tool.path, "-m", job.path, "-f", os.path.basename(job.text), "-o", made, "-c", str(wish.chunk),
           "-b", str(min(wish.chunk, BATCH)), "-t", str(wish.threads or processors())]  # fmt: skip
    options: tuple[tuple[bool, tuple[str, ...], str], ...] = (
        (wish.chunks is not None, ("--chunks",), str(wish.chunks)),
        (wish.first > 0, ("--from-chunk", "--chunk"), str(wish.first)),
        (wish.special, ("--parse-special",), ""),
        (wish.output, ("--process-output",), ""),
        (wish.nextn, ("--nextn",), ""),
    )
    for there, names, value in options:
        if not there:
            continue
        name = build.spelling(names)
        if name is None:
            raise ToolFailed(f"{tool.path} has no option {names[0]}", "take a newer llama.cpp, or --engine library")
        out += [name, value] if value else [name]
    if build.takes("--output-format"):
        out += ["--output-format", "gguf"]
    return out


def _failure(tool: Tool, text: str, reason: str) -> ToolFailed | UsageError:
    short = re.search(r"the data file you provided tokenizes to only (\d{1,12}) tokens", text)
    if short:
        return UsageError(
            f"{PROGRAM} wants two chunks of text at least, and this has {short[1]} tokens",
            "give a longer --text, a smaller --chunk, or --engine library",
        )
    known = explain_text(text)
    words = [line.strip() for line in text.splitlines() if re.search(r"error|fail|assert|non-finite", line, re.I)]
    last = known.line if known else (words or [reason])[-1]
    return ToolFailed(f"{tool.path} failed ({reason}): {last[:300]}", "--engine library does without it")
