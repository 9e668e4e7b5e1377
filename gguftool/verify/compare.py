"""Hashes against expectations: what differs, where, and what that means."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.records import replace
from gguftool.shell import INTO, gguftool, path_word, shell
from gguftool.verify.digests import EMPTY_SHA256
from gguftool.verify.expect import Expectation
from gguftool.verify.fromdisk import FromDisk
from gguftool.verify.hashes import FILE, FileHashes, Want, hash_file
from gguftool.verify.manifest import Entry
from gguftool.verify.proof import original
from gguftool.verify.result import Damage, Fault, FileReport
from gguftool.verify.stream import Progress


def wanted(expectations: Sequence[Expectation], report: FileReport) -> Want:
    """What must be hashed to judge all of them in one pass."""
    inside = report.error is None
    tensors = inside and any(e.entry.tensors for e in expectations)
    data = inside and any(e.entry.data for e in expectations)
    model = inside and any(e.entry.model for e in expectations)
    names = {name for e in expectations for s in e.entry.tensors.values() for name in s.digests}
    names |= {name for e in expectations for name in e.entry.model}
    # A file that is too long may be the published one with something behind it.
    marks: tuple[int, ...] = (report.expected,) if report.expected and report.size > report.expected else ()
    marks += tuple(f.span[0] for f in report.faults if f.kind in ("excess", "joined-files") and f.span)
    tails = tuple(f.span[1] for f in report.faults if f.kind == "restarted-download" and f.span)
    return Want(tensors, data, model, tuple(sorted(names)) or ("sha256",), marks, tails)


def compare(
    report: FileReport, found: FileHashes, expectations: Sequence[Expectation], progress: Progress | None = None
) -> FileReport:
    """The report with what the hashes say added to it.

    Args:
        report: of the quick part.
        found: hashes of the file, see `wanted`.
        expectations: what they should be.
        progress: called with the bytes read again.
    """
    faults: list[Fault] = []
    notes: list[Fault] = []
    damage: tuple[Damage, ...] = ()
    ago: dict[str, int | None] = {}
    report = replace(report, sha256=found.file)
    problems = [e.problem for e in expectations if e.problem is not None]
    if len(problems) == len(expectations) and all(p.kind == "other-hash" for p in problems):
        message = "nothing to compare with: no --sha256, no list beside the file, no content store"
        notes.append(Fault("no-expectation", message, hint="--sha256 HEX, --sums SHA256SUMS, --sums hf://owner/repo"))
    for expectation in expectations:
        entry = expectation.entry
        if expectation.problem is not None:
            continue
        wrong = _file_fault(found, expectation)
        parts, hurt = _part_faults(found, expectation)
        if wrong is None and not parts:
            notes.append(_agreed(expectation))
            continue
        steps = None
        if wrong is not None and entry.sha256 and found.identity is not None:
            if entry.sha256 not in ago:
                ago[entry.sha256] = original(report.path, entry.sha256, progress)
            steps = ago[entry.sha256]
        if steps is not None:
            edits = "the last edit" if steps == 1 else f"the last {steps} edits"
            message = f"before {edits} with gguftool it was exactly the file that {expectation.source} names"
            notes.append(Fault("edited-since", message, "file", gguftool("undo", path_word(report.path))))
            parts = [f for f in parts if f.kind != "metadata-changed"]
            wrong = None
        elif wrong is not None:
            wrong = _explained(wrong, found, entry)
        faults += [wrong, *parts] if wrong is not None else parts
        damage = damage or hurt
    # Where another list names the file and agrees, one that cannot be read is not needed.
    agreed = any(n.kind == "hash-ok" for n in notes)
    for problem in problems:
        (notes if agreed or problem.kind == "other-hash" else faults).append(problem)
    mismatch = any(f.kind == "hash-mismatch" for f in faults)
    if mismatch and found.identity is not None and (odd := _read_again(report.path, found, progress)):
        faults.insert(0, odd)
    return replace(report.plus(tuple(faults), tuple(notes), checked="hash"), damage=damage)


def _agreed(expectation: Expectation) -> Fault:
    entry = expectation.entry
    if entry.sha256 or entry.tensors or entry.model:
        return Fault("hash-ok", f"as {expectation.source} says", "file")
    return Fault("size-only", f"as long as {expectation.source} says, which has no hash of it", "file")


def _file_fault(found: FileHashes, expectation: Expectation) -> Fault | None:
    entry = expectation.entry
    if entry.size is not None and entry.size != found.size:
        message = f"{found.size:,} bytes; {expectation.source} says {entry.size:,}"
        return Fault("hash-mismatch", message, "file")
    if entry.sha256 is None or entry.sha256 == found.file:
        return None
    if entry.sha256 == EMPTY_SHA256:
        message = (
            f"{expectation.source} says e3b0c442…, the hash of an empty file: it was made of a file without content"
        )
        return Fault("hash-mismatch", message, "file", "ask the publisher for the right hash")
    what = "the hash of an empty file" if found.file == EMPTY_SHA256 else f"sha256 is {found.file}"
    return Fault("hash-mismatch", f"{what}; {expectation.source} says {entry.sha256}", "file", "fetch the file again")


def _explained(fault: Fault, found: FileHashes, entry: Entry) -> Fault:
    """With what is known about where the difference comes from."""
    for length, digest in (found.prefix or {}).items():
        if digest == entry.sha256:
            more = f"; its first {length:,} bytes are exactly that file, the rest does not belong to it"
            return replace(
                fault,
                message=fault.message + more,
                hint=shell(("truncate", "-s", str(length), path_word(found.path))),
                span=(length, found.size),
            )
    for start, digest in (found.tail or {}).items():
        if digest == entry.sha256:
            more = f"; from byte {start:,} on it is exactly that file"
            hint = shell(("tail", "-c", f"+{start + 1}", path_word(found.path), INTO, "whole.gguf"))
            return replace(fault, message=fault.message + more, hint=hint, span=(0, start))
    if entry.data and found.data == entry.data.digests.get("sha256"):
        return replace(
            fault, message=fault.message + "; the tensor data is the same", hint="gguftool diff shows what changed"
        )
    return fault


def _part_faults(found: FileHashes, expectation: Expectation) -> tuple[list[Fault], tuple[Damage, ...]]:
    """What differs inside the file, as far as the list has hashes of its parts."""
    entry = expectation.entry
    faults: list[Fault] = []
    damage: list[Damage] = []
    if entry.header and found.header and entry.header.digests.get("sha256") != found.header:
        message = "the header differs (metadata, or the list of tensors)"
        faults.append(Fault("metadata-changed", message, "header", None, (0, found.data_offset)))
        if entry.header.nbytes == found.data_offset:
            damage.append(Damage(0, found.data_offset))
    here = {t.name: t for t in found.tensors}
    bad: list[Damage] = []
    for name, section in entry.tensors.items():
        t = here.get(name)
        if t is None:
            faults.append(
                Fault(
                    "tensor-missing", f"{expectation.source} lists {name}, the file does not have it", f"tensor:{name}"
                )
            )
        elif any(t.digests.get(k) != v for k, v in section.digests.items() if k in t.digests or not t.digests):
            bad.append(Damage(t.start, t.end, name))
    for hurt in sorted(bad, key=lambda d: d.start):
        message = f"{hurt.nbytes:,} bytes from {hurt.start:,} to {hurt.end:,} differ from {expectation.source}"
        hint = "--repair-from of `gguftool verify` fetches only these, out of a file or an address"
        faults.append(Fault("tensor-differs", message, f"tensor:{hurt.name}", hint, (hurt.start, hurt.end)))
    # llama-gguf-hash leaves some tensors out; its lists know neither the file's hash nor the section's.
    complete = bool(entry.tensors) and (entry.sha256 is not None or entry.data is not None)
    extra = [name for name in here if name not in entry.tensors] if complete else []
    if extra:
        more = f" and {len(extra) - 1:,} more" if len(extra) > 1 else ""
        faults.append(
            Fault("tensor-extra", f"{expectation.source} does not list {extra[0]}{more}", f"tensor:{extra[0]}")
        )
    if entry.data and found.data and not bad and not extra and entry.data.digests.get("sha256") != found.data:
        span = (found.data_offset, found.data_end)
        faults.append(Fault("data-differs", "the padding between tensors differs", "file", None, span))
    for name, value in entry.model.items():
        if found.model and found.model.get(name) not in (None, value) and not bad:
            faults.append(
                Fault(
                    "hash-mismatch", f"{name} of all tensors is {found.model[name]}; {expectation.source} says {value}"
                )
            )
    return faults, (*damage, *bad)


def _read_again(path: str, found: FileHashes, progress: Progress | None) -> Fault | None:
    """Whether a second read, from the disk and not from memory, gives the same."""
    source = FromDisk(path)
    try:
        if source.identity != found.identity:
            return None
        again = hash_file(source, FILE, progress).file
    finally:
        source.close()
    if again == found.file:
        return None
    message = f"two reads of the same file disagree ({found.file[:12]}… and {again[:12]}…): suspect RAM or disk"
    return Fault("reads-differ", message, "file", "test the memory and the disk before anything else")
