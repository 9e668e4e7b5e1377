"""What starts a prompt and what ends an answer, by the ids and by the chat template."""

from __future__ import annotations

from gguftool.chat.markers import SURE
from gguftool.chat.talk import chat
from gguftool.edit.ops import Delete, Set
from gguftool.lint.rule import Context, Drafts, Fix, Severity, edit, found, not_evaluated, rule
from gguftool.lint.rules.tokenizer.ids import START
from gguftool.model import Model
from gguftool.model.vocab import BYTE, CONTROL, NORMAL, Vocabulary, id_key, names, vocabulary
from gguftool.shell import blank


def _set_text(vocab: Vocabulary, ids: frozenset[int]) -> str:
    return ", ".join(vocab.show(i) for i in sorted(ids)) or "nothing"


@rule(Severity.WARNING, role="any", chat=True)
def end_of_turn_not_eog(m: Model, ctx: Context) -> Drafts:
    """The token with which the template ends a turn must end the generation.

    Why. The model writes it after every answer. If it is neither eos nor eot, and llama.cpp does not know its name, the
    answer runs on: the next user's turn, "assistant", until the limit.
    Evidence. llama.cpp issues 6745, 6747, 6772 (Llama 3); the set is the one b11434 builds from ids and names.
    Example. the template ends turns with 260 '<|fin|>', which does not end a generation; only 257 '<|im_end|>' does
    Fix. Names it as eot, which adds to the set; eos stays.
    """
    talk = chat(m)
    if talk.source is None:
        return
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    i, vocab = talk.end_of_turn, vocabulary(m)
    if i is None or i in vocab.eog:
        return
    key = id_key("eot")
    stored = vocab.stored("eot")
    yield found(
        f"the template ends turns with {vocab.show(i)}, which does not end a generation; "
        f"only {_set_text(vocab, vocab.eog)} does",
        where=f"field:{key if stored is not None else id_key('eos')}",
        fix=Fix(f"name it as eot: {vocab.show(i)}", (Set(key, i, "u32"),)) if stored is None else None,
        token=i,
        eog=sorted(vocab.eog),
    )


@rule(Severity.INFO, role="any", chat=True)
def end_of_turn_by_name_only(m: Model, ctx: Context) -> Drafts:
    """The file should name the token that ends a turn.

    Why. llama.cpp b11434 finds it by its text, so llama-server stops. Programs that only read eos and eot, and builds
    that do not know the name, run on.
    Evidence. The list of names in `llama_vocab::impl::load`; llama.cpp issue 9606.
    Example. the template ends turns with 257 '<|im_end|>', which is neither eos (256 '<|bos|>') nor eot (none)
    Fix. Names it as eot; llama.cpp does the same.
    """
    talk = chat(m)
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    if talk.source is None:
        return
    i, vocab = talk.end_of_turn, vocabulary(m)
    if i is None or i not in vocab.eog or i in (vocab.special("eos"), vocab.special("eot")):
        return
    key = id_key("eot")
    # Beside an eos that is an ordinary word this would make a broken file look finished.
    named = key in m or _ordinary(vocab, vocab.stored("eos"))
    fix = None if named else Fix(f"name it as eot: {vocab.show(i)}", (Set(key, i, "u32"),), safe=True)
    yield found(
        f"the template ends turns with {vocab.show(i)}, which is neither eos ({vocab.show(vocab.special('eos'))}) nor "
        f"eot ({vocab.show(vocab.stored('eot'))}); llama.cpp knows it by its name",
        where=f"field:{id_key('eos')}",
        fix=fix,
        token=i,
        eog=sorted(vocab.eog),
    )


def _ordinary(vocab: Vocabulary, token: int | None) -> bool:
    """A token that stands for text: typed so, and neither written like a marker nor known by its name."""
    if token is None or not 0 <= token < (vocab.count or 0) or vocab.type_of(token) not in (NORMAL, BYTE):
        return False
    text = vocab.text(token)
    return text not in names("eog") and not SURE.fullmatch(text)


@rule(Severity.WARNING, role="any")
def eos_not_control(m: Model, ctx: Context) -> Drafts:
    """The token that ends an answer must not be an ordinary word.

    Why. llama.cpp adds whatever eos, eot and eom name to the tokens that end a generation: every answer stops where
    that word would come, with finish_reason "stop", and the token that does end a turn may be missing from the set.
    Evidence. "special_eos_id is not in special_eog_ids - the tokenizer config may be incorrect"; run on b11434 with
    eos = 260 ' the': answers end at the first "the".
    Example. tokenizer.ggml.eos_token_id is 260 ' the', an ordinary token: every answer ends where it would come
    Fix. The token that ends a turn of the template, or the one with the usual name; otherwise
    `gguftool fix --special eos=TEXT`.
    """
    vocab = vocabulary(m)
    if not vocab.count or vocab.kind is None or vocab.kind.name in ("none", "TEST"):
        return
    for role in ("eos", "eot", "eom"):
        i, key = vocab.stored(role), id_key(role)
        if not _ordinary(vocab, i) or START.fullmatch(vocab.text(i or 0)):
            continue
        talk = chat(m)
        right = talk.end_of_turn if talk.source is not None and not talk.unjudged else None
        if right is None or _ordinary(vocab, right):
            known = {n for name in names("eog") if (n := vocab.id_of(name)) is not None}
            right = known.pop() if len(known) == 1 else None
        if role == "eos":
            fix = Fix(f"set it to {vocab.show(right)}", (Set(key, right, "u32"),)) if right is not None else None
        else:
            fix = Fix(f"do not name one: {key}", (Delete(key),))
        yield found(
            f"{key} is {vocab.show(i)}, an ordinary token: every answer ends where it would come",
            where=f"field:{key}",
            # The converter names the blank line of RWKV World as eot; its models end their turns so.
            severity=Severity.INFO if vocab.kind.name == "RWKV" else None,
            fix=None if vocab.kind.name == "RWKV" else fix or _choose(role),
            id=i,
        )


def _choose(role: str) -> Fix:
    return Fix(f"name the {role} token", command=edit("--special", blank(f"{role}=")))


@rule(Severity.INFO, role="any", chat=True)
def eos_and_eot_alike(m: Model, ctx: Context) -> Drafts:
    """When eos and eot are one token, another terminator may have been meant.

    Why. Converters that swap the two leave one out; a program that only reads ids then prints the other as text.
    Evidence. llama.cpp issue 13505 (GLM-4): `<|endoftext|>` leaks into answers.
    Example. eos and eot are both 257 '<|im_end|>', although 259 '<|endoftext|>' is there; generation ends at 257
    …, 259 …
    Fix. `gguftool fix --special eos=TEXT`.
    """
    vocab = vocabulary(m)
    eos = vocab.stored("eos")
    if eos is None or eos != vocab.stored("eot"):
        return
    others = [i for n in names("eog") if (i := vocab.id_of(n)) is not None and i != eos and vocab.type_of(i) == CONTROL]
    if others:
        yield found(
            f"eos and eot are both {vocab.show(eos)}, although {vocab.show(others[0])} is there; "
            f"generation ends at {_set_text(vocab, vocab.eog)}",
            where=f"field:{id_key('eos')}",
            fix=Fix(
                "tell eos and eot apart",
                command=edit("--special", f"eos={vocab.text(others[0])}"),
            ),
            eog=sorted(vocab.eog),
        )


@rule(Severity.WARNING, role="any", chat=True)
def nothing_ends_generation(m: Model, ctx: Context) -> Drafts:
    """Some token must end a generation.

    Why. Without eos, eot or a token with a known name every answer runs to the limit.
    Evidence. "printing all EOG tokens" of b11434 prints none.
    Example. no token ends a generation: no eos, no eot, no token with a known name
    Fix. `gguftool fix --special eos=TEXT`.
    """
    vocab = vocabulary(m)
    if vocab.kind is None or vocab.kind.name not in ("SPM", "BPE") or not vocab.count or vocab.eog:
        return
    yield found(
        "no token ends a generation: no eos, no eot, no token with a known name",
        where=f"field:{id_key('eos')}",
        fix=Fix("name the eos token", command=edit("--special", blank("eos="))),
    )


@rule(Severity.WARNING, role="any", chat=True)
def double_bos(m: Model, ctx: Context) -> Drafts:
    """A prompt should start with one BOS.

    Why. Two of them cost quality in many models. llama-server takes one away when the prompt of the template
    starts with it and add_bos_token is true, so there only a second one, or one behind other text, gets through.
    Programs that tokenize the rendered prompt with special tokens added get two: for them this is an info.
    Evidence. `common/chat.cpp:common_chat_template_direct_apply_impl` (b11434); "Added a BOS token to the prompt
    …".
    Example. the template starts with '<s>' and add_bos_token is true: programs other than llama-server may add it
    twice
    Fix. None without a choice: `gguftool fix --set tokenizer.ggml.add_bos_token=false`, or a template without it.
    """
    talk = chat(m)
    if talk.unjudged:
        yield not_evaluated(talk.unjudged)
        return
    if talk.source is None:
        return
    vocab, bos = talk.vocab, talk.token("bos")
    text = talk.render("user").text
    if not bos or bos not in text:
        return
    leading = text[: len(bos) * 4]
    if leading.startswith(bos + bos):
        yield found(f"the template starts with {bos!r} twice", where="field:tokenizer.chat_template")
    elif vocab.add_bos and not text.startswith(bos) and text.lstrip().startswith(bos):
        yield found(
            f"the template has blanks in front of {bos!r}: llama-server does not recognise it and adds another",
            where="field:tokenizer.chat_template",
        )
    elif vocab.add_bos and text.startswith(bos):
        yield found(
            f"the template starts with {bos!r} and add_bos_token is true: llama-server takes one away, "
            "other programs may add it twice",
            where="field:tokenizer.ggml.add_bos_token",
            severity=Severity.INFO,
        )
