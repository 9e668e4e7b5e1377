"""Publish: a file and its folder before an upload."""

from __future__ import annotations

from dataclasses import replace

from gguftool.lint.publishing import CardCommand, Publishing
from gguftool.lint.rule import Context
from gguftool.model import Model
from gguftool.model import from_source as read
from gguftool.model.card import read_card
from gguftool.source import Memory
from gguftool.verify.manifest import parse
from tests.build import GGUF, llama
from tests.lint.samples import Sample, ready, zeroed

NAME = "Foo-F32.gguf"
BASE = "https://huggingface.co/Org/Foo"
FRONT = (
    "license: apache-2.0\nbase_model: Org/Foo\nbase_model_relation: quantized\npipeline_tag: text-generation\n"
    "library_name: gguf\nquantized_by: me\nlanguage: [en]\ntags: [gguf, chat]"
)
A, B = "a" * 64, "b" * 64


def full(**more: object) -> GGUF:
    """A file with everything that a published one should have."""
    g = ready(**more).replace("general.name", "Foo").kv("general.license", "apache-2.0").kv("general.tags", ["chat"])
    g.kv("general.base_model.count", 1).kv("general.base_model.0.name", "Foo")
    g.kv("general.base_model.0.repo_url", BASE).kv("general.quantized_by", "me").kv("general.languages", ["en"])
    return g.kv("general.repo_url", "https://huggingface.co/me/Foo-GGUF")


def at(name: str, g: GGUF | None = None):  # type: ignore[no-untyped-def]
    def opened(folder: object) -> Model:
        return read(Memory(zeroed(g or full()).bytes(), name), strict=False)

    return opened


def to(name: str = NAME, *, front: str | None = FRONT, body: str = "", **more: object) -> Context:
    """The folder that is published, with a card unless ``front`` is None."""
    card = None if front is None else read_card(f"---\n{front}\n---\n{body}")
    p = Publishing(
        "", name, {name: 1000}, (name,), "me/Foo-GGUF", card, parse(f"{A}  {name}", "SHA256SUMS"), "", {name: A}
    )
    return Context(publishing=replace(p, **more))  # type: ignore[arg-type]


def q8() -> GGUF:
    return quantised(full())


def quantised(g: GGUF | None = None) -> GGUF:
    g = (g or ready()).replace("general.file_type", 7)
    for t in g._tensors:
        if len(t["shape"]) > 1:
            t.update(type="q8_0", data=None)
    return g


PROJECTOR = GGUF("clip").kv("general.type", "mmproj").tensor("v.patch_embd.weight")
OK = at(NAME)
SAMPLES = [
    Sample("name-quantisation", at("Foo-Q4_K_M.gguf", q8()), "file", "Foo-Q4_K_M.gguf says Q4_K_M, its tensors are ",
           context=to("Foo-Q4_K_M.gguf"), fix="mv -n Foo-Q4_K_M.gguf Foo-", severity="warning", silent=OK,
           silent_context=to()),
    Sample("name-quantisation", at("Foo.gguf", q8()), "file", "does not say how it is quantised", severity="info",
           context=to("Foo.gguf"), fix="mv -n Foo.gguf Foo-Q8_0.gguf", silent=at("Foo-q8_0.gguf", q8()),
           silent_context=to("Foo-q8_0.gguf")),
    Sample("name-quantisation", at("Foo-Q8_0.gguf"), message="says Q8_0", context=to("Foo-Q8_0.gguf"),
           silent=at("Foo-Q8_0-imatrix.gguf", full().replace("general.type", "imatrix")),
           silent_context=to("Foo-Q8_0-imatrix.gguf")),
    Sample("name-size", at("Foo-70B-F32.gguf"), "file", "says 70B, its tensors have", context=to("Foo-70B-F32.gguf"),
           silent=OK, silent_context=to()),
    Sample("name-size", at(NAME, full().kv("general.size_label", "7B")), "field:general.size_label", "is 7B",
           context=to(), fix="--set general.size_label=", silent=at("Foo-128k-F32.gguf", full()),
           silent_context=to("Foo-128k-F32.gguf")),
    Sample("name-role", at("vision-F32.gguf", PROJECTOR), "file", "its name does not say mmproj",
           context=to("vision-F32.gguf"), fix="mv -n vision-F32.gguf mmproj-vision-F32.gguf",
           silent=at("mmproj-F32.gguf", PROJECTOR), silent_context=to("mmproj-F32.gguf")),
    Sample("name-role", at("mmproj-Foo-F32.gguf"), "file", "-hf never takes it for the model",
           context=to("mmproj-Foo-F32.gguf"), silent=OK, silent_context=to()),
    Sample("name-odd", at("My Foo-F32.gguf"), "file", "blanks must be quoted", context=to("My Foo-F32.gguf"),
           fix="mv -n 'My Foo-F32.gguf' My-Foo-F32.gguf", silent=OK, silent_context=to()),
    Sample("name-odd", at("Foo-F32.GGUF"), "file", "does not end in .gguf", severity="warning",
           context=to("Foo-F32.GGUF"), silent=OK, silent_context=to()),
    Sample("name-of-model", at(NAME, full().replace("general.name", "9217f5db79a29953eb74d5343926648285ec7e67")),
           "field:general.name", "a commit and no name", context=to(), silent=OK, silent_context=to()),
    Sample("name-of-model", at(NAME, full().replace("general.name", "Checkpoint 500")), message="what a folder was",
           context=to(), silent=at(NAME, full().replace("general.name", "Model T")), silent_context=to()),
    Sample("name-of-model", at(NAME, full().drop("general.name")), message="is missing", context=to(), silent=OK,
           silent_context=to(), fix="--set general.name=Foo", severity="warning"),
    # Outside a folder to be published a missing name is no finding, a wrong one is.
    Sample("name-of-model", ready().replace("general.name", "snapshots"), message="what a folder was", severity="info",
           silent=ready().drop("general.name"), fix="--set 'general.name=…'"),
    Sample("name-of-model", ready().replace("general.name", "0123456789abcdef" * 4)
           .kv("general.source.huggingface.repository", "Qwen/Qwen2.5-7B-Instruct"),
           message="general.source says Qwen2.5 7B Instruct", fix="--set 'general.name=Qwen2.5 7B Instruct'",
           silent=ready().replace("general.name", "Qwen2.5 7B Instruct")),
    Sample("base-model-keys", at(NAME, full().replace("general.base_model.count", 2)),
           "field:general.base_model.count", "is 2, there are entries 0", context=to(), severity="warning",
           fix="--set general.base_model.count=1", silent=OK, silent_context=to()),
    Sample("base-model-keys", at(NAME, full().drop("general.base_model.count", "general.base_model.0.name",
                                                   "general.base_model.0.repo_url")),
           message="the card says Org/Foo", context=to(), severity="info", silent=OK, silent_context=to(),
           fix="--set general.base_model.count=1 --set general.base_model.0.name=Foo"),
    Sample("base-model-keys", at(NAME, ready()), message="is said nowhere", context=to(front="license: mit"),
           severity="info", silent=OK, silent_context=to()),
    Sample("base-model-keys", at(NAME, quantised()), message="is said nowhere", context=to(front="license: mit"),
           severity="warning", silent_context=to(),
           silent=at(NAME, ready().kv("general.source.huggingface.repository", "Org/Foo"))),
    Sample("credit-missing", at(NAME, full().drop("general.repo_url")), "field:general.repo_url",
           "says https://huggingface.co/me/Foo-GGUF", context=to(), silent=OK, silent_context=to(), severity="info",
           fix="--set general.repo_url=https://huggingface.co/me/Foo-GGUF"),
    Sample("credit-missing", at(NAME, full().drop("general.tags", "general.languages")), "field:general.languages",
           "the card says en", context=to(), silent=OK, silent_context=to(), fix="--set general.languages=en"),
    Sample("scanner-objects", at(NAME, full().kv("tokenizer.chat_template", "x").kv("general.description", "https://e.org")),
           "field:general.description", "general.description holds an address (https://e.org): c4nary 0.3.1",
           context=to(), severity="info", fix="--delete general.description",
           silent=at(NAME, full().kv("tokenizer.chat_template", "{{ messages }}")), silent_context=to()),
    Sample("own-records", at(NAME, full().kv("gguftool.version", "0.1").kv("gguftool.quantize.type", "F32")),
           message="gguftool.version and gguftool.quantize.type are records", context=to(), silent=OK,
           silent_context=to(), fix="--delete gguftool.version --delete gguftool.quantize.type"),
    Sample("filler-present", at(NAME, full().kv("gguftool.pad", "    ")), severity="warning", context=to(),
           silent=OK, silent_context=to(), fix="--strip-padding"),
    Sample("licence-missing", at(NAME, full().drop("general.license")), severity="warning", context=to(), silent=OK,
           silent_context=to(), fix="--set general.license=apache-2.0"),
    Sample("sums-missing", OK, "file", "no SHA256SUMS", context=to(sums=None), fix="push-check . --write", silent=OK,
           silent_context=to(), severity="info"),
    Sample("sums-wrong", OK, "file", f"SHA256SUMS has {A[:12]}… for {NAME}, the file has {B[:12]}…", severity="error",
           context=to(hashes={NAME: B}), fix="push-check . --write --overwrite --repo me/Foo-GGUF", silent=OK,
           silent_context=to()),
    Sample("sums-wrong", OK, message="does not list", context=to(sums=parse(f"{A}  other.txt", "SHA256SUMS")),
           severity="warning", silent=OK, silent_context=to(hashes={})),
    Sample("sums-wrong", OK, message="lists gone.gguf, which is not here", silent=OK, silent_context=to(),
           context=to(sums=parse(f"{A}  {NAME}\n{B}  gone.gguf", "SHA256SUMS"))),
    Sample("sums-wrong", OK, message="cannot be read: nothing", context=to(sums=None, sums_fault="nothing"), silent=OK,
           silent_context=to()),
    Sample("leftover-files", OK, message="Foo-F32.gguf-undo-1 (65,540 bytes) would be uploaded", silent=OK,
           context=to(sizes={NAME: 1, f"{NAME}-undo-1": 65540}), silent_context=to(), fix="rm Foo-F32.gguf-undo-1"),
    Sample("leftover-files", OK, message="x.gguf.prepare, what gguftool prepare worked in (2 files, 7 bytes), would be",
           context=to(sizes={NAME: 1, "x.gguf.prepare/state.json": 3, "x.gguf.prepare/logs/1-fix.log": 4}), silent=OK,
           silent_context=to(), fix="rm -r x.gguf.prepare"),
    Sample("card-missing", OK, "file", "the Hub shows an empty page", context=to(front=None), silent=OK,
           silent_context=to(), fix="push-check . --write --repo me/Foo-GGUF", severity="warning"),
    Sample("card-unreadable", OK, message="is no YAML", context=to(front="a: b: c"), severity="error", silent=OK,
           silent_context=to()),
    Sample("card-unreadable", OK, message="has no metadata in front", context=to(card=read_card("# Foo")),
           severity="warning", silent=OK, silent_context=to()),
    Sample("card-licence", OK, message="says license: mit, the file says apache-2.0", severity="warning", silent=OK,
           context=to(front="license: mit"), silent_context=to()),
    Sample("card-licence", OK, message="'Apache 2.0' is not on the Hub's list; near: apache-2.0", silent=OK,
           context=to(front="license: Apache 2.0"), silent_context=to()),
    Sample("card-licence", OK, message="has no license; the file says apache-2.0", context=to(front="tags: [a]"),
           silent=OK, silent_context=to(), fix="--write"),
    Sample("card-licence", OK, message="license_link is missing", severity="info", silent=OK, silent_context=to(),
           context=to(front="license: other\nlicense_name: mine")),
    Sample("card-base-model", OK, message="says base_model: Other/Bar, the file was made of Org/Foo", silent=OK,
           context=to(front="base_model: Other/Bar"), silent_context=to(front="base_model: Other/foo")),
    Sample("card-base-model", OK, message="has no base_model; the file was made of Org/Foo", fix="--write", silent=OK,
           context=to(front="license: mit"), silent_context=to()),
    Sample("card-base-model", OK, message="'Foo' is not OWNER/NAME", silent=OK, context=to(front="base_model: Foo"),
           silent_context=to()),
    Sample("card-base-model", OK, message="is the repository itself", context=to(front="base_model: me/Foo-GGUF"),
           silent=OK, silent_context=to()),
    Sample("card-base-model", OK, message="base_model_relation is finetune", severity="info", silent=OK,
           context=to(front="base_model: Org/Foo\nbase_model_relation: finetune"), silent_context=to()),
    Sample("card-fields", OK, message="pipeline_tag is feature-extraction, the model writes text", silent=OK,
           context=to(front="pipeline_tag: feature-extraction"), silent_context=to(), severity="warning"),
    Sample("card-fields", OK, message="library_name is transformers", silent=OK, silent_context=to(),
           context=to(front="pipeline_tag: text-generation\nlibrary_name: transformers")),
    Sample("card-fields", OK, message="says quantized_by: you, the file says me", silent=OK, silent_context=to(),
           context=to(front="pipeline_tag: text-generation\nquantized_by: you")),
    Sample("card-command", OK, message="`llama-server -hf x`: it names x", silent=OK, severity="warning",
           context=to(commands=(CardCommand("llama-server -hf x", "it names x"),)),
           silent_context=to(commands=(CardCommand("llama-server -hf me/Foo-GGUF", ""),))),
    Sample("card-file", OK, message="names Foo-F16.gguf, which is not here", context=to(body="| Foo-F16.gguf |"),
           silent=OK, silent_context=to(body="`Foo-F32.gguf`, *.gguf, https://hf.co/other/Bar/Bar-Q4.gguf")),
    Sample("card-hash", OK, message=f"has {B[:12]}… for {NAME}", context=to(body=f"| {NAME} | {B} |"), silent=OK,
           silent_context=to(body=f"| {NAME} | {A.upper()} |\n{B}"), severity="error"),
]  # fmt: skip


def large(size: int):  # type: ignore[no-untyped-def]
    return lambda folder: read(Memory(zeroed(llama()).bytes(), NAME, size), strict=False)


SAMPLES += [
    Sample("file-too-large", large(612 * 10**9), "file", "the Hub takes", context=to(), severity="error",
           fix="gguftool split Foo-F32.gguf --max-size 190GB", silent=OK, silent_context=to()),
    Sample("file-too-large", large(201 * 10**9), message="recommends less than", context=to(), severity="warning",
           silent=large(199 * 10**9), silent_context=to()),
]  # fmt: skip
