"""Model folders with one fault of the tokenizer each, and what two real converters did with them.

`REFUSED` was recorded with b11434 and the packaged 0.1.1 (torch 2.13, transformers 5.24; the pre-tokenizer of the test
tokenizer answered as qwen2): both did the same with each.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.building import hf
from tests.building.faulty import config, text, tokenizer_config, without

Edit = Callable[[Path], None]


@dataclass(frozen=True)
class Case:
    """A fault.

    Attributes:
        base: kind of folder.
        fault: makes it.
        kind: of the problem; "" when there is none.
        refused: the converters stopped.
        sound: the same without the fault.
    """

    base: str
    fault: Edit
    kind: str
    refused: bool
    sound: Edit = lambda path: None

    @property
    def fatal(self) -> bool:
        """So it is called: refused, or a model without a token, which is written where the pre-tokenizer is named."""
        return self.refused or self.kind == "no-tokenizer"


def _row(number: int, content: str) -> dict[str, Any]:
    return {
        "id": number, "content": content, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
        "normalized": False,
    }  # fmt: skip


def added(*rows: tuple[int, str]) -> Edit:
    """Added tokens of tokenizer.json."""

    def edit(path: Path) -> None:
        whole = json.loads((path / "tokenizer.json").read_text())
        whole["added_tokens"] += [_row(*row) for row in rows]
        (path / "tokenizer.json").write_text(json.dumps(whole))

    return edit


def both(*edits: Edit) -> Edit:
    """One after the other."""

    def edit(path: Path) -> None:
        for one in edits:
            one(path)

    return edit


def _spm(path: Path) -> None:
    shutil.copy(hf.TOKENIZERS / "spm.model", path / "tokenizer.model")


def _bpe(path: Path) -> None:
    shutil.copy(hf.TOKENIZERS / "bpe.json", path / "tokenizer.json")


def _whole(change: Callable[[dict[str, Any]], object]) -> Edit:
    def edit(path: Path) -> None:
        whole = json.loads((path / "tokenizer.json").read_text())
        change(whole)
        (path / "tokenizer.json").write_text(json.dumps(whole))

    return edit


def _changed(**model: Any) -> Edit:
    return _whole(lambda whole: whole["model"].update(model))


_joined = _whole(lambda w: w["model"].update(merges=[" ".join(m) for m in w["model"]["merges"]]))
_without_added = _whole(lambda w: w.pop("added_tokens"))


def _shorter(path: Path) -> None:
    (path / "tokenizer.model").write_bytes((path / "tokenizer.model").read_bytes()[:300])


def _marked(name: str) -> Edit:
    def edit(path: Path) -> None:
        data = (path / name).read_bytes() if (path / name).exists() else b"{}"
        (path / name).write_bytes(b"\xef\xbb\xbf" + data)

    return edit


def _cut(path: Path) -> None:
    (path / "tokenizer.json").write_text((path / "tokenizer.json").read_text()[:500])


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n"
PANGU = config(architectures=["PanguEmbeddedForCausalLM"])
"""An architecture whose tokenizer.model alone is read."""
CASES: dict[str, Case] = {
    "added": Case("qwen2", added((400, "<|new|>"), (401, "<|newer|>")), "vocab-grown", True),
    "added-far": Case("qwen2", added((399999, "<|new|>")), "vocab-grown", True),
    "added-again": Case("qwen2", added((7, "a")), "", False),
    "added-file": Case("qwen2", text("added_tokens.json", '{"<|y|>": 410}'), "vocab-grown", True),
    "eos-unknown": Case("qwen2", tokenizer_config(eos_token="<|nothere|>"), "vocab-grown", True),
    "pad-unknown": Case("qwen2", tokenizer_config(pad_token={"content": "[PAD]"}), "vocab-grown", True),
    "extra": Case("qwen2", tokenizer_config(extra_special_tokens={"x": "<|z|>"}), "vocab-grown", True),
    "additional": Case("qwen2", tokenizer_config(additional_special_tokens=["<|z|>"]), "vocab-grown", True),
    "decoder": Case("qwen2", tokenizer_config(added_tokens_decoder={"405": {"content": "<|x|>"}}), "vocab-grown", True),
    "map": Case("qwen2", text("special_tokens_map.json", '{"eos_token": "<|zz|>"}'), "vocab-grown", True),
    "known-tokens": Case(
        "qwen2",
        both(
            tokenizer_config(additional_special_tokens=["<|im_start|>"], pad_token="<|endoftext|>"),
            text("special_tokens_map.json", '{"eos_token": "<|im_end|>"}'),
        ),
        "",
        False,
    ),
    "spm-added": Case("llama", text("added_tokens.json", '{"<|y|>": 410}'), "tokens-ignored", False),
    "spm-decoder": Case(
        "llama",
        tokenizer_config(added_tokens_decoder={"400": {"content": "<|x|>", "special": True}}),
        "tokens-ignored",
        False,
    ),
    "cut": Case("qwen2", _cut, "bad-tokenizer", True),
    "page": Case("qwen2", text("tokenizer.json", "<!DOCTYPE html><title>Sign in</title>"), "bad-tokenizer", True),
    "no-model": Case("qwen2", text("tokenizer.json", "{}"), "bad-tokenizer", True),
    "settings": Case("qwen2", text("tokenizer_config.json", "{"), "bad-tokenizer", True),
    "spm-settings": Case("llama", text("tokenizer_config.json", "[]"), "bad-tokenizer", True),
    "spm-file": Case("llama", text("added_tokens.json", "nothing"), "bad-tokenizer", True),
    "spm-pointer": Case("llama", text("tokenizer.model", POINTER), "lfs-pointer", True),
    "spm-tiktoken": Case("llama", text("tokenizer.model", "IQ== 0\nIg== 1\n"), "bad-tokenizer", True),
    "spm-page": Case("qwen2", text("tokenizer.model", "<html>"), "bad-tokenizer", True, _spm),
    "spm-needed": Case(
        "llama", both(PANGU, without("tokenizer.model"), _bpe), "wrong-tokenizer", True, both(PANGU, _bpe)
    ),
    "negative": Case("llama", config(pad_token_id=-1), "special-negative", True, config(pad_token_id=0)),
    "beyond": Case("llama", config(eos_token_id=400), "special-beyond", False, config(eos_token_id=399)),
    "apart": Case("qwen2", config(eos_token_id=0), "special-apart", False, config(eos_token_id=[0, 2])),
    "apart-generation": Case("qwen2", text("generation_config.json", '{"eos_token_id": [0, 2]}'), "", False),
    "spm-cut": Case("llama", _shorter, "bad-tokenizer", True),
    "spm-added-text": Case("llama", text("added_tokens.json", '{"x": "y"}'), "bad-tokenizer", True),
    "spm-decoder-key": Case(
        "llama", tokenizer_config(added_tokens_decoder={"x": {"content": "y"}}), "bad-tokenizer", True
    ),
    "spm-decoder-text": Case("llama", tokenizer_config(added_tokens_decoder={"3": {}}), "bad-tokenizer", True),
    "merges-odd": Case("qwen2", _changed(merges=[1, 2]), "bad-tokenizer", True),
    "merges-texts": Case("qwen2", _joined, "", False),
    "no-added": Case("qwen2", _without_added, "bad-tokenizer", True),
    "map-cut": Case("qwen2", text("special_tokens_map.json", "{"), "bad-tokenizer", True),
    "spm-map-cut": Case("llama", text("special_tokens_map.json", "{"), "", False),
    "mark": Case("llama", _marked("config.json"), "byte-order-mark", True),
    "mark-settings": Case("qwen2", _marked("tokenizer_config.json"), "byte-order-mark", True),
    "mark-generation": Case("qwen2", _marked("generation_config.json"), "", False),
    "no-files": Case("qwen2", both(without("tokenizer.json"), without("tokenizer_config.json")), "no-tokenizer", False),
}  # fmt: skip
