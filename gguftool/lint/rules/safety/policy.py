"""Demands of the user's policy file (`lint --policy FILE`); silent without one."""

from __future__ import annotations

from gguftool.edit.ops import Delete
from gguftool.edit.spelled import spellable
from gguftool.format.types import file_type_name
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, edit, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.credits import text_sha256
from gguftool.model.role import role


@rule(Severity.ERROR, role="any")
def policy_architecture(m: Model, ctx: Context) -> Drafts:
    """The architecture must be one that the policy allows.

    Why. An allow-list keeps untested model families out of production.
    Evidence. `architectures` and `roles` of the policy file.
    Example. architecture mamba is not allowed (llama, qwen2)
    Fix. Choose another model or extend the policy.
    """
    if ctx.policy is None:
        return
    allowed, roles = ctx.policy.architectures, ctx.policy.roles
    if allowed and m.architecture not in allowed:
        name = m.architecture or "(none)"
        text = f"policy: architecture {name} is not allowed ({', '.join(allowed)})"
        yield found(text, where="field:general.architecture")
    what = ctx.once("role", lambda: role(m))
    # An embedding model is a model too, unless the policy tells them apart.
    fits = what in roles or (what == "encoder" and "model" in roles)
    if roles and not fits:
        yield found(f"policy: a file of role {what} is not allowed ({', '.join(roles)})", where="file", role=what)


@rule(Severity.ERROR, scope=Scope.FILE, role="any")
def policy_size(m: Model, ctx: Context) -> Drafts:
    """The files must not be larger than the policy allows.

    Why. A limit catches the F16 file that was meant to be Q4_K_M before it fills the node's disk.
    Evidence. `max_size` of the policy file.
    Example. 141,000,000,000 bytes, the policy allows 80,000,000,000
    Fix. Choose a smaller quantisation.
    """
    limit = ctx.policy.max_size if ctx.policy is not None else None
    if limit is not None and m.file_size > limit:
        yield found(f"policy: {m.file_size:,} bytes, allowed are {limit:,}", where="file", size=m.file_size)


@rule(Severity.ERROR)
def policy_context(m: Model, ctx: Context) -> Drafts:
    """The context length must lie within the policy.

    Why. A context of a million tokens reserves memory for all of it when nobody sets `-c`; one that is too short
    cannot serve the application.
    Evidence. `min_context` and `max_context` of the policy file.
    Example. context length 1,048,576, the policy allows 131,072
    Fix. `gguftool fix --context-length N`.
    """
    has = m.arch.context_length
    if ctx.policy is None or has is None:
        return
    low, high = ctx.policy.min_context, ctx.policy.max_context
    where = f"field:{m.architecture}.context_length"
    if high is not None and has > high:
        fix = Fix(f"lower it to {high:,}", command=edit("--context-length", str(high)))
        yield found(f"policy: context length {has:,}, allowed are {high:,}", where=where, fix=fix)
    if low is not None and has < low:
        yield found(f"policy: context length {has:,}, needed are {low:,}", where=where)


@rule(Severity.ERROR)
def policy_quantization(m: Model, ctx: Context) -> Drafts:
    """Quantisation and cache types must be ones that the policy allows.

    Why. A team that measured two recipes wants no third one by accident.
    Evidence. `file_types` and `cache_types` of the policy file.
    Example. file type Q2_K is not allowed (Q4_K_M, Q8_0)
    Fix. Choose another file; `gguftool fix --cache-type T` for the cache.
    """
    if ctx.policy is None:
        return
    ftype = m.get("general.file_type")
    if ctx.policy.file_types:
        name = file_type_name(ftype) if isinstance(ftype, int) else "(none)"
        if name not in ctx.policy.file_types:
            text = f"policy: file type {name} is not allowed ({', '.join(ctx.policy.file_types)})"
            yield found(text, where="field:general.file_type")
    kv = m.arch.raw("kv_cache_type")
    if ctx.policy.cache_types and isinstance(kv, str):
        for name in dict.fromkeys(kv.split("/")):
            if name not in ctx.policy.cache_types:
                text = f"policy: cache type {name} is not allowed ({', '.join(ctx.policy.cache_types)})"
                yield found(text, where=f"field:{m.architecture}.kv_cache_type")


@rule(Severity.ERROR, role="any")
def policy_keys(m: Model, ctx: Context) -> Drafts:
    """Keys must be there, absent or have a certain value, as the policy says.

    Why. A licence, an owner or a revision in the file is what audits ask for.
    Evidence. `required_keys`, `forbidden_keys`, `licenses` and `[values]` of the policy file.
    Example. general.license is missing
    Fix. `gguftool fix --set KEY=VALUE` or `--delete KEY`.
    """
    if ctx.policy is None:
        return
    for key in ctx.policy.required_keys:
        whole = m.full_key(key) if m.architecture else key
        if whole not in m:
            fix = to_choose("set it", "--set", whole)
            yield found(f"policy: {whole} is missing", where=f"field:{whole}", fix=fix)
    for key in ctx.policy.forbidden_keys:
        whole = m.full_key(key) if m.architecture else key
        if whole in m:
            fix = Fix("delete it", command=edit("--delete", whole)) if spellable(Delete(whole)) else None
            yield found(f"policy: {whole} is not allowed", where=f"field:{whole}", fix=fix)
    if ctx.policy.licenses and m.get("general.license") not in ctx.policy.licenses:
        said = m.get("general.license", "(none)")
        text = f"policy: licence {said} is not allowed ({', '.join(ctx.policy.licenses)})"
        yield found(text, where="field:general.license")
    for key, wanted in ctx.policy.values.items():
        if m.get(key) != wanted:
            text = f"policy: {key} is {m.get(key, 'missing')}, must be {wanted}"
            yield found(text, where=f"field:{key}")


@rule(Severity.ERROR)
def policy_template(m: Model, ctx: Context) -> Drafts:
    """The chat template must be one that the policy pins.

    Why. A template is code that runs on every request. Pinning its hash shows when a new upload changes it.
    Evidence. `chat_template_sha256` of the policy file; reports of poisoned templates in public repositories.
    Example. the chat template has sha256 3f7a…, which is not pinned
    Fix. Review the template (`gguftool dump --raw tokenizer.chat_template`), then pin it or put the old one back.
    """
    if ctx.policy is None or not ctx.policy.chat_template_sha256:
        return
    digest = text_sha256(m.fields.get("tokenizer.chat_template"))
    if digest is None:
        yield found("policy: there is no chat template, the policy pins one", where="field:tokenizer.chat_template")
        return
    if digest not in ctx.policy.chat_template_sha256:
        yield found(
            f"policy: the chat template has sha256 {digest}, which is not pinned",
            where="field:tokenizer.chat_template",
            sha256=digest,
        )
