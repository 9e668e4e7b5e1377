"""Source: a file against the raw JSON of its Hugging Face folder. Numbers are those of public cases."""

from __future__ import annotations

import json

from gguftool.lint.against import HfFolder, from_files
from gguftool.lint.rule import Context
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready
from tests.lint.samples_rope import keys
from tests.lint.samples_tokenizer import CHATML, TEMPLATE, TOK, bpe, renamed

CONFIG = {
    "hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "max_position_embeddings": 2048, "vocab_size": 300, "eos_token_id": 257,
}  # fmt: skip
"""What config.json of the healthy model would say."""
TOKENIZER = {
    "bos_token": "<|bos|>", "eos_token": {"content": "<|im_end|>"}, "add_bos_token": False, "chat_template": CHATML,
}  # fmt: skip


def folder(config: dict | None = None, drop: str = "", **files: object) -> HfFolder:
    """The folder of the healthy model with changes; further files as ``tokenizer_config={…}``, ``jinja="…"``."""
    merged = {**CONFIG, **(config or {})}
    merged.pop(drop, None)
    out = {"config.json": json.dumps(merged).encode()}
    for name, value in files.items():
        if name == "jinja":
            out["chat_template.jinja"] = str(value).encode()
        else:
            out[f"{name}.json"] = value if isinstance(value, bytes) else json.dumps(value).encode()
    return from_files("./hf", out)


def against(*args: object, **kwargs: object) -> Context:
    return Context(against=folder(*args, **kwargs))  # type: ignore[arg-type]


def qwen2(**more: object) -> GGUF:
    return llama(arch="qwen2", **more)


def falcon(length: int) -> GGUF:
    return GGUF("falcon").kv("falcon.context_length", length).kv("falcon.block_count", 1).tensor("w", (32, 4))


def gemma3(window: int | None) -> GGUF:
    g = GGUF("gemma3").kv("gemma3.block_count", 1).kv("gemma3.rope.freq_base_swa", 1e6).tensor("w", (32, 4))
    return g if window is None else g.kv("gemma3.attention.sliding_window", window)


def granite(**more: object) -> GGUF:
    values = {"block_count": 1, "attention__layer_norm_rms_epsilon": 1e-5, "rope__dimension_count": 16}
    return keys("granite", **values, **more)


def deepseek2(**more: object) -> GGUF:
    """YaRN; enough for the rules of the source."""
    values = {"block_count": 1, "attention__layer_norm_rms_epsilon": 1e-5}
    return keys("deepseek2", **values, rope__scaling__type="yarn", rope__scaling__factor=40.0, **more)


def glm4(**more: object) -> GGUF:
    return keys("glm4", block_count=1, embedding_length=64, attention__head_count=4, **more)


LOG = "rope.scaling.yarn_log_multiplier"
MSCALE = {
    "rope_scaling": {"type": "yarn", "factor": 40, "mscale_all_dim": 0.707, "original_max_position_embeddings": 4096},
}


def yarn(**keys: object) -> GGUF:
    g = qwen2()
    for key, value in keys.items():
        g.kv(f"qwen2.rope.scaling.{key}", value)
    return g


YARN = {"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}}
FULL = yarn(type="yarn", factor=4.0, original_context_length=512)
LLAMA3 = {"rope_scaling": {"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}}
GEMMA = {"sliding_window": 512, "rope_local_base_freq": 10000.0, "num_attention_heads": 4}
SCALE, BASE, EPS = "llama.rope.freq_scale", "qwen2.rope.freq_base", "llama.attention.layer_norm_rms_epsilon"
SAMPLES = [
    Sample("source-other-model", ready(), "field:llama.embedding_length",
           "./hf describes another model: embedding_length 64, there 896, block_count 1, there 24", severity="error",
           fix="",
           context=against({"hidden_size": 896, "num_hidden_layers": 24}),
           silent=ready().replace("llama.embedding_length", 896).replace("llama.block_count", 24)),
    # 1: a constant of the converter
    Sample("source-context-length", falcon(2048), "field:falcon.context_length",
           "is 2,048, config.json has max_position_embeddings 8,192", severity="warning",
           fix="--set falcon.context_length=8192", safe=False, context=against({"max_position_embeddings": 8192}),
           silent=falcon(8192)),
    Sample("context-length-missing", ready().drop("llama.context_length"), message="is missing", severity="error",
           fix="--set llama.context_length=2048", safe=True, context=against()),
    Sample("source-context-length", ready(), context=against({"max_position_embeddings": 512}),
           silent=ready().kv("llama.rope.scaling.factor", 4.0).kv("llama.rope.scaling.original_context_length", 512)),
    # 3: key missing; 4: another value; 26, 27: the window
    Sample("source-rope-base", qwen2().drop(BASE), f"field:{BASE}",
           "is missing (llama.cpp takes 10000), config.json has rope_theta 1e+06", severity="error",
           fix="--set qwen2.rope.freq_base=1000000.0", safe=False, context=against({"rope_theta": 1e6}),
           silent=qwen2().replace(BASE, 1e6)),
    Sample("rope-freq-base-missing", qwen2().drop(BASE), f"field:{BASE}", "config.json confirms",
           fix="--set qwen2.rope.freq_base=10000.0", safe=True, context=against(), silent=qwen2()),
    # another size of the model: still a contradiction, but no value to write
    Sample("rope-freq-base-missing", qwen2().drop(BASE), f"field:{BASE}", "config.json has rope_theta 1e+06, but other",
           severity="error", fix="", context=against({"rope_theta": 1e6, "hidden_size": 896}), silent=qwen2()),
    Sample("source-rope-base", ready(), "field:llama.rope.freq_base",
           "is 10000, config.json has rope_theta 1e+06",
           severity="error", fix="--set llama.rope.freq_base=1000000.0", context=against({"rope_theta": 1000000}),
           silent=ready().replace("llama.rope.freq_base", 1e6)),
    Sample("source-rope-base", ready(), message="1e+06", silent=ready().replace("llama.rope.freq_base", 1e6),
           context=against({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}, drop="rope_theta")),
    Sample("source-sliding-window", gemma3(257), "field:gemma3.attention.sliding_window", "is 257, config.json has 512",
           severity="warning", fix="--set gemma3.attention.sliding_window=512", safe=False, context=against(GEMMA),
           silent=gemma3(512)),
    Sample("source-sliding-window", GGUF("phi3").kv("phi3.block_count", 1).tensor("w", (32, 4)),
           "field:phi3.attention.sliding_window", "is missing, config.json has 2,047",
           fix="--set phi3.attention.sliding_window=2047", context=against({"sliding_window": 2047}),
           silent=ready()),
    Sample("source-rope-base-swa", gemma3(512), "field:gemma3.rope.freq_base_swa", "config.json has 10000",
           severity="warning", fix="--set gemma3.rope.freq_base_swa=10000.0", context=against(GEMMA),
           silent=gemma3(512).replace("gemma3.rope.freq_base_swa", 10000.0)),
    Sample("source-constants", ready().replace(EPS, 1e-6), f"field:{EPS}",
           "is 1e-06, config.json has rms_norm_eps 1e-05",
           severity="warning", fix=f"--set {EPS}=1e-05", context=against()),
    Sample("source-constants", granite(logit_scale=8.0), "field:granite.logit_scale", "logits_scaling 16",
           fix="--set granite.logit_scale=16.0", context=against({"logits_scaling": 16}),
           silent=granite(logit_scale=16.0)),
    # lost constants, with the value the converter would write
    Sample("source-constants", granite(), "field:granite.embedding_scale",
           "is missing (llama.cpp takes 0), config.json has embedding_multiplier 12",
           fix="--set granite.embedding_scale=12.0", safe=False, context=against({"embedding_multiplier": 12}),
           silent=granite(embedding_scale=12.0)),
    Sample("source-constants", deepseek2(), f"field:deepseek2.{LOG}", "comes to 0.0707 (mscale_all_dim)",
           severity="warning", fix=f"--set deepseek2.{LOG}=0.0707", context=against(MSCALE),
           silent=deepseek2(rope__scaling__yarn_log_multiplier=0.0707)),
    Sample("source-constants", deepseek2(), "field:deepseek2.expert_gating_func", "comes to 2",
           fix="--set deepseek2.expert_gating_func=2", context=against(MSCALE | {"scoring_func": "sigmoid"}),
           silent=deepseek2(rope__scaling__yarn_log_multiplier=0.0707, expert_gating_func=2)),
    # a number that follows from several; llama.cpp works it out, too, so that it is only told
    Sample("source-constants", keys("minicpm", block_count=1), "field:minicpm.residual_scale", "comes to 1.4",
           severity="info", fix="--set minicpm.residual_scale=1.4", context=against({"scale_depth": 1.4}),
           silent=keys("minicpm", block_count=1, residual_scale=1.4)),
    Sample("source-constants", glm4(rope__dimension_count=16), "field:glm4.rope.dimension_count", "comes to 8",
           context=against({"head_dim": 16}), silent=glm4(rope__dimension_count=8)),
    Sample("source-untied-output", ready(), "tensor:token_embd.weight", "there is no output.weight", severity="warning",
           fix="", context=against({"tie_word_embeddings": False}), silent=ready().tensor("output.weight", (64, 291))),
    # 6: YaRN needs three keys that agree
    Sample("source-rope-scaling", qwen2(), "field:qwen2.rope.scaling.type",
           "type none, there yarn; factor 1, there 4; original context none, there 512", severity="warning",
           fix="--set qwen2.rope.scaling.type=yarn --set qwen2.rope.scaling.factor=4.0 "
           "--set qwen2.rope.scaling.original_context_length=512", safe=False, context=against(YARN), silent=FULL),
    Sample("source-rope-scaling", yarn(type="yarn", factor=4.0),
           message="config.json: original context none, there 512",
           context=against(YARN), silent=FULL),
    Sample("source-rope-scaling", FULL, message="is yarn with factor 4, config.json has no scaling", severity="info",
           context=against(), silent=qwen2()),
    # 7: Llama 3.1 without its factors
    Sample("source-rope-scaling", ready(), "header", "llama3 scaling, but there is no rope_freqs.weight",
           severity="warning",
           fix="", context=against(LLAMA3), silent=ready().tensor("rope_freqs.weight", (8,))),
    # 8, 10: several terminators in generation_config.json
    Sample("source-eos", bpe(), f"field:{TOK}eos_token_id", "ends generations at 258 '<|im_start|>'",
           severity="warning",
           fix="--set tokenizer.ggml.eot_token_id=258", context=against(generation_config={"eos_token_id": [257, 258]}),
           silent=bpe().kv(TOK + "eot_token_id", 258)),
    Sample("source-eos", renamed((257, "<|x|>")).replace(TOK + "eos_token_id", 0),
           message="ends generations at 257 '<|x|>'",
           context=against(), silent=bpe(eos=0)),
    # 12: id 0 in the source is an id
    Sample("source-eos", bpe(), message="ends generations at 0 '!'", context=against({"eos_token_id": 0}),
           silent=bpe(eos=0)),
    Sample("source-special-tokens", bpe(bos=257, add_bos=True), f"field:{TOK}bos_token_id",
           "is 257 '<|im_end|>', tokenizer_config.json has '<|bos|>' (256)", severity="warning",
           fix="--set tokenizer.ggml.bos_token_id=256", context=against(tokenizer_config=TOKENIZER),
           silent=bpe(add_bos=True)),
    Sample("source-special-tokens", bpe(), f"field:{TOK}padding_token_id", "'<|x|>' (not in the vocabulary)",
           severity="info", fix="", context=against(special_tokens_map={"pad_token": "<|x|>"}),
           silent=bpe().drop(TOK + "padding_token_id")),
    # 14: BOS in front of every prompt of Yi
    Sample("source-add-bos", bpe(add_bos=True), f"field:{TOK}add_bos_token", "is true, tokenizer_config.json has false",
           severity="warning", fix="--set tokenizer.ggml.add_bos_token=false", safe=False,
           context=against(tokenizer_config=TOKENIZER), silent=bpe()),
    Sample("source-add-bos", ready(), f"field:{TOK}add_bos_token", "is missing (llama.cpp takes true)",
           context=against(tokenizer_config=TOKENIZER), silent=bpe(add_bos=None)),
    Sample("source-vocabulary-size", ready(), f"field:{TOK}tokens", "291 tokens, config.json has vocab_size 300",
           severity="info", fix="", context=against(), silent=bpe()),
    # The converter of 2026-08 forgets repetition_penalty; 1 is what llama.cpp takes without the key.
    Sample("source-sampling", ready(), "field:general.sampling.penalty_repeat", "has repetition_penalty 1.05",
           context=against(generation_config={"repetition_penalty": 1.05, "temperature": True, "top_k": None}),
           fix="--set general.sampling.penalty_repeat=1.05", silent_context=against(
               generation_config={"repetition_penalty": 1.0, "do_sample": True, "eos_token_id": [1, 2]})),
    Sample("source-sampling", ready().kv("general.sampling.temp", 0.8), "field:general.sampling.temp",
           "general.sampling.temp is 0.8", context=against(generation_config={"temperature": 0.6, "top_p": 0.95}),
           silent=ready().kv("general.sampling.temp", 0.6).kv("general.sampling.top_p", 0.95)),
    Sample("source-templates", bpe(), "field:tokenizer.chat_template.tool_use", "has a template of that name",
           context=against(tokenizer_config={**TOKENIZER, "chat_template": [
               {"name": "default", "template": CHATML}, {"name": "tool use", "template": "{{ tools }}"}]}),
           silent=bpe().kv("tokenizer.chat_template.tool_use", "{{ tools }}")),
    Sample("source-chat-template", bpe(template=None), f"field:{TEMPLATE}", "tokenizer_config.json of ./hf has one",
           severity="warning", fix="--fix-unsafe", safe=False, context=against(tokenizer_config=TOKENIZER),
           silent=bpe()),
    Sample("source-chat-template", bpe(template=CHATML.replace("assistant", "model")), f"field:{TEMPLATE}",
           "chat_template.jinja of ./hf (first at line 3)", severity="info", safe=False,
           fix="gguftool fix m.gguf --chat-template ./hf/chat_template.jinja", context=against(jinja=CHATML),
           silent=bpe()),
]  # fmt: skip
