"""Special tokens that a person names by their text, as operations."""

from __future__ import annotations

from gguftool.edit.ops import Operation, Set
from gguftool.edit.schema import type_text
from gguftool.errors import UsageError
from gguftool.format.header import Field
from gguftool.model import Model
from gguftool.near import near_names
from gguftool.quantity import whole
from gguftool.shell import ELLIPSIS, shell

SPECIAL = {
    name: f"tokenizer.ggml.{word}_token_id"
    for name, word in {
        "bos": "bos", "eos": "eos", "eot": "eot", "eom": "eom", "unk": "unknown", "sep": "seperator", "pad": "padding",
        "mask": "mask", "fim_pre": "fim_pre", "fim_suf": "fim_suf", "fim_mid": "fim_mid", "fim_pad": "fim_pad",
        "fim_rep": "fim_rep", "fim_sep": "fim_sep",
    }.items()
}  # fmt: skip
"""Short names of special tokens -> keys, as llama.cpp spells them."""
CONTROL = 3
"""Token type of control tokens (`llama.h:LLAMA_TOKEN_TYPE_CONTROL`)."""


def special_operation(model: Model, text: str) -> tuple[Operation, str | None]:
    """``eos=<|im_end|>`` as an operation on the token id, and a note when the token is not a control token.

    Raises:
        UsageError: an unknown name, or a text that is no token; the message names near ones.
    """
    name, equals, token = text.partition("=")
    key = SPECIAL.get(name.strip().lower())
    if key is None or not equals or not token:
        raise UsageError(f"--special {text}: must be NAME=TOKEN", "names: " + ", ".join(SPECIAL))
    if token == ELLIPSIS:
        raise UsageError(f"--special {text}: put the token in place of {ELLIPSIS}")
    field = model.fields.get("tokenizer.ggml.tokens")
    if field is None or type_text(field) != "[str]":
        raise UsageError(f"{model.name}: has no list of tokens", "give the id: --set " + key + "=ID")
    tokens = field.value
    if not isinstance(tokens, list):
        raise UsageError(f"{model.name}: tokenizer.ggml.tokens is not a list")
    index = _index(tokens, token)
    types = model.fields.get("tokenizer.ggml.token_type")
    if index is None:
        near = [repr(t) for t in _near_tokens(tokens, types, token)]
        raise UsageError(
            f"--special {name}: {token!r} is no token of this model", f"near: {', '.join(near)}" if near else None
        )
    note = None
    kind = types.head(1, index) if types is not None else []
    if kind and kind[0] != CONTROL and name not in ("unk",):
        note = (
            f"token {index} ({token}) is not marked as a control token, so llama.cpp would print it as text; "
            f"marked by {shell(('--set', f'tokenizer.ggml.token_type[{index}]={CONTROL}'))}"
        )
    return Set(key, index, "u32"), note


def _index(tokens: list[object], token: str) -> int | None:
    if token in tokens:
        return tokens.index(token)
    index = whole(token)
    return index if index is not None and index < len(tokens) else None


def _near_tokens(tokens: list[object], types: Field | None, token: str) -> list[str]:
    """Tokens that resemble the text; control and user-defined ones where types are known, as special ones are."""
    texts = [str(t) for t in tokens]
    if types is not None:
        kinds = types.head(len(texts))
        texts = [t for t, kind in zip(texts, kinds, strict=False) if kind in (CONTROL, 4)]
    texts = [t for t in texts if abs(len(t) - len(token)) <= 4][:20000]
    return near_names(token, texts)
