"""Keys that people and the Hub look for, and records that nobody else needs."""

from __future__ import annotations

from typing import Any

from gguftool.edit.ops import Delete, Set
from gguftool.edit.publish import BASE_COUNT, Missing, base_entries, base_operations, is_quantised, missing, records
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, rule, to_choose
from gguftool.lint.rules.licence import credit
from gguftool.model import Model
from gguftool.shell import blank


@rule(Severity.WARNING, changes_run=False)
def base_model_keys(m: Model, ctx: Context) -> Drafts:
    """The keys about base models must fit together, and there must be some.

    Why. `general.base_model.count` says how many entries a reader looks for: with 0, or none, it sees none of them.
    Without any nobody knows what was quantised, or under whose licence.
    Evidence. The GGUF specification; `gguf-py/gguf/metadata.py` (b11434) writes count, name, organization, repo_url.
    Example. general.base_model.count is 1, there are entries 0 and 1
    Fix. `gguftool fix --set general.base_model.count=N`; `--set general.base_model.0.repo_url=ADDRESS`.
    """
    if ctx.publishing is None:
        return
    entries, count = base_entries(m), m.get(BASE_COUNT)
    c = credit(m, ctx)
    card = ctx.publishing.card
    if not entries:
        if c.source is not None:
            return
        told = card.bases[:1] if card is not None else ()
        key = "general.base_model.0.repo_url"
        if told and "/" in told[0]:
            fix: Fix | None = Fix(f"write {told[0]}, as the card says", base_operations(told))
        else:
            words = ("--set", f"{BASE_COUNT}=1", "--set", blank(f"{key}="))
            fix = Fix("write the repository of the source", command=edit(*words))
        yield found(
            "no general.base_model.*: what it was made of is said nowhere"
            + (f"; the card says {told[0]}" if told else ""),
            where=f"field:{BASE_COUNT}",
            # What its makers publish as they trained it was made of nothing.
            severity=Severity.INFO if told or not is_quantised(m) else None,
            fix=fix,
        )
        return
    whole = isinstance(count, int) and not isinstance(count, bool)
    if not whole or count != len(entries) or entries != list(range(len(entries))):
        listed = " and ".join(str(i) for i in entries[:4])
        said = f"{BASE_COUNT} is {count}" if whole else f"{BASE_COUNT} is missing"
        right = entries == list(range(len(entries)))
        fix = Fix(f"set it to {len(entries)}", (Set(BASE_COUNT, len(entries), "u32"),)) if right else None
        yield found(
            f"{said}, there are entries {listed}" + ("" if right else ": they are counted from 0"),
            where=f"field:{BASE_COUNT}",
            fix=fix,
        )
    for i in entries:
        lacks = [n for n in ("name", "repo_url") if f"general.base_model.{i}.{n}" not in m]
        if lacks and not (lacks == ["repo_url"] and f"general.base_model.{i}.url" in m):
            key = f"general.base_model.{i}.{lacks[0]}"
            yield found(f"{key} is missing", where=f"field:{key}", severity=Severity.INFO,
                        fix=to_choose("write it", "--set", key))  # fmt: skip


@rule(Severity.INFO, changes_run=False)
def credit_missing(m: Model, ctx: Context) -> Drafts:
    """The file should say who quantised it, where it is published, in which languages and for what.

    Why. Files are mirrored, renamed and put into stores: what stands in them goes with them, a card does not.
    Evidence. The GGUF specification: `general.quantized_by`, `.repo_url`, `.tags`, `.languages`. `gguftool prepare`
    writes them from the source's card and from `--quantized-by` and `--repo`.
    Example. no general.quantized_by: who made this file is said nowhere
    Fix. `gguftool fix --set KEY=VALUE`, with the value of the card where it has one.
    """
    if ctx.publishing is None:
        return
    for one in missing(m, ctx.publishing.card, ctx.publishing.repo):
        yield _told(one)


def _told(one: Missing) -> Any:
    fix = Fix(f"write {one.shown}", (Set(one.key, one.value, one.type),)) if one.value else None
    text = f"no {one.key}: {one.why}" + (f"; {one.told_by} says {one.shown}" if one.value else "")
    return found(text, where=f"field:{one.key}", fix=fix or to_choose("write it", "--set", one.key))


@rule(Severity.INFO, role="any", whole=False, changes_run=False)
def own_records(m: Model, ctx: Context) -> Drafts:
    """Records of gguftool are for whoever works on the file, not for whoever downloads it.

    Why. Some scanners of model files object to keys that no specification has.
    Evidence. c4nary reports every key outside the specification (MET003). What the records say is in docs/build.md.
    Example. gguftool.version, gguftool.quantize.engine and 2 more are records of gguftool
    Fix. `gguftool fix --delete KEY`; llama.cpp reads none of them.
    """
    if ctx.publishing is None:
        return
    keys = records(m)
    if keys:
        more = f" and {len(keys) - 2} more" if len(keys) > 2 else ""
        joined = ", ".join(keys[:2]) if more else " and ".join(keys)
        is_are = "are records" if len(keys) > 1 else "is a record"
        fix = Fix("delete them", tuple(Delete(key) for key in keys))
        yield found(f"{joined}{more} {is_are} of gguftool", where=f"field:{keys[0]}", fix=fix)
