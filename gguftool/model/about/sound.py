"""Sound: a vocoder of llama-tts, and speech models of other programs."""

from __future__ import annotations

from gguftool.model.about.fact import Facts, facts_of
from gguftool.model.about.strange import about as strange
from gguftool.model.about.strange import blocks, number, text
from gguftool.model.model import Model


def about(m: Model) -> Facts:
    """A speech model or codec of another program, with the numbered parts it holds."""
    return facts_of(*strange(m), ("blocks", blocks(m.tensors)))


def vocoder(m: Model) -> Facts:
    """The codes it takes and the sizes of its parts (`src/models/wavtokenizer-dec.cpp`, b11434)."""
    arch = m.architecture
    codes = m.tensors.get("token_embd.weight")
    return facts_of(
        ("name", text(m, "general.name")),
        ("architecture", arch),
        ("weights", sum(t.info.elements for t in m.all_tensors())),
        ("codes", codes.shape[1] if codes is not None and len(codes.shape) > 1 else None),
        ("width of a code", number(m, f"{arch}.features_length")),
        ("layers of the position net", number(m, f"{arch}.posnet.block_count")),
        ("layers of convolution", number(m, f"{arch}.convnext.block_count")),
        ("width of the output", number(m, f"{arch}.embedding_length_out")),
    )
