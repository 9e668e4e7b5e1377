"""The licence of the file against the card of the source."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts.licences import licence
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, rule
from gguftool.lint.rules.source.numbers import same_model, source
from gguftool.model import Model
from gguftool.model.card import NAME as CARD
from gguftool.model.credits import credits_of
from gguftool.model.terms import of_card, terms_of

KEY = "general.license"


@rule(Severity.WARNING, scope=Scope.SOURCE, changes_run=False)
def source_licence(m: Model, ctx: Context) -> Drafts:
    """The licence should be the one that the source's card names.

    Why. A quantised copy is under the terms of its source; another licence in the file promises what nobody gave.
    Evidence. `license` and `license_name` in the README.md of the folder; the converter copies them
    (`gguf-py/gguf/metadata.py`, b11434). Where that says none, the text in its LICENSE file, where it is a known one.
    Example. general.license is apache-2.0, the source's README.md says cc-by-nc-4.0
    Fix. Writes the licence of the source.
    """
    folder = source(ctx)
    terms = terms_of(folder.path, folder.card) if folder.path is not None else of_card(folder.card)
    there = licence(terms.license) or licence(terms.name) if terms is not None else None
    known = there is not None and (there.known or (terms is not None and terms.told_by == CARD))
    if terms is None or there is None or not known or not same_model(m, ctx):
        return
    c = credits_of(m)
    here = c.licence
    if here is not None and here.same(there):
        return
    # A licence without an identifier is `other`, and its name stands beside it.
    named = licence(terms.license) is None
    ops = [Set(KEY, "other" if named else terms.license, "str")]
    if named or "general.license.name" in m:
        ops.append(Set("general.license.name", there.said, "str"))
    has = f"{KEY} is {c.license or c.license_name}" if here is not None else f"{KEY} is missing"
    yield found(
        f"{has}, the source's {terms.told_by} says {there.said}",
        where=f"field:{KEY}",
        severity=None if here is not None else Severity.INFO,
        fix=Fix(f"write {there.said}", tuple(ops)),
        source=there.said,
    )
