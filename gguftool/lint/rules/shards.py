"""Shards: the split keys, the names, and whether the files belong together."""

from __future__ import annotations

import os
from collections import Counter

from gguftool.edit.ops import Delete, Set
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, found, rule
from gguftool.model import Model, Part
from gguftool.model.shards import NAME, shard_name, split_keys
from gguftool.shell import FILE

TYPES = {"split.no": "u16", "split.count": "u16", "split.tensors.count": "i32"}
MANY = 64
_ODD_NAME = r"(.*?)(?:\.gguf)?-(\d{1,5})-of-(\d{1,5})(?:\.gguf)?"


@rule(Severity.ERROR, scope=Scope.SET, role="any", whole=False)
def shard_missing(m: Model, ctx: Context) -> Drafts:
    """All shards of a model must be there.

    Why. llama.cpp opens the others by name when it is given the first, and refuses when one is not there. Often
    only the first was downloaded.
    Evidence. `llama-model-loader.cpp` (b11434): "failed to load GGUF split from …-00002-of-00013.gguf".
    Example. shards 2, 3 of 3 are missing
    Fix. Download the missing files into the same folder.
    """
    if not m.missing_shards:
        return
    numbers = ", ".join(map(str, m.missing_shards[:10])) + (" …" if len(m.missing_shards) > 10 else "")
    hit = NAME.match(os.path.basename(m.name))
    names = [shard_name(hit["prefix"], n - 1, m.shard_count) for n in m.missing_shards] if hit else []
    plural = "shards" if len(m.missing_shards) > 1 else "shard"
    listed = f": {', '.join(names[:3])}{' …' if len(names) > 3 else ''}" if names else ""
    first = 1 in m.missing_shards
    yield found(
        f"{plural} {numbers} of {m.shard_count} {'are' if len(m.missing_shards) > 1 else 'is'} missing{listed}",
        where=f"shard:{m.missing_shards[0]}",
        llama_cpp="illegal split file idx: model must be loaded with the first split"
        if first
        else f"failed to load GGUF split from {names[0] if names else '…'}",
        missing=list(m.missing_shards),
        names=names,
    )


@rule(Severity.ERROR, role="any", whole=False)
def split_key_type(m: Model, ctx: Context) -> Drafts:
    """The split keys have types of their own: u16, u16 and i32.

    Why. llama.cpp reads `split.count` as u16 in every file, also when it is 1, and refuses another type; the
    other two are read when there is more than one shard.
    Evidence. `llama-model-loader.cpp` (b11434): "key split.count has wrong type u32 but expected type u16".
    Example. split.count is u32, llama.cpp reads u16
    Fix. Writes the same number with the right type.
    """
    for part in m.parts:
        many = split_keys(part.header) is not None
        for f in part.header.fields:
            wanted = TYPES.get(f.key)
            if wanted is None or f.type_name == wanted or not (many or f.key == "split.count"):
                continue
            value = f.told
            ok = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 15
            yield found(
                f"{f.key} is {f.type_name}, llama.cpp reads {wanted}",
                where=f"field:{f.key}",
                span=f.span,
                path=part.name,
                fix=Fix(f"write the same number as {wanted}", (Set(f.key, value, wanted),), safe=True) if ok else None,
                llama_cpp=f"key {f.key} has wrong type {f.type_name} but expected type {wanted}",
            )


@rule(Severity.ERROR, role="any", whole=False)
def split_number(m: Model, ctx: Context) -> Drafts:
    """The split keys of one file must make sense.

    Why. A shard's number counts from 0 and is smaller than the count; without it the file cannot be placed in its
    set.
    Evidence. `llama-model-loader.cpp` (b11434): "missing key split.no in GGUF split …", "invalid split file idx".
    Example. split.no is 3, split.count is 3: numbers count from 0
    Fix. `gguftool fix --set split.no=N`, N one less than in the file's name.
    """
    for part in m.parts:
        keys = split_keys(part.header)
        if keys is None:
            continue
        if part.header.get("split.no") is None:
            yield found(
                "split.no is missing",
                where="field:split.no",
                path=part.name,
                llama_cpp="missing key split.no in GGUF split",
            )
        elif not 0 <= keys.no < keys.count:
            yield found(
                f"split.no is {keys.no}, split.count is {keys.count}: numbers count from 0",
                where="field:split.no",
                path=part.name,
                llama_cpp=f"illegal split file idx: {keys.no}",
            )


@rule(Severity.ERROR, scope=Scope.SET, role="any", whole=False)
def shard_name_invalid(m: Model, ctx: Context) -> Drafts:
    """Shards must be named NAME-00001-of-00003.gguf.

    Why. llama.cpp derives the names of the others from that of the first: five digits, counted from 1 in the name
    and from 0 in `split.no`. A renamed or four-digit name, or a store that names files by hash, cannot be loaded.
    Evidence. `llama.cpp:llama_split_prefix` (b11434): "invalid split file name: …", "invalid split file idx: …
    expected …".
    Example. model-1-of-3.gguf is shard 1 of 3: llama.cpp looks for model-00001-of-00003.gguf
    Fix. Rename by content: `gguftool verify --repair-names`.
    """
    import re

    for part in m.parts:
        keys = split_keys(part.header)
        if keys is None or not 0 <= keys.no < keys.count or "://" in part.name:
            continue
        name = os.path.basename(part.name)
        hit = NAME.match(name)
        if hit and int(hit["no"]) == keys.no + 1 and int(hit["count"]) == keys.count:
            continue
        odd = re.fullmatch(_ODD_NAME, name, re.S)
        prefix = hit["prefix"] if hit else odd[1] if odd else name.removesuffix(".gguf")
        right = shard_name(prefix, keys.no, keys.count)
        said = "invalid split file name" if not hit else f"invalid split file idx: {keys.no}"
        yield found(
            f"{name} is shard {keys.no + 1} of {keys.count}: llama.cpp looks for {right}",
            where=f"shard:{keys.no + 1}",
            path=part.name,
            fix=Fix(f"rename it to {right}", command=("gguftool", "verify", "--repair-names", FILE)),
            llama_cpp=f"{said}: {name}",
            right=right,
        )


@rule(Severity.ERROR, scope=Scope.SET, role="any")
def shard_tensor_total(m: Model, ctx: Context) -> Drafts:
    """All shards together must hold the tensors that the keys promise.

    Why. A set from which a tool dropped tensors, or whose shards come from different splits, is refused.
    Evidence. `llama-model-loader.cpp` (b11434): "corrupted model: … tensors expected but … found".
    Example. split.tensors.count is 12, the shards hold 11
    Fix. Download or split again.
    """
    if m.missing_shards or len(m.parts) < 2:
        return
    keys = split_keys(m.header)
    have = sum(len(part.header.tensors) for part in m.parts)
    if keys is not None and keys.tensors is not None and keys.tensors != have:
        yield found(
            f"split.tensors.count is {keys.tensors}, the shards hold {have}",
            where="field:split.tensors.count",
            llama_cpp=f"corrupted model: {keys.tensors} tensors expected but {have} found",
        )


@rule(Severity.ERROR, scope=Scope.SET, role="any", whole=False)
def shard_keys_differ(m: Model, ctx: Context) -> Drafts:
    """All shards must agree how many they are and how many tensors the model has.

    Why. llama.cpp checks the number of each shard only, so a shard of another split of the same model slips in.
    Evidence. `llama-model-loader.cpp` (b11434) compares split.no, not split.count, of later shards.
    Example. shard 2 says 4 shards, shard 1 says 3
    Fix. Find the file that belongs to this set.
    """
    first = split_keys(m.header)
    if first is None:
        return
    own = m.parts[0].no + 1
    claims = [(p.no + 1, split_keys(p.header), p.name) for p in m.parts[1:]]
    # A file that has the name of a shard of this set and the keys of another is not taken into it.
    claims += [(s.named[1] if s.named else s.keys.no + 1, split_keys(s.header), s.path) for s in m.strangers]
    for no, keys, path in sorted(claims, key=lambda claim: claim[0]):
        if keys is None:
            yield found(f"shard {no} has no split keys", where=f"shard:{no}", path=path)
        elif keys.count != first.count:
            text = f"shard {no} says {keys.count} shards, shard {own} says {first.count}"
            yield found(text, where=f"shard:{no}", path=path)
        elif keys.tensors != first.tensors:
            text = f"shard {no} says {keys.tensors} tensors, shard {own} says {first.tensors}"
            yield found(text, where=f"shard:{no}", path=path)


def _types(part: Part) -> Counter[str]:
    """Tensor types of the weight matrices of one shard."""
    return Counter(t.type_name for t in part.header.tensors if len(t.shape) > 1)


@rule(Severity.WARNING, scope=Scope.SET, role="any")
def shard_foreign(m: Model, ctx: Context) -> Drafts:
    """The shards of a set should be quantised alike.

    Why. A Q8_0 shard among Q4_K_M ones loads without a word: llama.cpp compares neither type nor origin. It
    usually means that files of two downloads lie in one folder.
    Evidence. Measured on b11434: shards 1 and 3 of Q4_K_M with shard 2 of Q8_0 load and merge silently.
    Example. shard 2 is Q8_0 throughout, the others are mostly Q4_K
    Fix. Download that shard again from the same place; `gguftool verify --hash` compares with the Hub.
    """
    if len(m.parts) < 2:
        return
    counts = {part.no: _types(part) for part in m.parts}
    whole: Counter[str] = Counter()
    for own in counts.values():
        whole.update(own)
    for part in m.parts:
        own = counts[part.no]
        rest = whole - own
        if sum(own.values()) < 3 or not rest:
            continue
        top, n = own.most_common(1)[0]
        if n == sum(own.values()) and rest[top] <= sum(rest.values()) // 10:
            others: Counter[str] = sum((c for no, c in counts.items() if no != part.no), Counter())
            other = others.most_common(1)[0][0]
            # With two shards each is foreign to the other; the later one is named.
            if len(m.parts) == 2 and part.no == 0:
                continue
            yield found(
                f"shard {part.no + 1} is {top} throughout, the others are mostly {other}",
                where=f"shard:{part.no + 1}",
                path=part.name,
            )


@rule(Severity.WARNING, scope=Scope.SET, role="any", changes_run=False)
def shard_metadata(m: Model, ctx: Context) -> Drafts:
    """Only the first shard should carry metadata.

    Why. llama.cpp reads metadata from the first shard alone; keys in later ones are never seen, so an edit there
    does nothing.
    Evidence. `llama-model-loader.cpp`, `gguf-split.cpp` (b11434).
    Example. shard 2 has 4 keys besides split.*: nobody reads them
    Fix. Edit the first shard: `gguftool fix` does so by itself.
    """
    for part in m.parts:
        extra = [f.key for f in part.header.fields if f.key not in TYPES and f.key != "general.alignment"]
        if part.no > 0 and extra:
            listed = ", ".join(extra[:3]) + (" …" if len(extra) > 3 else "")
            text = f"shard {part.no + 1} has {len(extra)} keys besides split.* that nobody reads: {listed}"
            yield found(text, where=f"shard:{part.no + 1}", path=part.name, keys=extra[:50])


@rule(Severity.INFO, role="any")
def split_keys_left(m: Model, ctx: Context) -> Drafts:
    """A whole model needs no split keys.

    Why. llama-gguf-split --merge leaves them behind, with a count of 0 or 1. llama.cpp takes the file as whole;
    other programs look for shards that do not exist.
    Evidence. `gguf-split.cpp` (b11434).
    Example. split.count is 0 in a whole model
    Fix. Deletes the keys.
    """
    if split_keys(m.header) is not None or len(m.parts) > 1:
        return
    left = [key for key in TYPES if key in m]
    if left:
        yield found(
            f"{', '.join(left)} left in a whole model (split.count is {m.get('split.count', 'missing')})",
            where=f"field:{left[0]}",
            fix=Fix("delete the split keys", tuple(Delete(key) for key in left), safe=True),
        )


@rule(Severity.WARNING, scope=Scope.SET, role="any", whole=False, changes_run=False)
def shards_many(m: Model, ctx: Context) -> Drafts:
    """More than 64 shards are too many for some programs.

    Why. Builds with a fixed number of ggml contexts cannot open more; every shard costs a file descriptor and a
    mapping.
    Evidence. ik_llama.cpp issue 1336.
    Example. 163 shards
    Fix. `gguftool merge`, or split with larger pieces.
    """
    if m.shard_count > MANY:
        fix = Fix("merge the shards", command=("gguftool", "merge", FILE, "-o", "merged.gguf"))
        yield found(f"{m.shard_count} shards: some programs open at most {MANY}", where="field:split.count", fix=fix)
