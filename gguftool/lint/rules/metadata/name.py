"""What a model is called in its own keys."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.lint.rules.licence import credit
from gguftool.model import Model
from gguftool.model.called import no_name


@rule(Severity.WARNING, changes_run=False)
def name_of_model(m: Model, ctx: Context) -> Drafts:
    """general.name must be a name, not what a folder happened to be called.

    Why. It is what every program shows. The converter takes the folder's name when the source names nothing: a commit
    of the cache, `model`, `checkpoint-500`. That there is none at all is told by `gguftool push-check`.
    Evidence. `gguf-py/gguf/metadata.py:apply_metadata_heuristic` (b11434).
    Example. general.name is '9217f5db79a2…', a commit and no name; general.source says Qwen2.5 7B Instruct
    Fix. Writes the name of the source, the card, the repository or the file, whichever tells one first; else
    `gguftool fix --set general.name=NAME`.
    """
    key, p = "general.name", ctx.publishing
    said = credit(m, ctx).name
    why = no_name(said)
    if not why or (not said and p is None):
        return
    from gguftool.edit.publish import right_name

    against = ctx.against.card if ctx.against is not None else None
    name, by = right_name(m, p.card if p is not None else against, p.repo if p is not None else "")
    fix = Fix(f"write {name}", (Set(key, name, "str"),)) if name else to_choose("name it", "--set", key)
    severity = Severity.INFO if p is None else Severity.WARNING
    yield found(
        f"{key} {why}" + (f"; {by} says {name}" if name else ""), where=f"field:{key}", severity=severity, fix=fix
    )
