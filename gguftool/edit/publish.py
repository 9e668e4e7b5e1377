"""What a publisher must fill into a file and take out of it: the one place that knows, asked by lint and prepare."""

from __future__ import annotations

from collections.abc import Sequence

from gguftool.edit.ops import Delete, Operation, Set, Strip
from gguftool.format.filler import is_filler
from gguftool.format.types import ARR, DEFAULT_ALIGNMENT
from gguftool.model import Model
from gguftool.model.called import bare, no_name, parts, place_of, title
from gguftool.model.card import Card
from gguftool.model.credits import Credits, credits_of, repository
from gguftool.model.embedder import no_chat
from gguftool.model.filename import sizes, unlabelled
from gguftool.model.terms import HUB, Terms, of_card
from gguftool.records import dataclass

BASE_COUNT = "general.base_model.count"
OWN = "gguftool."
_OF_ALL = frozenset({"gguf", "llama.cpp", "llama-cpp"})


@dataclass(frozen=True, slots=True)
class Missing:
    """A key that should be there.

    Attributes:
        key, type: as `gguftool fix` takes them.
        why: what comes of its absence.
        value: what it should be, where something tells; else None.
        told_by: what tells it.
    """

    key: str
    type: str
    why: str
    value: str | list[str] | None = None
    told_by: str = ""

    @property
    def shown(self) -> str:
        """The value in words."""
        return ", ".join(self.value) if isinstance(self.value, list) else self.value or ""


@dataclass(frozen=True, slots=True)
class Told:
    """What is known about a file beside its own keys; "" and empty for what nobody says.

    Attributes:
        card: of the source, or of the repository it is published in.
        source: ``owner/name`` on the Hub of what it was made of.
        quantized_by: who makes it.
        repo: ``owner/name`` that it will be published as.
        name: what it is called; the name of ``source`` where nobody says another.
        terms: licence of the source, where more is known than its card.
        parameters: elements of its tensors, of a model that is not made yet.
    """

    card: Card | None = None
    source: str = ""
    quantized_by: str = ""
    repo: str = ""
    name: str = ""
    terms: Terms | None = None
    parameters: int = 0


def missing(m: Model, card: Card | None, repo: str) -> tuple[Missing, ...]:
    """Keys about origin and use that a published file should have, with what the card beside it says.

    Licence and base model have rules of their own.
    """
    c = credits_of(m)
    by_card = card.said("quantized_by") if card is not None else ""
    tags = _tags(card) if card is not None else []
    languages = _languages(card) if card is not None else []
    by = "the card"
    found: list[Missing] = []
    if not c.quantized_by and is_quantised(m):
        owner = repo.partition("/")[0]
        value = by_card or owner or None
        told = by if by_card else "the repository"
        found.append(
            Missing("general.quantized_by", "str", "who made this file is said nowhere", value, told if value else "")
        )
    if not c.repo_url:
        value = HUB + repo if repo else None
        why = "whoever finds the file cannot find its repository"
        found.append(Missing("general.repo_url", "str", why, value, "the repository" if value else ""))
    if not c.tags:
        told = by if tags else "its kind"
        found.append(Missing("general.tags", "[str]", "searches go by tags", tags or [_task(m)], told))
    if not c.languages:
        why = "which languages it speaks is not said"
        found.append(Missing("general.languages", "[str]", why, languages or None, by if languages else ""))
    return tuple(found)


def fill(m: Model, told: Told) -> tuple[Operation, ...]:
    """What can be filled in from what is known; nothing that is there is written over."""
    c = credits_of(m)
    ops = _named(m, c, told)
    if not c.license and not c.license_name:
        ops += _licence(told)
    ops += _origin(m, c, told)
    for one in missing(m, told.card, told.repo):
        value = told.quantized_by if one.key == "general.quantized_by" and told.quantized_by else one.value
        # The owner of a repository need not be who quantised.
        guessed = one.key == "general.quantized_by" and not told.quantized_by and one.told_by != "the card"
        if value and not guessed and one.told_by != "its kind":
            ops.append(Set(one.key, value, one.type))
    return tuple(ops)


def right_name(m: Model, card: Card | None, repo: str) -> tuple[str, str]:
    """What a model is called whose own name is none, and what tells it; "" where nothing does.

    Args:
        m: the model.
        card: beside it, or of its source.
        repo: ``owner/name`` that it is published as.
    """
    c = credits_of(m)
    own = m.get("gguftool.convert.source")
    place = place_of(m.name) if "://" not in m.name else None
    of_parts = "-".join(x for x in (c.basename, c.size_label, c.finetune, c.version) if x) if c.basename else ""
    file = unlabelled(m.name)
    found = (
        (c.source.repository if c.source is not None else "", "general.source"),
        (own.partition("@")[0] if isinstance(own, str) and "@" in own else "", "gguftool.convert.source"),
        (of_parts, "general.basename"),
        *((card.said(key) if card is not None else "", "the card") for key in ("name", "model_name")),
        (repo, "the repository"),
        (place.name if place is not None else "", place.told_by if place is not None else ""),
        (file if sizes(m.name) else "", "the name of the file"),
    )
    names = ((title(bare(name)) if " " not in name else name, by) for name, by in found if name)
    return next(((name, by) for name, by in names if not no_name(name)), ("", ""))


def clean(m: Model, *, own: bool = False) -> tuple[Operation, ...]:
    """What should not be in a published file: room for edits, a default that is written down, empty arrays.

    Args:
        m: the model.
        own: the records of gguftool, too.
    """
    ops: list[Operation] = []
    if any(is_filler(key) for key in m.fields):
        ops.append(Strip())
    alignment = m.fields.get("general.alignment")
    if alignment is not None and m.header.alignment == DEFAULT_ALIGNMENT and alignment.told == DEFAULT_ALIGNMENT:
        ops.append(Delete("general.alignment"))
    empty = (f.key for f in m.fields.values() if f.type == ARR and f.count == 0)
    ops += [Delete(key) for key in empty if not key.startswith("tokenizer.ggml.")]
    if own:
        ops += [Delete(key) for key in records(m)]
    return tuple(ops)


def records(m: Model) -> list[str]:
    """Keys that gguftool writes for itself; its filler is told by itself."""
    return [key for key in m.fields if key.startswith(OWN) and not is_filler(key)]


def base_entries(m: Model) -> list[int]:
    """Numbers of the base models that are described, whatever the count says."""
    head = "general.base_model."
    numbers = {key[len(head) :].partition(".")[0] for key in m.fields if key.startswith(head) and key != BASE_COUNT}
    return sorted(int(n) for n in numbers if n.isdecimal() and n.isascii() and len(n) < 5)


def base_operations(repositories: Sequence[str]) -> tuple[Operation, ...]:
    """The keys that describe base models, as the converter writes them (`gguf-py/gguf/metadata.py`, b11434)."""
    ops: list[Operation] = [Set(BASE_COUNT, len(repositories), "u32")]
    for i, name in enumerate(repositories):
        owner, _, model = name.partition("/")
        prefix = f"general.base_model.{i}."
        ops += [
            Set(f"{prefix}name", title(model or owner), "str"),
            *([Set(f"{prefix}organization", title(owner), "str")] if model else []),
            *([Set(f"{prefix}repo_url", HUB + name, "str")] if model else []),
        ]
    return tuple(ops)


def _origin(m: Model, c: Credits, told: Told) -> list[Operation]:
    ops: list[Operation] = []
    if told.source and c.source is None:
        ops.append(Set("general.source.repo_url", HUB + told.source, "str"))
        ops.append(Set("general.source.huggingface.repository", told.source, "str"))
    if not base_entries(m):
        named = [repository(name) for name in told.card.bases] if told.card is not None else []
        bases = [name for name in named if name] or ([told.source] if told.source else [])
        ops += base_operations(bases) if bases else []
    elif BASE_COUNT not in m and base_entries(m) == list(range(len(base_entries(m)))):
        ops.append(Set(BASE_COUNT, len(base_entries(m)), "u32"))
    return ops


def _named(m: Model, c: Credits, told: Told) -> list[Operation]:
    """Its name, and what the converter reads out of that."""
    called = told.name or bare(told.source)
    if not called:
        return []
    ops: list[Operation] = []
    if no_name(c.name):
        ops.append(Set("general.name", title(called), "str"))
    elif told.name and title(told.name) != c.name:
        return []  # it has another, with parts of its own
    found = parts(told.source or called, sum(t.info.elements for t in m.all_tensors()) or told.parameters)
    rows = {
        "organization": (c.organization, title(told.source.partition("/")[0]) if "/" in told.source else ""),
        "basename": (c.basename, found.basename),
        "finetune": (c.finetune, found.finetune),
        "version": (c.version, found.version),
        "size_label": (c.size_label, found.size_label),
    }
    return ops + [Set(f"general.{name}", new, "str") for name, (here, new) in rows.items() if new and not here]


def _licence(told: Told) -> list[Operation]:
    terms = told.terms or of_card(told.card)
    if terms is None:
        return []
    said = {"license": terms.license, "license.name": terms.name, "license.link": terms.link}
    return [Set(f"general.{name}", value, "str") for name, value in said.items() if value]


def _tags(card: Card) -> list[str]:
    """The tags of a card as the converter writes them, its task behind them; not those that every GGUF file has."""
    return [x for x in dict.fromkeys((*card.listed("tags"), *card.listed("pipeline_tag"))) if x not in _OF_ALL]


def _languages(card: Card) -> list[str]:
    return [*dict.fromkeys((*card.listed("languages"), *card.listed("language")))]


def _task(m: Model) -> str:
    """The Hub's name of what a model is for (`pipeline_tag`)."""
    return "feature-extraction" if no_chat(m) else "text-generation"


def is_quantised(m: Model) -> bool:
    """Whether any of its weights has fewer bits than a float."""
    return any(t.type_name not in ("F64", "F32", "F16", "BF16") for t in m.all_tensors() if len(t.shape) > 1)
