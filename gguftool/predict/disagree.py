"""The first place where the keys and the tensors of a model disagree, as the solver sees it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gguftool.facts.arch import Hparams, facts
from gguftool.facts.machine.ends import Abort, Refusal, Unknown
from gguftool.facts.machine.reader import Reader
from gguftool.model import Model
from gguftool.model.vocab import vocabulary
from gguftool.predict.after import after_load
from gguftool.predict.shown import Shown
from gguftool.predict.stages import hyperparameters
from gguftool.predict.state import Run
from gguftool.predict.tensors import Asked, local_names, run
from gguftool.predict.vocab import Loaded, load_vocab
from gguftool.records import dataclass, field

KEYS, TENSORS, COUNT, ASIDE, AFTER = range(5)
"""How far a trial got."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One disagreement.

    Attributes:
        place: ``tensor:NAME`` or ``field:KEY``.
        text: llama.cpp's words, or our own.
        rank: how far the load got.
        sizes: wanted and stored size of each dimension that differs.
        named: sizes llama.cpp computed with, by name.
    """

    place: str
    text: str
    rank: tuple[int, int]
    sizes: tuple[tuple[int, int], ...] = ()
    named: Mapping[str, int] = field(default_factory=dict)

    def same(self, other: Fault) -> bool:
        """Nothing changed, as far as its numbers tell."""
        return bool(self.sizes) and (self.place, self.text, self.sizes) == (other.place, other.text, other.sizes)

    def irrelevant(self, suffix: str) -> bool:
        """A shape of the feed-forward part says nothing of the attention, and the other way round."""
        name = self.place.partition(":")[2] if self.sizes else ""
        if ".ffn_" in name:
            return suffix.startswith(("attention.", "rope.", "ssm."))
        if ".attn_" in name:
            return "expert" in suffix or suffix == "feed_forward_length"
        return False

    def straight(self, now: int, tried: int, after: Fault) -> Iterator[int]:
        """Values by the straight line through two trials of one key."""
        for (want, have), (other, _) in zip(self.sizes, after.sizes, strict=False):
            if other != want and (have - want) * (tried - now) % (other - want) == 0:
                yield now + (have - want) * (tried - now) // (other - want)


def granted(model: Model) -> Loaded | None:
    """The vocabulary by its size alone; None without a size."""
    n, types = vocabulary(model).count, model.get("tokenizer.ggml.token_type_count")
    if n is None:
        try:
            n = load_vocab(Reader(model.fields, model.architecture), vocabulary(model)).n_tokens
        except (Refusal, Abort, Unknown):
            return None
    return Loaded("", n, types if isinstance(types, int) else 0)


def fault_of(model: Model, shown: Shown, forgiven: frozenset[str] = frozenset()) -> tuple[Fault | None, int]:
    """The first disagreement, and how many tensors were asked for on the way.

    Args:
        model: with the keys to try.
        shown: what its tensors show.
        forgiven: tensors (``tensor:NAME``) that no key can help, so that what else is wrong can be seen.
    """
    state = Run(model)
    asked = state.asked = Asked(shown.stored, forgiven=forgiven)
    rank = (KEYS, 0)
    try:
        machine, rows = hyperparameters(state)
        rank = (TENSORS, 0)
        state.vocab = granted(model)
        size = state.vocab.n_tokens if state.vocab else 0
        machine.names |= local_names(machine, size, state.vocab.n_token_types if state.vocab else 0)
        run(machine, rows, asked)
    except (Refusal, Abort) as end:
        end.__traceback__ = end.__context__ = None  # its frames hold it, and the model: a circle
        return _fault(state, end, asked, rank), len(asked.wanted)
    except Unknown:
        return None, len(asked.wanted)
    n = len(asked.wanted)
    odd = _left_out(model, shown, asked)
    if odd is not None:
        return Fault(odd[0], odd[1], (ASIDE, 0), (), _named(state)), n
    then = after_load(state)
    if then.outcome in ("ok", "unknown", "fails") or not then.where.startswith(("field:", "tensor:")):
        return None, n
    return Fault(then.where, then.message, (AFTER, int(then.stage == "decode")), (), _named(state)), n


def _fault(state: Run, end: Refusal | Abort, asked: Asked, rank: tuple[int, int]) -> Fault:
    sizes: tuple[tuple[int, int], ...] = ()
    want, got = end.data.get("expected"), end.data.get("got")
    if isinstance(want, list) and isinstance(got, list):
        n = max(len(want), len(got))
        pairs = zip((*want, *[1] * (n - len(want))), (*got, *[1] * (n - len(got))), strict=True)
        sizes = tuple((a, b) for a, b in pairs if a != b)
    elif isinstance(want, int) and isinstance(got, int):
        sizes = ((want, got),)
    if rank[0] == TENSORS:
        rank = (COUNT if "done_getting" in end.text else TENSORS, len(asked.wanted))
    return Fault(end.where, end.text, rank, sizes, _named(state))


def _named(state: Run) -> dict[str, int]:
    """What llama.cpp computes with, as far as it got."""
    out: dict[str, int] = {}
    if state.machine is not None:
        call: Any = state.machine.names
        for name in ("n_head()", "n_head_kv()", "n_embd_head_k()", "n_embd_head_v()", "n_rot()"):
            try:
                out[name] = int(call[name]())
            except (Abort, KeyError, IndexError):
                continue
        out["n_embd"] = state.machine.h["n_embd"]
        return out
    hp = Hparams(state.model.architecture, state.model.reading)
    for name, suffix in (
        ("n_head()", "attention.head_count"),
        ("n_head_kv()", "attention.head_count_kv"),
        ("n_embd_head_k()", "attention.key_length"),
        ("n_embd_head_v()", "attention.value_length"),
        ("n_rot()", "rope.dimension_count"),
        ("n_embd", "embedding_length"),
    ):
        out[name] = hp.int(suffix)
    heads = out["n_head()"]
    out["n_head_kv()"] = out["n_head_kv()"] or heads
    for name in ("n_embd_head_k()", "n_embd_head_v()"):
        out[name] = out[name] or (out["n_embd"] // heads if heads else 0)
    return out


def _left_out(model: Model, shown: Shown, asked: Asked) -> tuple[str, str] | None:
    """A whole layer that is counted as one for predicting further tokens, and has nothing of such a layer."""
    arch = model.architecture
    known = facts(arch)
    key = f"{arch}.nextn_predict_layers"
    if model.get(key):
        for name, wanted in asked.wanted.items():
            if not wanted.used and wanted.op != "NONE" and name in asked.stored:
                block = shown.block(name)
                if block >= 0 and block not in shown.nextn:
                    text = f"{key} is {model.get(key)}, but blk.{block} has no nextn tensor: a layer is left out"
                    return f"field:{key}", text
    count = model.get(f"{arch}.block_count")
    plain = known is not None and arch not in LOOPED
    if plain and isinstance(count, int) and not isinstance(count, bool) and shown.blocks and count != shown.blocks:
        return f"field:{arch}.block_count", f"block_count is {count}, the tensors have {shown.blocks} blocks"
    return None


LOOPED = frozenset({"nanbeige", "hrm_text", "graniteswitch"})
"""Architectures whose number of layers is not block_count."""
