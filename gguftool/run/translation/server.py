"""What makes a command of llama-server a good one: what it leaves to chance is said, what cannot start is mended."""

from __future__ import annotations

import os

from gguftool.errors import GgufToolError
from gguftool.facts.cachetypes import CACHE_TYPES
from gguftool.model.drafting import KINDS, MTP, SIMPLE
from gguftool.run.aged import one_needs_unified, slots_opened
from gguftool.run.args import TRACE, has_levels, spellings
from gguftool.run.options.table import normal
from gguftool.run.speculative import kind_by_name, kind_of
from gguftool.run.translation.options import model_of
from gguftool.run.translation.result import Work
from gguftool.shell import Expands

ENDS = frozenset("-h --help --usage --version -cl --cache-list --completion-bash --list-devices --license".split())
"""Options that print and end."""
_SIZED = ("ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-mod")
_FROM_THE_HUB = ("--spec-draft-hf", "-hfd", "-hfrd", "--hf-repo-draft")


def finish(w: Work) -> None:
    """Add what a good command says, take out what llama-server would refuse."""
    if {normal(a) for a in w.args} & ENDS:
        w.notes.append("it prints and ends: `gguftool explain --flag=OPTION` says what one option means")
        return
    if not model_of(w):
        w.notes.append("it names no model: add -m MODEL")
    _startable(w)
    given = set(w.args)
    opened = slots_opened(w.build.build)
    if opened > 1 and not given & set(spellings("parallel")) and (name := w.build.spelling(spellings("parallel"))):
        shared = [*spellings("kv_unified")[:1]] if one_needs_unified(w.build.build) else []
        w.args += [name, "1", *shared]
        text = f"without it llama-server opens {opened} slots; one keeps the whole context to itself"
        w.change("", " ".join((name, "1", *shared)), text)
    _drafts(w)
    verbosity = w.build.spelling(spellings("verbosity"))
    if (
        verbosity
        and has_levels(w.build, verbosity)
        and not given & {*spellings("verbosity"), "-v", "--verbose", "--log-disable"}
    ):
        w.args += [verbosity, str(TRACE)]
        w.change("", f"{verbosity} {TRACE}", "for a log with sizes and cache types, which `gguftool check-log` reads")
    _notes(w, given)


def _startable(w: Work) -> None:
    """llama.cpp refuses a quantised V without flash attention (`llama-context.cpp:llama_init_from_model`)."""
    flash = ("-fa", "--flash-attn")
    v, said = w.value("-ctv", "--cache-type-v"), w.value(*flash)
    if v is None or isinstance(v, Expands) or not CACHE_TYPES[v].quantized:
        return
    if said in ("off", "0", "false", "disabled"):
        at = next(i for i, a in enumerate(w.args) if a in flash)
        w.args[at + 1] = "on"
        w.change(
            f"{w.args[at]} {said}", f"{w.args[at]} on",
            f"a V cache of {v} needs flash attention: llama.cpp does not start without it", lost=True,
        )  # fmt: skip


def _drafts(w: Work) -> None:
    """Something that drafts is named, and nothing says how; or the other way round."""
    name = w.build.spelling(spellings("spec_type"))
    if name is None:
        return
    draft = w.value(*spellings("draft"), *_FROM_THE_HUB)
    kinds = (w.value(*spellings("spec_type")) or "").split(",")
    if draft is not None and kinds == [""] and "--spec-default" not in w.args:
        kind, made = _kind(draft)
        w.args += [name, kind]
        made = f"{made}; " if made else ""
        w.change("", f"{name} {kind}", f"{made}without it llama.cpp loads the draft model and never uses it")
    elif draft is not None and not set(kinds) & set(KINDS):
        w.notes.append(f"llama.cpp loads the draft model and never uses it: {name} must name {_kind(draft)[0]}, too")
    most = w.value(*spellings("draft_max"))
    if most is not None and kinds != [""] and not set(kinds) & set(KINDS):
        sizes = [f"--spec-{k}-{'n-max' if k == 'ngram-mod' else 'size-m'} {most}" for k in kinds if k in _SIZED]
        w.notes.append(f"--spec-draft-n-max counts for drafts alone; here it is {' '.join(sizes) or 'nothing'}")
    if draft is None and (alone := [k for k in kinds if k in KINDS and k != MTP]):
        w.notes.append(f"{name} {alone[0]} drafts nothing without a draft model: add -md FILE")


def _kind(draft: str) -> tuple[str, str]:
    """The kind that a draft needs, and how it is known: by what is in the file, else by its name."""
    if os.path.isfile(draft):
        try:
            return kind_of(draft), "the file says so"
        except GgufToolError:
            return SIMPLE, ""
    named = kind_by_name(draft)
    return (named, "its name says so") if named else (SIMPLE, "")


def _notes(w: Work, given: set[str]) -> None:
    if "--rope-scale" in given and "yarn" not in given:
        w.notes.append(
            "--rope-scale alone scales linearly and does not raise the limit of a slot, which stays the file's context "
            "length: use --rope-scaling yarn, or raise the length with `gguftool fix --ctx`"
        )
    k, v = w.value("-ctk", "--cache-type-k"), w.value("-ctv", "--cache-type-v")
    if k in CACHE_TYPES and CACHE_TYPES[k].quantized and v is None:
        w.notes.append("only K is quantised; -ctv says the type of V, and both equal is the fast choice on a GPU")
    model = w.value("-m", "--model")
    if model is not None and model.lower().endswith(".bin"):
        w.notes.append(
            f"{model}: most files that end in .bin are older than GGUF, and no longer read; `gguftool dump` tells"
        )
