"""Which tokens with a name the known vocabularies have: `gguftool/facts/data/tokens.json`.

    PYTHONPATH=. .venv/bin/python scripts/known_tokens.py

The vocabularies are those of `gguftool.format.vocabularies.KNOWN` whose tokens have a digest: the
`ggml-vocab-*.gguf` of llama.cpp, and the models of the tests. Asked for are the texts that llama.cpp looks up, by its
stored builds, the marks of the vocabularies themselves, and the tokens of the 256 bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gguftool.facts.editions import builds, edition
from gguftool.format.vocabularies import KNOWN
from gguftool.model import open_model
from gguftool.model.tokenlist import split_strings
from gguftool.model.vocab import CONTROL, TOKENS, USER_DEFINED, vocabulary
from tests.llama_cpp_source import ensure as source
from tests.real_models import GEMMA3, SMOLLM2, ensure

OUT = Path(__file__).resolve().parent.parent / "gguftool" / "facts" / "data" / "tokens.json"
MARK = re.compile(r"[<\[]\D{,40}")
"""What a mark looks like; those with a number are the hundreds of reserved ones."""
OTHERS = ("\n", "Ċ", "<s>", "<unk>", "<mask>", "[MASK]", "<|plamo:eos|>")
"""What llama.cpp looks up beside its lists."""
USUAL = ("[INST]", "<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|turn>", "<|START_OF_TURN_TOKEN|>")
"""What templates put around a turn."""
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def files() -> list[Path]:
    """The vocabularies."""
    return [*sorted(source().glob("ggml-vocab-*.gguf")), ensure(SMOLLM2), ensure(GEMMA3)]


def of_llama_cpp() -> Iterator[str]:
    """Texts that a stored build looks up."""
    for build in builds():
        for group, texts in edition(build)("vocabulary.json").items():
            if isinstance(texts, list) and group != "pre":
                yield from texts


def known(paths: list[Path]) -> dict[str, Any]:
    """The document."""
    asked = {*of_llama_cpp(), *OTHERS, *USUAL}
    ids: dict[int, dict[str, int]] = {}
    for path in paths:
        with open_model(path, strict=False) as m:
            vocab, f = vocabulary(m), m.fields[TOKENS]
            if not vocab.name:
                continue
            texts = [record[8:].decode("utf-8", "surrogateescape") for record in split_strings(f)]
            ids[vocab.name] = {text: i for i, text in enumerate(texts)}
            marks = (texts[i] for kind in (CONTROL, USER_DEFINED) for i in vocab.ids_of_type(kind))
            asked.update(text for text in marks if MARK.fullmatch(text))
    missing = {name for name, v in KNOWN.items() if v.digests[0]} - set(ids)
    if missing:
        raise SystemExit(f"no file of {', '.join(map(hex, sorted(missing)))}")
    found = {
        f"{name:08x}": ({t: own[t] for t in sorted(asked) if t in own}, of_bytes(own))
        for name, own in sorted(ids.items())
    }
    return {"asked": sorted(asked), "found": found}


def of_bytes(own: dict[str, int]) -> int | None:
    """Id of the first of the tokens of bytes, where they stand in a row; -1 where there are none, else None."""
    stand = [own.get(text, -1) for text in BYTES]
    return stand[0] if stand in ([-1] * 256, list(range(stand[0], stand[0] + 256))) else None


def written(value: object) -> str:
    """As JSON in one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    document = known(files())
    # A vocabulary a line, which is read alone.
    rows = ",\n".join(f"{written(name)}:{written(row)}" for name, row in document["found"].items())
    OUT.write_text(f'{{"asked":{written(document["asked"])},"found":{{\n{rows}\n}}}}')
