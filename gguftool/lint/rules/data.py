"""Data: what the tensors hold. Reads the whole file, so these rules run with `--data` only."""

from __future__ import annotations

from gguftool.lint.rule import Context, Drafts, Scope, Severity, found, not_evaluated, rule
from gguftool.lint.scan import remarks
from gguftool.model import Model
from gguftool.model.steering import HEAD


def _of_kind(m: Model, ctx: Context, kind: str) -> Drafts:
    for r in remarks(m, ctx):
        if r.kind == kind:
            yield found(r.message, where=r.where, span=r.span, path=r.path)


@rule(Severity.ERROR, scope=Scope.DATA, role="any")
def data_not_finite(m: Model, ctx: Context) -> Drafts:
    """Weights must be finite numbers.

    Why. One NaN or infinity spreads through every layer behind it: the answers are empty or garbage. llama.cpp
    loads and runs such a file without a word unless it is started with --check-tensors.
    Evidence. `ggml-quants.c:ggml_validate_row_data` (b11434); llama.cpp issues 6841, 7311, 8661, 11764.
    Example. output_norm.weight (F32): 1 NaN of 64 elements; first at element 63
    Fix. Download again; if the hash is right, the conversion or the training is at fault.
    """
    yield from _of_kind(m, ctx, "not-finite")


@rule(Severity.ERROR, scope=Scope.DATA, role="any")
def data_bad_scale(m: Model, ctx: Context) -> Drafts:
    """The scales of quantised blocks must be finite numbers.

    Why. A block with a NaN scale decodes to NaN throughout. It comes from an importance matrix with empty
    columns, from an F16 intermediate that overflowed, or from damage; in a mixture of experts it shows with some
    prompts only.
    Evidence. `ggml-quants.c:ggml_validate_row_data` (b11434); llama.cpp issues 8661, 9899.
    Example. blk.3.ffn_down_exps.weight (Q4_K): 12 NaN scales in 12 of 4,096 blocks; experts 5 of 8
    Fix. Quantise again from a good file, or with another importance matrix.
    """
    yield from _of_kind(m, ctx, "bad-scale")


@rule(Severity.ERROR, scope=Scope.DATA, role="any")
def data_type_not_for_files(m: Model, ctx: Context) -> Drafts:
    """Weights must have a type that is meant for files.

    Why. Q8_1 and Q8_K are intermediate types of matrix products; llama.cpp calls their data invalid.
    Evidence. `ggml-quants.c:ggml_validate_row_data` (b11434).
    Example. blk.0.attn_q.weight is of type Q8_K, which llama.cpp keeps no weights in
    Fix. Quantise again.
    """
    yield from _of_kind(m, ctx, "not-a-file-type")


@rule(Severity.WARNING, scope=Scope.DATA, role="any")
def data_all_zero(m: Model, ctx: Context) -> Drafts:
    """A weight matrix should not be all zeros.

    Why. A sparse download leaves zeros where blocks are missing, with the right file size; a tensor that was
    never filled looks the same. A direction of zeros steers nothing, and an adapter whose `lora_b` is zero was never
    trained.
    Evidence. Measured: llama.cpp b11434 loads and runs such files silently.
    Example. all 4,096 elements of blk.0.attn_q.weight are zero
    Fix. Compare the hash with the published one (`gguftool verify --hash`); download again.
    """
    for r in remarks(m, ctx):
        if r.kind == "zero-tensor":
            # Biases and norms that start at zero and were not trained are common.
            t = m.tensors.get(r.where.partition(":")[2])
            matrix = t is not None and (len(t.shape) > 1 or t.name.startswith(HEAD))
            yield found(r.message, where=r.where, span=r.span, path=r.path, severity=None if matrix else Severity.INFO)


@rule(Severity.INFO, scope=Scope.DATA, role="any")
def data_constant_rows(m: Model, ctx: Context) -> Drafts:
    """Rows of one value carry nothing.

    Why. Padding rows of a vocabulary look like that; elsewhere they hint at damage or at a failed conversion.
    Evidence. Measured on real models: rows of unused tokens.
    Example. 256 of 151,936 rows of token_embd.weight are constant
    Fix. None needed for padding; else compare with the source model.
    """
    yield from _of_kind(m, ctx, "constant-rows")
    for r in remarks(m, ctx):
        if r.kind == "not-checked":
            yield not_evaluated(r.message)
