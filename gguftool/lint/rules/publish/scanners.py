"""What scanners in other people's gates say of a file that is sound."""

from __future__ import annotations

from collections.abc import Iterator

from gguftool.chat.talk import chat
from gguftool.edit.ops import Delete
from gguftool.facts.scanners import (
    C4NARY,
    LONGEST_TEMPLATE,
    LONGEST_TEXT,
    MODELAUDIT,
    OF_TEMPLATES,
    address,
    ip_number,
    may_hold_address,
    of_licence,
)
from gguftool.format.filler import is_filler
from gguftool.format.header import Field
from gguftool.format.types import ARR, STR
from gguftool.lint.rule import Context, Draft, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.credits import credits_of

TEMPLATE = "tokenizer.chat_template"
_LOOKED_AT = 64 << 10
"""Bytes of a text in which addresses are looked for."""
_ELEMENTS = 64


@rule(Severity.INFO, role="any", whole=False, changes_run=False)
def scanner_objects(m: Model, ctx: Context) -> Drafts:
    """Scanners that stand in gates fail over some things that no program minds.

    Why. Companies and hubs let scanners of model files decide what comes in: a file that is sound stays outside for an
    address in its description or a long text. Better known before the upload.
    Evidence. Each scanner was run on files with one oddity each, and without (docs/publish.md has the table).
    Example. general.license.link holds an address (https://example.org/l): c4nary 0.3.1 (canary scan --fail-on warn)
    MET001
    Fix. `gguftool fix --set` or `--delete`, where the file can do without; otherwise none: say it where you publish.
    """
    if ctx.publishing is None:
        return
    for f in m.fields.values():
        if not is_filler(f.key) and f.key != TEMPLATE:
            yield from _of_field(f)
    yield from _of_template(m)
    licence = credits_of(m).license
    if licence and (by := of_licence(licence)):
        yield _draft(f"the licence {licence} is one that scanners warn of", by, "general.license")


def _of_field(f: Field) -> Iterator[Draft]:
    texts = _texts(f)
    if f.type == STR and len(texts[0]) > LONGEST_TEXT:
        text = f"{f.key} has more than {LONGEST_TEXT:,} characters"
        yield _draft(text, (f"{C4NARY} MET002",), f.key, to_choose("shorten it", "--set", f.key))
    expected = f.type == STR and may_hold_address(f.key)
    seen = next((said for text in texts if (said := ip_number(text) or ("" if expected else address(text)))), "")
    if seen:
        yield _draft(f"{f.key} holds an address ({seen[:60]})", (f"{C4NARY} MET001",), f.key, _gone(f.key))


def _gone(key: str) -> Fix | None:
    return Fix("delete it", (Delete(key),)) if key.startswith("general.") else None


def _of_template(m: Model) -> Iterator[Draft]:
    f = m.fields.get(TEMPLATE)
    if f is None or f.type != STR:
        return
    if len(f.value_bytes) - f.layout.length_size > LONGEST_TEMPLATE:
        both = (f"{C4NARY} TPL012", f"{MODELAUDIT}, whose scan is incomplete then")
        yield _draft(f"the chat template has more than {LONGEST_TEMPLATE:,} bytes", both, TEMPLATE)
    talk = chat(m)
    if talk.source is None or talk.template is None:
        return
    kinds = {h.kind for what in ("code", "hidden") for h in talk.hits(what)}
    by = tuple(dict.fromkeys(who for kind, them in OF_TEMPLATES.items() if kind in kinds for who in them))
    if by:
        yield _draft("what other rules say of the chat template", by, TEMPLATE)


def _texts(f: Field) -> list[str]:
    """A text, or the texts of a list, as far as they are looked at."""
    if f.type == STR:
        return [str(f.beginning(_LOOKED_AT))]
    if f.type == ARR and f.element_type == STR and not f.key.startswith("tokenizer."):
        return [str(x) for x in f.head(_ELEMENTS, most=LONGEST_TEXT)]
    return []


def _draft(what: str, by: tuple[str, ...], key: str, fix: Fix | None = None) -> Draft:
    return found(f"{what}: {'; '.join(by)}", where=f"field:{key}", fix=fix, scanners=list(by))
