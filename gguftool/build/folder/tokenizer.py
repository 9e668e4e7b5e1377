"""The tokenizer's files: there and readable, of the kind the converter wants for this architecture, and in step with
config.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gguftool.build.folder.problem import Problem
from gguftool.build.folder.seen import CONFIG, Seen, pointer
from gguftool.build.safetensors import is_lfs_pointer
from gguftool.errors import GgufToolError
from gguftool.facts.converters import vocabulary
from gguftool.format.sniff import HEAD
from gguftool.reading import json_file
from gguftool.regex import regex
from gguftool.shell import blank, gguftool, path_word, shell

FILES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json", "spiece.model")
MORE = ("tokenizer_config.json", "sentencepiece.bpe.model", "tokenizer.jsonl", "merges.txt", "qwen.tiktoken")
OTHERS = ("rwkv_vocab_v20230424.txt", "tokenizer.model.v3", "tokenizer.model.v7")
WHOLE, SETTINGS, ADDED, MAP = "tokenizer.json", "tokenizer_config.json", "added_tokens.json", "special_tokens_map.json"
SPM = "tokenizer.model"
LARGEST = 64 << 20
ROLES = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")
"""Special tokens that the converter looks for (`gguf-py/gguf/vocab.py:SpecialVocab`)."""
TARGET = "--target-model-dir"
MISTRAL_COMMON = "say PYTHON -m pip install mistral-common, with the Python that gguftool doctor names as converter"
_TIKTOKEN = regex(rb"[A-Za-z0-9+/]+=* \d+\r?\n")
_BASE = "copy the tokenizer files of the base model into the folder"
_CODE = frozenset({"code", "transformers"})
_FIRST = frozenset({"builtin"})
"""Ways of architectures that look for tokenizer.json before tokenizer.model."""


def files(seen: Seen) -> Iterator[Problem]:
    """Whether there are any, and what they are."""
    if seen.only_adapter:
        return
    if not any(seen.has(n) for n in (*FILES, *MORE[1:], *OTHERS)):
        yield Problem(
            "no-tokenizer",
            f"{seen.path}: has no tokenizer (none of {', '.join(FILES[:4])})",
            _BASE,
        )
    pointers = [n for n in (*FILES, SETTINGS) if seen.has(n) and is_lfs_pointer(seen.at(n))]
    yield from (pointer(seen.path, n) for n in pointers)
    # Beside tokenizer.model the converter reads added tokens, else transformers reads the map.
    for name in (WHOLE, SETTINGS, "vocab.json", ADDED if _by_spm(seen) else MAP):
        if name not in pointers and seen.sizes.get(name) and not isinstance(seen.json(name), dict):
            yield Problem("bad-tokenizer", f"{seen.path}: {name} {_why(seen, name)}", f"download it again, or {_BASE}")
    whole = seen.json(WHOLE)
    if isinstance(whole, dict) and (what := _unlike(whole)):
        yield Problem("bad-tokenizer", f"{seen.path}: {WHOLE} {what}", f"download it again, or {_BASE}")
    if _by_spm(seen) and (what := _unlike_added(seen)):
        yield Problem("bad-tokenizer", f"{seen.path}: {what}", f"take the entry out, or {_BASE}")
    if SPM not in pointers and seen.sizes.get(SPM) and _by_spm(seen) and (what := _no_sentencepiece(seen)):
        way = "move it away: tokenizer.json is enough" if whole and "transformers" in _ways(seen) else f"{_BASE}"
        yield Problem("bad-tokenizer", f"{seen.path}: {SPM} is no SentencePiece model: {what}", way)


def _unlike(whole: Mapping[str, Any]) -> str:
    """What tokenizer.json lacks of what transformers (5.24) and the converter read in it."""
    if not _ids(whole):
        return "holds no vocabulary"
    if not isinstance(whole.get("added_tokens"), list):
        return "has no list of added tokens"
    merges = _object(whole.get("model")).get("merges")
    if isinstance(merges, list) and merges and not isinstance(merges[0], str):
        pair = merges[0]
        if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)):
            return "has merges that are neither texts nor pairs"
    return ""


def _unlike_added(seen: Seen) -> str:
    """An added token beside tokenizer.model at which the converter stops: its id is no number, or it has no text."""
    for text, number in _object(seen.json(ADDED)).items():
        if not isinstance(number, int):
            return f"{ADDED} has no number for {text!r}"
    for number, row in _object(_object(seen.json(SETTINGS)).get("added_tokens_decoder")).items():
        if not (number.isascii() and number.isdecimal()):
            return f"{SETTINGS} has an added token with the id {number!r}"
        if _text(row) is None or not isinstance(row, Mapping):
            return f"{SETTINGS} has no text for the added token {number}"
    return ""


def marked(seen: Seen) -> Iterator[Problem]:
    """Files that begin with a byte-order mark, at which the converter's `json.load` stops."""
    for name in (CONFIG, SETTINGS, WHOLE, ADDED, MAP):
        try:
            with open(seen.at(name), "rb") as f:
                bom = f.read(3) == b"\xef\xbb\xbf"
        except OSError:
            continue
        if bom:
            take = shell(("sed", "-i", r"1s/^\xEF\xBB\xBF//", path_word(seen.at(name))))
            said = f"{seen.path}: {name} begins with a byte-order mark, at which the converter stops"
            yield Problem("byte-order-mark", said, f"save it as UTF-8 without one: {take}")


def _why(seen: Seen, name: str) -> str:
    try:
        json_file(seen.at(name))
    except GgufToolError as error:
        return str(error).removeprefix(f"{seen.at(name)}: ")
    return "is no JSON object"


def _no_sentencepiece(seen: Seen) -> str:
    """What tokenizer.model is when it is no message of SentencePiece, whose first field is a piece."""
    try:
        with open(seen.at(SPM), "rb") as f:
            data = f.read(LARGEST)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    head = data[:HEAD]
    if head[:1] == b"\x0a":
        return "" if _ends_whole(data) else "it is cut off"
    if _TIKTOKEN.match(head):
        return "tiktoken's format, of Meta's own release"
    return "a text or another kind of file"


def _ends_whole(data: bytes) -> bool:
    """Whether the fields of a message of protobuf end where the data does; lengths and numbers stand at its top."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        if tag & 7 == 0:
            _, at = _varint(data, at)
        elif tag & 7 == 2:
            length, at = _varint(data, at)
            at += length
        else:
            return False
    return at == len(data)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at, value = at + 1, value | (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    return 3, at + 1  # beyond the end


def _ways(seen: Seen) -> frozenset[str]:
    return vocabulary(seen.architecture)


def _by_spm(seen: Seen) -> bool:
    """Whether the converter reads tokenizer.model: ids beyond vocab_size are left out there, with a warning."""
    ways = _ways(seen)
    if "sentencepiece" not in ways or not seen.has(SPM):
        return False
    return not (ways & _FIRST and seen.has(WHOLE))


def readers(seen: Seen) -> Iterator[Problem]:
    """Whether there is the file that the converter reads for this architecture."""
    ways = _ways(seen)
    if "target" in ways and TARGET not in {a.partition("=")[0] for a in seen.arguments}:
        more = (f"--converter-arg={TARGET}", blank("--converter-arg="))
        yield Problem(
            "draft-model",
            f"{seen.path}: is a draft model ({seen.architecture}); the converter takes its tokenizer from the model it "
            "drafts for",
            f"name that model's folder: {gguftool('convert', path_word(seen.path), *more)}",
        )
    if not ways or seen.wants_projector or not any(seen.has(n) for n in (*FILES, *MORE[1:], *OTHERS)):
        return
    asked = [w for w in ways if "." in w]
    if ways == {"sentencepiece"} or (asked and not ways & _CODE):
        wanted = [*asked, *([SPM] if "sentencepiece" in ways else [])]
        if not any(seen.has(n) for n in wanted):
            yield Problem(
                "wrong-tokenizer",
                f"{seen.path}: the converter reads {' or '.join(sorted(wanted))} for {seen.architecture}, which is "
                "not there",
                f"download it; tokenizer.json alone is not enough for this architecture ({_BASE})",
            )
    elif "mistral" in ways and seen.has("tekken.json") and not seen.has(WHOLE) and seen.lacks_mistral_common:
        yield Problem(
            "no-mistral-common",
            f"{seen.path}: has tekken.json and no tokenizer.json: the converter needs mistral-common, which is not in "
            "its environment",
            f"put tokenizer.json of the Hugging Face version beside it, or {MISTRAL_COMMON}",
        )
    code = _object(seen.json(SETTINGS)).get("auto_map")
    if isinstance(code, Mapping) and "AutoTokenizer" in code and not (seen.has(WHOLE) or seen.has(SPM)):
        yield Problem(
            "remote-code",
            f"{seen.path}: the tokenizer brings code of its own, which the converter runs for few architectures only",
            "read that code; a tokenizer.json of the same model needs none",
            fatal=False,
        )


def ids(seen: Seen) -> Iterator[Problem]:
    """Whether config.json counts every token: ``assert max(tokenizer.vocab.values()) < vocab_size``."""
    size = seen.config.text.get("vocab_size")
    if not isinstance(size, int) or isinstance(size, bool) or size <= 0 or seen.wants_projector:
        return
    if _by_spm(seen):
        over = sorted(n for n in _numbered(seen) if n >= size)
        if over:
            yield Problem(
                "tokens-ignored",
                f"{seen.path}: {len(over)} added tokens have ids from {over[0]:,} on, config.json counts {size:,}: the "
                "converter leaves them out",
                "vocab_size must be the rows of the embedding; if the model was trained with these tokens, resize it: "
                "model.resize_token_embeddings(len(tokenizer))",
                fatal=False,
            )
        return
    known = _ids(_object(seen.json(WHOLE)))
    if not known or not _ways(seen) & {"transformers", "llama-hf"}:
        return
    # A token that is not in the vocabulary gets the next id, whatever id was written down for it.
    count = max(known.values()) + 1
    added = dict.fromkeys(t for t in _texts(seen) if t not in known)
    if (most := count + len(added)) > size:
        late = f", among them {', '.join(repr(t) for t in list(added)[:3])}" if added else ""
        yield Problem(
            "vocab-grown",
            f"{seen.path}: the tokenizer has {most:,} tokens{late}, config.json has vocab_size {size:,}",
            "vocab_size must be the rows of the embedding; where those are fewer than the tokens, take the base "
            "model's tokenizer files, or resize: model.resize_token_embeddings(len(tokenizer))",
        )


def special(seen: Seen) -> Iterator[Problem]:
    """Whether ids and texts of special tokens are tokens, and speak of the same."""
    config = seen.config.raw
    inner = _object(config.get("text_config"))
    size = seen.config.text.get("vocab_size")
    known = _ids(_object(seen.json(WHOLE)))
    for role in ROLES:
        key = f"{role}_token_id"
        value = config.get(key) if config.get(key) is not None else inner.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            continue
        if value < 0:
            yield Problem(
                "special-negative",
                f"{seen.path}: {key} is {value} in {CONFIG}, and the converter stops at a negative id",
                f"take {key} out of {CONFIG}, or write the id of a token",
            )
        elif isinstance(size, int) and not isinstance(size, bool) and 0 < size <= value:
            yield Problem(
                "special-beyond",
                f"{seen.path}: {key} is {value:,} in {CONFIG}, which counts {size:,} tokens",
                "llama.cpp leaves it aside and takes a default; write the id of a token",
                fatal=False,
            )
    yield from _apart(seen, known)


def _apart(seen: Seen, known: Mapping[str, int]) -> Iterator[Problem]:
    """The end of a turn, by the tokenizer and by the configurations."""
    text = _text(_object(seen.json(SETTINGS)).get("eos_token"))
    mine = known.get(text) if text is not None else None
    listed = [
        n
        for source in (_object(seen.json("generation_config.json")), seen.config.text, seen.config.raw)
        for n in _list(source.get("eos_token_id"))
        if isinstance(n, int) and not isinstance(n, bool)
    ]
    if text is None or mine is None or not listed or mine in listed:
        return
    names = {i: t for t, i in known.items()}
    other = names.get(listed[0], "no token")
    yield Problem(
        "special-apart",
        f"{seen.path}: eos_token is {text!r} ({mine}) in {SETTINGS}, the configurations end at {listed[0]} ({other!r})",
        "the converter takes the tokenizer's; correct whichever is not what the model was trained with",
        fatal=False,
    )


def _ids(whole: Mapping[str, Any]) -> dict[str, int]:
    """Tokens of tokenizer.json by their text, those of the model itself; {} when it holds none."""
    vocab = _object(whole.get("model")).get("vocab")
    if isinstance(vocab, Mapping):
        return {t: i for t, i in vocab.items() if isinstance(i, int) and not isinstance(i, bool)}
    if isinstance(vocab, list):
        return {str(row[0]): i for i, row in enumerate(vocab) if isinstance(row, list) and row}
    return {}


def _texts(seen: Seen) -> Iterator[str]:
    """Texts that are tokens besides those of the model: added ones, and special ones that are named."""
    added = _object(seen.json(WHOLE)).get("added_tokens")
    for row in added if isinstance(added, list) else ():
        yield from _one(row)
    yield from (t for t in _object(seen.json(ADDED)) if isinstance(t, str))
    for source in (_object(seen.json(SETTINGS)), _object(seen.json(MAP))):
        for role in ROLES:
            yield from _one(source.get(f"{role}_token"))
        for key in ("additional_special_tokens", "extra_special_tokens"):
            more = source.get(key)
            for row in more.values() if isinstance(more, Mapping) else more if isinstance(more, list) else ():
                yield from _one(row)
        for row in _object(source.get("added_tokens_decoder")).values():
            yield from _one(row)


def _numbered(seen: Seen) -> Iterator[int]:
    """Ids written down for added tokens, as the converter reads them beside tokenizer.model."""
    yield from (i for i in _object(seen.json(ADDED)).values() if isinstance(i, int))
    for key in _object(_object(seen.json(SETTINGS)).get("added_tokens_decoder")):
        if isinstance(key, str) and key.isascii() and key.isdecimal() and len(key) < 10:
            yield int(key)


def _one(value: object) -> Iterable[str]:
    text = _text(value)
    return (text,) if text else ()


def _text(value: object) -> str | None:
    found = value.get("content") if isinstance(value, Mapping) else value
    return found if isinstance(found, str) else None


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else [value]


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
