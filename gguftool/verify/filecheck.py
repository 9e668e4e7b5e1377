"""The quick part: header, sizes and neighbours of one file. Reads the header only, at any size.

Only offsets and sizes decide whether a file is whole: never the names of its tensors.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from gguftool.errors import EditPending, FormatError, GgufToolError, MissingFile
from gguftool.format.header import Header, TensorInfo, align
from gguftool.model import Model, Part
from gguftool.model.datastart import misplaced_start, misplaced_words
from gguftool.model.headers import Headers
from gguftool.model.origin import measured, origin, stored_as
from gguftool.records import replace
from gguftool.shell import AND, INTO, PIPE, gguftool, path_word, shell
from gguftool.source import LocalFile, Source
from gguftool.verify import siblings
from gguftool.verify.inside import embedded, ends, restarted
from gguftool.verify.result import Fault, FileReport

LARGEST = (1 << 63) - 1
"""Most elements and bytes that llama.cpp can count (`gguf.cpp:gguf_init_from_reader`, b11434)."""


def quick(target: str | os.PathLike[str] | Model | Part) -> FileReport:
    """Check one file without reading its tensor data.

    Args:
        target: a path, or a file that is open already (of a model with several parts: all of them together).

    Returns:
        The report; a file that is no GGUF has its ``error`` set and nothing is raised.

    Raises:
        MissingFile: no such path (the hint names a partial download beside it).
        Unreadable: the operating system does not let us read it.
    """
    if isinstance(target, Part):
        return _of_header(target.source, target.header)
    if isinstance(target, Model):
        if len(target.parts) == 1:
            return _of_header(target.parts[0].source, target.header, target)
        reports = [quick(part) for part in target.parts]
        return _together(target.name, reports)
    return examine(os.fspath(target))[0]


def examine(path: str, known: Headers | None = None) -> tuple[FileReport, Header | None]:
    """As `quick`, and the header that was read, which is added to those known; None when the file is no GGUF."""
    try:
        source = LocalFile(path)
    except MissingFile as error:
        for other in siblings.beside(path):
            hint = f"{other} is there: the download has not finished"
            raise MissingFile(str(error), hint) from None
        raise
    try:
        header = (known or Headers()).parsed(source)
    except (FormatError, EditPending) as error:
        kind = error.kind if isinstance(error, FormatError) else "interrupted-edit"
        faults, notes = siblings.signs(path)
        message = str(error).removeprefix(f"{path}: ")
        mine = Fault(kind, message, "file", error.hint)
        return FileReport(path, source.size, faults=(mine, *faults), notes=notes, error=error), None
    else:
        return _of_header(source, header), header
    finally:
        source.close()


def _together(name: str, reports: list[FileReport]) -> FileReport:
    expected = [r.expected for r in reports]
    return FileReport(
        name,
        sum(r.size for r in reports),
        None if None in expected else sum(e or 0 for e in expected),
        sum(r.tensors for r in reports),
        reports[0].version,
        tuple(f for r in reports for f in r.faults),
        tuple(n for r in reports for n in r.notes),
        next((r.error for r in reports if r.error), None),
    )


def _of_header(source: Source, header: Header, model: Model | None = None) -> FileReport:
    faults: list[Fault] = []
    notes: list[Fault] = []
    error: GgufToolError | None = None
    for p in header.problems:
        where = f"field:{p.key}" if p.key and not p.fatal else "header"
        if not p.fatal:
            notes.append(Fault(p.kind, p.message, where, gguftool("lint", path_word(source.name))))
            continue
        hint = "download it again" if p.kind == "truncated" else None
        faults.append(Fault(p.kind, p.message, where, hint, (p.offset, p.offset)))
        error = FormatError(f"{source.name}: {p.message}", hint, offset=p.offset, key=p.key, kind=p.kind)
    start = misplaced_start(source, header)
    if start is not None:
        mend = gguftool("fix", path_word(source.name), "--realign", str(header.alignment))
        faults.append(Fault("data-start", misplaced_words(header, start), "header", mend, (header.end, start)))
        # The rest is looked at where it is.
        header = replace(header, data_offset=start)
    m = model if model is not None and start is None else Model((Part(source.name, source, header),))
    header = measured(m, header)
    stop = ends(header)
    if header.complete:
        faults += _short(source, header)
        notes += _layout(header)
        notes += _of_fork(m)
    if stop is not None and source.size > stop[1]:
        faults.append(_excess(source, header, stop))
    if isinstance(source, LocalFile):
        more = siblings.signs(source.path)
        faults += more[0]
        notes += more[1]
        if header.complete and stop is not None and (found := siblings.holes(source, header.data_offset, stop[0])):
            notes.append(_hole(header, *found))
    return FileReport(
        source.name,
        source.size,
        None if stop is None else stop[0],
        len(header.tensors),
        header.version,
        tuple(faults),
        tuple(notes),
        error,
    )


def _of_fork(m: Model) -> Iterator[Fault]:
    """What is known of tensors with types that llama.cpp does not have, or has for something else."""
    found = origin(m)
    types = found.types if found is not None else {}
    odd = [t for t in m.all_tensors() if t.info.type_id in types or t.nbytes is None]
    if not odd:
        return
    names, where = ", ".join(dict.fromkeys(stored_as(m, t)[0] for t in odd)), f"tensor:{odd[0].name}"
    if found is not None and found.sized:
        yield Fault("fork-types", f"{len(odd)} tensors have types of a fork ({names}); their sizes are known", where)
    else:
        message = f"{len(odd)} tensors have a size that cannot be known ({names}): the end of the file is not checked"
        yield Fault("unknown-size", message, where)


def _short(source: Source, header: Header) -> list[Fault]:
    """Tensors that pass the end of the file."""
    size = source.size
    for t in header.tensors:
        if (t.nbytes or 0) > LARGEST or t.elements > LARGEST:
            shape = " x ".join(f"{d:,}" for d in t.shape)
            message = f"tensor {t.name!r} claims {shape} elements, more than any file holds: damaged or hostile"
            return [Fault("impossible-size", message, f"tensor:{t.name}", "do not load it; download it again")]
    cut: list[TensorInfo] = []
    end = 0
    for t in header.tensors:
        stop = header.where(t)[1]
        if stop is not None:
            end = max(end, stop)
            if stop > size:
                cut.append(t)
        elif header.where(t)[0] > size:
            cut.append(t)
    if not cut:
        return []
    first = min(cut, key=lambda t: t.offset)
    where = f"tensor:{first.name}"
    if (odd := _out_of_line(header)) is not None and odd[0] in cut:
        t, expected = odd
        message = (
            f"tensor {t.name!r} claims offset {t.offset:,}, where the others leave {expected:,}: "
            f"it lies outside the file ({size:,} bytes)"
        )
        return [Fault("offset-outside", message, f"tensor:{t.name}", "the header is damaged: download it again")]
    total = max(end - header.data_offset, 1)
    have = max(0, size - header.data_offset)
    others = f" and {len(cut) - 1:,} more" if len(cut) > 1 else ""
    percent = 1000 * have // total / 10  # rounded down: what is cut off is never all there
    message = (
        f"cut off: {size:,} of {end:,} bytes are there, {end - size:,} are missing ({percent:.1f}% of the "
        f"tensor data is present); first tensor affected: {first.name}{others} of {len(header.tensors):,}"
    )
    hint = "download it again, or fetch the rest with --repair-from of `gguftool verify`"
    return [Fault("truncated", message, where, hint, (size, end))]


def _out_of_line(header: Header) -> tuple[TensorInfo, int] | None:
    """The first tensor that does not stand where those before it end, and where that is."""
    at = 0
    for t in header.tensors:
        if t.offset != at:
            return t, at
        if t.nbytes is None:
            return None
        at = align(at + t.nbytes, header.alignment)
    return None


def _layout(header: Header) -> list[Fault]:
    odd = _out_of_line(header)
    if odd is None:
        return []
    message = f"tensor {odd[0].name!r} has offset {odd[0].offset:,}, expected {odd[1]:,}: llama.cpp refuses this layout"
    return [Fault("layout", message, f"tensor:{odd[0].name}", "gguftool lint explains it")]


def _excess(source: Source, header: Header, stop: tuple[int, int]) -> Fault:
    """What stands behind the end of the data."""
    extra = source.size - stop[1]
    span = (stop[1], source.size)
    more = embedded(source, header)
    if more:
        cuts = ", ".join(f"{e.start:,}" for e in more[:8]) + (" …" if len(more) > 8 else "")
        what = f"{len(more)} more GGUF file{'s' if len(more) > 1 else ''} inside, starting at byte {cuts}"
        if any(e.keys is not None for e in more):
            what += ": shards joined with cat, which gives no model"
            hint = f"makes one of them: {gguftool('merge', path_word(source.name), '-o', 'merged.gguf')}"
        else:
            first = more[0]
            part = ("head", "-c", str(first.end - first.start), INTO, "second.gguf")
            hint = shell(("tail", "-c", f"+{first.start + 1}", path_word(source.name), PIPE, *part))
        return Fault("joined-files", what, "file", hint, span)
    again = restarted(source, header)
    if again is not None:
        message = (
            f"the file starts again at byte {again:,}: a download was restarted behind its own beginning; "
            f"the last {source.size - again:,} bytes are the whole file"
        )
        proof = ("gguftool", "verify", "--hash", "whole.gguf")
        hint = shell(("tail", "-c", f"+{again + 1}", path_word(source.name), INTO, "whole.gguf", AND, *proof))
        return Fault("restarted-download", message, "file", hint, (0, again))
    message = f"{extra:,} bytes too long: the data ends at {stop[1]:,}, the file at {source.size:,}"
    check = gguftool("verify", "--hash", path_word(source.name))
    hint = f"whether its first {stop[1]:,} bytes are the published file: {check}"
    return Fault("excess", message, "file", hint, span)


def _hole(header: Header, total: int, first: int) -> Fault:
    names = [t.name for t in header.tensors if header.where(t)[0] <= first < (header.where(t)[1] or 0)]
    where = f"tensor:{names[0]}" if names else "file"
    message = f"{total:,} bytes of the tensor data were never written (from byte {first:,} on) and read as zeros"
    return Fault(
        "holes", message, where, "a download that is not finished? gguftool verify --hash", (first, first + total)
    )
