"""Whether a model gives embeddings or ranks documents, and how: the one home of that.

Keys, tensors and the architecture settle it. What a file calls itself is a weak sign, and settles it only where the
name is that of a family known to be nothing else and the architecture fits.
"""

from __future__ import annotations

import re

from gguftool.brief import short_repr
from gguftool.facts.arch import facts
from gguftool.facts.enums import numbers
from gguftool.model.model import Model
from gguftool.records import dataclass
from gguftool.regex import regex

EMBEDS, RANKS, DECIDES = "embedder", "reranker", "decision"
UNSPECIFIED = (1 << 32) - 1
"""-1 in the file: nothing is said."""
LABELS = "classifier.output_labels"
RERANK_TEMPLATE = "tokenizer.chat_template.rerank"


@dataclass(frozen=True, slots=True)
class Family:
    """A family of embedding models that is built on a language model, or was converted without its way of pooling.

    Attributes:
        name: what people call it.
        words: its name in `general.name`, a regular expression in which a blank is any separator, or none; what stands
            before the first blank is plain.
        archs: architectures of its conversions.
        pooling: how it was trained, "" where that differs within the family or is not known.
        ends: it was trained with an end token behind every text; None: not known.
    """

    name: str
    words: str
    archs: str
    pooling: str
    ends: bool | None = None


FAMILIES: tuple[tuple[str, str, str, str] | tuple[str, str, str, str, bool], ...] = (
    ("Qwen3-Reranker", "qwen3 (?:vl )?reranker", "qwen3 qwen3vl", "rank"),
    ("Qwen3-Embedding", "qwen3 (?:vl )?embedding", "qwen3 qwen3vl", "last", True),
    ("gte-Qwen", r"gte qwen(?:1 5|2)", "qwen2", "last", True),
    ("E5-Mistral", "e5 mistral", "llama", "last", True),
    ("SFR-Embedding", "sfr embedding", "llama", "last", True),
    ("Linq-Embed", "linq embed", "llama", "last", True),
    ("BGE-ICL", "bge en icl", "llama", "last", True),
    ("BGE-Gemma2", "bge multilingual gemma2", "gemma2", "last", True),
    ("nomic-embed-code", "nomic embed code", "qwen2", "last"),
    ("jina-code-embeddings", "jina code embeddings", "qwen2", "last"),
    ("jina-embeddings-v4", "jina embeddings v4", "qwen2vl", "mean"),
    ("NV-Embed", "nv embed", "llama", ""),
    ("Llama-Embed-Nemotron", "llama embed nemotron", "llama llama-embed", "mean"),
    ("EmbeddingGemma", "embedding ?gemma", "gemma3 gemma-embedding", "mean"),
)
"""Rows of `Family`, from the models' cards and their 1_Pooling/config.json; architectures as llama.cpp's converter
names them."""

USUAL = {"gemma-embedding": "mean", "llama-embed": "mean", "nomic-bert": "mean", "nomic-bert-moe": "mean",
         "jina-bert-v2": "mean", "jina-bert-v3": "mean", "neo-bert": "cls"}  # fmt: skip
"""Architecture -> how its one public family pools; bert, modern-bert and eurobert have more than one."""
ENCODERS = frozenset({"t5encoder", "llama-embed"})
"""Architectures with a cache whose models give nothing but embeddings."""
BARE = frozenset({"t5encoder"})
"""Of them those whose output is taken token by token: the text encoders of image models."""
AROUND = frozenset(
    "bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 gemma-embedding".split()
)
"""Architectures whose models were trained with one token before every text and one behind it."""

_RANKS = regex(r"re-?rank(?:er|ing)?s?(?![a-z])", re.IGNORECASE)
_EMBEDS = regex(r"embed(?:ding|der)?s?(?![a-z])|(?:^|[\W_])(?:e5|gte|bge)(?:$|[\W_])", re.IGNORECASE)
_COLBERT = regex(r"col[-_ ]?bert", re.IGNORECASE)
_NAMES = ("general.name", "general.basename", "general.finetune")
_TAGS = {"text-ranking": RANKS, "sentence-similarity": EMBEDS, "feature-extraction": EMBEDS,
         "sentence-transformers": EMBEDS}  # fmt: skip
"""Tags of model cards; a reranker may have those of embedders, too."""


@dataclass(frozen=True, slots=True)
class Embedder:
    """How a model gives embeddings or scores.

    Attributes:
        kind: ``embedder``, ``reranker`` or ``decision`` (a model of llama-server's ``/decision``).
        why: what in the file says so.
        sure: it is said by more than words that might as well be on a chat model.
        family: name of its family, "" where none is known.
        pooling: how the file says to pool: ``mean``, ``cls``, ``last``, ``rank``; ``none`` where it says nothing, as
            llama.cpp has it; "" for a number that is no way of pooling.
        stated: the file has the key.
        trained: how its family pools, "" where that is not known.
        ends: trained with an end token behind every text; None: not known.
        causal: a token sees only those before it.
        memory: llama.cpp gives it a cache, so a long text may be cut into pieces.
        width: numbers of one embedding; scores of a document for a reranker.
        longest: tokens of the longest text it was made for; 0: the file does not say.
        labels: what the outputs of its head mean.
        head: tensors of a ranking head that llama.cpp reads.
        token_by_token: made to give a vector a token: text encoders of image models, ColBERT.
    """

    kind: str
    why: str
    sure: bool
    family: str
    pooling: str
    stated: bool
    trained: str
    ends: bool | None
    causal: bool
    memory: bool
    width: int
    longest: int
    labels: tuple[str, ...]
    head: tuple[str, ...]
    token_by_token: bool

    __repr__ = short_repr

    @property
    def ranks(self) -> bool:
        """It ranks documents."""
        return self.kind == RANKS

    def pools(self, asked: str | None = None) -> str:
        """How llama-server pools: as asked, else by its kind where the file is silent."""
        if asked:
            return asked
        return "rank" if self.ranks else self.pooling if self.stated else self.trained or self.pooling

    def cuts(self, pooling: str) -> bool:
        """Whether a text may be cut into graphs of `-ub` tokens.

        llama-server cuts for these ways of pooling alone (`server-context.cpp:can_split`, b11434), for last also where
        attention goes both ways: then the tokens of one piece never see those of the next.
        """
        return self.memory and self.causal and pooling in ("last", "rank")


def embedder(m: Model, *, asked: bool = False) -> Embedder | None:
    """What a model is as an embedding model; None for one that writes.

    Args:
        m: the model.
        asked: somebody wants embeddings of it, so that one that writes counts as well.
    """
    found: Embedder | None = m.once("embedder asked" if asked else "embedder", lambda: _embedder(m, asked))
    return found


def _embedder(m: Model, asked: bool) -> Embedder | None:
    known = facts(m.architecture)
    if known is None or known.unsupported or "diffusion" in known.flags or m.architecture == "wavtokenizer-dec":
        return None
    family = _family(m)
    number = _pooling_number(m)
    found = _kind(m, family, number) or ((EMBEDS, "as asked", False) if asked else None)
    if found is None:
        return None
    kind, why, sure = found
    arch = m.arch
    labels = arch.raw(LABELS)
    names = tuple(map(str, labels)) if isinstance(labels, list) else ()
    width = arch.int("embedding_length_out") or arch.embedding_length
    return Embedder(
        kind=kind,
        why=why,
        sure=sure,
        family=family.name if family else "",
        pooling=_way(0 if number is None else number),
        stated=number is not None,
        trained=(family.pooling if family else "") or USUAL.get(m.architecture, ""),
        ends=family.ends if family else None,
        causal=bool(arch.shape.machine.h.get("causal_attn", True)),
        memory=known.memory != "none",
        width=max(1, len(names)) if kind == RANKS else width,
        longest=arch.context_length or 0,
        labels=names,
        head=_head(m),
        token_by_token=m.architecture in BARE or _named(m, _COLBERT),
    )


def _family(m: Model) -> Family | None:
    """The family whose name a model of one of its architectures has."""
    names = [value for key in _NAMES if isinstance(value := m.get(key), str)]
    folded = "\0".join(names).casefold()
    for row in FAMILIES:
        if m.architecture in row[2].split() and row[1].partition(" ")[0] in folded:
            text = r"(?<![a-z0-9])" + row[1].replace(" ", r"[-_ .]?") + r"(?![a-z])"
            if any(re.search(text, name, re.IGNORECASE) for name in names):
                return Family(*row)
    return None


def no_chat(m: Model) -> bool:
    """Whether advice about chat has no place here: also where only the name says that it gives embeddings."""
    return embedder(m) is not None


def what_it_gives(m: Model) -> str:
    """An embedding model in words: ``a reranking model``."""
    found = embedder(m)
    kind = found.kind if found else EMBEDS
    return {RANKS: "a reranking model", DECIDES: "a decision model"}.get(kind, "an embedding model")


def _way(number: int) -> str:
    return next((name for name, n in numbers("pooling_type").items() if n == number >= 0), "")


def _pooling_number(m: Model) -> int | None:
    value = m.arch.raw("pooling_type")
    number = value if isinstance(value, int) and not isinstance(value, bool) else None
    return None if number in (UNSPECIFIED, -1) else number


def _head(m: Model) -> tuple[str, ...]:
    """Tensors of a ranking head that llama.cpp reads."""
    from gguftool.facts.machine.rows import head_tensors

    return tuple(name for name in head_tensors(m.architecture) if name in m.tensors)


def _kind(m: Model, family: Family | None, number: int | None) -> tuple[str, str, bool] | None:
    known = facts(m.architecture)
    if m.arch.raw("decision.type") is not None or m.arch.int("decision.block_count"):
        return DECIDES, f"{m.architecture}.decision.type", True
    rank = numbers("pooling_type")["rank"]
    if number == rank:
        return RANKS, f"{m.architecture}.pooling_type", True
    alone = known is not None and known.memory == "none"
    # A language model may have a tensor of that name for another purpose.
    if number in (None, 0) and (alone or m.arch.raw(LABELS) or RERANK_TEMPLATE in m) and (head := _head(m)):
        return RANKS, head[0], True
    named = _calls_itself(m)
    ranks = named is not None and named[0] == RANKS
    if alone or m.architecture in ENCODERS:
        return RANKS if ranks else EMBEDS, "general.architecture", True
    if number:
        return EMBEDS, f"{m.architecture}.pooling_type", True
    if family is not None:
        return RANKS if family.pooling == "rank" else EMBEDS, f"its name, {family.name}", True
    return (*named, False) if named is not None else None


def _calls_itself(m: Model) -> tuple[str, str] | None:
    """What the names and tags in a file say; tags alone only where no chat template speaks against them."""
    texts = [(key, value) for key in _NAMES if isinstance(value := m.get(key), str)]
    for kind, pattern, words in ((RANKS, _RANKS, ("rank",)), (EMBEDS, _EMBEDS, ("embed", "e5", "gte", "bge"))):
        for key, value in texts:
            # Most names hold none of the words, and need no search.
            if any(word in value.lower() for word in words) and pattern.search(value):
                return kind, f"{key}, {value[:60]}"
    tags = m.get("general.tags")
    if not isinstance(tags, list) or "tokenizer.chat_template" in m:
        return None
    said = [(kind, tag) for tag, kind in _TAGS.items() if tag in tags]
    return (said[0][0], f"general.tags, {said[0][1]}") if said else None


def _named(m: Model, pattern: re.Pattern[str]) -> bool:
    return any(isinstance(value := m.get(key), str) and pattern.search(value) for key in _NAMES)


def ends_of(m: Model) -> tuple[bool, bool]:
    """Whether llama.cpp puts a token before a text, and one behind it (`llama_vocab::impl::tokenize`, b11434)."""
    from gguftool.model.vocab import vocabulary

    vocab = vocabulary(m)
    if vocab.kind is not None and vocab.kind.name == "WPM":
        # WordPiece looks at neither key: CLS and SEP stand around every text.
        return True, True
    return vocab.add_bos, vocab.add_eos
