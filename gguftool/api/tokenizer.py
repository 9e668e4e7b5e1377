"""Does a file cut text as the tokenizer of its source does? Asked of both libraries over a corpus."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING
from unicodedata import normalize

from gguftool.build.converter import environment, python_of
from gguftool.errors import GgufToolError, ToolFailed, UsageError
from gguftool.hub import file_of, on_this_machine, open_source, opened
from gguftool.lint.tokenized import Compared, Cut, Differs, differences
from gguftool.model.corpus import EVERYDAY, Sample, corpus, of_vocabulary
from gguftool.model.vocab import Vocabulary, names, vocabulary
from gguftool.records import dataclass
from gguftool.run.hftokens import cut_by_source
from gguftool.run.tokens import Tokens, agreeing, tokenize

if TYPE_CHECKING:
    from gguftool.model import Model

    AnyModel = Model | str | os.PathLike[str]

FILE = "tokenizer.json"
LARGEST = 256 << 20
"""Bytes of it; the largest real one has 33 MB."""
PRE, PREFIX = "tokenizer.ggml.pre", "tokenizer.ggml.add_space_prefix"
USUAL = ("llama-bpe", "qwen2", "gpt-2", "gpt-4o", "tekken", "deepseek-v3", "glm4", "kimi-k2", "default", "smollm")
"""Pre-tokenizers that are tried first."""
_TYPES = (3, 4)
"""Control and user-defined tokens."""


def compare_tokenizers(model: AnyModel, source: str | os.PathLike[str]) -> Compared:
    """Cut about 3,000 texts as ``tokenizer.json`` says and as llama.cpp does with a file's vocabulary.

    Args:
        model: a path, an address whose file is here, or an open model.
        source: a Hugging Face folder, its ``tokenizer.json``, or ``hf://owner/repo``.

    Returns:
        Where they part, and which pre-tokenizer agrees; ``why_not`` says why nothing could be compared.

    Raises:
        UsageError: the file is not on this machine.
    """
    file_of(model)
    with opened(model) as m:
        return comparison(source)(m)


def comparison(source: str | os.PathLike[str], python: str | None = None) -> Callable[[Model], Compared]:
    """`compare_tokenizers` for the rules of lint: called once a file.

    Args:
        source: see there.
        python: an interpreter with Hugging Face's tokenizers, taken where ours has them not; that of the environment
            which ``gguftool convert --setup`` makes when None.
    """

    def compare(m: Model) -> Compared:
        try:
            return _compare(m, *_document(os.fspath(source)), python or _of_converter())
        except GgufToolError as e:
            return Compared(why_not=f"{e}; {e.hint}" if isinstance(e, ToolFailed) and e.hint else str(e))

    return compare


def _document(source: str) -> tuple[str, bytes]:
    """Where ``tokenizer.json`` lies, and what is in it."""
    name = source if os.path.basename(source) == FILE else f"{source.rstrip('/')}/{FILE}"
    if "://" not in source and source.endswith("config.json"):
        name = os.path.join(os.path.dirname(source), FILE)
    there = open_source(name)
    try:
        if there.size > LARGEST:
            raise UsageError(f"{name}: larger than {LARGEST >> 20} MiB")
        return name, there.read_at(0, there.size)
    finally:
        there.close()


def _of_converter() -> str | None:
    """The interpreter of the environment that `gguftool.build.converter.setup` has made, if it has."""
    path = python_of(environment())
    return path if os.path.isfile(path) else None


def _compare(m: Model, name: str, document: bytes, python: str | None) -> Compared:
    vocab, file = vocabulary(m), on_this_machine(m.parts[0].name)
    specials = [vocab.text(i) for kind in _TYPES for i in vocab.ids_of_type(kind)]
    samples = (*corpus(), *of_vocabulary(specials))
    texts = [s.text for s in samples]
    source = cut_by_source(name, document, texts, python=python)
    ours = _cuts(tokenize(file, texts, begin_and_end=False), vocab)
    differs = differences(samples, source, ours)
    [theirs], [here] = (
        cut_by_source(name, document, [""], begin_and_end=True, python=python),
        _cuts(tokenize(file, [""]), vocab),
    )
    trial = _Trial(file, samples, source, differs)
    pre: tuple[str, ...] = ()
    prefix: bool | None = None
    form = trial.form() if differs else ""
    kind = vocab.kind.name if vocab.kind is not None else ""
    if differs and not form and kind == "SPM":
        found = trial.agree([{PREFIX: True}, {PREFIX: False}])
        prefix = not found[0] if len(found) == 1 else None
    # Only where ordinary texts part: tables of Unicode differ between any two libraries.
    elif not form and kind == "BPE" and any(d.sample.kind in EVERYDAY for d in differs):
        known = names("pre")
        candidates = [n for n in dict.fromkeys((*USUAL, *known)) if n in known and n != vocab.pre]
        pre = tuple(candidates[i] for i in trial.agree([{PRE: name} for name in candidates]))
    ends = None if theirs.ids == here.ids else (theirs, here)
    return Compared("", len(samples), differs, ends, pre, prefix, form)


@dataclass(frozen=True, slots=True)
class _Trial:
    """Tries what would make two tokenizers agree."""

    file: str
    samples: Sequence[Sample]
    source: Sequence[Cut]
    differs: Sequence[Differs]

    def agree(self, options: Sequence[Mapping[str, str | bool]]) -> list[int]:
        """Which of these keys and values make all texts agree; those that differ now are asked first."""
        wanted = {s: c.ids for s, c in zip(self.samples, self.source, strict=True)}
        order = dict.fromkeys((*(d.sample for d in self.differs), *self.samples))
        return agreeing(self.file, [s.text for s in order], [wanted[s] for s in order], options)

    def form(self) -> str:
        """The normal form of Unicode with which the differing texts agree, "" when none does."""
        right = [d.source.ids for d in self.differs]
        for form in ("NFC", "NFKC", "NFD", "NFKD"):
            texts = [normalize(form, d.sample.text) for d in self.differs]
            if list(tokenize(self.file, texts, begin_and_end=False).ids) == right:
                return form
        return ""


def _cuts(made: Tokens, vocab: Vocabulary) -> list[Cut]:
    return [Cut(ids, tuple(vocab.text(i) for i in ids)) for ids in made.ids]
