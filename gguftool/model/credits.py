"""Where a model comes from and on what terms it may be used, by its own keys: `general.license`, `.base_model.*` …

What is no text there counts as absent: a rule of its own says that a key has the wrong type.
"""

from __future__ import annotations

from collections.abc import Mapping

from gguftool.facts.licences import Licence, licence
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR
from gguftool.model.model import Model
from gguftool.records import dataclass
from gguftool.regex import regex

MOST = 32
"""Base models and data sets that are looked at, and tags that are taken."""
_HUB = regex(r"(?:https?://)?(?:www\.)?(?:huggingface\.co|hf\.co)/([\w.-]+/[\w.-]+?)(?:/(?:tree|blob)/.*)?/?$")
_REPO = regex(r"[\w-][\w.-]*/[\w-][\w.-]*")


@dataclass(frozen=True, slots=True)
class Relative:
    """A model that this one was made of, or a data set: "" for what is not said.

    Attributes:
        name, organization, version: in words.
        url: of its repository, else its home page.
        repository: ``owner/name`` on the Hub, when the address says so.
        doi: its digital object identifier.
    """

    name: str = ""
    organization: str = ""
    version: str = ""
    url: str = ""
    repository: str = ""
    doi: str = ""

    @property
    def shown(self) -> str:
        """What to call it."""
        return self.repository or " ".join(x for x in (self.organization, self.name) if x) or self.url or self.doi


@dataclass(frozen=True, slots=True)
class Credits:
    """What a file says of its origin; "" and empty for what it does not say.

    Attributes:
        license, license_name, license_link: as written.
        bases: models that it was made of.
        source: what it was converted from; None when no key says it.
        datasets: what it was trained with.
    """

    name: str = ""
    basename: str = ""
    finetune: str = ""
    version: str = ""
    size_label: str = ""
    author: str = ""
    organization: str = ""
    description: str = ""
    license: str = ""
    license_name: str = ""
    license_link: str = ""
    quantized_by: str = ""
    url: str = ""
    repo_url: str = ""
    bases: tuple[Relative, ...] = ()
    source: Relative | None = None
    datasets: tuple[Relative, ...] = ()
    tags: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()

    @property
    def licence(self) -> Licence | None:
        """The licence: `general.license`, else the name that stands beside it."""
        return licence(self.license) or licence(self.license_name)

    @property
    def near(self) -> tuple[Relative, ...]:
        """What it was made of: what was converted, then the bases of that."""
        return (*([self.source] if self.source is not None else ()), *self.bases)

    @property
    def repository(self) -> str:
        """``owner/name`` on the Hub that this very file is said to be published in."""
        return repository(self.repo_url) or repository(self.url)

    @property
    def tells_origin(self) -> bool:
        """Whether anything says who made it or of what."""
        said = (self.author, self.organization, self.quantized_by, self.url, self.repo_url)
        return any(said) or bool(self.bases or self.source)


def credits_of(m: Model) -> Credits:
    """What the metadata says; of strings the first two thousand characters."""
    f = m.fields
    plain = {name: _text(f, f"general.{name}") for name in _PLAIN}
    source = _relative(f, "general.source.", _text(f, "general.source.huggingface.repository"))
    return Credits(
        **plain,
        license=_text(f, "general.license"),
        license_name=_text(f, "general.license.name"),
        license_link=_text(f, "general.license.link"),
        bases=_relatives(f, "general.base_model"),
        source=source if source != Relative() else None,
        datasets=_relatives(f, "general.dataset"),
        tags=_texts(f, "general.tags"),
        languages=_texts(f, "general.languages"),
    )


_PLAIN = (
    *("name", "basename", "finetune", "version", "size_label", "author", "organization", "description"),
    *("quantized_by", "url", "repo_url"),
)


def repository(address: str) -> str:
    """``owner/name`` of an address on the Hub, or of ``owner/name`` itself; "" for any other."""
    found = _HUB.fullmatch(address.strip())
    if found:
        return found[1]
    return address.strip() if _REPO.fullmatch(address.strip()) else ""


def text_sha256(f: Field | None) -> str | None:
    """SHA-256 of the bytes of a text, as a policy pins that of a chat template; None for no text."""
    if f is None or f.type != STR:
        return None
    import hashlib

    return hashlib.sha256(f.value_bytes[f.layout.length_size :]).hexdigest()


def _relatives(fields: Mapping[str, Field], prefix: str) -> tuple[Relative, ...]:
    ids = {key[len(prefix) + 1 :].partition(".")[0] for key in fields if key.startswith(f"{prefix}.")}
    numbers = sorted((i for i in ids if i.isdecimal() and len(i) < 4), key=int)[:MOST]
    found = (_relative(fields, f"{prefix}.{i}.", "") for i in numbers)
    return tuple(one for one in found if one != Relative())


def _relative(fields: Mapping[str, Field], prefix: str, named: str) -> Relative:
    url = _text(fields, f"{prefix}repo_url") or _text(fields, f"{prefix}url")
    return Relative(
        name=_text(fields, f"{prefix}name"),
        organization=_text(fields, f"{prefix}organization"),
        version=_text(fields, f"{prefix}version"),
        url=url,
        repository=repository(named) or repository(url),
        doi=_text(fields, f"{prefix}doi"),
    )


def _text(fields: Mapping[str, Field], key: str) -> str:
    f = fields.get(key)
    said = f.told if f is not None and f.type == STR else ""
    return " ".join(said[:2000].split()) if isinstance(said, str) else ""


def _texts(fields: Mapping[str, Field], key: str) -> tuple[str, ...]:
    f = fields.get(key)
    if f is None or f.type != ARR or f.element_type != STR:
        return ()
    return tuple(str(x) for x in f.head(MOST, most=200))
