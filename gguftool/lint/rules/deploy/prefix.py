"""Keys under the wrong prefix: another architecture's, `general.`, or none."""

from __future__ import annotations

from functools import cache

from gguftool.edit.ops import Delete, Rename
from gguftool.facts.arch import names
from gguftool.facts.keys import ARCH, named_keys, readers, reading
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule
from gguftool.model import Model

DEPLOY = ("context_length", "rope.freq_base", "rope.freq_scale", "kv_cache_type")
"""The deploy fields without their prefix."""


@cache
def arch_keys() -> frozenset[str]:
    """All keys that some architecture reads under its own prefix, without the prefix; and gguftool's two."""
    read = {k.removeprefix(ARCH) for k in named_keys() if k.startswith(ARCH)}
    return frozenset(k for k in read if readers(k)) | set(DEPLOY)


@cache
def _prefixes() -> frozenset[str]:
    # clip.* keys stand in old files that hold a model and its projector together.
    return frozenset(names()) - {"clip"}


def misplaced(m: Model) -> list[tuple[str, str]]:
    """Keys under a wrong prefix, each with the key it should be."""
    arch = m.architecture
    if not arch:
        return []
    out, prefixes = [], _prefixes()
    for key in m.fields:
        head, _, rest = key.partition(".")
        if key in DEPLOY or (head == "general" and rest in DEPLOY):
            out.append((key, f"{arch}.{key if key in DEPLOY else rest}"))
        # The keys of all architectures take longer to gather than a plan: most files have none of another's.
        elif head != arch and head in prefixes and rest in arch_keys():
            out.append((key, f"{arch}.{rest}"))
    return out


@rule(Severity.WARNING, known_arch=True)
def foreign_prefix(m: Model, ctx: Context) -> Drafts:
    """Keys must stand under the file's own architecture.

    Why. llama.cpp reads `qwen2.context_length` in a qwen2 file and nothing else. `llama.context_length`, copied
    from an article, is ignored without a word, so the edit seems done and changes nothing.
    Evidence. `llama-arch.cpp:LLM_KV` (b11434) builds every key from `general.architecture`; keys of other
    architectures are never read (measured).
    Example. llama.context_length: nobody reads it in a qwen2 file
    Fix. Rename it, or delete it when the right key is there: `gguftool fix --rename OLD=NEW`.
    """
    for key, right in misplaced(m):
        there = right in m
        fix = (
            Fix(f"delete {key} ({right} is there)", (Delete(key),), safe=True)
            if there
            else Fix(f"rename {key} to {right}", (Rename(key, right),), safe=True)
        )
        same = there and m.get(right) == m.get(key)
        state = "" if not there else ", which is there with the same value" if same else ", which is there and rules"
        yield found(
            f"{key}: nobody reads it in a {m.architecture} file; the key is {right}{state}",
            where=f"field:{key}",
            fix=fix,
            changes_run=not there and reading(right, m.architecture) is not None,
            right=right,
        )
