"""Sizes of files, and the list of their hashes."""

from __future__ import annotations

import os

from gguftool.lint.publishing import Publishing
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, rule
from gguftool.model import Model
from gguftool.quantity import human
from gguftool.regex import regex
from gguftool.shell import AND, FILE, path_word

SUMS = "SHA256SUMS"
LARGEST = 500 * 10**9
RECOMMENDED = 200 * 10**9
"""Bytes of one file: the Hub's limit and its advice (`docs/hub/storage-limits.md` of huggingface/hub-docs, 242f4a1)."""
PIECES = "190GB"


def write(p: Publishing, *, over: bool = False) -> Fix:
    """What writes card and list; ``over``: also over what is there."""
    words = ("gguftool", "push-check", path_word(p.folder or "."), "--write", *(("--overwrite",) if over else ()))
    return Fix("write it", command=(*words, *(("--repo", p.repo) if p.repo else ())))


def at(p: Publishing, name: str) -> str:
    """Path of a file of the folder."""
    return os.path.join(p.folder, name)


@rule(Severity.WARNING, scope=Scope.FILE, role="any", whole=False, changes_run=False)
def file_too_large(m: Model, ctx: Context) -> Drafts:
    """A file must be small enough for the Hub.

    Why. An upload of a larger file fails at its end; a large one begins anew where a connection breaks, and is served
    from no cache.
    Evidence. Storage limits of the Hub, 2026: 500 GB is the limit of one file, below 200 GB is recommended.
    Example. big-BF16.gguf has 612 GB, the Hub takes 500 GB
    Fix. `gguftool split --max-size 190GB`; llama.cpp loads the set by its first shard.
    """
    if ctx.publishing is None:
        return
    for part in m.parts:
        if part.size <= RECOMMENDED:
            continue
        too_large = part.size > LARGEST
        limit = f"takes {human(LARGEST)}" if too_large else f"recommends less than {human(RECOMMENDED)}"
        yield found(
            f"{os.path.basename(part.name)} has {human(part.size)}, the Hub {limit} a file",
            where=f"shard:{part.no + 1}" if len(m.parts) > 1 else "file",
            path=part.name,
            severity=Severity.ERROR if too_large else None,
            fix=Fix("split it", command=("gguftool", "split", FILE, "--max-size", PIECES)),
            size=part.size,
        )


@rule(Severity.INFO, role="any", whole=False, changes_run=False)
def sums_missing(m: Model, ctx: Context) -> Drafts:
    """The folder should have a list of the files' hashes.

    Why. Mirrors hand on files without the Hub's own record; `sha256sum -c` and `gguftool verify` want a list.
    Evidence. `sha256sum` of the GNU coreutils writes and reads it.
    Example. no SHA256SUMS beside the 3 files
    Fix. `gguftool push-check FOLDER --write` writes it.
    """
    p = ctx.publishing
    if p is None or p.lead != m.name or p.sums is not None or p.sums_fault:
        return
    n = sum(name.endswith(".gguf") for name in p.sizes)
    yield found(f"no {SUMS} beside the file" + (f"s: {n:,}" if n > 1 else ""), where="file", path=at(p, SUMS),
                fix=write(p))  # fmt: skip


@rule(Severity.ERROR, role="any", whole=False, changes_run=False)
def sums_wrong(m: Model, ctx: Context) -> Drafts:
    """The list of hashes must be that of the files.

    Why. Whoever checks a download against it is told that it is damaged.
    Evidence. The files were hashed.
    Example. SHA256SUMS has 0f3a… for model-Q8_0.gguf, the file has 77ce…
    Fix. `gguftool push-check FOLDER --write` adds what is missing, with `--overwrite` it puts right what is wrong.
    """
    p = ctx.publishing
    if p is None or p.lead != m.name:
        return
    path = at(p, SUMS) if p.sums is None else p.sums.source
    if p.sums_fault:
        away = ("mv", "-n", FILE, f"{path_word(path)}.old", AND, *(write(p).command or ()))
        fix = Fix("put it away, and write it", command=away)
        yield found(f"{SUMS} cannot be read: {p.sums_fault}", where="file", path=path, fix=fix)
        return
    if p.sums is None:
        return
    listed = {entry.name.removeprefix("./"): entry for entry in p.sums.entries}
    for name in (n for n in p.sizes if n.endswith(".gguf")):
        entry, has = listed.get(name), p.hashes.get(name)
        if entry is None:
            text = f"{SUMS} does not list {name}"
            yield found(text, where="file", path=path, severity=Severity.WARNING, fix=write(p))
        elif has is not None and entry.sha256 is not None and entry.sha256 != has:
            text = f"{SUMS} has {entry.sha256[:12]}… for {name}, the file has {has[:12]}…"
            yield found(text, where="file", path=path, fix=write(p, over=True), listed=entry.sha256, sha256=has)
    for name in listed:
        if name.endswith(".gguf") and name not in p.sizes:
            text = f"{SUMS} lists {name}, which is not here"
            yield found(text, where="file", path=path, severity=Severity.WARNING, fix=write(p, over=True))


_LEFT = regex(r"-undo-\d+$|-journal$|\.(?:incomplete|part|partial|tmp|lock|crdownload|aria2)$|~$")
_WORK = regex(r"^.*?\.prepare(?=/)")


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def leftover_files(m: Model, ctx: Context) -> Drafts:
    """The folder should hold nothing that was only for the work.

    Why. An upload of a folder takes everything in it: undo records, work folders and halves of downloads are as large
    as they like, and hold what the files were before.
    Evidence. `hf upload REPO FOLDER` takes all files but those of `.git` and `.cache`.
    Example. model.gguf-undo-1 (65,540 bytes) would be uploaded, too
    Fix. Remove it, or name the files: `hf upload REPO FILE`; `gguftool fix --no-undo` keeps no record.
    """
    p = ctx.publishing
    if p is None or p.lead != m.name:
        return
    work: dict[str, list[int]] = {}
    for name, size in list(p.sizes.items()):
        folder = _WORK.match(name)
        if folder is not None:
            work.setdefault(folder[0], []).append(size)
        elif _LEFT.search(name):
            text = f"{name} ({size:,} bytes) would be uploaded, too"
            yield found(text, where="file", path=at(p, name), fix=Fix("remove it", command=("rm", FILE)))
    for name, sizes in work.items():
        files = "1 file" if len(sizes) == 1 else f"{len(sizes):,} files"
        text = f"{name}, what gguftool prepare worked in ({files}, {sum(sizes):,} bytes), would be uploaded, too"
        yield found(text, where="file", path=at(p, name), fix=Fix("remove it", command=("rm", "-r", FILE)))
