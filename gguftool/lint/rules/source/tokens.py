"""Special tokens, vocabulary and chat template against the tokenizer's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gguftool.chat.infolder import JINJA
from gguftool.chat.talk import KEY
from gguftool.edit.ops import Set
from gguftool.lint.rule import Context, Drafts, Fix, Scope, Severity, edit, found, not_evaluated, rule
from gguftool.lint.rules.source.numbers import source
from gguftool.lint.sentence import ends
from gguftool.model import Model
from gguftool.model.embedder import embedder
from gguftool.model.vocab import TOKENS, id_key, vocabulary
from gguftool.shell import FILE, Words

if TYPE_CHECKING:
    from gguftool.lint.against import HfFolder


def _unread(folder: HfFolder) -> str:
    """Why tokenizer_config.json is there and could not be read, or ""."""
    why = folder.unread.get("tokenizer_config.json")
    return f"tokenizer_config.json {why}" if why else ""


@rule(Severity.WARNING, scope=Scope.SOURCE, chat=True)
def source_eos(m: Model, ctx: Context) -> Drafts:
    """Every id that ends a generation in the source must end one in the file.

    Why. generation_config.json often lists several; a GGUF file has room for eos, eot and eom, and llama.cpp adds
    tokens whose names it knows. One that is left out is printed, and the answer runs on.
    Evidence. llama.cpp issues 6745 and 6772 (Llama 3), 13505 (GLM-4).
    Example. generation_config.json ends at 106 '<end_of_turn>', which does not end a generation here
    Fix. Names it as eos, eot or eom, whichever is free.
    """
    folder, vocab = source(ctx), vocabulary(m)
    if not vocab.count or vocab.kind is None or vocab.kind.name == "none":
        return
    ids = folder.eos_ids
    if not ids:
        yield not_evaluated("the folder names no eos_token_id")
        return
    missing = [i for i in ids if i not in vocab.eog]
    free = [r for r in ("eos", "eot", "eom") if vocab.stored(r) is None]
    for i in missing:
        if i >= vocab.count:
            yield found(
                f"the folder ends generations at {i:,}, but there are {vocab.count:,} tokens",
                where=f"field:{id_key('eos')}",
            )
            continue
        role = free.pop(0) if free else "eos" if vocab.stored("eos") not in ids else None
        yield found(
            f"the folder ends generations at {vocab.show(i)}, which does not end one here",
            where=f"field:{id_key('eos')}",
            fix=Fix(f"name it as {role}", (Set(id_key(role), i, "u32"),)) if role else None,
            id=i,
        )


@rule(Severity.WARNING, scope=Scope.SOURCE)
def source_special_tokens(m: Model, ctx: Context) -> Drafts:
    """bos, eos, unk and pad should be the tokens the tokenizer's files name.

    Why. A shifted id starts prompts with a wrong token or pads with one that means something.
    Evidence. tokenizer_config.json and special_tokens_map.json; chat fine-tunes may move eos on purpose, the list of
    generation_config.json counts for it.
    Example. tokenizer.ggml.bos_token_id is 11 ',', tokenizer_config.json has '<s>' (1)
    Fix. Writes the id of the named token.
    """
    folder, vocab = source(ctx), vocabulary(m)
    if not vocab.count or vocab.kind is None or vocab.kind.name == "none":
        return
    if why := _unread(folder):
        yield not_evaluated(why)
        return
    for role in ("bos", "eos", "unk", "pad"):
        text = folder.special_text(role)
        here = vocab.special(role) if role in ("bos", "eos") else vocab.stored(role)
        if text is None or here is None or vocab.text(here) == text:
            continue
        if role == "eos" and here in folder.eos_ids:
            continue
        there = vocab.id_of(text)
        fix = Fix(f"set it to {vocab.show(there)}", (Set(id_key(role), there, "u32"),)) if there is not None else None
        # Without BOS in front of prompts the id is only shown.
        mild = role in ("unk", "pad") or (role == "bos" and not vocab.add_bos)
        yield found(
            f"{id_key(role)} is {vocab.show(here)}, tokenizer_config.json has {text!r}"
            + (" (not in the vocabulary)" if there is None else f" ({there})"),
            where=f"field:{id_key(role)}",
            severity=Severity.INFO if mild else None,
            fix=fix,
        )


@rule(Severity.WARNING, scope=Scope.SOURCE)
def source_add_bos(m: Model, ctx: Context) -> Drafts:
    """add_bos_token and add_eos_token should be what the tokenizer's configuration says.

    Why. A BOS the model never saw, or a missing one, makes it repeat itself or lose the thread.
    Evidence. llama.cpp issue 3966: Yi with BOS in front of every prompt.
    Example. tokenizer.ggml.add_bos_token is true, tokenizer_config.json has false
    Fix. Writes the value of tokenizer_config.json, one byte in place.
    """
    folder, vocab = source(ctx), vocabulary(m)
    if vocab.kind is None or vocab.kind.name == "none":
        return
    if embedder(m) is not None and ends(folder) is not None:
        # tokenizer.json outranks it (`source-text-ends`).
        return
    if why := _unread(folder):
        yield not_evaluated(why)
        return
    for name, here in (("add_bos_token", vocab.add_bos), ("add_eos_token", vocab.add_eos)):
        there, key = folder.tokenizer.get(name), f"tokenizer.ggml.{name}"
        if not isinstance(there, bool) or here == there or (vocab.model == "gemma4" and name == "add_bos_token"):
            continue
        stated = str(here).lower() if key in m else f"missing (llama.cpp takes {str(here).lower()})"
        yield found(
            f"{key} is {stated}, tokenizer_config.json has {str(there).lower()}",
            where=f"field:{key}",
            fix=Fix(f"write {str(there).lower()}", (Set(key, there, "bool"),)),
            file=here,
            source=there,
        )


@rule(Severity.INFO, scope=Scope.SOURCE)
def source_vocabulary_size(m: Model, ctx: Context) -> Drafts:
    """Know when the vocabulary has another size than config.json says.

    Why. Converters cut rows without a token and pad missing ones, so a difference is often meant; tokens added
    behind the weights' back are not. Whether tokens and embedding agree is the rule vocabulary-size-mismatch.
    Evidence. `conversion/gemma.py` (b11434) removes rows beyond the token list.
    Example. 262,144 tokens, config.json has vocab_size 262,208
    Fix. None.
    """
    count, there = vocabulary(m).count, source(ctx).number("vocab_size")
    if count and there is not None and count != there:
        yield found(
            f"{count:,} tokens, config.json has vocab_size {int(there):,}", where=f"field:{TOKENS}", source=int(there)
        )


@rule(Severity.INFO, scope=Scope.SOURCE, chat=True)
def source_chat_template(m: Model, ctx: Context) -> Drafts:
    """Know when the chat template is not the one of the source.

    Why. Publishers mend templates on purpose, but a file can also carry an old one, or none: that is a warning. So is
    one of a folder with two: training and transformers take chat_template.jinja, the converter prefers what
    tokenizer_config.json says, and the model gets prompts that it was not trained with.
    Evidence. transformers 5.24 (`tokenization_utils_base.py`), `gguf-py/gguf/vocab.py` (b11434); swift-transformers
    issue 204.
    Example. the chat template differs from the one in ./model (first at line 3)
    Fix. `gguftool fix --chat-template FILE`; safe where the converter took the other one of two.
    """
    folder = source(ctx)
    if why := _unread(folder):
        yield not_evaluated(why)
        return
    here, used, written = m.get(KEY), folder.templates.used, folder.templates.converted
    if used is None or not used.text.strip() or here == used.text:
        return
    there, file = used.text, used.file
    # As the converter left it: nobody has chosen this one.
    left = folder.templates.apart and here == (written.text if written else None)
    if file == JINJA:
        command: Words = edit("--chat-template", f"{folder.name.rstrip('/')}/{file}")
    else:
        again = ("--against", folder.name, "--select", "source-chat-template", "--fix-unsafe")
        command = ("gguftool", "lint", FILE, *again)
    fix = Fix("take the template of the source", (Set(KEY, there, "str"),), left, command)
    if not isinstance(here, str):
        yield found(
            f"no {KEY}, but {file} of {folder.name} has one",
            where=f"field:{KEY}",
            severity=Severity.WARNING,
            fix=fix,
        )
        return
    if left and written is not None:
        yield found(
            f"the chat template is that of {written.file}; training and transformers take the one in {file} of "
            f"{folder.name}",
            where=f"field:{KEY}",
            severity=Severity.WARNING,
            fix=fix,
            used=file,
            converted=written.file,
        )
        return
    line = next((i for i, (a, b) in enumerate(_pairs(here, there), 1) if a != b), 1)
    yield found(
        f"the chat template differs from the one in {file} of {folder.name} (first at line {line})",
        where=f"field:{KEY}",
        fix=fix,
        line=line,
    )


def _pairs(a: str, b: str) -> list[tuple[str | None, str | None]]:
    one, two = a.split("\n"), b.split("\n")
    length = max(len(one), len(two))
    return [(one[i] if i < len(one) else None, two[i] if i < len(two) else None) for i in range(length)]
