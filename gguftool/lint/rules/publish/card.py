"""The card (README.md) against the files: what the Hub reads in front, and what people copy out of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gguftool.facts.licences import OTHER, names
from gguftool.lint.publishing import Publishing
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.lint.rules.licence import credit
from gguftool.lint.rules.publish.files import at, write
from gguftool.model import Model
from gguftool.model.card import NAME, Card
from gguftool.model.credits import Credits, repository
from gguftool.model.embedder import no_chat
from gguftool.near import near_names
from gguftool.regex import regex

_FILE = regex(r"(?<![\w./*<{+-])\w[\w.+-]{0,250}\.gguf(?![\w*])", re.I)
_SHA256 = regex(r"(?<![0-9A-Fa-f])[0-9a-fA-F]{64}(?![0-9A-Fa-f])")
_TEXT = frozenset({"text-generation", "image-text-to-text", "audio-text-to-text", "any-to-any", "text2text-generation",
                   "conversational", "translation", "summarization", "question-answering"})  # fmt: skip
_VECTORS = frozenset({"feature-extraction", "sentence-similarity", "text-ranking", "text-classification",
                      "visual-document-retrieval"})  # fmt: skip
MOST = 20


def _card(m: Model, ctx: Context) -> tuple[Publishing, Card] | None:
    """The folder and its card, for the one model that speaks for the folder."""
    p = ctx.publishing
    return (p, p.card) if p is not None and p.card is not None and p.lead == m.name else None


def _here(p: Publishing) -> str:
    return at(p, NAME)


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def card_missing(m: Model, ctx: Context) -> Drafts:
    """A repository should have a card.

    Why. Without README.md the Hub shows an empty page, no licence and no base model, and no search finds the model.
    Evidence. `docs/hub/model-cards.md` of huggingface/hub-docs.
    Example. no README.md: the Hub shows an empty page, no licence and no base model
    Fix. `gguftool push-check FOLDER --write` writes one from the files.
    """
    p = ctx.publishing
    if p is not None and p.lead == m.name and p.card is None:
        text = f"no {NAME}: the Hub shows an empty page, no licence and no base model"
        yield found(text, where="file", path=_here(p), fix=write(p))


@rule(Severity.ERROR, role="any", whole=False, changes_run=False)
def card_unreadable(m: Model, ctx: Context) -> Drafts:
    """The metadata in front of the card must be readable.

    Why. The Hub refuses a push with broken metadata, or shows the card without any.
    Evidence. YAML between two lines `---` at the very beginning; `docs/hub/model-cards.md` of huggingface/hub-docs.
    Example. README.md: the metadata in front is no YAML: mapping values are not allowed here
    Fix. Mend the YAML; or take it away, and `gguftool push-check FOLDER --write` writes it.
    """
    if (one := _card(m, ctx)) is None:
        return
    p, card = one
    if card.fault:
        yield found(f"{NAME}: {card.fault}", where="file", path=_here(p))
    elif not card.front:
        text = f"{NAME} has no metadata in front: the Hub shows no licence and no base model"
        yield found(text, where="file", path=_here(p), severity=Severity.WARNING, fix=write(p))


@rule(Severity.WARNING, role="any", changes_run=False)
def card_licence(m: Model, ctx: Context) -> Drafts:
    """The card's licence must be one that the Hub knows, and that of the files.

    Why. The Hub shows and filters by the card, programs read the file: two licences are one too many. A name that the
    Hub does not know fails the push.
    Evidence. `docs/hub/repositories-licenses.md` and `modelcard.md` of huggingface/hub-docs (242f4a1).
    Example. README.md says license: mit, the file says apache-2.0
    Fix. `gguftool push-check FOLDER --write --overwrite` writes that of the file; or correct the file's key.
    """
    if (one := _card(m, ctx)) is None or not one[1].front:
        return
    p, card = one
    c, said, where = credit(m, ctx), card.license, _here(p)
    if not said:
        has = f"; the file says {c.license}" if c.license else ""
        yield found(f"{NAME} has no license{has}", where="file", path=where, fix=write(p) if c.license else None)
        return
    hub = set(names())
    for odd in [x for x in card.listed("license") if x.lower() not in OTHER and x not in hub]:
        near = near_names(odd.lower().replace(" ", "-"), names(), 1, 0.7)
        hint = f"; near: {near[0]}" if near else "; write other, and its name as license_name"
        fix = write(p, over=True) if c.licence is not None and c.licence.known else None
        text = f"{NAME}: license {odd!r} is not on the Hub's list{hint}"
        yield found(text, where="file", path=where, fix=fix, front="license" if fix else None)
    if said.lower() in OTHER:
        for name in ("license_name", "license_link"):
            if not card.said(name):
                text = f"{NAME}: license is {said}, and {name} is missing"
                yield found(text, where="file", path=where, severity=Severity.INFO)
    own, there = c.licence, card.licence
    if own is not None and own.known and there is not None and not own.same(there):
        text = f"{NAME} says license: {there.said}, the file says {own.said}"
        yield found(text, where="file", path=where, fix=write(p, over=True), front="license")


@rule(Severity.WARNING, role="any", changes_run=False)
def card_base_model(m: Model, ctx: Context) -> Drafts:
    """The card's base model must be that of the files, and the card must say that they are quantised from it.

    Why. `base_model` puts the repository into the tree of the original, where people look for quantised files.
    Evidence. `docs/hub/model-cards.md` of huggingface/hub-docs: `base_model`, `base_model_relation: quantized`.
    Example. README.md says base_model: Qwen/Qwen2.5-7B, the file was made of meta-llama/Llama-3.1-8B
    Fix. `gguftool push-check FOLDER --write --overwrite` writes what the file says; or correct the keys:
    `gguftool fix --set general.base_model.0.repo_url=ADDRESS`.
    """
    if (one := _card(m, ctx)) is None or not one[1].front:
        return
    p, card = one
    c, where = credit(m, ctx), _here(p)
    if not card.bases:
        told = _names(c)
        has = f"; the file was made of {told[0]}" if told else ""
        yield found(f"{NAME} has no base_model{has}", where="file", path=where, fix=write(p) if told else None)
        return
    known = any(one.repository for one in c.near)
    fix, front = (write(p, over=True), "base_model") if known else (None, None)
    for odd in [x for x in card.bases if repository(x) != x]:
        text = f"{NAME}: base_model {odd!r} is not OWNER/NAME on the Hub"
        yield found(text, where="file", path=where, fix=fix, front=front)
    if p.repo and p.repo in card.bases:
        text = f"{NAME}: base_model is the repository itself ({p.repo})"
        yield found(text, where="file", path=where, fix=fix, front=front)
    elif _names(c) and not any(_akin(base, c) for base in card.bases):
        text = f"{NAME} says base_model: {', '.join(card.bases)}, the file was made of {' and '.join(_names(c)[:2])}"
        yield found(text, where="file", path=where, fix=fix, front=front)
    relation = card.said("base_model_relation")
    if relation not in ("", "quantized"):
        text = f"{NAME}: base_model_relation is {relation}; GGUF files of a model are quantized"
        again = (write(p, over=True), "base_model_relation") if known else (None, None)
        yield found(text, where="file", path=where, severity=Severity.INFO, fix=again[0], front=again[1])


def _names(c: Credits) -> list[str]:
    """What the file says it was made of."""
    return [one.shown for one in c.near if one.shown]


def _akin(base: str, c: Credits) -> bool:
    """Whether a repository is what the file was made of: by address, or by name."""
    told = {_plain(x) for one in c.near for x in (one.repository, one.repository.rpartition("/")[2], one.name) if x}
    own = {_plain(c.name)} if c.name else set()
    return bool({_plain(base), _plain(base.rpartition("/")[2])} & (told | own))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


@rule(Severity.INFO, role="any", changes_run=False)
def card_fields(m: Model, ctx: Context) -> Drafts:
    """The card should say what the model is for and who quantised it, as the files do.

    Why. `pipeline_tag` decides where the Hub lists a model and which programs it offers; `library_name: transformers`
    offers code that cannot load GGUF files.
    Evidence. `modelcard.md` and `docs/hub/model-cards.md` of huggingface/hub-docs (242f4a1).
    Example. README.md: pipeline_tag is text-generation, the model gives embeddings
    Fix. `gguftool push-check FOLDER --write --overwrite` writes what the file says.
    """
    if (one := _card(m, ctx)) is None or not one[1].front:
        return
    p, card = one
    where, task, library = _here(p), card.said("pipeline_tag"), card.said("library_name")
    vectors = no_chat(m)
    if not task:
        yield found(f"{NAME} has no pipeline_tag", where="file", path=where, fix=write(p))
    elif task in (_TEXT if vectors else _VECTORS):
        does = "gives embeddings" if vectors else "writes text"
        text = f"{NAME}: pipeline_tag is {task}, the model {does}"
        fix = write(p, over=True)
        yield found(text, where="file", path=where, severity=Severity.WARNING, fix=fix, front="pipeline_tag")
    if library and library not in ("gguf", "llama.cpp", "llama-cpp", "llamacpp", "ggml", "llama-cpp-python"):
        text = f"{NAME}: library_name is {library}, which does not load GGUF files by itself"
        yield found(text, where="file", path=where, fix=write(p, over=True), front="library_name")
    said, own = card.said("quantized_by"), credit(m, ctx).quantized_by
    if said and own and _plain(said) != _plain(own):
        text = f"{NAME} says quantized_by: {said}, the file says {own}"
        yield found(text, where="file", path=where, fix=write(p, over=True), front="quantized_by")


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def card_command(m: Model, ctx: Context) -> Drafts:
    """The commands in the card must run with the files that are here.

    Why. They are what people copy first.
    Evidence. Held against the options of the llama.cpp that is known (`gguftool launch --translate` says the same),
    the names of the files, and how `-hf` finds one (`common/download.cpp`, b11434).
    Example. README.md: `llama-server -hf me/Foo-GGUF:Q5_K_M`: no file here has Q5_K_M in its name
    Fix. `gguftool push-check FOLDER --write` writes its own part anew; correct the others in README.md.
    """
    if (one := _card(m, ctx)) is None:
        return
    p, card = one
    for command in p.commands[:MOST]:
        if command.fault:
            shown = command.line if len(command.line) < 160 else f"{command.line[:159]}…"
            yield found(f"{NAME}: `{shown}`: {command.fault}", where="file", path=_here(p), command=command.line,
                        fix=_again(p, card, command.line))  # fmt: skip


@rule(Severity.WARNING, role="any", whole=False, changes_run=False)
def card_file(m: Model, ctx: Context) -> Drafts:
    """The files that the card names must be there.

    Why. A name that is wrong in one letter is an error of 404 for everybody who copies it.
    Evidence. The files of the folder.
    Example. README.md names Foo-Q5_K_M.gguf, which is not here; near: Foo-Q5_K_S.gguf
    Fix. `gguftool push-check FOLDER --write` writes its own part anew; else correct README.md, or put the file there.
    """
    if (one := _card(m, ctx)) is None:
        return
    p, card = one
    here = {name.rpartition("/")[2].lower() for name in p.sizes}
    # A command that names it has a finding of its own.
    told = [command.line for command in p.commands if command.fault]
    named = [name for name in dict.fromkeys(_named(card)) if not any(name in line for line in told)]
    gone = [name for name in named if name.lower() not in here]
    for name in gone[:MOST]:
        near = near_names(name, [x for x in p.sizes if x.endswith(".gguf")], 1, 0.8)
        tail = f"; near: {near[0]}" if near else ""
        text = f"{NAME} names {name}, which is not here{tail}"
        yield found(text, where="file", path=_here(p), fix=_again(p, card, name))


def _again(p: Publishing, card: Card, words: str) -> Fix | None:
    """What mends words that stand in our part; the rest is for whoever wrote it."""
    return write(p) if words in card.ours else None


def _named(card: Card) -> Iterator[str]:
    """Names of model files in the text; those of other repositories (in an address that is not this one's) not."""
    for line in card.body.splitlines():
        if "://" in line:
            line = re.sub(r"\w+://\S+", " ", line)
        yield from _FILE.findall(line)


@rule(Severity.ERROR, role="any", whole=False, changes_run=False)
def card_hash(m: Model, ctx: Context) -> Drafts:
    """A hash in the card must be that of the file it stands beside.

    Why. Whoever compares takes the download for damaged, or for tampered with.
    Evidence. The files were hashed; a hash belongs to the file named in the same line.
    Example. README.md has 0f3a… for model-Q8_0.gguf, the file has 77ce…
    Fix. `gguftool push-check FOLDER --write` writes its own part anew; correct the others in README.md.
    """
    if (one := _card(m, ctx)) is None:
        return
    p, card = one
    for line in card.body.splitlines():
        said, files = _SHA256.findall(line), set(_FILE.findall(line))
        named = [n for n in p.hashes if n.rpartition("/")[2] in files]
        if len(said) != 1 or len(named) != 1:
            continue
        if said[0].lower() != p.hashes[named[0]]:
            text = f"{NAME} has {said[0][:12]}… for {named[0]}, the file has {p.hashes[named[0]][:12]}…"
            yield found(text, where="file", path=_here(p), fix=_again(p, card, line), sha256=p.hashes[named[0]])
