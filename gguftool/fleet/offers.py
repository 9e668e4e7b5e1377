"""Commands that free room in the stores, for somebody to run: each says what it frees, none is run here.

What is offered holds for what was read: nothing that another program names, that somebody has open or that may be in
the making is offered, nothing without a name where a name may have been missed. Copies are compared by the command
itself (`cmp`), so that it does nothing where they differ.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from gguftool.brief import short_repr
from gguftool.edit.inuse import in_use
from gguftool.fleet.copies import Copies
from gguftool.fleet.hfprogram import HfProgram
from gguftool.fleet.stores import Held, Holding, Inventory
from gguftool.hub.stores import File, Kept, Name, Store
from gguftool.records import dataclass
from gguftool.shell import AND, Word, path_word, shell


@dataclass(frozen=True, slots=True)
class Offer:
    """A command.

    Attributes:
        kind: ``lost``, ``part``, ``orphan``, ``old``, ``merge``, or ``copy``: one of several, of which one must stay.
        why: what it removes, in words.
        command: for a POSIX shell.
        frees: bytes on the disk that are free afterwards, of GGUF files alone.
        group: number of the copies it is about; None: it is about no copies.
    """

    kind: str
    why: str
    command: str
    frees: int
    group: int | None = None

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class Offers:
    """What can be done.

    Attributes:
        made: the commands.
        kept: what is not offered, and why.
        reclaimable: bytes that are free when all of them are run, of several choices the best.
    """

    made: tuple[Offer, ...]
    kept: tuple[tuple[str, str], ...]
    reclaimable: int

    __repr__ = short_repr


def offers(found: Inventory, hf: HfProgram) -> Offers:
    """The commands for what was found.

    Args:
        found: the stores.
        hf: what the program of huggingface-hub can do.
    """
    made = _Maker(found, hf)
    all_made = [*made.lost(), *made.parts(), *made.orphans(), *made.old(), *made.copies()]
    simple = sum(o.frees for o in all_made if o.group is None)
    groups = sum(_best(no, found, all_made) for no in {o.group for o in all_made if o.group is not None})
    return Offers(tuple(all_made), tuple(dict.fromkeys(made.kept)), simple + groups)


def _best(no: int, found: Inventory, made: Sequence[Offer]) -> int:
    """What the copies of a group come to: all of the merges, or all removed but the one that must stay."""
    merged = sum(o.frees for o in made if (o.group, o.kind) == (no, "merge"))
    removed = [o.frees for o in made if (o.group, o.kind) == (no, "copy")]
    spared = min(removed, default=0) if len(removed) == len(found.compared.copies[no].files) else 0
    return max(merged, sum(removed) - spared)


class _Maker:
    """Makes the commands of each sort."""

    def __init__(self, found: Inventory, hf: HfProgram) -> None:
        self.found, self.hf = found, hf
        self.kept: list[tuple[str, str]] = []
        # jan names files of other programs by their paths: one that could not be read may name anything.
        self.told = all(s.clear for s in found.stores if s.kind == "jan")
        # `ollama rm` speaks to a server, and which of several stores that has is not known.
        self.one_ollama = sum(s.kind == "Ollama" and bool(s.models) for s in found.stores) < 2
        self.gone: set[tuple[int, int]] = set()
        self.users = in_use()

    def lost(self) -> Iterator[Offer]:
        """Names whose data is gone."""
        for held in self.found.lost:
            store = self._store(held)
            names = held.kept.names
            why = f"{store.kind}: {_listed(names)}: its data is gone"
            if store.kind == "jan" and all(n.part for n in names):
                self.kept.append((f"{why} ({names[0].part})", "its model.yml is that of the model, which is there"))
                continue
            if again := _again(store, held.kept):
                why += f"; or fetch it again: {again}"
            if store.kind == "Ollama" and self.one_ollama:
                yield Offer("lost", why, _ollama_rm(names), 0)
            else:
                yield Offer("lost", why, _rm(dict.fromkeys(n.at for n in names)), 0)

    def parts(self) -> Iterator[Offer]:
        """Downloads that were not finished."""
        for h, held in self._of("part"):
            if h.state != "part" or self._busy(h, f"{self._store(held).kind}: {held.kept.path}", "download"):
                continue
            days = int((self.found.now - h.file.changed) // 86400)
            age = f"{days} days" if days != 1 else "1 day"
            why = f"{self._store(held).kind}: download of {held.kept.called} not finished, not touched for {age}"
            yield Offer("part", why, _rm([held.kept.path, *held.kept.beside]), _frees([h.file]))

    def orphans(self) -> Iterator[Offer]:
        """Data that nothing names."""
        for h, held in self._of("orphan"):
            store, path = self._store(held), held.kept.path
            if h.state != "orphan":
                continue
            if held.kept.stuck or not store.clear or not self.told:
                self.kept.append((path, f"{store.kind}: nothing names it, but not all that may name it could be read"))
            elif not self._busy(h, path, "file"):
                self.gone.add(h.file.inode)
                what = [path, *held.kept.beside]
                # What is a link to data that repositories share leaves that data.
                frees = _frees([h.file]) if path == h.file.path else 0
                yield Offer("orphan", f"{store.kind}: nothing names {path}", _rm(what), frees)

    def old(self) -> Iterator[Offer]:
        """Revisions of repositories that no branch names."""
        groups = defaultdict[tuple[int, str], list[tuple[Holding, Held]]](list)
        for h in self.found.holdings:
            for held in h.held:
                if any(n.revision for n in held.kept.names):
                    groups[held.store, held.kept.group].append((h, held))
        repos = defaultdict[tuple[int, str], set[str]](set)
        for (no, repo), all_held in groups.items():
            for n in (n for _, held in all_held for n in held.kept.names):
                repos[no, n.revision].add(repo)
        for (no, repo), all_held in groups.items():
            store = self.found.stores[no]
            names = [n for _, held in all_held for n in held.kept.names]
            past = sorted({n.revision for n in names if n.old} - {n.revision for n in names if not n.old})
            if not past:
                continue
            going = [(h, held) for h, held in all_held if all(n.revision in past for n in held.kept.names)]
            why = f"{store.kind}: {len(past)} old revision{'s' if len(past) > 1 else ''} of {repo}"
            if any(held.kept.stuck for _, held in all_held):
                self.kept.append((why, "its folder in the cache is damaged; mend what is lost there first"))
            elif any(len(repos[no, revision]) > 1 for revision in past):
                # A repository that was renamed; hf takes a revision for that of one of them.
                self.kept.append((why, "another repository has a revision of the same name"))
            elif any(self._elsewhere(h, held) for h, held in going):
                self.kept.append((why, "another program names one of their files"))
            elif any(self._busy(h, why, "file") for h, _ in going):
                continue
            elif self.hf.removes:
                self.gone.update(h.file.inode for h, _ in going)
                command = [*self.hf.words, "cache", "rm", *past, "--cache-dir", store.path, "--yes"]
                words = _as_owner(command, going[0][0].file.path)
                yield Offer("old", why, shell(words), _frees([h.file for h, _ in going]))

    def copies(self) -> Iterator[Offer]:
        """One file instead of several."""
        holdings = self.found.by_inode()
        for no, same in enumerate(self.found.compared.copies):
            files = [f for f in same.files if f.inode not in self.gone]
            if len(files) < 2:
                continue
            yield from self._merged(no, same, files)
            for file in files:
                other = next(f for f in files if f is not file)
                if (one := self._removed(holdings[file.inode], file, other)) is not None:
                    yield Offer("copy", one[0], one[1], one[2], no)

    # -- one of several

    def _merged(self, no: int, same: Copies, files: Sequence[File]) -> Iterator[Offer]:
        """Hard links: each store keeps its name, and the data is there once."""
        stay = max(files, key=lambda f: (f.links, f.mode))
        for file in files:
            if file is stay:
                continue
            if (why := _apart(stay, file)) is not None:
                self.kept.append((file.path, why))
            elif not self._used(file):
                command = (*_compared(stay, file), AND, "ln", "-f", path_word(stay.path), path_word(file.path))
                why = f"one file under both names: {stay.path}"
                yield Offer("merge", why, shell(_as_owner(command, file.path)), _frees([file]), no)

    def _removed(self, h: Holding, file: File, other: File) -> tuple[str, str, int] | None:
        """How a copy goes by way of its program: in words, the command, what it frees."""
        store = self._store(h.held[0])
        names = [n for x in h.held for n in x.kept.names]
        if (why := self._stays(h, store, names)) is not None:
            self.kept.append((file.path, why))
            return None
        if file.links > 1 or self._used(file):
            return None
        first, said = _compared(other, file), f"{store.kind}: {_listed(names)}"
        if store.kind == "Ollama":
            text = f"{said}, with its template and parameters"
            return text, f"{shell((*first, AND))} {_ollama_rm(names)}", _frees([file])
        if any(n.revision for n in names):
            targets = dict.fromkeys(f"hf://{_typed(n.text)}" for n in names)
            words: Sequence[Word] = (*self.hf.words, "cache", "rm", *targets, "--cache-dir", store.path, "--yes")
        else:
            beside = (path for x in h.held for path in x.kept.beside)
            words = _rm_words(dict.fromkeys([file.path, *beside, *(n.at for n in names)]))
        return said, shell((*first, AND, *_as_owner(words, file.path))), _frees([file])

    def _stays(self, h: Holding, store: Store, names: Sequence[Name]) -> str | None:
        """Why a copy cannot go by itself; None when it can."""
        if len({x.store for x in h.held}) > 1:
            return "more than one program names it"
        if h.row is not None and len(h.row["files"]) > 1:
            return "it is a shard of a set: of a set all of it goes, or nothing"
        if store.kind == "jan":
            return "jan describes it in its model.yml: remove the model in jan itself"
        if store.kind == "Ollama":
            if not self.one_ollama:
                return "there are several stores of Ollama; `ollama rm` speaks to one"
            if self._others_called(h, names) or any(n.part for n in names):
                return "its model has further parts, which `ollama rm` would remove with it"
        if any(n.revision for n in names):
            if not self.hf.removes_files or any(x.kept.stuck for x in h.held):
                return "hf has no command for it, or leaves its damaged folder alone"
            if self._others_called(h, names):
                return "another revision has another file of that name, which hf would remove with it"
        return None

    def _others_called(self, h: Holding, names: Sequence[Name]) -> bool:
        """Whether other files of its store go by one of its names."""
        said, store = {n.text for n in names}, h.held[0].store
        others = (x for other in self.found.holdings if other is not h for x in other.held if x.store == store)
        return any(n.text in said for x in others for n in x.kept.names)

    # -- what stands in the way

    def _of(self, state: str) -> Iterator[tuple[Holding, Held]]:
        for h in self.found.holdings:
            held = next((x for x in h.held if x.kept.state == state), None)
            if held is not None:
                yield h, held

    def _store(self, held: Held) -> Store:
        return self.found.stores[held.store]

    def _elsewhere(self, h: Holding, held: Held) -> bool:
        return any(x.store != held.store for x in h.held)

    def _busy(self, h: Holding, what: str, sort: str) -> bool:
        if h.young(self.found.now):
            minutes = max(0, int((self.found.now - h.file.changed) // 60))
            self.kept.append((what, f"written {minutes} minutes ago: the {sort} may still be in the making"))
            return True
        return self._used(h.file)

    def _used(self, file: File) -> bool:
        user = self.users.get(file.inode)
        if user is not None:
            self.kept.append((file.path, f"process {user[0]} ({user[1]}) has it open"))
        return user is not None


def _listed(names: Sequence[Name]) -> str:
    said = list(dict.fromkeys(n.text for n in names))
    return ", ".join(said[:4]) + (f" and {len(said) - 4} more" if len(said) > 4 else "")


def _typed(name: str) -> str:
    """A name of the Hub with its type in front, as an address has it."""
    return name if name.startswith(("datasets/", "spaces/")) else f"models/{name}"


def _again(store: Store, kept: Kept) -> str:
    """The command that fetches what is gone; "" where none is known."""
    first = kept.names[0]
    if store.kind == "Ollama":
        return shell(("ollama", "pull", first.text))
    if not first.revision or _typed(first.text) == first.text:
        return ""
    path = path_word(first.text[len(kept.group) + 1 :])
    return shell(("hf", "download", kept.group, path, "--revision", first.revision, "--cache-dir", store.path))


def _frees(files: Iterable[File]) -> int:
    """Bytes; data that has a further hard link stays."""
    return sum(f.disk for f in files if f.links == 1)


def _apart(stay: File, file: File) -> str | None:
    """Why two files cannot become one; None when they can."""
    if stay.inode[0] != file.inode[0]:
        return f"is on another disk than {stay.path}: no hard link leads there"
    if file.links > 1:
        return "has further hard links: its data would stay"
    if stay.owner != file.owner:
        return f"belongs to another user than {stay.path}"
    if not hasattr(os, "pathconf"):
        return "this system does not say whether it has hard links"
    try:
        if os.pathconf(os.path.dirname(file.path), "PC_LINK_MAX") < 2:
            return "its file system has no hard links"
    except (OSError, ValueError):
        return "its file system does not say whether it has hard links"
    return None


def _compared(one: File, other: File) -> tuple[Word, ...]:
    return ("cmp", "-s", path_word(one.path), path_word(other.path))


def _ollama_rm(names: Sequence[Name]) -> str:
    """``ollama rm`` of every tag: it removes what no other tag has."""
    said = list(dict.fromkeys(n.text for n in names))
    return shell(("ollama", "rm", *(["--"] if any(n.startswith("-") for n in said) else []), *said))


def _rm(paths: Iterable[str]) -> str:
    words = list(paths)
    return shell(_as_owner(_rm_words(words), words[0]))


def _rm_words(paths: Iterable[str]) -> tuple[Word, ...]:
    return ("rm", *(path_word(p) for p in paths))


def _as_owner(words: Sequence[Word], path: str) -> tuple[Word, ...]:
    """The words, as root where the folder is of somebody else."""
    folder = os.path.dirname(path)
    if os.access(folder, os.W_OK | os.X_OK) or not os.path.isdir(folder):
        return tuple(words)
    out: list[Word] = ["sudo"]
    for word in words:
        out += [word, "sudo"] if word is AND else [word]
    return tuple(out)
