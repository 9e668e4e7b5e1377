"""Licence: on what terms a model may be used, as far as its own keys say it, and whether they agree.

None of it is legal advice: a rule says what stands where, and what does not go together.
"""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts.licences import OTHER, USES, Licence, licence, names, of_base, of_link
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.credits import Credits, credits_of
from gguftool.near import near_names

KEY = "general.license"
WHERE = f"field:{KEY}"


def credit(m: Model, ctx: Context) -> Credits:
    """What the file says of its origin, read once a run."""
    found: Credits = ctx.once("credits", lambda: credits_of(m))
    return found


@rule(Severity.INFO, changes_run=False)
def licence_missing(m: Model, ctx: Context) -> Drafts:
    """A file that says where it comes from should say on what terms.

    Why. Whoever finds it in a store or behind a mirror has nothing else to go by; audits ask for it.
    Evidence. The GGUF specification (`general.license`, an SPDX expression). Told where the file names its author, its
    base or its repository, and by `gguftool push-check`; `required_keys` of a policy makes it an error.
    Example. no general.license, though it names its base model meta-llama/Llama-3.1-8B (licence llama3.1)
    Fix. `gguftool fix --set general.license=NAME` with the licence of the source.
    """
    c = credit(m, ctx)
    if c.licence is not None or c.license or (not c.tells_origin and ctx.publishing is None):
        return
    told = _of_bases(c) or _of_card(ctx)
    origin = f"its base model {c.bases[0].shown}" if c.bases else "where it comes from"
    tail = f", though it names {origin}" if c.tells_origin else ""
    terms = f" (licence {told[1].said})" if told is not None else ""
    fix = Fix(f"write {told[1].said}", (Set(KEY, told[1].said, "str"),)) if told is not None else None
    fix = fix or to_choose("write the licence of the source", "--set", KEY)
    severity = Severity.INFO if ctx.publishing is None else Severity.WARNING
    yield found(f"no {KEY}{tail}{terms}", where=WHERE, fix=fix, severity=severity)


@rule(Severity.INFO, role="any", changes_run=False)
def licence_unknown(m: Model, ctx: Context) -> Drafts:
    """The licence should have a name that programs know.

    Why. Filters, policies and bills of materials compare names; one that is on no list ends in nobody's filter.
    Evidence. The lists of SPDX and of the Hub (`docs/hub/repositories-licenses.md`). A licence of one's own is
    `other`, with its name in `general.license.name` and its text in `general.license.link`.
    Example. general.license is 'Apache 2', which neither SPDX nor the Hub knows; near: apache-2.0
    Fix. `gguftool fix --set general.license=NAME`.
    """
    c = credit(m, ctx)
    if not c.license:
        return
    if c.license.lower() in OTHER:
        if not c.license_name and not c.license_link:
            fix = to_choose("name it", "--set", "general.license.name")
            yield found(
                f"{KEY} is {c.license!r}, and neither general.license.name nor .link says which", where=WHERE, fix=fix
            )
        return
    said = licence(c.license)
    if said is None or said.known:
        return
    odd = next(part.said for part in said.parts if not part.known)
    if odd.startswith("LicenseRef-"):
        return
    plain = odd.lower().replace(" ", "-").replace("_", "-")
    near = near_names(plain, names(), 1, 0.75)
    tail = f"; near: {near[0]}" if near else ""
    fix = Fix(f"write {near[0]}", (Set(KEY, near[0], "str"),)) if near and len(said.parts) == 1 else None
    yield found(f"{KEY} is {c.license!r}, which neither SPDX nor the Hub knows{tail}", where=WHERE, fix=fix, near=near)


@rule(Severity.WARNING, role="any", changes_run=False)
def licence_contradicts_itself(m: Model, ctx: Context) -> Drafts:
    """The keys about the licence must speak of one licence.

    Why. `general.license.name` is for a licence without an identifier; beside another identifier one of the two is
    wrong, and nobody can know which.
    Evidence. The GGUF specification: `general.license`, `.name`, `.link`.
    Example. general.license is apache-2.0, general.license.name is llama3.1
    Fix. `gguftool fix --delete general.license.name`, or set the right one.
    """
    c = credit(m, ctx)
    # A name in words ("Apache License 2.0") is on no list and says nothing against an identifier.
    first = licence(c.license)
    others = (
        ("general.license.name", c.license_name, licence(c.license_name)),
        ("general.license.link", c.license_link, of_link(c.license_link)),
    )
    for key, said, second in others:
        if first is None or second is None or not first.known or not second.known or first.holds(second):
            continue
        leads = f"leads to {second.said}" if key.endswith("link") else f"is {said}"
        yield found(
            f"{KEY} is {c.license}, {key} {leads}",
            where=f"field:{key}",
            fix=to_choose("write the right one", "--set", KEY),
        )


@rule(Severity.WARNING, role="any", changes_run=False)
def licence_contradicts_base(m: Model, ctx: Context) -> Drafts:
    """The licence must not promise more than that of the model it was made of.

    Why. The terms of such models go with every copy and every model made of them; who relies on a freer licence in
    the file breaks them without knowing.
    Evidence. Licences of official repositories (`facts/data/licences.json`), for example section 1.b of the Llama 3.1
    Community License: a copy carries the agreement.
    Example. general.license is apache-2.0, but its base meta-llama/Llama-3.1-8B is under llama3.1
    Fix. `gguftool fix --set general.license=NAME` with the licence of the base.
    """
    c = credit(m, ctx)
    own, told = licence(c.license), _of_bases(c)
    if own is None or told is None or own.same(told[1]) or not own.known or own.use:
        return
    if any(told[1].same(one) for one in [licence(c.license_name)] if one is not None):
        return
    yield found(
        f"{KEY} is {c.license}, but its base {told[0]} is under {told[1].said}, which {USES[told[1].use]}",
        where=WHERE,
        fix=Fix(f"write {told[1].said}", (Set(KEY, told[1].said, "str"),)),
        base=told[0],
        base_licence=told[1].said,
    )


@rule(Severity.INFO, role="any", changes_run=False)
def licence_restricted(m: Model, ctx: Context) -> Drafts:
    """The licence restricts what the model may be used for.

    Why. A model for research or without commercial use must not come into a product by accident; terms of acceptable
    use go with every copy that is handed on.
    Evidence. The texts of the licences (`facts/data/licences.json`). `licenses` of a policy file makes it an error.
    Example. general.license is cc-by-nc-4.0: it forbids commercial use
    Fix. None in the file: read the terms, or choose another model.
    """
    c = credit(m, ctx)
    said = c.licence
    if said is None or not said.use:
        return
    part = next(part for part in said.parts if part.use == said.use)
    key = KEY if licence(c.license) is not None else "general.license.name"
    link = c.license_link or part.link
    yield found(
        f"{key} is {c.license if key == KEY else c.license_name}: it {USES[said.use]}"
        + (f" (its text: {link})" if link else ""),
        where=f"field:{key}",
        use=said.use,
    )


def _of_card(ctx: Context) -> tuple[str, Licence] | None:
    """The licence in the card that the file is published with."""
    card = ctx.publishing.card if ctx.publishing is not None else None
    said = licence(card.license) if card is not None else None
    return ("the card", said) if said is not None and said.known else None


def _of_bases(c: Credits) -> tuple[str, Licence] | None:
    """A model that it was made of and whose terms are known, with its licence."""
    for one in c.near:
        terms = of_base(one.repository) if one.repository else None
        if terms is not None and terms.use:
            return one.repository, terms
    return None
