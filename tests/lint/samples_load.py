"""Load: what only the prediction of the load finds.

Each is a change that the real llama.cpp b11434 was seen to refuse, abort or die on (with a model of that architecture).
"""

from __future__ import annotations

from tests.build import llama
from tests.lint.samples import Sample, ready
from tests.lint.samples_tokenizer import bpe

SAMPLES = [
    Sample("load-refused", ready().kv("general.tensor_extra.name", ["a"], "[str]"),
           "field:general.tensor_extra.prec_a4",
           "general.tensor_extra.prec_a4 must be a bool array", severity="error"),
    Sample("load-aborts", llama(arch="smallthinker").kv("smallthinker.attention.sliding_window", 64),
           message="n_expert must be > 0 for SMALLTHINKER", severity="error"),
    Sample("load-then-fails", llama(arch="paddleocr"), "field:paddleocr.rope.dimension_sections",
           "aborts at the first tokens: GGML_ASSERT(sections[0] > 0", severity="error"),
    Sample("load-then-fails", llama(arch="gemma").replace("gemma.rope.dimension_count", 15),
           "field:gemma.rope.dimension_count", "n_dims % 2 == 0", silent=llama(arch="gemma")),
    Sample("load-warns", bpe(eos=259), "field:tokenizer.ggml.eos_token_id",
           "whose name llama.cpp does not know as one that does: load: special_eos_id is not in special_eog_ids",
           severity="info", silent=bpe()),
    Sample("load-warns", llama(arch="phi3").kv("phi3.attention.sliding_window", 64), message="Phi SWA is currently",
           severity="info", silent=llama(arch="phi3")),
    # told by a rule of its own
    Sample("load-warns", bpe(eos=97).kv("tokenizer.ggml.eot_token_id", 259), "field:tokenizer.ggml.eot_token_id",
           silent=bpe(eos=97)),
]  # fmt: skip
