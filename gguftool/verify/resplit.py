"""Split a model into shards, join shards into one file: tensors byte for byte, every read checked.

The layout is that of llama-gguf-split (b11434): the first shard carries all metadata, the others only the three split
keys; here a merge leaves none of them behind.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from functools import partial

from gguftool.brief import short_repr
from gguftool.errors import FormatError, InterruptedEdit, Refused, Unreadable, UsageError
from gguftool.files.attributes import readers_of
from gguftool.files.copies import Move, copy_ranges
from gguftool.files.disk import allow_open, check_room
from gguftool.files.draft import Draft, clear_way, publish_all
from gguftool.files.faults import writing
from gguftool.format.header import Field, Header, align
from gguftool.format.parse import parse
from gguftool.format.render import make_tensor_info, render_parts
from gguftool.format.types import DEFAULT_ALIGNMENT, Layout
from gguftool.format.values import make_field
from gguftool.model import Model, Part, Tensor, in_folder
from gguftool.model.headers import Headers
from gguftool.model.missing import refuse_unnamed
from gguftool.model.opening import beginning
from gguftool.model.shards import MOST_SHARDS, SPLIT_KEYS, shard_name, split_keys
from gguftool.records import dataclass
from gguftool.shell import gguftool, path_word
from gguftool.source import LocalFile, Source
from gguftool.verify import shards
from gguftool.verify.filecheck import quick
from gguftool.verify.fromdisk import FromDisk
from gguftool.verify.inside import Window, embedded, ends
from gguftool.verify.sameness import Copied, Differs, Expected
from gguftool.verify.stream import Progress, fill, run


@dataclass(frozen=True, slots=True)
class OutFile:
    """One file to write: its name, header bytes up to the data section, tensors and their offsets in it."""

    path: str
    head: bytes
    tensors: tuple[Tensor, ...]
    offsets: tuple[int, ...]
    size: int


@dataclass(frozen=True, slots=True)
class Written:
    """One file that was written and read back: its name, length, number of tensors and sha256."""

    path: str
    size: int
    tensors: int
    sha256: str

    __repr__ = short_repr


def plan_split(
    model: Model,
    prefix: str,
    *,
    max_size: int | None = None,
    max_tensors: int | None = None,
    metadata_first: bool = False,
) -> tuple[OutFile, ...]:
    """The shards a model would be split into.

    Args:
        model: a whole model, opened strictly.
        prefix: of the files' names.
        max_size: most bytes of a file, its header included; a larger tensor gets a file of its own.
        max_tensors: most tensors in a file.
        metadata_first: no tensors in the first file.

    Raises:
        UsageError: no limit, or nothing to split.
        FormatError: the model is not whole.
    """
    if (max_size is None) == (max_tensors is None):
        raise UsageError("name one limit, --max-size or --max-tensors", _sized(model))
    if max_size is not None and max_size < 1:
        raise UsageError("a limit of 0 bytes leaves room for nothing", _sized(model))
    own = next(part.name for part in model.parts if part.name not in model.by_content)
    refuse_unnamed(own, model.by_content, model.shard_names)
    check_whole(model)
    shards.refuse_mixed(model)
    tensors = list(model.all_tensors())
    layout = model.header.layout
    common = tuple(f for f in model.header.fields if f.key not in SPLIT_KEYS)
    limits = (max_size, max_tensors)
    groups: list[list[Tensor]] = [[]]
    if metadata_first:
        groups.append([])
    for t in tensors:
        first = len(groups) == 1
        fields = (*common, *_split_fields(0, 0, 0, layout)) if first else _split_fields(0, 0, 0, layout)
        if groups[-1] and _too_much(fields, layout, [*groups[-1], t], model.header.alignment if first else 32, limits):
            groups.append([])
        groups[-1].append(t)
    if len(groups) < 2:
        raise UsageError(f"{model.name}: fits into one file; there is nothing to split", "name a smaller limit")
    if len(groups) > MOST_SHARDS:
        raise UsageError(f"{model.name}: {len(groups):,} shards; split.count holds {MOST_SHARDS:,} at most")
    return tuple(
        _out(
            shard_name(prefix, no, len(groups)),
            ((*common,) if no == 0 else ()) + _split_fields(no, len(groups), len(tensors), layout),
            group,
            layout,
            model.header.alignment if no == 0 else DEFAULT_ALIGNMENT,
        )
        for no, group in enumerate(groups)
    )


def plan_merge(model: Model, output: str) -> OutFile:
    """The one file a set of shards would become.

    Args:
        model: all shards, opened strictly.
        output: its name.

    Raises:
        FormatError: a shard is not whole, or they do not have one byte order and version.
    """
    check_whole(model)
    layouts = {part.header.layout for part in model.parts}
    if len(layouts) > 1:
        raise FormatError(f"{model.name}: the shards differ in GGUF version or byte order", kind="foreign-shard")
    fields = tuple(f for f in model.header.fields if f.key not in SPLIT_KEYS)
    return _out(output, fields, list(model.all_tensors()), model.header.layout, model.header.alignment)


def check_whole(model: Model) -> None:
    """Raise `FormatError` when a file of the model is cut off, too long or otherwise not itself."""
    for part in model.parts:
        report = quick(part)
        if report.faults:
            fault = report.faults[0]
            message = f"{part.name}: {fault.message}"
            if fault.kind == "interrupted-edit":
                raise InterruptedEdit(message, fault.hint)
            raise FormatError(message, gguftool("verify", path_word(part.name)), kind=fault.kind)
        for t in part.header.tensors:
            if t.nbytes is None:
                message = f"{part.name}: tensor {t.name!r} is of type {t.type_name}, so its size cannot be known"
                raise FormatError(message, "a newer gguftool may know it", key=t.name, kind="unknown-size")


def _split_fields(no: int, count: int, tensors: int, layout: Layout) -> tuple[Field, ...]:
    """In the order llama-gguf-split writes them."""
    return (
        make_field("split.no", "u16", no, layout),
        make_field("split.tensors.count", "i32", tensors, layout),
        make_field("split.count", "u16", count, layout),
    )


def _too_much(
    fields: Sequence[Field],
    layout: Layout,
    tensors: Sequence[Tensor],
    alignment: int,
    limits: tuple[int | None, int | None],
) -> bool:
    max_size, max_tensors = limits
    if max_tensors is not None:
        return len(tensors) > max_tensors
    head = sum(len(f.buffer) for f in fields) + 24 + sum(len(t.info.buffer) for t in tensors)
    data = sum(align(t.nbytes or 0, alignment) for t in tensors)
    return align(head, alignment) + data > (max_size or 0)


def _out(path: str, fields: Sequence[Field], tensors: Sequence[Tensor], layout: Layout, alignment: int) -> OutFile:
    infos, offsets, at = [], [], 0
    for t in tensors:
        infos.append(make_tensor_info(t.name, t.shape, t.info.type_id, at, layout))
        offsets.append(at)
        at = align(at + (t.nbytes or 0), alignment)
    head = render_parts(layout, fields, infos)
    if tensors:
        head += bytes(align(len(head), alignment) - len(head))
    return OutFile(path, head, tuple(tensors), tuple(offsets), len(head) + at)


def write_all(plans: Sequence[OutFile], progress: Progress | None = None) -> list[Written]:
    """Write files, read them back, and give them their names when all are right.

    Raises:
        Refused: a name is taken.
        NoRoom: not enough space.
        ChangedMeanwhile, Unreadable: a read failed, or what was written reads back differently.
    """
    clear_way(plan.path for plan in plans)
    check_room(os.path.dirname(plans[0].path), sum(plan.size for plan in plans))
    sources = {t.part.path for plan in plans for t in plan.tensors}
    readers = readers_of(sorted(path for path in sources if path is not None))
    allow_open(len(plans))
    drafts: list[Draft] = []
    done: list[Written] = []
    try:
        for plan in plans:
            draft = Draft(plan.path, readers=readers, swept=True)
            drafts.append(draft)
            expected = _fill(draft, plan, progress)
            draft.finish()
            done.append(_read_back(draft, plan, expected, progress))
        for plan in plans:
            _check_sources(plan)
        publish_all(drafts)
    finally:
        for draft in drafts:
            draft.close()
    return done


def _whence(t: Tensor) -> tuple[Source, int]:
    """The file that a tensor is read from, and where it stands there."""
    source, at = t.part.source, t.offset
    while isinstance(source, Window):
        source, at = source.whence(at)
    return source, at


def _check_sources(plan: OutFile) -> None:
    """Raise `ChangedMeanwhile` when a file that was copied from is another one by now."""
    for source in {id(source): source for source, _ in map(_whence, plan.tensors)}.values():
        if isinstance(source, LocalFile):
            source.check_unchanged()


def _fill(draft: Draft, plan: OutFile, progress: Progress | None) -> Expected:
    """Write header and tensors; what must stand in the file then."""
    draft.write(plan.head)
    with writing(plan.path):
        # What nothing is written to is padding, and zeros.
        os.ftruncate(draft.fd, plan.size)
    copied: list[Copied] = []
    shared: list[tuple[int, int]] = []
    for source, moves in _moves(plan):
        fd = source.descriptor if isinstance(source, LocalFile) else None
        with writing(plan.path):
            brought = copy_ranges(fd, draft.fd, moves, progress, read=partial(fill, source))
        copied.append(Copied(source, brought.copied))
        shared += [(to, n) for _, to, n in brought.shared]
    return Expected(plan.size, plan.head, copied, shared)


def _moves(plan: OutFile) -> Iterator[tuple[Source, list[Move]]]:
    """What is copied from each file, neighbours as one."""
    moves: list[Move] = []
    last: Source | None = None
    for t, offset in zip(plan.tensors, plan.offsets, strict=True):
        source, at = _whence(t)
        to, n = len(plan.head) + offset, t.nbytes or 0
        if source is not last:
            if last is not None:
                yield last, moves
            last, moves = source, []
        if moves and (moves[-1][0] + moves[-1][2], moves[-1][1] + moves[-1][2]) == (at, to):
            moves[-1] = (moves[-1][0], moves[-1][1], moves[-1][2] + n)
        else:
            moves.append((at, to, n))
    if last is not None:
        yield last, moves


def _read_back(draft: Draft, plan: OutFile, expected: Expected, progress: Progress | None) -> Written:
    """Read the draft from the disk, compare all of it, and hash it."""
    source = FromDisk(draft.reading)
    try:
        run(source, [expected], progress)
    except Differs as e:
        _check_sources(plan)
        no = bisect_right(plan.offsets, e.at - len(plan.head)) - 1
        what = plan.tensors[no].name if no >= 0 else "the header"
        message = f"{plan.path}: {what} reads back differently from what was written: suspect RAM or disk"
        raise Unreadable(message, "nothing was kept; check the disk and try again") from None
    finally:
        source.close()
    if source.size != plan.size:
        raise Unreadable(
            f"{plan.path}: has {source.size:,} bytes after writing {plan.size:,}", "check the disk and try again"
        )
    return Written(plan.path, source.size, len(plan.tensors), expected.hexdigest())


def _joined(source: LocalFile, header: Header) -> tuple[Part, ...]:
    """The shards inside a file that was made with cat, in order; none when it is not such a file.

    Raises:
        FormatError: there are such shards, but not all of one set.
    """
    stop, found = ends(header), embedded(source, header)
    keys = split_keys(header)
    if stop is None or keys is None or not found:
        return ()
    starts = [0, *(e.start for e in found)]
    limits = [found[0].start, *(e.end for e in found)]
    parts: dict[int, Part] = {}
    for start, end in zip(starts, limits, strict=True):
        name = f"{source.name} (bytes {start:,} to {end:,})"
        window = Window(source, start, name, end - start)
        inner = parse(window)
        mine = split_keys(inner)
        if mine is None or (mine.count, mine.tensors) != (keys.count, keys.tensors) or mine.no in parts:
            raise FormatError(f"{name}: is not a shard of the same set", gguftool("verify", path_word(source.name)))
        parts[mine.no] = Part(name, window, inner, mine.no)
    missing = [str(no + 1) for no in range(keys.count) if no not in parts]
    if missing:
        message = f"{source.name}: shard {', '.join(missing)} of {keys.count} is not among those joined"
        raise FormatError(message, "fetch the shards one by one", kind="shard-missing")
    return tuple(parts[no] for no in range(keys.count))


def open_set(paths: Sequence[str], *, allow_foreign: bool = False) -> Model:
    """All shards of a set in order, found by content, ready to merge.

    Args:
        paths: one or more shards, more are looked for in their folders; or the folder of a set; or one file of
            shards joined with cat.
        allow_foreign: take a set whose shards do not fit each other.

    Raises:
        UsageError: a whole model, or shards of different sets.
        FormatError: a shard is missing or damaged.
        Refused: a shard that is not of the same model or quantisation, or two files for one number.
    """
    if len(paths) == 1 and os.path.isdir(paths[0]):
        paths = [in_folder(paths[0])]
    first = LocalFile(paths[0])
    read = Headers()
    try:
        header = parse(first)
        read.keep(first, header)
        if len(paths) == 1 and (parts := _joined(first, header)):
            return Model(parts, (), len(parts))
    except BaseException:
        first.close()
        raise
    first.close()
    found = shards.check(paths[0], header, paths[1:], free=False, read=read)
    if found is None or found.count == 1:
        raise UsageError(f"{paths[0]}: is a whole model, not a shard")
    for fault in found.faults:
        hint = gguftool("verify", path_word(paths[0]))
        if fault.kind == "shard-missing":
            raise FormatError(f"{paths[0]}: {fault.message}", hint, kind=fault.kind)
        if fault.kind == "foreign-shard" and not allow_foreign:
            raise Refused(f"{paths[0]}: {fault.message}", f"--allow-foreign merges them all the same; see: {hint}")
        if fault.kind in ("duplicate-shard", "duplicate-tensor", "tensor-count", "shard-number"):
            raise Refused(f"{paths[0]}: {fault.message}", fault.hint or hint)
    refuse_unnamed(paths[0], found.by_content)
    strange = {os.path.realpath(p) for p in paths} - {os.path.realpath(p) for p in found.paths if p}
    if strange:
        raise UsageError(f"{sorted(strange)[0]}: is not a shard of the same set", "name the shards of one model")
    opened = [beginning(path or "", strict=True, known=read, no=no) for no, path in enumerate(found.paths)]
    return Model(tuple(opened), (), found.count)


def _sized(model: Model) -> str:
    """A call that splits this model."""
    large = sum(part.size for part in model.parts) > 4 * 10**9
    limit = ("--max-size", "4GB") if large else ("--max-tensors", str(max(1, len(model.tensors) // 2)))
    return gguftool("split", path_word(model.parts[0].name), *limit)
