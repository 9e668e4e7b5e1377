"""Tokenizer: arrays, special ids, pre-tokenizer, what starts and ends a text. Numbers are those of public cases."""

from __future__ import annotations

from gguftool.lint.against import from_files
from gguftool.lint.rule import Context
from gguftool.lint.tokenized import Compared, Cut, Differs
from gguftool.model.corpus import Sample as CorpusSample
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready

TOK = "tokenizer.ggml."
TOKENS, TYPES, SCORES, MERGES, PRE = TOK + "tokens", TOK + "token_type", TOK + "scores", TOK + "merges", TOK + "pre"
TEMPLATE = "tokenizer.chat_template"

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_letters() -> list[str]:
    """The 256 letters that stand for bytes in byte-level BPE, in the order of GPT-2's vocabulary."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return [chr(b) for b in plain] + [chr(256 + i) for i in range(len(others))]


def vocabulary() -> list[str]:
    return [*byte_letters(), "<|bos|>", "<|im_end|>", "<|im_start|>", "<|pad|>", *(f"t{i}" for i in range(40))]


def bpe(
    *, template: str | None = CHATML, bos: int | None = 256, eos: int | None = 257, add_bos: bool | None = False
) -> GGUF:
    """The base file of the public cases: a llama with 300 byte-level BPE tokens, four of them control tokens."""
    g = ready().drop(TOKENS, TYPES, SCORES, TOK + "model", *(TOK + f"{r}_token_id" for r in ("bos", "eos", "unknown")))
    g.kv(TOK + "model", "gpt2").kv(PRE, "gpt-2").kv(TOKENS, vocabulary()).kv(MERGES, ["a b"])
    g.kv(TYPES, [1] * 256 + [3] * 4 + [1] * 40, "[i32]").kv(TOK + "padding_token_id", 259)
    for role, value in (("bos", bos), ("eos", eos)):
        if value is not None:
            g.kv(f"{TOK}{role}_token_id", value)
    if add_bos is not None:
        g.kv(TOK + "add_bos_token", add_bos)
    if template is not None:
        g.kv(TEMPLATE, template)
    return g.retensor("token_embd.weight", shape=(64, 300))


def renamed(*changes: tuple[int, str], types: dict[int, int] | None = None) -> GGUF:
    """The base file with other texts and types for some tokens."""
    words = vocabulary()
    kinds = [1] * 256 + [3] * 4 + [1] * 40
    for i, text in changes:
        words[i] = text
    for i, kind in (types or {}).items():
        kinds[i] = kind
    return bpe().replace(TOKENS, words).replace(TYPES, kinds, "[i32]")


def spm(**texts: str) -> GGUF:
    """The healthy SentencePiece model with other texts for some tokens, by ``_id``."""
    words = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"▁t{i}" for i in range(32)]
    for key, text in texts.items():
        words[int(key[1:])] = text
    return ready().replace(TOKENS, words)


def llama3(pre: str | None) -> GGUF:
    """The vocabulary of Llama 3 by size and markers, no tensors behind it."""
    words = [f"w{i}" for i in range(128256)]
    for i, text in (
        (128000, "<|begin_of_text|>"), (128001, "<|end_of_text|>"), (128006, "<|start_header_id|>"),
        (128007, "<|end_header_id|>"), (128009, "<|eot_id|>"),
    ):  # fmt: skip
        words[i] = text
    g = GGUF("llama").kv("llama.block_count", 1).kv(TOK + "model", "gpt2").kv(TOKENS, words).kv(MERGES, ["a b"])
    g.kv(TOK + "bos_token_id", 128000).kv(TOK + "eos_token_id", 128001).tensor("token_embd.weight", (32, 4))
    return g if pre is None else g.kv(PRE, pre)


def other_merges(n: int = 100) -> GGUF:
    return bpe().replace(MERGES, [f"no{i} where{i}" for i in range(n)])


def t5() -> GGUF:
    words = ["<pad>", "</s>", "<unk>"] + [f"▁t{i}" for i in range(20)]
    g = GGUF("t5").kv("t5.block_count", 1).kv(TOK + "model", "t5").kv(TOKENS, words)
    return g.kv(SCORES, [-float(i) for i in range(23)]).kv(TYPES, [3, 3, 2] + [1] * 20, "[i32]").tensor("w", (32, 4))


PHI = ("general.name", "Phi-3 tiny")
LONG = "x" * (1 << 20)
END = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|fin|>\n{% endfor %}<|im_start|>assistant\n"
BOS = TOK + "bos_token_id"
EOS = TOK + "eos_token_id"
APART = Differs(CorpusSample("numbers", "123"), Cut((7,), ("123",)), Cut((5, 6), ("12", "3")))


def tokenized(**outcome: object) -> Context:
    """A context in which the tokenizers were compared with this outcome."""
    made = Compared(texts=100, **outcome)  # type: ignore[arg-type]
    return Context(against=from_files("./hf", {"config.json": b"{}"}), tokenized=lambda m: made)


SAMPLES = [
    Sample("tokenizer-model-missing", bpe().drop(TOK + "model"), f"field:{TOK}model", "the merges say it is gpt2",
           severity="error", fix="--set tokenizer.ggml.model=gpt2", safe=False),
    Sample("tokenizer-model-missing", ready().drop(TOK + "model"), message="say it is llama"),
    Sample("tokenizer-model-unknown", bpe().replace(TOK + "model", "bpe"), f"field:{TOK}model", "'bpe'",
           severity="error",
           fix="--set tokenizer.ggml.model=gpt2"),
    Sample("tokenizer-model-unknown", bpe().replace(TOK + "model", "zzz"), fix=""),
    Sample("tokens-missing", ready().drop(TOKENS), f"field:{TOKENS}", "is missing", severity="error"),
    Sample("tokens-missing", ready().replace(TOKENS, [], "[str]"), message="is empty",
           silent=ready().replace(TOK + "model", "no_vocab").drop(TOKENS)),
    # 53: a converter flattened the list into the bytes of one string
    Sample("tokenizer-array-type", bpe().replace(TOKENS, [60, 117, 110, 107, 62], "[i32]"), f"field:{TOKENS}",
           "is arr[i32], must be an array of str", severity="error", fix=""),
    # 135: element types of another width
    Sample("tokenizer-array-type", bpe().replace(TYPES, [1] * 300, "[u8]"), f"field:{TYPES}",
           "arr[u8], must be an array of i32",
           fix="tokenizer.ggml.token_type", safe=True),
    Sample("tokenizer-array-type", bpe().replace(TYPES, [1] * 300, "[u32]"), f"field:{TYPES}", "arr[u32]"),
    Sample("tokenizer-array-type", ready().replace(SCORES, [1] * 291, "[u8]"), f"field:{SCORES}",
           "must be an array of f32",
           silent=ready().replace(SCORES, list(range(291)), "[i32]")),
    Sample("tokenizer-array-type", bpe().replace(MERGES, "a b", "str"), f"field:{MERGES}", "is str"),
    # 30: token_type of 299
    Sample("token-array-too-short", bpe().replace(TYPES, [1] * 299, "[i32]"), f"field:{TYPES}",
           "299 elements for 300 tokens",
           severity="error", safe=False),
    Sample("token-array-too-short", ready().replace(SCORES, [0.0] * 290), f"field:{SCORES}", "290 elements for 291"),
    Sample("token-array-too-long", bpe().replace(TYPES, [1] * 256 + [3] * 4 + [1] * 41, "[i32]"), f"field:{TYPES}",
           "301 elements for 300", severity="info", safe=True),
    # 30: embedding of 299 rows, and of 301
    Sample("vocabulary-size-mismatch", bpe().retensor("token_embd.weight", shape=(64, 299)), f"field:{TOKENS}",
           "300 tokens, but token_embd.weight has 299 rows (token_type 300, scores none, llama.vocab_size none)",
           severity="error", fix="--select vocabulary-size-mismatch --fix-unsafe", safe=False, silent=bpe()),
    Sample("vocabulary-size-mismatch", bpe().retensor("token_embd.weight", shape=(64, 301)).kv("llama.vocab_size", 301),
           message="llama.vocab_size 301)", silent=bpe().kv("llama.vocab_size", 300)),
    Sample("vocabulary-size-mismatch", bpe().kv("llama.vocab_size", 7), "field:llama.vocab_size", "is 7",
           severity="info",
           fix="--set llama.vocab_size=300", safe=True),
    Sample("merges-missing", bpe().drop(MERGES), f"field:{MERGES}", "is missing", severity="error", fix="",
           silent=bpe().drop(MERGES).replace(PRE, "kimi-k2")),
    Sample("merges-missing", bpe().replace(MERGES, [], "[str]"), message="single bytes", severity="warning",
           silent=bpe()),
    Sample("merges-malformed", bpe().replace(MERGES, ["a b", "xy", " a", "c "]), f"field:{MERGES}",
           "3 of 4 entries are not two pieces, the first is 1: 'xy'", severity="warning", silent=bpe()),
    Sample("merges-malformed", other_merges(), message="100 of 100 tried make no token", silent=other_merges(10)),
    Sample("duplicate-tokens", renamed((299, "<|im_end|>")), f"field:{TOKENS}", "299 and 257 are both '<|im_end|>'",
           severity="error", fix="--set 'tokenizer.ggml.tokens[299]=[DUPLICATE_299]'", safe=False,
           silent=renamed((298, ""), (299, ""))),
    Sample("empty-tokens", renamed((298, ""), (299, "")), f"field:{TOKENS}", "2 tokens are empty, the first is 298",
           severity="info", fix=""),
    # 126: one token of 1 MiB
    Sample("token-too-long", renamed((299, LONG)), f"field:{TOKENS}", "token 299 has 1,048,576 bytes", severity="error",
           silent=renamed((299, "x" * 65536))),
    Sample("token-type-unknown", renamed(types={12: 7, 13: -1}), f"field:{TYPES}",
           "2 tokens have a type that does not exist: -1, 7 (the first is 12)", severity="warning"),
    Sample("token-scores-unusable", ready().drop(SCORES), f"field:{SCORES}", "which a llama tokenizer needs",
           severity="warning", silent=bpe()),
    Sample("token-scores-unusable", ready().replace(SCORES, [0.0] * 290 + [float("nan")]), message="that of token 290"),
    Sample("token-scores-unusable", llama(60).replace(SCORES, [0.0] * 319), message="all 319 scores are 0"),
    Sample("byte-tokens-missing", spm(_13="newline"), f"field:{TOKENS}", "no token for the newline", severity="error",
           silent=spm(_13="\n")),
    Sample("byte-tokens-missing", spm(_3="zero"), message="no token for 1 of 256 bytes, the first is <0x00>",
           severity="warning", silent=bpe()),
    Sample("byte-token-malformed", spm(_5="a"), f"field:{TYPES}", "token 5 'a' is typed as a byte", severity="error",
           fix="'tokenizer.ggml.token_type[5]=1'", safe=True),
    Sample("byte-token-malformed", spm(_5="<0xzz>"), message="not written <0xHH>", severity="warning", safe=False),
    # 31: all types normal
    Sample("control-token-typed-normal", bpe().replace(TYPES, [1] * 300, "[i32]"), f"field:{TYPES}",
           "3 control tokens are typed as normal text: 256 '<|bos|>', 257 '<|im_end|>', 258 '<|im_start|>'",
           severity="warning", fix="'tokenizer.ggml.token_type[257]=3'", safe=False, silent=bpe()),
    Sample("control-token-typed-normal", renamed(types={257: 1}), message="1 control token is typed as normal text",
           safe=True, silent=renamed(types={257: 4})),
    Sample("control-token-typed-normal", bpe().drop(TYPES), f"field:{TYPES}", "is missing: 3 control tokens"),
    Sample("phi3-tokens-missing", bpe().replace(*PHI), "field:general.name", "'<|endoftext|>', which are not",
           severity="error", silent=bpe().replace("general.name", "Phi-2 tiny")),
    Sample("phi3-tokens-missing", ready().replace("general.name", "my phi3"),
           message="the token '<|endoftext|>', which is",
           silent=spm(_290="<|endoftext|>").replace(*PHI)),
    # 16
    Sample("pre-tokenizer-missing", bpe().drop(PRE), f"field:{PRE}", "answers get worse", severity="error",
           fix="--set 'tokenizer.ggml.pre=…'", safe=False, silent=bpe()),
    Sample("pre-tokenizer-missing", bpe().replace(PRE, ""), message="is empty", silent=ready()),
    Sample("pre-tokenizer-missing", llama3(None), message="the vocabulary of Llama 3, which needs llama-bpe",
           fix="--set tokenizer.ggml.pre=llama-bpe", safe=False, silent=llama3("llama-bpe")),
    # 18
    Sample("pre-tokenizer-unknown", bpe().replace(PRE, "smaug-xyz"), f"field:{PRE}",
           "'smaug-xyz', which llama.cpp b11434 does not know; nearest: smaug-bpe", severity="error",
           fix="--set tokenizer.ggml.pre=smaug-bpe", safe=False, silent=ready().kv(PRE, "nonsense")),
    Sample("pre-tokenizer-unknown", bpe().replace(PRE, "quokka-9"), message="needs a newer llama.cpp", fix="",
           silent=bpe()),
    # 17
    Sample("pre-tokenizer-mismatch", llama3("smaug-bpe"), f"field:{PRE}",
           "is smaug-bpe, but this is the vocabulary of Llama 3", severity="warning",
           fix="--set tokenizer.ggml.pre=llama-bpe",
           safe=False, silent=llama3("llama3")),
    # 13: id beyond the vocabulary; 12: id 0 is an id
    Sample("special-id-out-of-range", bpe(eos=99999), f"field:{EOS}",
           "is 99,999, but there are 300 tokens; llama.cpp takes 11 ','",
           severity="error", fix="--set tokenizer.ggml.eos_token_id=257", safe=False, silent=bpe(bos=0, eos=0)),
    Sample("special-id-out-of-range", bpe(bos=300), f"field:{BOS}", fix="--set tokenizer.ggml.bos_token_id=256",
           silent=bpe(bos=299)),
    Sample("special-id-out-of-range", bpe().kv(TOK + "mask_token_id", 300), f"field:{TOK}mask_token_id",
           "llama.cpp takes none", severity="warning", fix=""),
    Sample("special-id-out-of-range", bpe().kv(TOK + "prefix_token_id", 300), f"field:{TOK}prefix_token_id",
           severity="warning", silent=bpe().kv(TOK + "cls_token_id", 99999)),
    # 13: no BOS key
    Sample("bos-missing", bpe(bos=None, add_bos=True), f"field:{BOS}", "puts 11 ',' in front of every prompt",
           severity="error", fix="--set tokenizer.ggml.bos_token_id=256", silent=bpe(bos=0, add_bos=True)),
    Sample("bos-missing", renamed((256, "b")).drop(BOS).replace(TOK + "add_bos_token", True),
           fix="--set tokenizer.ggml.add_bos_token=false"),
    Sample("bos-missing", bpe(bos=None), f"field:{BOS}", "shows 11 ',' as BOS, but does not add it", severity="info"),
    Sample("bos-missing", t5().kv(TOK + "add_bos_token", True), message="aborts at the first prompt", silent=t5()),
    # 13: no EOS key
    Sample("eos-missing", bpe(eos=None), f"field:{EOS}", "llama.cpp takes 11 ','", severity="error",
           fix="--set tokenizer.ggml.eos_token_id=257", silent=bpe(eos=0)),
    Sample("eos-missing", spm(_2="x").drop(EOS), message="takes 2 'x'", fix="--special 'eos=…'",
           silent=ready().drop(EOS)),
    # 8: eos names a start marker
    Sample("eos-is-start-marker", bpe(eos=256), f"field:{EOS}", "is 256 '<|bos|>', which starts a text",
           severity="warning",
           fix="--set tokenizer.ggml.eos_token_id=257", safe=False, silent=bpe()),
    Sample("eos-is-start-marker", bpe().kv(TOK + "eot_token_id", 258), f"field:{TOK}eot_token_id",
           "258 '<|im_start|>'"),
    Sample("add-eos-on-chat-model", bpe().kv(TOK + "add_eos_token", True), f"field:{TOK}add_eos_token",
           "every prompt ends with EOS", severity="warning", fix="--set tokenizer.ggml.add_eos_token=false",
           silent=bpe().kv(TOK + "add_eos_token", True).kv("llama.pooling_type", 3)),
    Sample("fim-tokens-incomplete", bpe().kv(TOK + "fim_pre_token_id", 260).kv(TOK + "fim_suf_token_id", 261),
           message="has prefix and suffix tokens, but no middle token", severity="info",
           silent=bpe().kv(TOK + "fim_pre_token_id", 260).kv(TOK + "fim_suf_token_id",
           261).kv(TOK + "middle_token_id", 262)),
    Sample("add-bos-overridden", bpe().replace(TOK + "model", "gemma4"), f"field:{TOK}add_bos_token",
           fix="--set tokenizer.ggml.add_bos_token=true", safe=True, silent=bpe()),
    Sample("suppressed-token-out-of-range", bpe().kv(TOK + "suppress_tokens", [5, 300, -1], "[i32]"),
           f"field:{TOK}suppress_tokens", "2 ids outside the vocabulary, the first is 300", severity="info",
           fix="--set tokenizer.ggml.suppress_tokens=5", silent=bpe().kv(TOK + "suppress_tokens", [5], "[i32]")),
    # 8: the template's end of turn ends nothing
    Sample("end-of-turn-not-eog", renamed((299, "<|fin|>"), types={299: 3}).replace(TEMPLATE, END), f"field:{EOS}",
           "ends turns with 299 '<|fin|>', which does not end a generation; only 257 '<|im_end|>' does",
           severity="warning", fix="--set tokenizer.ggml.eot_token_id=299", safe=False, silent=bpe()),
    Sample("end-of-turn-by-name-only", bpe(eos=259), f"field:{EOS}", "neither eos (259 '<|pad|>') nor eot (none)",
           severity="info", fix="--set tokenizer.ggml.eot_token_id=257", safe=True, silent=bpe()),
    Sample("end-of-turn-by-name-only", bpe(eos=97), severity="info", fix=""),  # no word
    Sample("eos-not-control", bpe(eos=97), f"field:{EOS}", "an ordinary token: every answer ends where it would come",
           severity="warning", fix="--set tokenizer.ggml.eos_token_id=257", safe=False, silent=bpe(eos=259)),
    Sample("eos-not-control", bpe().kv(TOK + "eot_token_id", 97), f"field:{TOK}eot_token_id", severity="warning",
           fix=f"--delete {TOK}eot_token_id", safe=False, silent=bpe().kv(TOK + "eot_token_id", 257)),
    Sample("eos-not-control", bpe().kv(TOK + "eom_token_id", 97), f"field:{TOK}eom_token_id", severity="warning",
           silent=renamed((299, "<|fin|>"), types={299: 3}).kv(TOK + "eom_token_id", 299)),
    # 10: eos and eot swapped into one
    Sample("eos-and-eot-alike", renamed((299, "<|endoftext|>"), types={299: 3}).kv(TOK + "eot_token_id", 257),
           f"field:{EOS}",
           "both 257 '<|im_end|>', although 299 '<|endoftext|>' is there; generation ends at 257 '<|im_end|>', 299",
           severity="info", fix="--special 'eos=<|endoftext|>'", silent=bpe().kv(TOK + "eot_token_id", 257)),
    Sample("nothing-ends-generation",
           t5().replace(TOK + "model", "llama").replace(TOKENS, ["a", "b"]).drop(SCORES, TYPES),
           f"field:{EOS}", "no token ends a generation", severity="warning"),
    Sample("double-bos", bpe(template="{{ bos_token }}" + CHATML, add_bos=True), f"field:{TOK}add_bos_token",
           "llama-server takes one away", severity="info", silent=bpe(template="{{ bos_token }}" + CHATML)),
    Sample("double-bos", bpe(template="{{ bos_token }}{{ bos_token }}" + CHATML), f"field:{TEMPLATE}", "twice",
           severity="warning", silent=bpe(add_bos=True)),
    Sample("double-bos", bpe(template="\n{{ bos_token }}" + CHATML, add_bos=True), f"field:{TEMPLATE}",
           "blanks in front",
           severity="warning"),
    Sample("tokenizer-texts-differ", bpe(), f"field:{PRE}", "with the pre-tokenizer llama-bpe all texts agree",
           severity="error", fix="--set tokenizer.ggml.pre=llama-bpe", silent=bpe(),
           context=tokenized(differs=(APART,), pre=("llama-bpe",)), silent_context=tokenized()),
    Sample("tokenizer-texts-differ", bpe(), f"field:{TOKENS}", "no pre-tokenizer that llama.cpp knows agrees",
           severity="warning", fix="", silent=bpe(), context=tokenized(differs=(APART,)), silent_context=tokenized()),
    Sample("tokenizer-texts-differ", bpe(), f"field:{TOKENS}", "all agree in NFC",
           severity="info", fix="", silent=bpe(), context=tokenized(differs=(APART,), form="NFC"),
           silent_context=tokenized()),
    Sample("tokenizer-ends-differ", bpe(), f"field:{TOK}add_bos_token", "puts [1] '<s>', tokenizer.json nothing",
           silent=bpe(), context=tokenized(ends=(Cut((), ()), Cut((1,), ("<s>",)))), silent_context=tokenized()),
]  # fmt: skip
