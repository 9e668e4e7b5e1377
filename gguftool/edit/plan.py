"""From operations to a plan that can be looked at before anything is written, and then done."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gguftool.brief import short_repr, shown, table
from gguftool.edit.changes import Change, changes_of
from gguftool.edit.choose import check_room, choose, costs
from gguftool.edit.commit import build, commit, identity
from gguftool.edit.drawn import draw, front_of
from gguftool.edit.fitted import Fit
from gguftool.edit.forecast import Forecast
from gguftool.edit.job import InsertImpossible, Job
from gguftool.edit.ops import Operation
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.remarks import of_another_program, remarks
from gguftool.edit.steps import refuse_unfinished
from gguftool.edit.target import check, look
from gguftool.edit.which import metadata_file
from gguftool.errors import ChangedMeanwhile, Refused, UsageError
from gguftool.files.attributes import readers_of
from gguftool.files.disk import Progress
from gguftool.files.faults import writing
from gguftool.format.header import Header, align
from gguftool.model.headers import Headers
from gguftool.model.shards import split_keys
from gguftool.records import dataclass, replace
from gguftool.source import LocalFile

if TYPE_CHECKING:
    from gguftool.edit.patch import Patch

STRATEGIES = ("patch", "insert", "rewrite")
IN_USE = ("refuse", "rewrite", "patch")
HARD_LINKS = ("refuse", "follow", "break")
HARM = ("refuse", "allow")


@dataclass(frozen=True, slots=True)
class Result:
    """What was done.

    Attributes:
        path: the file that has the new content.
        strategy: ``patch``, ``insert``, ``rewrite``, or ``none`` when there was nothing to change.
        bytes_written: to the disk, journal included.
        undo: path of the undo record, or None.
    """

    path: str
    strategy: str
    bytes_written: int
    undo: str | None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class EditPlan:
    """An edit before it is done; `commit` does it.

    Attributes:
        path: as named (for a shard set: the shard that carries the metadata).
        output: the file to write instead of editing in place, or None.
        operations: what was asked for.
        old, new: the headers; `new` without the filler that may be added.
        changes: keys that differ.
        strategy: ``patch``, ``insert``, ``rewrite``, or ``none`` when nothing changes.
        fit: how the new file is laid out.
        bytes_written: to the disk, journal included.
        space_needed: free bytes needed meanwhile.
        notes: what a reader should know.
        forecast: what llama.cpp does with the file before and after, worked out when first asked for.
    """

    path: str
    output: str | None
    operations: tuple[Operation, ...]
    old: Header
    new: Header
    changes: tuple[Change, ...]
    strategy: str
    fit: Fit
    bytes_written: int
    space_needed: int
    notes: tuple[str, ...]
    forced: bool
    job: Job
    layer: OsLayer
    forecast: Forecast

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        rows = ((c.key, c.type, shown(c.old), shown(c.new)) for c in self.changes)
        return table(f"{self.path}: {self.strategy}", ("key", "type", "old", "new"), rows)

    @property
    def shift(self) -> int:
        """Bytes by which the tensor data moves away from the start of the file; 0 for a patch."""
        return self.fit.shift

    def commit(self, progress: Progress | None = None) -> Result:
        """Do it.

        Args:
            progress: called with bytes done and bytes in all while data is copied.

        Raises:
            ChangedMeanwhile: the file is not the one that was planned for; nothing was touched.
            Refused, NoRoom: nothing was touched.
            InterruptedEdit: the disk failed in the middle; `gguftool.recover` settles it.
        """
        if self.output is not None:
            _write_output(self, progress)
            return Result(self.output, "rewrite", self.bytes_written, None)
        if self.strategy == "none":
            return Result(self.job.path, "none", 0, None)
        try:
            undo = commit(self.job, self.layer, progress)
            return Result(self.job.path, self.strategy, self.bytes_written, undo)
        except InsertImpossible:
            if self.forced:
                raise Refused(
                    f"{self.path}: this file system cannot insert here; the file is as it was", "--strategy rewrite"
                ) from None
        # Poisoning and going back have touched the file; its front is compared again all the same.
        job = replace(self.job, strategy="rewrite", identity=identity(os.stat(self.job.path)))
        written_bytes, needed = costs(job, self.layer, False)
        check_room(self.layer, job.path, needed)
        return Result(job.path, "rewrite", written_bytes, commit(job, self.layer, progress))


def plan_edit(
    path: str | os.PathLike[str],
    ops: Sequence[Operation],
    *,
    strategy: str | None = None,
    output: str | os.PathLike[str] | None = None,
    in_use: str = "refuse",
    hard_links: str = "refuse",
    force: bool = False,
    harm: str = "refuse",
    keep_undo: bool = True,
    preserve_mtime: bool = False,
    argv: Sequence[str] = (),
    group: str = "",
    layer: OsLayer | None = None,
    patch: Patch | None = None,
    known: Headers | None = None,
) -> EditPlan:
    """Plan an edit; nothing is written yet.

    Args:
        path: a ``.gguf`` file, or any shard of a set (the metadata of a set is in its first shard).
        ops: what to change, see `gguftool.edit.ops`.
        strategy: force ``patch``, ``insert`` or ``rewrite``; None chooses.
        output: write a new file there and leave the input alone.
        in_use: what to do when another process has the file open: ``refuse``, ``rewrite`` or ``patch``.
        hard_links: ``refuse``, ``follow`` or ``break``.
        force: take sparse files, and types other than the known ones.
        harm: what to do when llama.cpp loads the file and would not load or run it any more, or would use less of it:
            ``refuse`` or ``allow``.
        keep_undo: keep an undo record.
        preserve_mtime: leave the time of last change as it was.
        argv: the command line, for the record.
        group: id shared by the edits of one command.
        layer: the operating system (tests put others here).
        patch: apply this (`gguftool.edit.patch.read_patch`) instead of operations.
        known: headers that need not be read again; before anything is written they are compared with the file.

    Raises:
        UsageError: an operation that is not possible.
        Refused: not safe; the hint says the way on.
        InterruptedEdit: an unfinished edit stands in the way; `gguftool.recover` first.
        FormatError: not readable as GGUF.
        NoRoom: not enough free disk for a rewrite.
    """
    layer = layer or OsLayer()
    for name, value, allowed in (
        ("strategy", strategy, (None, *STRATEGIES)),
        ("in_use", in_use, IN_USE),
        ("hard_links", hard_links, HARD_LINKS),
        ("harm", harm, HARM),
    ):
        if value not in allowed:
            raise UsageError(f"{name} is {value!r}, must be one of {', '.join(map(str, allowed))}")
    named = metadata_file(os.fspath(path), known)
    target = look(named, layer) if output is not None else check(named, layer, hard_links=hard_links, force=force)
    refuse_unfinished(layer, target.real, named)
    with contextlib.closing(LocalFile(target.real)) as source:
        old, front = front_of(source, target.named, known)
    if patch is not None:
        if ops:
            raise UsageError("a patch is applied alone", "make the other changes with a command of their own")
        ops = [patch.onto(named, front[: old.data_offset], target.stat.st_size)]
    drawn = draw(named, old, front, target.stat.st_size, ops, force=force, harm=harm, known=known)
    new, laid_out, forecast = drawn.new, drawn.fit, drawn.forecast
    job = Job(
        path=target.real,
        strategy="rewrite",
        fit=laid_out,
        old_front=front,
        identity=identity(target.stat),
        keep_undo=keep_undo,
        in_use=in_use,
        preserve_mtime=preserve_mtime,
        operations=tuple(op.describe() for op in ops),
        argv=tuple(argv),
        group=group,
    )
    notes = [*of_another_program(named, new, target.stat.st_size), *remarks(old, new)]
    clones = False
    folder = os.path.dirname(target.real) if output is None else os.path.realpath(os.path.dirname(output) or ".")
    if output is None and _nothing_changes(laid_out, front, target.stat.st_size):
        job = replace(job, strategy="none")
    elif output is None:
        chosen, clones = choose(target, laid_out, layer, strategy, in_use, hard_links, notes)
        job = replace(job, strategy=chosen)
        if chosen == "rewrite" and hasattr(os, "geteuid") and os.geteuid() not in (0, target.stat.st_uid):
            notes.append("the new file belongs to you, no longer to its owner; the group stays where you are in it")
    else:
        clones = layer.can_clone(folder) and os.stat(folder or ".").st_dev == target.stat.st_dev
    bytes_written, needed = (0, 0) if job.strategy == "none" else costs(job, layer, clones, output is not None)
    if job.strategy != "none":
        check_room(layer, os.path.join(folder, ""), needed)
    if not laid_out.plain:
        end = max((s.old + s.n for s in laid_out.segments), default=laid_out.old_front)
        behind = target.stat.st_size - align(end, old.alignment or 1)
        if behind > 0:
            notes.append(f"{behind:,} bytes behind the last tensor belong to no tensor and are left out")
    short = (old.data_end() or 0) - target.stat.st_size
    if short > 0:
        notes.append(
            f"the file is cut short, {short:,} bytes of tensor data are missing: a download can be resumed only "
            "from the unedited part, which gguftool undo gives back"
        )
    if output is not None and split_keys(old) is not None:
        notes.append("only the first shard is written: copy the other shards beside it, under names that match")
    if laid_out.filler and laid_out.shift > 0:
        notes.append(f"keeps {laid_out.filler:,} bytes of room in the header, so the next edits need not move any data")
    return EditPlan(
        path=named,
        output=None if output is None else os.fspath(output),
        operations=tuple(ops),
        old=old,
        new=new,
        changes=changes_of(old, new, ops, laid_out.filler),
        strategy=job.strategy,
        fit=laid_out,
        bytes_written=bytes_written,
        space_needed=needed,
        notes=tuple(notes),
        forced=strategy is not None,
        job=job,
        layer=layer,
        forecast=forecast,
    )


def _nothing_changes(laid_out: Fit, front: bytes, size: int) -> bool:
    same = laid_out.new_size == size and laid_out.shift == 0 and front.startswith(laid_out.front)
    return same and all(s.old == s.new for s in laid_out.segments)


def _write_output(plan: EditPlan, progress: Progress | None) -> None:
    """A new file; the input is only read."""
    from gguftool.files.draft import Draft

    layer, out = plan.layer, str(plan.output)
    there = layer.stat(out)
    if there is not None and (there.st_dev, there.st_ino) == plan.job.identity[:2]:
        raise Refused(f"{plan.output}: is the input itself", "leave --output out to edit in place")
    with contextlib.ExitStack() as stack:
        draft = stack.enter_context(Draft(out, readers=readers_of([plan.job.path])))
        source = layer.open(plan.job.path, write=False)
        stack.callback(layer.close, source)
        with writing(out):
            build(layer, source, draft.fd, plan.fit, progress)
        if identity(layer.fstat(source)) != plan.job.identity:
            raise ChangedMeanwhile(f"{plan.path}: changed while it was copied", "run the command again")
        draft.publish()
