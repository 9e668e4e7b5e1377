"""What a publisher must fill into a file and take out of it: the one place that knows, asked by lint and prepare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gguftool.edit.ops import Delete, Operation, Set, Strip
from gguftool.format.types import ARR, DEFAULT_ALIGNMENT
from gguftool.model import Model
from gguftool.model.bytemap import is_filler
from gguftool.model.card import Card
from gguftool.model.credits import Credits, credits_of, repository
from gguftool.model.embedder import no_chat

HUB = "https://huggingface.co/"
BASE_COUNT = "general.base_model.count"
OWN = "gguftool."
_FOLDERS = re.compile(
    r"(?:ggml-)?(?:model|converted|output|out|tmp|temp|hf|final|merged|snapshot|checkpoint)[-_0-9]*|n/a|unknown|none"
    r"|[./~].*"
)
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
    """

    card: Card | None = None
    source: str = ""
    quantized_by: str = ""
    repo: str = ""


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
    ops: list[Operation] = []
    if told.source and no_name(c.name):
        ops.append(Set("general.name", _title(told.source.rpartition("/")[2]), "str"))
    if not c.license and not c.license_name and told.card is not None:
        ops += _licence(told.card)
    ops += _origin(m, c, told)
    for one in missing(m, told.card, told.repo):
        value = told.quantized_by if one.key == "general.quantized_by" and told.quantized_by else one.value
        # The owner of a repository need not be who quantised.
        guessed = one.key == "general.quantized_by" and not told.quantized_by and one.told_by != "the card"
        if value and not guessed and one.told_by != "its kind":
            ops.append(Set(one.key, value, one.type))
    return tuple(ops)


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


def no_name(said: str) -> str:
    """Why `general.name` is none, in words; "" for a name."""
    plain = said.lower().replace(" ", "-")
    if not said:
        return "is missing: programs show the name of the file"
    if re.fullmatch(r"[0-9a-f]{20,64}", plain):
        return f"is {said[:16]!r}…, a commit and no name"
    return f"is {said!r}, what a folder was called and no name" if _FOLDERS.fullmatch(plain) else ""


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
            Set(f"{prefix}name", _title(model or owner), "str"),
            *([Set(f"{prefix}organization", _title(owner), "str")] if model else []),
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


def _licence(card: Card) -> list[Operation]:
    said = {
        "general.license": card.license.replace(", ", ","),
        "general.license.name": card.said("license_name"),
        "general.license.link": card.said("license_link"),
    }
    return [Set(key, value, "str") for key, value in said.items() if value]


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


def _title(name: str) -> str:
    """``smollm2-135M`` as the converter writes names (`gguf-py/gguf/metadata.py:id_to_title`, b11434)."""
    words = name.strip().replace("-", " ").split()
    return " ".join(w if not w.islower() or w[0].isdecimal() or _is_version(w) else w.title() for w in words)


def _is_version(word: str) -> bool:
    return word[:1] == "v" and word[1:].replace(".", "").isdecimal()
