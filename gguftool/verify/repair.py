"""Replace the damaged bytes of a file by good ones from another copy, near or far; only these are fetched.

Nothing is written into the file itself: a copy beside it is patched, proven by its hashes, and put in its place in
one step. Whenever that is broken off, the file is exactly the old or exactly the repaired one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence

from gguftool.brief import short_repr
from gguftool.edit.oslayer import OsLayer
from gguftool.edit.target import check_replaceable
from gguftool.errors import FormatError, Refused, ToolFailed, UsageError
from gguftool.files.copies import copy_ranges
from gguftool.files.disk import check_room, sync, write_at
from gguftool.files.draft import Draft
from gguftool.files.faults import writing
from gguftool.format.parse import parse
from gguftool.model import Model, Part
from gguftool.records import dataclass
from gguftool.source import LocalFile
from gguftool.verify.expect import Expectation
from gguftool.verify.hashes import FileHashes, Want, hash_file
from gguftool.verify.manifest import Entry
from gguftool.verify.result import Damage, FileReport, Verification
from gguftool.verify.stream import Progress

STEP = 4 << 20
"""Bytes fetched and written at a time."""
END = 1 << 20
"""Of a copy that is far away, so many bytes in front of the missing ones are compared with those that are here."""
_SAMPLES, _SAMPLE = 8, 64 << 10
"""... and so many places before, of so many bytes."""


@dataclass(frozen=True, slots=True)
class Patch:
    """Good bytes for one damaged range: where they come from, and the sha256 they must have (None: unknown)."""

    damage: Damage
    part: Part
    offset: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Repaired:
    """What was repaired: the file, its ranges, bytes fetched, and the sha256 it has now.

    ``proven``: that is the sha256 it should have (or, with other metadata, every tensor is the listed one).
    """

    path: str
    ranges: tuple[Damage, ...]
    fetched: int
    sha256: str
    proven: bool

    __repr__ = short_repr


def plan(path: str, damage: Sequence[Damage], entry: Entry | None, donor: Model) -> list[Patch]:
    """Where the good bytes of each damaged range are.

    Args:
        path: the damaged file.
        damage: its bad ranges, see `gguftool.verify.compare`; ranges without a name are taken from the same place.
        entry: what the manifest says of the file.
        donor: the other copy; its metadata, and so its offsets, may differ.

    Raises:
        FormatError: the other copy does not have what is needed.
        Refused: ranges without a name, and the other copy is not the same file.
    """
    tensors = donor.tensors
    patches: list[Patch] = []
    for hurt in damage:
        section = entry.tensors.get(hurt.name) if entry and hurt.name else None
        if hurt.name:
            t = tensors.get(hurt.name)
            if t is None or t.nbytes != hurt.nbytes:
                raise FormatError(
                    f"{donor.name}: has no tensor {hurt.name} of {hurt.nbytes:,} bytes", kind="donor-differs"
                )
            if t.offset + hurt.nbytes > t.part.size:
                raise FormatError(f"{donor.name}: {hurt.name} is cut off there too", kind="donor-differs")
            patches.append(Patch(hurt, t.part, t.offset, section.digests.get("sha256") if section else None))
            continue
        header = entry.header if entry and hurt.start == 0 else None
        part = _same_file(path, donor, header is not None)
        patches.append(Patch(hurt, part, hurt.start, header.digests.get("sha256") if header else None))
    return patches


def _same_file(path: str, donor: Model, header_is_bad: bool) -> Part:
    """The part of the donor that has the place of the damaged file; proven by its header, or by its name."""
    name = os.path.basename(path)
    if header_is_bad:
        named = [part for part in donor.parts if part.name.rpartition("/")[2] == name]
        return named[0] if named else donor.parts[0]
    with contextlib.closing(LocalFile(path)) as source:
        header = parse(source, strict=False)
        front = source.read_at(0, header.data_offset)
    for part in donor.parts:
        if part.source.read_at(0, len(front)) == front:
            return part
    raise Refused(
        f"{donor.name}: its header differs from that of {path}, so its offsets may too",
        "write a manifest from a good copy (--write-manifest) and give it with --sums",
    )


def repair(
    path: str, patches: Sequence[Patch], entry: Entry | None, size: int, progress: Progress | None = None
) -> Repaired:
    """Patch a copy of the file, prove it, put it in place.

    Args:
        path: the damaged file; of a link, the file it points to.
        patches: see `plan`.
        entry: what the manifest says; its hashes are the proof.
        size: length the file must have.
        progress: called with the bytes done.

    Raises:
        ToolFailed: the other copy gives bytes with another hash.
        Refused: the patched copy is not what the manifest says, or the file may not be replaced (read-only,
            immutable, other hard links); it stays as it is.
        InterruptedEdit: an unfinished edit stands in the way.
        NoRoom: not enough space for the copy.
    """
    layer = OsLayer()
    path = check_replaceable(path, layer).real
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(contextlib.closing(LocalFile(path)))
        old = layer.open(path, write=False)
        stack.callback(layer.close, old)
        draft = stack.enter_context(Draft(path, overwrite=True, like=old))
        check_room(os.path.dirname(path), size)
        with writing(path):
            _copy(old, draft.fd, min(source.size, size), size)
            fetched = sum(_apply(draft.fd, patch, progress) for patch in patches)
            sync(draft.fd)
        found = hash_file(draft.reading, Want(tensors=bool(entry and entry.tensors), data=True), progress)
        proven = _proof(found, entry, path)
        source.check_unchanged()
        draft.finish()
        # Once more: the copy may have taken an hour.
        check_replaceable(path, layer)
        draft.publish()
    return Repaired(path, tuple(p.damage for p in patches), fetched, found.file, proven)


def _copy(old: int, new: int, n: int, size: int) -> None:
    """The old bytes, as far as they belong to the file; the file system shares them where it can."""
    os.ftruncate(new, size)
    copy_ranges(old, new, [(0, 0, n)])


def _apply(fd: int, patch: Patch, progress: Progress | None) -> int:
    """Write the good bytes of one range; they are hashed before they count."""
    digest = hashlib.sha256()
    for at, data in _donated(patch):
        digest.update(data)
        write_at(fd, patch.damage.start + at, data)
        if progress:
            progress(len(data))
    if patch.sha256 is not None and digest.hexdigest() != patch.sha256:
        what = patch.damage.name or "the header"
        raise ToolFailed(
            f"{patch.part.name}: {what} there is not the listed one either (sha256 {digest.hexdigest()[:12]}…)",
            "take another copy; the file was not touched",
        )
    return patch.damage.nbytes


def _donated(patch: Patch) -> Iterator[tuple[int, bytes]]:
    for at in range(0, patch.damage.nbytes, STEP):
        n = min(STEP, patch.damage.nbytes - at)
        data = patch.part.source.read_at(patch.offset + at, n)
        if len(data) != n:
            raise ToolFailed(f"{patch.part.name}: ends before byte {patch.offset + at + n:,}", "take another copy")
        yield at, data


def _proof(found: FileHashes, entry: Entry | None, path: str) -> bool:
    """Whether the copy is what the manifest says; raises when it says otherwise."""
    if entry is None or (entry.sha256 is None and not entry.tensors):
        return False
    if entry.sha256 == found.file:
        return True
    here = {t.name: t.digests for t in found.tensors}
    wrong = [name for name, s in entry.tensors.items() if here.get(name, {}).get("sha256") != s.digests.get("sha256")]
    header_is_listed = entry.header is None or entry.header.digests.get("sha256") == found.header
    if entry.tensors and not wrong and not header_is_listed:
        # Metadata was changed on purpose; the data is what counts.
        return True
    what = f"{wrong[0]} still differs" if wrong else f"its sha256 would be {found.file}"
    raise Refused(f"{path}: {what}; nothing was replaced", "the copy that was given is of another file, or damaged too")


def _provable(entry: Entry) -> bool:
    """Whether hashes will tell what the repaired file is."""
    return bool(entry.sha256 or entry.tensors)


def refuse_stranger(path: str, part: Part, size: int) -> None:
    """Compare what two copies both have, before bytes of one are put behind those of the other.

    Two checkpoints, or an upload under the same name, have the same header and other weights. A copy on this machine is
    compared from front to end; of one that is far away its last MiB before the end of what is here, and some places.

    Args:
        path: the damaged file.
        part: the other copy.
        size: how many bytes both have.

    Raises:
        Refused: they differ.
    """
    with contextlib.closing(LocalFile(path)) as source:
        for start, n in _shared(size, near=isinstance(part.source, LocalFile)):
            here, there = source.read_at(start, n), part.source.read_at(start, n)
            if here != there:
                at = start + next((i for i, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), len(there))
                raise Refused(
                    f"{part.name}: is another file than {path}, or one of the two is damaged: they differ at byte "
                    f"{at:,}, which both have; nothing was written",
                    "take the copy that this one was made of, or say what it should be (--sums, --sha256)",
                )


def _shared(size: int, *, near: bool) -> Iterator[tuple[int, int]]:
    """(start, length) of what is compared, the end first: there two files differ when anywhere."""
    if near:
        yield from ((at, min(STEP, size - at)) for at in range(0, size, STEP))
        return
    last = max(0, size - END)
    yield last, size - last
    for i in range(_SAMPLES):
        at = last * i // _SAMPLES
        if at < last:
            yield at, min(_SAMPLE, last - at)


def differing(path: str, part: Part, size: int) -> list[Damage]:
    """Ranges in which a file differs from another one of the same layout, in steps of 1 MiB."""
    step = 1 << 20
    found: list[Damage] = []
    with contextlib.closing(LocalFile(path)) as source:
        for at in range(0, size, step):
            n = min(step, size - at)
            if source.read_at(at, n) != part.source.read_at(at, n):
                if found and found[-1].end == at:
                    found[-1] = Damage(found[-1].start, at + n)
                else:
                    found.append(Damage(at, at + n))
    return found


def repair_all(
    results: Sequence[Verification],
    expected: Mapping[str, Sequence[Expectation]],
    donor: Model,
    progress: Progress | None = None,
) -> list[Repaired]:
    """Repair every file of several reports; see `repair_report`."""
    reports = [report for result in results for report in result.files]
    done = (repair_report(report, expected.get(report.path, ()), donor, progress) for report in reports)
    return [mended for mended in done if mended is not None]


def repair_report(
    report: FileReport, said: Sequence[Expectation], donor: Model, progress: Progress | None = None
) -> Repaired | None:
    """Repair the file of a report, as far as something is wrong that other bytes can mend; None when nothing is.

    Args:
        report: with hashes compared, see `gguftool.verify.deep.with_hashes`.
        said: what the file should be.
        donor: another copy.
        progress: called with the bytes done.

    Raises:
        UsageError: only a comparison of all bytes could tell what is wrong, and the other copy is far away.
        FormatError, Refused, ToolFailed, NoRoom: as `plan` and `repair`.
    """
    kinds = {fault.kind for fault in report.faults}
    if not kinds & MENDABLE:
        return None
    entries = [e.entry for e in said]
    entry = next((e for e in entries if e.tensors), next((e for e in entries if e.sha256), None))
    size = next((e.size + _shift(report.path, e) for e in entries if e.size), None) or _natural_size(report, donor)
    damage = list(report.damage)
    if not damage and report.size < size:
        damage = [Damage(report.size, size)]
    elif not damage and report.size == size:
        part = _same_place(report.path, donor, size)
        if not isinstance(part.source, LocalFile):
            raise UsageError(
                f"{report.path}: nothing says which bytes are wrong",
                "--sums MANIFEST does; or give a copy on this machine",
            )
        damage = differing(report.path, part, size)
    patches = plan(report.path, damage, entry, donor) if damage else []
    if entry is None or not _provable(entry):
        part = patches[0].part if patches else _same_file(report.path, donor, False)
        refuse_stranger(report.path, part, min([report.size, size, *(p.damage.start for p in patches)]))
    return repair(report.path, patches, entry, size, progress)


def _shift(path: str, entry: Entry) -> int:
    """How much longer the header is than the list says, because metadata was edited since."""
    if entry.data is None or entry.data.start is None:
        return 0
    with contextlib.closing(LocalFile(path)) as source:
        return parse(source, strict=False).data_offset - entry.data.start


MENDABLE = frozenset({"truncated", "excess", "hash-mismatch", "tensor-differs", "data-differs", "metadata-changed"})
"""Faults that good bytes mend."""


def _natural_size(report: FileReport, donor: Model) -> int:
    """The length of the copy when it has the same end of data, else what the header asks for."""
    name = os.path.basename(report.path)
    same = [part for part in donor.parts if part.header.data_end() == report.expected]
    named = [part for part in same if part.name.rpartition("/")[2] == name]
    return (named or same)[0].size if same else report.expected or report.size


def _same_place(path: str, donor: Model, size: int) -> Part:
    name = os.path.basename(path)
    same = [part for part in donor.parts if part.size == size]
    named = [part for part in same if part.name.rpartition("/")[2] == name]
    if not same:
        raise Refused(f"{donor.name}: has another length than {path} should have", "name another copy")
    return (named or same)[0]
