"""What llama-server takes beside its buffers: its code, its own state, the vocabulary as it keeps it, its graphs.

Measured with b11434 on the CPU over vocabularies of 291 to 262,144 tokens (`./dev bench-program`, docs/memory.md): the
figures stand 1.5 MiB below to 5 MiB above each of them. A build with drivers of a GPU maps more code.
"""

from __future__ import annotations

from gguftool.brief import short_repr
from gguftool.facts.arch import Hparams
from gguftool.memory.settings import Context
from gguftool.records import dataclass

MIB = 1 << 20
CODE = 16 * MIB
"""Pages of the program and its libraries, of a build for the CPU; the system may take them back."""
BASE = 5 * MIB
"""Of its own: the server, the templates, a few threads. Each further thread takes about 45 KiB."""
TOKEN, MERGE = 236, 144
"""Bytes of a token, and of a merge of two."""
UNIGRAM = 580
"""Bytes of a token where the vocabulary is searched as a tree of letters."""
NODES, NODE = 1024, 3 * 440
"""Nodes of a graph at least, and bytes of one: a context keeps three (`llama-context.cpp:graph_max_nodes`,
`get_gf_res_prev`), written to as a whole."""
MEASURED = ("gpt2", "llama", "gemma4", "bert", "t5")
"""Kinds of tokenizers that were measured."""
LARGEST = 262144
"""Tokens of the largest vocabulary that was measured."""


@dataclass(frozen=True, slots=True)
class Program:
    """The process beside its buffers.

    Attributes:
        own: bytes that the system cannot take back.
        code: bytes of files, which it can.
        basis: ``measured``, or ``estimated`` for tokenizers and sizes that were not.
    """

    own: int = 0
    code: int = 0
    basis: str = "measured"

    __repr__ = short_repr

    @property
    def total(self) -> int:
        """All of it."""
        return self.own + self.code


def vocabulary(hp: Hparams, rows: int) -> int:
    """Bytes of the vocabulary of one model, as llama.cpp keeps it.

    Args:
        hp: the model.
        rows: of its output matrix, which count where a header has no list of tokens (as many merges are assumed).
    """
    tokens = hp.entries("tokenizer.ggml.tokens")
    if not tokens:
        return (TOKEN + MERGE) * rows
    token = UNIGRAM if hp.text("tokenizer.ggml.model") == "t5" else TOKEN
    return token * tokens + MERGE * hp.entries("tokenizer.ggml.merges")


def graphs(hp: Hparams, c: Context, tensors: int) -> int:
    """Bytes of the graphs of a context, which are written anew for every batch.

    Args:
        hp: the model.
        c: its context.
        tensors: of the model.
    """
    token, tensor = hp.facts.nodes if hp.facts else (0, 8)
    return NODE * max(NODES, token * min(c.total, c.ubatch), tensor * tensors)


def program(hp: Hparams, context: int, others: int = 0) -> Program:
    """What the program takes.

    Args:
        hp: the model.
        context: bytes of its vocabulary and its graphs.
        others: the same of contexts that draft beside it.
    """
    known = hp.text("tokenizer.ggml.model") in MEASURED and 0 < hp.entries("tokenizer.ggml.tokens") <= LARGEST
    return Program(BASE + context + others, CODE, "measured" if known else "estimated")
