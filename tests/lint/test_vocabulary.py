"""The vocabulary as we read it is the vocabulary as the real llama.cpp library sets it up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gguftool.model import from_source, open_model
from gguftool.model.tokenlist import split_strings
from gguftool.model.vocab import SCORES, TOKENS, names, vocabulary
from gguftool.source import Memory
from tests.build import GGUF, llama
from tests.chat.test_server import corpus
from tests.lint.samples_tokenizer import TOK, bpe, llama3, renamed, spm
from tests.oracle import llama as oracle
from tests.oracle.llama import Answer

EOG = re.compile(r"load:   - (\d+) \('(.*)'\)")


def open_(g: GGUF):
    return from_source(Memory(g.bytes(), "m.gguf"), strict=False)


def told(answer: Answer) -> set[int]:
    """Ids that the library printed as ending a generation."""
    lines = [line for _, line in answer.log]
    start = max(i for i, line in enumerate(lines) if "printing all EOG tokens" in line)
    found = set()
    for line in lines[start + 1 :]:
        m = EOG.search(line)
        if m is None:
            break
        found.add(int(m[1]))
    # What it takes back after it printed the list.
    text = "\n".join(lines)
    for token, words in (("<|end|>", "removing '<|end|>' token"), ("</s>", "'</s>' is a normal token here")):
        if words in text:
            found -= {int(m[1]) for m in EOG.finditer(text) if m[2] == token}
    return found


SETS = {
    "spm": spm(),
    "bpe": bpe(),
    "eos is a start marker": bpe(eos=256),
    "eos out of range": bpe(eos=999),
    "no eos": bpe(eos=None),
    "ids of zero": bpe(bos=0, eos=0),
    "eot": bpe().kv(TOK + "eot_token_id", 258),
    "eom": bpe().kv(TOK + "eom_token_id", 258),
    "llama names": renamed((270, "<|eot_id|>"), (271, "<|eom_id|>"), (272, "<|end_of_text|>"), (273, "</s>")),
    "harmony": renamed((270, "<|return|>"), (271, "<|call|>"), (272, "<|end|>"), (273, "<|channel|>")),
    "solar": renamed((270, "<|flush|>"), (271, "<|calls|>"), (272, "<|end|>")),
    "gemma names": renamed((270, "<end_of_turn>"), (271, "<eos>"), (272, "</s>")),
    "gemma 4 names": renamed((270, "<turn|>"), (271, "<|tool_response>"), (272, "</s>")),
    "fill in the middle": renamed(
        (270, "<|fim_pad|>"), (271, "<|repo_name|>"), (272, "<|file_sep|>"), (273, "<|fim_prefix|>")
    ),
    "stated fill in the middle": bpe().kv(TOK + "fim_pad_token_id", 270).kv(TOK + "fim_rep_token_id", 271),
    "glm": bpe(bos=None).replace(TOK + "pre", "glm4"),
}


@pytest.mark.parametrize("name", SETS)
def test_what_ends_a_generation(name: str, tmp_path: Path) -> None:
    path = SETS[name].write(tmp_path / "m.gguf")
    answer = oracle.load(path)
    assert answer.ok, answer.errors
    with open_model(path) as m:
        assert vocabulary(m).eog == told(answer)


# One child process per name would take a minute: every eighth, and the ones with rules of their own.
SOME_PRE = (*names("pre")[::8], "kimi-k2", "glm4", "whitespace", "gemma4")


@pytest.mark.parametrize("pre", SOME_PRE)
def test_pre_tokenizers_are_known_to_the_library(pre: str, tmp_path: Path) -> None:
    answer = oracle.load(bpe().replace(TOK + "pre", pre).write(tmp_path / "m.gguf"))
    assert "unknown pre-tokenizer" not in "\n".join(answer.errors)


def test_unknown_pre_tokenizer_is_refused_as_we_say(tmp_path: Path) -> None:
    answer = oracle.load(bpe().replace(TOK + "pre", "smaug-xyz").write(tmp_path / "m.gguf"))
    assert any("unknown pre-tokenizer type: 'smaug-xyz'" in e for e in answer.errors)


@pytest.mark.parametrize("name", ["aquila", "gpt-neox", "llama-spm", "qwen2"])
def test_library_complains_where_we_do(name: str) -> None:
    log = "\n".join(line for _, line in oracle.load(corpus() / f"ggml-vocab-{name}.gguf", vocab_only=True).log)
    with open_model(corpus() / f"ggml-vocab-{name}.gguf") as m:
        assert ("GENERATION QUALITY WILL BE DEGRADED" in log) == (
            vocabulary(m).model == "gpt2" and not vocabulary(m).pre
        )


def test_id_zero_is_an_id() -> None:
    v = vocabulary(open_(bpe(bos=0, eos=0)))
    assert (v.special("bos"), v.special("eos"), v.stored("bos"), v.text(0)) == (0, 0, 0, "!")
    assert v.id_of("!") == 0
    assert v.show(0) == "0 '!'"


def test_of_equal_tokens_the_last_counts() -> None:
    v = vocabulary(open_(renamed((260, "same"), (270, "same"))))
    assert (v.id_of("same"), v.distinct, v.duplicates()) == (270, 299, [(260, 270)])


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("longest", [7, 255, 256, 70000])
def test_strings_are_split_alike_whatever_their_length(order: str, version: int, longest: int) -> None:
    words = ["", "a", "é", "\0\0\0\0\0\0\0\0", "x" * longest, *(f"w{i}" for i in range(200)), "\x01\0\0\0\0\0\0\0"]
    g = llama().replace(TOKENS, words).version(version)
    m = open_(g.big_endian() if order == "big" else g)
    head = m.fields[TOKENS].layout.length_size
    assert [r[head:].decode() for r in split_strings(m.fields[TOKENS])] == words
    assert [vocabulary(m).text(i) for i in range(len(words))] == words


def test_text_that_is_not_utf8_is_kept() -> None:
    g = llama().replace(TOKENS, ["a", b"\xff\xfe", "b"])
    v = vocabulary(open_(g))
    assert v.text(1) == "\udcff\udcfe"
    assert v.id_of("\udcff\udcfe") == 1


def test_template_text_is_decoded_as_utf8() -> None:
    # U+2581 shown as three characters broke DeepSeek's template in another reader.
    text = "<｜begin▁of▁sentence｜>{{ messages[0].content }}"
    assert open_(bpe(template=text))["tokenizer.chat_template"] == text


def test_nothing_is_assumed_of_files_without_a_vocabulary() -> None:
    v = vocabulary(open_(GGUF("llama").kv("llama.block_count", 1)))
    assert (v.count, list(v.records()), v.kind, v.eog, v.special("eos"), v.id_of("a"), v.text(3)) == (
        None, [], None, frozenset(), None, None, "",
    )  # fmt: skip


def test_scores_and_large_vocabulary() -> None:
    m = open_(llama3("llama-bpe"))
    v = vocabulary(m)
    assert (v.count, v.text(128009), v.id_of("<|eot_id|>"), v.add_bos) == (128256, "<|eot_id|>", 128009, True)
    assert SCORES not in m


@pytest.mark.parametrize("longest", [255, 256, 70_000])
def test_long_tokens_are_read_like_short_ones(tmp_path: Path, longest: int) -> None:
    tokens = [f"t{i}" for i in range(100)] + ["x" * longest, "", "é", "end"]
    with open_model(llama().replace("tokenizer.ggml.tokens", tokens).write(tmp_path / "m.gguf")) as m:
        v = vocabulary(m)
        assert [r[8:].decode() for r in v.records()] == tokens
        assert v.longer(255) == [i for i, token in enumerate(tokens) if len(token) > 255]
        assert v.id_of("end") == 103
