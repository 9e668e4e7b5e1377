"""The pre-tokenizer of BPE vocabularies."""

from __future__ import annotations

from gguftool.edit.ops import Set
from gguftool.facts import llama_cpp
from gguftool.lint.rule import Context, Drafts, Fix, Severity, found, rule, to_choose
from gguftool.model import Model
from gguftool.model.vocab import Vocabulary, names, vocabulary
from gguftool.near import near_names
from gguftool.records import dataclass

KEY = "tokenizer.ggml.pre"


@dataclass(frozen=True, slots=True)
class Signature:
    """A vocabulary that only one family of models has: its size and some tokens at their ids.

    Attributes:
        family: for messages.
        size: number of tokens; None when it varies.
        tokens: text by id.
        pre: names that are right for it, the one to write first.
    """

    family: str
    size: int | None
    tokens: dict[int, str]
    pre: tuple[str, ...]


SIGNATURES = (
    Signature(
        "Llama 3",
        128256,
        {
            128000: "<|begin_of_text|>",
            128001: "<|end_of_text|>",
            128006: "<|start_header_id|>",
            128007: "<|end_header_id|>",
            128009: "<|eot_id|>",
        },
        ("llama-bpe", "llama3", "llama-v3"),
    ),
    Signature(
        "Qwen 2",
        None,
        {151643: "<|endoftext|>", 151644: "<|im_start|>", 151645: "<|im_end|>", 151642: "â½Ĺ"},
        ("qwen2", "deepseek-r1-qwen"),
    ),
    Signature(
        "SmolLM",
        49152,
        {0: "<|endoftext|>", 1: "<|im_start|>", 2: "<|im_end|>", 3: "<repo_name>", 4: "<reponame>", 17: "!"},
        ("smollm",),
    ),
    Signature(
        "Command R",
        256000,
        {0: "<PAD>", 5: "<BOS_TOKEN>", 255000: "<|START_OF_TURN_TOKEN|>", 255001: "<|END_OF_TURN_TOKEN|>"},
        ("command-r",),
    ),
    Signature(
        "DeepSeek LLM",
        102400,
        {100000: "<｜begin▁of▁sentence｜>", 100001: "<｜end▁of▁sentence｜>"},
        ("deepseek-llm",),
    ),
    Signature(
        "DeepSeek Coder",
        32256,
        {32013: "<｜begin▁of▁sentence｜>", 32014: "<｜end▁of▁sentence｜>"},
        ("deepseek-coder",),
    ),
    Signature("Falcon", 65024, {11: "<|endoftext|>", 0: ">>TITLE<<", 1: ">>ABSTRACT<<"}, ("falcon",)),
)
"""Checked against the vocabularies that come with llama.cpp, and SmolLM2."""


def signature(vocab: Vocabulary) -> Signature | None:
    """The family a vocabulary belongs to, when its signature is there."""
    for one in SIGNATURES:
        if one.size in (None, vocab.count) and all(vocab.text(i) == text for i, text in one.tokens.items()):
            return one
    return None


def _needs(vocab: Vocabulary) -> bool:
    """llama.cpp reads the key only for BPE; gemma4 sets it itself."""
    return vocab.kind is not None and vocab.kind.name == "BPE" and vocab.model != "gemma4"


@rule(Severity.ERROR, role="any")
def pre_tokenizer_missing(m: Model, ctx: Context) -> Drafts:
    """A BPE tokenizer must say how text is split before merging.

    Why. Without `tokenizer.ggml.pre` llama.cpp takes "default": numbers, blanks and punctuation are then cut otherwise
    than in training, and answers get worse. Files converted before May 2024 lack it.
    Evidence. "missing pre-tokenizer type, using: 'default'", "GENERATION QUALITY WILL BE DEGRADED!".
    Example. tokenizer.ggml.pre is missing; this is the vocabulary of Llama 3, which needs llama-bpe
    Fix. Written only where the vocabulary shows which it is; otherwise `gguftool fix --set tokenizer.ggml.pre=NAME`.
    """
    vocab = vocabulary(m)
    if not _needs(vocab) or vocab.pre or (KEY in m and vocab.pre is None):
        return
    state = "missing" if KEY not in m else "empty"
    one = signature(vocab) if vocab.model == "gpt2" else None
    if one is None:
        yield found(
            f"{KEY} is {state}: llama.cpp splits text by its default and answers get worse; the model's publisher or "
            "config knows the name",
            where=f"field:{KEY}",
            fix=to_choose("name the pre-tokenizer", "--set", KEY),
        )
        return
    yield found(
        f"{KEY} is {state}; this is the vocabulary of {one.family}, which needs {one.pre[0]}",
        where=f"field:{KEY}",
        fix=Fix(f"name it {one.pre[0]}", (Set(KEY, one.pre[0], "str"),)),
        suggested=one.pre[0],
    )


@rule(Severity.ERROR, role="any")
def pre_tokenizer_unknown(m: Model, ctx: Context) -> Drafts:
    """The pre-tokenizer must be one that llama.cpp knows.

    Why. llama.cpp refuses the file. Either the name is misspelt, or the file is newer than the program: then the
    file is right, and llama.cpp wants an update.
    Evidence. "unknown pre-tokenizer type: '…'"; b11434 knows 92 names. Only BPE tokenizers are checked.
    Example. tokenizer.ggml.pre is 'llama-bpee', which b11434 does not know; nearest: llama-bpe
    Fix. The nearest name, when there is one.
    """
    vocab = vocabulary(m)
    if not _needs(vocab) or not vocab.pre or vocab.pre in names("pre"):
        return
    one = signature(vocab)
    near = list(one.pre[:1]) if one else near_names(vocab.pre.lower(), names("pre"))
    if near:
        message = (
            f"{KEY} is {vocab.pre!r}, which {llama_cpp()} does not know; nearest: {' '.join(near)} "
            "(or the model is newer than that and needs a newer llama.cpp)"
        )
    else:
        newer = "a model that new needs a newer llama.cpp"
        message = f"{KEY} is {vocab.pre!r}: {llama_cpp()} does not know it; {newer}"
    yield found(
        message,
        where=f"field:{KEY}",
        fix=Fix(f"name it {near[0]}", (Set(KEY, near[0], "str"),)) if near else None,
        nearest=near,
        llama_cpp=f"unknown pre-tokenizer type: '{vocab.pre}'",
    )


@rule(Severity.WARNING, role="any")
def pre_tokenizer_mismatch(m: Model, ctx: Context) -> Drafts:
    """The pre-tokenizer should be the one of this vocabulary's family.

    Why. Converters choose it by a hash of some tokens; wrong tokenizer files beside the weights lead to a wrong
    name, and text is then cut otherwise than in training. Judged only for vocabularies that one family alone has.
    Evidence. llama.cpp issues 7724 and 7881: Llama 3 files labelled smaug-bpe.
    Example. tokenizer.ggml.pre is smaug-bpe, but this is the vocabulary of Llama 3, which needs llama-bpe
    Fix. Writes the family's name.
    """
    vocab = vocabulary(m)
    if vocab.model != "gpt2" or not vocab.pre or vocab.pre not in names("pre"):
        return
    one = signature(vocab)
    if one is None or vocab.pre in one.pre or (vocab.pre == "qwen35" and one.family == "Qwen 2"):
        return
    yield found(
        f"{KEY} is {vocab.pre}, but this is the vocabulary of {one.family}, which needs {one.pre[0]}",
        where=f"field:{KEY}",
        fix=Fix(f"name it {one.pre[0]}", (Set(KEY, one.pre[0], "str"),)),
        suggested=one.pre[0],
    )
