"""Options of `lint` and its configuration file as one thing: what to run, on what terms."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gguftool.cli.builds import asked
from gguftool.cli.opened import open_for
from gguftool.errors import MissingFile, ToolFailed, UsageError
from gguftool.files.patterns import spread
from gguftool.hub import is_remote
from gguftool.lint.config import Config, PerFile, chosen
from gguftool.lint.rule import Context, Severity, Wish
from gguftool.model import Model
from gguftool.model.folder import gguf_files, what_is_in
from gguftool.model.headers import ROOM, Headers
from gguftool.model.role import ROLES, role
from gguftool.records import dataclass, field
from gguftool.run.lying import note, projectors

if TYPE_CHECKING:
    from gguftool.cli.options import Session
    from gguftool.lint.against import HfFolder
    from gguftool.lint.baseline import Baseline
    from gguftool.lint.tokenized import Compared


@dataclass(frozen=True, slots=True)
class Settings:
    """What one call of lint does.

    Attributes:
        opener: opens a model as the user names it, faults kept.
        fix: None, ``safe`` or ``unsafe``.
        diff: show the fixes, write nothing.
        ignored: rules that are left out for some files.
        fail_on: None when findings never fail.
        known: findings that are left out; None without a baseline.
    """

    opener: Callable[[str], Model]
    read: Headers | None
    context: Context
    select: tuple[str, ...]
    ignore: tuple[str, ...]
    ignored: PerFile
    fail_on: Severity | None
    exit_zero: bool
    fix: str | None
    diff: bool
    load: bool
    known: Baseline | None


def settings(session: Session, options: Mapping[str, Any]) -> Settings:
    """The options of the command line over those of the configuration file.

    Raises:
        UsageError: options that contradict each other, a bad configuration, policy or baseline.
    """
    config = chosen(options["config_file"], options["no_config"])
    if options["diff"] and not (options["fix"] or options["fix_unsafe"]):
        options = {**options, "fix": True}
    fail_on = options["fail_on"] or config.fail_on or "warning"
    baseline = options["baseline"] or config.baseline
    fix = "unsafe" if options["fix_unsafe"] else "safe" if options["fix"] else None
    # Who fixes looks at every file twice, and a file beside models is looked at with each.
    read = Headers(room=ROOM) if fix or options["beside"] else None
    return Settings(
        opener=lambda spec: open_for(session, spec, strict=False, known=read),
        read=read,
        context=_context(session, options, config),
        select=names(options["select"]) or config.select,
        ignore=(*names(options["ignore"]), *config.ignore),
        ignored=known_names(config.per_file_ignores),
        fail_on=None if fail_on == "never" else Severity(fail_on),
        exit_zero=options["exit_zero"],
        fix=fix,
        diff=options["diff"],
        load=not options["no_load"],
        known=_known(baseline) if baseline else None,
    )


def _known(path: str) -> Baseline:
    from gguftool.lint.baseline import read_baseline

    return read_baseline(path)


def _context(session: Session, options: Mapping[str, Any], config: Config) -> Context:
    policy = options["policy"] or config.policy
    against = _against(options["against"]) if options["against"] else None
    if policy:
        from gguftool.lint.policy import read_policy

        policy = read_policy(policy)
    target = asked(session, options["build"], options["llama_cpp"], options["llama_cpp_python"])
    if options["tokenizer"] and against is None:
        raise UsageError("--tokenizer compares with a source", "name it with --against HF_FOLDER")
    return Context(
        wish=Wish(options["context_length"] or config.context_length, _cache_type(options, config)),
        against=against,
        policy=policy or None,
        tokenized=_tokenized(options["against"]) if options["tokenizer"] else None,
        data=options["data"],
        models_folder=options["models"][0] if options["layout"] else None,
        build=target.build if target is not None else None,
    )


def _tokenized(spec: str) -> Callable[[Model], Compared]:
    from gguftool.api.tokenizer import comparison

    return comparison(spec)


def _against(spec: str) -> HfFolder:
    """The source model's files, from a folder or by address: the few small ones, not the weights."""
    from gguftool.lint.against import EMBEDDING, FILES, from_files, module_files, read_folder

    if not spec.startswith("hf://"):
        return read_folder(spec)
    repo = spec.rstrip("/")
    files = _fetched(repo, (*FILES, *EMBEDDING))
    return from_files(spec, files | _fetched(repo, module_files(files)))


def _fetched(repo: str, names: Iterable[str]) -> dict[str, bytes]:
    from gguftool import hub

    files = {}
    for name in names:
        try:
            source = hub.open_source(f"{repo}/{name}")
            files[name] = source.read_at(0, source.size)
            source.close()
        except (MissingFile, ToolFailed):
            # Not every repository has every file, and a cache only those that somebody fetched.
            if name == "config.json":
                raise
    return files


def _cache_type(options: Mapping[str, Any], config: Config) -> tuple[str, str] | None:
    from gguftool.facts.cachetypes import parse

    if options["cache_type"]:
        return parse("/".join(options["cache_type"]))
    return parse(config.cache_type) if config.cache_type else None


def known_names(per_file: PerFile) -> PerFile:
    """The same, when every name in it is that of a rule or a family.

    Raises:
        UsageError: one is not.
    """
    from gguftool.lint.catalogue import check_name

    for name in per_file.names:
        check_name(name)
    return per_file


def names(given: tuple[str, ...]) -> tuple[str, ...]:
    """Names given one by one or with commas between them."""
    return tuple(name.strip() for item in given for name in item.split(",") if name.strip())


@dataclass(slots=True)
class Beside:
    """Which files are to be used with a model.

    Attributes:
        folders: whose projectors go with their model.
        named: files that go with every model.
        asked: some model was there to hold them against.
        notes: what lies in the folders.
    """

    folders: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    asked: bool = False
    notes: list[str] = field(default_factory=list)

    def __call__(self, model: Model) -> tuple[str, ...]:
        """Paths of the files for one model; none for a file that stands beside one itself."""
        if model.name in self.named or not ROLES[role(model)].loads:
            return ()
        self.asked = True
        place = os.path.realpath(os.path.dirname(model.name))
        if not any(place == os.path.realpath(folder) for folder in self.folders):
            return self.named
        if text := note(model):
            self.notes.append(text)
        return (*self.named, *(path for path in projectors(model) if path not in self.named))

    def used(self) -> None:
        """To be asked when all is checked.

        Raises:
            UsageError: files were named, and no model to hold them against.
        """
        if self.named and not self.asked:
            raise UsageError("--with: none of the files checked is a model", "name the model first: MODEL --with FILE")


def _all_in(name: str) -> list[str]:
    if is_remote(name):
        from gguftool.hub.repo import Collection, meant

        there = meant(name)
        return [x.spec for x in there.every if x.has_header] if isinstance(there, Collection) else [there]
    if not os.path.isdir(name):
        return [name]
    found = gguf_files(name)
    if not found:
        raise MissingFile(f"{name}: no .gguf file in this folder", what_is_in(name))
    return found


def targets(models: tuple[str, ...], layout: str | None) -> tuple[str, ...]:
    """The models to check: as named or like a pattern, of a folder or a repository all files in it, with a layout all
    below one folder.

    Raises:
        UsageError: with a layout: not one folder, or no file in it.
    """
    if layout is None:
        return tuple(path for name in spread(models) for path in _all_in(name))
    if len(models) != 1 or not os.path.isdir(models[0]):
        raise UsageError(f"--layout {layout} takes one folder: that of all models")
    found = sorted(
        os.path.join(where, name)
        for where, _, names in os.walk(models[0])
        for name in names
        if name.lower().endswith(".gguf")
    )
    if not found:
        raise UsageError(f"{models[0]}: no .gguf file in this folder or below it")
    return tuple(found)
