"""Safety: the role of the file, hidden text, the policy."""

from __future__ import annotations

import hashlib

from gguftool.lint.policy import Policy
from gguftool.lint.rule import Context
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready

TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
PIN = hashlib.sha256(TEMPLATE.encode()).hexdigest()


def policy(**demands: object) -> Context:
    return Context(policy=Policy(**demands))  # type: ignore[arg-type]


SAMPLES = [
    Sample(
        "not-a-model",
        GGUF("qwen_image").kv("general.name", "x").tensor("w"),
        "field:general.architecture",
        "ComfyUI",
        severity="error",
    ),
    Sample(
        "not-a-model",
        GGUF("clip").kv("clip.has_vision_encoder", True).tensor("v.patch_embd.weight"),
        "file",
        "a multimodal projector",
        severity="info",
    ),
    Sample(
        "not-a-model",
        GGUF("llama").kv("general.type", "adapter").kv("adapter.type", "lora").tensor("w.lora_a"),
        "field:general.type",
        "a LoRA adapter",
        severity="info",
    ),
    Sample(
        "not-a-model",
        GGUF().kv("general.type", "imatrix").kv("imatrix.datasets", ["x"]).tensor("w"),
        "field:general.type",
        "an importance matrix",
        severity="info",
    ),
    Sample(
        "not-a-model",
        llama().drop_tensor(*[t["name"] for t in llama()._tensors]),
        "file",
        "a vocabulary",
        severity="info",
    ),
    # HEADER_EMPTY of llama.cpp's own table: well-formed, and nothing
    Sample("not-a-model", GGUF(), "file", "an empty GGUF", severity="error"),
    Sample(
        "control-characters",
        ready().kv("general.author", "\x1b[2J\x1b]0;title\x07"),
        "field:general.author",
        "holds control characters",
        severity="warning",
        silent=ready().kv("general.author", "A\nB\tC"),
    ),
    Sample("control-characters", ready().kv("x.\x1b[31m", 1), message="the key holds control characters"),
    Sample(
        "hidden-characters",
        ready().kv("general.author", "Lla\u200bma"),
        "field:general.author",
        "invisible characters",
        severity="warning",
        silent=ready().kv("general.author", "Łódź 東京"),
    ),
    Sample("hidden-characters", ready().kv("general.author", "abc\u202edef"), "field:general.author"),
    Sample(
        "text-oversized",
        ready().kv("general.description", "x" * ((1 << 20) + 1)),
        "field:general.description",
        "bytes of text",
        silent=ready().kv("gguftool.pad", " " * ((1 << 20) + 1)),
    ),
    Sample(
        "policy-architecture",
        ready(),
        "field:general.architecture",
        "architecture llama is not allowed (qwen2)",
        silent=llama(arch="qwen2"),
        context=policy(architectures=("qwen2",)),
        severity="error",
    ),
    Sample(
        "policy-architecture",
        GGUF("clip").tensor("w"),
        "file",
        "role mmproj is not allowed",
        context=policy(roles=("model",)),
    ),
    Sample(
        "policy-size",
        ready(),
        "file",
        "allowed are 1,000",
        silent=GGUF("llama").tensor("w", (32,)),
        context=policy(max_size=1000),
    ),
    Sample(
        "policy-context",
        ready(),
        "field:llama.context_length",
        "context length 2,048, allowed are 1,024",
        silent=ready().replace("llama.context_length", 1024),
        context=policy(max_context=1024),
        fix="--context-length 1024",
    ),
    Sample(
        "policy-context",
        ready(),
        "field:llama.context_length",
        "needed are 8,192",
        silent=ready().replace("llama.context_length", 8192),
        context=policy(min_context=8192),
    ),
    Sample(
        "policy-quantization",
        ready(),
        "field:general.file_type",
        "file type F32 is not allowed (Q8_0)",
        silent=ready().replace("general.file_type", 7),
        context=policy(file_types=("Q8_0",)),
    ),
    Sample(
        "policy-quantization",
        ready().replace("llama.kv_cache_type", "q8_0/q4_0"),
        "field:llama.kv_cache_type",
        "cache type q4_0 is not allowed",
        silent=ready().replace("llama.kv_cache_type", "q8_0"),
        context=policy(cache_types=("q8_0",)),
    ),
    Sample(
        "policy-keys",
        ready(),
        "field:general.license",
        "general.license is missing",
        silent=ready().kv("general.license", "mit"),
        context=policy(required_keys=("general.license",)),
        fix="--set 'general.license=…'",
    ),
    Sample(
        "policy-keys",
        ready().drop("llama.context_length"),
        "field:llama.context_length",
        "is missing",
        context=policy(required_keys=("context_length",)),
    ),
    Sample(
        "policy-keys",
        ready().kv("general.url", "x"),
        "field:general.url",
        "is not allowed",
        context=policy(forbidden_keys=("general.url",)),
        fix="--delete general.url",
    ),
    Sample(
        "policy-keys",
        ready().kv("general.license", "gpl-3.0"),
        "field:general.license",
        "licence gpl-3.0",
        silent=ready().kv("general.license", "mit"),
        context=policy(licenses=("mit",)),
    ),
    Sample(
        "policy-keys",
        ready(),
        "field:general.organization",
        "must be Example",
        silent=ready().kv("general.organization", "Example"),
        context=policy(values={"general.organization": "Example"}),
    ),
    Sample(
        "policy-template",
        ready().kv("tokenizer.chat_template", TEMPLATE + " "),
        "field:tokenizer.chat_template",
        "which is not pinned",
        silent=ready().kv("tokenizer.chat_template", TEMPLATE),
        context=policy(chat_template_sha256=(PIN,)),
        severity="error",
    ),
    Sample(
        "policy-template",
        ready(),
        "field:tokenizer.chat_template",
        "there is no chat template",
        silent=ready().kv("tokenizer.chat_template", TEMPLATE),
        context=policy(chat_template_sha256=(PIN,)),
    ),
]
