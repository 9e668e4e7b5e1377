"""Convert a Hugging Face folder: preflight, llama.cpp's own converter as a child, check of what came out."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.build import beside, named, provenance
from gguftool.build import converter as converters
from gguftool.build.folder.look import Folder, look
from gguftool.build.folder.processor import COPY
from gguftool.build.left import Asked, Left, Told, left_out
from gguftool.build.process import Ended, run
from gguftool.build.runs import MODEL, PROJECTOR, Run, runs
from gguftool.build.unconverted import explain
from gguftool.chat.infolder import PROCESSORS
from gguftool.errors import FormatError, GgufToolError, Refused, ToolFailed
from gguftool.files.attributes import Readers, readers_of
from gguftool.files.disk import check_room
from gguftool.files.draft import Draft, clear_way, draft_folder, publish_all
from gguftool.model import Model, open_model
from gguftool.model.shards import NAME, shard_name
from gguftool.records import dataclass
from gguftool.regex import regex

_PERCENT = regex(r"Writing.*?(\d{1,3})%")
_LOST = regex(r"RuntimeWarning: .*(?:overflow|invalid value)")
"""numpy says so once a place in its code, whatever the number of tensors."""
MOST_WARNINGS = 20


@dataclass(frozen=True, slots=True)
class Options:
    """How to convert.

    Attributes:
        outtype: one of `gguftool.build.ftypes.OUTTYPES`; auto keeps the 16-bit type of the source.
        llama_cpp: folder of llama.cpp to look in first.
        pre: pre-tokenizer to take where the converter does not recognise it, or None.
        more: further arguments for the converter.
        overwrite: replace an existing output.
        log: file for what the converter says.
        force: convert in spite of what the preflight found, and give the result its name in spite of its faults.
        provenance: write the `gguftool.*` keys.
        projector: of a model with an encoder of images or sound make the projector, too.
        name: what the model is called; what the source says when "".
        becomes: path of the file that it becomes in the end, where the output is one in between.
    """

    outtype: str = "auto"
    llama_cpp: str | None = None
    pre: str | None = None
    more: tuple[str, ...] = ()
    overwrite: bool = False
    log: str | None = None
    force: bool = False
    provenance: bool = True
    projector: bool = True
    name: str = ""
    becomes: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Converted:
    """What was made.

    Attributes:
        paths: the files of the model in order, then the projector; none where the result was found faulty.
        size: bytes of all.
        converter: what made them.
        seconds: how long it took, the look at the result included.
        notes: what the user should know.
        projector: path of the multimodal projector, None when none was made.
        left: what is in the source and in none of the files.
    """

    paths: tuple[str, ...]
    size: int
    converter: str
    seconds: float
    notes: tuple[str, ...] = ()
    projector: str | None = None
    left: tuple[Left, ...] = ()

    __repr__ = short_repr

    @property
    def path(self) -> str:
        """The first file.

        Raises:
            Refused: the result was found faulty and got no name.
        """
        if not self.paths:
            raise Refused("the result has no name: it was found faulty", "see its checks")
        return self.paths[0]


@dataclass(frozen=True, slots=True)
class Drafted:
    """What the converter has made, before it gets its name.

    Attributes:
        files: draft and final name of each file, in order.
        folder: the source, as it was looked at.
        converter: what made it.
        warnings: lines of its log that tell of numbers it could not keep.
        left: what is in the source and in none of the files.
    """

    files: tuple[tuple[str, str], ...]
    folder: Folder
    converter: converters.Converter
    warnings: tuple[str, ...]
    left: tuple[Left, ...] = ()

    __repr__ = short_repr


Judge = Callable[[Drafted], bool]
"""Looks at what was made and may mend it; False: it gets no name."""


def convert(
    source: str,
    output: str,
    options: Options | None = None,
    progress: Callable[[int], None] | None = None,
    judge: Judge | None = None,
) -> Converted:
    """Convert the Hugging Face folder ``source`` to ``output``.

    Args:
        source: folder with config.json, tokenizer and weights.
        output: file to write; when the converter splits, its name is the stem of the shards' names.
        options: see `Options`.
        progress: called with the percentage written.
        judge: asked before names are given (`gguftool.api.converted` has the one that is used).

    Raises:
        Refused: the folder cannot be converted, or the output exists.
        NoRoom: input and output do not fit.
        ToolFailed: no converter, or it failed; the message says why in plain words.
    """
    chosen = options or Options()
    clear_way([output], overwrite=chosen.overwrite, can_overwrite=True)
    tool, folder = preflight(source, chosen)
    todo = runs(folder, tool, chosen.outtype, chosen.more, projector=chosen.projector)
    if eyes := projector(folder, tool, output, chosen):
        clear_way([eyes], overwrite=chosen.overwrite, can_overwrite=True)
    check_room(os.path.dirname(output), folder.output_size(chosen.outtype), what="the converted model")
    started = time.monotonic()
    notes = [p.message for p in folder.problems]
    warnings: list[str] = []
    card = named.card(source)
    name, given = named.asked(chosen.more)
    who = named.called(source, card, chosen.becomes or output, chosen.name or name)
    if not who.told_by and "general.name" not in given:
        notes.append("nothing tells what the model is called: general.name is left out (--name NAME writes it)")
    known = named.told(source, who, card, folder.parameters)
    fields = [row for row in named.rows(who, known) if row["key"] not in given]
    if chosen.provenance:
        fields += [named.row(*one) for one in provenance.converted(tool.label, source, chosen.pre).items()]
    told = [Told() for _ in todo]
    with draft_folder(output) as place:
        for one, tensors in zip(todo, told, strict=True):
            hear = _reader(progress if one is todo[-1] else None, warnings, tensors)
            notes += _run(one, tool, folder, place, fields, chosen, hear)
        made = sorted(n for n in os.listdir(place) if n.endswith(".gguf"))
        final = _names(place, made, output)
        if PROJECTOR in made and len(todo) > 1:
            side = os.path.join(place, PROJECTOR)
            notes += beside.judge(os.path.join(place, next(n for n in made if n != PROJECTOR)), side)
            final[PROJECTOR] = beside.name(output, side)
        # The projector last.
        order = sorted(final, key=lambda one: one == PROJECTOR)
        files = tuple((os.path.join(place, one), final[one]) for one in order)
        with open_model(files[0][0], strict=False) as model:
            asked = Asked(tool, chosen.projector, chosen.more, frozenset(model.tensors))
        left = left_out(folder, asked, told)
        sound = judge is None or judge(Drafted(files, folder, tool, tuple(warnings), left))
        size = sum(os.path.getsize(draft) for draft, _ in files)
        if sound:
            _give_names(files, readers_of([source]), overwrite=chosen.overwrite)
    paths, eyes = (tuple(name for _, name in files), final.get(PROJECTOR)) if sound else ((), None)
    return Converted(paths, size, tool.label, time.monotonic() - started, tuple(notes), eyes, left)


def _run(
    one: Run,
    tool: converters.Converter,
    folder: Folder,
    place: str,
    fields: Sequence[Mapping[str, object]],
    options: Options,
    on_line: Callable[[str], None],
) -> list[str]:
    """Run the converter once.

    Returns:
        What the user should know.

    Raises:
        ToolFailed: it failed, or made nothing of use.
    """
    log = options.log
    if log and one.what == "projector":
        log = os.path.join(os.path.dirname(log), f"mmproj-{os.path.basename(log)}")
    before = set(os.listdir(place))
    ended = run(
        arguments(tool, folder.path, os.path.join(place, one.file), options.pre, one),
        log=log,
        on_line=on_line,
        env={
            "PYTHONUNBUFFERED": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "GGUFTOOL_FIELDS": json.dumps(fields),
        },
    )
    try:
        if ended.code:
            raise explain(ended, folder, log)
        _check(place, sorted(n for n in set(os.listdir(place)) - before if n.endswith(".gguf")), ended, one)
    except GgufToolError as e:
        if one.what != "projector":
            raise
        ways = [COPY] if not {*PROCESSORS} & {*folder.names} else [e.hint] if e.hint else []
        raise type(e)(f"the projector: {e}", "; ".join([*ways, beside.WITHOUT])) from None
    if any("pre-tokenizer not recognised" in line for line in ended.tail):
        return [f"the pre-tokenizer was not recognised; {options.pre} was taken as told"]
    return []


def projector(folder: Folder, tool: converters.Converter, output: str, options: Options) -> str | None:
    """Path of the projector that will be made beside ``output``, None when none will be."""
    todo = runs(folder, tool, options.outtype, options.more, projector=options.projector)
    made = (one.outtype for one in todo if one.file == PROJECTOR)
    outtype = next(made, None)
    return None if outtype is None else beside.expected_name(output, folder, outtype)


def preflight(source: str, options: Options) -> tuple[converters.Converter, Folder]:
    """The converter, and the folder as it sees it.

    Raises:
        Refused: the folder cannot be converted; said first, also where there is no converter yet.
        ToolFailed: no converter.
    """
    try:
        tool = converters.require(options.llama_cpp)
    except ToolFailed:
        refuse(look(source, arguments=options.more), force=options.force)
        raise
    folder = look(source, tool.registry, tool.methods, options.more)
    refuse(folder, force=options.force)
    return tool, folder


def refuse(folder: Folder, *, force: bool = False) -> None:
    """Raise for the problems that stop a conversion.

    Raises:
        Refused: the message names up to three of them, the hint what helps with the first.
    """
    if folder.fatal and not force:
        first, *others = folder.fatal
        also = "".join(f"; also: {p.message}" for p in others[:2])
        more = f"; and {len(others) - 2} more: convert --dry-run lists them" if len(others) > 2 else ""
        raise Refused(first.message + also + more, first.hint)


def arguments(tool: converters.Converter, source: str, outfile: str, pre: str | None, one: Run) -> list[str]:
    """The command line that converts."""
    driver = os.path.join(os.path.dirname(os.path.abspath(__file__)), "converter_driver.py")
    return [
        tool.python,
        driver,
        os.path.abspath(tool.script) if tool.script else "-",
        pre or "-",
        os.path.abspath(source),
        "--outfile",
        os.path.abspath(outfile),
        "--outtype",
        one.outtype,
        *one.arguments,
    ]


def _reader(progress: Callable[[int], None] | None, warnings: list[str], told: Told) -> Callable[[str], None]:
    def line(text: str) -> None:
        if told.hear(text):
            return
        if _LOST.search(text) and len(warnings) < MOST_WARNINGS:
            warnings.append(text.strip())
        match = _PERCENT.search(text)
        if match and progress:
            progress(int(match[1]))

    return line


def _check(place: str, made: Sequence[str], ended: Ended, one: Run) -> None:
    """Every file must be readable and as long as its tensors need, and there must be some.

    Raises:
        ToolFailed: the converter said success and did not deliver.
    """
    if not made:
        last = ended.tail[-1].strip() if ended.tail else "it said nothing"
        raise ToolFailed(f"the converter ended well but wrote no file; its last line: {last[:200]}")
    tensors = 0
    for name in made:
        try:
            with open_model(os.path.join(place, name), whole_set=False) as model:
                _check_one(model, name)
                tensors += len(model.tensors)
        except (FormatError, OSError) as e:
            raise ToolFailed(f"the converter said success, but {name} is broken: {e}") from None
    if not tensors and "--vocab-only" not in one.arguments:
        raise ToolFailed(f"the converter said success, but {made[0]} holds no tensor: it took none of the source's")


def _check_one(model: Model, name: str) -> None:
    end = model.header.data_end()
    if end is None or model.file_size < end:
        raise ToolFailed(f"the converter said success, but {name} is cut off at {model.file_size:,} bytes")
    # Of a set only the first file carries the metadata.
    if not model.architecture and model.parts[0].header.get("split.no") is None:
        raise ToolFailed(f"the converter said success, but {name} names no architecture")


def _names(place: str, made: Sequence[str], output: str) -> dict[str, str]:
    """The name that each file gets: that of ``output``, or of a set of shards, or its prefix before it."""
    folder, name = os.path.split(output)
    stem = name.removesuffix(".gguf")
    names = {}
    for one in made:
        shard = NAME.match(one)
        if shard:
            final = shard_name(stem, int(shard["no"]) - 1, int(shard["count"]))
        else:
            # The converter puts mmproj- or mtp- in front of what it makes besides the model.
            final = name if one == MODEL or len(made) == 1 else one.replace("model", stem, 1)
        names[one] = os.path.join(folder, final)
    return names


def _give_names(files: Sequence[tuple[str, str]], readers: Readers, *, overwrite: bool) -> None:
    """Move what was made to its place, all at once."""
    with contextlib.ExitStack() as stack:
        drafts = [
            stack.enter_context(Draft.of(draft, name, overwrite=overwrite, readers=readers)) for draft, name in files
        ]
        publish_all(drafts)
